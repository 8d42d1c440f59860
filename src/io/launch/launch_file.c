#include "launch_file.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "launch_parts.h"
#include "shell_settings.h"

static const struct {
  const char *name;
  plim_launch_reader *read;
} files[] = {
    {"Makefile", plim_read_makefile},       {"makefile", plim_read_makefile},
    {"GNUmakefile", plim_read_makefile},    {"pyproject.toml", plim_read_pyproject},
    {"launch.json", plim_read_launch_json}, {"justfile", plim_read_justfile},
    {"Justfile", plim_read_justfile},       {".justfile", plim_read_justfile},
    {"Taskfile.yml", plim_read_taskfile},   {"Taskfile.yaml", plim_read_taskfile},
    {"taskfile.yml", plim_read_taskfile},   {"taskfile.yaml", plim_read_taskfile},
};

static bool ends_with(const char *text, const char *ending) {
  size_t n = strlen(text), m = strlen(ending);
  return n > m && strcmp(text + n - m, ending) == 0;
}

static plim_launch_reader *reader_of(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (strcmp(name, files[i].name) == 0) return files[i].read;
  if (ends_with(name, ".mk")) return plim_read_makefile;
  return ends_with(name, ".just") ? plim_read_justfile : NULL;
}

bool plim_is_launch_file(const char *path) { return reader_of(path); }

plim_err plim_launch_file_read(const char *path, const char *text, size_t size,
                               plim_launch_file *out, plim_error *error) {
  plim_launch_reader *read = reader_of(path);
  *out = (plim_launch_file){0};
  if (!read || size >= PLIM_FROM_SHARED || memchr(text, 0, size))
    return plim_fail(error, PLIM_ERR_PARSE, "this is not a text file");
  return read(text, size, out, error);
}

void plim_launch_clear(plim_launch *l) {
  plim_sourced_free(&l->script);
  free(l->name);
}

void plim_launch_file_clear(plim_launch_file *f) {
  for (size_t i = 0; i < f->at.len; i++) plim_launch_clear(&f->at.at[i]);
  vec_free(&f->at);
}

uint64_t plim_launch_place(const uint32_t *from, size_t at) {
  while (at > 0 && from[at] >= PLIM_FROM_OPEN) at--;
  return from[at] >= PLIM_FROM_OPEN ? PLIM_UNKNOWN : PLIM_FROM_PLACE(from[at]);
}

int plim_launch_line(const char *text, size_t byte) {
  int line = 1;
  for (size_t i = 0; i < byte; i++) line += text[i] == '\n';
  return line;
}

// ---- what starts a training -------------------------------------------------------------------------

static bool is_training(const plim_shell_view *view, const char *text, size_t command,
                        plim_arguments *words) {
  if (view->script.commands.at[command].substitutions) return false;
  if (!plim_shell_arguments(view, text, command, words)) return false;
  plim_command_kind kind = plim_command_kind_of(text, words->at, words->len, false);
  return kind.is_training && !kind.is_aside;
}

bool plim_launch_trains(plim_launch_file *f, const plim_sourced *script) {
  plim_shell_view view = {0};
  plim_arguments words = {0};
  plim_error why = {0};
  bool trains = false;
  if (!script->bytes.len) return false;
  plim_err err = plim_shell_parse(script->bytes.at, script->bytes.len, &view.script, &why);
  for (size_t i = 0; !err && !trains && i < view.script.commands.len; i++)
    trains = is_training(&view, script->bytes.at, i, &words);
  if (err == PLIM_ERR_PARSE && !f->unread.code) {
    size_t at = why.byte < script->from.len ? (size_t)why.byte : script->from.len - 1;
    uint32_t from = script->from.at[at];
    f->unread = why;
    plim_error_at(&f->unread, from >= PLIM_FROM_OPEN ? PLIM_UNKNOWN : PLIM_FROM_PLACE(from));
  }
  vec_free(&words);
  plim_shell_view_clear(&view);
  return trains;
}

static bool is_same(const plim_sourced *a, const plim_sourced *b) {
  size_t i = 0, k = 0;
  while (i < a->bytes.len && a->bytes.at[i] == '\n') i++;
  while (k < b->bytes.len && b->bytes.at[k] == '\n') k++;
  size_t size = a->bytes.len - i;
  return size == b->bytes.len - k && memcmp(a->bytes.at + i, b->bytes.at + k, size) == 0;
}

plim_err plim_launch_add(plim_launch_file *f, const char *name, int line, plim_sourced *script,
                         const char *refusal, plim_error *error) {
  plim_launch l = {strdup(name), line, *script, refusal};
  bool is_known = false;
  *script = (plim_sourced){0};
  plim_sourced_put(&l.script, '\n', PLIM_FROM_NOWHERE);
  for (size_t i = 0; !l.script.is_out && i < f->at.len && !is_known; i++)
    is_known = is_same(&f->at.at[i].script, &l.script);
  plim_err err = l.name && !l.script.is_out ? PLIM_OK : plim_no_memory(error);
  for (size_t i = 0; !err && i < f->at.len && !is_known; i++)
    if (strcmp(f->at.at[i].name, name) == 0)
      f->at.at[i].refusal = l.refusal = "is defined more than once";
  if (!err && !is_known && vec_push(&f->at, l)) return PLIM_OK;
  plim_launch_clear(&l);
  return err || is_known ? err : plim_no_memory(error);
}

// ---- values that are not known ----------------------------------------------------------------------

void plim_launch_put_command(plim_sourced *script, const plim_sourced *command) {
  char quote = 0;
  for (size_t i = 0; i < command->bytes.len; i++) {
    char c = command->bytes.at[i];
    bool is_open = command->from.at[i] == PLIM_FROM_OPEN;
    bool was_open = i && command->from.at[i - 1] == PLIM_FROM_OPEN;
    if (quote == '\'' && is_open && !was_open) {
      if (command->bytes.at[i - 1] == '\'') script->bytes.len--, script->from.len--;
      else plim_sourced_put(script, '\'', PLIM_FROM_NOWHERE);
      plim_sourced_put(script, '"', PLIM_FROM_NOWHERE);
    } else if (quote == '\'' && !is_open && was_open) {
      plim_sourced_put(script, '"', PLIM_FROM_NOWHERE);
      if (c == '\'') {
        quote = 0;
        continue;
      }
      plim_sourced_put(script, '\'', PLIM_FROM_NOWHERE);
    }
    plim_sourced_put(script, c, command->from.at[i]);
    bool is_escaped = c == '\\' && quote != '\'' && i + 1 < command->bytes.len;
    if (is_escaped) i++, plim_sourced_put(script, command->bytes.at[i], command->from.at[i]);
    else if (!is_open && (c == '\'' || c == '"') && (!quote || quote == c)) quote = quote ? 0 : c;
  }
  script->is_out |= command->is_out;
}

static bool is_keyword(const char *name, size_t size) {
  static const char *const words[] = {"if",   "then",  "else", "elif", "fi",     "for",
                                      "do",   "done",  "case", "esac", "select", "function",
                                      "time", "until", "in",   "while"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strlen(words[i]) == size && memcmp(words[i], name, size) == 0) return true;
  return false;
}

void plim_launch_put_open(plim_sourced *t, const char *name, size_t size) {
  plim_sourced_write(t, is_keyword(name, size) ? "$(_" : "$(", PLIM_FROM_OPEN);
  for (size_t i = 0; i < size; i++)
    plim_sourced_put(t, isalnum((unsigned char)name[i]) ? name[i] : '_', PLIM_FROM_OPEN);
  plim_sourced_put(t, ')', PLIM_FROM_OPEN);
}

void plim_launch_put_given(plim_sourced *t, const char *text, size_t text_size, const char *name,
                           size_t size) {
  char sign[68];
  bool is_name = size && size < 64 && !isdigit((unsigned char)*name);
  for (size_t i = 0; i < size; i++) is_name &= isalnum((unsigned char)name[i]) || name[i] == '_';
  int length = is_name ? snprintf(sign, sizeof sign, "%.*s=", (int)size, name) : 0;
  if (!is_name || memmem(text, text_size, sign, (size_t)length)) {
    plim_launch_put_open(t, name, size);
    return;
  }
  plim_sourced_write(t, "${", PLIM_FROM_OPEN);
  for (size_t i = 0; i < size; i++) plim_sourced_put(t, name[i], PLIM_FROM_OPEN);
  plim_sourced_put(t, '}', PLIM_FROM_OPEN);
}

// ---- edits ------------------------------------------------------------------------------------------

static bool is_own(uint32_t from) { return from < PLIM_FROM_OPEN && !(from & PLIM_FROM_SHARED); }

// A new text goes behind the byte before it or before the byte behind it, but not into a variable.
static bool place_insert(const plim_launch *l, size_t at, size_t *out) {
  const uint32_t *from = l->script.from.at;
  bool has_before = at > 0 && from[at - 1] < PLIM_FROM_SHARED;
  bool has_behind = at < l->script.from.len && from[at] < PLIM_FROM_SHARED;
  if (has_before) *out = from[at - 1] + 1u;
  else if (has_behind) *out = from[at];
  return has_before || has_behind;
}

bool plim_launch_edit(const plim_launch *l, const plim_edit *in_script, plim_edit *out) {
  plim_span span = in_script->span, place = {0};
  const uint32_t *from = l->script.from.at;
  if (span.end > l->script.from.len || !in_script->text) return false;
  if (span.begin == span.end && !place_insert(l, span.begin, &place.begin)) return false;
  if (span.begin == span.end) place.end = place.begin;
  for (size_t i = span.begin; i < span.end; i++)
    if (!is_own(from[i]) || from[i] != from[span.begin] + (i - span.begin)) return false;
  if (span.begin < span.end) {
    place.begin = PLIM_FROM_PLACE(from[span.begin]);
    place.end = place.begin + (span.end - span.begin);
  }
  *out = (plim_edit){place, strdup(in_script->text)};
  return out->text;
}
