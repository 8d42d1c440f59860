#include <stdlib.h>

#include "cli_alloc.h"
#include "plan_show.h"
#include "term.h"

void plan_edits_or_end(const plim_project *project, const plan_for_card *c, const plim_rung *rung,
                       plan_edits *out) {
  if (plan_edits_of(project, c, rung, out, NULL)) cli_out_of_memory();
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
