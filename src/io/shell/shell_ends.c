// Finds the place where more words can be added to a command.
#include <stdio.h>
#include <string.h>

#include "new_arguments.h"
#include "shell_settings.h"

static size_t line_begin(const char *text, size_t at) {
  while (at && text[at - 1] != '\n') at--;
  return at;
}

static size_t line_end(const char *text, size_t size, size_t at) {
  const char *end = memchr(text + at, '\n', size - at);
  size_t n = end ? (size_t)(end - text) : size;
  return n > at && text[n - 1] == '\r' ? n - 1 : n;
}

static size_t indentation(const char *text, size_t size, size_t line) {
  size_t n = 0;
  while (line + n < size && (text[line + n] == ' ' || text[line + n] == '\t')) n++;
  return n;
}

// Whether the word is the caller's arguments, such as "$@". They must stay last, to override the others.
static bool is_callers(const char *text, const plim_argument *a) {
  static const char *const forms[] = {"\"$@\"",     "$@",     "$*",         "\"${@}\"", "${@}",
                                      "\"${@:2}\"", "${@:2}", "\"${@:1}\"", "${@:1}"};
  size_t size = a->span.end - a->span.begin;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (size == strlen(forms[i]) && memcmp(text + a->span.begin, forms[i], size) == 0) return true;
  return false;
}

// Whether the line begins with a word of the command other than its first.
static bool begins_line(const char *text, size_t size, const plim_arguments *words, size_t line) {
  size_t first = line + indentation(text, size, line);
  for (size_t i = 1; i < words->len; i++)
    if (words->at[i].span.begin == first) return true;
  return false;
}

static bool add_line(plim_shell_gap *out, const char *text, size_t size, size_t line,
                     bool is_list) {
  bool has_return = line >= 2 && text[line - 2] == '\r';
  return (is_list || plim_bytes_add(&out->separator, " \\", 2)) &&
         plim_bytes_add(&out->separator, has_return ? "\r\n" : "\n", has_return ? 2 : 1) &&
         plim_bytes_add(&out->separator, text + line, indentation(text, size, line));
}

// The end of the comment after a word of a list, because the comment stays on its line; `at` if there is none.
static size_t behind_comment(const char *text, size_t size, size_t at) {
  size_t end = line_end(text, size, at), i = at + indentation(text, size, at);
  return i < end && i > at && text[i] == '#' ? end : at;
}

bool plim_shell_end_of(const plim_shell_view *view, const char *text, size_t size, size_t command,
                       plim_shell_gap *out) {
  plim_arguments words = {0};
  const plim_shell_command *c = &view->script.commands.at[command];
  bool is_list = c->list.end > 0, is_whole = plim_shell_arguments(view, text, command, &words);
  *out = (plim_shell_gap){0};
  if (is_whole && words.len) {
    size_t last = words.len - 1;
    while (last > 0 && is_callers(text, &words.at[last])) last--;
    size_t line = line_begin(text, words.at[last].span.begin);
    out->at = words.at[last].span.end;
    if (line > words.at[0].span.begin && begins_line(text, size, &words, line)) {
      if (is_list) out->at = behind_comment(text, size, out->at);
      is_whole = add_line(out, text, size, line, is_list);
    } else is_whole = plim_bytes_add(&out->separator, " ", 1);
  }
  vec_free(&words);
  return is_whole;
}

void plim_shell_candidates(const plim_shell_view *view, const char *text, char *out, size_t size) {
  size_t used = 0, counted = 0;
  int line = 1;
  *out = 0;
  for (size_t i = 0; i < view->trainings.len && used < size; i++) {
    const plim_shell_command *c = &view->script.commands.at[view->trainings.at[i]];
    for (; counted < c->begin; counted++) line += text[counted] == '\n';
    plim_span last = view->script.words.at[c->first + c->count - 1];
    size_t end = c->begin;
    while (end < last.end && text[end] != '\n' && text[end] != '\\' && end - c->begin < 40) end++;
    used += (size_t)snprintf(out + used, size - used, "%sline %d: %.*s", i ? "; " : "", line,
                             (int)(end - c->begin), text + c->begin);
  }
}
