// Removes words and lines from scripts.
#include <ctype.h>
#include <string.h>

#include "removal.h"
#include "shell_value.h"

plim_span plim_shell_value_words(const plim_settings *s, const plim_shell_value *found) {
  plim_span span = found->word;
  if (found->span.end > span.end) span.end = found->span.end;
  for (size_t i = found->gap; found->gap && i < span.begin; i++)
    if (!memchr(" \t\r\n\\,", s->text[i], 6)) return span;
  if (found->gap && found->gap <= span.begin) span.begin = found->gap;
  return span;
}

// ---- variables --------------------------------------------------------------------------------------

static bool is_name_byte(char c) { return isalnum((unsigned char)c) || c == '_'; }

// Whether $NAME or ${NAME occurs anywhere in the file.
static bool is_used(const plim_settings *s, const char *name) {
  size_t n = strlen(name);
  for (size_t i = 0; i + n < s->size; i++) {
    if (s->text[i] != '$') continue;
    size_t at = i + 1 + (s->text[i + 1] == '{');
    bool is_it = at + n <= s->size && memcmp(s->text + at, name, n) == 0;
    if (is_it && (at + n == s->size || !is_name_byte(s->text[at + n]))) return true;
  }
  return false;
}

// The span of NAME=value or export NAME=value; empty if the setting is not such an assignment.
static plim_span assignment_of(const plim_settings *s, const plim_shell_value *found) {
  size_t n = strlen(found->name + 1), sign = found->span.begin;
  if (sign < n + 1 || s->text[sign - 1] != '=') return (plim_span){0, 0};
  size_t begin = sign - 1 - n;
  if (memcmp(s->text + begin, found->name + 1, n) != 0) return (plim_span){0, 0};
  bool is_exported = begin >= 7 && memcmp(s->text + begin - 7, "export ", 7) == 0;
  return (plim_span){begin - (is_exported ? 7 : 0), found->span.end};
}

static plim_err remove_variable(const plim_settings *s, const plim_setting *setting,
                                const plim_shell_value *found, plim_edit *out, plim_error *error) {
  plim_span assignment = assignment_of(s, found), lines;
  if (is_used(s, found->name + 1))
    return plim_removal_refuse(setting, "the file uses it elsewhere", error);
  bool is_line = s->format == PLIM_FORMAT_SHELL && assignment.end > assignment.begin &&
                 plim_entry_lines(s, assignment, &lines);
  if (!is_line) return plim_removal_refuse(setting, "it is not on a line of its own", error);
  return plim_span_remove(s, setting, lines, out, error);
}

// ---- all of them ------------------------------------------------------------------------------------

plim_err plim_shell_value_remove(const plim_settings *s, const plim_setting *setting,
                                 plim_find find, plim_edit *out, plim_error *error) {
  plim_settings again = {.format = s->format, .text = s->text, .size = s->size};
  plim_shell_scanner f = {.s = &again};
  plim_err err = find(&f, error);
  const plim_shell_value *found = err ? NULL : plim_shell_value_again(&f, setting);
  if (!err && !found)
    err = plim_removal_refuse(setting, "it is no longer where it was read", error);
  else if (!err && found->kind == PLIM_FOUND_VARIABLE)
    err = remove_variable(s, setting, found, out, error);
  else if (!err) err = plim_span_remove(s, setting, plim_shell_value_words(s, found), out, error);
  plim_scanner_clear(&f);
  plim_settings_clear(&again);
  return err;
}
