#include <stdlib.h>

#include "cli_alloc.h"
#include "plan_show.h"
#include "term.h"
#include "typed_line.h"

void plan_edits_or_end(const plim_project *project, const plan_for_card *c, const plim_rung *rung,
                       plan_edits *out) {
  if (plan_edits_of(project, c, rung, out, NULL)) cli_out_of_memory();
}

void plan_steps_or_end(const plan_result *r, const plan_for_card *c, size_t rung,
                       const plan_edits *edits, manual_steps *out) {
  if (manual_steps_of(r, c, rung, edits, out, NULL)) cli_out_of_memory();
}

char *plan_replan(const plan_result *r, const plan_for_card *c, const plan_edits *edits) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) cli_out_of_memory();
  typed_options(r->call, out);
  for (size_t i = 0; i < edits->by_hand_count; i++) {
    char flag[160] = "";
    plan_fix_flag(c, edits->by_hand[i].knob, flag, sizeof flag);
    fprintf(out, " %s", flag);
  }
  typed_program(r->call, out);
  if (!plim_stream_end(out, &text)) cli_out_of_memory();
  return text;
}

bool plan_file_takes(const plim_project *project, const plim_knob_change *changes, size_t count) {
  bool can;
  if (plan_can_write(project, changes, count, &can, NULL)) cli_out_of_memory();
  return can;
}

bool plan_file_shares(const plim_project *project, int64_t strategy, int64_t offload) {
  bool can;
  if (plan_can_share(project, strategy, offload, &can, NULL)) cli_out_of_memory();
  return can;
}

void plan_print_comments(const plim_project *p, const plan_edits *edits) {
  char *text;
  if (plan_comments(p, edits->writes, edits->write_count, &text, NULL)) return;
  term_notes(stdout, text);
  free(text);
}
