// What a rung of a plan changes in the user's files, and what remains to be done manually.
#ifndef PLIM_APP_PLAN_EDITS_H
#define PLIM_APP_PLAN_EDITS_H

#include "diff.h"
#include "plan_result.h"
#include "project_change.h"
#include "project_job.h"

enum { PLAN_MAX_WRITES = 16 };

typedef struct {
  plim_knob_change writes[PLAN_MAX_WRITES];
  size_t write_count;
  struct {
    plim_knob knob;
    plim_value value;
    char reason[1024];
  } by_hand[PLAN_MAX_WRITES];
  size_t by_hand_count;
  plim_estimate as_written; // of the files before the manual steps are done, if there are any
} plan_edits;

// Finds out which of the rung's settings can be written. Fails only if memory runs out.
plim_err plan_edits_of(const plim_project *project, const plan_for_card *c, const plim_rung *rung,
                       plan_edits *out, plim_error *error);

// Whether the written files would run out of memory before the manual steps are done.
bool plan_edits_are_half(const plan_edits *edits);

// Appends the flag that keeps a knob at its value in the files: "--fix chunked_loss=off".
void plan_fix_flag(const plan_for_card *c, plim_knob knob, char *text, size_t size);

// Whether this strategy and offload can be written into the files; the values are the planner's. Here and below, calls
// fail only if memory runs out.
plim_err plan_can_share(const plim_project *project, int64_t strategy, int64_t offload, bool *can,
                        plim_error *error);

// Whether the plan's launch command sets the allocator's configuration itself.
bool plan_launcher_sets_conf(const plim_project *p, const plan_for_card *c, const plim_choice *to);

// Whether these changes can be written into the files together.
plim_err plan_can_write(const plim_project *project, const plim_knob_change *changes, size_t count,
                        bool *can, plim_error *error);

// Whether some of the files to write are outside the current folder; a diff then uses paths from the root for all.
bool plan_edits_outside(const plim_project *project, const plim_edit_set *edits);
// A unified diff of these changes to the files; free it with plim_diff_clear.
plim_err plan_diff_of(const plim_project *project, const plim_knob_change *changes, size_t count,
                      plim_diff *out, plim_error *error);
// The command line that was typed, with these changes; NULL: there is none, or it stays. The caller frees it.
plim_err plan_command_of(const plim_project *project, const plim_knob_change *changes, size_t count,
                         char **out, plim_error *error);
// The same, also where it stays: the line that starts the training with these changes. NULL: none was typed.
plim_err plan_command_with(const plim_project *project, const plim_knob_change *changes,
                           size_t count, char **out, plim_error *error);

// One line for each comment next to a number that these changes make wrong; the caller frees the text (plan_comments.c).
plim_err plan_comments(const plim_project *project, const plim_knob_change *changes, size_t count,
                       char **text, plim_error *error);

// The script with its arguments and the values that `edits` write, to append to a launcher's options: "train.py
// --lr 1e-4", with ... for what only the user knows (plan_script.c). `project` may be NULL; the caller frees the text.
plim_err plan_script(const plim_project *project, const plan_edits *edits, char **text,
                     plim_error *error);
// The path of the first file of an ecosystem that is not a command line; NULL: none.
const char *plan_file_of(const plim_project *project, plim_dialect dialect);
// The path of the file with the launch command; NULL: none.
plim_err plan_command_file(const plim_project *project, const char **path, plim_error *error);
// Whether the user's command already starts this number of GPUs.
bool plan_is_started(const plim_project *project, int world);

#endif
