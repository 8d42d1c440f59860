// A training run as the user's own files describe it.
#ifndef PLIM_APP_PROJECT_JOB_H
#define PLIM_APP_PROJECT_JOB_H

#include "job_options.h"
#include "run_settings.h"

typedef struct {
  plim_project project;
  plim_run_settings run;
  plim_notes notes;     // what was assumed, or is not modelled
  char *targets;        // owned
  bool holds_precision; // it is one that is not modelled: to be left alone
  bool is_megatron;     // it trains, whosever files these are: with models and losses of its own
} project_job;

// Reads the files, those they name, and what --set says (KNOB=FILE:KEY), into p->project alone.
plim_err project_job_open(project_job *p, const char *const *files, size_t count,
                          const cli_strings *sets, plim_error *error);
// The same, and p->run. The files must train something.
plim_err project_job_read(project_job *p, const char *const *files, size_t count,
                          const cli_strings *sets, plim_error *error);
void project_job_clear(project_job *p);

// Puts what the files say into arguments that were left as they are by default; of batch, accumulation
// and GPUs that is JOB_UNSET. A batch that the files leave open is refused, never made up.
plim_err project_job_fill(project_job *p, job_args *args, plim_error *error);

// Says of an error about an option that it is the file's value, where the file gave it (project_job_blame.c).
plim_err project_job_blame(const project_job *p, const job_args *args, plim_err err,
                           plim_error *error);

// All that is read as something else, or left open, once the rest is filled in (project_job_notes.c).
void project_job_note_open(project_job *p, const job_args *args);

// Notes the knobs that the files fix, with the reason.
void project_job_note_fixed(project_job *p);

// Parts of it: the model, unless one was typed. What no option mends is refused first: a family, a training,
// a way to share; then a name (project_job_model.c).
plim_err project_job_take_model(project_job *p, job_args *args, plim_error *error);

// And what its ecosystem does by itself, once the rest is filled in; what that leaves open is noted
// (project_job_ecosystem.c).
void project_job_fill_ecosystem(project_job *p, job_args *args);
void project_job_note_ecosystem(project_job *p, const job_args *args);
// The allocator's settings: the files' own, else those of the environment, which a run started here has.
void project_job_fill_allocator(const project_job *p, job_args *args);
// That one GPU is assumed, where files of the ecosystem never say it.
void project_job_note_one(project_job *p, const job_args *args);
// DeepSpeed's sizes, and how a shared model is loaded (project_job_engine.c).
void project_job_fill_engine(const project_job *p, job_args *args);
// The Python file of the project whose code has this; NULL: none.
const char *project_job_calls(const project_job *p, const char *word);
// Names code that shards, checkpoints or casts by itself (project_job_code.c).
void project_job_note_code(project_job *p, const job_args *args);
// The setting whose key has this part and this end, without case; NULL: none.
const plim_setting *project_job_setting(const project_job *p, const char *part, const char *end);

// A count that the files may leave out: 0.
int64_t project_job_count(const project_job *p, plim_knob knob);

// Parts of it: how many GPUs there are must be known where they share the model or divide the batch; and
// what they leave of the batch (project_job_world.c).
plim_err project_job_check_world(project_job *p, const job_args *args, plim_error *error);
// Cards that the files' CUDA_VISIBLE_DEVICES names; 0: it is not there, or cannot be read.
int64_t project_job_visible(const project_job *p);
void project_job_note_visible(project_job *p, const job_args *args); // where they are too few
// Python alone starts it, as far as the files show: one process.
bool project_job_is_plain(const project_job *p);
plim_err project_job_divide(const project_job *p, job_args *args, bool is_open, plim_error *error);

// The effective batch the files ask for; 0: they do not say.
uint64_t project_job_batch(const project_job *p);
// The same, or what their counts make on so many GPUs, those they name themselves first.
uint64_t project_job_own_batch(const project_job *p, uint64_t world);

#endif
