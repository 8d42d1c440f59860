#include "python_code.h"

#include <string.h>

#include "python_lexer.h"

static bool begins_here(const plim_py_lexer *x, size_t byte) {
  size_t low = 0, high = x->tokens.len;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (x->tokens.at[middle].begin < byte) low = middle + 1;
    else high = middle;
  }
  if (low == x->tokens.len || x->tokens.at[low].begin != byte) return false;
  return x->tokens.at[low].kind == PLIM_PY_NAME || x->tokens.at[low].kind == PLIM_PY_OPERATOR;
}

static bool is_import(const plim_py_lexer *x) {
  const plim_py_token *first = &x->tokens.at[0];
  return first->kind == PLIM_PY_NAME && (first->what == PY_import || first->what == PY_from);
}

static bool has_in_line(const plim_py_lexer *x, const char *piece, size_t size) {
  if (!x->tokens.len || is_import(x)) return false;
  const char *at = x->text + x->tokens.at[0].begin;
  const char *end = x->text + x->tokens.at[x->tokens.len - 1].end;
  for (; (at = memmem(at, (size_t)(end - at), piece, size)); at++)
    if (begins_here(x, (size_t)(at - x->text))) return true;
  return false;
}

bool plim_python_has(const char *text, size_t size, const char *piece) {
  plim_py_lexer x;
  bool has = false;
  size_t length = strlen(piece);
  if (!memmem(text, size, piece, length)) return false; // mostly so
  if (!plim_py_lexer_open(&x, text, size, NULL))
    while (!has && plim_py_next_line(&x)) has = has_in_line(&x, piece, length);
  plim_py_lexer_close(&x);
  return has;
}
