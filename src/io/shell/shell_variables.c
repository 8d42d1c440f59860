// Finds everything that sets variables in a script: assignments, and commands that set variables as a side effect. A
// variable that is set in a way that is not analysed is counted twice, so that none of its values is trusted.
#include <string.h>

#include "shell_pieces.h"
#include "shell_reader.h"
#include "sort.h"

// ---- assignments ------------------------------------------------------------------------------------

// The length of [...] after the name in NAME[...]; 0 if it is not an element.
static size_t element(const char *text, plim_span word, size_t name) {
  size_t at = word.begin + name, open = at;
  if (!name || at >= word.end || text[at] != '[') return 0;
  while (at < word.end && text[at] != ']') at++;
  bool is_set = at + 1 < word.end && (text[at + 1] == '=' || text[at + 1] == '+');
  return is_set ? at + 1 - open : 0;
}

bool shell_is_assignment(const char *text, const plim_argument *a, shell_assignment *out) {
  size_t begin = a->span.begin, n = 0;
  while (begin + n < a->span.end && plim_shell_is_name(text[begin + n], n == 0)) n++;
  size_t end = begin + n + element(text, a->span, n);
  *out = (shell_assignment){.name = {begin, begin + n}, .is_element = end > begin + n};
  out->is_appended = end < a->span.end && text[end] == '+';
  end += out->is_appended;
  return n && end < a->span.end && text[end] == '=';
}

bool shell_is_colon(const char *text, const plim_argument *a) {
  return a->span.end - a->span.begin == 1 && text[a->span.begin] == ':';
}

bool shell_has_list(const char *text, const plim_argument *a) {
  return a->tail.begin < a->tail.end && text[a->tail.begin] == '(';
}

static bool is_empty(const char *text, plim_span tail) {
  size_t n = tail.end - tail.begin;
  if (n && text[tail.begin] == '(') {
    while (n > 1 && strchr(" \t\r\n(", text[tail.begin])) tail.begin++, n--;
    return text[tail.begin] == ')';
  }
  return n == 0 ||
         (n == 2 && strchr("'\"", text[tail.begin]) && text[tail.begin] == text[tail.begin + 1]);
}

size_t shell_count_assignments(const char *text, const plim_arguments *words) {
  shell_assignment ignored;
  size_t n = 0;
  while (n < words->len && shell_is_assignment(text, &words->at[n], &ignored)) n++;
  if (n == words->len || !plim_argument_is(text, &words->at[n], "env")) return n;
  size_t set = n + 1;
  while (set < words->len && shell_is_assignment(text, &words->at[set], &ignored)) set++;
  return set > n + 1 ? set : n;
}

const char *shell_variable_key(shell_reader *r, plim_span name) {
  return plim_scanner_keep_span(r->f, r->text, name, "$");
}

bool shell_is_before_opaque(const shell_reader *r) { return r->command < r->last_opaque; }

static const plim_shell_scope *scope_of(const shell_reader *r, size_t command) {
  return &r->view->script.scopes.at[r->view->script.commands.at[command].scope];
}

// The test directly before the command that decides whether it runs; NULL if there is none.
static const plim_shell_command *test_before(const shell_reader *r) {
  if (!r->command) return NULL;
  const plim_shell_command *test = shell_command(r) - 1;
  const plim_shell_scope *own = scope_of(r, r->command), *its = scope_of(r, r->command - 1);
  plim_span word = r->view->script.words.at[test->first];
  size_t n = word.end - word.begin;
  bool is_test = r->text[word.begin] == '[' || (n == 4 && !memcmp(r->text + word.begin, "test", 4));
  bool is_and = own->is_and && own->parent == test->scope;
  bool is_if = its->is_test && own->parent == its->parent;
  return !shell_is_list(test) && is_test && (is_and || is_if) ? test : NULL;
}

static plim_span words_of(const shell_reader *r, const plim_shell_command *c) {
  const plim_span *words = r->view->script.words.at + c->first;
  return (plim_span){words[0].begin, words[c->count - 1].end};
}

bool shell_is_guarded(shell_reader *r, plim_span name) {
  const plim_shell_command *test = test_before(r);
  if (!test) return false;
  plim_span all = words_of(r, test);
  size_t at = all.begin, n = name.end - name.begin;
  while (at < all.end && r->text[at] != '-') at++;
  if (all.end - at < 3 || memcmp(r->text + at, "-z ", 3) != 0) return false;
  at += 3;
  at += at < all.end && r->text[at] == '"';
  if (at >= all.end || r->text[at++] != '$') return false;
  at += at < all.end && r->text[at] == '{';
  if (all.end - at < n || memcmp(r->text + at, r->text + name.begin, n) != 0) return false;
  for (at += n; at < all.end; at++) // the rest of "${NAME:-}" ]]
    if (!strchr("}:-+\" ]", r->text[at])) return false;
  return true;
}

// Whether a test is about the arguments of the script.
static bool asks_for_arguments(const shell_reader *r, const plim_shell_command *test) {
  plim_span all = test ? words_of(r, test) : (plim_span){0};
  for (size_t i = all.begin; i + 1 < all.end; i++)
    if (r->text[i] == '$' && strchr("#@*123456789", r->text[i + 1 + (r->text[i + 1] == '{')]))
      return true;
  return false;
}

bool shell_is_callers(const shell_reader *r, const plim_argument *a) {
  const plim_shell_scope *scope = scope_of(r, r->command);
  if (!plim_shell_is_given(r->text, a) || scope->in_function || r->f->has_own_positions)
    return false;
  return scope->in_loop || asks_for_arguments(r, test_before(r));
}

// ---- commands that may set anything -----------------------------------------------------------------

static bool is_word(const shell_reader *r, size_t i, const char *word) {
  return i < r->words.len && plim_argument_is(r->text, &r->words.at[i], word);
}

static void note_opaque(shell_reader *r) {
  r->f->has_opaque = true;
  r->last_opaque = scope_of(r, r->command)->in_function ? SIZE_MAX : r->command + 1;
}

// Whether the names of variables from the word `first` on are literal; false if one is computed.
static bool names_are_written(const shell_reader *r, size_t first) {
  for (size_t i = first; i < r->words.len; i++) {
    plim_span word = r->words.at[i].span;
    size_t at = word.begin;
    at += strchr("'\"", r->text[at]) != NULL;
    size_t n = 0;
    while (at + n < word.end && plim_shell_is_name(r->text[at + n], n == 0)) n++;
    bool is_name = at + n >= word.end || strchr("=+['\"", r->text[at + n]);
    if (!is_name && strchr("$`", r->text[at + n])) return false;
  }
  return true;
}

// Whether eval runs a command that is fully known, or one that only sets up an environment.
static bool is_harmless_eval(shell_reader *r, size_t first) {
  if (first >= r->words.len) return true;
  plim_span word = r->words.at[first].span, name = plim_shell_list_name(r->text, word);
  for (size_t i = first; i < r->words.len; i++)
    if (plim_brings_programs(r->text, r->words.at[i].span)) return true;
  if (!name.end)
    return plim_is_argument_text(r->text, word) ||
           plim_argument_launches(r->text, &r->words.at[first]);
  plim_scanner_name(r->f, &r->evaluated, shell_variable_key(r, name));
  return !r->doubts_eval;
}

// Whether a trap may change variables between the commands of the script.
static bool is_trap_between(const shell_reader *r, size_t first) {
  bool is_between = false;
  for (size_t i = first + 1; i < r->words.len; i++)
    is_between |= is_word(r, i, "DEBUG") || is_word(r, i, "ERR") || is_word(r, i, "RETURN");
  if (!is_between || first >= r->words.len) return false;
  plim_span word = r->words.at[first].span;
  return memchr(r->text + word.begin, '=', word.end - word.begin) ||
         memchr(r->text + word.begin, '$', word.end - word.begin);
}

static void visit_opaque(shell_reader *r) {
  const plim_shell_command *c = shell_command(r);
  size_t n = shell_is_list(c) ? r->words.len : shell_count_assignments(r->text, &r->words);
  shell_assignment ignored;
  while (n < r->words.len && (is_word(r, n, "command") || is_word(r, n, "builtin"))) n++;
  if (n == r->words.len || c->substitutions) return;
  const plim_argument *program = &r->words.at[n];
  bool is_opaque = plim_command_sources(r->text, program, r->words.len - n);
  if (is_word(r, n, "eval")) is_opaque = !is_harmless_eval(r, n + 1);
  if (is_word(r, n, "trap")) is_opaque = is_trap_between(r, n + 1);
  bool is_declaration = plim_shell_is_declaration(r->text, program);
  if (is_declaration || plim_shell_sets_its_words(r->text, program))
    is_opaque |= !is_word(r, n, "printf") && !is_word(r, n, "let") && !names_are_written(r, n + 1);
  if (is_word(r, n, "printf") && is_word(r, n + 1, "-v")) {
    plim_span name = n + 2 < r->words.len ? r->words.at[n + 2].span : (plim_span){0};
    is_opaque |= memchr(r->text + name.begin, '$', name.end - name.begin) != NULL;
  }
  if (is_opaque) note_opaque(r);
  bool is_set = is_word(r, n, "set") && n + 1 < r->words.len;
  if (is_set && (is_word(r, n + 1, "--") || !strchr("-+", r->text[r->words.at[n + 1].span.begin])))
    r->f->has_own_positions = true;
  if (!is_declaration || !scope_of(r, r->command)->in_function) return;
  for (size_t i = n + 1; i < r->words.len; i++) {
    if (is_word(r, n, "export") || is_word(r, n, "readonly") ||
        shell_is_assignment(r->text, &r->words.at[i], &ignored))
      continue;
    shell_local local = {shell_variable_key(r, r->words.at[i].span), program->span.begin};
    if (!vec_push(&r->locals, local)) r->f->is_out = true;
  }
}

// ---- what programs see -------------------------------------------------------------------------------

bool shell_is_export(const shell_reader *r, size_t program) {
  bool exports = is_word(r, program, "export");
  for (size_t i = program + 1; i < r->words.len; i++) {
    plim_span word = r->words.at[i].span;
    if (r->text[word.begin] != '-') continue;
    if (exports && memchr(r->text + word.begin, 'n', word.end - word.begin)) return false;
    if (memchr(r->text + word.begin, 'x', word.end - word.begin)) return true;
  }
  return exports;
}

static void export_name(shell_reader *r, const char *key) {
  plim_scanner_name(r->f, &r->exported, key);
}

// set -a or set +a, also as set -o allexport.
static void turn_export_of_all(shell_reader *r, char sign) {
  if (sign == '-') r->export_of_all = SHELL_ON;
  else if (r->export_of_all == SHELL_ON) r->export_of_all = SHELL_OFF;
  r->off_scope = shell_command(r)->scope;
}

// Whether set -a is in force. set +a counts where it has surely run.
static bool exports_all(const shell_reader *r) {
  if (r->export_of_all != SHELL_OFF) return r->export_of_all == SHELL_ON;
  return !plim_shell_has_run(&r->view->script.scopes, r->off_scope, shell_command(r)->scope);
}

// The options of set, up to the first word that is none.
static void note_set(shell_reader *r, size_t first) {
  for (size_t i = first; i < r->words.len; i++) {
    plim_span word = r->words.at[i].span;
    char sign = r->text[word.begin];
    if (!strchr("-+", sign) || is_word(r, i, "--") || word.end - word.begin < 2) return;
    bool has_name = false;
    for (size_t at = word.begin + 1; at < word.end; at++) {
      if (r->text[at] == 'a') turn_export_of_all(r, sign);
      has_name |= r->text[at] == 'o';
    }
    if (has_name && is_word(r, ++i, "allexport")) turn_export_of_all(r, sign);
  }
}

// export A B=1, declare -x A.
static void note_exports(shell_reader *r, size_t program) {
  if (is_word(r, program, "set")) note_set(r, program + 1);
  if (!plim_shell_is_declaration(r->text, &r->words.at[program]) || !shell_is_export(r, program))
    return;
  for (size_t i = program + 1; i < r->words.len; i++) {
    plim_span name = r->words.at[i].span;
    size_t n = 0;
    while (name.begin + n < name.end && plim_shell_is_name(r->text[name.begin + n], n == 0)) n++;
    name.end = name.begin + n;
    if (n) export_name(r, shell_variable_key(r, name));
  }
}

// The NAME of a NAME=$NAME, NAME="$NAME" or NAME=${NAME whose $ is at this byte; empty: it is none.
static plim_span handed_on(const char *text, plim_span within, size_t dollar) {
  size_t sign = dollar, used = dollar + 1;
  sign -= sign > within.begin && (text[sign - 1] == '"' || text[sign - 1] == '\'');
  if (sign == within.begin || text[sign - 1] != '=') return (plim_span){0};
  plim_span name = {sign - 1, sign - 1};
  while (name.begin > within.begin && plim_shell_is_name(text[name.begin - 1], false)) name.begin--;
  size_t n = name.end - name.begin;
  used += used < within.end && text[used] == '{';
  bool is_same = n && used + n <= within.end && memcmp(text + used, text + name.begin, n) == 0 &&
                 (used + n == within.end || !plim_shell_is_name(text[used + n], false));
  return is_same ? name : (plim_span){0};
}

// -e NAME=$NAME, env "NAME=${NAME}": a value that is passed on by hand.
static void note_handed_on(shell_reader *r, plim_span within) {
  for (size_t at = within.begin; at < within.end; at++) {
    if (r->text[at] != '$') continue;
    plim_span name = handed_on(r->text, within, at);
    if (name.end) export_name(r, shell_variable_key(r, name));
  }
}

// In words that a program gets, in lists, and in here-documents, which follow the words. NAME=${NAME:-1} alone passes
// nothing on.
static void note_all_handed_on(shell_reader *r) {
  const plim_shell_script *script = &r->view->script;
  const plim_shell_command *c = shell_command(r);
  size_t n = shell_is_list(c) ? 0 : shell_count_assignments(r->text, &r->words);
  bool has_program = n < r->words.len && !plim_shell_is_declaration(r->text, &r->words.at[n]);
  shell_assignment to;
  for (size_t i = 0; i < r->words.len; i++) {
    bool is_set = !has_program && shell_is_assignment(r->text, &r->words.at[i], &to);
    note_handed_on(r, is_set ? r->words.at[i].tail : r->words.at[i].span);
  }
  if (!c->has_here_document || !r->words.len) return;
  bool is_last = r->command + 1 == script->commands.len;
  size_t next = is_last ? r->size : script->commands.at[r->command + 1].begin;
  size_t end = r->words.at[r->words.len - 1].span.end;
  if (end < next) note_handed_on(r, (plim_span){end, next});
}

bool shell_is_exported(const shell_reader *r, const char *key) {
  return plim_names_count(&r->exported, key);
}

// ---- what is set ------------------------------------------------------------------------------------

// Counts the variable twice, so that its value is not trusted.
static void set_oddly(shell_reader *r, const char *key) {
  plim_scanner_name(r->f, &r->f->set, key);
  plim_scanner_name(r->f, &r->f->set, key);
}

// Notes that a command sets the variable, so it may not have the value that was assigned.
static void change_oddly(shell_reader *r, plim_span name) {
  const char *key = shell_variable_key(r, name);
  set_oddly(r, key);
  plim_scanner_name(r->f, &r->changed, key);
}

static int by_local(const void *x, const void *y) {
  const shell_local *a = x, *b = y;
  int name = strcmp(a->name, b->name);
  return name ? name : (a->begin > b->begin) - (a->begin < b->begin);
}

// Whether `local NAME` follows later, which would hide this assignment.
static bool is_hidden_later(const shell_reader *r, const char *key, size_t begin) {
  size_t low = 0, high = r->locals.len;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (strcmp(r->locals.at[middle].name, key) <= 0) low = middle + 1;
    else high = middle;
  }
  return low && strcmp(r->locals.at[low - 1].name, key) == 0 && r->locals.at[low - 1].begin > begin;
}

// Whether the new value begins with the old one: ARGS="$ARGS --lr 1".
static bool adds_to_itself(shell_reader *r, const plim_argument *a, plim_span name) {
  size_t n = name.end - name.begin, begin = a->tail.begin;
  while (begin < a->tail.end && strchr("(\" \t\r\n", r->text[begin])) begin++;
  size_t end = begin;
  while (end < a->tail.end && !strchr(" \t\r\n\")", r->text[end])) end++;
  plim_span own = plim_shell_list_name(r->text, (plim_span){begin, end});
  return own.end - own.begin == n && memcmp(r->text + own.begin, r->text + name.begin, n) == 0;
}

// Whether the list that begins at `begin` has a flag and its value in one pair of quotes: ("--lr 1").
static bool has_flag_texts(const shell_reader *r, size_t begin) {
  const plim_shell_script *script = &r->view->script;
  size_t i = r->command;
  while (i < script->commands.len && script->commands.at[i].begin < begin) i++;
  if (i == script->commands.len || script->commands.at[i].begin != begin) return false;
  const plim_shell_command *c = &script->commands.at[i];
  for (size_t k = 0; k < c->count; k++)
    if (plim_is_flag_text(r->text, script->words.at[c->first + k])) return true;
  return false;
}

static void note_list_set(shell_reader *r, const plim_argument *a, shell_assignment to,
                          const char *key, bool is_odd) {
  shell_list_set set = {.name = key, .command = r->command, .begin = a->span.begin};
  set.is_array = shell_has_list(r->text, a);
  set.is_empty = is_empty(r->text, a->tail) && !to.is_appended;
  set.adds = to.is_appended || adds_to_itself(r, a, to.name);
  set.is_glued = to.is_appended && !set.is_array && a->tail.begin + 1 < a->tail.end &&
                 !strchr(" \t\n", r->text[a->tail.begin + 1]);
  set.is_odd = is_odd;
  set.has_texts = set.is_array && has_flag_texts(r, a->tail.begin);
  set.count = 2;
  if (!vec_push(&r->list_sets, set)) r->f->is_out = true;
}

static void note_assignment(shell_reader *r, const plim_argument *a, bool is_lasting,
                            bool is_plain) {
  shell_assignment to;
  if (!shell_is_assignment(r->text, a, &to)) return;
  const char *key = shell_variable_key(r, to.name);
  if (exports_all(r)) export_name(r, key);
  if (to.is_element) {
    change_oddly(r, to.name);
    return;
  }
  if (is_lasting && strcmp(key, "$IFS") == 0) r->f->has_own_ifs = true;
  bool has_arguments = plim_is_argument_text(r->text, a->tail) || shell_has_list(r->text, a);
  bool is_hidden = shell_is_before_opaque(r) || is_hidden_later(r, key, a->span.begin);
  bool is_list = has_arguments || is_empty(r->text, a->tail);
  if (is_list) {
    plim_scanner_name(r->f, &r->f->lists, key);
    note_list_set(r, a, to, key, is_hidden || !is_lasting || !is_plain);
  }
  if (is_list && !has_arguments && !to.is_appended && is_lasting && is_plain && !is_hidden) {
    r->list_sets.at[r->list_sets.len - 1].count = 1;
    plim_scanner_name(r->f, &r->f->set, key);
  } else if (is_list || to.is_appended || !is_lasting || !is_plain || is_hidden) set_oddly(r, key);
  else if (!shell_is_callers(r, a)) plim_scanner_name(r->f, &r->f->set, key);
}

static void note_defaults(shell_reader *r) {
  for (size_t i = 1; i < r->words.len; i++) {
    plim_span name = plim_shell_assigned_default(r->text, r->words.at[i].span);
    if (!name.end) continue;
    const char *key = shell_variable_key(r, name);
    if (exports_all(r)) export_name(r, key);
    plim_scanner_name(r->f, &r->f->set, key);
    if (shell_is_before_opaque(r)) plim_scanner_name(r->f, &r->f->set, key);
    if (!vec_push(&r->assigned_defaults, name.begin)) r->f->is_out = true;
  }
}

// Notes that the name at the beginning of a word is changed, or all names in the word.
static void note_names(shell_reader *r, plim_span word, bool is_all) {
  for (size_t at = word.begin + (strchr("'\"", r->text[word.begin]) != NULL); at < word.end;) {
    size_t n = 0;
    while (at + n < word.end && plim_shell_is_name(r->text[at + n], n == 0)) n++;
    if (n) change_oddly(r, (plim_span){at, at + n});
    if (!is_all) return;
    at += n ? n : 1;
  }
}

// Notes the variables that read NAME, unset NAME, printf -v NAME and let NAME=... change.
static void note_words(shell_reader *r, size_t first) {
  bool is_let = is_word(r, first - 1, "let"), is_printf = is_word(r, first - 1, "printf");
  bool is_declaration =
      plim_shell_is_declaration(r->text, &r->words.at[first - 1]); // declare -n NAME=OTHER
  for (size_t i = first; i < r->words.len; i++)
    if (!is_printf || is_word(r, i - 1, "-v"))
      note_names(r, r->words.at[i].span, is_let || is_declaration);
}

// Whether a declaration has no option that changes values: -i evaluates arithmetic, -n refers to another variable, -u
// and -l change the case.
static bool is_plain_declaration(const shell_reader *r, size_t first) {
  for (size_t i = first; i < r->words.len; i++) {
    plim_span word = r->words.at[i].span;
    if (!strchr("-+", r->text[word.begin])) continue;
    for (size_t at = word.begin; at < word.end; at++)
      if (strchr("inulcaA", r->text[at])) return false;
  }
  return true;
}

static void visit_variables(shell_reader *r) {
  const plim_shell_command *c = shell_command(r);
  note_all_handed_on(r);
  if (shell_is_list(c) || c->substitutions) return;
  size_t n = shell_count_assignments(r->text, &r->words);
  bool is_all = n == r->words.len;
  for (size_t i = 0; i < n; i++) note_assignment(r, &r->words.at[i], is_all, true);
  while (n < r->words.len && (is_word(r, n, "command") || is_word(r, n, "builtin"))) n++;
  if (n == r->words.len) return;
  note_exports(r, n);
  const plim_argument *program = &r->words.at[n];
  bool is_declaration = plim_shell_is_declaration(r->text, program);
  bool is_error = is_word(r, n, "local") && !scope_of(r, r->command)->in_function;
  bool is_plain = is_declaration && is_plain_declaration(r, n + 1) && !is_error;
  for (size_t i = n + 1; i < r->words.len && is_declaration; i++)
    note_assignment(r, &r->words.at[i], true, is_plain);
  if (is_declaration && !is_plain) note_words(r, n + 1);
  if (shell_is_colon(r->text, program)) note_defaults(r);
  if (plim_shell_sets_its_words(r->text, program)) note_words(r, n + 1);
}

static int by_size(const void *x, const void *y) {
  size_t a = *(const size_t *)x, b = *(const size_t *)y;
  return (a > b) - (a < b);
}

// Notes variables that for, select, $((NAME++)) and ${NAME:=...} change, except `: ${NAME:=...}`, which is a setting.
static void note_changed(shell_reader *r) {
  const plim_shell_script *script = &r->view->script;
  size_t *known = r->assigned_defaults.at, count = r->assigned_defaults.len;
  if (count) plim_sort(known, count, sizeof *known, by_size);
  for (size_t i = 0; i < script->changed.len; i++) {
    plim_span name = script->changed.at[i];
    if (!count || !bsearch(&name.begin, known, count, sizeof *known, by_size))
      change_oddly(r, name);
  }
}

// Whether all variables that eval runs are set to literal commands only.
static bool are_commands(const shell_reader *r) {
  for (size_t i = 0; i < r->evaluated.len; i++) {
    const shell_list *list = shell_find_list(r, r->evaluated.at[i]);
    if (!list || !list->is_command || list->count != plim_names_count(&r->f->set, list->name))
      return false;
  }
  return true;
}

static void note_all(shell_reader *r) {
  r->f->set.len = r->f->lists.len = r->locals.len = r->list_sets.len = 0;
  r->lists.len = r->changed.len = r->exported.len = 0;
  r->evaluated.len = r->assigned_defaults.len = 0;
  r->export_of_all = SHELL_NEVER;
  shell_for_each_command(r, visit_opaque);
  if (r->locals.len) plim_sort(r->locals.at, r->locals.len, sizeof *r->locals.at, by_local);
  shell_for_each_command(r, visit_variables);
  note_changed(r);
  plim_names_sort(&r->f->set);
  plim_names_sort(&r->f->lists);
  plim_names_sort(&r->changed);
  plim_names_sort(&r->exported);
  shell_join_list_sets(r);
}

void shell_note_variables(shell_reader *r) {
  note_all(r);
  if (are_commands(r)) return;
  r->doubts_eval = true;
  note_all(r);
}
