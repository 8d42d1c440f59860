// The settings of a run as a project's files define them: everything needed for a prediction, each value
// with its origin.
#ifndef PLIM_IO_RUN_SETTINGS_H
#define PLIM_IO_RUN_SETTINGS_H

#include "project.h"

typedef struct {
  plim_origin origin; // EXPLICIT, DEFAULTED (by the ecosystem), or not known: ABSENT, UNCLEAR
  int64_t count;
} plim_known_count;

typedef struct {
  plim_origin origin;
  double number;
} plim_known_number;

typedef struct {
  plim_origin origin;
  const char *text; // "" unless it is known; points into the project
} plim_known_text;

typedef struct {
  plim_known_text model; // an id, a path, or the ecosystem's name for it
  plim_known_count micro_batch, accumulate, global_batch, sequence, world, nodes, workers;
  plim_known_count tensor_parallel, context_parallel, positives, negatives;
  plim_known_text precision, dtype, checkpoint, attention, optimizer,
      quantisation; // values: dialect.h
  plim_known_text strategy, offload, loss_kind, alloc_conf;
  plim_known_text loss;        // full, chunked, eighths, fused (also if liger is on)
  plim_known_count loss_chunk; // tokens, if set
  plim_known_count lora_rank, empty_cache;
  plim_known_number lora_alpha, lora_dropout, epochs, clip;
  plim_known_text lora_targets, lora_saved, lora_layers, lora_excluded, lora_bias;
  plim_known_text dora;                             // on, off
  plim_known_text liger, packing, compile, reshard; // on, off
  plim_known_text mask; // none, ones, pad, longest, packed: the mask of the ecosystem's batches
  plim_known_text loop; // trainer, manual, loss-only
} plim_run_settings;

// Collects the settings. Fails with the reason if the files train nothing, such as configurations of launchers or
// evaluations.
plim_err plim_run_settings_of(const plim_project *p, plim_run_settings *out, plim_error *error);

#endif
