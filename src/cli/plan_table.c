// Plans as rows of a table: the ladder of one card, or the choices for several cards. Only settings that
// some row changes are columns; on a terminal too narrow for them, each row lists those that it changes.
#include <stdlib.h>

#include "plan_result.h"
#include "term.h"
#include "units.h"

enum { LEADING = 4, MOST_COLUMNS = LEADING + PLIM_KNOBS };

typedef struct {
  term_column columns[MOST_COLUMNS];
  plim_knob knobs[PLIM_KNOBS];
  size_t knob_count;
  const plim_choice *before;
  bool is_narrow; // one column for all settings
} layout;

typedef struct {
  const plim_rung *const *at;
  size_t count;
} rung_list;

static bool is_changed(plim_knob knob, rung_list rungs, const plim_choice *before) {
  for (size_t i = 0; i < rungs.count; i++)
    if (rungs.at[i]->choice.at[knob] != before->at[knob]) return true;
  return false;
}

static bool has_own_column(plim_knob knob) {
  return knob != PLIM_KNOB_MICRO_BATCH && knob != PLIM_KNOB_ACCUMULATE;
}

// The widest text is last, where it can be cut.
static layout layout_of(term_column first, rung_list rungs, const plim_choice *before) {
  layout l = {.columns = {first, {"memory", .right = true}, {"step", .right = true}, {"batch"}},
              .before = before};
  bool sets_allocator = is_changed(PLIM_KNOB_ALLOC_CONF, rungs, before);
  for (size_t i = 0; i < plim_plan_knob_count; i++) {
    plim_knob knob = plim_plan_knobs[i];
    if (knob != PLIM_KNOB_ALLOC_CONF && has_own_column(knob) && is_changed(knob, rungs, before))
      l.knobs[l.knob_count++] = knob;
  }
  if (sets_allocator) l.knobs[l.knob_count++] = PLIM_KNOB_ALLOC_CONF;
  for (size_t i = 0; i < l.knob_count; i++)
    l.columns[LEADING + i] = (term_column){plim_knob_table[l.knobs[i]].name,
                                           .shrinks = sets_allocator && i + 1 == l.knob_count};
  return l;
}

static layout narrow(const layout *l) {
  layout n = *l;
  n.is_narrow = true;
  n.columns[LEADING] = (term_column){"changed", .wraps = true};
  return n;
}

static term_table *table_of(const layout *l) {
  return term_table_new(l->columns, LEADING + (l->is_narrow ? 1 : l->knob_count));
}

// "checkpoint on, chunked_loss 512"
static void list_changes(const layout *l, const plim_choice *choice, char *text, size_t size) {
  size_t used = 0;
  *text = 0;
  for (size_t i = 0; i < l->knob_count && used < size; i++) {
    plim_knob knob = l->knobs[i];
    char value[96];
    if (choice->at[knob] == l->before->at[knob]) continue;
    plan_value_text(knob, choice->at[knob], value, sizeof value);
    used += (size_t)snprintf(text + used, size - used, "%s%s %s", used ? ", " : "",
                             plim_knob_table[knob].name, value);
  }
}

static void setting_cells(term_table *t, const layout *l, const plim_choice *choice) {
  char text[512];
  if (l->is_narrow) {
    list_changes(l, choice, text, sizeof text);
    term_table_cell(t, TERM_PLAIN, "%s", text);
    return;
  }
  for (size_t i = 0; i < l->knob_count; i++) {
    plan_value_text(l->knobs[i], choice->at[l->knobs[i]], text, sizeof text);
    term_table_cell(t, TERM_PLAIN, "%s", text);
  }
}

static void rung_cells(term_table *t, const layout *l, const plim_rung *x) {
  term_table_cell(t, TERM_PLAIN, "%s", units_bytes(x->e.device_bytes).text);
  term_table_cell(t, TERM_PLAIN, "%s", units_seconds(x->step_seconds).text);
  term_table_cell(t, TERM_PLAIN, "%lld x %lld", (long long)x->choice.at[PLIM_KNOB_MICRO_BATCH],
                  (long long)x->choice.at[PLIM_KNOB_ACCUMULATE]);
  setting_cells(t, l, &x->choice);
}

static void nothing_fits_cells(term_table *t, const layout *l, const plim_rung *smallest) {
  term_table_cell(t, TERM_PLAIN, "%s", units_bytes(plim_needed_bytes(&smallest->e)).text);
  term_table_cell(t, TERM_RED, "%s", "-");
  term_table_cell(t, TERM_RED, "%s", "nothing fits");
  for (size_t i = 0; i < (l->is_narrow ? 1 : l->knob_count); i++)
    term_table_cell(t, TERM_PLAIN, "%s", "");
}

// Fills a table with all rows.
typedef void filling(term_table *t, const layout *l, const void *rows, size_t count);

static void print_rows(const layout *wide, filling *fill, const void *rows, size_t count) {
  layout l = *wide;
  term_table *t = table_of(&l);
  fill(t, &l, rows, count);
  if (l.knob_count && term_table_is_too_wide(t, stdout)) {
    term_table_free(t);
    l = narrow(wide);
    t = table_of(&l);
    fill(t, &l, rows, count);
  }
  term_table_print(t, stdout);
  term_table_free(t);
}

static void fill_ladder(term_table *t, const layout *l, const void *rows, size_t count) {
  const plim_rung *const *rungs = rows;
  for (size_t i = 0; i < count; i++) {
    term_table_cell(t, TERM_DIM, "%zu", i + 1);
    rung_cells(t, l, rungs[i]);
  }
}

void plan_print_ladder(const plim_plan *p) {
  const plim_rung **rungs = calloc(p->rungs.len, sizeof *rungs);
  if (!rungs) return;
  for (size_t i = 0; i < p->rungs.len; i++) rungs[i] = &p->rungs.at[i];
  layout l = layout_of((term_column){"", .right = true}, (rung_list){rungs, p->rungs.len},
                       &p->before_choice);
  print_rows(&l, fill_ladder, rungs, p->rungs.len);
  free(rungs);
}

static void fill_cards(term_table *t, const layout *l, const void *rows, size_t count) {
  const plan_for_card *cards = rows;
  for (size_t i = 0; i < count; i++) {
    const plim_plan *p = &cards[i].plan;
    bool by_size = cards[i].request.is_known_by_size;
    term_table_cell(t, TERM_PLAIN, "%s",
                    by_size ? units_bytes(cards[i].request.target.budget_bytes).text
                            : cards[i].request.card);
    if (p->rungs.len) rung_cells(t, l, &p->rungs.at[0]);
    else nothing_fits_cells(t, l, &p->smallest);
  }
}

void plan_print_cards(const plan_for_card *cards, size_t count) {
  const plim_rung *best[PLAN_MAX_CARDS];
  size_t found = 0;
  for (size_t i = 0; i < count; i++)
    if (cards[i].plan.rungs.len) best[found++] = &cards[i].plan.rungs.at[0];
  layout l =
      layout_of((term_column){"card"}, (rung_list){best, found}, &cards[0].plan.before_choice);
  print_rows(&l, fill_cards, cards, count);
}
