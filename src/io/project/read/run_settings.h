// What a project's files say about a run, in the words of a job: everything needed to predict it, each
// with who said so.
#ifndef PLIM_IO_RUN_SETTINGS_H
#define PLIM_IO_RUN_SETTINGS_H

#include "project.h"

typedef struct {
  plim_said said; // PLIM_SAID, PLIM_DEFAULTED (by the ecosystem), or not known: UNSAID, UNCLEAR
  int64_t count;
} plim_said_count;

typedef struct {
  plim_said said;
  double number;
} plim_said_number;

typedef struct {
  plim_said said;
  const char *text; // "" unless it is known; points into the project
} plim_said_text;

typedef struct {
  plim_said_text model; // an id, a path, or what the ecosystem has as its name
  plim_said_count micro_batch, accumulate, global_batch, sequence, world, nodes, workers;
  plim_said_count tensor_parallel, context_parallel, positives, negatives;
  plim_said_text precision, dtype, checkpoint, attention, optimizer,
      quantisation; // values: dialect.h
  plim_said_text strategy, offload, loss_kind, alloc_conf;
  plim_said_text loss;        // full, chunked, eighths, fused: also where liger is on
  plim_said_count loss_chunk; // tokens, where they are said
  plim_said_count lora_rank, empty_cache;
  plim_said_number lora_alpha, lora_dropout, epochs, clip;
  plim_said_text lora_targets;
  plim_said_text liger, packing, compile, reshard; // on, off
  plim_said_text mask; // none, ones, pad, longest: what the ecosystem's batches have
  plim_said_text loop; // trainer, manual
} plim_run_settings;

// Refuses, with the reason, files that train nothing: configurations of launchers, of evaluations.
plim_err plim_run_settings_of(const plim_project *p, plim_run_settings *out, plim_error *error);

#endif
