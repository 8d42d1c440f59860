// The files and command lines that start a plan for several GPUs or with DeepSpeed.
#ifndef PLIM_APP_PLAN_LAUNCH_H
#define PLIM_APP_PLAN_LAUNCH_H

#include "manual_steps.h"

typedef struct {
  char *command;    // NULL: the present command works; owned, as are the other two
  char *sbatch;     // the same through Slurm, for several machines; NULL: one machine
  const char *file; // name of a new file to create; NULL: none
  char *text;       // its text
} plan_launch;

// For the first rung; all NULL for one GPU without DeepSpeed. `edits` may be NULL. Fails only if memory runs out.
plim_err plan_launch_of(const plan_result *r, const plan_for_card *c, const plan_edits *edits,
                        plan_launch *out, plim_error *error);
void plan_launch_clear(plan_launch *launch);

// Adds the manual steps: a new file, settings in the user's files, the command.
plim_err plan_launch_steps(const plan_result *r, const plan_for_card *c, const plan_edits *edits,
                           manual_steps *out, plim_error *error);
// Whether plan_launch_steps adds any, and whether its new file turns checkpointing on.
bool plan_has_launch(const plan_result *r, const plan_for_card *c, const plan_edits *edits);
bool plan_launch_checkpoints(const plan_result *r, const plan_for_card *c, const plan_edits *edits);

// torchtune's recipe for this job, as in the comment of its file; else the standard one.
void plan_tune_recipe(const plim_project *project, const plim_job *job, bool is_shared, char *name,
                      size_t size);

#endif
