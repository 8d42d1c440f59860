#include "python_code.h"

#include <ctype.h>
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

// ---- imports ----------------------------------------------------------------------------------------

static bool is_name_byte(char c) { return isalnum((unsigned char)c) || c == '_'; }

// The module begins at this token: behind `import` or `from`, or behind a comma of `import`.
static bool names_module(const plim_py_lexer *x, size_t i, const char *module, size_t size) {
  const plim_py_token *token = &x->tokens.at[i], *before = token - 1;
  bool is_next = before->kind == PLIM_PY_OPERATOR && before->what == ',';
  if (i > 1 && !(is_next && x->tokens.at[0].what == PY_import)) return false;
  bool is_there = x->size - token->begin >= size && !memcmp(x->text + token->begin, module, size);
  return is_there &&
         (token->begin + size == x->size || !is_name_byte(x->text[token->begin + size]));
}

static bool imports_in_line(const plim_py_lexer *x, const char *module, size_t size) {
  if (!x->tokens.len || !is_import(x)) return false;
  for (size_t i = 1; i < x->tokens.len; i++)
    if (names_module(x, i, module, size)) return true;
  return false;
}

bool plim_python_imports(const char *text, size_t size, const char *module) {
  plim_py_lexer x;
  bool has = false;
  size_t length = strlen(module);
  if (!memmem(text, size, module, length)) return false;
  if (!plim_py_lexer_open(&x, text, size, NULL))
    while (!has && plim_py_next_line(&x)) has = imports_in_line(&x, module, length);
  plim_py_lexer_close(&x);
  return has;
}

// ---- strings ----------------------------------------------------------------------------------------

static void take_string(const plim_py_lexer *x, const plim_py_token *token, plim_python_take *take,
                        void *context) {
  const char *text = x->text + token->begin, *end = x->text + token->end;
  while (text < end && *text != '"' && *text != '\'') text++;
  bool is_long = end - text >= 6 && text[1] == text[0] && text[2] == text[0];
  if (!is_long && end - text >= 2) take(context, text + 1, (size_t)(end - text - 2));
}

void plim_python_strings(const char *text, size_t size, plim_python_take *take, void *context) {
  plim_py_lexer x;
  if (!plim_py_lexer_open(&x, text, size, NULL))
    while (plim_py_next_line(&x))
      for (size_t i = 0; i < x.tokens.len && x.tokens.len > 1; i++)
        if (x.tokens.at[i].kind == PLIM_PY_STRING) take_string(&x, &x.tokens.at[i], take, context);
  plim_py_lexer_close(&x);
}
