#include "shell_settings.h"

#include <string.h>

#include "shell_pieces.h"

#define LIST_STEPS 8 // lists in lists that are followed

// Which command passes a list on.
typedef struct {
  const char *name;
  size_t command, word;
} use;

typedef struct {
  plim_shell_scanner *f;
  const char *text;
  size_t first_group;
  bool is_instruction, only_trainings;
  plim_shell_view *view;
  vec(use) uses;
  plim_arguments words; // of the command at hand
  size_t command;       // its number
  size_t last_source;   // one more than the number of the last command that runs another script
} reader;

void plim_shell_view_clear(plim_shell_view *view) {
  plim_shell_clear(&view->script);
  vec_free(&view->groups);
  vec_free(&view->trainings);
}

static bool is_list(const plim_shell_command *c) { return c->list.end > 0; }

// ---- words ------------------------------------------------------------------------------------------

static size_t name_of(const char *text, const plim_argument *a, bool *is_appended) {
  size_t n = a->head.end - a->head.begin;
  *is_appended = n && text[a->head.end - 1] == '+';
  n -= *is_appended;
  for (size_t i = 0; i < n; i++)
    if (!plim_shell_is_name(text[a->head.begin + i], i == 0)) return 0;
  return n;
}

// NAME=( ... ).
static bool has_list(const char *text, const plim_argument *a) {
  return a->tail.begin < a->tail.end && text[a->tail.begin] == '(';
}

// Nothing, or "": what is added to later, if anything is.
static bool is_empty(const char *text, const plim_argument *a) {
  size_t n = a->tail.end - a->tail.begin;
  return n == 0 || (n == 2 && strchr("'\"", text[a->tail.begin]) &&
                    text[a->tail.begin] == text[a->tail.begin + 1]);
}

static bool is_assignment(const char *text, const plim_argument *a) {
  bool is_appended;
  return a->has_tail && name_of(text, a, &is_appended);
}

// A list's "--lr 1e-4" is split where the list is passed on without quotes.
static bool read_words(const plim_shell_view *view, const char *text, const plim_shell_command *c,
                       plim_arguments *out) {
  out->len = 0;
  for (size_t i = 0; i < c->count; i++) {
    plim_span word = view->script.words.at[c->first + i];
    if (is_list(c) && plim_is_flag_text(text, word)) {
      if (!plim_argument_pieces(text, word, out)) return false;
    } else if (!vec_push(out, plim_argument_at(text, word, PLIM_WORD_WORD))) return false;
  }
  return true;
}

// Assignments in front: words 0 to the result. `env` and what it sets count as such.
static size_t count_assignments(const char *text, const plim_arguments *words) {
  size_t n = 0;
  while (n < words->len && is_assignment(text, &words->at[n])) n++;
  if (n == words->len || !plim_argument_is(text, &words->at[n], "env")) return n;
  size_t set = n + 1;
  while (set < words->len && is_assignment(text, &words->at[set])) set++;
  return set > n + 1 ? set : n;
}

bool plim_shell_arguments(const plim_shell_view *view, const char *text, size_t command,
                          plim_arguments *out) {
  const plim_shell_command *c = &view->script.commands.at[command];
  if (!read_words(view, text, c, out)) return false;
  size_t skipped = is_list(c) ? 0 : count_assignments(text, out);
  if (out->len) memmove(out->at, out->at + skipped, (out->len - skipped) * sizeof *out->at);
  out->len -= skipped;
  return true;
}

// ---- first: which variables are set -----------------------------------------------------------------

static const char *variable_key(reader *r, plim_span name) {
  return plim_scanner_keep_span(r->f, r->text, name, "$");
}

// A variable that is set in a way that makes it no root.
static void set_oddly(reader *r, const char *key) {
  plim_scanner_name(r->f, &r->f->set, key);
  plim_scanner_name(r->f, &r->f->set, key);
}

// source vars.sh: whatever was said before it may be said otherwise there.
static void note_source(reader *r, size_t first) {
  if (!plim_command_sources(r->text, r->words.at + first, r->words.len - first)) return;
  r->f->has_source = true;
  r->last_source = r->command + 1;
}

static void visit_sources(reader *r, size_t command) {
  r->command = command;
  size_t n = count_assignments(r->text, &r->words);
  if (!is_list(&r->view->script.commands.at[command]) && n < r->words.len) note_source(r, n);
}

static bool is_before_source(const reader *r) { return r->command < r->last_source; }

static void note_assignment(reader *r, const plim_argument *a, bool is_lasting) {
  bool is_appended;
  size_t n = name_of(r->text, a, &is_appended);
  const char *key = variable_key(r, (plim_span){a->head.begin, a->head.begin + n});
  bool holds_arguments = plim_is_argument_text(r->text, a->tail);
  bool is_odd =
      is_appended || !is_lasting || holds_arguments || has_list(r->text, a) || is_before_source(r);
  if (holds_arguments || has_list(r->text, a) || is_empty(r->text, a))
    plim_scanner_name(r->f, &r->f->lists, key);
  if (is_odd) set_oddly(r, key);
  else if (!plim_shell_is_given(r->text, a)) plim_scanner_name(r->f, &r->f->set, key);
}

static void note_defaults(reader *r) {
  for (size_t i = 1; i < r->words.len; i++) {
    plim_span name = plim_shell_assigned_default(r->text, r->words.at[i].span);
    if (name.end) plim_scanner_name(r->f, &r->f->set, variable_key(r, name));
  }
}

static void note_words(reader *r, size_t first) {
  bool is_appended;
  for (size_t i = first; i < r->words.len; i++) {
    size_t n = name_of(r->text, &r->words.at[i], &is_appended);
    size_t begin = r->words.at[i].head.begin;
    if (n) set_oddly(r, variable_key(r, (plim_span){begin, begin + n}));
  }
}

static void note_variables(reader *r, const plim_shell_command *c) {
  if (is_list(c) || c->substitutions) return;
  size_t n = count_assignments(r->text, &r->words);
  bool is_all = n == r->words.len;
  for (size_t i = 0; i < n; i++)
    if (is_assignment(r->text, &r->words.at[i])) note_assignment(r, &r->words.at[i], is_all);
  if (is_all) return;
  const plim_argument *program = &r->words.at[n];
  if (plim_shell_is_declaration(r->text, program))
    for (size_t i = n + 1; i < r->words.len; i++)
      if (is_assignment(r->text, &r->words.at[i])) note_assignment(r, &r->words.at[i], true);
  if (r->text[program->span.begin] == ':') note_defaults(r);
  if (plim_shell_sets_its_words(r->text, program)) note_words(r, n + 1);
}

// ---- second: which command gets which list ----------------------------------------------------------

static void note_uses(reader *r, size_t command) {
  for (size_t i = 0; i < r->words.len; i++) {
    plim_span span = r->words.at[i].span;
    if (r->text[span.begin] != '$' && r->text[span.begin] != '"') continue;
    plim_span name = plim_shell_list_name(r->text, span);
    const char *key = name.end ? variable_key(r, name) : "";
    if (!plim_names_count(&r->f->lists, key)) continue;
    if (!vec_push(&r->uses, (use){key, command, i})) r->f->is_out = true;
  }
}

static int by_name(const void *x, const void *y) {
  return strcmp(((const use *)x)->name, ((const use *)y)->name);
}

// The one use of a list; NULL if there is none, or several.
static const use *only_use(const reader *r, const char *name) {
  use wanted = {.name = name};
  if (!r->uses.len) return NULL;
  const use *end = r->uses.at + r->uses.len;
  const use *hit = bsearch(&wanted, r->uses.at, r->uses.len, sizeof wanted, by_name);
  if (!hit || (hit > r->uses.at && by_name(hit - 1, hit) == 0)) return NULL;
  return hit + 1 < end && by_name(hit, hit + 1) == 0 ? NULL : hit;
}

// The command that the words of list `name` end up in, and where.
static size_t follow(reader *r, const char *name, size_t own, size_t *order) {
  size_t group = own;
  *order = 0;
  for (int i = 0; i < LIST_STEPS; i++) {
    const use *u = only_use(r, name);
    if (!u) break;
    group = u->command;
    *order = u->word;
    const plim_shell_command *c = &r->view->script.commands.at[group];
    if (!is_list(c)) break;
    name = variable_key(r, c->list);
  }
  return group;
}

// ---- third: settings --------------------------------------------------------------------------------

static void find_words(reader *r, const plim_argument_list *list) {
  plim_argument_list all = *list;
  all.text = r->text;
  all.group += r->first_group;
  plim_arguments_find(r->f, &all);
}

static const char under_condition[] = "if a condition holds";
static const char before_source[] = "unless the script that is sourced says otherwise";

static bool is_conditional(const reader *r) {
  return r->view->script.commands.at[r->command].is_conditional;
}

static void find_pieces(reader *r, plim_span text, size_t group, size_t order) {
  plim_arguments pieces = {0};
  if (!plim_argument_pieces(r->text, text, &pieces)) r->f->is_out = true;
  plim_command_kind kind = plim_command_kind_of(r->text, pieces.at, pieces.len, false);
  plim_argument_list list = {.at = pieces.at,
                             .count = pieces.len,
                             .group = group,
                             .order = order,
                             .is_list = true,
                             .prefix = "",
                             .expects_script = kind.is_launcher,
                             .has_overrides = kind.is_launcher};
  find_words(r, &list);
  vec_free(&pieces);
}

static void find_variable(reader *r, const plim_argument *a, size_t command) {
  bool is_appended;
  size_t n = name_of(r->text, a, &is_appended), order;
  const char *key = variable_key(r, (plim_span){a->head.begin, a->head.begin + n});
  if (has_list(r->text, a)) return;
  if (plim_is_argument_text(r->text, a->tail)) {
    size_t group = follow(r, key, command, &order), from = r->f->at.len;
    find_pieces(r, a->tail, group, order);
    if (is_conditional(r)) plim_scanner_doubt(r->f, from, r->text, under_condition);
    return;
  }
  if (plim_shell_is_given(r->text, a) && plim_names_count(&r->f->set, key)) return;
  plim_shell_value found = plim_scanner_read(r->f, r->text, a->tail, a->tail_place, key);
  if (is_appended)
    found = (plim_shell_value){
        .value = {.kind = PLIM_VALUE_DERIVED}, .span = a->tail, .place = a->tail_place};
  if (is_appended) found.value.text = plim_scanner_keep_span(r->f, r->text, a->span, "");
  found.kind = PLIM_FOUND_VARIABLE;
  found.name = key;
  size_t from = r->f->at.len;
  bool is_literal = found.value.kind != PLIM_VALUE_DERIVED;
  bool is_alternative = is_conditional(r) && plim_names_count(&r->f->set, key) > 1;
  plim_scanner_add(r->f, found);
  if (is_literal && is_before_source(r)) plim_scanner_doubt(r->f, from, r->text, before_source);
  else if (is_literal && is_alternative) plim_scanner_doubt(r->f, from, r->text, under_condition);
}

static void find_defaults(reader *r) {
  for (size_t i = 1; i < r->words.len; i++) {
    plim_span name = plim_shell_assigned_default(r->text, r->words.at[i].span);
    if (!name.end) continue;
    const char *key = variable_key(r, name);
    plim_shell_value found =
        plim_scanner_read(r->f, r->text, r->words.at[i].span, PLIM_WORD_WORD, key);
    found.kind = PLIM_FOUND_VARIABLE;
    found.name = key;
    plim_scanner_add(r->f, found);
  }
}

static void find_flags(reader *r, const plim_shell_command *c, size_t command, size_t first) {
  const plim_argument *at = r->words.at + first;
  size_t count = plim_quoted_command(r->text, at, r->words.len - first), end = first + count;
  size_t group = command, order = 0;
  plim_command_kind kind = plim_command_kind_of(r->text, at, count, c->has_here_document);
  bool is_training = kind.is_training && !kind.is_aside && !c->substitutions;
  if (is_training && !vec_push(&r->view->trainings, command)) r->f->is_out = true;
  // A flag in the place of a program: a comment has broken the lines of a command apart.
  bool is_stray = !is_list(c) && strchr("-[", r->text[at->span.begin]);
  if (kind.is_utility || is_stray || c->substitutions > 1) return;
  if ((kind.is_launcher || r->only_trainings) && !kind.is_training) return;
  if (is_list(c)) group = follow(r, variable_key(r, c->list), command, &order);
  size_t from = r->f->at.len;
  find_words(r, &(plim_argument_list){.at = at,
                                      .count = count,
                                      .group = group,
                                      .order = is_list(c) ? order : first,
                                      .is_list = is_list(c),
                                      .prefix = "",
                                      .expects_script = kind.is_launcher,
                                      .has_overrides = kind.is_launcher,
                                      .is_aside = kind.is_aside});
  if (is_list(c) && c->is_conditional) plim_scanner_doubt(r->f, from, r->text, under_condition);
  r->view->groups.at[command] = group;
  if (end < r->words.len) find_pieces(r, r->words.at[end + 1].span, group, end);
}

static void find_in_command(reader *r, const plim_shell_command *c, size_t command) {
  size_t n = is_list(c) ? 0 : count_assignments(r->text, &r->words);
  bool has_variables = !c->substitutions && !r->is_instruction;
  for (size_t i = 0; i < n && has_variables; i++)
    if (is_assignment(r->text, &r->words.at[i])) find_variable(r, &r->words.at[i], command);
  if (n == r->words.len) return;
  const plim_argument *program = &r->words.at[n];
  bool is_command = !is_list(c);
  if (is_command && has_variables && plim_shell_is_declaration(r->text, program)) {
    for (size_t i = n + 1; i < r->words.len; i++)
      if (is_assignment(r->text, &r->words.at[i])) find_variable(r, &r->words.at[i], command);
  } else if (is_command && has_variables && r->text[program->span.begin] == ':') find_defaults(r);
  else find_flags(r, c, command, n);
}

static void find_directives(reader *r) {
  const plim_shell_script *script = &r->view->script;
  size_t first = script->commands.len ? script->commands.at[0].begin : SIZE_MAX;
  for (size_t i = 0; i < script->comments.len && script->comments.at[i].begin < first; i++) {
    plim_span c = script->comments.at[i];
    if (c.end - c.begin < 8 || memcmp(r->text + c.begin, "#SBATCH ", 8) != 0) continue;
    r->words.len = 0;
    if (!plim_directive_words(r->text, (plim_span){c.begin + 8, c.end}, &r->words))
      r->f->is_out = true;
    plim_arguments_find(r->f, &(plim_argument_list){.text = r->text,
                                                    .at = r->words.at,
                                                    .count = r->words.len,
                                                    .order = c.begin,
                                                    .prefix = "#SBATCH."});
  }
}

// ---- all of it --------------------------------------------------------------------------------------

static void for_each_command(reader *r, void (*visit)(reader *r, size_t command)) {
  for (size_t i = 0; i < r->view->script.commands.len && !r->f->is_out; i++) {
    if (!read_words(r->view, r->text, &r->view->script.commands.at[i], &r->words))
      r->f->is_out = true;
    else visit(r, i);
  }
}

static void visit_variables(reader *r, size_t command) {
  r->command = command;
  note_variables(r, &r->view->script.commands.at[command]);
}

static void visit_settings(reader *r, size_t command) {
  r->command = command;
  find_in_command(r, &r->view->script.commands.at[command], command);
}

static bool start_groups(reader *r) {
  for (size_t i = 0; i < r->view->script.commands.len; i++)
    if (!vec_push(&r->view->groups, i)) return false;
  return true;
}

static void note_loops(reader *r) {
  for (size_t i = 0; i < r->view->script.loops.len; i++)
    set_oddly(r, variable_key(r, r->view->script.loops.at[i]));
}

// Of a directive only what stands behind its words is a comment.
static plim_span comment_in(const char *text, plim_span c) {
  if (c.end - c.begin < 8 || memcmp(text + c.begin, "#SBATCH ", 8) != 0) return c;
  const char *sign = memmem(text + c.begin + 7, c.end - c.begin - 7, " #", 2);
  return (plim_span){sign ? (size_t)(sign - text) + 1 : c.end, c.end};
}

static void note_comments(reader *r) {
  for (size_t i = 0; i < r->view->script.comments.len; i++) {
    plim_span c = comment_in(r->text, r->view->script.comments.at[i]);
    if (c.begin < c.end && !vec_push(&r->f->comments, c)) r->f->is_out = true;
  }
}

static int by_size(const void *x, const void *y) {
  size_t a = *(const size_t *)x, b = *(const size_t *)y;
  return (a > b) - (a < b);
}

// A list that another training passes on is no training of its own.
static void leave_out_passed_lists(plim_shell_view *view) {
  size_t kept = 0, count = view->trainings.len, *all = view->trainings.at;
  for (size_t i = count; i-- > 0;) {
    size_t group = view->groups.at[all[i]];
    bool is_passed = group != all[i] && bsearch(&group, all, count, sizeof *all, by_size);
    if (is_passed) view->groups.at[all[i]] = PLIM_NOWHERE;
  }
  for (size_t i = 0; i < count; i++)
    if (view->groups.at[all[i]] != PLIM_NOWHERE) all[kept++] = all[i];
  view->trainings.len = kept;
}

plim_err plim_shell_find(plim_shell_scanner *f, const plim_shell_text *t, plim_shell_view *view,
                         plim_error *error) {
  *view = (plim_shell_view){0};
  reader r = {.f = f, .text = t->text, .first_group = t->first_group, .view = view};
  r.is_instruction = t->is_instruction;
  r.only_trainings = t->only_trainings;
  plim_err err = plim_shell_parse(t->text, t->size, &view->script, error);
  if (err) return err;
  if (!t->is_instruction) {
    note_comments(&r);
    note_loops(&r);
    for_each_command(&r, visit_sources);
    for_each_command(&r, visit_variables);
    plim_names_sort(&f->set);
    plim_names_sort(&f->lists);
    for_each_command(&r, note_uses);
    if (r.uses.len) qsort(r.uses.at, r.uses.len, sizeof *r.uses.at, by_name);
    find_directives(&r);
  }
  if (!start_groups(&r)) f->is_out = true;
  for_each_command(&r, visit_settings);
  leave_out_passed_lists(view);
  vec_free(&r.uses);
  vec_free(&r.words);
  return f->is_out ? plim_fail(error, PLIM_ERR_NOMEM, "out of memory") : PLIM_OK;
}
