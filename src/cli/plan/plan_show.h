// The ways to show a plan.
#ifndef PLIM_CLI_PLAN_SHOW_H
#define PLIM_CLI_PLAN_SHOW_H

#include "json.h"
#include "plan_edits.h"

void plan_print_text(const plan_result *r);
// Why a change is made, and that it is no change of what is learned; empty where its name says it all.
enum { PLAN_REASON_SIZE = 320 };
void plan_reason(const plan_for_card *c, plim_knob knob, char *text, size_t size);
void plan_print_reasons(const plan_for_card *c);
void plan_print_reproduce(const plan_for_card *c);
void plan_print_todo(const plan_result *r, const plan_for_card *c); // what no file can say
// Of that: what is to be installed and looked after; lines of code for a loss in chunks.
void plan_print_needs(const plan_result *r, const plan_for_card *c, FILE *out);
void plan_print_loss(int64_t tokens, FILE *out);
// Why the plan is first, and what is faster; how its changes add up; which moments its budget is of
// (plan_preference.c).
void plan_print_preference(const plan_for_card *c);
void plan_print_sum(const plan_for_card *c);
void plan_print_moments(const plan_for_card *c);
void plan_print_questions(const plan_for_card *c); // that only the user can answer
void plan_write_questions(json_writer *j, const plan_for_card *c);
bool plan_has_launch(const plan_result *r, const plan_for_card *c); // whether that prints anything
// Of several GPUs, or one with an engine that needs a launcher.
void plan_print_launch(const plan_result *r, const plan_for_card *c, FILE *out);
bool plan_launch_checkpoints(const plan_result *r, const plan_for_card *c); // a file of its does
void plan_write_launch(json_writer *j, const plan_result *r, const plan_for_card *c);
void plan_print_ladder(const plim_plan *p);
void plan_print_cards(const plan_result *r); // of several: the best of each
char *plan_json(const plan_result *r);       // the document; free() it

void plan_heading(const char *text);

// Steps of an optimizer over all data, their hours and price; 0 and NaN where it is not known.
uint64_t plan_steps(const plan_result *r, const plim_rung *rung);
double plan_hours(const plan_result *r, const plim_rung *rung);
double plan_price(const plan_result *r, const plan_for_card *c, const plim_rung *rung);

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

void plan_print_comments(const plim_project *project, const plan_edits *edits);

// Of plan_edits.h, for the command line, which ends where memory is out.
void plan_edits_or_end(const plim_project *project, const plan_for_card *c, const plim_rung *rung,
                       plan_edits *out);
bool plan_file_takes(const plim_project *project, const plim_knob_change *changes, size_t count);
bool plan_file_shares(const plim_project *project, int64_t strategy, int64_t offload);

#endif
