// Reads values that a shell would expand.
#include <string.h>

#include "shell_value.h"
#include "shell_words.h"

#define DEFAULTS 8 // the most nested defaults: ${A:-${B:-...}}

// A value that consists of one expansion: $NAME, ${NAME}, ${NAME:-other} or $((NAME)).
typedef struct {
  plim_span name;
  plim_span other;
  bool has_other;
} expansion;

static size_t name_length(const char *text, plim_span span) {
  size_t n = span.begin;
  bool is_position = n < span.end && text[n] >= '0' && text[n] <= '9';
  while (n < span.end && plim_shell_is_name(text[n], n == span.begin && !is_position)) n++;
  return n - span.begin;
}

static bool read_braces(const char *text, plim_span inner, expansion *out) {
  size_t n = name_length(text, inner), at = inner.begin + n;
  *out = (expansion){.name = {inner.begin, at}};
  if (!n) return false;
  if (at == inner.end) return true;
  at += text[at] == ':';
  if (at == inner.end || (text[at] != '-' && text[at] != '=')) return false;
  out->has_other = true;
  out->other = (plim_span){at + 1, inner.end};
  return true;
}

static bool read_plain(const char *text, plim_span inner, expansion *out) {
  *out = (expansion){.name = inner};
  return inner.end > inner.begin && name_length(text, inner) == inner.end - inner.begin;
}

// $((NAME)) and $(($NAME)) are copies of a variable; false for anything else, which is computed.
static bool read_arithmetic(const char *text, plim_span inner, expansion *out) {
  while (inner.begin < inner.end && text[inner.begin] == ' ') inner.begin++;
  while (inner.end > inner.begin && text[inner.end - 1] == ' ') inner.end--;
  inner.begin += inner.begin < inner.end && text[inner.begin] == '$';
  bool is_number = inner.begin < inner.end && text[inner.begin] >= '0' && text[inner.begin] <= '9';
  return !is_number && read_plain(text, inner, out);
}

// Reads one expansion; `span` begins with $.
static bool read_dollar(const char *text, plim_span span, expansion *out) {
  size_t size = span.end - span.begin;
  const char *at = text + span.begin;
  if (size > 5 && memcmp(at, "$((", 3) == 0)
    return read_arithmetic(text, (plim_span){span.begin + 3, span.end - 2}, out);
  if (size > 3 && at[1] == '{')
    return read_braces(text, (plim_span){span.begin + 2, span.end - 1}, out);
  return read_plain(text, (plim_span){span.begin + 1, span.end}, out);
}

static bool is_quoted_whole(const char *text, plim_span span) {
  return span.end - span.begin >= 2 && text[span.begin] == '"' &&
         plim_shell_double_end(text, span) == span.end;
}

static bool read_expansion(const char *text, plim_span span, bool in_quotes, expansion *out) {
  return span.end - span.begin >= 2 && text[span.begin] == '$' &&
         plim_shell_dollar_end(text, span, in_quotes) == span.end && read_dollar(text, span, out);
}

plim_span plim_reference_at(const char *text, plim_span span) {
  bool in_quotes = is_quoted_whole(text, span);
  plim_span inner = {span.begin + in_quotes, span.end - in_quotes};
  expansion e;
  bool is_copy = read_expansion(text, inner, in_quotes, &e) && !e.has_other;
  return is_copy && plim_shell_is_name(text[e.name.begin], true) ? e.name : (plim_span){0};
}

static const plim_word_context default_places[PLIM_WORD_CONTEXTS] = {
    [PLIM_WORD_WORD] = PLIM_WORD_DEFAULT,
    [PLIM_WORD_SINGLE] = PLIM_WORD_CONTEXTS,
    [PLIM_WORD_DOUBLE] = PLIM_WORD_DEFAULT_DOUBLE,
    [PLIM_WORD_DEFAULT] = PLIM_WORD_DEFAULT,
    [PLIM_WORD_DEFAULT_DOUBLE] = PLIM_WORD_DEFAULT_DOUBLE,
    [PLIM_WORD_PIECE] = PLIM_WORD_PIECE,
    [PLIM_WORD_ELEMENT] = PLIM_WORD_CONTEXTS,
    [PLIM_WORD_JSON] = PLIM_WORD_CONTEXTS,
    [PLIM_WORD_ENV] = PLIM_WORD_DEFAULT,
    [PLIM_WORD_REST] = PLIM_WORD_DEFAULT,
}; // the context of a default inside each context; PLIM_WORD_CONTEXTS: nothing is expanded there

// Variables that the shell itself or the login sets.
static const char *const always_set[] = {
    "$BASH", "$BASHPID", "$BASH_VERSION", "$EPOCHSECONDS", "$EUID",   "$HOME", "$HOSTNAME",
    "$IFS",  "$LINENO",  "$OLDPWD",       "$OPTIND",       "$OSTYPE", "$PATH", "$PPID",
    "$PWD",  "$RANDOM",  "$SECONDS",      "$SHELL",        "$SHLVL",  "$UID",  "$USER"};

static bool is_set(const plim_shell_scanner *f, const char *name, const char *self) {
  bool is_position = !plim_shell_is_name(name[1], true);
  if (is_position) return f->has_own_positions || f->in_function;
  if (f->has_opaque) return true;
  for (size_t i = 0; i < sizeof always_set / sizeof *always_set; i++)
    if (strcmp(name, always_set[i]) == 0) return true;
  bool is_self = self && strcmp(self, name) == 0;
  return plim_names_count(&f->set, name) > (is_self ? 1 : 0);
}

static plim_shell_value read_value(plim_shell_scanner *f, const char *text, plim_span span,
                                   plim_word_context place, const char *self, int depth);

static plim_shell_value read_computed(plim_shell_scanner *f, const char *text, plim_span span,
                                      plim_word_context place, const char *self, int depth) {
  bool is_wrapped = place == PLIM_WORD_WORD || place == PLIM_WORD_DEFAULT ||
                    place == PLIM_WORD_ENV || place == PLIM_WORD_REST;
  is_wrapped = is_wrapped && is_quoted_whole(text, span);
  plim_word_context inner_place = is_wrapped ? PLIM_WORD_DOUBLE : place;
  plim_span inner = {span.begin + is_wrapped, span.end - is_wrapped};
  bool in_quotes = inner_place == PLIM_WORD_DOUBLE || inner_place == PLIM_WORD_DEFAULT_DOUBLE ||
                   inner_place == PLIM_WORD_PIECE;
  expansion e;
  const char *source = plim_scanner_keep_span(f, text, span, "");
  plim_shell_value found = {
      .value = {.kind = PLIM_VALUE_DERIVED, .text = source}, .span = span, .place = place};
  if (default_places[place] == PLIM_WORD_CONTEXTS || !read_expansion(text, inner, in_quotes, &e))
    return found;
  const char *name = plim_scanner_keep_span(f, text, e.name, "$");
  found.has_default = e.has_other;
  if (!e.has_other || is_set(f, name, self)) found.reference = name;
  else if (depth < DEFAULTS)
    found = read_value(f, text, e.other, default_places[inner_place], self, depth + 1);
  return found;
}

static plim_shell_value read_value(plim_shell_scanner *f, const char *text, plim_span span,
                                   plim_word_context place, const char *self, int depth) {
  bool is_out = false;
  bool is_literal = plim_word_read(place, text, span, &f->scratch, &is_out);
  f->is_out |= is_out;
  if (!is_literal) return read_computed(f, text, span, place, self, depth);
  plim_shell_value found = {.span = span, .place = place};
  found.value = plim_value_of_text(f->is_out ? "" : f->scratch.at);
  if (found.value.kind == PLIM_VALUE_TEXT && !f->is_out)
    found.value.text = plim_scanner_keep(f, f->scratch.at, f->scratch.len - 1);
  return found;
}

plim_shell_value plim_scanner_read(plim_shell_scanner *f, const char *text, plim_span span,
                                   plim_word_context place, const char *self) {
  return read_value(f, text, span, place, self, 0);
}
