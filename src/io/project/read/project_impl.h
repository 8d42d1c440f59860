// What the files of this folder share.
#ifndef PLIM_IO_PROJECT_IMPL_H
#define PLIM_IO_PROJECT_IMPL_H

#include "key_names.h"
#include "project.h"

// Keeps the first configuration that is named and is not here.
void plim_project_miss(plim_project *p, const char *name);

// One more place of a knob; with more than there is room for, it does not change.
void plim_knob_add_place(plim_project_knob *k, plim_knob_place place);
// Makes GPUs of one machine those of all; where none are said, those that the global batch takes
// (project_world.c).
void plim_project_settle_world(plim_project *p);
// Where a file names another, and what the other is to it.
typedef struct {
  const plim_project_file *from;
  size_t byte;
  bool matters; // if not, it may be data or a remark: that it cannot be read says nothing
  plim_unread_part part;
  bool shares;
} plim_naming;
// Reads the file that is named, if it is found in the folder of `by->from` or above. One that cannot be read goes to
// p->unread, where it matters.
plim_err plim_follow_name(plim_project *p, const plim_naming *by, const char *name,
                          plim_error *error);
// The file in the folder of `from`, or in one above it.
bool plim_lookup_file(const char *from, const char *name, char path[PLIM_PATH_BYTES]);
// A path from another folder than the one it is in here: its end is looked for.
bool plim_lookup_end(const char *from, const char *name, char path[PLIM_PATH_BYTES]);
// The file of "config/base" where Python looks for modules: in the folder of the script (`dots`: of the file itself, or
// above), what commands put on the path, and above a package that python -m runs; with the folder it was found from.
bool plim_lookup_module(const plim_project *p, const plim_project_file *from, const char *module,
                        int dots, char root[PLIM_PATH_BYTES], char path[PLIM_PATH_BYTES]);
// The folder that a command of the project is run in (project_start.c).
void plim_run_folder(const plim_project_file *command, char out[PLIM_PATH_BYTES]);
// Files that could not be read (project_unread.c): adds one that is missing (`why` is NULL) or cannot be read; what
// they may decide and nobody else says becomes unclear.
plim_err plim_unread_add(plim_project *p, const plim_naming *by, const char *name,
                         const plim_error *why, plim_error *error);
void plim_unread_doubt(plim_project *p);
void plim_unread_clear(plim_project *p);
// What Hydra puts together: the configuration of a script's hydra.main, and the files of its defaults
// list, as command lines choose them (project_hydra.c).
plim_err plim_follow_hydra(plim_project *p, const plim_project_file *f, plim_error *error);

// Settings by name (project_index.c): flags of commands, arguments and fields of scripts, arguments with an alias. The
// last that was read comes first; a name of the same hash may be among them.
typedef enum { PLIM_NAME_OF_FLAG, PLIM_NAME_OF_ARGUMENT, PLIM_NAME_OF_ALIAS } plim_name_kind_of;
plim_err plim_project_index(plim_project *p, plim_error *error);
void plim_project_index_clear(plim_project *p);
const plim_named_setting *plim_project_named(const plim_project *p, plim_name_kind_of kind,
                                             const char *name);
const plim_named_setting *plim_project_next_named(const plim_project *p,
                                                  const plim_named_setting *at);
static inline const plim_setting *plim_project_at(const plim_project *p,
                                                  const plim_named_setting *at) {
  return &p->files.at[at->file]->settings.at.at[at->setting];
}

// What a command line says instead of the default of a script's argument (project_flags.c).
plim_err plim_flags_decide(plim_project *p, plim_knob knob, plim_error *error);
// The flag of a command that sets an argument; false: none does.
bool plim_project_flag(const plim_project *p, const char *argument, plim_knob_place *out);
// Another command sets it otherwise: NULL if none does.
const plim_setting *plim_project_rival_flag(const plim_project *p, const char *argument,
                                            const plim_knob_place *flag);
// Finds out which flags a command can take (project_parsers.c), and whether a new one is among them.
plim_err plim_project_find_flags(plim_project *p, plim_error *error);
// What a name of a script stands for in another file of the project (project_loads.c): a setting, a mapping that
// holds something, or a key that the file it comes from does not have.
typedef enum {
  PLIM_NAME_UNKNOWN,
  PLIM_NAME_FOUND,
  PLIM_NAME_FILLED,
  PLIM_NAME_MISSING
} plim_name_lookup;
plim_name_lookup plim_project_lookup(const plim_project *p, const plim_settings *s,
                                     const char *name, plim_knob_place *out);

// Whether a name of a script, or what it is a part of, holds what a file of the project says, and nothing else.
bool plim_project_is_loaded(const plim_project *p, const plim_settings *s, const char *name);
// What a script changes behind its loading leaves the knobs of that file open.
void plim_project_doubt_loads(plim_project *p);

// The JSON that a trainer's fsdp_config names (project_fsdp.c): whether this file is it, and what its version makes of
// a strategy that is fsdp.
bool plim_is_fsdp_file(const plim_project *p, const plim_project_file *f);
void plim_fsdp_refine(plim_project *p);

// Where several trainings in one script say different things, the knob is not clear (project_parallel_trainings.c).
void plim_trainings_doubt(plim_project_file *f);

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

// ---- plimsoll.yaml (project_names.c) ----------------------------------------------------------------

// The dialect it says a file has; PLIM_DIALECTS: it does not.
plim_dialect plim_names_dialect(const plim_project *p, const char *path);
// Turns what it says into bindings.
plim_err plim_names_read(plim_project *p, plim_error *error);
// What bindings say about a knob, instead of what the files do by themselves.
plim_err plim_bindings_decide(plim_project *p, plim_knob knob, plim_error *error);
void plim_bindings_clear(plim_project *p);

// From the current folder if it lies below, else as it is.
void plim_path_shorten(const char *path, char out[PLIM_PATH_BYTES]);
// The name of the folder that a file is in, "model" of conf/model/small.yaml; its end is 0: it has none.
plim_span plim_path_folder(const char *path);
// Whether this file was read, by this path or another.
bool plim_project_has(const plim_project *p, const char *path);

#endif
