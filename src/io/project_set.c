// Changes of knobs as edits of files. Whatever edit is tried, the file is read again with it: it counts
// if the knob then has the new value and every other knob still has its own.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect_values.h"
#include "key_names.h"
#include "project_impl.h"

static plim_err no_memory(plim_error *error) {
  return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

void plim_edit_set_clear(plim_edit_set *edits) {
  for (size_t i = 0; i < edits->at.len; i++) free(edits->at.at[i].edit.text);
  vec_free(&edits->at);
}

plim_err plim_project_text(const plim_project *p, size_t file, const plim_edit_set *edits,
                           char **text, size_t *size, plim_error *error) {
  plim_edit *mine = malloc((edits->at.len + 1) * sizeof *mine);
  size_t count = 0;
  *text = NULL;
  if (!mine) return no_memory(error);
  for (size_t i = 0; i < edits->at.len; i++)
    if (edits->at.at[i].file == file) mine[count++] = edits->at.at[i].edit;
  const plim_project_file *f = p->files.at[file];
  plim_err err = plim_edits_apply(f->text, f->size, mine, count, text, size, error);
  free(mine);
  return err;
}

// ---- one file ---------------------------------------------------------------------------------------

enum { EDITS = 8 }; // of one attempt: a key, and those that have to fall silent

// A knob to be changed in one file.
typedef struct {
  const plim_project_file *f;
  plim_knob knob;
  const plim_value *value;
  const plim_setting *decides; // NULL: none does yet
  const plim_key *key;         // of what decides
  bool is_bound;               // it has a name of one's own: only that is read
  plim_edit done[EDITS];       // what did it
  size_t done_count;
} task;

static bool is_as_before(const plim_reading *now, const plim_reading *then) {
  return now->said == then->said && plim_value_same(&now->value, &then->value);
}

// What is computed follows what it is computed from; all knobs together are compared at the end.
static bool follows(const plim_reading *reading) {
  return reading->setting && reading->setting->value.kind == PLIM_VALUE_DERIVED;
}

static bool reads_well(const task *t, plim_settings *s) {
  plim_recipe_file recipe;
  if (plim_recipe_file_read(s, t->f->recipe.dialect, &recipe, NULL)) return false;
  for (int i = 0; i < PLIM_KNOBS; i++) {
    const plim_reading *now = &recipe.knobs[i];
    const plim_reading *then = &t->f->recipe.knobs[i];
    if (i != (int)t->knob && !follows(then) && !is_as_before(now, then)) return false;
  }
  const plim_reading *mine = &recipe.knobs[t->knob];
  return mine->said == PLIM_SAID && plim_value_same(&mine->value, t->value);
}

static bool reads_bound(const task *t, plim_settings *s) {
  const plim_setting *setting = plim_settings_find(s, t->decides->key);
  plim_reading r;
  return setting && !plim_reading_of(s, setting, t->key, &r, NULL) && r.said == PLIM_SAID &&
         plim_value_same(&r.value, t->value);
}

// Takes the edits over if they do it.
static bool try(task *t, plim_edit *edits, size_t count) {
  char *text;
  size_t size;
  plim_settings s;
  bool ok = false;
  if (plim_edits_apply(t->f->text, t->f->size, edits, count, &text, &size, NULL)) return false;
  if (!plim_settings_read(t->f->settings.format, text, size, &s, NULL)) {
    ok = t->is_bound ? reads_bound(t, &s) : reads_well(t, &s);
    plim_settings_clear(&s);
  }
  free(text);
  if (!ok) return false;
  memcpy(t->done, edits, count * sizeof *edits);
  t->done_count = count;
  return true;
}

// What makes a row say the new value, or nothing at all.
static bool quiet_value(const task *t, const plim_key *key, plim_value *out) {
  bool is_closed = key->flags & PLIM_KEY_READ_ONLY || key->applies_to;
  return !is_closed && (plim_key_inverse(key, t->value, out) || plim_key_silence(key, out));
}

static const plim_setting *setting_of(const task *t, const plim_key *key, bool is_nested) {
  for (size_t i = t->f->settings.at.len; i-- > 0;)
    if (plim_key_is_of(key, &t->f->settings.at.at[i], is_nested)) return &t->f->settings.at.at[i];
  return NULL;
}

static bool contradicts(const task *t, const plim_key *key, const plim_setting *setting) {
  plim_settings borrowed = t->f->settings; // reading keeps texts, which must not stay
  borrowed.strings.at = NULL, borrowed.strings.len = borrowed.strings.cap = 0;
  plim_token token = plim_key_read(key, &borrowed, setting);
  bool does = token.force == PLIM_STRONG && !plim_value_same(&token.value, t->value);
  for (size_t i = 0; i < borrowed.strings.len; i++) free(borrowed.strings.at[i]);
  vec_free(&borrowed.strings);
  return does;
}

// Edits that make all other rows agree or fall silent, behind the one that is there.
static size_t hush(const task *t, const plim_setting *except, plim_edit edits[EDITS]) {
  size_t count = 1;
  plim_value value;
  plim_dialect at = t->f->recipe.dialect;
  for (; at != PLIM_DIALECTS; at = plim_dialect_table[at].base)
    for (const plim_key *key = plim_dialect_table[at].keys; key->key && count < EDITS; key++) {
      const plim_setting *setting =
          key->knob == t->knob ? setting_of(t, key, plim_dialect_table[at].is_nested) : NULL;
      if (!setting || setting == except || !contradicts(t, key, setting)) continue;
      bool ok = quiet_value(t, key, &value) &&
                !plim_settings_change(&t->f->settings, setting, &value, &edits[count], NULL);
      count += ok;
    }
  return count;
}

// The edit, and if it is not enough, together with what contradicts it.
static bool try_with_silence(task *t, const plim_setting *of, plim_edit edit) {
  plim_edit all[EDITS] = {edit};
  if (try(t, all, 1)) return true;
  size_t count = t->is_bound ? 1 : hush(t, of, all);
  if (count > 1 && try(t, all, count)) return true;
  for (size_t i = 0; i < count; i++) free(all[i].text);
  return false;
}

static bool try_change(task *t, const plim_key *key, const plim_setting *setting,
                       plim_error *error) {
  plim_value value;
  plim_edit edit;
  if (key->flags & PLIM_KEY_READ_ONLY || !plim_key_inverse(key, t->value, &value)) return false;
  if (setting->value.kind == PLIM_VALUE_DERIVED) return false;
  if (plim_settings_change(&t->f->settings, setting, &value, &edit, error)) return false;
  return try_with_silence(t, setting, edit);
}

// ---- a key that is not there ------------------------------------------------------------------------

// A key of TrainingArguments in this file, wherever they are.
static const plim_setting *argument_of(const plim_project_file *f) {
  for (int i = 0; i < PLIM_KNOBS; i++) {
    const plim_reading *r = &f->recipe.knobs[i];
    bool is_argument = r->setting && r->key && r->key->flags & PLIM_KEY_ADDABLE;
    if (is_argument && plim_key_is_of(r->key, r->setting, true)) return r->setting;
  }
  return NULL;
}

static bool is_dashed(const char *key) {
  while (*key == '-') key++;
  return strchr(key, '-') != NULL && !strchr(key, '_');
}

// The key under the same roof as `beside`, in its spelling.
static void name_beside(const char *beside, const char *key, char out[PLIM_KEY_BYTES]) {
  const char *dot = strrchr(beside, '.');
  size_t roof = dot ? (size_t)(dot - beside) + 1 : strspn(beside, "-");
  size_t used =
      (size_t)snprintf(out, PLIM_KEY_BYTES, "%.*s", (int)(roof < 128 ? roof : 128), beside);
  snprintf(out + used, PLIM_KEY_BYTES - used, "%.100s", key);
  for (size_t i = used; is_dashed(beside) && out[i]; i++)
    if (out[i] == '_') out[i] = '-';
}

// Where the row's key would stand; false if it has no sure place.
static bool place_of(const task *t, const plim_key *key, const plim_dialect_info *info,
                     char out[PLIM_KEY_BYTES]) {
  plim_format format = t->f->settings.format;
  bool is_tree =
      format == PLIM_FORMAT_YAML || format == PLIM_FORMAT_JSON || format == PLIM_FORMAT_TOML;
  if (!(key->flags & PLIM_KEY_ADDABLE)) return false;
  const plim_setting *beside = argument_of(t->f);
  bool is_flat = is_tree && !plim_dialect_table[t->f->recipe.dialect].is_nested;
  if (is_flat) snprintf(out, PLIM_KEY_BYTES, "%.200s", key->key);
  else if (info->is_nested && beside) name_beside(beside->key, key->key, out);
  else return false;
  return true;
}

static bool try_insert(task *t, const plim_key *key, const char *name, plim_error *error) {
  plim_value value;
  plim_edit edit;
  if (!plim_key_inverse(key, t->value, &value)) return false;
  if (plim_settings_insert(&t->f->settings, name, &value, &edit, error)) return false;
  return try_with_silence(t, NULL, edit);
}

// ---- all rows ---------------------------------------------------------------------------------------

static bool try_rows(task *t, bool inserts, plim_error *error) {
  char name[PLIM_KEY_BYTES];
  plim_dialect at = t->f->recipe.dialect;
  for (; at != PLIM_DIALECTS; at = plim_dialect_table[at].base) {
    const plim_dialect_info *info = &plim_dialect_table[at];
    for (const plim_key *key = info->keys; key->key; key++) {
      if (key->knob != t->knob) continue;
      const plim_setting *setting = setting_of(t, key, info->is_nested);
      if (!inserts && setting && try_change(t, key, setting, error)) return true;
      bool is_new = inserts && !setting && place_of(t, key, info, name);
      if (is_new && try_insert(t, key, name, error)) return true;
    }
  }
  return false;
}

static bool try_environment(task *t, plim_error *error) {
  bool is_shell = t->f->settings.format == PLIM_FORMAT_SHELL;
  if (t->knob != PLIM_KNOB_ALLOC_CONF || !is_shell) return false;
  return try_insert(t, &plim_launch_keys[0], "$PYTORCH_CUDA_ALLOC_CONF", error);
}

static bool perform(task *t, plim_error *error) {
  if (t->decides && t->key && try_change(t, t->key, t->decides, error)) return true;
  if (t->is_bound) return false;
  return try_rows(t, false, error) || try_rows(t, true, error) || try_environment(t, error);
}

// ---- one knob in all its places ---------------------------------------------------------------------

static bool is_idle(const plim_project_file *f, const plim_edit *edit) {
  size_t size = edit->span.end - edit->span.begin;
  return strlen(edit->text) == size && memcmp(f->text + edit->span.begin, edit->text, size) == 0;
}

static plim_err keep(plim_edit_set *out, size_t file, task *t, plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < t->done_count; i++)
    if (is_idle(t->f, &t->done[i])) free(t->done[i].text);
    else if (err || !vec_push(&out->at, (plim_file_edit){file, t->done[i]})) {
      free(t->done[i].text);
      err = no_memory(error);
    }
  return err;
}

// Why the deciding key does not do it.
static void say_why(const plim_key *key, const plim_value *value, char *why, size_t size) {
  plim_value out;
  const char *name = key->key;
  if (key->flags & PLIM_KEY_READ_ONLY)
    snprintf(why, size, "%s must not change alone: other keys go with it", name);
  else if (!plim_key_inverse(key, value, &out)) snprintf(why, size, "%s has no word for it", name);
  else snprintf(why, size, "another knob would change with it");
}

// `said`: by the editor.
static plim_err refuse(const plim_project *p, size_t file, const plim_key *key,
                       const plim_knob_change *c, const plim_error *said, plim_error *error) {
  char value[64], why[200] = "there is no sure place for it";
  const char *name = plim_knob_table[c->knob].name;
  plim_value_print(&c->value, value, sizeof value);
  if (key) say_why(key, &c->value, why, sizeof why);
  if (said->message[0]) snprintf(why, sizeof why, "%.190s", said->message);
  plim_err err =
      plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s cannot become %s: %s", name, value, why);
  plim_error_hint(error, "if it has another name or place: --set %s=FILE:KEY", name);
  return plim_error_file_of(p, file, err, error);
}

static plim_err change_places(const plim_project *p, const plim_knob_change *c, plim_edit_set *out,
                              plim_error *error) {
  const plim_project_knob *k = &p->knobs[c->knob];
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < k->place_count && !err; i++) {
    const plim_knob_place *place = &k->places[i];
    if (place->setting && place->setting->value.kind == PLIM_VALUE_DERIVED) continue;
    task t = {.f = p->files.at[place->file],
              .knob = c->knob,
              .value = &c->value,
              .decides = place->setting,
              .key = place->key,
              .is_bound = place->key && !*place->key->key};
    plim_error why = {0};
    if (perform(&t, &why)) err = keep(out, place->file, &t, error);
    else err = refuse(p, place->file, place->key, c, &why, error);
  }
  return err;
}

static bool is_command(const plim_project_file *f) {
  return f->settings.format == PLIM_FORMAT_SHELL || f->settings.format == PLIM_FORMAT_DOCKERFILE;
}

// Files in the order in which a new key belongs to them: what trains, what starts it, the parts.
static int rank(const plim_project *p, size_t file) {
  const plim_project_file *f = p->files.at[file];
  if (f->recipe.dialect == PLIM_DIALECTS) return 3;
  if (is_command(f)) return 1;
  return f->recipe.dialect == p->dialect ? 0 : 2;
}

static plim_err insert_anywhere(const plim_project *p, const plim_knob_change *c,
                                plim_edit_set *out, plim_error *error) {
  plim_error why = {0};
  for (int order = 0; order < 3; order++)
    for (size_t i = 0; i < p->files.len; i++) {
      if (rank(p, i) != order) continue;
      task t = {.f = p->files.at[i], .knob = c->knob, .value = &c->value};
      if (perform(&t, &why)) return keep(out, i, &t, error);
    }
  if (why.message[0]) return refuse(p, SIZE_MAX, NULL, c, &why, error);
  const char *name = plim_knob_table[c->knob].name;
  plim_err err =
      plim_fail(error, PLIM_ERR_UNSUPPORTED,
                "nothing in these files sets %s, and there is no sure place for it", name);
  plim_error_hint(error, "say where it is: --set %s=FILE:KEY", name);
  return err;
}

static bool is_there_already(const plim_project_knob *k, const plim_value *value) {
  bool is_known = k->said == PLIM_SAID || k->said == PLIM_DEFAULTED;
  return is_known && plim_value_same(&k->value, value);
}

static plim_err change_knob(const plim_project *p, const plim_knob_change *c, plim_edit_set *out,
                            plim_error *error) {
  const plim_project_knob *k = &p->knobs[c->knob];
  bool is_quotient = c->knob == PLIM_KNOB_ACCUMULATE && plim_project_divides(p);
  if (is_there_already(k, &c->value) || is_quotient) return PLIM_OK;
  if (k->is_fixed) {
    const char *name = plim_knob_table[c->knob].name;
    plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s cannot be changed: %s", name, k->why);
    plim_error_hint(error, "if another place decides: --set %s=FILE:KEY", name);
    return plim_error_file_of(p, k->place_count ? k->places[0].file : SIZE_MAX, err, error);
  }
  return k->place_count ? change_places(p, c, out, error) : insert_anywhere(p, c, out, error);
}

// ---- all knobs together -----------------------------------------------------------------------------

static plim_err rebuild(const plim_project *p, const plim_edit_set *edits, plim_project *out,
                        plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < p->files.len && !err; i++) {
    char *text;
    size_t size;
    err = plim_project_text(p, i, edits, &text, &size, error);
    if (!err) err = plim_project_add(out, p->files.at[i]->path, text, size, error);
    free(text);
  }
  for (size_t i = 0; i < p->bindings.len && !err; i++) {
    const plim_binding *b = p->bindings.at[i];
    if (!b->is_from_names) err = plim_project_bind(out, b->key.knob, b->path, b->name, error);
  }
  return err ? err : plim_project_finish(out, error);
}

static const plim_value *wanted(const plim_knob_change *changes, size_t count, plim_knob knob) {
  for (size_t i = 0; i < count; i++)
    if (changes[i].knob == knob) return &changes[i].value;
  return NULL;
}

// Of a knob that is computed, how, and what it would be.
static plim_err refuse_computed(const plim_project *p, const plim_project_knob *then,
                                const plim_project_knob *now, plim_knob knob, plim_error *error) {
  const plim_setting *setting = then->places[0].setting;
  char value[48];
  plim_value_print(&now->value, value, sizeof value);
  plim_err err =
      plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s is computed, and would become %s: %.60s = %.80s",
                plim_knob_table[knob].name, value, setting->key, setting->value.text);
  plim_error_hint(error, "write a number there, or change what it is computed from");
  return plim_error_file_of(p, then->places[0].file, err, error);
}

static bool is_computed(const plim_project_knob *k) {
  return k->place_count && k->places[0].setting &&
         k->places[0].setting->value.kind == PLIM_VALUE_DERIVED;
}

static plim_err compare(const plim_project *p, const plim_project *q,
                        const plim_knob_change *changes, size_t count, plim_error *error) {
  for (int i = 0; i < PLIM_KNOBS; i++) {
    const plim_project_knob *then = &p->knobs[i], *now = &q->knobs[i];
    const plim_value *want = wanted(changes, count, (plim_knob)i);
    bool is_quotient = i == PLIM_KNOB_ACCUMULATE && plim_project_divides(q);
    bool is_well = want ? plim_value_same(&now->value, want)
                        : is_quotient || (now->said == then->said &&
                                          plim_value_same(&now->value, &then->value));
    if (!is_well && is_computed(then)) return refuse_computed(p, then, now, (plim_knob)i, error);
    if (!is_well)
      return plim_fail(error, PLIM_ERR_UNSUPPORTED, "with these changes, %s would not be as asked",
                       plim_knob_table[i].name);
  }
  if (plim_project_multiplies_out(p) && !plim_project_multiplies_out(q))
    return plim_fail(
        error, PLIM_ERR_ARGUMENT,
        "micro batch, accumulation and GPUs would not multiply out to the global batch");
  return PLIM_OK;
}

static plim_err check(const plim_project *p, const plim_knob_change *changes, size_t count,
                      const plim_edit_set *edits, plim_error *error) {
  plim_project again = {0};
  plim_err err = rebuild(p, edits, &again, error);
  if (!err) err = compare(p, &again, changes, count, error);
  plim_project_clear(&again);
  return err;
}

plim_err plim_project_set(const plim_project *p, const plim_knob_change *changes, size_t count,
                          plim_edit_set *out, plim_error *error) {
  *out = (plim_edit_set){0};
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < count && !err; i++) err = change_knob(p, &changes[i], out, error);
  if (!err) err = check(p, changes, count, out, error);
  if (err) plim_edit_set_clear(out);
  return err;
}
