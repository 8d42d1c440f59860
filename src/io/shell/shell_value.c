#include "shell_value.h"

#include <stdio.h>
#include <string.h>

#include "evaluate.h"
#include "sort.h"

#define ROOT_STEPS 16      // the longest chain of copies
#define FLAGS_LOOKED_AT 64 // the most flags --$NAME, each of which is compared with all others

void plim_scanner_clear(plim_shell_scanner *f) {
  vec_free(&f->at);
  vec_free(&f->set);
  vec_free(&f->lists);
  vec_free(&f->expansions);
  vec_free(&f->scopes);
  vec_free(&f->comments);
  vec_free(&f->scratch);
}

const char *plim_scanner_keep(plim_shell_scanner *f, const char *text, size_t size) {
  const char *kept = plim_settings_keep(f->s, text, size);
  if (!kept) f->is_out = true;
  return kept ? kept : "";
}

const char *plim_scanner_keep_span(plim_shell_scanner *f, const char *text, plim_span span,
                                   const char *prefix) {
  size_t before = strlen(prefix), size = span.end - span.begin;
  f->scratch.len = 0;
  if (!vec_reserve(&f->scratch, before + size)) return f->is_out = true, "";
  memcpy(f->scratch.at, prefix, before);
  memcpy(f->scratch.at + before, text + span.begin, size);
  return plim_scanner_keep(f, f->scratch.at, before + size);
}

void plim_scanner_add(plim_shell_scanner *f, plim_shell_value found) {
  found.scope = f->scope;
  if (!vec_push(&f->at, found)) f->is_out = true;
}

void plim_scanner_doubt_one(plim_shell_scanner *f, plim_shell_value *found, const char *text,
                            const char *why) {
  if (found->is_doubted) return;
  found->is_doubted = true;
  char said[256];
  plim_span at = found->is_bare ? found->word : found->span;
  size_t size = at.end - at.begin;
  int n =
      snprintf(said, sizeof said, "%.*s, %s", (int)(size < 128 ? size : 128), text + at.begin, why);
  found->value = (plim_value){.kind = PLIM_VALUE_DERIVED,
                              .text = plim_scanner_keep(f, said, n > 0 ? (size_t)n : 0)};
  found->reference = NULL;
}

void plim_scanner_doubt(plim_shell_scanner *f, size_t from, const char *text, const char *why) {
  for (size_t i = from; i < f->at.len; i++) plim_scanner_doubt_one(f, &f->at.at[i], text, why);
}

static int by_group_and_order(const void *x, const void *y) {
  const plim_expansion *a = x, *b = y;
  if (a->group != b->group) return a->group < b->group ? -1 : 1;
  if (a->order != b->order) return a->order < b->order ? -1 : 1;
  return (a->at > b->at) - (a->at < b->at);
}

void plim_scanner_doubt_before(plim_shell_scanner *f, plim_expansion *at, size_t count) {
  if (count) plim_sort(at, count, sizeof *at, by_group_and_order);
  for (size_t i = 0; i < f->at.len && count; i++) {
    plim_shell_value *found = &f->at.at[i];
    size_t low = 0, high = count; // searches the first expansion of a later group
    while (low < high) {
      size_t middle = (low + high) / 2;
      if (at[middle].group <= found->group) low = middle + 1;
      else high = middle;
    }
    plim_expansion place = {.group = found->group, .order = found->order, .at = found->span.begin};
    bool is_before =
        low && at[low - 1].group == found->group && by_group_and_order(&place, &at[low - 1]) <= 0;
    if (found->kind != PLIM_FOUND_VARIABLE && is_before)
      plim_scanner_doubt_one(f, found, f->s->text, "unless computed arguments after it change it");
  }
}

// ---- names ------------------------------------------------------------------------------------------

void plim_scanner_name(plim_shell_scanner *f, plim_names *names, const char *name) {
  if (!vec_push(names, name)) f->is_out = true;
}

static int by_text(const void *x, const void *y) {
  return strcmp(*(const char *const *)x, *(const char *const *)y);
}

void plim_names_sort(plim_names *names) {
  if (names->len) plim_sort(names->at, names->len, sizeof *names->at, by_text);
}

// The first index with a name that is not before `name`; with at_least 1, with a name after it.
static size_t bound(const plim_names *names, const char *name, int at_least) {
  size_t low = 0, high = names->len;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (strcmp(names->at[middle], name) < at_least) low = middle + 1;
    else high = middle;
  }
  return low;
}

size_t plim_names_count(const plim_names *names, const char *name) {
  return bound(names, name, 1) - bound(names, name, 0);
}

// ---- roots ------------------------------------------------------------------------------------------

// All variables, sorted by name.
typedef vec(plim_shell_value *) found_list;

static int by_found_name(const void *x, const void *y) {
  const plim_shell_value *const *a = x, *const *b = y;
  return strcmp((*a)->name, (*b)->name);
}

// The only setting of a variable, if it has certainly been set when `user` is read; else NULL.
static plim_shell_value *variable(const plim_shell_scanner *f, const found_list *variables,
                                  const char *name, const plim_shell_value *user) {
  plim_shell_value wanted = {.name = name}, *key = &wanted, **hit;
  if (plim_names_count(&f->set, name) != 1 || !variables->len || f->has_own_ifs) return NULL;
  hit = bsearch(&key, variables->at, variables->len, sizeof *variables->at, by_found_name);
  if (!hit) return NULL;
  bool is_there = user->is_late ? !(*hit)->is_build_only
                                : (*hit)->from <= user->span.begin &&
                                      plim_shell_has_run(&f->scopes, (*hit)->scope, user->scope);
  return is_there ? *hit : NULL;
}

static const char *root_of(const plim_shell_scanner *f, const found_list *variables,
                           const plim_shell_value *found) {
  bool has_default = false; // used if the variable is empty
  bool vanishes = found->kind == PLIM_FOUND_FLAG && !found->is_joined && *found->value.text != '"';
  for (int i = 0; i < ROOT_STEPS && found && found->reference; i++) {
    has_default |= found->has_default;
    found = variable(f, variables, found->reference, found);
    if (!found || found->value.kind == PLIM_VALUE_DERIVED) continue;
    bool is_empty = found->value.kind == PLIM_VALUE_TEXT && !*found->value.text;
    return is_empty && (has_default || vanishes) ? NULL : found->name;
  }
  return NULL;
}

// Computes the number of a variable, possibly from other variables.
typedef struct {
  const plim_shell_scanner *f;
  const found_list *variables;
  const plim_shell_value *user; // the value that is being computed
  int steps;
} shell_numbers;

static bool number_of(void *context, const char *name, plim_value *out);

// Computes a value and stores the result; without that, chains of variables would be computed again and again.
static bool compute(shell_numbers *n, plim_shell_value *found) {
  plim_evaluator by = {number_of, n, true, &n->steps};
  const plim_shell_value *user = n->user;
  n->user = found;
  if (!found->is_computed && !plim_evaluate(found->value.text, &by, &found->computed))
    found->computed = (plim_value){0};
  n->user = user;
  found->is_computed = true;
  return found->computed.kind != PLIM_VALUE_NULL;
}

static bool number_of(void *context, const char *name, plim_value *out) {
  shell_numbers *n = context;
  plim_shell_value *found = variable(n->f, n->variables, name, n->user);
  if (!found || --n->steps < 0) return false;
  bool is_literal = found->value.kind != PLIM_VALUE_DERIVED;
  if (!is_literal && !compute(n, found)) return false;
  *out = is_literal ? found->value : found->computed;
  return true;
}

static plim_value computed_of(const plim_shell_scanner *f, const found_list *variables,
                              plim_shell_value *found) {
  shell_numbers n = {f, variables, found, PLIM_EVALUATE_STEPS};
  // Only shells evaluate $(( )); ENV keeps it as text.
  bool is_shell = found->place != PLIM_WORD_ENV && found->place != PLIM_WORD_REST;
  if (found->value.kind == PLIM_VALUE_DERIVED && (is_shell || !strstr(found->value.text, "$((")))
    compute(&n, found);
  return found->computed;
}

static found_list variables_of(plim_shell_scanner *f) {
  found_list variables = {0};
  for (size_t i = 0; i < f->at.len; i++)
    if (f->at.at[i].kind == PLIM_FOUND_VARIABLE && !vec_push(&variables, &f->at.at[i]))
      f->is_out = true;
  if (variables.len) plim_sort(variables.at, variables.len, sizeof *variables.at, by_found_name);
  return variables;
}

// ---- numbers of groups ------------------------------------------------------------------------------

typedef struct {
  plim_shell_value *found;
  int number;
} numbered;

static int by_group(const void *x, const void *y) {
  const plim_shell_value *a = ((const numbered *)x)->found, *b = ((const numbered *)y)->found;
  int name = strcmp(a->name, b->name);
  if (name) return name;
  if (a->group != b->group) return a->group < b->group ? -1 : 1;
  return (a > b) - (a < b);
}

static bool is_same_group(const numbered *a, const numbered *b) {
  return a->found->group == b->found->group && strcmp(a->found->name, b->found->name) == 0;
}

// Numbers the settings of one name in one group. The last argument of the command takes effect. Lists may be passed in
// another order than they are written in; settings that are written after the effective one get the next number.
static void number_group(numbered *at, size_t count, int *number) {
  size_t winner = 0;
  for (size_t i = 1; i < count; i++)
    if (at[i].found->order >= at[winner].found->order) winner = i;
  ++*number;
  for (size_t i = 0; i < count; i++) {
    if (i == winner + 1) ++*number;
    at[i].number = *number;
  }
}

static void number_all(numbered *at, size_t count) {
  int number = 0;
  for (size_t i = 0, next; i < count; i = next) {
    for (next = i + 1; next < count && is_same_group(&at[i], &at[next]);) next++;
    if (i && strcmp(at[i].found->name, at[i - 1].found->name) != 0) number = 0;
    number_group(at + i, next - i, &number);
  }
}

static const char *numbered_key(plim_shell_scanner *f, const char *name, int number) {
  char suffix[16];
  if (number == 1) return name;
  snprintf(suffix, sizeof suffix, "#%d", number);
  size_t size = strlen(name), more = strlen(suffix);
  f->scratch.len = 0;
  if (!vec_reserve(&f->scratch, size + more)) return f->is_out = true, "";
  memcpy(f->scratch.at, name, size);
  memcpy(f->scratch.at + size, suffix, more);
  return plim_scanner_keep(f, f->scratch.at, size + more);
}

// ---- comments ---------------------------------------------------------------------------------------

// The current line, while the settings are visited in the order of the text.
typedef struct {
  int number;        // number of the line, from 1
  size_t begin, end; // first byte of the line, and its line feed
  size_t comment;    // the first comment that does not begin before this line
  const char *above; // comments on the lines above; NULL: not searched yet
} line;

static size_t end_of_line(const plim_shell_scanner *f, size_t at) {
  const char *end = memchr(f->s->text + at, '\n', f->s->size - at);
  return end ? (size_t)(end - f->s->text) : f->s->size;
}

static void go_to(const plim_shell_scanner *f, line *l, size_t at) {
  while (l->end < at) {
    l->number++;
    l->begin = l->end + 1;
    l->end = end_of_line(f, l->begin);
    l->above = NULL;
  }
  while (l->comment < f->comments.len && f->comments.at[l->comment].begin < l->begin) l->comment++;
}

static bool is_blank(const char *text, size_t begin, size_t end) {
  for (size_t i = begin; i < end; i++)
    if (!strchr(" \t\r", text[i])) return false;
  return true;
}

// Whether the line before `line_begin` contains only this comment; `*begin` is its first byte.
static bool is_own_line(const plim_shell_scanner *f, plim_span comment, size_t line_begin,
                        size_t *begin) {
  const char *text = f->s->text;
  size_t feed = comment.end + (comment.end < f->s->size && text[comment.end] == '\r');
  if (feed + 1 != line_begin) return false;
  for (*begin = comment.begin; *begin && text[*begin - 1] != '\n';) --*begin;
  return is_blank(text, *begin, comment.begin);
}

static void append_comment(plim_shell_scanner *f, plim_span c) {
  const char *text = f->s->text;
  while (c.begin < c.end && strchr("# \t", text[c.begin])) c.begin++;
  while (c.end > c.begin && strchr(" \t\r", text[c.end - 1])) c.end--;
  if (f->scratch.len && !vec_push(&f->scratch, '\n')) f->is_out = true;
  if (!vec_reserve(&f->scratch, c.end - c.begin + 1)) {
    f->is_out = true;
    return;
  }
  memcpy(f->scratch.at + f->scratch.len, text + c.begin, c.end - c.begin);
  f->scratch.len += c.end - c.begin;
}

static const char *comment_above(plim_shell_scanner *f, const line *l) {
  size_t first = l->comment, begin = l->begin;
  while (first > 0) {
    plim_span comment = f->comments.at[first - 1];
    bool is_shebang = comment.begin == 0 && comment.end > 1 && f->s->text[1] == '!';
    if (is_shebang || !is_own_line(f, comment, begin, &begin)) break;
    first--;
  }
  f->scratch.len = 0;
  for (size_t i = first; i < l->comment; i++) append_comment(f, f->comments.at[i]);
  return f->scratch.len ? plim_scanner_keep(f, f->scratch.at, f->scratch.len) : "";
}

static const char *comment_of(plim_shell_scanner *f, line *l, plim_span span) {
  size_t i = l->comment;
  while (i < f->comments.len && f->comments.at[i].begin < span.end) i++;
  bool is_behind = i < f->comments.len && f->comments.at[i].begin < l->end;
  if (is_behind) {
    f->scratch.len = 0;
    append_comment(f, f->comments.at[i]);
    return plim_scanner_keep(f, f->scratch.at, f->scratch.len);
  }
  if (!l->above) l->above = comment_above(f, l);
  return l->above;
}

// ---- settings ---------------------------------------------------------------------------------------

static void add_setting(plim_shell_scanner *f, const found_list *variables, line *l,
                        const numbered *n) {
  plim_shell_value *found = n->found;
  plim_setting setting = {.value = found->value, .span = found->span};
  setting.group = found->kind == PLIM_FOUND_VARIABLE ? 0 : found->group + 1;
  setting.is_aside = found->is_aside;
  setting.is_unexported = found->is_unexported;
  go_to(f, l, found->span.begin);
  setting.line = l->number;
  setting.comment = comment_of(f, l, found->span);
  setting.key = numbered_key(f, found->name, n->number);
  if (found->reference) setting.root = root_of(f, variables, found);
  setting.computed = computed_of(f, variables, found);
  if (!plim_settings_add(f->s, setting)) f->is_out = true;
}

static int by_place(const void *x, const void *y) {
  const plim_shell_value *a = x, *b = y;
  if (a->span.begin != b->span.begin) return a->span.begin < b->span.begin ? -1 : 1;
  return (a->span.end > b->span.end) - (a->span.end < b->span.end);
}

static int by_found(const void *x, const void *y) {
  const plim_shell_value *a = ((const numbered *)x)->found, *b = ((const numbered *)y)->found;
  return (a > b) - (a < b);
}

// Whether --$NAME, with the known value `name`, differs from all other flags of the command.
static bool is_other_flag(const plim_shell_scanner *f, const plim_expansion *e, const char *name) {
  for (size_t i = 0; i < f->at.len; i++) {
    const plim_shell_value *found = &f->at.at[i];
    if (found->group == e->group && found->kind == PLIM_FOUND_FLAG &&
        strcmp(found->name + strspn(found->name, "-"), name) == 0)
      return false;
  }
  return !strpbrk(name, " \t\n=");
}

// Whether an expansion cannot add or change a flag: its variable is a number, or a text such as "$DIR/data".
static bool is_harmless(const plim_shell_scanner *f, const found_list *variables,
                        const plim_expansion *e, int *flags_left) {
  if (!e->name) return false;
  plim_shell_value user = {.reference = e->name, .span = {e->at, e->at}, .scope = e->scope};
  plim_shell_value *found = &user;
  for (int i = 0; i < ROOT_STEPS && found && found->reference; i++)
    found = variable(f, variables, found->reference, found);
  if (!found || found->is_doubted) return false;
  if (e->is_flag)
    return found->value.kind == PLIM_VALUE_TEXT && --*flags_left >= 0 &&
           is_other_flag(f, e, found->value.text);
  plim_value_kind kind = found->value.kind;
  if (kind != PLIM_VALUE_TEXT && kind != PLIM_VALUE_DERIVED) return true;
  const char *text = found->value.text + (*found->value.text == '"');
  if (strpbrk(text, " \t\n")) return kind == PLIM_VALUE_TEXT && !strchr(text, '-');
  return kind == PLIM_VALUE_TEXT ? *text != '-' : *text != '-' && strchr(text, '/'); // a path
}

static void doubt_expanded(plim_shell_scanner *f, const found_list *variables) {
  size_t kept = 0;
  int flags_left = FLAGS_LOOKED_AT;
  for (size_t i = 0; i < f->expansions.len; i++)
    if (!is_harmless(f, variables, &f->expansions.at[i], &flags_left))
      f->expansions.at[kept++] = f->expansions.at[i];
  plim_scanner_doubt_before(f, f->expansions.at, kept);
}

plim_err plim_scanner_finish(plim_shell_scanner *f, plim_error *error) {
  numbered *all = calloc(f->at.len + 1, sizeof *all);
  if (!all) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  if (f->at.len) plim_sort(f->at.at, f->at.len, sizeof *f->at.at, by_place);
  for (size_t i = 0; i < f->at.len; i++) all[i].found = &f->at.at[i];
  found_list variables = variables_of(f);
  doubt_expanded(f, &variables);
  plim_sort(all, f->at.len, sizeof *all, by_group);
  number_all(all, f->at.len);
  plim_sort(all, f->at.len, sizeof *all, by_found);
  line l = {.number = 1, .end = f->s->size ? end_of_line(f, 0) : 0};
  for (size_t i = 0; i < f->at.len && !f->is_out; i++) add_setting(f, &variables, &l, &all[i]);
  vec_free(&variables);
  free(all);
  return f->is_out ? plim_fail(error, PLIM_ERR_NOMEM, "out of memory") : PLIM_OK;
}
