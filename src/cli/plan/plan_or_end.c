#include <stdlib.h>

#include "cli_alloc.h"
#include "plan_show.h"
#include "term.h"

void plan_edits_or_end(const plim_project *project, const plan_for_card *c, const plim_rung *rung,
                       plan_edits *out) {
  if (plan_edits_of(project, c, rung, out, NULL)) cli_out_of_memory();
}

void plan_steps_or_end(const plan_result *r, const plan_for_card *c, size_t rung,
                       const plan_edits *edits, manual_steps *out) {
  if (manual_steps_of(r, c, rung, edits, out, NULL)) cli_out_of_memory();
}

void plan_print_comments(const plim_project *p, const plan_edits *edits) {
  char *text;
  if (plan_comments(p, edits->writes, edits->write_count, &text, NULL)) return;
  term_notes(stdout, text);
  free(text);
}
