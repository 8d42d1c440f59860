#include "shell_pieces.h"

#include <ctype.h>
#include <string.h>

#include "shell_words.h"

#define FIRST_PIECES 8 // pieces that are checked to see whether a text contains arguments

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Skips blanks, line ends and the \ before them.
static size_t skip_space(const char *text, size_t at, size_t end) {
  while (at < end) {
    bool is_continued = text[at] == '\\' && at + 1 < end && is_space(text[at + 1]);
    if (!is_continued && !is_space(text[at])) break;
    at++;
  }
  return at;
}

static size_t skip_ticks(const char *text, size_t at, size_t end) {
  for (at++; at < end && text[at] != '`'; at++) at += text[at] == '\\';
  return at < end ? at + 1 : end;
}

// Skips one piece. Inside "...", a substitution belongs to the piece around it.
static size_t skip_piece(const char *text, size_t at, size_t end, bool is_expanded) {
  while (at < end && !is_space(text[at])) {
    if (is_expanded && text[at] == '$') {
      size_t next = plim_shell_dollar_end(text, (plim_span){at, end}, true);
      at = next > at ? next : end;
    } else if (is_expanded && text[at] == '`') at = skip_ticks(text, at, end);
    else if (text[at] == '\\' && at + 1 < end && !is_space(text[at + 1])) at += 2;
    else if (text[at] == '\\') break;
    else at++;
  }
  return at < end ? at : end;
}

static bool is_quoted(const char *text, plim_span span) {
  if (span.end - span.begin < 3) return false;
  char quote = text[span.begin];
  if (quote == '"') return plim_shell_double_end(text, span) == span.end;
  return quote == '\'' && memchr(text + span.begin + 1, '\'', span.end - span.begin - 1) ==
                              (const void *)(text + span.end - 1);
}

// Reads the next piece; false at the end, or before an operator such as |.
static bool next_piece(const char *text, plim_span quoted, size_t *at, plim_span *piece) {
  bool is_expanded = text[quoted.begin] == '"';
  piece->begin = skip_space(text, *at, quoted.end - 1);
  if (piece->begin >= quoted.end - 1 || strchr("|&;<>", text[piece->begin])) return false;
  *at = piece->end = skip_piece(text, piece->begin, quoted.end - 1, is_expanded);
  return piece->end > piece->begin;
}

static bool is_flag(const char *text, plim_span piece) {
  return piece.end - piece.begin > 2 && memcmp(text + piece.begin, "--", 2) == 0 &&
         isalpha((unsigned char)text[piece.begin + 2]);
}

static bool is_launched(const char *text, plim_span piece) {
  plim_argument words[2] = {plim_argument_at(text, piece, PLIM_WORD_PIECE)};
  words[1] = (plim_argument){.head = piece, .has_tail = true};
  return plim_command_kind_of(text, words, 1, false).is_launcher;
}

bool plim_is_argument_text(const char *text, plim_span quoted) {
  if (!is_quoted(text, quoted)) return false;
  plim_span piece;
  size_t at = quoted.begin + 1;
  for (int i = 0; i < FIRST_PIECES && next_piece(text, quoted, &at, &piece); i++) {
    if (is_flag(text, piece)) return true;
    if (text[piece.begin] == '$') continue;
    return is_launched(text, piece) && next_piece(text, quoted, &at, &piece);
  }
  return false;
}

bool plim_is_flag_text(const char *text, plim_span quoted) {
  plim_span piece;
  size_t at = quoted.begin + 1;
  return is_quoted(text, quoted) && next_piece(text, quoted, &at, &piece) && is_flag(text, piece) &&
         !memchr(text + piece.begin, '=', piece.end - piece.begin) && at < quoted.end - 1;
}

bool plim_argument_pieces(const char *text, plim_span quoted, plim_arguments *out) {
  plim_span piece;
  size_t at = quoted.begin + 1;
  while (next_piece(text, quoted, &at, &piece))
    if (!vec_push(out, plim_argument_at(text, piece, PLIM_WORD_PIECE))) return false;
  return true;
}

size_t plim_quoted_command(const char *text, const plim_argument *at, size_t count) {
  for (size_t i = 0; i + 2 < count; i++) {
    bool is_command =
        plim_argument_is(text, &at[i + 1], "-c") || plim_argument_is(text, &at[i + 1], "-lc");
    if (is_command && plim_argument_ends(text, &at[i], "sh") &&
        plim_is_argument_text(text, at[i + 2].span))
      return i + 1;
  }
  return count;
}

bool plim_directive_words(const char *text, plim_span line, plim_arguments *out) {
  size_t at = line.begin;
  for (;;) {
    while (at < line.end && is_space(text[at])) at++;
    if (at >= line.end || text[at] == '#') return true;
    size_t end = plim_shell_word_end(text, (plim_span){at, line.end});
    if (end <= at) return true;
    plim_span word = {at, end};
    if (!vec_push(out, plim_argument_at(text, word, PLIM_WORD_WORD))) return false;
    at = end;
  }
}

// ---- assignments ------------------------------------------------------------------------------------

bool plim_shell_is_declaration(const char *text, const plim_argument *a) {
  static const char *const words[] = {"export", "declare", "typeset", "local", "readonly"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (plim_argument_is(text, a, words[i])) return true;
  return false;
}

bool plim_shell_is_given(const char *text, const plim_argument *a) {
  plim_span t = a->tail;
  bool is_quoted = t.end - t.begin > 2 && text[t.begin] == '"' && text[t.end - 1] == '"';
  t.begin += is_quoted;
  t.end -= is_quoted;
  if (t.end - t.begin < 2 || text[t.begin] != '$') return false;
  if (t.end - t.begin > 4 && memcmp(text + t.end - 4, "#*=}", 4) == 0) return true;
  bool has_braces = text[t.begin + 1] == '{' && text[t.end - 1] == '}';
  plim_span name = {t.begin + 1 + has_braces, t.end - has_braces};
  size_t size = name.end - name.begin;
  return (size == 1 && text[name.begin] >= '1' && text[name.begin] <= '9') ||
         (size == 6 && memcmp(text + name.begin, "OPTARG", 6) == 0);
}

plim_span plim_shell_assigned_default(const char *text, plim_span word) {
  bool is_quoted = word.end - word.begin > 2 && text[word.begin] == '"';
  size_t at = word.begin + is_quoted, end = word.end - is_quoted;
  if (end - at < 5 || memcmp(text + at, "${", 2) != 0 || text[end - 1] != '}')
    return (plim_span){0};
  size_t name = at + 2, n = 0;
  while (plim_shell_is_name(text[name + n], n == 0)) n++;
  bool is_set = text[name + n] == '=' || (text[name + n] == ':' && text[name + n + 1] == '=');
  return n && is_set ? (plim_span){name, name + n} : (plim_span){0};
}

bool plim_shell_sets_its_words(const char *text, const plim_argument *a) {
  static const char *const words[] = {"read",  "getopts", "mapfile", "readarray",
                                      "unset", "printf",  "let"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (plim_argument_is(text, a, words[i])) return true;
  return false;
}

plim_span plim_shell_list_name(const char *text, plim_span span) {
  bool is_quoted = span.end - span.begin > 2 && text[span.begin] == '"';
  plim_span inner = {span.begin + is_quoted, span.end - is_quoted};
  if (inner.end - inner.begin > 6 && memcmp(text + inner.begin, "${", 2) == 0 &&
      (memcmp(text + inner.end - 4, "[@]}", 4) == 0 ||
       memcmp(text + inner.end - 4, "[*]}", 4) == 0))
    return (plim_span){inner.begin + 2, inner.end - 4};
  return plim_reference_at(text, span);
}

bool plim_shell_sets_variables(const char *text, const plim_argument *a) {
  return plim_shell_is_declaration(text, a) || plim_shell_sets_its_words(text, a) ||
         plim_argument_is(text, a, "eval") || plim_argument_is(text, a, "source") ||
         plim_argument_is(text, a, ".") || plim_argument_is(text, a, "set");
}
