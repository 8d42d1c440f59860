// What `plimsoll plan` found out, and the ways to show it.
#ifndef PLIM_CLI_PLAN_RESULT_H
#define PLIM_CLI_PLAN_RESULT_H

#include "job_options.h"
#include "json.h"
#include "plan.h"
#include "project_job.h"

enum { PLAN_MAX_CARDS = 16 };

// The plan for one card.
typedef struct {
  job_request request;
  plim_plan_request asked;
  plim_plan plan;
  plim_plan writable;       // where the plan asks for work by hand: the best without it; or empty
  char writable_flags[320]; // "--fix chunked_loss=off"
  char gpu[64];             // as it was typed; empty: the one in this machine
  char *reproduce;          // the command that predicts the first rung; NULL: none does. Owned
  const char *no_reproduce; // what it would take an option for
} plan_for_card;

typedef struct {
  const job_args *args;
  plan_for_card *cards;
  size_t count;
  uint64_t samples; // of the data; PLIM_UNKNOWN: not known
  double epochs;
  double price_per_hour; // NaN: not known
  uint64_t nodes;
  const project_job *files; // NULL: made from flags alone
  uint64_t own_batch;       // the effective batch that the files say; 0: they do not
  const cli_strings *sets;  // of --set
  const cli_call *call;     // as it was typed
} plan_result;

void plan_print_text(const plan_result *r);
// Why a change is made, and that it is no change of what is learned; empty where its name says it all.
enum { PLAN_REASON_SIZE = 320 };
void plan_reason(const plan_for_card *c, plim_knob knob, char *text, size_t size);
void plan_print_reasons(const plan_for_card *c);
void plan_reproduce(const plan_result *r, plan_for_card *c); // fills it in (plan_reproduce.c)
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

// A knob's value in words: "512", "on".
void plan_value_text(plim_knob knob, int64_t value, char *text, size_t size);

// Steps of an optimizer over all data, their hours and price; 0 and NaN where it is not known.
uint64_t plan_steps(const plan_result *r, const plim_rung *rung);
double plan_hours(const plan_result *r, const plim_rung *rung);
double plan_price(const plan_result *r, const plan_for_card *c, const plim_rung *rung);

#endif
