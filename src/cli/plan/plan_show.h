// The ways to show a plan.
#ifndef PLIM_CLI_PLAN_SHOW_H
#define PLIM_CLI_PLAN_SHOW_H

#include "plan_json.h"

void plan_print_text(const plan_result *r);
void plan_print_reasons(const plan_for_card *c);
void plan_print_reproduce(const plan_for_card *c);
// Print why this plan was chosen and what would be faster; how to read the table of changes; at which moments the two
// peaks occur (plan_preference.c).
void plan_print_preference(const plan_for_card *c);
// "16 x 1, strategy zero3, offload parameters": the batch, and what differs. Returns the length written.
size_t plan_list_settings(const plim_choice *from, const plim_choice *to, char *text, size_t size);
void plan_print_sum(const plan_for_card *c);
void plan_print_moments(const plan_for_card *c);
void plan_print_questions(const plan_for_card *c); // that only the user can answer
void plan_print_ladder(const plim_plan *p);
void plan_print_cards(const plan_result *r); // of several: the best of each

void plan_heading(const char *text);

enum { PLAN_TIGHT_SIZE = 200 };
// Why something is not accepted although it would run: the margin. Empty if it is accepted, or runs out of memory.
void plan_why_tight(const plan_for_card *c, const plim_estimate *e, char *text, size_t size);

// Allocator settings longer than this do not go into a table's cell.
enum { PLAN_LONG_CONF = 24 };

// "50,000 samples and 3 epochs": what the steps are counted from.
void plan_data_text(const plan_result *r, char *text, size_t size);

void plan_print_comments(const plim_project *project, const plan_edits *edits);

// The functions of plan_edits.h for the command line: they end the program if memory runs out.
void plan_edits_or_end(const plim_project *project, const plan_for_card *c, const plim_rung *rung,
                       plan_edits *out);
void plan_steps_or_end(const plan_result *r, const plan_for_card *c, size_t rung,
                       const plan_edits *edits, manual_steps *out);

#endif
