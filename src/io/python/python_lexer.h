// Splits Python 3 source into tokens, one logical line at a time: brackets and backslashes join lines; comments, blank
// lines and line ends are not tokens. A string is a single token, also an f-string (with the nesting of Python 3.12).
#ifndef PLIM_IO_PYTHON_LEXER_H
#define PLIM_IO_PYTHON_LEXER_H

#include "comments.h"

enum { PLIM_PY_MAX_INDENTS = 100, PLIM_PY_MAX_BRACKETS = 200 }; // as CPython's tokenizer
enum { PLIM_PY_MAX_FORMATTED = 32 };                            // f-strings within f-strings

typedef enum {
  PLIM_PY_NAME,
  PLIM_PY_NUMBER,
  PLIM_PY_STRING, // str, raw or not
  PLIM_PY_OPAQUE, // bytes and f-strings, which are not plain text
  PLIM_PY_OPERATOR
} plim_py_kind;

// The kind of an operator: its character, or one of these if it has several characters.
enum {
  PLIM_PY_AUGMENTED = 'a', // += and the like
  PLIM_PY_WALRUS = 'w',
  PLIM_PY_POWER = 'p',
  PLIM_PY_ELLIPSIS = 'e',
  PLIM_PY_OTHER = 'o'
};

// The kind of a name: 0, or one of Python's keywords.
// clang-format off
#define PLIM_PY_WORDS(W)                                                                           \
  W(False) W(None) W(True) W(and) W(as) W(assert) W(async) W(await) W(break) W(case) W(class)      \
  W(continue) W(def) W(del) W(elif) W(else) W(except) W(finally) W(for) W(from) W(global) W(if)    \
  W(import) W(in) W(is) W(lambda) W(match) W(nonlocal) W(not) W(or) W(pass) W(raise) W(return)     \
  W(try) W(type) W(while) W(with) W(yield)
// clang-format on
#define PLIM_PY_WORD_ENUM(word) PY_##word,
enum { PY_NO_WORD, PLIM_PY_WORDS(PLIM_PY_WORD_ENUM) PY_WORDS };

typedef struct {
  uint32_t begin, end, line;
  uint32_t match; // of a bracket: the token of the matching bracket
  uint8_t kind;   // plim_py_kind
  uint8_t what;
} plim_py_token;

typedef struct {
  const char *text;
  size_t size, at;
  uint32_t line;
  bool line_has_token;
  vec(plim_py_token) tokens; // of this logical line
  plim_comments comments;    // of the text so far
  vec(uint32_t) open;        // brackets
  int depth;                 // of this line's indentation
  uint32_t columns[PLIM_PY_MAX_INDENTS + 1], narrow_columns[PLIM_PY_MAX_INDENTS + 1];
  plim_err err;
  plim_error *error;
} plim_py_lexer;

// Refuses a text that is not UTF-8, contains a 0 byte or declares another encoding. `text` is borrowed.
plim_err plim_py_lexer_open(plim_py_lexer *x, const char *text, size_t size, plim_error *error);
void plim_py_lexer_close(plim_py_lexer *x);

// Reads the next logical line. Returns false at the end and after an error (x->err).
bool plim_py_next_line(plim_py_lexer *x);

// Whether a keyword may also be a name: match, case, type.
bool plim_py_is_soft(const plim_py_token *token);

#endif
