// Internal declarations shared by the files of this folder.
#ifndef PLIM_IO_PROJECT_IMPL_H
#define PLIM_IO_PROJECT_IMPL_H

#include "key_names.h"
#include "launch_file.h"
#include "project.h"

// Remembers the first configuration that a file refers to and that does not exist.
void plim_project_miss(plim_project *p, const char *name);

// Adds a place to a knob. If there are too many, the knob cannot be changed.
void plim_knob_add_place(plim_project_knob *k, plim_knob_place place);
// Multiplies the GPUs of one machine by the number of machines; if the number of GPUs is not set, computes it
// from the global batch (project_world.c).
void plim_project_settle_world(plim_project *p);
// Finds out which configurations other trainings on disk use as well (project_elsewhere.c).
void plim_project_find_elsewhere(plim_project *p);
// Holds the knobs that a framework does not let change beside other settings (project_rules.c).
void plim_project_apply_rules(plim_project *p);
// Sets keys of torchtune's files aside that their recipe does not read, with notes; and values that plans may not have for
// that reason (tune_recipes.c).
void plim_tune_leave_unread(plim_project *p);
size_t plim_tune_refused(const plim_project *p, plim_refused_pair *out, size_t max);
// Whether the file is for one of torchtune's recipes that the patterns name, separated by blanks; NULL: any of them.
bool plim_tune_recipe_fits(const plim_project *p, const plim_project_file *f, const char *patterns);
// Whether a path is that of a Jupyter notebook, and the code of one as a script, which the caller frees (project_notebook.c).
bool plim_is_notebook(const char *path);
plim_err plim_notebook_code(const char *text, size_t size, char **code, size_t *code_size,
                            plim_error *error);
// Remembers the real path of the file that was added last.
plim_err plim_project_note_real(plim_project *p, const char *path, plim_error *error);
// Where a file refers to another file, and the role of that file.
typedef struct {
  const plim_project_file *from;
  size_t byte;
  bool matters; // false: it may be data or a comment, so it does not matter if it cannot be read
  plim_unread_part part;
  bool shares;
} plim_naming;
// Reads the file `name` if it is found in the folder of `by->from` or above. If it cannot be read and matters, it is
// added to p->unread.
plim_err plim_follow_name(plim_project *p, const plim_naming *by, const char *name,
                          plim_error *error);
// Finds a file in the folder of `from` or in one above it.
bool plim_lookup_file(const char *from, const char *name, char path[PLIM_PATH_BYTES]);
// Finds a file by the end of its path, for paths that are valid only on another machine.
bool plim_lookup_end(const char *from, const char *name, char path[PLIM_PATH_BYTES]);
// Finds the file of a module such as "config/base" where Python would look for it: in the folder of the script (with
// `dots`: of the importing file, or above), in folders that commands add to the path, and above a package that python -m
// runs. `root` is the folder in which the search succeeded.
bool plim_lookup_module(const plim_project *p, const plim_project_file *from, const char *module,
                        int dots, char root[PLIM_PATH_BYTES], char path[PLIM_PATH_BYTES]);
// The folder in which a command of the project is run (project_start.c).
void plim_run_folder(const plim_project_file *command, char out[PLIM_PATH_BYTES]);
// Files that could not be read (project_unread.c). plim_unread_add adds a file that is missing (`why` is NULL) or cannot
// be read. plim_unread_doubt marks knobs as unclear that such a file may set and no other file sets.
plim_err plim_unread_add(plim_project *p, const plim_naming *by, const char *name,
                         const plim_error *why, plim_error *error);
void plim_unread_doubt(plim_project *p);
void plim_unread_clear(plim_project *p);
// Reads the files that Hydra combines: the configuration of a script's hydra.main and the files of its defaults
// list, as selected on the command lines (project_hydra.c).
plim_err plim_follow_hydra(plim_project *p, const plim_project_file *f, plim_error *error);

// Settings by name (project_index.c): flags of commands, arguments and fields of scripts, arguments with an alias. The
// last one read comes first. Other names with the same hash may be in the chain.
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

// Replaces the default of a script's argument by the value from a command line (project_flags.c).
plim_err plim_flags_decide(plim_project *p, plim_knob knob, plim_error *error);
// Finds the flag of a command that sets an argument; false: there is none.
bool plim_project_flag(const plim_project *p, const char *argument, plim_knob_place *out);
// The flag of another command that sets the argument to a different value; NULL: none.
const plim_setting *plim_project_rival_flag(const plim_project *p, const char *argument,
                                            const plim_knob_place *flag);
// Whether the flags of the script are parameters of its functions, as with click, typer and fire (project_parsers.c).
bool plim_project_has_parameters(const plim_project_file *f);
// Finds out which flags each command accepts (project_parsers.c).
plim_err plim_project_find_flags(plim_project *p, plim_error *error);
// Looks up a name of a script that comes from another file of the project (project_loads.c). The result is a setting, a
// mapping that is not empty, or a key that the other file does not have.
typedef enum {
  PLIM_NAME_UNKNOWN,
  PLIM_NAME_FOUND,
  PLIM_NAME_FILLED,
  PLIM_NAME_MISSING
} plim_name_lookup;
plim_name_lookup plim_project_lookup(const plim_project *p, const plim_settings *s,
                                     const char *name, plim_knob_place *out);

// Whether a name of a script, or its parent, was loaded unchanged from a file of the project.
bool plim_project_is_loaded(const plim_project *p, const plim_settings *s, const char *name);
// Marks the knobs of a file as unclear if a script changes its values after loading them.
void plim_project_doubt_loads(plim_project *p);

// The JSON file that a trainer's fsdp_config refers to (project_fsdp.c): whether this file is it, and whether its
// version makes the strategy fsdp or fsdp2.
bool plim_is_fsdp_file(const plim_project *p, const plim_project_file *f);
void plim_fsdp_refine(plim_project *p);

// Marks a knob as unclear if several trainings in one script set it differently (project_parallel_trainings.c).
void plim_trainings_doubt(plim_project_file *f);

// If a training has one file per stage and their counts differ, uses the stage that needs most memory
// (project_stages.c).
void plim_project_take_stage(plim_project *p);
// Marks knobs with invalid counts as unclear (project_counts.c).
void plim_project_doubt_counts(plim_project *p);
// Marks accumulation as unclear if a loop may accumulate under a custom name (project_loops.c).
void plim_project_doubt_loops(plim_project *p);
// Decides the conditions of scripts from command lines and configurations (project_conditions.c).
void plim_project_decide_conditions(plim_project *p);

// Finds the model if no key names it directly (project_model.c): from the default of an environment variable,
// a file of a Hydra group, or a shape. Afterwards knobs[PLIM_KNOB_MODEL].why names the source.
void plim_project_find_model(plim_project *p);
// Whether a Hydra group is that of the model, judged by its name.
bool plim_is_model_group(const char *name, size_t size);
// Uses the model that the files describe by its shape, if no name is given (project_shape.c).
void plim_project_take_shape(plim_project *p);

// ---- plimsoll.yaml (project_names.c) ----------------------------------------------------------------

// The dialect that plimsoll.yaml sets for a file; PLIM_DIALECTS: none.
plim_dialect plim_names_dialect(const plim_project *p, const char *path);
// Turns its entries into bindings.
plim_err plim_names_read(plim_project *p, plim_error *error);
// Decides a knob from its bindings, which take precedence over the files.
plim_err plim_bindings_decide(plim_project *p, plim_knob knob, plim_error *error);
void plim_bindings_clear(plim_project *p);

// The path relative to the current folder if it is below that, else unchanged.
void plim_path_shorten(const char *path, char out[PLIM_PATH_BYTES]);
// The name of the folder that contains a file: "model" for conf/model/small.yaml. The end is 0 if there is none.
plim_span plim_path_folder(const char *path);
// Whether this file was read, under this path or another.
bool plim_project_has(const plim_project *p, const char *path);

#endif
