// Shared by the files of project.h.
#ifndef PLIM_IO_PROJECT_IMPL_H
#define PLIM_IO_PROJECT_IMPL_H

#include "key_names.h"
#include "project.h"

// A file of commands: a shell script or a Dockerfile.
static inline bool plim_is_command(const plim_project_file *f) {
  return f->settings.format == PLIM_FORMAT_SHELL || f->settings.format == PLIM_FORMAT_DOCKERFILE;
}

// Adds to the project's notes; false when memory is out.
bool plim_project_note(plim_project *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Says which file of the project an error is about (SIZE_MAX: none) and returns its code.
plim_err plim_error_file_of(const plim_project *p, size_t file, plim_err code, plim_error *error);

// Makes GPUs of one machine those of all; where none are said, those that the global batch takes
// (project_world.c).
void plim_project_settle_world(plim_project *p);
// Whether micro batch, accumulation and GPUs make the global batch, as far as all are known.
bool plim_project_multiplies_out(const plim_project *p);

// Reads the file that `from` names, if it is found in its folder or above.
plim_err plim_follow_name(plim_project *p, const char *from, const char *name, plim_error *error);
// What Hydra puts together: the configuration of a script's hydra.main, and the files of its defaults
// list, as command lines choose them (project_hydra.c).
plim_err plim_follow_hydra(plim_project *p, const plim_project_file *f, plim_error *error);

// What a command line says instead of the default of a script's argument (project_flags.c).
plim_err plim_flags_decide(plim_project *p, plim_knob knob, plim_error *error);
// The flag of a command that sets an argument; false: none does.
bool plim_project_flag(const plim_project *p, const char *argument, plim_knob_place *out);
// Another command sets it otherwise: NULL if none does.
const plim_setting *plim_project_rival_flag(const plim_project *p, const char *argument,
                                            const plim_knob_place *flag);
// Finds out which flags a command can take (project_parsers.c), and whether a new one is among them.
plim_err plim_project_find_flags(plim_project *p, plim_error *error);
bool plim_project_knows_flag(const plim_project_file *f, const char *key);
// What a name of a script stands for in another file of the project (project_loads.c): a setting, a mapping that
// holds something, or a key that the file it comes from does not have.
typedef enum {
  PLIM_NAME_UNKNOWN,
  PLIM_NAME_FOUND,
  PLIM_NAME_FILLED,
  PLIM_NAME_MISSING
} plim_found_name;
plim_found_name plim_project_lookup(const plim_project *p, const plim_settings *s, const char *name,
                                    plim_knob_place *out);

// The JSON that a trainer's fsdp_config names (project_fsdp.c): whether this file is it, and what its version makes of
// a strategy that is fsdp.
bool plim_is_fsdp_file(const plim_project *p, const plim_project_file *f);
void plim_fsdp_refine(plim_project *p);

// Several trainings in one script (project_twins.c): what only one of them sets is not clear; what all of them set
// alike is changed, or added, in all. The number of edits in all; 0 of added ones: not all have a place.
void plim_twins_doubt(plim_project_file *f);
size_t plim_twins_change(const plim_project_file *f, const plim_key *key, const plim_setting *of,
                         const plim_value *value, plim_edit *edits, size_t count, size_t most);
size_t plim_twins_insert(const plim_project_file *f, const char *key, const plim_value *value,
                         plim_edit *edits, size_t most);

// Stages of one training, a file each, that say different counts: those of the stage that takes most (project_stages.c).
void plim_project_take_stage(plim_project *p);
// Counts that are none leave the knob open (project_counts.c).
void plim_project_doubt_counts(plim_project *p);
// An accumulation that goes by a name of its own leaves the knob open (project_loops.c).
void plim_project_doubt_loops(plim_project *p);
// What command lines and configurations say about the conditions of scripts (project_conditions.c).
void plim_project_decide_conditions(plim_project *p);

// The model, where no key names it outright (project_model.c): what the environment has by default, a file
// of a group of Hydra's, a shape. After it, knobs[PLIM_KNOB_MODEL].why says what was taken.
void plim_project_find_model(plim_project *p);
// Whether a group of Hydra's is the model's, by its name.
bool plim_is_model_group(const char *name, size_t size);
// Where no name says it, the model that the files describe by its shape (project_shape.c).
void plim_project_take_shape(plim_project *p);

// ---- changes ----------------------------------------------------------------------------------------

// Files in the order in which a new key belongs to them, from 0: what trains, what starts it, the parts.
int plim_project_rank(const plim_project *p, size_t file);
// Where a key would stand in the file, of a dialect whose keys are nested or not; false if it has no
// sure place.
bool plim_project_place(const plim_project_file *f, const char *key, bool is_nested,
                        char out[PLIM_KEY_BYTES]);
// The same for an argument of the model, in a command: beside where Hydra is told its name.
bool plim_project_place_of_model(const plim_project_file *f, const char *key,
                                 char out[PLIM_KEY_BYTES]);
// Why it has none: there are several, or a call that does not take it. Nothing is written where there is none at all.
void plim_project_why_no_place(const plim_project_file *f, const char *key, char *why, size_t size);
// Whether the call in Python that a setting is an argument of takes this key as well; what is no call does
// (project_calls.c). And a text that says that it does not.
bool plim_call_takes(const plim_project_file *f, const char *beside, const char *key);
void plim_call_refuses(const char *beside, const char *key, char *why, size_t size);
// use_reentrant=False, where checkpointing is turned on in this file for adapters that need it; nothing where
// it has no sure place (project_reentrant.c).
void plim_project_add_reentrant(const plim_project *p, size_t file, plim_edit_set *out);

// Axolotl's Liger-Kernel, which takes several keys and a plugin; its fused loss comes with it
// (project_liger.c).
bool plim_project_takes_liger(const plim_project *p, const plim_knob_change *c);
plim_err plim_project_add_liger(const plim_project *p, plim_edit_set *out, plim_error *error);

// Refuses edits that make anything else read differently than the knobs that are to change: settings that are
// computed from the literal that an edit replaces. `q` is the project with the edits.
plim_err plim_project_refuse_moves(const plim_project *p, const plim_project *q,
                                   const plim_knob_change *changes, size_t count,
                                   const plim_edit_set *edits, plim_error *error);

// ---- plimsoll.yaml (project_names.c) ----------------------------------------------------------------

// The dialect it says a file has; PLIM_DIALECTS: it does not.
plim_dialect plim_names_dialect(const plim_project *p, const char *path);
// Turns what it says into bindings.
plim_err plim_names_read(plim_project *p, plim_error *error);
// A place that --set or plimsoll.yaml names for the knob and whose key is not there yet; NULL: none.
const plim_binding *plim_binding_to_add(const plim_project *p, plim_knob knob, size_t *file);
// What bindings say about a knob, instead of what the files do by themselves.
plim_err plim_bindings_decide(plim_project *p, plim_knob knob, plim_error *error);
void plim_bindings_clear(plim_project *p);

// From the current folder if it lies below, else as it is.
void plim_path_shorten(const char *path, char out[PLIM_PATH_BYTES]);
// The name of the folder that a file is in, "model" of conf/model/small.yaml; its end is 0: it has none.
plim_span plim_path_folder(const char *path);
// A file in the folder of another.
bool plim_path_beside(const char *of, const char *name, char out[PLIM_PATH_BYTES]);
// What a file is called from the folder that the run is started in (project_start.c).
bool plim_path_from_run(const plim_project *p, const char *path, char out[PLIM_PATH_BYTES]);
// Whether this file was read, by this path or another.
bool plim_project_has(const plim_project *p, const char *path);

// Strategy and offload, which are one way to share; whether a value of theirs is what holds without a word
// (project_compare.c).
bool plim_is_sharing(plim_knob knob);
bool plim_is_without_a_word(plim_knob knob, const plim_value *want);
// Refuses edits after which a knob has not the value that it was to have, or another has moved.
plim_err plim_project_check(const plim_project *p, const plim_knob_change *changes, size_t count,
                            const plim_edit_set *edits, plim_error *error);

bool plim_is_listed(const char *list, const char *word); // in "a,b,c"

#endif
