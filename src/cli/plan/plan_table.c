// Plans as rows of a table: the ladder of one card, or the choices for several cards. Only settings that some row
// changes are columns; on a narrow terminal, each row lists the settings that it changes.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_alloc.h"
#include "job_needs.h"
#include "plan_show.h"
#include "term.h"
#include "units.h"

enum { LEADING = 4, LASTING = 2, MOST_COLUMNS = LEADING + LASTING + PLIM_KNOBS };

typedef struct {
  term_column columns[MOST_COLUMNS];
  plim_knob knobs[PLIM_KNOBS];
  size_t knob_count;
  const plim_choice *before;
  const plan_result *lasts; // if hours and a price are shown; NULL: they are not
  size_t leading;           // number of columns before the knobs
  bool is_narrow;           // one column for all settings
  bool has_any_batch;       // steps of different batches are not comparable, tokens per second are
  bool has_marks;           // some row's evaluation needs more than its memory
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

static bool has_marks(rung_list rungs) {
  for (size_t i = 0; i < rungs.count; i++)
    if (rungs.at[i]->evaluation_bytes) return true;
  return false;
}

// The columns of the table. The widest text is last, where it can be cut.
static layout layout_of(term_column first, rung_list rungs, const plim_plan *plan,
                        const plan_result *lasts) {
  const plim_choice *before = &plan->before_choice;
  bool has_any_batch = !plan->effective_batch;
  const char *speed = has_any_batch ? "tokens/s" : "step";
  layout l = {.columns = {first, {"memory", .right = true}, {speed, .right = true}},
              .before = before,
              .lasts = lasts,
              .leading = LEADING - 1,
              .has_any_batch = has_any_batch,
              .has_marks = has_marks(rungs)};
  if (lasts) l.columns[l.leading++] = (term_column){"hours", .right = true};
  if (lasts && !isnan(lasts->price_per_hour))
    l.columns[l.leading++] = (term_column){"price", .right = true};
  l.columns[l.leading++] = (term_column){"batch"};
  bool sets_allocator = is_changed(PLIM_KNOB_ALLOC_CONF, rungs, before);
  for (size_t i = 0; i < plim_plan_knob_count; i++) {
    plim_knob knob = plim_plan_knobs[i];
    if (knob != PLIM_KNOB_ALLOC_CONF && has_own_column(knob) && is_changed(knob, rungs, before))
      l.knobs[l.knob_count++] = knob;
  }
  if (sets_allocator) l.knobs[l.knob_count++] = PLIM_KNOB_ALLOC_CONF;
  for (size_t i = 0; i < l.knob_count; i++)
    l.columns[l.leading + i] = (term_column){plim_knob_table[l.knobs[i]].name,
                                             .shrinks = sets_allocator && i + 1 == l.knob_count};
  return l;
}

static layout narrow(const layout *l) {
  layout n = *l;
  n.is_narrow = true;
  n.columns[l->leading] = (term_column){"changed", .wraps = true};
  return n;
}

static term_table *table_of(const layout *l) {
  return term_table_new(l->columns, l->leading + (l->is_narrow ? 1 : l->knob_count));
}

// Lists the changed settings: "checkpoint on, chunked_loss 512".
static void list_changes(const layout *l, const plim_choice *choice, char *text, size_t size) {
  size_t used = 0;
  *text = 0;
  for (size_t i = 0; i < l->knob_count && used < size; i++) {
    plim_knob knob = l->knobs[i];
    char value[96];
    if (choice->at[knob] == l->before->at[knob]) continue;
    plim_knob_value_text(knob, choice->at[knob], value, sizeof value);
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
    plim_knob_value_text(l->knobs[i], choice->at[l->knobs[i]], text, sizeof text);
    term_table_cell(t, TERM_PLAIN, "%s", text);
  }
}

static void lasting_cells(term_table *t, const plan_result *r, const plan_for_card *c,
                          const plim_rung *x) {
  if (!r) return;
  double hours = x ? plan_hours(r, x) : NAN;
  if (isnan(hours)) term_table_cell(t, TERM_PLAIN, "-");
  else term_table_cell(t, TERM_PLAIN, "%.1f", hours);
  if (isnan(r->price_per_hour)) return;
  if (isnan(hours)) term_table_cell(t, TERM_PLAIN, "-");
  else term_table_cell(t, TERM_PLAIN, "%.2f", plan_price(r, c, x));
}

static void rung_cells(term_table *t, const layout *l, const plan_for_card *c, const plim_rung *x) {
  const char *mark = x->evaluation_bytes ? "*" : l->has_marks ? " " : "";
  term_table_cell(t, TERM_PLAIN, "%s%s", units_bytes(plim_needed_bytes(&x->e)).text, mark);
  bool has_tokens = l->has_any_batch && !isnan(x->tokens_per_second);
  term_table_cell(t, TERM_PLAIN, "%s",
                  has_tokens ? units_count((uint64_t)x->tokens_per_second).text
                             : units_seconds(x->step_seconds).text);
  lasting_cells(t, l->lasts, c, x);
  term_table_cell(t, TERM_PLAIN, "%lld x %lld", (long long)x->choice.at[PLIM_KNOB_MICRO_BATCH],
                  (long long)x->choice.at[PLIM_KNOB_ACCUMULATE]);
  setting_cells(t, l, &x->choice);
}

static void nothing_fits_cells(term_table *t, const layout *l, const plan_for_card *c) {
  const plim_rung *smallest = &c->plan.smallest;
  char may_fit[80];
  snprintf(may_fit, sizeof may_fit, "nothing fits as predicted; the run may need %s",
           estimate_other(c->errs_low));
  term_table_cell(t, TERM_PLAIN, "%s%s", units_bytes(estimate_needed_bytes(&smallest->e)).text,
                  l->has_marks ? " " : "");
  term_table_cell(t, TERM_RED, "%s", "-");
  lasting_cells(t, l->lasts, NULL, NULL);
  term_table_cell(t, TERM_RED, "%s",
                  estimate_may_fit(&smallest->e, c->saved_bytes) ? may_fit : "nothing fits");
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

static void wrap(const char *text, size_t indent) {
  term_wrap(stdout, text, indent, indent, (size_t)term_width(stdout));
}

// A row whose evaluation needs more than its memory.
typedef struct {
  char name[136]; // "row 3", or a GPU
  char needs[64];
} marked_row;

typedef struct {
  marked_row at[PLAN_MAX_CARDS];
  size_t len;
} marked_rows;

static void add_marked(marked_rows *rows, const char *name, const plim_rung *x) {
  bool is_too_much = x->e.has_verdict && x->evaluation_bytes > x->e.budget_bytes;
  if (!x->evaluation_bytes || rows->len == PLAN_MAX_CARDS) return;
  marked_row *row = &rows->at[rows->len++];
  snprintf(row->name, sizeof row->name, "%s", name);
  snprintf(row->needs, sizeof row->needs, "%s%s", units_bytes(x->evaluation_bytes).text,
           is_too_much ? " (more than the GPU has)" : "");
}

// Rows that follow each other and need the same are named together: "at least 7.52 GiB in row 2, row 3".
static void print_marked(const marked_rows *rows, const char *where) {
  char line[4096] = "* evaluation computes all logits, so it needs more memory than that:";
  size_t used = strlen(line);
  for (size_t i = 0; i < rows->len && used < sizeof line; i++) {
    const marked_row *x = &rows->at[i];
    bool is_same = i && strcmp(x->needs, x[-1].needs) == 0;
    if (is_same) used += (size_t)snprintf(line + used, sizeof line - used, ", %s", x->name);
    else
      used += (size_t)snprintf(line + used, sizeof line - used, "%s at least %s %s %s",
                               i ? ";" : "", x->needs, where, x->name);
  }
  if (rows->len) term_wrap(stdout, line, 0, 2, (size_t)term_width(stdout));
}

static void fill_ladder(term_table *t, const layout *l, const void *rows, size_t count) {
  const plim_rung *const *rungs = rows;
  for (size_t i = 0; i < count; i++) {
    term_table_cell(t, TERM_DIM, "%zu", i + 1);
    rung_cells(t, l, NULL, rungs[i]);
  }
}

void plan_print_ladder(const plim_plan *p) {
  const plim_rung **rungs = cli_alloc(p->rungs.len * sizeof *rungs);
  for (size_t i = 0; i < p->rungs.len; i++) rungs[i] = &p->rungs.at[i];
  layout l = layout_of((term_column){"", .right = true}, (rung_list){rungs, p->rungs.len}, p, NULL);
  print_rows(&l, fill_ladder, rungs, p->rungs.len);
  marked_rows marked = {0};
  for (size_t i = 0; i < p->rungs.len; i++) {
    char row[32];
    snprintf(row, sizeof row, "row %zu", i + 1);
    add_marked(&marked, row, rungs[i]);
  }
  print_marked(&marked, "in");
  free(rungs);
}

typedef struct {
  char text[136];
} card_name;

static card_name name_of(const plan_for_card *c) {
  card_name name;
  snprintf(name.text, sizeof name.text, "%s",
           c->request.is_known_by_size ? units_bytes(c->request.target.budget_bytes).text
                                       : c->request.card);
  return name;
}

static void fill_cards(term_table *t, const layout *l, const void *rows, size_t count) {
  const plan_for_card *cards = rows;
  for (size_t i = 0; i < count; i++) {
    const plim_plan *p = &cards[i].plan;
    term_table_cell(t, TERM_PLAIN, "%s", name_of(&cards[i]).text);
    if (p->rungs.len) rung_cells(t, l, &cards[i], &p->rungs.at[0]);
    else nothing_fits_cells(t, l, &cards[i]);
  }
}

static void print_table(const plan_result *r) {
  const plim_rung *best[PLAN_MAX_CARDS];
  size_t found = 0;
  for (size_t i = 0; i < r->count; i++)
    if (r->cards[i].plan.rungs.len) best[found++] = &r->cards[i].plan.rungs.at[0];
  layout l = layout_of((term_column){"GPU"}, (rung_list){best, found}, &r->cards[0].plan,
                       r->samples == PLIM_UNKNOWN ? NULL : r);
  print_rows(&l, fill_cards, r->cards, r->count);
  marked_rows marked = {0};
  for (size_t i = 0; i < r->count; i++)
    if (r->cards[i].plan.rungs.len)
      add_marked(&marked, name_of(&r->cards[i]).text, &r->cards[i].plan.rungs.at[0]);
  print_marked(&marked, "with");
  if (!found || r->samples == PLIM_UNKNOWN) return;
  char data[96];
  plan_data_text(r, data, sizeof data);
  printf("hours are for %s", data);
  if (!l.has_any_batch) printf(", %s steps", units_count(plan_steps(r, best[0])).text);
  printf("\n");
}

static void print_foreign_times(const plan_result *r) {
  bool is_any = false;
  for (size_t i = 0; i < r->count; i++) is_any = is_any || r->cards[i].request.is_known_by_size;
  if (is_any)
    wrap("times for GPUs given by size are those of an H200; name the GPUs (--gpu 4090,5090) to "
         "get their times",
         0);
}

void plan_print_cards(const plan_result *r) {
  char text[256];
  job_describe_model(&r->cards[0].request, r->args, text, sizeof text);
  wrap(text, 0);
  for (size_t i = 0; i < r->count; i++)
    if (*r->cards[i].request.card_note) {
      printf("note: ");
      wrap(r->cards[i].request.card_note, 6);
    }
  printf("\n");
  print_table(r);
  print_foreign_times(r);
}
