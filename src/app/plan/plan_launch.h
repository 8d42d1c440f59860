// How a plan over several GPUs, or with DeepSpeed, is started: files and command lines.
#ifndef PLIM_APP_PLAN_LAUNCH_H
#define PLIM_APP_PLAN_LAUNCH_H

#include "manual_steps.h"

typedef struct {
  char command[1024]; // empty: as it is started now
  char sbatch[1280];  // the same through Slurm, for several machines; empty: one machine
  const char *file;   // that is new, beside the user's own; NULL: none
  char *text;         // of it; owned
} plan_launch;

// Of the first rung; all empty for one GPU without an engine. `edits` may be NULL. The only error is that memory is out.
plim_err plan_launch_of(const plan_result *r, const plan_for_card *c, const plan_edits *edits,
                        plan_launch *out, plim_error *error);

// Adds what is to be done by hand: a new file, settings in the user's own, the command.
plim_err plan_launch_steps(const plan_result *r, const plan_for_card *c, const plan_edits *edits,
                           manual_steps *out, plim_error *error);
// Whether it adds any, and whether a new file of its turns checkpointing on.
bool plan_has_launch(const plan_result *r, const plan_for_card *c, const plan_edits *edits);
bool plan_launch_checkpoints(const plan_result *r, const plan_for_card *c, const plan_edits *edits);

#endif
