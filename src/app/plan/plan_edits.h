// What a plan's rung changes in the user's own files, and what is left to do by hand.
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
    char reason[704];
  } by_hand[PLAN_MAX_WRITES];
  size_t by_hand_count;
  plim_estimate as_written; // where something is left by hand: of the files until it is done
} plan_edits;

// Finds out which of the rung's settings can be written; the only error is that memory is out.
plim_err plan_edits_of(const plim_project *project, const plan_for_card *c, const plim_rung *rung,
                       plan_edits *out, plim_error *error);

// Whether the files, as they are written, would run out of memory until the rest is done by hand.
bool plan_edits_are_half(const plan_edits *edits);

// "--fix chunked_loss=off": what holds a knob at what the files say, behind what `text` has.
void plan_fix_flag(const plan_for_card *c, plim_knob knob, char *text, size_t size);

// Whether this way to share can be written; values are those of the planner. The only error, here and below, is that
// memory is out.
plim_err plan_can_share(const plim_project *project, int64_t strategy, int64_t offload, bool *can,
                        plim_error *error);

// Whether the files have places for these changes, all together.
plim_err plan_can_write(const plim_project *project, const plim_knob_change *changes, size_t count,
                        bool *can, plim_error *error);

// Whether some of the files to be written lie outside of the current folder: a diff then names all from the root.
bool plan_edits_outside(const plim_project *project, const plim_edit_set *edits);
// A unified diff of these changes; free it with plim_diff_clear.
plim_err plan_diff_of(const plim_project *project, const plim_knob_change *changes, size_t count,
                      plim_diff *out, plim_error *error);

// A line for each comment beside a number which these changes leave untrue; the caller frees them (plan_comments.c).
plim_err plan_comments(const plim_project *project, const plim_knob_change *changes, size_t count,
                       char **text, plim_error *error);

// What is started, for a launcher to put its own options before, with what `edits` write: "train.py --lr
// 1e-4", or with ... where only the user knows the rest (plan_script.c). A NULL project has none.
void plan_script(const plim_project *project, const plan_edits *edits, char *text, size_t size);
// The path of the first file of an ecosystem that is no command line; NULL: there is none.
const char *plan_file_of(const plim_project *project, plim_dialect dialect);
// The file with the command that starts it; NULL: there is none.
const char *plan_command_file(const plim_project *project);
// The user's own command starts so many GPUs already.
bool plan_is_started(const plim_project *project, int world);

#endif
