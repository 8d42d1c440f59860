// The files of one training run together: which of them is in force for which knob, what must agree,
// and what to write where so that a knob has another value.
//
//   plim_project p = {0};
//   err = plim_project_read(&p, "train.yaml", &error);            // and the others
//   if (!err) err = plim_project_finish(&p, &error);
//   p.knobs[PLIM_KNOB_MICRO_BATCH].value.integer
//   plim_edit_set edits;
//   err = plim_project_set(&p, &(plim_knob_change){PLIM_KNOB_MICRO_BATCH, {.kind = PLIM_VALUE_INTEGER,
//                          .integer = 2}}, 1, &edits, &error);    // then plim_project_text per file
//
// A file called plimsoll.yaml among them, beside one of them or above, says where knobs are that have names of one's own:
//
//   knobs:
//     micro_batch: config.py:TRAINING.batch           # file:key, keys as in settings.h
//     n_negatives: [conf/stage1.yaml:negatives, conf/stage2.yaml:negatives]   # changed together
//     checkpoint: {file: config.py, key: SAVE_MEMORY, values: {"high": on, "low": off}}
//   files:
//     conf/config.yaml: Lightning                     # where a file could be of two ecosystems
#ifndef PLIM_IO_PROJECT_H
#define PLIM_IO_PROJECT_H

#include "dialect.h"
#include "hash.h"
#include "notes.h"
#include "text_file.h"

typedef struct {
  char *path, *text; // owned
  char *real;        // where it is, links resolved; NULL: not from disk; owned
  size_t size;
  bool is_lent;      // of a step: text and settings are those of the project's own file
  char *import_root; // of an imported module: the folder it was found from; NULL: its own; owned
  char *flags;       // of a command: those that the parser of its script knows; NULL: any; owned
  plim_settings settings;
  plim_recognition is;
  plim_recipe_file recipe; // empty unless is.dialect is one
} plim_project_file;

typedef struct {
  size_t file; // of the project
  const plim_setting *setting;
  const plim_key *key;
  plim_value value; // that it has there
} plim_knob_place;

enum { PLIM_KNOB_PLACES = 16 };

typedef struct {
  plim_origin origin;
  plim_value value;
  plim_knob_place places[PLIM_KNOB_PLACES]; // the first is in force; the others must say the same
  size_t place_count;                       // 0 unless it is SAID or UNCLEAR
  bool is_fixed;                            // `why` says why it does not change
  bool is_no_count; // what is written is no count that the run could take: `why` says so
  bool differs;     // between files of one kind, all of which are in `places`
  char why[224];
} plim_project_knob;

// A knob's place under a name of one's own.
typedef struct {
  char *path, *name; // owned
  plim_key key;      // its words are owned, and so are their texts
  vec(plim_word) words;
  bool is_from_names; // plimsoll.yaml says it
} plim_binding;

// A file that another names and that is not among the files, because it is not there or cannot be read.
typedef enum {
  PLIM_UNREAD_PART,   // a module, a script that is sourced: it may decide something
  PLIM_UNREAD_DECIDES // a configuration of the run
} plim_unread_part;

typedef struct {
  char *name, *from; // the file that names it; owned
  plim_unread_part part;
  bool shares;     // it is for DeepSpeed, FSDP or accelerate
  bool is_missing; // it is not there;
  plim_error why;  // otherwise why it cannot be read
  size_t byte;     // where `from` names it
  int line;
} plim_unread;

// Settings of all files by name, those of one name in a chain (project_index.c).
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
  vec(plim_binding *) bindings;
  plim_notes notes; // what does not fit together, or could not be read
  char *missing;    // a configuration that a file names and which is not here; NULL: none
  bool has_failed;  // memory was out once, and a note or a name is lost
  plim_setting_names names;
  plim_dialect dialect; // of what trains; PLIM_DIALECTS: none of the files does
  plim_project_knob knobs[PLIM_KNOBS];
} plim_project;

// A file with a copy of its text. One that cannot be read as what it claims to be is refused.
plim_err plim_project_add(plim_project *p, const char *path, const char *text, size_t size,
                          plim_error *error);
// The same from disk. One that is there already, also by another path to it, is not read again. A path
// that leads below the current folder is kept from there.
plim_err plim_project_read(plim_project *p, const char *path, plim_error *error);

// Also reads the files that those read so far name, and which exist beside them or in a folder above: a
// launch script's configurations and script, DeepSpeed's JSON; a script's own modules, where Python looks for
// them; and plimsoll.yaml with what it names. What is not there or cannot be read goes to `unread`.
plim_err plim_project_follow(plim_project *p, plim_error *error);
// Whether this is a plimsoll.yaml.
bool plim_is_names(const char *path);
// Whether a file that `from` names is there, in its folder or above.
bool plim_project_finds(const char *from, const char *name);

// Says where a knob is: `--set knob=file:key`. Several places of one knob are changed together.
plim_err plim_project_bind(plim_project *p, plim_knob knob, const char *path, const char *key,
                           plim_error *error);

// Reads plimsoll.yaml, recognises the others, and decides about every knob. After it, nothing is added.
plim_err plim_project_finish(plim_project *p, plim_error *error);

// Notes keys that nobody reads and that are nearly one that counts (project_typos.c).
void plim_project_note_typos(plim_project *p);

void plim_project_clear(plim_project *p);

// The index of a file by its path, or by the end of it if only one has that.
plim_err plim_project_find(const plim_project *p, const char *path, size_t *out, plim_error *error);

// Whether a file lies outside of the current folder, links followed, and what a diff calls it: by its path from there
// without links, which git does not follow; or from the root, without the first slash, as all are called where one of
// them lies outside.
bool plim_path_is_outside(const char *path);
void plim_path_in_diff(const char *path, bool from_root, char out[PLIM_PATH_BYTES]);

// GPUs that have batches of their own, of `world` (0: of as many as the files say); 0: not known.
int64_t plim_project_ranks(const plim_project *p, int64_t world);
// Whether no key says the accumulation, and it is what the global batch leaves.
bool plim_project_divides(const plim_project *p);
// What the micro batches of all ranks leave of the global batch; 0: not known, or not whole.
int64_t plim_project_quotient(const plim_project *p, int64_t ranks);

// Where accumulation is what micro batches on so many GPUs leave of the global batch, that; 0: it does
// not divide. False: accumulation is said otherwise.
bool plim_project_accumulation(const plim_project *p, int64_t micro_batch, int64_t world,
                               int64_t *out);

// Refuses what takes other memory than the recipes that are modelled, with what it is: preference
// training, other heads, layers or sequences that GPUs share (project_unmodelled.c).
plim_err plim_project_refuse_unmodelled(const plim_project *p, plim_error *error);

// Refuses a YAML file of several documents (project_documents.c).
plim_err plim_project_refuse_documents(const plim_project *p, plim_error *error);

// Refuses a model that the files describe by its shape, with what is missing or not followed. PLIM_OK also
// where they describe none.
plim_err plim_project_refuse_shape(const plim_project *p, plim_error *error);

// The setting that names a model which is none of transformers' that are known: a class, a word of one's own;
// NULL: none.
const plim_setting *plim_project_odd_model(const plim_project *p);

// The file that freezes parameters though there are no adapters; NULL: none.
const char *plim_project_freezes(const plim_project *p);

// ---- for those who edit what was read ---------------------------------------------------------------

// A file of commands: a shell script or a Dockerfile.
static inline bool plim_is_command(const plim_project_file *f) {
  return f->settings.format == PLIM_FORMAT_SHELL || f->settings.format == PLIM_FORMAT_DOCKERFILE;
}

// Says which file of the project an error is about (SIZE_MAX: none) and returns its code.
plim_err plim_error_file_of(const plim_project *p, size_t file, plim_err code, plim_error *error);

// Whether micro batch, accumulation and GPUs make the global batch, as far as all are known.
bool plim_project_multiplies_out(const plim_project *p);

// Whether a new flag is among those that the parser of the command's script knows (project_parsers.c).
bool plim_project_knows_flag(const plim_project_file *f, const char *key);
// A place that --set or plimsoll.yaml names for the knob and whose key is not there yet; NULL: none.
const plim_binding *plim_binding_to_add(const plim_project *p, plim_knob knob, size_t *file);
// A file in the folder of another.
bool plim_path_beside(const char *of, const char *name, char out[PLIM_PATH_BYTES]);
// What a file is called from the folder that the run is started in (project_start.c).
bool plim_path_from_run(const plim_project *p, const char *path, char out[PLIM_PATH_BYTES]);
// The last setting whose key is this, or ends with it; NULL: none.
const plim_setting *plim_project_setting(const plim_project_file *f, const char *name);

// Several trainings in one script: TrainingArguments of a first and of a second stage
// (project_parallel_trainings.c).
typedef struct {
  const char *name; // "TrainingArguments#2"; not 0-terminated
  size_t size;
} plim_training;
typedef vec(plim_training) plim_trainings;
// `out` is the caller's to free; false when memory is out.
bool plim_trainings_find(const plim_settings *s, plim_trainings *out);

// Whether a text is a saved plan, which is no file of a training.
bool plim_is_plan(const char *text, size_t size);

#endif
