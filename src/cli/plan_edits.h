// What a plan's rung changes in the user's own files, and what is left to do by hand.
#ifndef PLIM_CLI_PLAN_EDITS_H
#define PLIM_CLI_PLAN_EDITS_H

#include "diff.h"
#include "plan_result.h"
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

// Finds out which of the rung's settings can be written.
void plan_edits_of(const plim_project *project, const plan_for_card *c, const plim_rung *rung,
                   plan_edits *out);

// Whether the files, as they are written, would run out of memory until the rest is done by hand.
bool plan_edits_are_half(const plan_edits *edits);

// The lines of code for what is left by hand; checkpointing may be turned on by a file beside them (plan_by_hand.c).
void plan_print_code(const plan_edits *edits, bool is_checkpointed, FILE *out);
void plan_print_code_of(const plan_edits *edits, size_t at, bool is_checkpointed, FILE *out);

// Of a saved plan, for whoever applies a rung: the lines of code of what is left by hand, what else is to do once it
// is written, and the command that plans without what is left (plan_steps.c).
void plan_write_code(json_writer *j, const plan_result *r, const plan_for_card *c, size_t rung,
                     const plan_edits *edits, size_t at);
void plan_write_todo(json_writer *j, const plan_result *r, const plan_for_card *c, size_t rung);
void plan_write_replan(json_writer *j, const plan_result *r, const plan_for_card *c,
                       const plan_edits *edits);

// "--fix chunked_loss=off": what holds a knob at what the files say, behind what `text` has.
void plan_fix_flag(const plan_for_card *c, plim_knob knob, char *text, size_t size);

// Whether this way to share can be written; values are those of the planner.
bool plan_can_share(const plim_project *project, int64_t strategy, int64_t offload);

// Whether the files have places for these changes, all together.
bool plan_can_write(const plim_project *project, const plim_knob_change *changes, size_t count);

// Whether some of the files to be written lie outside of the current folder: a diff then names all from the root.
bool plan_edits_outside(const plim_project *project, const plim_edit_set *edits);
// A unified diff of these changes; free it with plim_diff_clear.
plim_err plan_diff_of(const plim_project *project, const plim_knob_change *changes, size_t count,
                      plim_diff *out, plim_error *error);

// Lines that name the comments beside numbers which these changes leave untrue, which the caller frees
// (plan_comments.c).
plim_err plan_comments(const plim_project *project, const plim_knob_change *changes, size_t count,
                       size_t width, char **text, plim_error *error);
void plan_print_comments(const plim_project *project, const plan_edits *edits);

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
