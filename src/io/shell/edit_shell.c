// Reads and edits shell scripts: launch scripts, sbatch files.
#include "edit_shell.h"

#include <string.h>

#include "new_arguments.h"
#include "shell_settings.h"

static plim_err find_in(plim_shell_scanner *f, plim_shell_view *view, plim_error *error) {
  plim_shell_text all = {.text = f->s->text, .size = f->s->size};
  return plim_shell_find(f, &all, view, error);
}

static plim_err find(plim_shell_scanner *f, plim_error *error) {
  plim_shell_view view;
  plim_err err = find_in(f, &view, error);
  plim_shell_view_clear(&view);
  return err;
}

static plim_err read(plim_settings *s, plim_error *error) {
  return plim_shell_value_read(s, find, error);
}

static plim_err change(const plim_settings *s, const plim_setting *setting, const plim_value *value,
                       plim_edit *out, plim_error *error) {
  return plim_shell_value_change(s, setting, find, value, out, error);
}

// ---- insert: words of a command ---------------------------------------------------------------------

typedef struct {
  const plim_settings *s;
  const char *key;
  const plim_value *value;
  plim_shell_scanner f;
  plim_shell_view view;
  plim_edit *out;
  plim_error *error;
} job;

static plim_err refuse_unless_one(const job *j) {
  char candidates[256];
  if (j->view.trainings.len == 1) return PLIM_OK;
  if (!j->view.trainings.len)
    return plim_fail(j->error, PLIM_ERR_UNSUPPORTED,
                     "%.96s cannot be added: no command in this file starts a training", j->key);
  plim_err err =
      plim_fail(j->error, PLIM_ERR_UNSUPPORTED,
                "%zu commands in this file start a training, and %.96s could belong to any of them",
                j->view.trainings.len, j->key);
  plim_shell_candidates(&j->view, j->s->text, candidates, sizeof candidates);
  plim_error_hint(j->error, "add it yourself to the right one: %s", candidates);
  return err;
}

static plim_err insert_words(job *j) {
  plim_shell_gap gap = {0};
  plim_bytes words = {0};
  plim_err err = refuse_unless_one(j);
  if (err) return err;
  size_t command = j->view.trainings.at[0];
  if (!plim_shell_end_of(&j->view, j->s->text, j->s->size, command, &gap))
    err = plim_no_memory(j->error);
  if (!err)
    err = plim_new_words(&j->f, j->view.groups.at[command], j->key, j->value, PLIM_WORD_WORD,
                         &words, j->error);
  if (!err) err = plim_edit_insert(gap.at, gap.separator.at, words.at, j->out, j->error);
  vec_free(&gap.separator);
  vec_free(&words);
  return err;
}

// ---- insert: lines ----------------------------------------------------------------------------------

// The beginning of the next line; `*is_open` if the text ends without a line end.
static size_t next_line(const job *j, size_t at, bool *is_open) {
  const char *end = memchr(j->s->text + at, '\n', j->s->size - at);
  *is_open = !end;
  return end ? (size_t)(end - j->s->text) + 1 : j->s->size;
}

static const char *line_feed(const job *j) {
  const char *end = memchr(j->s->text, '\n', j->s->size);
  return end && end > j->s->text && end[-1] == '\r' ? "\r\n" : "\n";
}

static plim_span word(const job *j, const plim_shell_command *c, size_t i) {
  return j->view.script.words.at[c->first + i];
}

static bool is_program(const job *j, const plim_shell_command *c, const char *name) {
  plim_span first = word(j, c, 0);
  size_t n = strlen(name);
  return !c->list.end && first.end - first.begin == n &&
         memcmp(j->s->text + first.begin, name, n) == 0;
}

// Whether the command is alone on its lines, apart from a comment after it.
static bool is_line(const job *j, const plim_shell_command *c) {
  size_t at = word(j, c, c->count - 1).end;
  while (at < j->s->size && strchr(" \t\r", j->s->text[at])) at++;
  bool ends_line = at == j->s->size || j->s->text[at] == '\n' || j->s->text[at] == '#';
  return c->is_plain && !c->substitutions && ends_line;
}

// The last export on its own line before the training, or in the whole file if there is no training.
static const plim_shell_command *last_export(const job *j) {
  const plim_shell_command *last = NULL;
  const plim_shell_script *script = &j->view.script;
  size_t end = j->view.trainings.len ? j->view.trainings.at[0] : script->commands.len;
  for (size_t i = 0; i < end; i++) {
    const plim_shell_command *c = &script->commands.at[i];
    if (c->count > 1 && is_program(j, c, "export") && is_line(j, c)) last = c;
  }
  return last;
}

// The position after #!, #SBATCH and the first `set` lines.
static size_t end_of_head(const job *j, bool *is_open) {
  const plim_shell_script *script = &j->view.script;
  const char *text = j->s->text;
  size_t at = 0, first = script->commands.len ? script->commands.at[0].begin : j->s->size;
  *is_open = false;
  for (size_t i = 0; i < script->comments.len && script->comments.at[i].begin < first; i++) {
    plim_span c = script->comments.at[i];
    bool is_head = (c.begin == 0 && c.end > 1 && text[1] == '!') ||
                   (c.end - c.begin >= 7 && memcmp(text + c.begin, "#SBATCH", 7) == 0);
    if (is_head) at = next_line(j, c.end, is_open);
  }
  for (size_t i = 0; i < script->commands.len; i++) {
    const plim_shell_command *c = &script->commands.at[i];
    if (!is_program(j, c, "set") || !is_line(j, c)) break;
    at = next_line(j, word(j, c, c->count - 1).end, is_open);
  }
  return at;
}

// The value of another export, whose quotes are imitated; empty if there is none.
static const char *model_value(const job *j, const plim_shell_command *model, size_t *size) {
  *size = 0;
  if (!model) return "";
  plim_argument a = plim_argument_at(j->s->text, word(j, model, model->count - 1), PLIM_WORD_WORD);
  if (!a.has_tail || a.tail_place != PLIM_WORD_WORD) return "";
  *size = a.tail.end - a.tail.begin;
  return j->s->text + a.tail.begin;
}

static bool write_export(job *j, const plim_shell_command *model, bool is_open, plim_bytes *out,
                         bool *is_out) {
  plim_bytes text = {0}, written = {0};
  size_t size;
  const char *old = model_value(j, model, &size), *feed = line_feed(j);
  bool is_explicit = plim_value_to_text(j->value, "", &text, is_out) &&
                     plim_word_write(PLIM_WORD_WORD, old, size, text.at, &written, is_out);
  if (is_explicit)
    *is_out = (is_open && !plim_bytes_add(out, feed, strlen(feed))) ||
              !plim_bytes_add(out, "export ", 7) ||
              !plim_bytes_add(out, j->key + 1, strlen(j->key + 1)) ||
              !plim_bytes_add(out, "=", 1) ||
              !plim_bytes_add(out, written.at, strlen(written.at)) ||
              (!is_open && !plim_bytes_add(out, feed, strlen(feed)));
  vec_free(&text);
  vec_free(&written);
  return is_explicit && !*is_out;
}

static plim_err insert_variable(job *j) {
  const plim_shell_command *model = last_export(j);
  bool is_open = false, is_out = false;
  plim_bytes line = {0};
  plim_err err = model && !j->view.trainings.len ? PLIM_OK : refuse_unless_one(j);
  if (err) return err;
  size_t at = model ? next_line(j, word(j, model, model->count - 1).end, &is_open)
                    : end_of_head(j, &is_open);
  if (write_export(j, model, is_open, &line, &is_out))
    err = plim_edit_insert(at, "", line.at, j->out, j->error);
  else if (is_out) err = plim_no_memory(j->error);
  else
    err = plim_fail(j->error, PLIM_ERR_UNSUPPORTED, "this value of %.96s cannot be written here",
                    j->key);
  vec_free(&line);
  return err;
}

// ---- the editor --------------------------------------------------------------------------------------

static plim_err insert(const plim_settings *s, const char *key, const plim_value *value,
                       plim_edit *out, plim_error *error) {
  if (plim_settings_find(s, key))
    return plim_fail(error, PLIM_ERR_ARGUMENT, "%.96s is already set", key);
  plim_settings again = {.format = s->format, .text = s->text, .size = s->size};
  job j = {.s = s, .key = key, .value = value, .f = {.s = &again}, .out = out, .error = error};
  plim_err err = find_in(&j.f, &j.view, error);
  if (!err && plim_is_variable_key(key)) err = insert_variable(&j);
  else if (!err && (plim_is_flag_key(key) || plim_is_override_key(key))) err = insert_words(&j);
  else if (!err)
    err =
        plim_fail(error, PLIM_ERR_ARGUMENT, "%.96s is not a key that a shell script can have", key);
  if (!err) err = plim_edit_check(s, key, NULL, value, out, error);
  plim_shell_view_clear(&j.view);
  plim_scanner_clear(&j.f);
  plim_settings_clear(&again);
  return err;
}

static plim_err remove_words(const plim_settings *s, const plim_setting *setting, plim_edit *out,
                             plim_error *error) {
  return plim_shell_value_remove(s, setting, find, out, error);
}

const plim_editor plim_shell_editor = {read, change, insert, remove_words, NULL};
