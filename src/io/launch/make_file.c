// Makefiles: the recipes of rules, with the variables in them expanded.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "make_variables.h"
#include "value.h"

typedef struct {
  char *name; // its first target
  int line;   // of the rule
  plim_sourced prerequisites;
  vec(plim_span) recipe; // each with its continued lines, without the tab before it
  bool is_double, is_vague, is_conditional;
} rule;

typedef struct {
  const char *text;
  size_t size, at;
  plim_make_variables vars;
  plim_make_variables own; // assignments for one target; their names are "target NAME"
  vec(rule) rules;
  bool is_in_rule, has_one_shell;
  int conditionals; // how many are open
  size_t if_byte;   // of the last one that was opened
  plim_launch_file *out;
} makefile;

static plim_err fail_at(size_t byte, const char *what, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_PARSE, "%s", what);
  plim_error_at(error, byte);
  return err;
}

// ---- lines ------------------------------------------------------------------------------------------

// From here to the end of the line, or of those that a backslash continues it with; without the line end.
static plim_span whole_line(makefile *m) {
  size_t begin = m->at, end = begin;
  for (;; end++) {
    while (end < m->size && m->text[end] != '\n') end++;
    size_t slashes = 0, last = end;
    if (last > begin && m->text[last - 1] == '\r') last--;
    while (last - slashes > begin && m->text[last - slashes - 1] == '\\') slashes++;
    if (end >= m->size || slashes % 2 == 0) break;
  }
  m->at = end < m->size ? end + 1 : end;
  if (end > begin && m->text[end - 1] == '\r') end--;
  return (plim_span){begin, end};
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

// A line outside of recipes as make reads it: without its comment, and with a blank for a continued line end.
static void read_line(const makefile *m, plim_span line, plim_sourced *out) {
  for (size_t i = line.begin; i < line.end; i++) {
    bool is_escape = m->text[i] == '\\' && i + 1 < line.end;
    size_t feed = i + 1 + (is_escape && m->text[i + 1] == '\r');
    if (m->text[i] == '#') break;
    if (is_escape && m->text[i + 1] == '#') plim_sourced_put(out, '#', PLIM_FROM_NOWHERE), i++;
    else if (is_escape && feed < line.end && m->text[feed] == '\n') {
      while (out->bytes.len && is_blank(out->bytes.at[out->bytes.len - 1]))
        out->bytes.len--, out->from.len--;
      for (i = feed; i + 1 < line.end && is_blank(m->text[i + 1]);) i++;
      plim_sourced_put(out, ' ', PLIM_FROM_NOWHERE);
    } else plim_sourced_put(out, m->text[i], (uint32_t)i);
  }
}

typedef struct {
  const char *at;
  size_t size;
} piece;

static piece trimmed(const char *at, size_t size) {
  while (size && is_blank(*at)) at++, size--;
  while (size && is_blank(at[size - 1])) size--;
  return (piece){at, size};
}

// Takes the first word if it is this one.
static bool take(piece *p, const char *word) {
  size_t n = strlen(word);
  if (p->size < n || memcmp(p->at, word, n) != 0) return false;
  if (p->size > n && !is_blank(p->at[n])) return false;
  *p = trimmed(p->at + n, p->size - n);
  return true;
}

// ---- assignments ------------------------------------------------------------------------------------

typedef struct {
  piece name;
  plim_make_how how;
  size_t value; // the index of its first byte in the line
} assignment;

// The first = or : outside of references; `size` if there is none.
static size_t find_sign(const char *line, size_t from, size_t size) {
  int depth = 0;
  for (size_t i = from; i < size; i++) {
    if (line[i] == '$' && i + 1 < size && strchr("({", line[i + 1])) depth++, i++;
    else if (depth && strchr("({", line[i])) depth++;
    else if (depth && strchr(")}", line[i])) depth--;
    else if (!depth && (line[i] == '=' || line[i] == ':')) return i;
  }
  return size;
}

// NAME = value, from byte `from` of the line on; false if it is none.
static bool read_assignment(const plim_sourced *line, size_t from, assignment *out) {
  const char *at = line->bytes.at;
  size_t size = line->bytes.len, sign = find_sign(at, from, size), end = sign, colons = 0;
  if (sign == size) return false;
  while (sign < size && at[sign] == ':') sign++, colons++;
  if (sign == size || at[sign] != '=' || colons > 3) return false;
  char before = !colons && sign > from ? at[sign - 1] : 0;
  out->how = colons == 3     ? PLIM_MAKE_UNKNOWN
             : colons        ? PLIM_MAKE_NOW
             : before == '?' ? PLIM_MAKE_UNLESS_SET
             : before == '+' ? PLIM_MAKE_MORE
             : before == '!' ? PLIM_MAKE_UNKNOWN
                             : PLIM_MAKE_LATE;
  if (before && strchr("?+!", before)) end--;
  out->name = trimmed(at + from, end - from);
  for (out->value = sign + 1; out->value < size && is_blank(at[out->value]);) out->value++;
  for (size_t i = 0; i < out->name.size; i++)
    if (is_blank(out->name.at[i])) return false;
  return out->name.size;
}

static void assign(makefile *m, plim_make_variables *to, const char *name, const assignment *a,
                   const plim_sourced *line, int number) {
  plim_sourced value = {0};
  plim_make_how how = m->conditionals ? PLIM_MAKE_UNKNOWN : a->how;
  if (memchr(a->name.at, '$', a->name.size)) m->vars.doubts_all = true;
  plim_sourced_append(&value, line, a->value, line->bytes.len);
  plim_make_assign(to, name, strlen(name), how, &value, number);
  plim_sourced_free(&value);
}

// The words before an assignment.
typedef struct {
  bool is_exported, is_override;
} modifiers;

// Returns where the line goes on behind them.
static size_t read_modifiers(const plim_sourced *line, size_t from, modifiers *out) {
  piece rest = trimmed(line->bytes.at + from, line->bytes.len - from);
  *out = (modifiers){0};
  for (bool more = true; more;) {
    bool exports = take(&rest, "export"), overrides = take(&rest, "override");
    out->is_exported |= exports;
    out->is_override |= overrides;
    more = exports || overrides || take(&rest, "private");
  }
  return (size_t)(rest.at - line->bytes.at);
}

// What `override` sets, only `override` sets again.
static void assign_to_all(makefile *m, const assignment *a, const modifiers *with,
                          const plim_sourced *line, int number) {
  char *name = plim_copy_of(a->name.at, a->name.size);
  plim_make_variable *v = plim_make_variable_of(&m->vars, a->name.at, a->name.size);
  bool is_kept = v && v->is_fixed && !with->is_override;
  if (v) v->is_fixed |= with->is_override && !(a->how == PLIM_MAKE_UNLESS_SET && v->is_set);
  if (name && v && !is_kept) assign(m, &m->vars, name, a, line, number);
  if (is_kept) v->assignments++;
  m->vars.is_out |= !name || !v;
  free(name);
}

// ---- rules ------------------------------------------------------------------------------------------

// target: NAME = value
static void assign_to_target(makefile *m, const char *target, const assignment *a,
                             const modifiers *with, const plim_sourced *line, int number) {
  char *name = NULL;
  plim_make_variable *v = plim_make_variable_of(&m->vars, a->name.at, a->name.size);
  bool is_odd = with->is_override || !v || v->is_fixed || strpbrk(target, "%$ ") ||
                a->how == PLIM_MAKE_MORE || a->how == PLIM_MAKE_UNKNOWN;
  int size = is_odd ? asprintf(&name, "%.*s", (int)a->name.size, a->name.at)
                    : asprintf(&name, "%s %.*s", target, (int)a->name.size, a->name.at);
  if (size < 0) {
    m->vars.is_out = true;
    return;
  }
  assignment unknown = *a;
  if (is_odd) unknown.how = PLIM_MAKE_UNKNOWN;
  assign(m, is_odd ? &m->vars : &m->own, name, &unknown, line, number);
  free(name);
}

static char *expanded(makefile *m, const plim_sourced *line, size_t begin, size_t end) {
  plim_sourced names = {0};
  plim_make_expand(&m->vars, &(plim_make_place){0}, line, begin, end, &names);
  piece all = trimmed(names.bytes.at, names.bytes.len);
  char *copy = all.at ? plim_copy_of(all.at, all.size) : strdup("");
  plim_sourced_free(&names);
  return copy;
}

static void free_rule(rule *r) {
  plim_sourced_free(&r->prerequisites);
  vec_free(&r->recipe);
  free(r->name);
}

// `sign` is that of the colon.
static plim_err add_rule(makefile *m, plim_span whole, const plim_sourced *line, size_t sign,
                         int number, plim_error *error) {
  const char *at = line->bytes.at;
  size_t size = line->bytes.len, behind = sign, end;
  char *targets = expanded(m, line, 0, sign);
  assignment own;
  modifiers with;
  rule r = {.line = number, .is_conditional = m->conditionals > 0};
  if (!targets) return plim_no_memory(error);
  while (behind < size && at[behind] == ':') behind++;
  r.is_double = behind - sign > 1;
  if (read_assignment(line, read_modifiers(line, behind, &with), &own)) {
    assign_to_target(m, targets, &own, &with, line, number);
    free(targets);
    return PLIM_OK;
  }
  for (end = behind; end < size && at[end] != ';';) end++;
  plim_make_expand(&m->vars, &(plim_make_place){0}, line, behind, end, &r.prerequisites);
  piece rest = trimmed(r.prerequisites.bytes.at, r.prerequisites.bytes.len);
  plim_sourced words = {0};
  size_t skipped = rest.at ? (size_t)(rest.at - r.prerequisites.bytes.at) : 0;
  plim_sourced_append(&words, &r.prerequisites, skipped, skipped + rest.size);
  plim_sourced_free(&r.prerequisites);
  r.prerequisites = words;
  r.name = plim_copy_of(targets, strcspn(targets, " \t"));
  r.is_vague = strchr(targets, '%') || strpbrk(targets, " \t") || strchr(targets, '$');
  if (strcmp(targets, ".ONESHELL") == 0) m->has_one_shell = true;
  free(targets);
  bool ok = r.name && !m->vars.is_out;
  // The commands behind a semicolon are the rest of the line, with what looks like a comment.
  if (ok && end < size && line->from.at[end] < PLIM_FROM_OPEN)
    ok = vec_push(&r.recipe, (plim_span){line->from.at[end] + 1u, whole.end});
  m->is_in_rule = true;
  if (ok && vec_push(&m->rules, r)) return PLIM_OK;
  free_rule(&r);
  return plim_no_memory(error);
}

static plim_err add_recipe(makefile *m, plim_span line, plim_error *error) {
  rule *r = &m->rules.at[m->rules.len - 1];
  r->is_conditional |= m->conditionals > 0;
  return vec_push(&r->recipe, line) ? PLIM_OK : plim_no_memory(error);
}

// ---- directives -------------------------------------------------------------------------------------

static void doubt(makefile *m, piece name) {
  plim_make_variable *v = plim_make_variable_of(&m->vars, name.at, name.size);
  if (v) v->is_set = v->is_unclear = true, v->assignments += 2;
}

static plim_err skip_define(makefile *m, piece rest, size_t begin, plim_error *error) {
  size_t name = 0;
  while (name < rest.size && !is_blank(rest.at[name]) && !strchr(":=+?!", rest.at[name])) name++;
  doubt(m, (piece){rest.at, name});
  for (int depth = 1; depth > 0;) {
    if (m->at >= m->size) return fail_at(begin, "define has no endef", error);
    plim_span line = whole_line(m);
    piece word = trimmed(m->text + line.begin, line.end - line.begin);
    if (take(&word, "define")) depth++;
    else if (take(&word, "endef")) depth--;
  }
  return PLIM_OK;
}

static void export_names(makefile *m, piece names) {
  if (!names.size) m->vars.exports_all = true;
  while (names.size) {
    size_t size = 0;
    while (size < names.size && !is_blank(names.at[size])) size++;
    plim_make_variable *v = plim_make_variable_of(&m->vars, names.at, size);
    // The name alone makes an empty variable, or one of the environment, which ?= does not set.
    if (v && !v->is_set) v->is_set = v->is_unclear = true;
    if (v) v->is_exported = true;
    names = trimmed(names.at + size, names.size - size);
  }
}

// Returns true if the line is a directive; *err is set if it is one that cannot be read.
static bool read_directive(makefile *m, piece rest, size_t begin, plim_err *err,
                           plim_error *error) {
  piece word = rest;
  *err = PLIM_OK;
  if (take(&word, "ifeq") || take(&word, "ifneq") || take(&word, "ifdef") ||
      take(&word, "ifndef")) {
    m->conditionals++;
    m->if_byte = begin;
  } else if (take(&word, "else")) {
    if (!m->conditionals) *err = fail_at(begin, "else without ifeq, ifdef or the like", error);
  } else if (take(&word, "endif")) {
    if (!m->conditionals--) *err = fail_at(begin, "endif without ifeq, ifdef or the like", error);
  } else if (take(&word, "include") || take(&word, "-include") || take(&word, "sinclude"))
    plim_make_doubt_all(&m->vars);
  else if (take(&word, "define") || (take(&word, "override") && take(&word, "define")))
    *err = skip_define(m, word, begin, error);
  else if ((word = rest, take(&word, "undefine"))) doubt(m, word);
  else if (!take(&word, "vpath") && !take(&word, "unexport") && !take(&word, "load")) return false;
  return true;
}

static bool is_odd_shell(const assignment *a, const plim_sourced *line) {
  piece value = trimmed(line->bytes.at + a->value, line->bytes.len - a->value);
  bool is_shell = a->name.size == 5 && memcmp(a->name.at, "SHELL", 5) == 0;
  return is_shell && (value.size < 2 || memcmp(value.at + value.size - 2, "sh", 2) != 0);
}

static plim_err read_statement(makefile *m, plim_span whole, plim_sourced *line, int number,
                               plim_error *error) {
  size_t begin = whole.begin;
  piece rest = trimmed(line->bytes.at, line->bytes.len);
  modifiers with;
  plim_err err;
  assignment a;
  if (!rest.size) return PLIM_OK;
  if (read_directive(m, rest, begin, &err, error)) return err;
  m->is_in_rule = false;
  size_t from = read_modifiers(line, 0, &with);
  bool sets = read_assignment(line, from, &a);
  if (sets && is_odd_shell(&a, line)) {
    err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                    "SHELL is set to a program that is not a shell, which is not supported");
    plim_error_at(error, begin);
    plim_error_hint(error, "give the command that runs: --command \"python train.py ...\"");
    return err;
  }
  if (sets && a.name.size == 13 && memcmp(a.name.at, ".RECIPEPREFIX", 13) == 0) {
    err = plim_fail(error, PLIM_ERR_UNSUPPORTED, ".RECIPEPREFIX is not supported");
    plim_error_at(error, begin);
    plim_error_hint(error, "give the command that runs: --command \"python train.py ...\"");
    return err;
  }
  if (sets) {
    assign_to_all(m, &a, &with, line, number);
    if (with.is_exported) export_names(m, a.name);
    return PLIM_OK;
  }
  if (with.is_exported)
    return export_names(m, trimmed(line->bytes.at + from, line->bytes.len - from)), PLIM_OK;
  size_t sign = find_sign(line->bytes.at, 0, line->bytes.len);
  if (sign < line->bytes.len && line->bytes.at[sign] == ':')
    return add_rule(m, whole, line, sign, number, error);
  if (*rest.at == '$') return PLIM_OK; // $(info ...); $(eval ...) was looked for
  err = fail_at(begin, "missing separator", error);
  plim_error_hint(error, "a line of a recipe must begin with a tab, not with spaces");
  return err;
}

static plim_err read_all(makefile *m, plim_error *error) {
  plim_err err = PLIM_OK;
  for (int number = 1; !err && m->at < m->size;) {
    bool is_recipe = m->text[m->at] == '\t' && m->is_in_rule && m->rules.len;
    plim_span whole = whole_line(m);
    size_t next = m->at;
    plim_sourced line = {0};
    if (is_recipe) err = add_recipe(m, (plim_span){whole.begin + 1, whole.end}, error);
    else read_line(m, whole, &line);
    if (!is_recipe)
      err = line.is_out ? plim_no_memory(error) : read_statement(m, whole, &line, number, error);
    plim_sourced_free(&line);
    next = m->at; // behind a define
    for (size_t i = whole.begin; i < next; i++) number += m->text[i] == '\n';
  }
  if (!err && m->conditionals) err = fail_at(m->if_byte, "a condition has no endif", error);
  return err;
}

// ---- recipes ----------------------------------------------------------------------------------------

// A line of a recipe as make hands it to the shell: without @ and -, and without the tab of continued lines. Where it
// makes no difference to the shell, that tab stays, so that a new line gets one like it.
static void read_recipe(const makefile *m, plim_span line, plim_sourced *out) {
  char quote = 0;
  while (line.begin < line.end && strchr("@-+ \t", m->text[line.begin])) line.begin++;
  for (size_t i = line.begin; i < line.end; i++) {
    char c = m->text[i];
    plim_sourced_put(out, c, (uint32_t)i);
    if (!quote && (c == '\'' || c == '"')) quote = c;
    else if (quote == c) quote = 0;
    if (c != '\\' || i + 1 >= line.end) continue;
    bool matters = quote || !i || !is_blank(m->text[i - 1]);
    i++;
    plim_sourced_put(out, m->text[i], (uint32_t)i);
    if (m->text[i] == '\r' && i + 1 < line.end) i++, plim_sourced_put(out, m->text[i], (uint32_t)i);
    if (matters && m->text[i] == '\n' && i + 1 < line.end && m->text[i + 1] == '\t') i++;
  }
}

// The variables as the recipe of this target sees them.
static bool put_own(makefile *m, const rule *r, plim_make_variables *to) {
  size_t n = strlen(r->name);
  *to = (plim_make_variables){.text = m->text,
                              .size = m->size,
                              .doubts_all = m->vars.doubts_all,
                              .exports_all = m->vars.exports_all};
  for (size_t i = 0; i < m->vars.variables.len; i++) {
    const plim_make_variable *v = &m->vars.variables.at[i];
    plim_make_variable *copy = plim_make_variable_of(to, v->name, strlen(v->name));
    if (!copy) return false;
    char *name = copy->name;
    *copy = *v;
    copy->name = name;
    copy->value = (plim_sourced){0};
    plim_sourced_append(&copy->value, &v->value, 0, v->value.bytes.len);
  }
  for (size_t i = 0; i < m->own.variables.len; i++) {
    const plim_make_variable *v = &m->own.variables.at[i];
    if (strncmp(v->name, r->name, n) != 0 || v->name[n] != ' ') continue;
    const char *name = v->name + n + 1;
    plim_make_how how = v->is_unclear  ? PLIM_MAKE_UNKNOWN
                        : v->is_simple ? PLIM_MAKE_NOW
                                       : PLIM_MAKE_LATE;
    plim_make_assign(to, name, strlen(name), how, &v->value, v->line);
  }
  return !to->is_out;
}

// A command of a recipe, as a shell gets it.
static void read_command(makefile *m, plim_make_variables *vars, const rule *r, size_t i,
                         plim_sourced *out) {
  const plim_make_place place = {r->is_vague ? NULL : r->name, &r->prerequisites};
  plim_sourced line = {0}, now = {0};
  read_recipe(m, r->recipe.at[i], &line);
  plim_make_expand(vars, &place, &line, 0, line.bytes.len, &now);
  plim_launch_put_command(out, &now);
  plim_sourced_free(&line);
  plim_sourced_free(&now);
}

// Each line has a shell of its own, so only those that train matter, and if they are several, each is in brackets. With
// .ONESHELL, all lines are one script.
static void write_recipe(makefile *m, plim_make_variables *vars, const rule *r,
                         plim_sourced *script, int *first) {
  vec(size_t) lines = {0};
  for (size_t i = 0; i < r->recipe.len; i++) {
    plim_sourced command = {0};
    read_command(m, vars, r, i, &command);
    bool is_kept = m->has_one_shell || plim_launch_trains(m->out, &command);
    if (is_kept && !vec_push(&lines, i)) script->is_out = true;
    plim_sourced_free(&command);
  }
  bool has_brackets = !m->has_one_shell && lines.len > 1;
  for (size_t k = 0; k < lines.len; k++) {
    plim_span line = r->recipe.at[lines.at[k]];
    int number = plim_launch_line(m->text, line.begin);
    if (!k) plim_make_export(vars, *first = number, script);
    plim_sourced_go_to(script, number);
    if (has_brackets) plim_sourced_write(script, k ? ");(" : "(", PLIM_FROM_NOWHERE);
    read_command(m, vars, r, lines.at[k], script);
    plim_sourced_put(script, '\n', line.end < m->size ? (uint32_t)line.end : PLIM_FROM_NOWHERE);
  }
  if (has_brackets) plim_sourced_put(script, ')', PLIM_FROM_NOWHERE);
  vec_free(&lines);
}

static plim_err add_target(makefile *m, const rule *r, plim_error *error) {
  plim_make_variables vars;
  plim_sourced script = {0};
  int first = 0;
  plim_err err = PLIM_OK;
  bool ok = put_own(m, r, &vars);
  if (ok) write_recipe(m, &vars, r, &script, &first);
  if (!ok || script.is_out || vars.is_out) err = plim_no_memory(error);
  else if (first && (!m->has_one_shell || plim_launch_trains(m->out, &script)))
    err = plim_launch_add(
        m->out, r->name, first, &script,
        r->is_conditional ? "depends on a condition (ifeq, ifdef), which plimsoll does not evaluate"
                          : NULL,
        error);
  plim_sourced_free(&script);
  plim_make_variables_clear(&vars);
  return err;
}

// A later recipe for the same target takes its place.
static bool is_replaced(const makefile *m, size_t i) {
  const rule *r = &m->rules.at[i];
  for (size_t k = i + 1; k < m->rules.len; k++) {
    const rule *later = &m->rules.at[k];
    bool is_same = later->recipe.len && strcmp(later->name, r->name) == 0;
    if (is_same && !r->is_double && !later->is_conditional && !r->is_conditional) return true;
  }
  return false;
}

plim_err plim_read_makefile(const char *text, size_t size, plim_launch_file *out,
                            plim_error *error) {
  makefile m = {.text = text, .size = size, .out = out};
  m.vars.text = text, m.vars.size = size;
  m.own = m.vars;
  m.vars.doubts_all = memmem(text, size, "$(eval", 6) || memmem(text, size, "${eval", 6);
  plim_err err = read_all(&m, error);
  if (!err && (m.vars.is_out || m.own.is_out)) err = plim_no_memory(error);
  for (size_t i = 0; !err && i < m.rules.len; i++)
    if (m.rules.at[i].recipe.len && !is_replaced(&m, i))
      err = add_target(&m, &m.rules.at[i], error);
  for (size_t i = 0; i < m.rules.len; i++) free_rule(&m.rules.at[i]);
  vec_free(&m.rules);
  plim_make_variables_clear(&m.vars);
  plim_make_variables_clear(&m.own);
  return err;
}
