#include "shell_settings.h"

#include <string.h>

#include "shell_pieces.h"
#include "shell_reader.h"

void plim_shell_view_clear(plim_shell_view *view) {
  plim_shell_clear(&view->script);
  vec_free(&view->groups);
  vec_free(&view->trainings);
}

// ---- words ------------------------------------------------------------------------------------------

// Reads the words of a command. In a list, "--lr 1e-4" is split into words: the shell does so if the list is passed
// without quotes.
static bool read_words(const plim_shell_view *view, const char *text, const plim_shell_command *c,
                       plim_arguments *out) {
  out->len = 0;
  for (size_t i = 0; i < c->count; i++) {
    plim_span word = view->script.words.at[c->first + i];
    if (shell_is_list(c) && plim_is_flag_text(text, word)) {
      if (!plim_argument_pieces(text, word, out)) return false;
    } else if (!vec_push(out, plim_argument_at(text, word, PLIM_WORD_WORD))) return false;
  }
  return true;
}

bool plim_shell_arguments(const plim_shell_view *view, const char *text, size_t command,
                          plim_arguments *out) {
  const plim_shell_command *c = &view->script.commands.at[command];
  if (!read_words(view, text, c, out)) return false;
  size_t skipped = shell_is_list(c) ? 0 : shell_count_assignments(text, out);
  if (out->len) memmove(out->at, out->at + skipped, (out->len - skipped) * sizeof *out->at);
  out->len -= skipped;
  return true;
}

// ---- settings ----------------------------------------------------------------------------------------

static void find_words(shell_reader *r, const plim_argument_list *list) {
  plim_argument_list all = *list;
  all.text = r->text;
  all.group += r->first_group;
  plim_arguments_find(r->f, &all);
}

static const char under_condition[] = "but only under a condition";
static const char before_opaque[] = "unless source or eval changes it";

// The reason why a command may not get these words of a list.
static const char *list_doubt(const shell_reader *r) {
  return shell_command(r)->is_conditional ? under_condition
                                          : "unless it is changed before it is used";
}

// Drops references: the values are expanded later by another shell, which has other variables.
static void doubt_references(shell_reader *r, size_t from) {
  for (size_t i = from; i < r->f->at.len; i++)
    if (r->f->at.at[i].value.kind == PLIM_VALUE_DERIVED) {
      r->f->at.at[i].reference = NULL;
      r->f->at.at[i].is_computed = true;
    }
}

static void find_pieces(shell_reader *r, plim_span text, size_t group, size_t order) {
  plim_arguments pieces = {0};
  size_t from = r->f->at.len;
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
  if (r->text[text.begin] == '\'') doubt_references(r, from);
  vec_free(&pieces);
}

// Reads an assignment, which takes effect from `end` on; `is_passed` if programs see it.
static void find_variable(shell_reader *r, const plim_argument *a, size_t end, bool is_passed) {
  shell_assignment to;
  if (!shell_is_assignment(r->text, a, &to) || to.is_element || shell_has_list(r->text, a)) return;
  const char *key = shell_variable_key(r, to.name);
  size_t from = r->f->at.len;
  if (plim_is_argument_text(r->text, a->tail)) {
    size_t group = r->command, order;
    bool is_sure = shell_follow_list(r, key, &group, &order);
    find_pieces(r, a->tail, group, order);
    if (!is_sure) plim_scanner_doubt(r->f, from, r->text, list_doubt(r));
    return;
  }
  if (shell_is_callers(r, a) && plim_names_count(&r->f->set, key)) return;
  plim_shell_value found = plim_scanner_read(r->f, r->text, a->tail, a->tail_place, key);
  if (to.is_appended)
    found = (plim_shell_value){
        .value = {.kind = PLIM_VALUE_DERIVED}, .span = a->tail, .place = a->tail_place};
  if (to.is_appended) found.value.text = plim_scanner_keep_span(r->f, r->text, a->span, "");
  found.kind = PLIM_FOUND_VARIABLE;
  found.name = key;
  found.from = end;
  found.is_unexported = !is_passed && !shell_is_exported(r, key);
  bool is_literal = found.value.kind != PLIM_VALUE_DERIVED;
  bool is_only = plim_names_count(&r->f->set, key) == 1;
  plim_scanner_add(r->f, found);
  if (is_only && shell_is_guarded(r, to.name))
    r->f->at.at[from].scope = r->view->script.scopes.at[shell_command(r)->scope].parent;
  if (is_literal && shell_is_before_opaque(r))
    plim_scanner_doubt(r->f, from, r->text, before_opaque);
}

static void find_defaults(shell_reader *r) {
  for (size_t i = 1; i < r->words.len; i++) {
    plim_span name = plim_shell_assigned_default(r->text, r->words.at[i].span);
    if (!name.end) continue;
    const char *key = shell_variable_key(r, name);
    plim_shell_value found =
        plim_scanner_read(r->f, r->text, r->words.at[i].span, PLIM_WORD_WORD, key);
    found.kind = PLIM_FOUND_VARIABLE;
    found.name = key;
    found.from = r->words.at[i].span.end;
    found.is_unexported = !shell_is_exported(r, key);
    plim_scanner_add(r->f, found);
  }
}

// Whether xargs or parallel add words to the command.
static bool is_given_words(const shell_reader *r, const plim_argument *at, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (plim_argument_ends(r->text, &at[i], "xargs") ||
        plim_argument_ends(r->text, &at[i], "parallel"))
      return true;
  return false;
}

static void find_flags(shell_reader *r, size_t first) {
  const plim_shell_command *c = shell_command(r);
  const plim_argument *at = r->words.at + first;
  size_t count = plim_quoted_command(r->text, at, r->words.len - first), end = first + count;
  size_t group = r->command, order = 0;
  bool is_sure = true;
  plim_command_kind kind = plim_command_kind_of(r->text, at, count, c->has_here_document);
  bool is_training = kind.is_training && !kind.is_aside && !c->substitutions;
  if (is_training && !vec_push(&r->view->trainings, r->command)) r->f->is_out = true;
  // A flag instead of a program: a comment between continued lines has split a command.
  bool is_stray = !shell_is_list(c) && strchr("-[", r->text[at->span.begin]);
  if (kind.is_utility || is_stray || c->substitutions > 1) return;
  if ((kind.is_launcher || r->only_trainings) && !kind.is_training) return;
  if (shell_is_list(c))
    is_sure = shell_follow_list(r, shell_variable_key(r, c->list), &group, &order);
  size_t from = r->f->at.len;
  find_words(r, &(plim_argument_list){.at = at,
                                      .count = count,
                                      .group = group,
                                      .order = shell_is_list(c) ? order : first,
                                      .is_list = shell_is_list(c),
                                      .prefix = "",
                                      .expects_script = kind.is_launcher,
                                      .has_overrides = kind.is_launcher,
                                      .is_aside = kind.is_aside});
  if (!is_sure) plim_scanner_doubt(r->f, from, r->text, list_doubt(r));
  if (is_given_words(r, at, kind.at))
    plim_scanner_doubt(r->f, from, r->text, "unless xargs replaces it");
  r->view->groups.at[r->command] = group;
  if (end < r->words.len) find_pieces(r, r->words.at[end + 1].span, group, end);
}

static void visit_settings(shell_reader *r) {
  const plim_shell_command *c = shell_command(r);
  bool is_command = !shell_is_list(c), has_variables = !c->substitutions && !r->is_instruction;
  size_t n = is_command ? shell_count_assignments(r->text, &r->words) : 0;
  for (size_t i = 0; i < n && has_variables; i++)
    find_variable(r, &r->words.at[i], r->words.at[i].span.end, n < r->words.len);
  if (n == r->words.len) return;
  const plim_argument *program = &r->words.at[n];
  if (is_command && has_variables && plim_shell_is_declaration(r->text, program)) {
    size_t end = r->words.at[r->words.len - 1].span.end; // in export A=1 B=$A, B gets the old A
    bool is_export = shell_is_export(r, n);
    for (size_t i = n + 1; i < r->words.len; i++) find_variable(r, &r->words.at[i], end, is_export);
  } else if (is_command && has_variables && shell_is_colon(r->text, program)) find_defaults(r);
  else find_flags(r, n);
}

static void find_directives(shell_reader *r) {
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

void shell_for_each_command(shell_reader *r, void (*visit)(shell_reader *r)) {
  for (size_t i = 0; i < r->view->script.commands.len && !r->f->is_out; i++) {
    const plim_shell_command *c = &r->view->script.commands.at[i];
    r->command = i;
    r->f->scope = r->is_instruction ? 0 : c->scope;
    r->f->in_function = r->view->script.scopes.at[c->scope].in_function;
    if (!read_words(r->view, r->text, c, &r->words)) r->f->is_out = true;
    else visit(r);
  }
}

// The comment; of an #SBATCH directive, only the part after its words.
static plim_span comment_in(const char *text, plim_span c) {
  if (c.end - c.begin < 8 || memcmp(text + c.begin, "#SBATCH ", 8) != 0) return c;
  const char *sign = memmem(text + c.begin + 7, c.end - c.begin - 7, " #", 2);
  return (plim_span){sign ? (size_t)(sign - text) + 1 : c.end, c.end};
}

static void note_comments(shell_reader *r) {
  for (size_t i = 0; i < r->view->script.comments.len; i++) {
    plim_span c = comment_in(r->text, r->view->script.comments.at[i]);
    if (c.begin < c.end && !vec_push(&r->f->comments, c)) r->f->is_out = true;
  }
}

static int by_size(const void *x, const void *y) {
  size_t a = *(const size_t *)x, b = *(const size_t *)y;
  return (a > b) - (a < b);
}

// Removes lists that are passed to a training: they are not trainings of their own.
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

// A variable that is set in a branch, a function or a subshell is certain only if a training runs in the same scope; a
// variable that a command changes is not certain.
static void doubt_variables(shell_reader *r) {
  const plim_shell_script *script = &r->view->script;
  bool *leads = calloc(script->scopes.len + 1, sizeof *leads);
  if (!leads) {
    r->f->is_out = true;
    return;
  }
  leads[0] = true;
  for (size_t i = 0; i < r->view->trainings.len; i++)
    for (size_t s = script->commands.at[r->view->trainings.at[i]].scope; !leads[s];
         s = script->scopes.at[s].parent)
      leads[s] = true;
  for (size_t i = 0; i < r->f->at.len; i++) {
    plim_shell_value *found = &r->f->at.at[i];
    if (found->kind != PLIM_FOUND_VARIABLE || found->value.kind == PLIM_VALUE_DERIVED) continue;
    if (!leads[found->scope]) plim_scanner_doubt_one(r->f, found, r->text, under_condition);
    if (plim_names_count(&r->changed, found->name))
      plim_scanner_doubt_one(r->f, found, r->text, "unless a command changes it");
  }
  free(leads);
}

// If the command of an instruction sets variables itself, its references may not be to those of the image.
static void doubt_own_variables(shell_reader *r) {
  bool sets = r->view->script.changed.len > 0;
  for (size_t i = 0; i < r->view->script.commands.len && !sets; i++) {
    const plim_shell_command *c = &r->view->script.commands.at[i];
    if (!read_words(r->view, r->text, c, &r->words)) r->f->is_out = true;
    size_t n = shell_count_assignments(r->text, &r->words);
    sets = n > 0 || shell_is_list(c) ||
           (n < r->words.len && plim_shell_sets_variables(r->text, &r->words.at[n]));
  }
  if (sets) doubt_references(r, r->first_found);
}

// A script that is sourced, or sources others, does not show all exports.
static void trust_exports(shell_reader *r) {
  bool is_whole = r->view->trainings.len && !r->f->has_opaque;
  for (size_t i = r->first_found; i < r->f->at.len && !is_whole; i++)
    r->f->at.at[i].is_unexported = false;
}

static void find_all(shell_reader *r) {
  r->first_found = r->f->at.len;
  if (!r->is_instruction) {
    note_comments(r);
    shell_note_variables(r);
    shell_note_uses(r);
    find_directives(r);
  }
  for (size_t i = 0; i < r->view->script.commands.len; i++)
    if (!vec_push(&r->view->groups, i)) r->f->is_out = true;
  shell_for_each_command(r, visit_settings);
  leave_out_passed_lists(r->view);
  if (r->is_instruction) {
    doubt_own_variables(r);
    return;
  }
  doubt_variables(r);
  trust_exports(r);
  shell_drop_known_expansions(r);
  r->f->scopes = r->view->script.scopes;
  r->view->script.scopes = (plim_shell_scopes){0};
}

plim_err plim_shell_find(plim_shell_scanner *f, const plim_shell_text *t, plim_shell_view *view,
                         plim_error *error) {
  *view = (plim_shell_view){0};
  shell_reader r = {
      .f = f, .text = t->text, .size = t->size, .first_group = t->first_group, .view = view};
  r.is_instruction = t->is_instruction;
  r.only_trainings = t->only_trainings;
  plim_err err = plim_shell_parse(t->text, t->size, &view->script, error);
  if (err) return err;
  find_all(&r);
  vec_free(&r.uses);
  vec_free(&r.words);
  vec_free(&r.locals);
  vec_free(&r.evaluated);
  vec_free(&r.changed);
  vec_free(&r.exported);
  vec_free(&r.list_sets);
  vec_free(&r.lists);
  vec_free(&r.assigned_defaults);
  return f->is_out ? plim_fail(error, PLIM_ERR_NOMEM, "out of memory") : PLIM_OK;
}
