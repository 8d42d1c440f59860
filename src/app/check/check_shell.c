// Checks for multi-line commands that end too early, so that the options after that line are lost, and for variables
// that are not exported.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_conf.h"
#include "check.h"

typedef struct {
  const char *begin;
  size_t size;    // without the line end
  size_t content; // without blanks at its end
  size_t indent;
} line;

static line line_at(const plim_project_file *f, size_t byte) {
  line l = {.begin = f->text + byte};
  const char *end = memchr(l.begin, '\n', f->size - byte);
  l.size = end ? (size_t)(end - l.begin) : f->size - byte;
  if (l.size && l.begin[l.size - 1] == '\r') l.size--;
  l.content = l.size;
  while (l.content && strchr(" \t", l.begin[l.content - 1])) l.content--;
  while (l.indent < l.content && strchr(" \t", l.begin[l.indent])) l.indent++;
  return l;
}

static bool begins_with(const line *l, char c) {
  return l->indent < l->content && l->begin[l->indent] == c;
}

static bool ends_in_backslash(const line *l, size_t at) {
  return at && l->begin[at - 1] == '\\' && !(at > 1 && l->begin[at - 2] == '\\');
}

static void report(check *c, const plim_project_file *file, const line *l, size_t column,
                   const char *what, const char *why, const char *fix) {
  check_finding *f = check_add(c, "shell.cut", CHECK_FAILS, "%s", what);
  size_t byte = (size_t)(l->begin - file->text) + column;
  check_at_byte(f, file, byte);
  check_show(f, file->text, byte);
  check_why(f, "%s: the options below it are lost, and the shell fails with \"command not found\"",
            why);
  check_fix(f, "%s", fix);
}

// `before` is continued by a backslash, `l` follows it, `next` holds options.
static void check_line(check *c, const plim_project_file *f, const line *before, const line *l,
                       const line *next) {
  if (begins_with(before, '#')) return;
  if (ends_in_backslash(before, before->size) && begins_with(l, '#') && begins_with(next, '-'))
    report(c, f, l, l->indent, "a comment inside a command", "a comment ends the command",
           "move the comment above the command");
  else if (before->content < before->size && ends_in_backslash(before, before->content) &&
           begins_with(l, '-'))
    report(c, f, before, before->content - 1, "a space after a backslash",
           "a backslash continues the line only if it is the last character", "remove the space");
}

static line next_line(const plim_project_file *f, const line *l) {
  const char *end = memchr(l->begin, '\n', f->size - (size_t)(l->begin - f->text));
  return line_at(f, end ? (size_t)(end - f->text) + 1 : f->size);
}

static void check_file(check *c, const plim_project_file *f) {
  line before = line_at(f, 0), l = next_line(f, &before);
  while (before.begin < f->text + f->size) {
    line behind = next_line(f, &l);
    check_line(c, f, &before, &l, &behind);
    before = l;
    l = behind;
  }
}

// ---- variables that do not reach the run ------------------------------------------------------------

// Whether the environment of a run decides something by this variable.
static bool is_of_environment(const plim_setting *setting) {
  for (const plim_key *key = plim_launch_keys; key->key; key++)
    if (key->key[0] == '$' && plim_key_is_of(key, setting, false)) return true;
  return false;
}

// Whether PyTorch would refuse the value once it is exported. `$` may stand for anything.
static bool is_refused(const char *name, const char *value, plim_error *error) {
  plim_alloc_conf conf;
  if (!strstr(name, "_ALLOC_CONF") || strchr(value, '$') || strstr(value, "cudaMallocAsync"))
    return false;
  return plim_alloc_conf_parse(value, &conf, error) != PLIM_OK;
}

// `typed` is the value as it is written, with its quotes.
static void fix_export(check_finding *f, const char *name, const char *typed) {
  plim_error error = {0};
  const char *bare = typed + strspn(typed, "\"'");
  char *value = strndup(bare, strcspn(bare, "\"'"));
  if (!value) f->owner->has_no_memory = true;
  else if (!*value) check_fix(f, "delete the line: %s has no value", name);
  else if (is_refused(name, value, &error))
    check_fix(f, "export %s with a valid value (%.160s)", name, error.message);
  else check_fix(f, "export %s=%s", name, typed);
  free(value);
}

static void check_exports(check *c, const plim_project_file *file) {
  for (size_t i = 0; i < file->settings.at.len; i++) {
    const plim_setting *s = &file->settings.at.at[i];
    if (!s->is_unexported || !is_of_environment(s)) continue;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(s->key + 1, "#"), s->key + 1); // NAME#2
    if (c->environment(name)) continue; // exported already where the script is started
    check_finding *f = check_add(c, "shell.unexported", CHECK_WARNING,
                                 "%s is set but not exported, so it has no effect", name);
    check_at_line(f, file->path, s->line);
    check_why(f, "a shell variable reaches the programs that the script starts only with export");
    char *typed = strndup(file->text + s->span.begin, s->span.end - s->span.begin);
    if (typed) fix_export(f, name, typed);
    else c->has_no_memory = true;
    free(typed);
  }
}

void check_shell(check *c) {
  for (size_t i = 0; i < c->files.project.files.len; i++) {
    const plim_project_file *f = c->files.project.files.at[i];
    if (f->settings.format != PLIM_FORMAT_SHELL) continue;
    check_file(c, f);
    check_exports(c, f);
  }
}
