// Commands that are values of a file: the tasks of a pyproject.toml, the configurations of VS Code's launch.json.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats.h"
#include "launch_parts.h"
#include "value.h"

void plim_launch_read_value(const plim_settings *s, const plim_setting *setting,
                            plim_sourced *out) {
  const char *value = setting->value.text;
  size_t size = strlen(value), begin = setting->span.begin, end = setting->span.end;
  while (begin < end && strchr("\"'", s->text[begin])) begin++;
  bool is_same = begin + size <= end && memcmp(s->text + begin, value, size) == 0;
  if (is_same) plim_sourced_copy(out, s->text, (plim_span){begin, begin + size});
  else plim_sourced_write(out, value, PLIM_FROM_NOWHERE);
}

// A number or a truth value is a word, too.
static void put_word(const plim_settings *s, const plim_setting *setting, plim_sourced *script) {
  plim_sourced word = {0};
  if (setting->value.kind == PLIM_VALUE_TEXT) plim_launch_read_value(s, setting, &word);
  else plim_sourced_copy(&word, s->text, setting->span);
  plim_sourced_quote(script, &word);
  plim_sourced_free(&word);
}

// ---- pyproject.toml ---------------------------------------------------------------------------------

// Tables whose keys are names of tasks.
static const struct {
  const char *table; // * is one key
  bool is_entry;     // the values are functions, not commands
  bool has_lines;    // a list is several commands; otherwise it is the words of one
} tables[] = {
    {"project.scripts", true, false},           {"tool.poetry.scripts", true, false},
    {"tool.pdm.scripts", false, false},         {"tool.poe.tasks", false, false},
    {"tool.hatch.envs.*.scripts", false, true}, {"tool.taskipy.tasks", false, false},
    {"tool.rye.scripts", false, false},
};

// The length of the next key of a path, up to a dot without a backslash.
static size_t key_size(const char *path) {
  size_t size = 0;
  while (path[size] && path[size] != '.') size += path[size] == '\\' && path[size + 1] ? 2 : 1;
  return size;
}

// What follows the table in the path; NULL: the path is not in it.
static const char *below(const char *path, const char *table) {
  while (*table) {
    size_t n = key_size(path), m = key_size(table);
    bool is_same = (m == 1 && *table == '*') || (n == m && memcmp(path, table, n) == 0);
    if (!is_same || path[n] != '.') return NULL;
    path += n + 1;
    table += m + (table[m] == '.');
  }
  return path;
}

// What a task's key holds. A command is one, however many lines it has; only a shell's has a command in each line.
typedef enum { OF_COMMAND, OF_WORD, OF_LINE, OF_ENVIRONMENT, OF_OTHER } part_of_task;

static part_of_task part_of(const char *rest, bool has_lines) {
  if (!*rest || strcmp(rest, ".cmd") == 0 || strcmp(rest, ".shell") == 0) return OF_COMMAND;
  if (strncmp(rest, ".env.", 5) == 0) return OF_ENVIRONMENT;
  if (strncmp(rest, ".cmd.", 5) == 0 && isdigit((unsigned char)rest[5])) return OF_WORD;
  if (isdigit((unsigned char)rest[1]) && has_lines) return OF_LINE;
  return OF_OTHER;
}

typedef struct {
  const plim_settings *s;
  const char *name; // of the task in its table
  size_t size, table, first;
} task;

static bool is_of_task(const task *t, const char *key, const char **rest) {
  const char *in = below(key, tables[t->table].table);
  if (!in || key_size(in) != t->size || memcmp(in, t->name, t->size) != 0) return false;
  *rest = in + t->size;
  return true;
}

static void put_part(const task *t, const plim_setting *setting, const char *rest,
                     plim_sourced *script) {
  part_of_task part = part_of(rest, tables[t->table].has_lines);
  if (part == OF_OTHER || part == OF_ENVIRONMENT) return;
  bool is_next = part == OF_WORD && strcmp(rest, ".cmd.0") != 0;
  plim_sourced value = {0};
  if (!is_next) plim_sourced_go_to(script, setting->line);
  else plim_sourced_put(script, ' ', PLIM_FROM_NOWHERE);
  if (part == OF_WORD) put_word(t->s, setting, script);
  else if (setting->value.kind == PLIM_VALUE_TEXT) {
    bool is_one = part == OF_COMMAND && strcmp(rest, ".shell") != 0;
    plim_launch_read_value(t->s, setting, &value);
    for (size_t i = 0; i < value.bytes.len; i++) {
      bool goes_on = is_one && value.bytes.at[i] == '\n' && i + 1 < value.bytes.len;
      if (goes_on) plim_sourced_write(script, " \\", PLIM_FROM_NOWHERE);
      plim_sourced_append(script, &value, i, i + 1);
    }
    if (part == OF_LINE) plim_sourced_put(script, '\n', PLIM_FROM_NOWHERE);
  }
  plim_sourced_free(&value);
}

static void put_environment(const task *t, const plim_setting *setting, const char *rest,
                            plim_sourced *script) {
  if (part_of(rest, false) != OF_ENVIRONMENT || strchr(rest + 5, '.')) return;
  plim_sourced_write(script, "export ", PLIM_FROM_NOWHERE);
  plim_sourced_write(script, rest + 5, PLIM_FROM_NOWHERE);
  plim_sourced_put(script, '=', PLIM_FROM_NOWHERE);
  put_word(t->s, setting, script);
  plim_sourced_put(script, ';', PLIM_FROM_NOWHERE);
}

static plim_err add_task(const task *t, plim_launch_file *out, plim_error *error) {
  plim_sourced script = {0};
  char *name = plim_copy_of(t->name, t->size);
  const char *rest;
  int line = t->s->at.at[t->first].line;
  plim_err err = name ? PLIM_OK : plim_no_memory(error);
  plim_sourced_go_to(&script, line);
  for (size_t i = 0; i < t->s->at.len; i++)
    if (is_of_task(t, t->s->at.at[i].key, &rest))
      put_environment(t, &t->s->at.at[i], rest, &script);
  for (size_t i = 0; i < t->s->at.len; i++)
    if (is_of_task(t, t->s->at.at[i].key, &rest)) put_part(t, &t->s->at.at[i], rest, &script);
  if (script.is_out) err = plim_no_memory(error);
  if (!err && plim_launch_trains(out, &script))
    err = plim_launch_add(out, name, line, &script, NULL, error);
  plim_sourced_free(&script);
  free(name);
  return err;
}

static bool is_first(const task *t) {
  const char *rest;
  for (size_t i = 0; i < t->first; i++)
    if (is_of_task(t, t->s->at.at[i].key, &rest)) return false;
  return true;
}

static plim_err read_tasks(const plim_settings *s, plim_launch_file *out, plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; !err && i < s->at.len; i++)
    for (size_t k = 0; !err && k < sizeof tables / sizeof *tables; k++) {
      const plim_setting *x = &s->at.at[i];
      const char *in = below(x->key, tables[k].table);
      if (!in) continue;
      task t = {s, in, key_size(in), k, i};
      bool is_entry = tables[k].is_entry || strcmp(in + t.size, ".call") == 0 ||
                      strcmp(in + t.size, ".script") == 0;
      if (!is_entry && is_first(&t)) err = add_task(&t, out, error);
      else if (is_entry && !*out->entry && x->value.kind == PLIM_VALUE_TEXT)
        snprintf(out->entry, sizeof out->entry, "%.*s = %.60s", (int)(t.size < 30 ? t.size : 30),
                 in, x->value.text);
    }
  return err;
}

plim_err plim_read_pyproject(const char *text, size_t size, plim_launch_file *out,
                             plim_error *error) {
  plim_settings s = {0};
  plim_err err = plim_settings_read(PLIM_FORMAT_TOML, text, size, &s, error);
  if (!err) err = read_tasks(&s, out, error);
  plim_settings_clear(&s);
  return err;
}

// ---- launch.json ------------------------------------------------------------------------------------

// VS Code's variables: the folder of the workspace is where the program runs; the others are not known.
static void put_replaced(const plim_sourced *text, plim_sourced *out) {
  static const char folder[] = "${workspaceFolder}";
  const char *at = text->bytes.at;
  size_t size = text->bytes.len, n = sizeof folder - 1;
  for (size_t i = 0; i < size; i++) {
    bool is_variable = i + 1 < size && at[i] == '$' && at[i + 1] == '{';
    const char *end = is_variable ? memchr(at + i, '}', size - i) : NULL;
    size_t skipped = end ? (size_t)(end - (at + i)) : 0;
    if (!end) plim_sourced_put(out, at[i], text->from.at[i]);
    else if (skipped + 1 == n && memcmp(at + i, folder, n) == 0) skipped += at[i + n] == '/';
    else plim_launch_put_open(out, at + i + 2, skipped - 2);
    i += skipped;
  }
}

// A value as a word; in a script, each is in its line if it comes behind the one before.
static void put_argument(const plim_settings *s, const plim_setting *setting, bool is_command,
                         plim_sourced *script) {
  plim_sourced value = {0}, word = {0};
  int line = plim_launch_line(script->bytes.at ? script->bytes.at : "", script->bytes.len);
  if (setting->value.kind == PLIM_VALUE_TEXT) plim_launch_read_value(s, setting, &value);
  else plim_sourced_copy(&value, s->text, setting->span);
  put_replaced(&value, &word);
  plim_sourced_put(script, ' ', PLIM_FROM_NOWHERE);
  for (; line < setting->line; line++) plim_sourced_write(script, "\\\n", PLIM_FROM_NOWHERE);
  if (is_command) plim_sourced_append(script, &word, 0, word.bytes.len);
  else plim_sourced_quote(script, &word);
  plim_sourced_free(&value);
  plim_sourced_free(&word);
}

static const plim_setting *value_of(const plim_settings *s, size_t number, const char *key) {
  char path[96];
  snprintf(path, sizeof path, "configurations.%zu.%s", number, key);
  return plim_settings_find(s, path);
}

static void put_all(const plim_settings *s, size_t number, const char *list, plim_sourced *script) {
  const plim_setting *item;
  char key[48];
  for (size_t i = 0; snprintf(key, sizeof key, "%s.%zu", list, i), item = value_of(s, number, key);
       i++)
    put_argument(s, item, false, script);
}

static void put_variables(const plim_settings *s, size_t number, plim_sourced *script) {
  char prefix[48];
  size_t n = (size_t)snprintf(prefix, sizeof prefix, "configurations.%zu.env.", number);
  for (size_t i = 0; i < s->at.len; i++) {
    const plim_setting *x = &s->at.at[i];
    if (strncmp(x->key, prefix, n) != 0 || strchr(x->key + n, '.')) continue;
    plim_sourced_write(script, "export ", PLIM_FROM_NOWHERE);
    plim_sourced_write(script, x->key + n, PLIM_FROM_NOWHERE);
    plim_sourced_put(script, '=', PLIM_FROM_NOWHERE);
    put_word(s, x, script);
    plim_sourced_put(script, ';', PLIM_FROM_NOWHERE);
  }
}

static bool is_python(const plim_setting *type) {
  const char *text = type && type->value.kind == PLIM_VALUE_TEXT ? type->value.text : "";
  return strcmp(text, "python") == 0 || strcmp(text, "debugpy") == 0;
}

static plim_err read_configuration(const plim_settings *s, size_t number, plim_launch_file *out,
                                   plim_error *error) {
  const plim_setting *name = value_of(s, number, "name");
  const plim_setting *program = value_of(s, number, "program");
  const plim_setting *module = value_of(s, number, "module"), *what = program ? program : module;
  const plim_setting *args = value_of(s, number, "args");
  plim_sourced script = {0};
  plim_err err = PLIM_OK;
  // The file that is open in the editor may be any.
  bool is_script =
      what && what->value.kind == PLIM_VALUE_TEXT && !strstr(what->value.text, "${file");
  if (!is_script || !is_python(value_of(s, number, "type"))) return PLIM_OK;
  plim_sourced_go_to(&script, what->line);
  put_variables(s, number, &script);
  plim_sourced_write(&script, program ? "python" : "python -m", PLIM_FROM_NOWHERE);
  put_argument(s, what, false, &script);
  if (args) put_argument(s, args, true, &script);
  else put_all(s, number, "args", &script);
  if (script.is_out) err = plim_no_memory(error);
  const char *called = name && name->value.kind == PLIM_VALUE_TEXT ? name->value.text : "";
  if (!err && plim_launch_trains(out, &script))
    err = plim_launch_add(out, called, what->line, &script, NULL, error);
  plim_sourced_free(&script);
  return err;
}

plim_err plim_read_launch_json(const char *text, size_t size, plim_launch_file *out,
                               plim_error *error) {
  plim_settings s = {0};
  plim_err err = plim_settings_read(PLIM_FORMAT_JSON, text, size, &s, error);
  for (size_t i = 0; !err && value_of(&s, i, "name"); i++)
    err = read_configuration(&s, i, out, error);
  plim_settings_clear(&s);
  return err;
}
