#include "shell_words.h"

#include <string.h>

#include "shell_script.h"

bool plim_shell_fail(plim_shell_scan *s, size_t at, const char *what) {
  if (s->err) return false;
  s->err = plim_fail(s->error, PLIM_ERR_PARSE, "%s", what);
  plim_error_at(s->error, at);
  return false;
}

bool plim_shell_nomem(plim_shell_scan *s) {
  s->err = plim_fail(s->error, PLIM_ERR_NOMEM, "out of memory");
  return false;
}

static char peek(const plim_shell_scan *s, size_t at) { return at < s->end ? s->text[at] : 0; }

size_t plim_shell_newline(const plim_shell_scan *s, size_t at) {
  if (peek(s, at) == '\n') return 1;
  return peek(s, at) == '\r' && peek(s, at + 1) == '\n' ? 2 : 0;
}

static size_t continuation(const plim_shell_scan *s, size_t at) {
  size_t newline = peek(s, at) == '\\' ? plim_shell_newline(s, at + 1) : 0;
  return newline ? newline + 1 : 0;
}

void plim_shell_skip_blanks(const plim_shell_scan *s, size_t *at) {
  for (;;) {
    size_t length = continuation(s, *at);
    if (!length && (peek(s, *at) == ' ' || peek(s, *at) == '\t')) length = 1;
    if (!length) return;
    *at += length;
  }
}

bool plim_shell_is_name(char c, bool is_first) {
  bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  return is_letter || (!is_first && c >= '0' && c <= '9');
}

size_t plim_shell_name(const plim_shell_scan *s, size_t at) {
  size_t length = 0;
  while (plim_shell_is_name(peek(s, at + length), length == 0)) length++;
  return length;
}

static bool ends_word(const plim_shell_scan *s, size_t at) {
  char c = peek(s, at);
  return at >= s->end || strchr(" \t\n|&;()<>", c) || plim_shell_newline(s, at);
}

// ---- quotes -----------------------------------------------------------------------------------------

static bool skip_single(plim_shell_scan *s, size_t *at) {
  const char *close = memchr(s->text + *at + 1, '\'', s->end - *at - 1);
  if (!close) return plim_shell_fail(s, *at, "this ' is never closed");
  *at = (size_t)(close - s->text) + 1;
  return true;
}

// Skips $'...'.
static bool skip_ansi(plim_shell_scan *s, size_t *at) {
  size_t i = *at + 2;
  while (i < s->end && s->text[i] != '\'') i += s->text[i] == '\\' ? 2 : 1;
  if (i >= s->end) return plim_shell_fail(s, *at, "this $' is never closed");
  *at = i + 1;
  return true;
}

static bool skip_backticks(plim_shell_scan *s, size_t *at);

bool plim_shell_skip_double(plim_shell_scan *s, size_t *at) {
  size_t i = *at + 1;
  while (i < s->end && s->text[i] != '"') {
    if (s->text[i] == '\\') i += 2;
    else if (s->text[i] == '$') {
      if (!plim_shell_skip_dollar(s, &i, true)) return false;
    } else if (s->text[i] == '`') {
      if (!skip_backticks(s, &i)) return false;
    } else i++;
  }
  if (i >= s->end) return plim_shell_fail(s, *at, "this \" is never closed");
  *at = i + 1;
  return true;
}

// ---- expansions that change variables ---------------------------------------------------------------

static bool note_changed(plim_shell_scan *s, plim_span name) {
  return !s->out || vec_push(&s->out->changed, name) || plim_shell_nomem(s);
}

// Whether ++, --, = (but not ==), +=, <<= or a similar operator follows the name that ends at `at`.
static bool is_assigning(const plim_shell_scan *s, size_t at) {
  if ((peek(s, at) == '+' || peek(s, at) == '-') && peek(s, at + 1) == peek(s, at)) return true;
  if (peek(s, at) == '[') return true; // an element
  if (peek(s, at) == ':') at++;        // ${NAME:=...}
  if ((peek(s, at) == '<' || peek(s, at) == '>') && peek(s, at + 1) == peek(s, at)) at++;
  at += peek(s, at) && strchr("+-*/%&|^<>", peek(s, at)) && peek(s, at + 1) == '=';
  return peek(s, at) == '=' && peek(s, at + 1) != '=';
}

bool plim_shell_note_arithmetic(plim_shell_scan *s, size_t at, size_t end) {
  char before[2] = {0}; // the last characters that are not blanks
  while (at < end) {
    size_t n = plim_shell_name(s, at), next = at + n;
    while (n && next < end && peek(s, next) && strchr(" \t\n", peek(s, next))) next++;
    bool is_stepped = before[0] == before[1] && (before[1] == '+' || before[1] == '-');
    if (n && (is_stepped || is_assigning(s, next)) && !note_changed(s, (plim_span){at, at + n}))
      return false;
    char c = peek(s, at);
    if (n || !strchr(" \t\n", c)) before[0] = before[1], before[1] = c;
    at += n ? n : 1;
    while (!n && at < end && c >= '0' && c <= '9' && plim_shell_is_name(peek(s, at), false)) at++;
  }
  return true;
}

// Notes ${NAME:=value} and ${NAME=value}, which set the variable.
static bool note_default(plim_shell_scan *s, size_t at) {
  size_t n = plim_shell_name(s, at), sign = at + n + (peek(s, at + n) == ':');
  return !n || peek(s, sign) != '=' || note_changed(s, (plim_span){at, at + n});
}

// An unquoted here-document may change variables, as words do. An unclosed expansion in it is not an error.
bool plim_shell_note_document(plim_shell_scan *s, size_t at, size_t end) {
  for (; at < end; at++) {
    if (s->text[at] == '\\') at++;
    else if (s->text[at] == '$' && peek(s, at + 1) == '{' && !note_default(s, at + 2)) return false;
    else if (s->text[at] == '$' && peek(s, at + 1) == '(' && peek(s, at + 2) == '(') {
      size_t begin = at;
      for (at += 3;
           at < end && s->text[at] != '\n' && !(s->text[at] == ')' && peek(s, at + 1) == ')');)
        at++;
      if (!plim_shell_note_arithmetic(s, begin, at < end ? at : end)) return false;
    }
  }
  return true;
}

// ---- substitutions ----------------------------------------------------------------------------------

static bool enter(plim_shell_scan *s, size_t at) {
  if (s->depth < PLIM_SHELL_DEPTH) return s->depth++, true;
  return plim_shell_fail(s, at, "substitutions are nested too deeply here");
}

// Skips ( ... ), and reads the commands in it.
static bool skip_substitution(plim_shell_scan *s, size_t *at) {
  if (!enter(s, *at)) return false;
  s->substitutions++;
  ++*at;
  bool is_whole = plim_shell_commands(s, at, ')');
  s->substitutions--;
  s->depth--;
  return is_whole;
}

// Commands within backticks are recorded if they contain no escapes.
static bool read_backticks(plim_shell_scan *s, size_t begin, size_t end) {
  if (memchr(s->text + begin, '\\', end - begin)) return true;
  if (!enter(s, begin)) return false;
  plim_shell_scan inner = *s;
  inner.end = end;
  inner.substitutions++;
  size_t at = begin;
  bool is_whole = plim_shell_commands(&inner, &at, 0);
  s->err = inner.err;
  s->depth--;
  return is_whole;
}

static bool skip_backticks(plim_shell_scan *s, size_t *at) {
  size_t i = *at + 1;
  while (i < s->end && s->text[i] != '`') i += s->text[i] == '\\' ? 2 : 1;
  if (i >= s->end) return plim_shell_fail(s, *at, "this ` is never closed");
  if (!read_backticks(s, *at + 1, i)) return false;
  *at = i + 1;
  return true;
}

size_t plim_shell_parens(const plim_shell_scan *s, size_t at) {
  int depth = 0;
  for (size_t i = at; i < s->end; i++) {
    if (s->text[i] == '\\') i++;
    else if (s->text[i] == '(') depth++;
    else if (s->text[i] == ')' && --depth == 0) return i + 1 - at;
  }
  return 0;
}

// The length of (( ... )) at `at`; 0 if it is not arithmetic.
static size_t arithmetic(const plim_shell_scan *s, size_t at) {
  if (peek(s, at) != '(' || peek(s, at + 1) != '(') return 0;
  size_t inner = plim_shell_parens(s, at + 1);
  return inner && peek(s, at + 1 + inner) == ')' ? inner + 2 : 0;
}

static bool skip_in_braces(plim_shell_scan *s, size_t *at, bool in_quotes) {
  switch (s->text[*at]) {
  case '\\': *at += 2; return true;
  case '$': return plim_shell_skip_dollar(s, at, in_quotes);
  case '`': return skip_backticks(s, at);
  case '"': return plim_shell_skip_double(s, at);
  case '\'':
    if (!in_quotes) return skip_single(s, at);
  }
  ++*at;
  return true;
}

// Skips ${ ... }.
static bool skip_braces(plim_shell_scan *s, size_t *at, bool in_quotes) {
  size_t i = *at + 2;
  if (!enter(s, *at) || !note_default(s, i)) return false;
  // The # of ${#x} and the ! of ${!x} are part of the expansion.
  if (peek(s, i) == '#' || peek(s, i) == '!') i++;
  while (i < s->end && s->text[i] != '}')
    if (!skip_in_braces(s, &i, in_quotes)) return false;
  if (i >= s->end) return plim_shell_fail(s, *at, "this ${ is never closed");
  *at = i + 1;
  s->depth--;
  return true;
}

static bool skip_brackets(plim_shell_scan *s, size_t *at) {
  const char *close = memchr(s->text + *at, ']', s->end - *at);
  if (!close) return plim_shell_fail(s, *at, "this $[ is never closed");
  size_t begin = *at;
  *at = (size_t)(close - s->text) + 1;
  return plim_shell_note_arithmetic(s, begin + 2, *at);
}

bool plim_shell_skip_dollar(plim_shell_scan *s, size_t *at, bool in_quotes) {
  char c = peek(s, *at + 1);
  size_t length = arithmetic(s, *at + 1), begin = *at;
  if (length) return *at += length + 1, plim_shell_note_arithmetic(s, begin, *at);
  if (c == '(') return ++*at, skip_substitution(s, at);
  if (c == '{') return skip_braces(s, at, in_quotes);
  if (c == '[') return skip_brackets(s, at);
  if (c == '\'' && !in_quotes) return skip_ansi(s, at);
  if (c == '"' && !in_quotes) return ++*at, plim_shell_skip_double(s, at);
  length = plim_shell_name(s, *at + 1);
  if (!length && c && strchr("0123456789@*#?-$!", c)) length = 1;
  *at += 1 + length;
  return true;
}

// ---- words ------------------------------------------------------------------------------------------

static bool skip_piece(plim_shell_scan *s, size_t *at) {
  switch (s->text[*at]) {
  case '\'': return skip_single(s, at);
  case '"': return plim_shell_skip_double(s, at);
  case '`': return skip_backticks(s, at);
  case '$': return plim_shell_skip_dollar(s, at, false);
  case '\\': *at += continuation(s, *at) ? continuation(s, *at) : 2; break;
  default: ++*at;
  }
  if (*at > s->end) *at = s->end;
  return true;
}

#define PATTERN_BYTES 4096 // searched for the end of a pattern, so that the scan stays linear

// The length of the parenthesis of a pattern such as @(a|b). Without extglob these would be syntax errors.
static size_t pattern(const plim_shell_scan *s, size_t at) {
  if (!peek(s, at) || !strchr("?*+@!", s->text[at]) || peek(s, at + 1) != '(') return 0;
  plim_shell_scan near = *s;
  if (near.end - at > PATTERN_BYTES) near.end = at + PATTERN_BYTES;
  return plim_shell_parens(&near, at + 1);
}

bool plim_shell_skip_word(plim_shell_scan *s, size_t *at) {
  bool is_process = (peek(s, *at) == '<' || peek(s, *at) == '>') && peek(s, *at + 1) == '(';
  if (is_process) {
    ++*at;
    if (!skip_substitution(s, at)) return false;
  }
  while (!ends_word(s, *at)) {
    size_t length = pattern(s, *at);
    if (length) *at += length + 1;
    else if (!skip_piece(s, at)) return false;
  }
  return true;
}

static plim_shell_scan quiet(const char *text, plim_span span) {
  return (plim_shell_scan){.text = text, .end = span.end};
}

size_t plim_shell_dollar_end(const char *text, plim_span span, bool in_quotes) {
  plim_shell_scan s = quiet(text, span);
  size_t at = span.begin;
  return plim_shell_skip_dollar(&s, &at, in_quotes) ? at : 0;
}

size_t plim_shell_double_end(const char *text, plim_span span) {
  plim_shell_scan s = quiet(text, span);
  size_t at = span.begin;
  return plim_shell_skip_double(&s, &at) ? at : 0;
}

size_t plim_shell_word_end(const char *text, plim_span span) {
  plim_shell_scan s = quiet(text, span);
  size_t at = span.begin;
  return plim_shell_skip_word(&s, &at) ? at : 0;
}
