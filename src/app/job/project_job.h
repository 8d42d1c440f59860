// Reads a training run from the user's files and fills in the arguments of a prediction.
#ifndef PLIM_APP_PROJECT_JOB_H
#define PLIM_APP_PROJECT_JOB_H

#include "job_options.h"
#include "run_settings.h"

typedef struct {
  plim_project project;
  size_t
      named_count; // the first files of the project, which were named; the others were found from them
  plim_run_settings run;
  plim_notes notes;     // assumptions, and what is not modelled
  char *targets;        // owned
  char *projected;      // owned: expressions for the modules whose gradients are projected; or NULL
  char *trained;        // owned: expressions for the names of trained parameters; or NULL
  const char *conf_by;  // the program that sets the allocator's configuration; NULL: none
  char teacher[128];    // of distillation
  char qat[48];         // job_args
  char unadapted[80];   // job_args.left_plain
  bool holds_precision; // it is not modelled; the planner must not change it
  bool is_megatron;     // Megatron trains, with its own models and losses
  bool is_of_texts;     // project_job_read_texts
} project_job;

// The help of the option --command.
#define PROJECT_COMMAND_HELP                                                                       \
  "the command that starts the training, in quotes; it is read, not run: \"python train.py "       \
  "--batch_size 8\""

// What the user gave.
typedef struct {
  const char *const *files;
  size_t count;
  const char *command;     // the launch command, as typed; NULL: none
  const cli_strings *sets; // --set KNOB=FILE:KEY; NULL: none
} project_input;

// Reads the command and the files, the files that they refer to, and --set. Fills only p->project. The command is its first
// file; the current folder is where it starts.
plim_err project_job_open(project_job *p, const project_input *in, plim_error *error);
// The same for a command line: the text of a shell script that is in no file. It is the project's first file, and the
// current folder is where it starts.
plim_err project_job_open_command(project_job *p, const char *script, const cli_strings *sets,
                                  plim_error *error);
// Reads the files as project_job_open does, and fills p->run. Fails if the files train nothing.
plim_err project_job_read(project_job *p, const project_input *in, plim_error *error);
// The same for files that are texts, not on disk, and a command as typed, or NULL. Nothing else is read: no files that
// these refer to, no versions that are pinned or installed here, no environment.
typedef struct {
  const char *path, *text;
} project_text;
plim_err project_job_read_texts(project_job *p, const project_text *files, size_t count,
                                const char *command, plim_error *error);
void project_job_clear(project_job *p);

// Part of project_job_open: reads the only training of a folder (project_job_folder.c). Fails with a question if there are
// several.
plim_err project_job_add_folder(project_job *p, const char *folder, const project_input *in,
                                plim_error *error);

// Fills arguments that still have their defaults with the values from the files; the default of batch,
// accumulation and GPUs is JOB_UNSET. Fails if the files do not set the batch; it is never guessed.
plim_err project_job_fill(project_job *p, job_args *args, plim_error *error);

// If an error is about an option that was not typed, rewrites it to name the file that set the value
// (project_job_blame.c). *source is the text that the error's byte counts in, or NULL; it becomes NULL if the byte then
// counts in the file.
plim_err project_job_blame(const project_job *p, const job_args *args, const char **source,
                           plim_err err, plim_error *error);

// If an error's hint is to simulate a program, names the program that these files belong to. Returns err.
plim_err project_job_name_program(const project_job *p, plim_err err, plim_error *error);

// Adds notes on everything that is unclear or predicted as something else. Call it when the arguments are filled in
// (project_job_notes.c).
void project_job_note_open(project_job *p, const job_args *args);

// Gives notes on settings without effect the place in the files that sets them.
void project_job_place_notes(const project_job *p, plim_notes *notes);

// Evaluation during training, which is not on the tape (project_job_evaluation.c).
typedef struct {
  bool runs;
  int64_t batch;    // sequences per GPU
  int64_t length;   // of each
  const char *key;  // the key that sets the batch
  const char *file; // and where it is, if `line` is not 0; if `is_packed`, the key that packs
  int line;
  bool is_packed;        // Axolotl: rows are those of training, whatever `key` says
  bool is_padded;        // shorter texts make no shorter rows
  int64_t sample_length; // tokens of a sequence that is not packed
  bool keeps_logits;     // the logits of all batches stay on the GPU, for compute_metrics
  int64_t
      moves_after; // batches after which they go to the host (eval_accumulation_steps); 0: never
  bool generates;  // it generates text
  bool lacks_fused_loss; // training's loss has no logits, evaluation's has
  uint64_t logits_bytes; // of one batch; 0: they are never all in memory
  uint64_t sample_bytes; // of one sequence that is not packed
} job_evaluation;
job_evaluation project_job_evaluation(const project_job *p, const plim_job *job);
// Whether it may need more memory than training.
bool job_evaluation_matters(const job_evaluation *e, const plim_job *job);
// What evaluation needs at least: what is there between two steps of that estimate, and the logits of a batch.
uint64_t job_evaluation_bytes(const job_evaluation *v, const plim_estimate *e);
// The largest batch of `key`, without packing, whose logits leave the card enough for the rest; 0: none.
int64_t job_evaluation_largest(const job_evaluation *v, const plim_estimate *e);
// What makes an evaluation fit that does not: "set eval_batch_size to 2 or less".
typedef struct {
  char text[192];
} job_evaluation_cure_text;
job_evaluation_cure_text job_evaluation_cure(const job_evaluation *v, const plim_estimate *e);
// What evaluation needs if that is more than what training needs; else 0. `files` is a project_job (plim_plan_request).
uint64_t job_evaluation_beyond(const void *files, const plim_job *job, const plim_estimate *e);
// Notes a batch of evaluation that Axolotl does not read, because it packs.
void project_job_note_eval_batch(project_job *p);
// Whether samples are packed to rows of the same length.
bool project_job_packs(const project_job *p);
// Says whether samples are packed.
void project_job_note_batches(const project_job *p, job_request *r);
// Adds a note if evaluation may need more memory than training: with the files' own settings, of which `e` is the
// estimate, or with those of a plan. Returns whether it did.
bool project_job_note_evaluation(const project_job *p, const plim_job *job, const plim_estimate *e,
                                 bool is_planned, plim_notes *notes);

// Notes what Axolotl's patches do to this model: they stop it, or need memory that is not predicted.
void project_job_note_patches(const project_job *p, const plim_job *job, plim_notes *notes);
// Adds a note if a key of Axolotl would turn on a loss of DPO without all logits, which take that much.
void project_job_note_fused_dpo(const project_job *p, const plim_job *job, uint64_t logits,
                                plim_notes *notes);
// Adds a note if the plan (or the run, if there is none) checkpoints with fp8 and FSDP2 in Axolotl, which can be slow.
void project_job_note_fp8(const project_job *p, const plim_job *own, const plim_job *planned,
                          plim_notes *notes);

// Ignores --lengths, with a note, if batches do not depend on the lengths of samples.
void project_job_drop_lengths(project_job *p, job_args *args);

// Adds notes on knobs that cannot be changed in the files, with the reason.
void project_job_note_fixed(project_job *p);

// Part of project_job_fill: the model, unless one was typed. First refuses what no option can fix (architecture,
// kind of training, parallelism), then an unknown name (project_job_model.c).
plim_err project_job_take_model(project_job *p, job_args *args, plim_error *error);

// Part of project_job_fill: what only torchtune's recipes and models have (project_job_tune.c).
void project_job_fill_tune(project_job *p, job_args *args);
// Part of project_job_fill: layers that round while they are trained (project_job_qat.c).
void project_job_fill_qat(project_job *p, job_args *args);
// Part of project_job_fill, after the strategy and the offload: torchtune's optimizer_in_bwd.
void project_job_fill_in_backward(project_job *p, job_args *args);

// A key that only torchtune's distributed recipes read; NULL: none is set.
const char *project_job_distributed_key(const project_job *p);
// Whether torchao can divide the model's 4-bit weights between so many GPUs; true for other frameworks.
bool project_job_splits_4_bits(const project_job *p, const plim_job *job, int64_t world);
// Notes that it cannot, if that stops the run.
void project_job_note_split(const project_job *p, const plim_job *job, plim_notes *notes);
// Adds a note if the plan's number of passes per step changes what a distillation learns.
void project_job_note_passes(const plim_job *own, const plim_job *planned, plim_notes *notes);

// Part of project_job_fill: what GaLore and APOLLO project (project_job_projection.c).
void project_job_fill_projection(project_job *p, job_args *args);

// Part of project_job_fill: parameters that are trained by name (project_job_trained.c).
void project_job_fill_trained(project_job *p, job_args *args);
// Whether the optimizer trains one layer after another (BAdam).
bool project_job_rotates(const project_job *p);
// The files freeze parameters by name, and args say which; without it there is a note.
bool project_job_knows_trained(const project_job *p, const job_args *args);

// Part of project_job_fill, after adapters: whether the script loads a reference model even with adapters
// (project_job_scripts.c).
void project_job_fill_reference(project_job *p, job_args *args, plim_method method);
// Notes a key that alignment-handbook's parser refuses (project_job_scripts.c).
void project_job_note_mixer(project_job *p, const job_args *args);

// Part of project_job_fill, after the offload: whether another optimizer trains on the host (project_job_engine.c).
void project_job_fill_host_optimizer(project_job *p, job_args *args);
// Part of project_job_fill: settings that newer releases lack bound the versions in args->pins
// (project_job_releases.c).
void project_job_narrow_releases(project_job *p, job_args *args);

// What the ecosystem does by default, applied after the rest; and notes on what remains open
// (project_job_ecosystem.c).
// Whether the files load a model without saying in which dtype; then the version of transformers decides.
bool project_job_leaves_dtype(const project_job *p, const job_args *args);
void project_job_fill_ecosystem(project_job *p, job_args *args);
// Whether the files train on images or sound, if the model has a part that reads them (project_job_images.c).
bool project_job_sees_images(const project_job *p);
// Whether Axolotl's plugin trains a diffusion language model.
bool project_job_diffuses(const project_job *p);
// Whether Axolotl's plugin replaces the loss by Cut Cross Entropy, which never has all logits.
bool project_job_cuts_loss(const project_job *p);
// Whether the loss is left to TRL, and its version is known and computes all logits at once.
bool project_job_is_before_chunks(const project_job *p, const job_args *args);
// The same for checkpointing, which TRL turns on by default since 0.22 (sft_config.py).
bool project_job_is_before_checkpoints(const project_job *p, const job_args *args);
void project_job_note_ecosystem(project_job *p, const job_args *args);
// The allocator's settings: those in the files, else those of the environment, which a run started here would get.
void project_job_fill_allocator(project_job *p, job_args *args);
// Adds a note that one GPU is assumed, for ecosystems with files that never set the number.
void project_job_note_one(project_job *p, const job_args *args);
// DeepSpeed's bucket sizes, and how a sharded model is loaded (project_job_engine.c).
void project_job_fill_engine(const project_job *p, job_args *args);
// The Python file of the project that contains this code; NULL: none.
const char *project_job_calls(const project_job *p, const char *word);
// The script that loads its model before it creates TrainingArguments, which turn zero.Init on, and where; NULL: none
// (project_job_order.c).
const plim_project_file *project_job_loads_early(const project_job *p, size_t *byte);

// Adds notes on code that shards, checkpoints or casts directly (project_job_code.c).
void project_job_note_code(project_job *p, const job_args *args);
// The setting with a key that contains `part` and ends with `end`, ignoring case; NULL: none.
const plim_setting *project_job_setting(const project_job *p, const char *part, const char *end);

// The count of a knob; 0 if the files do not set it.
int64_t project_job_count(const project_job *p, plim_knob knob);

// Part of project_job_fill: fails if the number of GPUs is not known although sharding or accumulation depends on
// it (project_job_world.c).
plim_err project_job_check_world(project_job *p, job_args *args, plim_error *error);
// The number of cards in the files' CUDA_VISIBLE_DEVICES; 0: not set, or not readable.
int64_t project_job_visible(const project_job *p);
void project_job_note_visible(project_job *p, const job_args *args); // if they are too few
// Whether plain python starts the run, as far as the files show: one process.
bool project_job_is_plain(const project_job *p);
// Computes accumulation from the global batch if it is open (`is_open`); fails if the result is not a whole number.
plim_err project_job_divide(const project_job *p, job_args *args, bool is_open, plim_error *error);

// The effective batch that the files set; 0: they do not set one.
uint64_t project_job_batch(const project_job *p);
// The same, or micro batch x accumulation x GPUs; the number of GPUs in the files takes precedence over `world`.
uint64_t project_job_own_batch(const project_job *p, uint64_t world);

// Whether the program that starts the files' training sets the allocator's configuration, to this value, and whether it
// replaces any other value when it starts several processes (llamafactory-cli does).
#define PROJECT_LAUNCHER_CONF "expandable_segments:True"
bool project_launcher_sets_conf(const plim_project *p);
// Whether LLaMA-Factory's files are for Ray.
bool project_starts_with_ray(const plim_project *p);
// Adds a note that the launcher of the planned run, which is a forced one, sets the allocator's configuration.
void project_job_note_launcher(const project_job *p, plim_notes *notes);
bool project_launcher_sets_conf_on(const plim_project *p, uint64_t world);
bool project_launcher_forces_conf(const plim_project *p);

#endif
