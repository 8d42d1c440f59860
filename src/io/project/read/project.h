// The files of one training run: which file decides which knob, which values must agree, and where a new
// value has to be written.
//
//   plim_project p = {0};
//   err = plim_project_read(&p, "train.yaml", &error);            // and the others
//   if (!err) err = plim_project_finish(&p, &error);
//   p.knobs[PLIM_KNOB_MICRO_BATCH].value.integer
//   plim_edit_set edits;
//   err = plim_project_set(&p, &(plim_knob_change){PLIM_KNOB_MICRO_BATCH, {.kind = PLIM_VALUE_INTEGER,
//                          .integer = 2}}, 1, &edits, &error);    // then plim_project_text per file
//
// A file plimsoll.yaml, given or found next to one of the files or in a folder above, names the keys of knobs that have
// custom names:
//
//   knobs:
//     micro_batch: config.py:TRAINING.batch           # file:key, keys as in settings.h
//     n_negatives: [conf/stage1.yaml:negatives, conf/stage2.yaml:negatives]   # changed together
//     checkpoint: {file: config.py, key: SAVE_MEMORY, values: {"high": on, "low": off}}
//   files:
//     conf/config.yaml: Lightning                     # if a file could belong to two ecosystems
#ifndef PLIM_IO_PROJECT_H
#define PLIM_IO_PROJECT_H

#include "config.h"
#include "dialect.h"
#include "hash.h"
#include "notes.h"
#include "plan.h"
#include "python_code.h"
#include "text_file.h"
#include "training.h"

typedef struct {
  char *path, *text; // owned
  char *real;        // its path with links resolved; NULL: not read from disk; owned
  size_t size;
  bool is_typed;          // a command line that was typed: there is no such file
  const char *shipped_by; // not here, but known as a file of this trainer; NULL: it is here
  bool is_notebook;       // `text` is the code of its cells; it is never written
  // Of commands in a Makefile or the like (project_launch.c): `text` is the shell script of the target, in which every
  // command is in its line of the file.
  char *target; // its name; NULL: an ordinary file; owned
  char *source; // the file's own text; owned
  size_t source_size;
  uint32_t *from;    // for each byte of `text`, its place there (sourced_text.h); owned
  bool is_lent;      // in a step: text, settings and code belong to the project's file
  char *elsewhere;   // a file of another training that names it too; NULL: none; owned
  char *import_root; // of an imported module: where its name starts; NULL: its folder; owned
  char *flags;       // for a command: the flags that its script's parser accepts; NULL: any; owned
  plim_settings settings;
  plim_python_code code; // of a Python script, to search it
  plim_recognition is;
  plim_recipe_file recipe; // empty if is.dialect is PLIM_DIALECTS
} plim_project_file;

typedef struct {
  size_t file; // index into the project's files
  const plim_setting *setting;
  const plim_key *key;
  plim_value value; // its value there
} plim_knob_place;

enum { PLIM_KNOB_PLACES = 16 };

typedef struct {
  plim_origin origin;
  plim_value value;
  plim_knob_place places[PLIM_KNOB_PLACES]; // the first decides; the others must be equal
  size_t place_count;                       // 0 unless origin is EXPLICIT or UNCLEAR
  bool is_fixed;                            // it cannot be changed; `why` has the reason
  bool is_refused;                          // and the framework would refuse the changed file
  bool is_no_count;                         // the value is not a valid count; `why` has the reason
  bool differs; // files of one kind disagree; all of them are in `places`
  char why[224];
} plim_project_knob;

// The key of a knob that has a custom name.
typedef struct {
  char *path, *name; // owned
  plim_key key;      // its words and their texts are owned
  vec(plim_word) words;
  bool is_from_names; // from plimsoll.yaml, not from --set
} plim_binding;

// A file that another file refers to, but that is missing or cannot be read.
typedef enum {
  PLIM_UNREAD_PART,   // a module or a sourced script, which may set something
  PLIM_UNREAD_DECIDES // a configuration of the run
} plim_unread_part;

typedef struct {
  char *name, *from; // the file, and the file that refers to it; owned
  plim_unread_part part;
  bool shares;     // it configures DeepSpeed, FSDP or accelerate
  bool is_missing; // it does not exist
  plim_error why;  // if it exists: why it cannot be read
  int why_line;    // the line that `why` is about; 0: none
  uint64_t byte;   // where `from` refers to it
  int line;
} plim_unread;

// Index of the settings of all files by name; settings of the same name form a chain (project_index.c).
typedef struct {
  uint32_t file, setting, next;
} plim_named_setting;

typedef struct {
  plim_hash first;
  vec(plim_named_setting) at;
} plim_setting_names;

typedef struct {
  vec(plim_project_file *) files;
  vec(plim_unread *) unread;
  plim_hash unread_names; // index into unread by the name's hash
  plim_line_counter lines;
  vec(plim_binding *) bindings;
  plim_notes notes; // contradictions, and files that could not be read
  char *missing;    // a configuration that a file refers to and that does not exist; NULL: none
  bool has_failed;  // an allocation failed, and a note or a name is lost
  plim_setting_names names;
  plim_dialect dialect; // the ecosystem that trains; PLIM_DIALECTS: none of the files trains
  plim_project_knob knobs[PLIM_KNOBS];
} plim_project;

// Adds a file with a copy of its text. Fails if the text cannot be parsed in the format of its extension.
plim_err plim_project_add(plim_project *p, const char *path, const char *text, size_t size,
                          plim_error *error);
// Adds a command line that was typed, as the text of a shell script. It is no file: nothing writes it, and no diff shows it.
#define PLIM_TYPED_COMMAND "your command"
plim_err plim_project_add_typed(plim_project *p, const char *script, plim_error *error);
// The trainer that ships a file whose path ends like this one, such as "deepspeed_configs/zero2.json"; NULL: none.
const char *plim_shipped_by(const char *name);
// Adds such a file, which is not here, with what it is known to set. Nothing writes it.
plim_err plim_project_add_shipped(plim_project *p, const char *name, plim_error *error);
// Reads a file from disk and adds it, unless it was added before (also by another path). A path below the
// current folder is stored relative to it.
plim_err plim_project_read(plim_project *p, const char *path, plim_error *error);

// Reads a file that the user named. Of a Makefile, a pyproject.toml with tasks, a justfile or a launch.json, it adds the
// commands of the only target that starts a training, or of the one in "Makefile:train"; several are a question.
plim_err plim_project_read_named(plim_project *p, const char *named, plim_error *error);
// Adds the commands of one target of such a file, with this text.
plim_err plim_project_add_target(plim_project *p, const char *path, const char *target,
                                 const char *text, size_t size, plim_error *error);
// Adds a script that was found in such a file, whose text is `source`.
plim_err plim_project_add_script(plim_project *p, const char *path, const char *target,
                                 const char *source, size_t source_size, const char *script,
                                 size_t size, plim_error *error);
// What to type for a file, which the caller frees: "train.yaml", "Makefile:train"; NULL when out of memory.
char *plim_project_name_of(const plim_project_file *f);

// The text of the file itself.
static inline const char *plim_source_of(const plim_project_file *f, size_t *size) {
  *size = f->source ? f->source_size : f->size;
  return f->source ? f->source : f->text;
}

// The place in the file itself of a byte of its text.
uint64_t plim_source_byte(const plim_project_file *f, uint64_t byte);

// Reads the code of a Python script from its text, for the searches of python_code.h. Fails only if memory runs out.
plim_err plim_project_read_code(plim_project_file *f, plim_error *error);

// Also reads the files that the added files refer to, next to them or in a folder above: the configurations
// and the script of a launch script, DeepSpeed's JSON, a script's own modules (where Python looks for them),
// and plimsoll.yaml with the files it names. Missing and unreadable files are listed in `unread`.
plim_err plim_project_follow(plim_project *p, plim_error *error);
// Whether the path is that of a plimsoll.yaml.
bool plim_is_names(const char *path);
// Whether the file `name` exists in the folder of `from` or above.
bool plim_project_finds(const char *from, const char *name);

// Binds a knob to a key, as in `--set knob=file:key`. If a knob is bound to several keys, they change together.
plim_err plim_project_bind(plim_project *p, plim_knob knob, const char *path, const char *key,
                           plim_error *error);

// Reads plimsoll.yaml, recognises the ecosystem of each file and decides every knob. Add nothing afterwards.
plim_err plim_project_finish(plim_project *p, plim_error *error);

// Adds notes about unknown keys that look like misspelled known keys (project_typos.c).
void plim_project_note_typos(plim_project *p);

void plim_project_clear(plim_project *p);

// Finds a file by its path, or by the end of its path if that is unique.
plim_err plim_project_find(const plim_project *p, const char *path, size_t *out, plim_error *error);

// Whether a file is outside the current folder, with links resolved.
// Its name in a diff: relative to the current folder with links resolved, because git does not follow links; or, if any
// file of the diff is outside, relative to the root without the first slash.
bool plim_path_is_outside(const char *path);
void plim_path_in_diff(const char *path, bool from_root, char out[PLIM_PATH_BYTES]);

// How many of `world` GPUs have their own batch (world 0: the number in the files). Returns 0 if not known.
int64_t plim_project_ranks(const plim_project *p, int64_t world);
// Whether no key sets accumulation, so that it is the global batch divided by the micro batches of all GPUs.
bool plim_project_divides(const plim_project *p);
// The global batch divided by the micro batches of all ranks; 0: not known, or not a whole number.
int64_t plim_project_quotient(const plim_project *p, int64_t ranks);

// If accumulation is computed from the global batch, stores it for this micro batch and number of GPUs (0: not
// a whole number) and returns true. Returns false if accumulation is set in another way.
bool plim_project_accumulation(const plim_project *p, int64_t micro_batch, int64_t world,
                               int64_t *out);

// The line of a comment with torchtune's launch command. Of several, that which names this file: a comment may also say how
// another model is trained, such as the teacher of a distillation. NULL: none.
const char *plim_project_tune_command(const plim_project_file *f, size_t *size, int *number);
// The beginning of that command, up to the recipe: "tune run --nproc_per_node 4 full_finetune_distributed". False: there is
// none, or it does not fit.
bool plim_project_tune_start(const plim_project_file *f, char *out, size_t size);
// What follows "plimsoll simulate" to run it with a configuration: "--gpus 4 -- tune run ... --config". False: as above.
bool plim_project_simulate_tune(const plim_project_file *f, char *out, size_t size);

// How the files train, where it is not by texts and is modelled (project_unmodelled.c).
typedef struct {
  plim_method method;    // PLIM_METHOD_TEXTS: by texts, or it is not supported
  bool holds_logits;     // as TRL before 1.15
  bool is_precomputed;   // the reference's log-probabilities are computed before training
  bool centres_rewards;  // a reward model's center_rewards_coefficient is set
  bool skips_divergence; // KTO's loss_type is apo_zero_unpaired
  const char *loss;      // loss_type, if it is not the method's own; NULL otherwise
} plim_project_method;
plim_project_method plim_project_trains(const plim_project *p);
// Whether one of the files is Python code.
bool plim_project_has_script(const plim_project *p);

// Values of knobs that the project's framework refuses together, for a plan; returns how many there are (project_rules.c).
size_t plim_project_refused(const plim_project *p, plim_refused_pair out[PLIM_MAX_REFUSED]);

// Refuses runs that are not supported yet and names what they do: preference training, other heads, layers
// or sequences split over GPUs (project_unmodelled.c).
plim_err plim_project_refuse_unmodelled(const plim_project *p, plim_error *error);

// The head of the model that the files train, by the class that they load; PLIM_HEADS: they do not say.
plim_head plim_project_head(const plim_project *p);
// The value of num_labels; 0: not known.
int64_t plim_project_labels(const plim_project *p);

// A script whose settings come from a command line that is not among the files; NULL: there is none.
const char *plim_project_script_with_flags(const plim_project *p);

// For such a script: the option that gives the command, with the script's own flag for this knob, the model or the micro
// batch. Returns false if there is no such script.
bool plim_project_ask_command(const plim_project *p, plim_knob knob, char *out, size_t size);

// Refuses a YAML file with several documents (project_documents.c).
plim_err plim_project_refuse_documents(const plim_project *p, plim_error *error);

// Refuses a model described by its shape if something is missing or not supported, and names it. Returns
// PLIM_OK also if the files describe no shape.
plim_err plim_project_refuse_shape(const plim_project *p, plim_error *error);

// The setting that names a model which is not a known transformers model, such as a class or a custom name;
// NULL: none.
const plim_setting *plim_project_odd_model(const plim_project *p);

// The file of a data set of LLaMA-Factory v1 that is here and has pairs of answers, as the files name it; NULL: there is none
// (project_data.c).
const char *plim_project_pairs_of_answers(const plim_project *p);
// Whether such data that are here have images, videos or sound.
bool plim_project_has_media(const plim_project *p);

// Whether the files give a rank for adapters.
bool plim_project_adapts(const plim_project *p);

// The file that freezes parameters, other than a script with adapters, which does so anyway; NULL: none.
const char *plim_project_freezes(const plim_project *p);

// Whether nothing may be written to the file.
static inline bool plim_is_unwritable(const plim_project_file *f) {
  return f->shipped_by || f->is_notebook;
}

// ---- for the code that edits files ------------------------------------------------------------------

// A file of commands: a shell script or a Dockerfile.
static inline bool plim_is_command(const plim_project_file *f) {
  return f->settings.format == PLIM_FORMAT_SHELL || f->settings.format == PLIM_FORMAT_DOCKERFILE;
}

// Sets the file of an error (SIZE_MAX: none) and returns the code.
plim_err plim_error_file_of(const plim_project *p, size_t file, plim_err code, plim_error *error);

// Whether micro batch x accumulation x GPUs is the global batch; true if one of them is not known.
bool plim_project_multiplies_out(const plim_project *p);

// Whether the parser of the command's script accepts the flag (project_parsers.c).
bool plim_project_knows_flag(const plim_project_file *f, const char *key);
// A binding of the knob by --set or plimsoll.yaml to a key that does not exist yet; NULL: none.
const plim_binding *plim_binding_to_add(const plim_project *p, plim_knob knob, size_t *file);
// The path of a file `name` in the folder of `of`.
bool plim_path_beside(const char *of, const char *name, char out[PLIM_PATH_BYTES]);
// The path of a file relative to the folder in which the run is started (project_start.c).
bool plim_path_from_run(const plim_project *p, const char *path, char out[PLIM_PATH_BYTES]);
// The last setting with this key, or with a key that ends with it; NULL: none.
const plim_setting *plim_project_setting(const plim_project_file *f, const char *name);

// Several trainings in one script, such as TrainingArguments for two stages (project_parallel_trainings.c).
typedef struct {
  const char *name; // "TrainingArguments#2"; not 0-terminated
  size_t size;
} plim_training;
typedef vec(plim_training) plim_trainings;
// The caller frees `out`. Returns false if memory runs out.
bool plim_trainings_find(const plim_settings *s, plim_trainings *out);

// Whether a text is a saved plan, which is not a file of a training run.
bool plim_is_plan(const char *text, size_t size);

#endif
