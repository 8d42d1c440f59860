// A training run as a whole: the model, how it is loaded, and the recipe it is trained by.
#ifndef PLIM_CORE_JOB_H
#define PLIM_CORE_JOB_H

#include "attention.h"
#include "config.h"
#include "sharding.h"
#include "training.h"

typedef struct {
  plim_config model;
  plim_dtype dtype;      // of the parameters
  plim_lora lora;        // rank 0: no adapters
  plim_sdpa_kernel sdpa; // what the card prefers
  plim_sharding sharding;
  plim_recipe recipe;
} plim_job;

// Builds the model, with its adapters, and wraps it. NULL when memory is out.
plim_model *plim_job_load(plim_tape *t, const plim_job *job);

#endif
