// Computes the expressions of a Python file from the numbers of the same file.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"
#include "python_reader.h"

enum { KEY_BYTES = 1024 };

void plim_py_note_expression(plim_py_reader *r, uint32_t setting) {
  plim_py_expression e = {.setting = setting, .scope = r->block->scope, .line = r->line};
  bool in_class = r->block->where == PLIM_PY_IN_CLASS;
  if (in_class) e.class_path = plim_settings_keep(r->s, r->class_path.at, r->class_path.len);
  if ((in_class && !e.class_path) || !vec_push(&r->names.expressions, e)) plim_py_no_memory(r);
}

// An expression that is being computed, with the steps that are left for it and for everything it refers to.
typedef struct {
  const plim_py_names *names;
  const plim_settings *s;
  const plim_py_expression *at;
  int *steps;
  char *environment;
} computation;

static bool compute(const computation *c, plim_value *out);

static int by_setting(const void *x, const void *y) {
  const plim_py_expression *a = x, *b = y;
  return (a->setting > b->setting) - (a->setting < b->setting);
}

static const plim_py_expression *expression_of(const plim_py_names *n, uint32_t setting) {
  plim_py_expression wanted = {.setting = setting};
  if (!n->expressions.len) return NULL;
  return bsearch(&wanted, n->expressions.at, n->expressions.len, sizeof wanted, by_setting);
}

static bool value_of(void *context, const char *name, plim_value *out) {
  const computation *c = context;
  char in_class[KEY_BYTES];
  plim_py_reference r = {.setting = c->at->setting,
                         .scope = c->at->scope,
                         .line = c->at->line,
                         .base_size = (uint32_t)strcspn(name, "."),
                         .key = name};
  int size =
      c->at->class_path ? snprintf(in_class, sizeof in_class, "%s.%s", c->at->class_path, name) : 0;
  if (size > 0 && (size_t)size < sizeof in_class) r.class_key = in_class;
  const plim_setting *found = plim_py_target(c->names, c->s, &r);
  if (!found || --*c->steps < 0) return false;
  *out = found->value;
  if (found->value.kind != PLIM_VALUE_DERIVED) return true;
  computation next = *c;
  next.at = expression_of(c->names, (uint32_t)(found - c->s->at.at));
  if (!next.at || next.at->is_unknown || next.at->is_void) return false;
  if (!next.at->is_known) return compute(&next, out);
  // The stored result is used: otherwise chains of names would be computed again and again.
  *out = found->computed;
  if (found->environment)
    snprintf(c->environment, PLIM_ENVIRONMENT_BYTES, "%s", found->environment);
  return true;
}

static bool compute(const computation *c, plim_value *out) {
  const char *source = c->s->at.at[c->at->setting].value.text;
  if (strlen(source) >= PLIM_PY_MAX_SOURCE) return false; // the source may be truncated
  return plim_evaluate(
      source, &(plim_evaluator){value_of, (void *)c, false, c->steps, c->environment}, out);
}

bool plim_py_compute(plim_py_names *n, plim_settings *s) {
  bool ok = true;
  for (size_t i = 0; i < n->expressions.len && ok; i++) {
    int steps = PLIM_EVALUATE_STEPS;
    char environment[PLIM_ENVIRONMENT_BYTES] = "";
    plim_setting *setting = &s->at.at[n->expressions.at[i].setting];
    computation c = {n, s, &n->expressions.at[i], &steps, environment};
    plim_value value;
    bool is_known = setting->value.kind == PLIM_VALUE_DERIVED && !n->expressions.at[i].is_void &&
                    compute(&c, &value);
    n->expressions.at[i].is_known = is_known;
    n->expressions.at[i].is_unknown = !is_known;
    if (!is_known) continue;
    setting->computed = value;
    if (*environment) {
      setting->environment = plim_settings_keep(s, environment, strlen(environment));
      ok = setting->environment != NULL;
    }
  }
  return ok;
}
