#include "python_code.h"

#include <ctype.h>
#include <string.h>

#include "literals.h"
#include "python_lexer.h"

static bool is_name_byte(char c) { return isalnum((unsigned char)c) || c == '_' || (c & 0x80); }

static bool starts_import(const plim_py_token *token) {
  return token->kind == PLIM_PY_NAME && (token->what == PY_import || token->what == PY_from);
}

static bool is_import(const plim_py_lexer *x) { return starts_import(&x->tokens.at[0]); }

static bool is_keyword(const plim_py_token *token) {
  return token->what && !plim_py_is_soft(token);
}

// Closes the lexer; only a lack of memory is an error of the search.
static plim_err finish(plim_py_lexer *x, plim_err err) {
  if (!err) err = x->err;
  plim_py_lexer_close(x);
  return err == PLIM_ERR_NOMEM ? err : PLIM_OK;
}

// ---- pieces of code ---------------------------------------------------------------------------------

// One token of a piece: a name, with * for any further characters, or an operator of one character.
typedef struct {
  const char *at;
  size_t size;
  bool is_name, is_open_left, is_open_right;
} part;

enum { MAX_PARTS = 16 };

static size_t read_parts(const char *piece, part out[MAX_PARTS]) {
  size_t count = 0;
  while (*piece && count < MAX_PARTS) {
    part *p = &out[count++];
    *p = (part){.is_open_left = *piece == '*' && is_name_byte(piece[1])};
    p->at = piece += p->is_open_left;
    while (is_name_byte(piece[p->size])) p->size++;
    p->is_name = p->size > 0;
    if (!p->is_name) p->size = 1;
    piece += p->size;
    p->is_open_right = p->is_name && *piece == '*';
    piece += p->is_open_right;
  }
  return count;
}

static bool fits_name(const part *p, const char *text, size_t size) {
  if (size < p->size) return false;
  for (size_t at = 0; at + p->size <= size; at++) {
    if (!p->is_open_left && at) return false;
    bool ends = at + p->size == size;
    if ((ends || p->is_open_right) && memcmp(text + at, p->at, p->size) == 0) return true;
  }
  return false;
}

static bool fits(const plim_py_lexer *x, const plim_py_token *token, const part *p) {
  const char *text = x->text + token->begin;
  size_t size = token->end - token->begin;
  if (!p->is_name) return token->kind == PLIM_PY_OPERATOR && size == 1 && *text == *p->at;
  bool is_word = token->kind == PLIM_PY_NAME || token->kind == PLIM_PY_NUMBER;
  return is_word && fits_name(p, text, size);
}

// The position of the piece in the line, at or after `from`; SIZE_MAX if it is not there.
static size_t find_in_line(const plim_py_lexer *x, const part *parts, size_t count, size_t from) {
  if (!x->tokens.len || is_import(x)) return SIZE_MAX;
  for (size_t i = 0; i + count <= x->tokens.len; i++) {
    size_t k = 0;
    if (x->tokens.at[i].begin < from) continue;
    while (k < count && fits(x, &x->tokens.at[i + k], &parts[k])) k++;
    if (k == count) return x->tokens.at[i].begin;
  }
  return SIZE_MAX;
}

size_t plim_python_find(const char *text, size_t size, const char *piece, size_t from) {
  plim_py_lexer x;
  part parts[MAX_PARTS];
  size_t found = SIZE_MAX, count = read_parts(piece, parts);
  if (!count || !memmem(text, size, parts[0].at, parts[0].size))
    return SIZE_MAX; // the usual case, without tokenizing
  if (!plim_py_lexer_open(&x, text, size, NULL))
    while (found == SIZE_MAX && plim_py_next_line(&x)) found = find_in_line(&x, parts, count, from);
  plim_py_lexer_close(&x);
  return found;
}

bool plim_python_has(const char *text, size_t size, const char *piece) {
  return plim_python_find(text, size, piece, 0) != SIZE_MAX;
}

// ---- names ------------------------------------------------------------------------------------------

static bool is_operator(const plim_py_lexer *x, size_t i, char c) {
  return i < x->tokens.len && x->tokens.at[i].kind == PLIM_PY_OPERATOR &&
         x->tokens.at[i].what == (uint8_t)c;
}

static plim_python_name name_at(const plim_py_lexer *x, size_t i) {
  const plim_py_token *token = &x->tokens.at[i], *before = i ? token - 1 : NULL;
  plim_python_name name = {.text = x->text + token->begin, .size = token->end - token->begin};
  name.is_defined = before && before->kind == PLIM_PY_NAME &&
                    (before->what == PY_class || before->what == PY_def);
  name.is_base = x->tokens.at[0].what == PY_class && x->tokens.at[0].kind == PLIM_PY_NAME;
  name.is_called = is_operator(x, i + 1, '(') && !name.is_defined;
  name.has_attribute = is_operator(x, i + 1, '.');
  if (i > 1 && is_operator(x, i - 1, '.') && x->tokens.at[i - 2].kind == PLIM_PY_NAME) {
    name.owner = x->text + x->tokens.at[i - 2].begin;
    name.owner_size = x->tokens.at[i - 2].end - x->tokens.at[i - 2].begin;
  }
  if (!name.is_called) return name;
  const plim_py_token *open = token + 1, *close = &x->tokens.at[open->match];
  name.arguments = x->text + open->begin;
  name.arguments_size = close->end - open->begin;
  return name;
}

void plim_python_names(const char *text, size_t size, plim_python_each *each, void *context) {
  plim_py_lexer x;
  bool goes_on = !plim_py_lexer_open(&x, text, size, NULL);
  while (goes_on && plim_py_next_line(&x))
    for (size_t i = 0; goes_on && i < x.tokens.len && !is_import(&x); i++) {
      plim_python_name name;
      if (x.tokens.at[i].kind != PLIM_PY_NAME || x.tokens.at[i].what) continue;
      name = name_at(&x, i);
      goes_on = each(context, &name);
    }
  plim_py_lexer_close(&x);
}

// ---- imports ----------------------------------------------------------------------------------------

// Whether the token begins the name of this module, after `import`, `from`, or a comma of `import`.
static bool names_module(const plim_py_lexer *x, size_t i, const char *module, size_t size) {
  const plim_py_token *token = &x->tokens.at[i], *before = token - 1;
  bool is_next = before->kind == PLIM_PY_OPERATOR && before->what == ',';
  if (i > 1 && !(is_next && x->tokens.at[0].what == PY_import)) return false;
  bool is_there = x->size - token->begin >= size && !memcmp(x->text + token->begin, module, size);
  return is_there &&
         (token->begin + size == x->size || !is_name_byte(x->text[token->begin + size]));
}

bool plim_python_imports(const char *text, size_t size, const char *module) {
  plim_py_lexer x;
  bool has = false;
  size_t length = strlen(module);
  if (!memmem(text, size, module, length)) return false;
  if (!plim_py_lexer_open(&x, text, size, NULL))
    while (!has && plim_py_next_line(&x))
      for (size_t i = 1; i < x.tokens.len && is_import(&x) && !has; i++)
        has = names_module(&x, i, module, length);
  plim_py_lexer_close(&x);
  return has;
}

// Appends a dotted name without blanks and counts the dots before it; returns the token after it.
static size_t add_dotted(plim_py_lexer *x, size_t i, plim_chars *out, int *dots) {
  for (; i < x->tokens.len; i++) {
    const plim_py_token *token = &x->tokens.at[i];
    bool is_name = token->kind == PLIM_PY_NAME && !is_keyword(token);
    bool is_dot =
        token->kind == PLIM_PY_OPERATOR && (token->what == '.' || token->what == PLIM_PY_ELLIPSIS);
    if (!is_name && !is_dot) break;
    size_t size = token->end - token->begin;
    if (!is_name && !out->len) *dots += (int)size;
    else if (!plim_chars_add(out, x->text + token->begin, size)) x->err = PLIM_ERR_NOMEM;
    bool ends = is_name && !is_operator(x, i + 1, '.');
    if (ends) return i + 1;
  }
  return i;
}

// The modules of the statement whose first token is import or from; returns the token after the statement.
static size_t take_modules(plim_py_lexer *x, size_t i, plim_python_each_module *each,
                           void *context) {
  plim_chars name = {0};
  plim_python_module module = {.byte = x->tokens.at[i].begin};
  bool is_from = x->tokens.at[i++].what == PY_from;
  if (is_from) i = add_dotted(x, i, &name, &module.dots);
  size_t base = name.len;
  module.name = name.at, module.size = base;
  if (base) each(context, &module);
  for (; i < x->tokens.len && !x->err && !is_operator(x, i, ';'); i++) {
    const plim_py_token *token = &x->tokens.at[i];
    bool is_alias = token[-1].kind == PLIM_PY_NAME && token[-1].what == PY_as;
    if (token->kind != PLIM_PY_NAME || is_keyword(token) || is_alias) continue;
    name.len = base;
    if (base && !vec_push(&name, '.')) x->err = PLIM_ERR_NOMEM;
    i = add_dotted(x, i, &name, &module.dots) - 1;
    module.name = name.at, module.size = name.len;
    if (!x->err) each(context, &module);
  }
  vec_free(&name);
  return i;
}

plim_err plim_python_modules(const char *text, size_t size, plim_python_each_module *each,
                             void *context) {
  plim_py_lexer x;
  plim_err err = plim_py_lexer_open(&x, text, size, NULL);
  while (!err && !x.err && plim_py_next_line(&x))
    for (size_t i = 0; i < x.tokens.len; i++) {
      bool begins = i == 0 || is_operator(&x, i - 1, ';') || is_operator(&x, i - 1, ':');
      if (begins && starts_import(&x.tokens.at[i])) i = take_modules(&x, i, each, context);
    }
  return finish(&x, err);
}

// ---- strings ----------------------------------------------------------------------------------------

static void take_string(const plim_py_lexer *x, const plim_py_token *token, plim_python_take *take,
                        void *context) {
  const char *text = x->text + token->begin, *end = x->text + token->end;
  while (text < end && *text != '"' && *text != '\'') text++;
  bool is_long = end - text >= 6 && text[1] == text[0] && text[2] == text[0];
  if (!is_long && end - text >= 2) take(context, text + 1, (size_t)(end - text - 2));
}

plim_err plim_python_strings(const char *text, size_t size, plim_python_take *take, void *context) {
  plim_py_lexer x;
  plim_err err = plim_py_lexer_open(&x, text, size, NULL);
  while (!err && plim_py_next_line(&x))
    for (size_t i = 0; i < x.tokens.len && x.tokens.len > 1; i++)
      if (x.tokens.at[i].kind == PLIM_PY_STRING) take_string(&x, &x.tokens.at[i], take, context);
  return finish(&x, err);
}
