// Reads and edits Dockerfiles: ENV, ARG, and the flags of CMD, of ENTRYPOINT and of trainings in RUN.
#include "edit_dockerfile.h"

#include <string.h>

#include "docker_stages.h"
#include "new_arguments.h"
#include "shell_pieces.h"
#include "shell_settings.h"

// ---- reading ----------------------------------------------------------------------------------------

static bool has_variables(const plim_docker *d) {
  return plim_docker_is(d, "ENV") || plim_docker_is(d, "ARG");
}

static bool is_command(const plim_docker *d) {
  return plim_docker_is(d, "CMD") || plim_docker_is(d, "ENTRYPOINT");
}

static void note_names(plim_shell_scanner *f, const plim_docker *d) {
  size_t at = d->rest.begin;
  plim_docker_pair pair;
  while (plim_docker_pair_next(d, plim_docker_is(d, "ENV"), &at, &pair))
    if (pair.has_value)
      plim_scanner_name(f, &f->set, plim_scanner_keep_span(f, d->line.at, pair.name, "$"));
}

// With another escape character than \, values with \ or ` are not analysed.
static bool is_foreign(const plim_docker *d, plim_span value) {
  const char *at = d->line.at + value.begin;
  size_t n = value.end - value.begin;
  return d->escape != '\\' && n && (memchr(at, '\\', n) || memchr(at, '`', n));
}

static plim_shell_value read_variable(plim_shell_scanner *f, const plim_docker *d,
                                      const plim_docker_pair *pair, const char *key) {
  plim_word_context place = pair->is_rest ? PLIM_WORD_REST : PLIM_WORD_ENV;
  if (!is_foreign(d, pair->value)) return plim_scanner_read(f, d->line.at, pair->value, place, key);
  const char *text = plim_scanner_keep_span(f, d->line.at, pair->value, "");
  return (plim_shell_value){.value = {.kind = PLIM_VALUE_DERIVED, .text = text},
                            .span = pair->value};
}

#define GLOBALS 64 // the most ARG before the first FROM that are searched

// After ARG NAME in a stage, the default of ARG NAME=... before the first FROM takes effect.
static void declare_global(plim_shell_scanner *f, const plim_docker *d, const char *key) {
  for (size_t i = 0; i < f->at.len && i < GLOBALS; i++)
    if (f->at.at[i].from == PLIM_NOWHERE && strcmp(f->at.at[i].name, key) == 0)
      f->at.at[i].from = d->after;
}

static void find_variables(plim_shell_scanner *f, const plim_docker *d, size_t stage) {
  size_t at = d->rest.begin;
  plim_docker_pair pair;
  while (plim_docker_pair_next(d, plim_docker_is(d, "ENV"), &at, &pair)) {
    if (pair.name.begin == pair.name.end) continue;
    const char *key = plim_scanner_keep_span(f, d->line.at, pair.name, "$");
    if (!pair.has_value) declare_global(f, d, key);
    if (!pair.has_value) continue;
    plim_shell_value found = read_variable(f, d, &pair, key);
    found.kind = PLIM_FOUND_VARIABLE;
    found.name = key;
    found.group = stage;
    plim_scanner_add(f, found);
  }
}

// The shell command of an instruction, in RUN after options such as --mount.
static plim_span shell_text(const plim_docker *d) {
  plim_span text = d->rest;
  while (plim_docker_is(d, "RUN") && text.end - text.begin > 2 &&
         memcmp(d->line.at + text.begin, "--", 2) == 0) {
    while (text.begin < text.end && d->line.at[text.begin] != ' ') text.begin++;
    while (text.begin < text.end && d->line.at[text.begin] == ' ') text.begin++;
  }
  return text;
}

static void move(plim_span *span, size_t by) {
  span->begin += by;
  span->end += by;
}

// Translates positions in the shell command to positions in the instruction.
static void move_found(plim_shell_scanner *f, size_t from, size_t by) {
  for (size_t i = from; i < f->at.len; i++) {
    move(&f->at.at[i].span, by);
    move(&f->at.at[i].word, by);
    f->at.at[i].gap += f->at.at[i].gap ? by : 0;
  }
}

// Text that is not valid shell code is skipped: the image may use another shell, and otherwise the build reports it.
static plim_err find_shell(plim_shell_scanner *f, const plim_docker *d, plim_shell_view *view) {
  plim_span text = shell_text(d);
  plim_error ignored;
  size_t from = f->at.len;
  plim_shell_text t = {.text = d->line.at + text.begin,
                       .size = text.end - text.begin,
                       .first_group = d->span.begin,
                       .is_instruction = true,
                       .only_trainings = plim_docker_is(d, "RUN")};
  *view = (plim_shell_view){0};
  if (d->escape != '\\') return PLIM_OK;
  plim_err err = plim_shell_find(f, &t, view, &ignored);
  move_found(f, from, text.begin);
  return err == PLIM_ERR_NOMEM ? err : PLIM_OK;
}

static void find_words(plim_shell_scanner *f, const plim_docker *d, const plim_argument *at,
                       size_t count, size_t stage) {
  plim_command_kind kind = plim_command_kind_of(d->line.at, at, count, false);
  if (kind.is_launcher && !kind.is_training) return;
  plim_argument_list list = {.text = d->line.at,
                             .at = at,
                             .count = count,
                             .group = stage,
                             .order = d->span.begin,
                             .prefix = "",
                             .expects_script = kind.is_launcher,
                             .has_overrides = kind.is_launcher};
  plim_arguments_find(f, &list);
}

static void find_array(plim_shell_scanner *f, const plim_docker *d, const plim_arguments *words,
                       size_t stage) {
  size_t count = plim_quoted_command(d->line.at, words->at, words->len);
  plim_arguments pieces = {0};
  find_words(f, d, words->at, count, stage);
  if (count == words->len) return;
  if (plim_argument_pieces(d->line.at, words->at[count + 1].span, &pieces))
    find_words(f, d, pieces.at, pieces.len, stage);
  else f->is_out = true;
  vec_free(&pieces);
}

// The image that the instructions of a file build.
typedef struct {
  size_t group;       // of its commands
  size_t first_stage; // the first byte of the first FROM; 0: there is none
  bool has_entry, has_array_entry;
} docker_image;

// Translates positions in the instruction to positions in the file. ENV and ARG take effect in the instructions after
// them; a container is started with every ENV and no ARG.
static void place_found(plim_shell_scanner *f, size_t from, const plim_docker *d,
                        const docker_image *image) {
  for (size_t i = from; i < f->at.len; i++) {
    plim_shell_value *found = &f->at.at[i];
    found->from = d->span.begin < image->first_stage ? PLIM_NOWHERE : d->after;
    found->is_late = is_command(d);
    found->is_build_only = plim_docker_is(d, "ARG");
    found->span = plim_docker_place(d, found->span);
    if (found->word.end) found->word = plim_docker_place(d, found->word);
    if (found->gap) found->gap = d->from.at[found->gap - 1] + 1u;
  }
}

static plim_err find_in_instruction(plim_shell_scanner *f, plim_docker *d,
                                    const docker_image *image) {
  plim_arguments words = {0};
  plim_shell_view view = {0};
  plim_err err = PLIM_OK;
  size_t from = f->at.len;
  bool is_array = is_command(d) && plim_docker_array(d, &words);
  // CMD has an effect next to an ENTRYPOINT only if both are arrays: then it contains the arguments.
  bool is_ignored =
      plim_docker_is(d, "CMD") && image->has_entry && !(image->has_array_entry && is_array);
  if (has_variables(d)) find_variables(f, d, image->group);
  else if (is_ignored) err = PLIM_OK;
  else if (is_array) find_array(f, d, &words, image->group);
  else if (is_command(d) || (plim_docker_is(d, "RUN") && d->line.at[d->rest.begin] != '['))
    err = find_shell(f, d, &view);
  place_found(f, from, d, image);
  vec_free(&words);
  plim_shell_view_clear(&view);
  return err;
}

static bool is_instruction(const plim_docker *d) {
  for (size_t i = d->keyword.begin; i < d->keyword.end; i++)
    if ((d->line.at[i] | 32) < 'a' || (d->line.at[i] | 32) > 'z') return false;
  return true;
}

static void note_entry(plim_docker *d, docker_image *image) {
  plim_arguments words = {0};
  image->has_entry = true;
  image->has_array_entry = plim_docker_array(d, &words);
  vec_free(&words);
}

static plim_err find_names(plim_shell_scanner *f, const plim_docker_stages *stages,
                           docker_image *image, plim_error *error) {
  plim_docker d = plim_docker_begin(f->s->text, f->s->size);
  plim_err err = PLIM_OK;
  while (!err && plim_docker_next(&d)) {
    if (!is_instruction(&d)) {
      err =
          plim_fail(error, PLIM_ERR_PARSE, "an instruction of a Dockerfile must begin with a word");
      plim_error_at(error, d.span.begin);
    } else if (!plim_docker_in_force(stages, &d)) continue;
    else if (has_variables(&d)) note_names(f, &d);
    else if (plim_docker_is(&d, "ENTRYPOINT")) note_entry(&d, image);
  }
  if (d.is_out) err = plim_no_memory(error);
  plim_docker_end(&d);
  plim_names_sort(&f->set);
  return err;
}

// Everything that takes effect belongs to one image, represented by the last FROM.
static plim_err find_in_force(plim_shell_scanner *f, const plim_docker_stages *stages,
                              plim_error *error) {
  docker_image image = {0};
  if (stages->at.len) {
    image.group = stages->at.at[stages->at.len - 1].begin + 1;
    image.first_stage = stages->at.at[0].begin;
  }
  plim_err err = find_names(f, stages, &image, error);
  plim_docker d = plim_docker_begin(f->s->text, f->s->size);
  d.comments = &f->comments;
  while (!err && plim_docker_next(&d))
    if (plim_docker_in_force(stages, &d)) err = find_in_instruction(f, &d, &image);
  if (err == PLIM_ERR_NOMEM || (!err && (d.is_out || f->is_out))) err = plim_no_memory(error);
  plim_docker_end(&d);
  return err;
}

static plim_err find(plim_shell_scanner *f, plim_error *error) {
  plim_docker_stages stages;
  bool ok = plim_docker_stages_find(f->s->text, f->s->size, &stages);
  plim_err err = ok ? find_in_force(f, &stages, error) : plim_no_memory(error);
  plim_docker_stages_free(&stages);
  return err;
}

static plim_err read(plim_settings *s, plim_error *error) {
  return plim_shell_value_read(s, find, error);
}

static plim_err change(const plim_settings *s, const plim_setting *setting, const plim_value *value,
                       plim_edit *out, plim_error *error) {
  return plim_shell_value_change(s, setting, find, value, out, error);
}

// ---- insert -----------------------------------------------------------------------------------------

// Places for new settings in the last stage.
typedef struct {
  bool has_stage, is_open;
  size_t stage;
  size_t env;        // the position after the last ENV, or after FROM
  plim_span model;   // the value of that ENV, whose quotes are imitated
  size_t cmd, entry; // the first byte of the last CMD and ENTRYPOINT; PLIM_NOWHERE: none
} last_stage;

static void look_at(const plim_docker *d, last_stage *l) {
  plim_docker_pair pair = {0};
  size_t at = d->rest.begin;
  if (plim_docker_is(d, "FROM")) {
    *l = (last_stage){.has_stage = true, .stage = d->span.begin + 1};
    l->cmd = l->entry = PLIM_NOWHERE;
  }
  if (plim_docker_is(d, "CMD")) l->cmd = d->span.begin;
  if (plim_docker_is(d, "ENTRYPOINT")) l->entry = d->span.begin;
  if (!plim_docker_is(d, "FROM") && !plim_docker_is(d, "ENV")) return;
  l->env = d->after;
  l->is_open = d->is_open;
  l->model = (plim_span){0};
  while (plim_docker_is(d, "ENV") && plim_docker_pair_next(d, true, &at, &pair))
    if (pair.has_value && !pair.is_rest) l->model = plim_docker_place(d, pair.value);
}

static plim_err find_last_stage(const plim_settings *s, last_stage *l, plim_error *error) {
  plim_docker d = plim_docker_begin(s->text, s->size);
  *l = (last_stage){.cmd = PLIM_NOWHERE, .entry = PLIM_NOWHERE};
  while (plim_docker_next(&d)) look_at(&d, l);
  bool is_out = d.is_out;
  plim_docker_end(&d);
  return is_out ? plim_no_memory(error) : PLIM_OK;
}

static const char *line_feed(const plim_settings *s) {
  const char *end = memchr(s->text, '\n', s->size);
  return end && end > s->text && end[-1] == '\r' ? "\r\n" : "\n";
}

static plim_err insert_variable(const plim_settings *s, const last_stage *l, const char *key,
                                const plim_value *value, plim_edit *out, plim_error *error) {
  plim_bytes text = {0}, written = {0}, line = {0};
  const char *feed = line_feed(s);
  bool is_out = false;
  plim_err err;
  if (!plim_value_to_text(value, "", &text, &is_out) ||
      !plim_word_write(PLIM_WORD_ENV, s->text + l->model.begin, l->model.end - l->model.begin,
                       text.at, &written, &is_out))
    err = is_out ? plim_no_memory(error)
                 : plim_fail(error, PLIM_ERR_UNSUPPORTED,
                             "this value of %.96s cannot be written here", key);
  else if ((l->is_open && !plim_bytes_add(&line, feed, strlen(feed))) ||
           !plim_bytes_add(&line, "ENV ", 4) || !plim_bytes_add(&line, key + 1, strlen(key + 1)) ||
           !plim_bytes_add(&line, "=", 1) ||
           !plim_bytes_add(&line, written.at, strlen(written.at)) ||
           (!l->is_open && !plim_bytes_add(&line, feed, strlen(feed))))
    err = plim_no_memory(error);
  else err = plim_edit_insert(l->env, "", line.at, out, error);
  vec_free(&text);
  vec_free(&written);
  vec_free(&line);
  return err;
}

// Reads up to the instruction that begins at this byte; false if there is none.
static bool go_to(plim_docker *d, size_t begin) {
  while (plim_docker_next(d))
    if (d->span.begin == begin) return true;
  return false;
}

// Writes the separator between the word `last` and new words: a blank, or a continued line if `last` is not on the
// first line of the instruction.
static bool add_separator(const plim_docker *d, plim_span last, bool is_array, plim_bytes *out) {
  size_t line = last.begin, indent = 0;
  while (line > d->span.begin && d->text[line - 1] != '\n') line--;
  if (is_array && !plim_bytes_add(out, ",", 1)) return false;
  if (line <= d->span.begin) return plim_bytes_add(out, " ", 1);
  bool has_return = d->text[line - 2] == '\r';
  char continued[3] = {' ', d->escape};
  while (d->text[line + indent] == ' ' || d->text[line + indent] == '\t') indent++;
  return plim_bytes_add(out, continued, 2) &&
         plim_bytes_add(out, has_return ? "\r\n" : "\n", has_return ? 2 : 1) &&
         plim_bytes_add(out, d->text + line, indent);
}

typedef struct {
  plim_span last; // the last word of the command, as a position in the file
  plim_word_context place;
  size_t group;
} target;

// Finds the end of the training command; false unless the shell command has exactly one, and when out of memory.
static bool find_shell_target(plim_docker *d, target *out) {
  plim_settings scratch = {0};
  plim_shell_scanner f = {.s = &scratch};
  plim_shell_view view;
  plim_arguments words = {0};
  plim_span text = shell_text(d);
  if (find_shell(&f, d, &view)) d->is_out = true;
  bool is_one = !d->is_out && view.trainings.len == 1;
  if (is_one) {
    size_t command = view.trainings.at[0];
    d->is_out = !plim_shell_arguments(&view, d->line.at + text.begin, command, &words);
    is_one = !d->is_out && words.len;
    if (is_one) {
      plim_span last = words.at[words.len - 1].span;
      move(&last, text.begin);
      *out = (target){plim_docker_place(d, last), PLIM_WORD_WORD,
                      d->span.begin + view.groups.at[command]};
    }
  }
  vec_free(&words);
  plim_shell_view_clear(&view);
  plim_scanner_clear(&f);
  plim_settings_clear(&scratch);
  return is_one;
}

static bool is_array_at(const plim_settings *s, size_t begin, bool *is_training, bool *is_out) {
  plim_docker d = plim_docker_begin(s->text, s->size);
  plim_arguments words = {0};
  bool is_array = begin != PLIM_NOWHERE && go_to(&d, begin) && plim_docker_array(&d, &words);
  *is_training =
      is_array && plim_command_kind_of(d.line.at, words.at, words.len, false).is_training;
  *is_out |= d.is_out;
  vec_free(&words);
  plim_docker_end(&d);
  return is_array;
}

static bool find_array_target(plim_docker *d, size_t stage, target *out) {
  plim_arguments words = {0};
  bool is_array = plim_docker_array(d, &words) && words.len;
  if (is_array)
    *out = (target){plim_docker_place(d, words.at[words.len - 1].span), PLIM_WORD_ELEMENT, stage};
  vec_free(&words);
  return is_array;
}

// The instruction to which arguments are added: CMD, if there is no ENTRYPOINT or both are arrays; else ENTRYPOINT.
static size_t choose(const plim_settings *s, const last_stage *l, bool *is_sure, bool *is_out) {
  bool runs_entry, runs_cmd;
  bool is_entry_array = is_array_at(s, l->entry, &runs_entry, is_out);
  bool is_cmd_array = is_array_at(s, l->cmd, &runs_cmd, is_out);
  *is_sure = runs_entry || runs_cmd;
  if (l->entry == PLIM_NOWHERE || (is_entry_array && is_cmd_array)) return l->cmd;
  return l->entry;
}

static plim_err insert_words(const plim_settings *s, const last_stage *l, const char *key,
                             const plim_value *value, plim_edit *out, plim_error *error) {
  plim_settings again = {.format = s->format, .text = s->text, .size = s->size};
  plim_shell_scanner f = {.s = &again};
  plim_docker d = plim_docker_begin(s->text, s->size);
  plim_bytes words = {0}, separator = {0};
  target t = {0};
  bool is_sure, is_out = false;
  size_t begin = choose(s, l, &is_sure, &is_out);
  bool is_there = begin != PLIM_NOWHERE && go_to(&d, begin) &&
                  ((is_sure && find_array_target(&d, l->stage, &t)) || find_shell_target(&d, &t));
  plim_err err =
      is_there
          ? find(&f, error)
          : plim_fail(error, PLIM_ERR_UNSUPPORTED,
                      "%.96s cannot be added: no CMD or ENTRYPOINT in this file starts a training",
                      key);
  if (is_out || d.is_out) err = plim_no_memory(error);
  if (!err) err = plim_new_words(&f, t.group, key, value, t.place, &words, error);
  if (!err && !add_separator(&d, t.last, t.place == PLIM_WORD_ELEMENT, &separator))
    err = plim_no_memory(error);
  if (!err) err = plim_edit_insert(t.last.end, separator.at, words.at, out, error);
  vec_free(&words);
  vec_free(&separator);
  plim_docker_end(&d);
  plim_scanner_clear(&f);
  plim_settings_clear(&again);
  return err;
}

static plim_err insert(const plim_settings *s, const char *key, const plim_value *value,
                       plim_edit *out, plim_error *error) {
  last_stage l;
  plim_err err = find_last_stage(s, &l, error);
  if (err) return err;
  if (plim_settings_find(s, key))
    return plim_fail(error, PLIM_ERR_ARGUMENT, "%.96s is already set", key);
  if (!l.has_stage)
    return plim_fail(error, PLIM_ERR_UNSUPPORTED, "the file has no FROM instruction");
  if (plim_is_variable_key(key)) err = insert_variable(s, &l, key, value, out, error);
  else if (plim_is_flag_key(key) || plim_is_override_key(key))
    err = insert_words(s, &l, key, value, out, error);
  else
    return plim_fail(error, PLIM_ERR_ARGUMENT, "%.96s is not a key that a Dockerfile can have",
                     key);
  return err ? err : plim_edit_check(s, key, NULL, value, out, error);
}

static plim_err remove_words(const plim_settings *s, const plim_setting *setting, plim_edit *out,
                             plim_error *error) {
  return plim_shell_value_remove(s, setting, find, out, error);
}

const plim_editor plim_dockerfile_editor = {read, change, insert, remove_words, NULL};
