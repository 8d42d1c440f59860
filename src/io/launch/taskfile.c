// Taskfile.yml: the commands of tasks, with {{.VARIABLES}} in them, which are not edited.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats.h"
#include "launch_parts.h"
#include "value.h"

typedef struct {
  const plim_settings *s;
  const char *name; // of the task
  size_t size;
} task;

// The part of a key behind "tasks.NAME"; NULL: it is not of this task.
static const char *in_task(const task *t, const char *key) {
  static const char start[] = "tasks.";
  size_t n = sizeof start - 1;
  if (strncmp(key, start, n) != 0 || strncmp(key + n, t->name, t->size) != 0) return NULL;
  const char *rest = key + n + t->size;
  return !*rest || *rest == '.' ? rest : NULL;
}

// A task is one command, a list of commands, or has them as `cmd` or `cmds`, each of which may have the key `cmd`.
static bool is_command(const char *rest) {
  if (!*rest || strcmp(rest, ".cmd") == 0) return true;
  if (strncmp(rest, ".cmds.", 6) == 0) rest += 5;
  size_t digits = strspn(rest + 1, "0123456789");
  return digits && (!rest[1 + digits] || strcmp(rest + 1 + digits, ".cmd") == 0);
}

// The variable of the task or, failing that, of the file. NULL: neither sets it.
static const plim_setting *variable(const task *t, const char *name, size_t size) {
  char key[200];
  const plim_setting *found = NULL;
  int length =
      snprintf(key, sizeof key, "tasks.%.*s.vars.%.*s", (int)t->size, t->name, (int)size, name);
  if (length < (int)sizeof key) found = plim_settings_find(t->s, key);
  snprintf(key, sizeof key, "vars.%.*s", (int)size, name);
  return found || size > 100 ? found : plim_settings_find(t->s, key);
}

// Whether a shell computes it, as in `vars: {COUNT: {sh: nproc}}`, or in another way than by a value.
static bool is_computed(const task *t, const char *name, size_t size) {
  char own[200], global[120];
  int length =
      snprintf(own, sizeof own, "tasks.%.*s.vars.%.*s.", (int)t->size, t->name, (int)size, name);
  snprintf(global, sizeof global, "vars.%.*s.", (int)(size > 100 ? 100 : size), name);
  return length >= (int)sizeof own || plim_settings_has_below(t->s, own) ||
         plim_settings_has_below(t->s, global);
}

static void put_variable(const task *t, const char *name, size_t size, plim_sourced *out) {
  const plim_setting *v = variable(t, name, size);
  const plim_value *value = v ? &v->value : NULL;
  bool is_text = value && value->kind == PLIM_VALUE_TEXT && !strstr(value->text, "{{");
  bool is_number = value && (value->kind == PLIM_VALUE_INTEGER || value->kind == PLIM_VALUE_REAL);
  if (!v && !is_computed(t, name, size)) {
    plim_launch_put_given(out, t->s->text, t->s->size, name, size);
    return;
  }
  if (!is_text && !is_number) {
    plim_launch_put_open(out, name, size);
    return;
  }
  // A file's quotes may have other rules than a command's, so the place is known, but not written.
  if (is_text) plim_sourced_write(out, value->text, PLIM_FROM_NOWHERE);
  for (size_t i = v->span.begin; is_number && i < v->span.end; i++)
    plim_sourced_put(out, t->s->text[i], (uint32_t)i | PLIM_FROM_VARIABLE | PLIM_FROM_SHARED);
}

// {{.NAME}} is a variable; any other template is not computed.
static void put_command(const task *t, const plim_sourced *text, plim_sourced *out) {
  const char *at = text->bytes.at;
  size_t size = text->bytes.len;
  for (size_t i = 0; i < size; i++) {
    const char *end =
        i + 4 < size && memcmp(at + i, "{{", 2) == 0 ? memmem(at + i, size - i, "}}", 2) : NULL;
    if (!end) {
      plim_sourced_put(out, at[i], text->from.at[i]);
      continue;
    }
    const char *name = at + i + 2;
    while (*name == ' ') name++;
    size_t length = 0;
    bool is_variable = *name == '.';
    name += is_variable;
    while (isalnum((unsigned char)name[length]) || name[length] == '_') length++;
    const char *rest = name + length;
    while (*rest == ' ') rest++;
    is_variable &= rest == end;
    if (is_variable) put_variable(t, name, length, out);
    else plim_launch_put_open(out, name, length);
    i = (size_t)(end - at) + 1;
  }
}

static void put_environment(const task *t, plim_sourced *script) {
  for (size_t i = 0; i < t->s->at.len; i++) {
    const plim_setting *x = &t->s->at.at[i];
    const char *rest = in_task(t, x->key);
    const char *name = rest && strncmp(rest, ".env.", 5) == 0 ? rest + 5
                       : strncmp(x->key, "env.", 4) == 0      ? x->key + 4
                                                              : NULL;
    plim_sourced value = {0}, word = {0};
    if (!name || strchr(name, '.')) continue;
    plim_launch_read_value(t->s, x, &value);
    put_command(t, &value, &word);
    plim_sourced_write(script, "export ", PLIM_FROM_NOWHERE);
    plim_sourced_write(script, name, PLIM_FROM_NOWHERE);
    plim_sourced_put(script, '=', PLIM_FROM_NOWHERE);
    plim_sourced_quote(script, &word);
    plim_sourced_put(script, ';', PLIM_FROM_NOWHERE);
    plim_sourced_free(&value);
    plim_sourced_free(&word);
  }
}

// Each command has a shell of its own, so only those that train matter.
static plim_err add_task(const task *t, plim_launch_file *out, plim_error *error) {
  plim_sourced script = {0};
  int first = 0;
  for (size_t i = 0; i < t->s->at.len; i++) {
    const plim_setting *x = &t->s->at.at[i];
    const char *rest = in_task(t, x->key);
    plim_sourced text = {0}, now = {0}, command = {0};
    if (!rest || !is_command(rest) || x->value.kind != PLIM_VALUE_TEXT) continue;
    plim_launch_read_value(t->s, x, &text);
    put_command(t, &text, &now);
    plim_launch_put_command(&command, &now);
    if (plim_launch_trains(out, &command)) {
      plim_sourced_go_to(&script, x->line);
      if (!first) put_environment(t, &script), first = x->line;
      plim_sourced_write(&script, "(", PLIM_FROM_NOWHERE);
      plim_sourced_append(&script, &command, 0, command.bytes.len);
      plim_sourced_write(&script, "\n)", PLIM_FROM_NOWHERE);
      plim_sourced_write(&script, ";", PLIM_FROM_NOWHERE);
    }
    plim_sourced_free(&text);
    plim_sourced_free(&now);
    plim_sourced_free(&command);
  }
  char *name = plim_copy_of(t->name, t->size);
  plim_err err = name && !script.is_out ? PLIM_OK : plim_no_memory(error);
  if (!err && first) err = plim_launch_add(out, name, first, &script, NULL, error);
  plim_sourced_free(&script);
  free(name);
  return err;
}

plim_err plim_read_taskfile(const char *text, size_t size, plim_launch_file *out,
                            plim_error *error) {
  plim_settings s = {0};
  task last = {.s = &s, .name = ""};
  plim_err err = plim_settings_read(PLIM_FORMAT_YAML, text, size, &s, error);
  for (size_t i = 0; !err && i < s.at.len; i++) {
    const char *key = s.at.at[i].key;
    if (strncmp(key, "tasks.", 6) != 0 || (last.size && in_task(&last, key))) continue;
    last = (task){&s, key + 6, strcspn(key + 6, ".")};
    if (last.size) err = add_task(&last, out, error);
  }
  plim_settings_clear(&s);
  return err;
}
