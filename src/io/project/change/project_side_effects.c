// Finds side effects of an edit: other settings that are computed from the literal that is about to change.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "key_names.h"
#include "project_change_impl.h"
#include "python_code.h"

enum {
  SHOWN = 3,
  WORD_BYTES = 128,
  LOOKS = 64 // names that pass the value on; if there are more, they are taken to change
};

// ---- uses of a name ---------------------------------------------------------------------------------

// The name by which other settings refer to this one: "batch_size" for --batch-size, $batch_size and train.batch_size.
static void word_of(const char *key, char out[WORD_BYTES]) {
  const char *dot = strrchr(key, '.'), *from = dot ? dot + 1 : key;
  size_t used = 0;
  while (*from == '-' || *from == '$') from++;
  for (; *from && *from != '#' && used + 1 < WORD_BYTES; from++)
    out[used++] = *from == '-' ? '_' : *from;
  out[used] = 0;
}

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

static char before(const char *text, size_t at) {
  while (at && (text[at - 1] == ' ' || text[at - 1] == '\n')) at--;
  return at ? text[at - 1] : 0;
}

static const char *behind(const char *text, size_t size, size_t at) {
  while (at < size && text[at] == ' ') at++;
  return at < size ? text + at : "";
}

// Whether it is a key in Python: name=... in a call, or "name": in a dict.
static bool is_python_key(const plim_project_file *f, size_t begin, size_t end) {
  bool is_quoted = begin && strchr("'\"", f->text[begin - 1]) && end < f->size &&
                   f->text[end] == f->text[begin - 1];
  const char *next = behind(f->text, f->size, end + is_quoted);
  if (is_quoted) return *next == ':';
  bool is_argument = strchr("(,", before(f->text, begin)) != NULL;
  return is_argument && next[0] == '=' && next[1] != '=';
}

// Whether a shell expands the name here: $NAME, ${NAME...}, or anywhere in $(( )).
static bool is_shell_use(const plim_project_file *f, plim_span in, size_t begin) {
  const char *text = f->text;
  if (begin && text[begin - 1] == '$') return true;
  if (begin > 1 && strchr("{#!", text[begin - 1]) && memchr("${", text[begin - 2], 2)) return true;
  return memmem(text + in.begin, in.end - in.begin, "((", 2) != NULL;
}

// Whether the name is inside ${ }.
static bool is_tree_use(const plim_project_file *f, plim_span in, size_t begin) {
  while (begin > in.begin && f->text[begin] != '}') {
    if (f->text[begin] == '{') return begin > in.begin && f->text[begin - 1] == '$';
    begin--;
  }
  return false;
}

static bool is_use(const plim_project_file *f, plim_span in, size_t begin, size_t end) {
  switch (f->settings.format) {
  case PLIM_FORMAT_PYTHON: return !is_python_key(f, begin, end);
  case PLIM_FORMAT_SHELL:
  case PLIM_FORMAT_DOCKERFILE: return is_shell_use(f, in, begin);
  default: return is_tree_use(f, in, begin);
  }
}

// The next use of the word in the source of the setting; SIZE_MAX if there is none.
static size_t next_use(const plim_project_file *f, const plim_setting *d, const char *word,
                       size_t from) {
  size_t n = strlen(word);
  const char *text = f->text, *end = text + d->span.end;
  if (!n || d->value.kind != PLIM_VALUE_DERIVED) return SIZE_MAX;
  for (const char *at = text + from; at < end; at++) {
    at = memmem(at, (size_t)(end - at), word, n);
    if (!at) return SIZE_MAX;
    size_t begin = (size_t)(at - text);
    bool is_whole =
        !(begin && is_name(text[begin - 1])) && !(begin + n < f->size && is_name(text[begin + n]));
    if (is_whole && is_use(f, d->span, begin, begin + n)) return begin;
  }
  return SIZE_MAX;
}

static bool names(const plim_project_file *f, const plim_setting *d, const char *word) {
  return next_use(f, d, word, d->span.begin) != SIZE_MAX;
}

// ---- loops that accumulate --------------------------------------------------------------------------

// Whether the expression divides something by the number of passes: the loss, the number of steps.
static bool is_divided(const plim_project_file *f, const plim_setting *d, size_t at) {
  static const char *const dividends[] = {"loss", "len(", "steps"};
  for (size_t i = 0; i < sizeof dividends / sizeof *dividends; i++)
    if (strcasestr(d->key, dividends[i]) ||
        memmem(f->text + d->span.begin, at - d->span.begin, dividends[i], strlen(dividends[i])))
      return true;
  return false;
}

// Whether the name counts accumulation passes: loss / N, loss /= N, len(loader) // N, step % N, range(N).
static bool counts_passes(const plim_project_file *f, const plim_setting *d, size_t at) {
  const char *text = f->text;
  while (at && (is_name(text[at - 1]) || text[at - 1] == '.')) at--; // args.N
  while (at && text[at - 1] == ' ') at--;
  if (at < 2) return false;
  if (at >= 6 && memcmp(text + at - 6, "range(", 6) == 0) return true;
  bool is_in_place = text[at - 1] == '=' && text[at - 2] == '/';
  if (text[at - 1] == '%' || (text[at - 1] == '/' && text[at - 2] == '/')) return true;
  return (text[at - 1] == '/' || is_in_place) &&
         is_divided(f, d, at > d->span.begin ? at : d->span.begin);
}

static bool is_counter(const plim_project_file *f, const plim_setting *d, const char *word) {
  size_t at = next_use(f, d, word, d->span.begin);
  if (at == SIZE_MAX || f->settings.format != PLIM_FORMAT_PYTHON) return false;
  for (; at != SIZE_MAX; at = next_use(f, d, word, at + 1))
    if (!counts_passes(f, d, at)) return false;
  return true;
}

// ---- settings computed from other settings ----------------------------------------------------------

typedef struct {
  const plim_project *p, *q; // before and after
  const plim_knob_change *changes;
  size_t count;
  const plim_setting *shown[SHOWN];
  size_t shown_in[SHOWN];
  size_t moved, looks;
  bool is_of_passes; // the literal that changes is the number of accumulation passes
} search;

// A value in another file, under the name by which that file refers to it.
typedef struct {
  size_t file;
  const plim_setting *setting;
  char word[WORD_BYTES];
} source;

static bool is_argument(const char *key) { return strstr(key, ".--") != NULL; }

static bool is_variable(const char *key) { return key[0] == '$'; }

// Whether a setting is an expression that contains other settings, such as a call with its arguments.
static bool holds_others(const plim_project_file *f, size_t i) {
  const plim_setting *d = &f->settings.at.at[i];
  for (size_t k = i + 1; k < f->settings.at.len; k++) {
    plim_span in = f->settings.at.at[k].span;
    if (in.begin >= d->span.end) return false;
    if (in.begin >= d->span.begin && in.end <= d->span.end) return true;
  }
  return false;
}

static bool is_from_elsewhere(const plim_project_file *f, const plim_setting *d, const source *x) {
  char word[WORD_BYTES];
  bool is_environment = is_variable(x->setting->key);
  if (is_environment && !strcasestr(d->value.text, "env")) return false;
  if (!d->root) return names(f, d, x->word);
  if (!is_argument(d->root)) return false;
  word_of(d->root, word);
  return strcmp(word, x->word) == 0;
}

static bool is_computed_from(const search *s, size_t file, size_t i, const source *x) {
  const plim_project_file *f = s->p->files.at[file];
  const plim_setting *d = &f->settings.at.at[i];
  if (d->value.kind != PLIM_VALUE_DERIVED || d == x->setting || holds_others(f, i)) return false;
  if (file != x->file) return is_from_elsewhere(f, d, x);
  if (d->root) return strcmp(d->root, x->setting->key) == 0;
  return names(f, d, x->word);
}

// ---- what may change --------------------------------------------------------------------------------

static bool is_changed(const search *s, plim_knob knob) {
  for (size_t i = 0; i < s->count; i++)
    if (s->changes[i].knob == knob) return true;
  return false;
}

// Knobs of the effective batch change together.
static bool is_of_batch(plim_knob knob) {
  return knob == PLIM_KNOB_MICRO_BATCH || knob == PLIM_KNOB_ACCUMULATE ||
         knob == PLIM_KNOB_GLOBAL_BATCH;
}

static bool changes_batch(const search *s) {
  for (size_t i = 0; i < s->count; i++)
    if (is_of_batch(s->changes[i].knob)) return true;
  return false;
}

// Known knobs are compared by value elsewhere; here only knobs with an unknown value can change unnoticed.
static bool may_move(const search *s, plim_knob knob) {
  if (is_changed(s, knob) || (is_of_batch(knob) && changes_batch(s))) return true;
  const plim_project_knob *then = &s->p->knobs[knob], *now = &s->q->knobs[knob];
  return then->origin != PLIM_UNCLEAR && plim_value_same(&then->value, &now->value);
}

static bool is_row_that_may(const search *s, const plim_key *keys, const char *name, bool nested) {
  for (const plim_key *key = keys; key->key; key++)
    if (plim_key_fits(name, key->key, nested) && may_move(s, key->knob)) return true;
  return false;
}

static bool is_bound(const search *s, size_t file, const plim_setting *d) {
  for (size_t i = 0; i < s->p->bindings.len; i++) {
    const plim_binding *b = s->p->bindings.at[i];
    size_t at;
    if (strcmp(b->name, d->key) != 0 || plim_project_find(s->p, b->path, &at, NULL)) continue;
    if (at == file && may_move(s, b->key.knob)) return true;
  }
  return false;
}

// The key without the number of its command.
static void name_of(const plim_setting *d, char name[PLIM_KEY_BYTES]) {
  plim_key_name(d->key, name);
  char *number = strrchr(name, '#');
  if (number && !strchr(number, '.')) *number = 0;
}

static bool is_of_knob(const search *s, size_t file, const plim_setting *d) {
  char name[PLIM_KEY_BYTES];
  name_of(d, name);
  if (is_bound(s, file, d)) return true;
  if (d->is_aside || d->is_of_evaluation || plim_key_is_of_evaluation(name)) return false;
  plim_dialect at = s->p->files.at[file]->recipe.dialect;
  for (; at != PLIM_DIALECTS; at = plim_dialect_table[at].base)
    if (is_row_that_may(s, plim_dialect_table[at].keys, name, plim_dialect_table[at].is_nested))
      return true;
  return is_row_that_may(s, plim_launch_keys, name, false);
}

// eval_batch_size, per_device_eval_batch_size: these do not affect the training.
static bool is_about_evaluation(const plim_setting *setting) {
  char name[PLIM_KEY_BYTES], parts[PLIM_KEY_BYTES + 8];
  name_of(setting, name);
  snprintf(parts, sizeof parts, "%s.x", name);
  for (char *c = parts; *c; c++)
    if (*c == '_') *c = '.';
  return plim_key_is_of_evaluation(parts);
}

// torchtune evaluates only if this key is set.
static bool never_evaluates(const plim_project_file *f) {
  if (f->recipe.dialect != PLIM_DIALECT_TORCHTUNE) return false;
  const plim_setting *steps = plim_project_setting(f, "run_val_every_n_steps");
  return !steps || steps->value.kind == PLIM_VALUE_NULL;
}

// Whether the setting only passes its value on: a shell variable, or a constant or dict entry in Python.
static bool hands_on(const plim_project_file *f, const plim_setting *d) {
  if (is_variable(d->key)) return true;
  if (f->settings.format != PLIM_FORMAT_PYTHON) return false;
  char call[PLIM_KEY_BYTES];
  snprintf(call, sizeof call, "%.*s(", (int)strcspn(d->key, ".#"), d->key);
  return !plim_python_has(&f->code, call);
}

// ---- the search -------------------------------------------------------------------------------------

static void show(search *s, size_t file, const plim_setting *setting) {
  if (s->moved < SHOWN) s->shown[s->moved] = setting, s->shown_in[s->moved] = file;
  s->moved++;
}

static source source_of(size_t file, const plim_setting *setting) {
  source x = {.file = file, .setting = setting};
  word_of(setting->key, x.word);
  return x;
}

static bool has_readers(const search *s, size_t file, const plim_setting *d) {
  const plim_project_file *f = s->p->files.at[file];
  source x = source_of(file, d);
  for (size_t i = 0; i < f->settings.at.len; i++) {
    const plim_setting *reader = &f->settings.at.at[i];
    if (reader != d && names(f, reader, x.word)) return true;
  }
  return false;
}

// Whether the computed number is known and unchanged, as with 4 x 4 instead of 8 x 2.
static bool stays(const search *s, size_t file, const plim_setting *d) {
  const plim_setting *now = plim_settings_find(&s->q->files.at[file]->settings, d->key);
  return now && d->computed.kind != PLIM_VALUE_NULL && now->computed.kind != PLIM_VALUE_NULL &&
         plim_value_same(&d->computed, &now->computed);
}

static void look_in(search *s, size_t file, const source *x, bool *seen);

static void judge(search *s, size_t file, size_t i, const source *x, bool *seen) {
  const plim_project_file *f = s->p->files.at[file];
  const plim_setting *d = &f->settings.at.at[i];
  if (seen[i]) return;
  seen[i] = true;
  if (is_of_knob(s, file, d) || (file == x->file && stays(s, file, d))) return;
  if (s->is_of_passes && is_counter(f, d, x->word)) return;
  if (is_about_evaluation(d) && never_evaluates(f)) return;
  if (s->looks >= LOOKS || !hands_on(f, d) || !has_readers(s, file, d)) {
    show(s, file, d);
    return;
  }
  source next = source_of(file, d);
  s->looks++;
  look_in(s, file, &next, seen);
}

static void look_in(search *s, size_t file, const source *x, bool *seen) {
  const plim_project_file *f = s->p->files.at[file];
  for (size_t i = 0; i < f->settings.at.len; i++)
    if (is_computed_from(s, file, i, x)) judge(s, file, i, x, seen);
}

static plim_err look_everywhere(search *s, const source *x, plim_error *error) {
  for (size_t file = 0; file < s->p->files.len; file++) {
    bool *seen = calloc(s->p->files.at[file]->settings.at.len + 1, sizeof *seen);
    if (!seen) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
    look_in(s, file, x, seen);
    free(seen);
  }
  return PLIM_OK;
}

// ---- messages ---------------------------------------------------------------------------------------

static plim_err refuse(const search *s, const source *x, plim_error *error) {
  char list[200] = "";
  size_t used = 0;
  for (size_t i = 0; i < s->moved && i < SHOWN; i++) {
    int n = snprintf(list + used, sizeof list - used, "%s%.50s (line %d)", i ? ", " : "",
                     s->shown[i]->key, s->shown[i]->line);
    used += n > 0 && (size_t)n < sizeof list - used ? (size_t)n : 0;
  }
  if (s->moved > SHOWN)
    snprintf(list + used, sizeof list - used, " and %zu more", s->moved - SHOWN);
  bool is_one = s->moved == 1;
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                           "plimsoll does not change %.60s, because %s %s computed from it and "
                           "would change too",
                           x->setting->key, list, is_one ? "is" : "are");
  plim_error_hint(
      error,
      "if that is what you want, edit %.60s; otherwise write a separate number in each place",
      x->setting->key);
  return plim_error_file_of(s->p, s->shown_in[0], err, error);
}

static bool is_edited(const plim_setting *setting, const plim_edit *edit) {
  return setting->value.kind != PLIM_VALUE_DERIVED && setting->span.begin == edit->span.begin &&
         setting->span.end == edit->span.end;
}

static bool is_tree(plim_format format) {
  return format == PLIM_FORMAT_YAML || format == PLIM_FORMAT_JSON || format == PLIM_FORMAT_TOML;
}

static bool is_of_passes(const search *s, const source *x) {
  const plim_project_knob *k = &s->p->knobs[PLIM_KNOB_ACCUMULATE];
  for (size_t i = 0; i < k->place_count; i++) {
    const plim_setting *place = k->places[i].setting;
    if (k->places[i].file != x->file || !place) continue;
    if (place == x->setting || (place->root && strcmp(place->root, x->setting->key) == 0))
      return is_changed(s, PLIM_KNOB_ACCUMULATE);
  }
  return false;
}

static plim_err check_source(search *s, const source *x, plim_error *error) {
  s->moved = s->looks = 0;
  s->is_of_passes = is_of_passes(s, x);
  bool is_read = is_tree(s->p->files.at[x->file]->settings.format);
  if (is_read && is_about_evaluation(x->setting) && !is_of_knob(s, x->file, x->setting))
    show(s, x->file, x->setting);
  plim_err err = look_everywhere(s, x, error);
  return err || !s->moved ? err : refuse(s, x, error);
}

plim_err plim_project_refuse_moves(const plim_project *p, const plim_project *q,
                                   const plim_knob_change *changes, size_t count,
                                   const plim_edit_set *edits, plim_error *error) {
  search s = {.p = p, .q = q, .changes = changes, .count = count};
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < edits->at.len && !err; i++) {
    const plim_settings *in = &p->files.at[edits->at.at[i].file]->settings;
    for (size_t k = 0; k < in->at.len && !err; k++) {
      if (!is_edited(&in->at.at[k], &edits->at.at[i].edit)) continue;
      source x = source_of(edits->at.at[i].file, &in->at.at[k]);
      err = check_source(&s, &x, error);
    }
  }
  return err;
}
