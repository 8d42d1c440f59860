#include "python_lexer.h"

#include <string.h>
#include <strings.h>

#include "literals.h"

static void fail(plim_py_lexer *x, size_t byte, const char *why) {
  if (x->err) return;
  x->err = plim_fail(x->error, PLIM_ERR_PARSE, "%s", why);
  plim_error_at(x->error, byte);
}

static void fail_memory(plim_py_lexer *x) {
  if (!x->err) x->err = plim_fail(x->error, PLIM_ERR_NOMEM, "out of memory");
}

// ---- characters -------------------------------------------------------------------------------------

static char peek(const plim_py_lexer *x, size_t ahead) {
  return x->size - x->at > ahead ? x->text[x->at + ahead] : 0;
}

static bool is_at_end(const plim_py_lexer *x) { return x->at >= x->size; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

static bool is_in_name(char c) { return is_name_start(c) || is_digit(c); }

// The length of the line end at this position: 2, 1, or 0 if there is none.
static size_t line_end(const plim_py_lexer *x) {
  if (peek(x, 0) == '\r') return peek(x, 1) == '\n' ? 2 : 1;
  return peek(x, 0) == '\n';
}

static bool skip_line_end(plim_py_lexer *x) {
  size_t bytes = line_end(x);
  x->at += bytes;
  x->line += bytes > 0;
  return bytes > 0;
}

static void skip_one(plim_py_lexer *x) {
  if (!skip_line_end(x) && !is_at_end(x)) x->at++;
}

// ---- strings ----------------------------------------------------------------------------------------

typedef struct {
  char quote;
  bool is_triple, is_raw, is_formatted, is_bytes;
  size_t begin;
} string_form;

// Reads the prefix of a string, such as rb; false if the letters are not a prefix.
static bool read_prefix(const char *letters, size_t count, string_form *form) {
  static const char *const prefixes[] = {"",   "r",  "u",  "b",  "f",  "t",
                                         "br", "rb", "fr", "rf", "tr", "rt"};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
    if (strlen(prefixes[i]) != count || strncasecmp(prefixes[i], letters, count) != 0) continue;
    form->is_raw = strchr(prefixes[i], 'r') != NULL;
    form->is_bytes = strchr(prefixes[i], 'b') != NULL;
    form->is_formatted = strpbrk(prefixes[i], "ft") != NULL;
    return true;
  }
  return false;
}

// Whether a string begins here; if so, moves after its opening quotes.
static bool open_string(plim_py_lexer *x, string_form *form) {
  size_t letters = 0;
  while (letters < 3 && is_in_name(peek(x, letters))) letters++;
  char quote = peek(x, letters);
  if ((quote != '"' && quote != '\'') || !read_prefix(x->text + x->at, letters, form)) return false;
  form->quote = quote;
  form->begin = x->at;
  form->is_triple = peek(x, letters + 1) == quote && peek(x, letters + 2) == quote;
  x->at += letters + (form->is_triple ? 3 : 1);
  return true;
}

static bool closes(const plim_py_lexer *x, const string_form *form) {
  if (peek(x, 0) != form->quote) return false;
  return !form->is_triple || (peek(x, 1) == form->quote && peek(x, 2) == form->quote);
}

// Whether the string ends here: at its closing quotes, or with an error.
static bool ends_string(plim_py_lexer *x, const string_form *form) {
  if (closes(x, form)) {
    x->at += form->is_triple ? 3 : 1;
    return true;
  }
  if (is_at_end(x) || (!form->is_triple && line_end(x)))
    fail(x, form->begin, "this string is never closed");
  return x->err != PLIM_OK;
}

static void skip_formatted(plim_py_lexer *x, const string_form *form, int depth);

static void skip_string(plim_py_lexer *x, const string_form *form, int depth) {
  if (form->is_formatted && depth == PLIM_PY_MAX_FORMATTED)
    fail(x, form->begin, "f-strings are nested too deeply");
  else if (form->is_formatted) skip_formatted(x, form, depth);
  else
    while (!ends_string(x, form)) {
      if (peek(x, 0) == '\\') x->at++;
      skip_one(x);
    }
}

static void skip_comment(plim_py_lexer *x) {
  while (!is_at_end(x) && !line_end(x)) x->at++;
}

// Skips one item of an expression inside {}: a string, a comment, a name or a character. The caller counts brackets.
static void skip_in_field(plim_py_lexer *x, int depth) {
  string_form inner = {0};
  if (open_string(x, &inner)) skip_string(x, &inner, depth + 1);
  else if (peek(x, 0) == '#') skip_comment(x);
  else if (is_in_name(peek(x, 0)))
    while (is_in_name(peek(x, 0))) x->at++;
  else skip_one(x);
}

// Skips the expression of a field after its {, up to the : of its format or the } that ends it.
static void skip_expression(plim_py_lexer *x, size_t begin, int depth) {
  size_t open = 0;
  while (!x->err) {
    char c = peek(x, 0);
    if (is_at_end(x)) fail(x, begin, "this field of an f-string is never closed");
    else if (c == '(' || c == '[' || c == '{') open++;
    else if (open == 0 && (c == '}' || c == ':')) return;
    else if (open > 0 && (c == ')' || c == ']' || c == '}')) open--;
    if (!x->err) skip_in_field(x, depth);
  }
}

static void skip_field(plim_py_lexer *x, const string_form *form, int depth);

static void skip_format(plim_py_lexer *x, const string_form *form, int depth) {
  while (!x->err && peek(x, 0) != '}') {
    if (closes(x, form) || is_at_end(x) || (!form->is_triple && line_end(x)))
      fail(x, x->at, "this field of an f-string is never closed");
    else if (peek(x, 0) == '{') skip_field(x, form, depth + 1);
    else skip_one(x);
  }
}

static void skip_field(plim_py_lexer *x, const string_form *form, int depth) {
  size_t begin = x->at++;
  if (depth >= PLIM_PY_MAX_FORMATTED) fail(x, begin, "f-strings are nested too deeply");
  skip_expression(x, begin, depth);
  if (peek(x, 0) == ':') skip_format(x, form, depth);
  if (!x->err) x->at++;
}

// A backslash escapes a quote but not a brace; \N{DASH} is not a field.
static void skip_escape(plim_py_lexer *x, const string_form *form) {
  x->at++;
  bool is_named = !form->is_raw && peek(x, 0) == 'N' && peek(x, 1) == '{';
  if (peek(x, 0) == '{' || peek(x, 0) == '}') return;
  if (is_named) x->at += 2;
  else skip_one(x);
  while (is_named && !is_at_end(x) && !closes(x, form) && !line_end(x) && x->text[x->at - 1] != '}')
    x->at++;
}

static void skip_formatted(plim_py_lexer *x, const string_form *form, int depth) {
  while (!ends_string(x, form)) {
    if (peek(x, 0) == '\\') skip_escape(x, form);
    else if (peek(x, 0) == '{' && peek(x, 1) == '{') x->at += 2;
    else if (peek(x, 0) == '{') skip_field(x, form, depth);
    else skip_one(x);
  }
}

// ---- numbers and operators --------------------------------------------------------------------------

static void skip_number(plim_py_lexer *x) {
  char mark = peek(x, 1) | 0x20;
  if (peek(x, 0) == '0' && (mark == 'x' || mark == 'o' || mark == 'b')) {
    const char *digits = mark == 'x' ? "0123456789abcdefABCDEF_" : "0123456789_";
    x->at += 2;
    while (peek(x, 0) && strchr(digits, peek(x, 0))) x->at++;
    return;
  }
  while (is_digit(peek(x, 0)) || peek(x, 0) == '_') x->at++;
  if (peek(x, 0) == '.') x->at++;
  while (is_digit(peek(x, 0)) || peek(x, 0) == '_') x->at++;
  size_t sign = peek(x, 1) == '+' || peek(x, 1) == '-';
  if ((peek(x, 0) | 0x20) == 'e' && is_digit(peek(x, 1 + sign))) x->at += 1 + sign;
  while (is_digit(peek(x, 0)) || peek(x, 0) == '_') x->at++;
  if ((peek(x, 0) | 0x20) == 'j') x->at++;
}

// The longest operators come first, because the first match is used.
static const struct {
  char text[4];
  uint8_t what;
} operators[] = {
    {"...", PLIM_PY_ELLIPSIS},  {"**=", PLIM_PY_AUGMENTED}, {"//=", PLIM_PY_AUGMENTED},
    {"<<=", PLIM_PY_AUGMENTED}, {">>=", PLIM_PY_AUGMENTED}, {"**", PLIM_PY_POWER},
    {"+=", PLIM_PY_AUGMENTED},  {"-=", PLIM_PY_AUGMENTED},  {"*=", PLIM_PY_AUGMENTED},
    {"/=", PLIM_PY_AUGMENTED},  {"%=", PLIM_PY_AUGMENTED},  {"&=", PLIM_PY_AUGMENTED},
    {"|=", PLIM_PY_AUGMENTED},  {"^=", PLIM_PY_AUGMENTED},  {"@=", PLIM_PY_AUGMENTED},
    {":=", PLIM_PY_WALRUS},     {"->", PLIM_PY_OTHER},      {"==", PLIM_PY_OTHER},
    {"!=", PLIM_PY_OTHER},      {"<=", PLIM_PY_OTHER},      {">=", PLIM_PY_OTHER},
    {"//", PLIM_PY_OTHER},      {"<<", PLIM_PY_OTHER},      {">>", PLIM_PY_OTHER},
};

static uint8_t skip_operator(plim_py_lexer *x) {
  bool is_longer = peek(x, 1) && strchr("=*/<>.", peek(x, 1));
  for (size_t i = 0; is_longer && i < sizeof operators / sizeof *operators; i++) {
    size_t length = strlen(operators[i].text);
    if (x->size - x->at < length || memcmp(x->text + x->at, operators[i].text, length) != 0)
      continue;
    x->at += length;
    return operators[i].what;
  }
  char c = peek(x, 0);
  if (!strchr("()[]{}=:,;.+-*/%@&|^~<>", c))
    fail(x, x->at, "this character is not allowed in Python");
  x->at++;
  return (uint8_t)c;
}

// ---- names ------------------------------------------------------------------------------------------

static uint8_t word_of(const char *text, size_t size) {
#define PLIM_PY_WORD_TEXT(word) #word,
  static const char *const words[] = {"", PLIM_PY_WORDS(PLIM_PY_WORD_TEXT)};
  for (uint8_t i = 1; i < PY_WORDS; i++)
    if (words[i][0] == text[0] && strlen(words[i]) == size && memcmp(words[i], text, size) == 0)
      return i;
  return PY_NO_WORD;
}

bool plim_py_is_soft(const plim_py_token *token) {
  return token->what == PY_match || token->what == PY_case || token->what == PY_type;
}

// ---- tokens -----------------------------------------------------------------------------------------

static bool fits(char open, char close) {
  return (open == '(' && close == ')') || (open == '[' && close == ']') ||
         (open == '{' && close == '}');
}

static void close_bracket(plim_py_lexer *x, plim_py_token *token) {
  if (!x->open.len) {
    fail(x, token->begin, "this bracket was never opened");
    return;
  }
  token->match = x->open.at[--x->open.len];
  plim_py_token *open = &x->tokens.at[token->match];
  open->match = (uint32_t)x->tokens.len;
  if (!fits((char)open->what, (char)token->what))
    fail(x, token->begin, "this bracket does not match the open one");
}

static void match_bracket(plim_py_lexer *x, plim_py_token *token) {
  char c = (char)token->what;
  if (c == ')' || c == ']' || c == '}') close_bracket(x, token);
  if (c != '(' && c != '[' && c != '{') return;
  if (x->open.len == PLIM_PY_MAX_BRACKETS) fail(x, token->begin, "brackets are nested too deeply");
  else if (!vec_push(&x->open, (uint32_t)x->tokens.len)) fail_memory(x);
}

static void add_token(plim_py_lexer *x) {
  plim_py_token token = {.begin = (uint32_t)x->at, .line = x->line};
  string_form form = {0};
  char c = peek(x, 0);
  token.match = (uint32_t)x->tokens.len;
  if (open_string(x, &form)) {
    token.kind = form.is_formatted || form.is_bytes ? PLIM_PY_OPAQUE : PLIM_PY_STRING;
    skip_string(x, &form, 0);
  } else if (is_name_start(c)) {
    while (is_in_name(peek(x, 0))) x->at++;
    token.kind = PLIM_PY_NAME;
    token.what = word_of(x->text + token.begin, x->at - token.begin);
  } else if (is_digit(c) || (c == '.' && is_digit(peek(x, 1)))) {
    skip_number(x);
    token.kind = PLIM_PY_NUMBER;
  } else {
    token.kind = PLIM_PY_OPERATOR;
    token.what = skip_operator(x);
    match_bracket(x, &token);
  }
  token.end = (uint32_t)x->at;
  x->line_has_token = true;
  if (!x->err && !vec_push(&x->tokens, token)) fail_memory(x);
}

static void add_comment(plim_py_lexer *x) {
  plim_comment comment = {(uint32_t)x->at, 0, x->line, !x->line_has_token, NULL, NULL};
  skip_comment(x);
  comment.end = (uint32_t)x->at;
  if (!vec_push(&x->comments, comment)) fail_memory(x);
}

// ---- lines ------------------------------------------------------------------------------------------

// Measures the indentation with tab stops at every eighth column, and with tabs as one column. As in Python, both
// must order the lines in the same way.
static void measure_indent(plim_py_lexer *x, uint32_t *column, uint32_t *narrow) {
  *column = *narrow = 0;
  for (;; x->at++) {
    char c = peek(x, 0);
    if (c == ' ') ++*column, ++*narrow;
    else if (c == '\t') *column = (*column / 8 + 1) * 8, ++*narrow;
    else if (c == '\f') *column = *narrow = 0;
    else return;
  }
}

static void enter_indent(plim_py_lexer *x, uint32_t column, uint32_t narrow) {
  if (column > x->columns[x->depth]) {
    if (x->depth == PLIM_PY_MAX_INDENTS) fail(x, x->at, "blocks are nested too deeply");
    else if (narrow <= x->narrow_columns[x->depth])
      fail(x, x->at, "tabs and spaces are mixed inconsistently");
    else x->depth++;
    x->columns[x->depth] = column;
    x->narrow_columns[x->depth] = narrow;
    return;
  }
  while (column < x->columns[x->depth]) x->depth--;
  if (column != x->columns[x->depth]) fail(x, x->at, "this indentation matches no line above");
  else if (narrow != x->narrow_columns[x->depth])
    fail(x, x->at, "tabs and spaces are mixed inconsistently");
}

// Moves to the first token of the next logical line; false at the end.
static bool find_line(plim_py_lexer *x) {
  uint32_t column, narrow;
  while (!x->err) {
    x->line_has_token = false;
    measure_indent(x, &column, &narrow);
    if (peek(x, 0) == '#') add_comment(x);
    if (is_at_end(x)) return false;
    if (skip_line_end(x)) continue;
    enter_indent(x, column, narrow);
    return !x->err;
  }
  return false;
}

// Skips to the next token; false if the logical line ends before it.
static bool skip_between(plim_py_lexer *x) {
  for (;;) {
    char c = peek(x, 0);
    if (c == ' ' || c == '\t' || c == '\f') x->at++;
    else if (c == '#') add_comment(x);
    else if (is_at_end(x)) return false;
    else if (line_end(x)) {
      skip_line_end(x);
      if (!x->open.len) return false;
      x->line_has_token = false;
    } else if (c == '\\') {
      x->at++;
      if (!skip_line_end(x))
        fail(x, x->at - 1, "a backslash must be the last character of its line");
      x->line_has_token = false;
    } else return !x->err;
    if (x->err) return false;
  }
}

bool plim_py_next_line(plim_py_lexer *x) {
  x->tokens.len = x->open.len = 0;
  if (x->err || !find_line(x)) return false;
  while (skip_between(x)) {
    add_token(x);
    if (x->err) return false;
  }
  if (x->open.len)
    fail(x, x->tokens.at[x->open.at[x->open.len - 1]].begin, "this bracket is never closed");
  return !x->err;
}
