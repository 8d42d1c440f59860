#include "python_code.h"

#include <ctype.h>
#include <string.h>

#include "literals.h"

static bool is_name_byte(char c) { return isalnum((unsigned char)c) || c == '_' || (c & 0x80); }

// ---- reading ----------------------------------------------------------------------------------------

// What cannot be read as Python is left out, with all that follows.
plim_err plim_python_code_read(const char *text, size_t size, plim_python_code *out) {
  plim_py_lexer x;
  *out = (plim_python_code){.text = text, .size = size};
  plim_err err = plim_py_lexer_open(&x, text, size, NULL);
  while (!err && plim_py_next_line(&x)) {
    size_t count = x.tokens.len;
    if (!count) continue;
    if (!vec_push(&out->lines, (uint32_t)out->tokens.len) || !vec_reserve(&out->tokens, count))
      err = PLIM_ERR_NOMEM;
    if (err) break;
    memcpy(out->tokens.at + out->tokens.len, x.tokens.at, count * sizeof *x.tokens.at);
    out->tokens.len += count;
  }
  if (!err) err = x.err;
  plim_py_lexer_close(&x);
  if (err != PLIM_ERR_NOMEM) return PLIM_OK;
  plim_python_code_clear(out);
  return err;
}

void plim_python_code_clear(plim_python_code *code) {
  vec_free(&code->tokens);
  vec_free(&code->lines);
}

// One logical line.
typedef struct {
  const char *text; // of the script
  const plim_py_token *at;
  size_t count;
} line;

static line line_of(const plim_python_code *code, size_t i) {
  size_t first = code->lines.at[i];
  size_t end = i + 1 < code->lines.len ? code->lines.at[i + 1] : code->tokens.len;
  return (line){code->text, code->tokens.at + first, end - first};
}

// The first line that may have a token at or after the byte: the last one that begins before it.
static size_t line_before(const plim_python_code *code, size_t byte) {
  size_t low = 0, high = code->lines.len;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (code->tokens.at[code->lines.at[middle]].begin <= byte) low = middle;
    else high = middle;
  }
  return low;
}

static bool starts_import(const plim_py_token *token) {
  return token->kind == PLIM_PY_NAME && (token->what == PY_import || token->what == PY_from);
}

static bool is_import(const line *l) { return starts_import(&l->at[0]); }

static bool is_keyword(const plim_py_token *token) {
  return token->what && !plim_py_is_soft(token);
}

static bool is_operator(const line *l, size_t i, char c) {
  return i < l->count && l->at[i].kind == PLIM_PY_OPERATOR && l->at[i].what == (uint8_t)c;
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

static bool fits(const char *text, const plim_py_token *token, const part *p) {
  size_t size = token->end - token->begin;
  text += token->begin;
  if (!p->is_name) return token->kind == PLIM_PY_OPERATOR && size == 1 && *text == *p->at;
  bool is_word = token->kind == PLIM_PY_NAME || token->kind == PLIM_PY_NUMBER;
  return is_word && fits_name(p, text, size);
}

// The position of the piece in the line, from byte `from` on; SIZE_MAX if it is not there.
static size_t find_in_line(const line *l, const part *parts, size_t count, size_t from) {
  if (is_import(l)) return SIZE_MAX;
  for (size_t i = 0; i + count <= l->count; i++) {
    size_t k = 0;
    if (l->at[i].begin < from) continue;
    while (k < count && fits(l->text, &l->at[i + k], &parts[k])) k++;
    if (k == count) return l->at[i].begin;
  }
  return SIZE_MAX;
}

// Whether the text has the first part at all between the two bytes, which is quick to see.
static bool may_have(const plim_python_code *code, const part *first, size_t from, size_t until) {
  size_t end = code->size;
  if (until < end && end - until > first->size) end = until + first->size;
  return memmem(code->text + from, end - from, first->at, first->size) != NULL;
}

size_t plim_python_find(const plim_python_code *code, const char *piece, size_t from,
                        size_t until) {
  part parts[MAX_PARTS];
  size_t count = read_parts(piece, parts);
  if (!count || from >= until || from >= code->size || !may_have(code, &parts[0], from, until))
    return SIZE_MAX;
  for (size_t i = line_before(code, from); i < code->lines.len; i++) {
    line l = line_of(code, i);
    if (l.at[0].begin >= until) return SIZE_MAX;
    size_t found = find_in_line(&l, parts, count, from);
    if (found != SIZE_MAX) return found < until ? found : SIZE_MAX;
  }
  return SIZE_MAX;
}

bool plim_python_has(const plim_python_code *code, const char *piece) {
  return plim_python_find(code, piece, 0, SIZE_MAX) != SIZE_MAX;
}

size_t plim_python_items(const plim_python_code *code, size_t byte) {
  for (size_t n = line_before(code, byte); n < code->lines.len; n++) {
    line l = line_of(code, n);
    size_t i = 0, items = 0;
    while (i < l.count && (l.at[i].begin < byte || l.at[i].match <= i)) i++;
    if (i == l.count) continue;
    size_t close = l.at[i++].match;
    for (; i < close; items++) {
      while (i < close && !is_operator(&l, i, ',')) i = (l.at[i].match > i ? l.at[i].match : i) + 1;
      i++;
    }
    return items;
  }
  return 0;
}

// ---- names ------------------------------------------------------------------------------------------

static plim_python_name name_at(const line *l, size_t i) {
  const plim_py_token *token = &l->at[i], *before = i ? token - 1 : NULL;
  plim_python_name name = {.text = l->text + token->begin, .size = token->end - token->begin};
  name.is_defined = before && before->kind == PLIM_PY_NAME &&
                    (before->what == PY_class || before->what == PY_def);
  name.is_base = l->at[0].what == PY_class && l->at[0].kind == PLIM_PY_NAME;
  name.is_called = is_operator(l, i + 1, '(') && !name.is_defined;
  name.has_attribute = is_operator(l, i + 1, '.');
  if (i > 1 && is_operator(l, i - 1, '.') && l->at[i - 2].kind == PLIM_PY_NAME) {
    name.owner = l->text + l->at[i - 2].begin;
    name.owner_size = l->at[i - 2].end - l->at[i - 2].begin;
  }
  if (!name.is_called) return name;
  const plim_py_token *open = token + 1, *close = &l->at[open->match];
  name.arguments = (plim_span){open->begin, close->end};
  return name;
}

void plim_python_names(const plim_python_code *code, plim_python_each *each, void *context) {
  bool goes_on = true;
  for (size_t n = 0; goes_on && n < code->lines.len; n++) {
    line l = line_of(code, n);
    for (size_t i = 0; goes_on && i < l.count && !is_import(&l); i++) {
      if (l.at[i].kind != PLIM_PY_NAME || l.at[i].what) continue;
      plim_python_name name = name_at(&l, i);
      goes_on = each(context, &name);
    }
  }
}

// ---- imports ----------------------------------------------------------------------------------------

// Whether the token begins the name of this module, after `import`, `from`, or a comma of `import`.
static bool names_module(const plim_python_code *code, const line *l, size_t i, const char *module,
                         size_t size) {
  const plim_py_token *token = &l->at[i], *before = token - 1;
  bool is_next = before->kind == PLIM_PY_OPERATOR && before->what == ',';
  if (i > 1 && !(is_next && l->at[0].what == PY_import)) return false;
  size_t begin = token->begin;
  bool is_there = code->size - begin >= size && !memcmp(code->text + begin, module, size);
  return is_there && (begin + size == code->size || !is_name_byte(code->text[begin + size]));
}

bool plim_python_imports(const plim_python_code *code, const char *module) {
  size_t length = strlen(module);
  for (size_t n = 0; n < code->lines.len; n++) {
    line l = line_of(code, n);
    for (size_t i = 1; i < l.count && is_import(&l); i++)
      if (names_module(code, &l, i, module, length)) return true;
  }
  return false;
}

// Appends a dotted name without blanks and counts the dots before it; returns the token after it. *is_out: memory has run
// out.
static size_t add_dotted(const line *l, size_t i, plim_chars *out, int *dots, bool *is_out) {
  for (; i < l->count; i++) {
    const plim_py_token *token = &l->at[i];
    bool is_name = token->kind == PLIM_PY_NAME && !is_keyword(token);
    bool is_dot =
        token->kind == PLIM_PY_OPERATOR && (token->what == '.' || token->what == PLIM_PY_ELLIPSIS);
    if (!is_name && !is_dot) break;
    size_t size = token->end - token->begin;
    if (!is_name && !out->len) *dots += (int)size;
    else if (!plim_chars_add(out, l->text + token->begin, size)) *is_out = true;
    bool ends = is_name && !is_operator(l, i + 1, '.');
    if (ends) return i + 1;
  }
  return i;
}

// The modules of the statement whose first token is import or from; returns the token after the statement.
static size_t take_modules(const line *l, size_t i, plim_python_each_module *each, void *context,
                           bool *is_out) {
  plim_chars name = {0};
  plim_python_module module = {.byte = l->at[i].begin};
  bool is_from = l->at[i++].what == PY_from;
  if (is_from) i = add_dotted(l, i, &name, &module.dots, is_out);
  size_t base = name.len;
  module.name = name.at, module.size = base;
  if (base) each(context, &module);
  for (; i < l->count && !*is_out && !is_operator(l, i, ';'); i++) {
    const plim_py_token *token = &l->at[i];
    bool is_alias = token[-1].kind == PLIM_PY_NAME && token[-1].what == PY_as;
    if (token->kind != PLIM_PY_NAME || is_keyword(token) || is_alias) continue;
    name.len = base;
    if (base && !vec_push(&name, '.')) *is_out = true;
    i = add_dotted(l, i, &name, &module.dots, is_out) - 1;
    module.name = name.at, module.size = name.len;
    if (!*is_out) each(context, &module);
  }
  vec_free(&name);
  return i;
}

plim_err plim_python_modules(const plim_python_code *code, plim_python_each_module *each,
                             void *context) {
  bool is_out = false;
  for (size_t n = 0; n < code->lines.len && !is_out; n++) {
    line l = line_of(code, n);
    for (size_t i = 0; i < l.count; i++) {
      bool begins = i == 0 || is_operator(&l, i - 1, ';') || is_operator(&l, i - 1, ':');
      if (begins && starts_import(&l.at[i])) i = take_modules(&l, i, each, context, &is_out);
    }
  }
  return is_out ? PLIM_ERR_NOMEM : PLIM_OK;
}

// ---- strings ----------------------------------------------------------------------------------------

static void take_string(const line *l, const plim_py_token *token, plim_python_take *take,
                        void *context) {
  const char *text = l->text + token->begin, *end = l->text + token->end;
  while (text < end && *text != '"' && *text != '\'') text++;
  bool is_long = end - text >= 6 && text[1] == text[0] && text[2] == text[0];
  if (!is_long && end - text >= 2) take(context, text + 1, (size_t)(end - text - 2));
}

void plim_python_strings(const plim_python_code *code, plim_span within, plim_python_take *take,
                         void *context) {
  for (size_t n = line_before(code, within.begin); n < code->lines.len; n++) {
    line l = line_of(code, n);
    if (l.at[0].begin >= within.end) return;
    for (size_t i = 0; i < l.count && l.count > 1; i++) {
      bool is_within = l.at[i].begin >= within.begin && l.at[i].end <= within.end;
      if (is_within && l.at[i].kind == PLIM_PY_STRING) take_string(&l, &l.at[i], take, context);
    }
  }
}
