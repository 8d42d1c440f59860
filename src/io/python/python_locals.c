// Reads the local variables of functions.
#include <stdio.h>
#include <string.h>

#include "python_reader.h"

// The key prefix of a function's local names: the enclosing scopes and the function's name.
const char *plim_py_function_path(plim_py_reader *r, size_t name, const plim_py_block *inner) {
  const char *outer =
      inner->function < r->names.paths.len ? r->names.paths.at[inner->function] : NULL;
  plim_chars path = {0};
  bool ok = true;
  if (outer) ok = plim_chars_add_text(&path, outer);
  else if (inner->class_size) ok = plim_chars_add(&path, r->class_path.at, inner->class_size);
  if (path.len) ok = ok && vec_push(&path, '.');
  ok = ok && plim_chars_add(&path, plim_py_text(r, name), plim_py_size(r, name));
  ok = ok && plim_chars_add_text(&path, "()");
  uint32_t earlier = ok ? plim_py_calls(&r->names, path.at, path.len) : 0;
  if (ok) plim_py_count_call(&r->names, path.at, path.len);
  if (ok) path.len -= 2; // "()" only separates functions from calls of the same name
  char number[16];
  snprintf(number, sizeof number, "#%u", earlier + 1);
  if (earlier) ok = ok && plim_chars_add_text(&path, number);
  const char *kept = ok ? plim_settings_keep(r->s, path.at, path.len) : NULL;
  if (!kept) plim_py_no_memory(r);
  vec_free(&path);
  return kept;
}

// Records a local variable as a setting if it is assigned a literal unconditionally.
bool plim_py_assign_local(plim_py_reader *r, size_t name, size_t i, size_t end) {
  uint32_t scope = r->block->scope, setting = (uint32_t)r->s->at.len;
  const char *path = scope < r->names.paths.len ? r->names.paths.at[scope] : NULL;
  if (!path || r->block->is_uncertain) return false;
  size_t before = plim_py_push(r, path, strlen(path));
  plim_py_push(r, plim_py_text(r, name), plim_py_size(r, name));
  bool is_literal = plim_py_local(r, name, i, end);
  if (is_literal && r->s->at.len > setting)
    plim_py_add_local(&r->names, (plim_py_local_name){setting, scope, plim_py_text(r, name),
                                                      plim_py_size(r, name)});
  plim_py_pop(r, before);
  return is_literal;
}

// Local names that are bound again are not literals.
void plim_py_settle_locals(plim_py_reader *r) {
  for (size_t i = 0; i < r->names.locals.len && !r->err; i++) {
    plim_setting *x = &r->s->at.at[r->names.locals.at[i].setting];
    if (plim_py_is_only(&r->names, &r->names.locals.at[i])) continue;
    x->chooses = 0;
    if (!plim_py_doubt(r->s, x)) plim_py_no_memory(r);
  }
}

// A model argument that refers to a literal is certain after all.
void plim_py_settle_models(plim_settings *s) {
  for (size_t i = 0; i < s->at.len; i++)
    if (s->at.at[i].is_faint && s->at.at[i].root) s->at.at[i].is_faint = false;
}

// Binds the variables between `for` and `in`, or between `lambda` and its colon.
void plim_py_bind_variables(plim_py_reader *r, size_t i, size_t end) {
  bool is_for = plim_py_is_word(r, i, end, PY_for);
  for (i++; i < end; i++) {
    if (plim_py_is_word(r, i, end, PY_for) || plim_py_is_word(r, i, end, PY_lambda)) return;
    if (is_for ? plim_py_is_word(r, i, end, PY_in) : plim_py_is(r, i, end, ':')) return;
    if (plim_py_is_name(r, i, end))
      plim_py_bind_in_line(&r->names, r->line, plim_py_text(r, i), plim_py_size(r, i));
  }
}

void plim_py_declare_globals(plim_py_reader *r, size_t i, size_t end) {
  for (; i < end; i++)
    if (plim_py_is_name(r, i, end))
      plim_py_declare_global(&r->names, r->block->scope, plim_py_text(r, i), plim_py_size(r, i));
}

void plim_py_bind_nonlocals(plim_py_reader *r, size_t i, size_t end) {
  for (; i < end; i++)
    if (plim_py_is_name(r, i, end))
      plim_py_bind_around(&r->names, r->block->scope, plim_py_text(r, i), plim_py_size(r, i));
}
