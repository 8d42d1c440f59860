#include <stdlib.h>
#include <string.h>

#include "cli_alloc.h"
#include "plan_show.h"
#include "term.h"

// The value that the table has no room for; "": it has.
static const char *long_value_now(const plan_for_card *c, plim_knob knob) {
  const char *conf = plim_choice_conf(&c->asked, &c->plan.before_choice);
  return knob == PLIM_KNOB_ALLOC_CONF && strlen(conf) > PLAN_LONG_CONF ? conf : "";
}

void plan_print_reasons(const plan_for_card *c) {
  for (size_t i = 0; i < c->plan.changes.len; i++) {
    plim_knob knob = c->plan.changes.at[i].knob;
    char text[PLAN_REASON_SIZE];
    const char *now = long_value_now(c, knob);
    plan_reason(c, knob, text, sizeof text);
    if (!*text && !*now) continue;
    char *line = cli_format("%s: %s%s%s%s", plim_knob_table[knob].name, *now ? "now " : "", now,
                            *now && *text ? "; " : "", text);
    term_wrap(stdout, line, 0, 2, (size_t)term_width(stdout));
    free(line);
  }
}
