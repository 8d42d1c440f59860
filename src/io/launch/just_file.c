// justfiles: the lines of recipes, with {{variables}} and the defaults of parameters in them, which are not edited.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "make_variables.h"
#include "value.h"

typedef struct {
  const char *text;
  size_t size;
  plim_launch_file *out;
  plim_make_variables globals, own; // own: the parameters of the recipe
} justfile;

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_' || c == '-'; }

static size_t skip_blanks(const justfile *j, size_t at, size_t end) {
  while (at < end && (j->text[at] == ' ' || j->text[at] == '\t')) at++;
  return at;
}

static size_t skip_name(const justfile *j, size_t at, size_t end) {
  while (at < end && is_name(j->text[at])) at++;
  return at;
}

static size_t line_end(const justfile *j, size_t at) {
  const char *end = at < j->size ? memchr(j->text + at, '\n', j->size - at) : NULL;
  return end ? (size_t)(end - j->text) : j->size;
}

// Sets the variable to the string that begins at `at`; anything else is an expression, which is not computed. Returns
// where the value ends.
static size_t set(justfile *j, plim_make_variables *to, plim_span name, size_t at, size_t end,
                  bool is_exported) {
  plim_sourced value = {0};
  char quote = at < end ? j->text[at] : 0;
  const char *close =
      quote == '"' || quote == '\'' ? memchr(j->text + at + 1, quote, end - at - 1) : NULL;
  size_t behind = close ? (size_t)(close - j->text) + 1 : skip_name(j, at, end);
  size_t next = skip_blanks(j, behind, end);
  bool is_whole = to == &j->own || next == end || strchr("#\r", j->text[next]);
  bool is_literal = close && is_whole && !memchr(j->text + at, '\\', behind - at) &&
                    !(behind < end && j->text[behind] == quote);
  if (is_literal) plim_sourced_copy(&value, j->text, (plim_span){at + 1, behind - 1});
  plim_make_assign(to, j->text + name.begin, name.end - name.begin,
                   is_literal ? PLIM_MAKE_NOW : PLIM_MAKE_UNKNOWN, &value,
                   plim_launch_line(j->text, name.begin));
  plim_make_variable *v = plim_make_variable_of(to, j->text + name.begin, name.end - name.begin);
  if (v) {
    v->is_exported |= is_exported;
    plim_sourced_free(&v->value);
    for (size_t i = 0; i < value.bytes.len; i++)
      plim_sourced_put(&v->value, value.bytes.at[i],
                       value.from.at[i] | PLIM_FROM_VARIABLE | PLIM_FROM_SHARED);
  }
  plim_sourced_free(&value);
  return behind;
}

// NAME := "value", with or without `export`; false if the line is something else.
static bool read_variable(justfile *j, size_t at, size_t end) {
  bool is_exported = end - at > 7 && memcmp(j->text + at, "export ", 7) == 0;
  if (is_exported) at = skip_blanks(j, at + 7, end);
  plim_span name = {at, skip_name(j, at, end)};
  size_t sign = skip_blanks(j, name.end, end);
  if (name.begin == name.end || sign + 1 >= end || memcmp(j->text + sign, ":=", 2) != 0)
    return false;
  set(j, &j->globals, name, skip_blanks(j, sign + 2, end), end, is_exported);
  return true;
}

// name first second="default" $third='x' *rest: dependencies. Without a default, the caller
// gives a parameter.
static bool read_head(justfile *j, size_t at, size_t end, plim_span *name) {
  if (at < end && j->text[at] == '@') at++;
  *name = (plim_span){at, skip_name(j, at, end)};
  if (name->begin == name->end) return false;
  for (at = skip_blanks(j, name->end, end); at < end && j->text[at] != ':';) {
    bool is_exported = j->text[at] == '$';
    while (at < end && strchr("$*+", j->text[at])) at++;
    plim_span parameter = {at, skip_name(j, at, end)};
    if (parameter.begin == parameter.end) return false;
    at = skip_blanks(j, parameter.end, end);
    bool has_default = at < end && j->text[at] == '=';
    if (has_default) at = set(j, &j->own, parameter, skip_blanks(j, at + 1, end), end, is_exported);
    else plim_make_variable_of(&j->own, j->text + parameter.begin, parameter.end - parameter.begin);
    at = skip_blanks(j, at, end);
  }
  return at < end && j->text[at] == ':' && !(at + 1 < end && j->text[at + 1] == '=');
}

// A parameter of the recipe, or a variable.
static const plim_make_variable *find(const justfile *j, const char *name, size_t size) {
  const plim_make_variables *in[] = {&j->own, &j->globals};
  for (int k = 0; k < 2; k++)
    for (size_t i = 0; i < in[k]->variables.len; i++) {
      const plim_make_variable *v = &in[k]->variables.at[i];
      if (strlen(v->name) == size && memcmp(v->name, name, size) == 0) return v;
    }
  return NULL;
}

// A line with the values of {{name}}; any other expression is not known.
static void read_line(justfile *j, size_t at, size_t end, plim_sourced *out) {
  while (at < end && strchr("@- \t", j->text[at])) at++;
  for (; at < end; at++) {
    bool is_open = at + 3 < end && memcmp(j->text + at, "{{", 2) == 0;
    const char *close = is_open ? memmem(j->text + at, end - at, "}}", 2) : NULL;
    if (!close) {
      plim_sourced_put(out, j->text[at], (uint32_t)at);
      continue;
    }
    size_t begin = skip_blanks(j, at + 2, end), behind = (size_t)(close - j->text) + 2;
    size_t size = skip_name(j, begin, end) - begin;
    bool is_plain = skip_blanks(j, begin + size, end) == behind - 2;
    const plim_make_variable *v = is_plain ? find(j, j->text + begin, size) : NULL;
    if (!v || v->is_unclear) plim_launch_put_open(out, j->text + begin, size);
    else if (v->is_set) plim_sourced_append(out, &v->value, 0, v->value.bytes.len);
    else plim_launch_put_given(out, j->text, j->size, v->name, size);
    at = behind - 1;
  }
}

static void put_line(justfile *j, size_t from, size_t end, bool is_script, plim_sourced *script,
                     int *first) {
  plim_sourced line = {0}, command = {0};
  int number = plim_launch_line(j->text, from);
  read_line(j, from, end, &line);
  plim_launch_put_command(&command, &line);
  if (is_script || plim_launch_trains(j->out, &command)) {
    if (!*first) {
      plim_make_export(&j->globals, number, script);
      plim_make_export(&j->own, number, script);
      *first = number;
    }
    plim_sourced_go_to(script, number);
    plim_sourced_append(script, &command, 0, command.bytes.len);
    plim_sourced_put(script, '\n', end < j->size ? (uint32_t)end : PLIM_FROM_NOWHERE);
  }
  plim_sourced_free(&line);
  plim_sourced_free(&command);
}

// The body is indented, and may be continued with backslashes. A script for a shell begins with #!; one for another
// program is not read.
static plim_err read_recipe(justfile *j, plim_span name, size_t *at, plim_error *error) {
  plim_sourced script = {0};
  size_t begin = skip_blanks(j, *at, j->size);
  bool is_script = begin + 1 < j->size && memcmp(j->text + begin, "#!", 2) == 0;
  size_t head = line_end(j, begin);
  bool is_foreign = is_script && !memmem(j->text + begin, head - begin, "sh", 2);
  int first = 0;
  for (size_t end; *at < j->size; *at = end + (end < j->size)) {
    end = line_end(j, *at);
    size_t body = skip_blanks(j, *at, end);
    bool is_empty = body == end || j->text[body] == '\r';
    if (body == *at && !is_empty) break;
    while (!is_script && end < j->size && j->text[end - 1] == '\\') end = line_end(j, end + 1);
    if (!is_empty && !is_foreign && !(is_script && body == begin))
      put_line(j, body, end, is_script, &script, &first);
  }
  plim_err err = script.is_out ? plim_no_memory(error) : PLIM_OK;
  char *called = plim_copy_of(j->text + name.begin, name.end - name.begin);
  if (!called) err = plim_no_memory(error);
  if (!err && first && plim_launch_trains(j->out, &script))
    err = plim_launch_add(j->out, called, first, &script, NULL, error);
  free(called);
  plim_sourced_free(&script);
  return err;
}

plim_err plim_read_justfile(const char *text, size_t size, plim_launch_file *out,
                            plim_error *error) {
  justfile j = {.text = text, .size = size, .out = out};
  plim_err err = PLIM_OK;
  j.globals.text = text, j.globals.size = size;
  // A variable may be used above its assignment.
  for (size_t at = 0, end; at < size; at = end + 1)
    end = line_end(&j, at), read_variable(&j, at, end);
  for (size_t at = 0, end; !err && at < size;) {
    plim_span name;
    end = line_end(&j, at);
    j.own = (plim_make_variables){.text = text, .size = size};
    bool is_head = !strchr("# \t\r[", text[at]) && read_head(&j, at, end, &name);
    at = end + (end < size);
    if (is_head) err = read_recipe(&j, name, &at, error);
    if (!err && (j.own.is_out || j.globals.is_out)) err = plim_no_memory(error);
    plim_make_variables_clear(&j.own);
  }
  plim_make_variables_clear(&j.globals);
  return err;
}
