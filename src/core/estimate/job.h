// A training run as a whole: the model, how it is loaded, and the recipe it is trained by.
#ifndef PLIM_CORE_JOB_H
#define PLIM_CORE_JOB_H

#include "attention.h"
#include "config.h"
#include "quantised.h"
#include "sharding.h"
#include "training.h"

typedef enum {
  PLIM_LOAD_INIT,       // random weights, built on the device
  PLIM_LOAD_PRETRAINED, // from_pretrained to the host, then to the device; by Trainer if it trains
  PLIM_LOAD_DEVICE_MAP, // from_pretrained(device_map=...): file by file to the device
  PLIM_LOAD_SHARDED     // as PRETRAINED; under zero.Init, so that ZeRO 3 has it whole on no card
} plim_load;

typedef struct {
  plim_config model;
  plim_dtype dtype; // of the parameters
  plim_load load;
  plim_lora lora;            // rank 0: no adapters
  plim_weights_kind weights; // of the projections, frozen; other than plain: they need adapters
  bool
      prepares_kbit; // peft's prepare_model_for_kbit_training: what is not quantised beside quantised
                     // weights becomes float32
  plim_sdpa_kernel sdpa; // what the card prefers
  plim_sharding sharding;
  plim_recipe recipe;
} plim_job;

// The job as it runs: where DeepSpeed is told of a type of 16 bits (bf16.enabled, fp16.enabled; accelerate says so
// for mixed_precision), its engine makes all parameters of that type, whatever they are loaded in; adapters too, but
// not those of a model that zero.Init cut. It has float32 parameters in the optimizer alone, and no autocast.
plim_job plim_job_in_effect(const plim_job *job);

// Refuses, with the reason, what there is no program for.
plim_err plim_job_check(const plim_job *job, plim_error *error);

// Whether the model comes from the host part by part: fully_shard, FSDP and accelerate take one that is there so, and
// from_pretrained runs under zero.Init if it is told to (PLIM_LOAD_SHARDED).
bool plim_job_loads_in_parts(const plim_job *job);

// Builds the model, with its adapters, and wraps it. NULL when memory is out.
plim_model *plim_job_load(plim_tape *t, const plim_job *job);

#endif
