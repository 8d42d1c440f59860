// Finds variables that hold arguments, and the commands to which they are passed.
#include <string.h>

#include "shell_pieces.h"
#include "shell_reader.h"
#include "sort.h"

#define LIST_STEPS 8 // the longest chain of lists passed on to lists
#define LIST_USES 64 // the most uses of one list

// ---- what a list holds ------------------------------------------------------------------------------

static int by_set(const void *x, const void *y) {
  const shell_list_set *a = x, *b = y;
  int name = strcmp(a->name, b->name);
  return name ? name : (a->begin > b->begin) - (a->begin < b->begin);
}

static shell_list join(const shell_reader *r, size_t first) {
  const shell_list_set *sets = r->list_sets.at;
  shell_list list = {.name = sets[first].name, .first = first, .end = first};
  list.is_whole = list.is_command = true;
  bool is_empty = true;
  for (; list.end < r->list_sets.len && strcmp(sets[list.end].name, list.name) == 0; list.end++) {
    const shell_list_set *s = &sets[list.end];
    bool replaces = !s->adds && !is_empty, is_glued = s->is_glued && !is_empty;
    if (s->is_odd || replaces || is_glued) list.is_whole = false;
    is_empty = is_empty && s->is_empty;
    list.count += s->count;
    list.is_command = list.is_command && !s->is_empty;
    list.has_arrays |= s->is_array && !s->is_empty;
    list.has_strings |= !s->is_array && !s->is_empty;
    list.has_texts |= s->has_texts;
  }
  return list;
}

void shell_join_list_sets(shell_reader *r) {
  if (r->list_sets.len)
    plim_sort(r->list_sets.at, r->list_sets.len, sizeof *r->list_sets.at, by_set);
  for (size_t i = 0; i < r->list_sets.len && !r->f->is_out; i = r->lists.at[r->lists.len - 1].end)
    if (!vec_push(&r->lists, join(r, i))) {
      r->f->is_out = true;
      return;
    }
}

static int by_list(const void *x, const void *y) {
  return strcmp(((const shell_list *)x)->name, ((const shell_list *)y)->name);
}

const shell_list *shell_find_list(const shell_reader *r, const char *name) {
  shell_list wanted = {.name = name};
  return r->lists.len ? bsearch(&wanted, r->lists.at, r->lists.len, sizeof wanted, by_list) : NULL;
}

// ---- uses -------------------------------------------------------------------------------------------

static void note_use(shell_reader *r, plim_span span, const char *into, size_t word) {
  if (r->text[span.begin] != '$' && r->text[span.begin] != '"') return;
  plim_span name = plim_shell_list_name(r->text, span);
  const char *key = name.end ? shell_variable_key(r, name) : "";
  if (!plim_names_count(&r->f->lists, key) || (into && strcmp(into, key) == 0)) return;
  shell_list_use use = {.name = key, .into = into, .command = r->command, .word = word};
  use.is_array = span.end - name.end >= 4 && r->text[name.end] == '[';
  use.is_quoted = r->text[span.begin] == '"';
  use.is_joined = use.is_array && use.is_quoted && r->text[name.end + 1] == '*';
  if (!vec_push(&r->uses, use)) r->f->is_out = true;
}

// Notes the lists that a string passes on: ALL="$MODEL_ARGS $DATA_ARGS".
static void note_uses_in_string(shell_reader *r, const plim_argument *a) {
  shell_assignment to;
  plim_arguments pieces = {0};
  if (!shell_is_assignment(r->text, a, &to) || r->text[a->span.end - 1] != '"') return;
  const char *into = shell_variable_key(r, to.name);
  if (!plim_names_count(&r->f->lists, into) || !a->tail.end || r->text[a->tail.begin] != '"')
    return;
  if (!plim_argument_pieces(r->text, a->tail, &pieces)) r->f->is_out = true;
  for (size_t i = 0; i < pieces.len; i++) note_use(r, pieces.at[i].span, into, i);
  vec_free(&pieces);
}

static void visit_uses(shell_reader *r) {
  const plim_shell_command *c = shell_command(r);
  const char *into = shell_is_list(c) ? shell_variable_key(r, c->list) : NULL;
  size_t first = into ? 0 : shell_count_assignments(r->text, &r->words);
  const plim_argument *program = &r->words.at[first < r->words.len ? first : 0];
  plim_command_kind kind = plim_command_kind_of(r->text, program, 1, false);
  // Utilities such as `echo $CMD` only print the list.
  bool passes_on = into || plim_argument_is(r->text, program, "eval") ||
                   plim_shell_is_declaration(r->text, program);
  if (kind.is_utility && !passes_on) return;
  for (size_t i = 0; i < r->words.len; i++) {
    note_use(r, r->words.at[i].span, into, i);
    note_uses_in_string(r, &r->words.at[i]);
  }
}

static int by_use(const void *x, const void *y) {
  return strcmp(((const shell_list_use *)x)->name, ((const shell_list_use *)y)->name);
}

void shell_note_uses(shell_reader *r) {
  shell_for_each_command(r, visit_uses);
  if (r->uses.len) plim_sort(r->uses.at, r->uses.len, sizeof *r->uses.at, by_use);
}

// The first use of a list; `*count` is their number, at most LIST_USES + 1.
static const shell_list_use *uses_of(const shell_reader *r, const char *name, size_t *count) {
  size_t low = 0, high = r->uses.len;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (strcmp(r->uses.at[middle].name, name) < 0) low = middle + 1;
    else high = middle;
  }
  *count = 0;
  while (low + *count < r->uses.len && *count <= LIST_USES &&
         strcmp(r->uses.at[low + *count].name, name) == 0)
    ++*count;
  return *count ? r->uses.at + low : NULL;
}

// Whether the command gets exactly the words that were read: nothing else sets the list, and the shell splits it into
// the same words.
static bool is_known(const shell_reader *r, const shell_list_use *u) {
  const shell_list *list = shell_find_list(r, u->name);
  if (!list || !list->is_whole || r->f->has_own_ifs) return false;
  if (list->has_arrays && (!u->is_array || u->is_joined)) return false;
  if ((list->has_strings || list->has_texts) && u->is_quoted) return false;
  return list->count == plim_names_count(&r->f->set, u->name);
}

// Whether command `from` has certainly run when `to` runs.
static bool has_run(const shell_reader *r, size_t from, size_t to) {
  const plim_shell_command *a = &r->view->script.commands.at[from],
                           *b = &r->view->script.commands.at[to];
  return a->begin <= b->begin && plim_shell_has_run(&r->view->script.scopes, a->scope, b->scope);
}

bool shell_follow_list(shell_reader *r, const char *name, size_t *command, size_t *order) {
  bool is_sure = true;
  *order = 0;
  for (int i = 0; i < LIST_STEPS; i++) {
    size_t count;
    const shell_list_use *u = uses_of(r, name, &count);
    if (count > LIST_USES) return false;
    for (size_t k = 0; k < count && is_sure; k++)
      is_sure = is_known(r, &u[k]) && has_run(r, *command, u[k].command);
    if (count != 1) return is_sure;
    *command = u->command;
    *order = u->word;
    if (!u->into) return is_sure;
    name = u->into;
  }
  return false;
}

// Whether all words of a list were read as arguments of the command to which it is passed.
static bool is_followed(shell_reader *r, const plim_expansion *e) {
  size_t count;
  const shell_list_use *u = uses_of(r, e->name, &count);
  if (count != 1 || !is_known(r, u)) return false;
  const shell_list *list = shell_find_list(r, e->name);
  return r->list_sets.at[list->end - 1].begin <= e->at;
}

void shell_drop_known_expansions(shell_reader *r) {
  size_t kept = 0;
  for (size_t i = 0; i < r->f->expansions.len; i++) {
    plim_expansion *e = &r->f->expansions.at[i];
    bool is_list = e->name && !e->is_flag && plim_names_count(&r->f->lists, e->name);
    bool is_of_environment = e->name && !e->is_flag && !plim_names_count(&r->f->set, e->name);
    if (is_list && is_followed(r, e)) continue;
    if (is_of_environment && !r->f->has_opaque) continue;
    if (is_list) e->name = NULL;
    r->f->expansions.at[kept++] = *e;
  }
  r->f->expansions.len = kept;
}
