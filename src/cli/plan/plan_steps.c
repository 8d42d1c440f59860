// What is left to do once a rung of a saved plan is written: apply shows it, for each rung.
#include <stdlib.h>
#include <string.h>

#include "cli_alloc.h"
#include "command.h"
#include "plan_show.h"
#include "typed_line.h"

typedef struct {
  FILE *out;
  char *text;
  size_t size;
} sheet;

static void open_sheet(sheet *s) {
  s->out = open_memstream(&s->text, &s->size);
  if (!s->out) cli_out_of_memory();
}

// Its lines; blank ones at the ends are left out.
static void close_sheet(sheet *s, json_writer *j, const char *key) {
  if (fclose(s->out)) cli_out_of_memory();
  char *rest = s->text + strspn(s->text, "\n"), *line;
  size_t size = strlen(rest);
  while (size && rest[size - 1] == '\n') rest[--size] = 0;
  json_array(j, key);
  while (size && (line = strsep(&rest, "\n"))) json_string(j, NULL, line);
  json_end(j);
  free(s->text);
}

// The plan as if this rung were its first; it owns nothing.
static plan_for_card from_rung(const plan_for_card *c, size_t rung) {
  plan_for_card view = *c;
  view.plan.rungs.at += rung;
  view.plan.rungs.len -= rung;
  return view;
}

void plan_write_code(json_writer *j, const plan_result *r, const plan_for_card *c, size_t rung,
                     const plan_edits *edits, size_t at) {
  plan_for_card view = from_rung(c, rung);
  sheet s;
  open_sheet(&s);
  plan_print_code_of(edits, at, plan_launch_checkpoints(r, &view), s.out);
  if (edits->by_hand[at].knob == PLIM_KNOB_CHUNKED_LOSS && edits->by_hand[at].value.integer)
    plan_print_loss(edits->by_hand[at].value.integer, s.out);
  close_sheet(&s, j, "lines");
}

void plan_write_todo(json_writer *j, const plan_result *r, const plan_for_card *c, size_t rung) {
  plan_for_card view = from_rung(c, rung);
  sheet s;
  open_sheet(&s);
  plan_print_needs(r, &view, s.out);
  plan_print_launch(r, &view, s.out);
  close_sheet(&s, j, "todo");
}

void plan_write_replan(json_writer *j, const plan_result *r, const plan_for_card *c,
                       const plan_edits *edits) {
  sheet s;
  open_sheet(&s);
  typed_line(r->call, s.out);
  for (size_t i = 0; i < edits->by_hand_count; i++) {
    char flag[160] = "";
    plan_fix_flag(c, edits->by_hand[i].knob, flag, sizeof flag);
    fprintf(s.out, " %s", flag);
  }
  if (fclose(s.out)) cli_out_of_memory();
  json_string(j, "replan", s.text);
  free(s.text);
}
