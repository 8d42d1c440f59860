// Changes a knob in one file. After each edit that is tried, the file is read again: the edit is accepted if the
// knob then has the new value and every other knob has its old value, or the new value requested for it.
#include "project_task.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "conditions.h"
#include "dialect_values.h"
#include "key_names.h"
#include "other_keys.h"
#include "project_change_impl.h"

// ---- one file ---------------------------------------------------------------------------------------

typedef plim_task task;

const plim_value *plim_change_of(const plim_knob_change *changes, size_t count, plim_knob knob) {
  for (size_t i = 0; i < count; i++)
    if (changes[i].knob == knob) return &changes[i].value;
  return NULL;
}

static bool is_as_before(const plim_reading *now, const plim_reading *then) {
  return now->origin == then->origin && plim_value_same(&now->value, &then->value);
}

// One key may set two knobs, which then change together.
static bool is_as_wanted(const task *t, const plim_reading *now, plim_knob knob) {
  const plim_value *value = plim_change_of(t->changes, t->change_count, knob);
  return value && now->origin >= PLIM_DEFAULTED && plim_value_same(&now->value, value);
}

__attribute__((format(printf, 2, 3))) static bool reject(task *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (!t->why[0]) vsnprintf(t->why, sizeof t->why, format, args);
  va_end(args);
  return false;
}

static bool reject_other(task *t, plim_knob knob, const plim_reading *now) {
  char value[48];
  plim_value_print(&now->value, value, sizeof value);
  const char *name = plim_knob_table[knob].name;
  if (now->origin == PLIM_UNCLEAR) return reject(t, "%s would be unclear: %.120s", name, now->why);
  return reject(t, "%s would change to %s as well", name, value);
}

static bool has_new_value(task *t, const plim_reading *mine) {
  char value[48];
  bool is_known =
      mine->origin == PLIM_EXPLICIT || mine->origin == PLIM_DEFAULTED; // once its key is gone
  if (is_known && plim_value_same(&mine->value, t->value)) return true;
  if (mine->origin == PLIM_ABSENT && plim_is_unshared_value(t->knob, t->value)) return true;
  if (mine->origin == PLIM_UNCLEAR) return reject(t, "it would be unclear: %.150s", mine->why);
  plim_value_print(&mine->value, value, sizeof value);
  return reject(t, "it would still be %s", value);
}

// A computed setting changes with its source; all knobs are compared at the end.
static bool follows(const plim_reading *reading) {
  return reading->setting && reading->setting->value.kind == PLIM_VALUE_DERIVED;
}

// Remembers that an attempt failed for lack of memory, which says nothing about the file.
static bool went_well(task *t, plim_err err) {
  t->has_no_memory |= err == PLIM_ERR_NOMEM;
  return !err;
}

static bool reads_well(task *t, plim_settings *s) {
  plim_recipe_file recipe;
  if (!went_well(t, plim_recipe_file_read(s, t->f->recipe.dialect, &recipe, NULL))) return false;
  for (int i = 0; i < PLIM_KNOBS; i++) {
    const plim_reading *now = &recipe.knobs[i];
    if (i == (int)t->knob || is_as_before(now, &t->f->recipe.knobs[i])) continue;
    if (follows(&t->f->recipe.knobs[i])) continue;
    if (!is_as_wanted(t, now, (plim_knob)i)) return reject_other(t, (plim_knob)i, now);
  }
  return has_new_value(t, &recipe.knobs[t->knob]);
}

static bool reads_bound(task *t, plim_settings *s) {
  const plim_setting *setting = plim_settings_find(s, t->decides->key);
  plim_reading r;
  if (!setting) return reject(t, "%.96s would no longer be in the file", t->decides->key);
  return went_well(t, plim_reading_of(s, setting, t->key, &r, NULL)) && has_new_value(t, &r);
}

// Frees the edits from this one on.
static void drop(plim_task_edits *edits, size_t from) {
  while (edits->len > from) free(edits->at[--edits->len].text);
  if (!from) vec_free(edits);
}

// Accepts the edits if the knob then has its new value; they are the task's then.
static bool try(task *t, plim_task_edits *edits) {
  char *text;
  size_t size;
  plim_settings s;
  bool ok = false;
  if (!went_well(
          t, plim_edits_apply(t->f->text, t->f->size, edits->at, edits->len, &text, &size, NULL)))
    return false;
  if (went_well(t, plim_settings_read_like(&t->f->settings, text, size, &s, NULL))) {
    plim_conditions_adopt(&s, &t->f->settings);
    ok = t->is_bound ? reads_bound(t, &s) : reads_well(t, &s);
    plim_settings_clear(&s);
  }
  free(text);
  if (!ok) return false;
  t->done = *edits;
  *edits = (plim_task_edits){0};
  return true;
}

// The value with which a row has the new value, or sets nothing.
static bool neutral_value(const task *t, const plim_key *key, plim_value *out) {
  bool is_closed = key->flags & PLIM_KEY_READ_ONLY || key->applies_to;
  return !is_closed && (plim_key_inverse(key, t->value, out) || plim_key_silence(key, out));
}

static const plim_setting *setting_of(const task *t, const plim_key *key, bool is_nested) {
  for (size_t i = t->f->settings.at.len; i-- > 0;)
    if (plim_key_is_of(key, &t->f->settings.at.at[i], is_nested)) return &t->f->settings.at.at[i];
  return NULL;
}

static bool contradicts(const task *t, const plim_key *key, const plim_setting *setting) {
  plim_settings borrowed =
      t->f->settings; // reading stores texts in the settings, which must not be kept
  borrowed.strings.at = NULL, borrowed.strings.len = borrowed.strings.cap = 0;
  plim_token token = plim_key_read(key, &borrowed, setting);
  bool does = token.force == PLIM_STRONG && !plim_value_same(&token.value, t->value);
  for (size_t i = 0; i < borrowed.strings.len; i++) free(borrowed.strings.at[i]);
  vec_free(&borrowed.strings);
  return does;
}

// Rows of a dialect and of its base may name the same setting.
static bool is_suppressed(const plim_task_edits *edits, const plim_edit *edit) {
  for (size_t i = 0; i < edits->len; i++) {
    plim_span span = edits->at[i].span;
    if (span.begin == edit->span.begin && span.end == edit->span.end) return true;
  }
  return false;
}

// An edit after which the setting agrees, has no effect, or is removed.
static bool suppress_edit(task *t, const plim_key *key, const plim_setting *setting,
                          plim_edit *out) {
  plim_value value;
  const plim_settings *s = &t->f->settings;
  bool is_closed = key->flags & PLIM_KEY_READ_ONLY || key->applies_to;
  bool is_neutral = neutral_value(t, key, &value);
  if (is_neutral && went_well(t, plim_settings_change(s, setting, &value, out, NULL))) return true;
  return !is_closed && went_well(t, plim_settings_remove(s, setting, out, NULL));
}

static void add_edit(task *t, plim_task_edits *edits, plim_edit edit) {
  bool is_there = is_suppressed(edits, &edit);
  if (!is_there && vec_push(edits, edit)) return;
  t->has_no_memory |= !is_there;
  free(edit.text);
}

static void suppress_one(task *t, const plim_key *key, const plim_setting *setting,
                         plim_task_edits *edits) {
  plim_edit edit;
  if (contradicts(t, key, setting) && suppress_edit(t, key, setting, &edit))
    add_edit(t, edits, edit);
}

// Whether the file's dialect gives a key of its base another meaning, as LLaMA-Factory does with Megatron's mixed_precision.
static bool means_other(const task *t, plim_dialect at, const plim_setting *setting) {
  const plim_other_key *row;
  if (at == t->f->recipe.dialect) return false;
  plim_key_kind kind = plim_key_kind_of(&t->f->settings, setting, t->f->recipe.dialect, &row);
  return kind == PLIM_KEY_MISSING || kind == PLIM_KEY_FREE;
}

// Appends edits so that all other rows agree with the new value or have no effect.
static void suppress(task *t, const plim_setting *except, plim_task_edits *edits) {
  plim_dialect at = t->f->recipe.dialect;
  for (; at != PLIM_DIALECTS; at = plim_dialect_table[at].base)
    for (const plim_key *key = plim_dialect_table[at].keys; key->key; key++) {
      const plim_setting *setting =
          key->knob == t->knob ? setting_of(t, key, plim_dialect_table[at].is_nested) : NULL;
      if (setting && setting != except && !means_other(t, at, setting))
        suppress_one(t, key, setting, edits);
    }
}

// ---- settings that belong to the old value ----------------------------------------------------------

// Settings that belong to some values of a knob; with others the library refuses them.
static const struct {
  plim_knob knob;
  const char *key, *values; // values as in plim_word; NULL: belongs to the old value only
} belongings[] = {
    {PLIM_KNOB_OPTIMIZER, "optimizer.fused", "adamw,adamw-foreach,adamw-loop,sgd"},
    {PLIM_KNOB_OPTIMIZER, "optimizer.foreach", "adamw,adamw-foreach,adamw-loop,sgd"},
    {PLIM_KNOB_OPTIMIZER, "optimizer.init_args.fused", "adamw,adamw-foreach,adamw-loop,sgd"},
    {PLIM_KNOB_OPTIMIZER, "optim_args", NULL},
    {PLIM_KNOB_CHECKPOINT, "recompute_method", "on"},
    {PLIM_KNOB_CHECKPOINT, "recompute_num_layers", "on"},
    {PLIM_KNOB_CHECKPOINT, "recompute_modules", "selective"},
    {PLIM_KNOB_CHECKPOINT, "distribute_saved_activations", "on"},
    {PLIM_KNOB_CHECKPOINT, "model.recompute_method", "on"},
    {PLIM_KNOB_CHECKPOINT, "model.recompute_num_layers", "on"},
    {PLIM_KNOB_CHECKPOINT, "model.recompute_modules", "selective"},
    {PLIM_KNOB_CHECKPOINT, "model.activations_checkpoint_method", "on"},
    {PLIM_KNOB_CHECKPOINT, "model.activations_checkpoint_num_layers", "on"},
};

bool plim_is_listed(const char *list, const char *word) {
  size_t n = strlen(word);
  for (; list && *list; list += strcspn(list, ","), list += *list == ',')
    if (strcspn(list, ",") == n && memcmp(list, word, n) == 0) return true;
  return false;
}

// Removes settings that do not belong to the new value.
static void take_out(task *t, plim_task_edits *edits) {
  bool is_nested = plim_dialect_table[t->f->recipe.dialect].is_nested;
  const char *word = t->value->kind == PLIM_VALUE_TEXT ? t->value->text : "";
  plim_edit edit;
  for (size_t i = 0; i < sizeof belongings / sizeof *belongings; i++) {
    if (belongings[i].knob != t->knob || plim_is_listed(belongings[i].values, word)) continue;
    plim_key key = {.key = belongings[i].key, .knob = t->knob};
    const plim_setting *setting = setting_of(t, &key, is_nested);
    if (setting && went_well(t, plim_settings_remove(&t->f->settings, setting, &edit, NULL)))
      add_edit(t, edits, edit);
  }
}

// No trainer accepts bf16 and fp16 together.
static bool is_exclusive(plim_knob knob) { return knob == PLIM_KNOB_PRECISION; }

// Tries the edit alone, then together with edits of the settings that contradict it.
static bool try_with_suppression(task *t, const plim_setting *of, plim_edit edit) {
  plim_task_edits all = {0};
  add_edit(t, &all, edit);
  if (!t->is_bound) take_out(t, &all);
  if (!is_exclusive(t->knob) && try(t, &all)) return true;
  if (!t->is_bound) suppress(t, of, &all);
  if (try(t, &all)) return true;
  drop(&all, 0);
  return false;
}

// A number or flag that the user wrote in quotes, "8", keeps its quotes.
static void keep_text(task *t, const plim_setting *setting, plim_value *value) {
  plim_value old = setting->value;
  bool is_word = value->kind == PLIM_VALUE_BOOL;
  if (old.kind != PLIM_VALUE_TEXT || (value->kind != PLIM_VALUE_INTEGER && !is_word)) return;
  bool is_same_kind = is_word
                          ? strcasecmp(old.text, "true") == 0 || strcasecmp(old.text, "false") == 0
                          : plim_number_of(old.text, &old);
  if (!is_same_kind) return;
  bool is_upper = setting->value.text[0] == 'T' || setting->value.text[0] == 'F';
  plim_value_print(value, t->spelling, sizeof t->spelling);
  if (is_word) strcpy(t->spelling, value->flag ? "true" : "false");
  if (is_word && is_upper) t->spelling[0] = value->flag ? 'T' : 'F';
  *value = (plim_value){.kind = PLIM_VALUE_TEXT, .text = t->spelling};
}

// Tries the edit together with the same edit for the other trainings of the script. The caller keeps the edit if
// that fails.
static bool try_parallel(task *t, const plim_key *key, const plim_setting *setting,
                         const plim_value *value, plim_edit edit) {
  plim_task_edits all = {0};
  if (t->is_bound || !vec_push(&all, edit)) return false;
  t->has_no_memory |= !plim_trainings_change(t->f, key, setting, value, &all);
  if (all.len > 1 && try(t, &all)) return true;
  drop(&all, 1);
  vec_free(&all);
  return false;
}

static bool try_change(task *t, const plim_key *key, const plim_setting *setting,
                       plim_error *error) {
  plim_value value;
  plim_edit edit;
  if (key->flags & PLIM_KEY_READ_ONLY || !plim_key_inverse(key, t->value, &value)) return false;
  if (value.kind == PLIM_VALUE_NULL && *setting->key == '-') return false; // see try_removal
  keep_text(t, setting, &value);
  if (!went_well(t, plim_settings_change(&t->f->settings, setting, &value, &edit, error)))
    return false;
  return try_parallel(t, key, setting, &value, edit) || try_with_suppression(t, setting, edit);
}

// A command line cannot express null, so the option is removed.
static bool try_removal(task *t, const plim_key *key, const plim_setting *setting,
                        plim_error *error) {
  plim_edit edit;
  plim_value value;
  bool is_null = plim_key_inverse(key, t->value, &value) && value.kind == PLIM_VALUE_NULL;
  if (key->flags & PLIM_KEY_READ_ONLY || t->is_bound || !is_null) return false;
  if (!went_well(t, plim_settings_remove(&t->f->settings, setting, &edit, error))) return false;
  return try_with_suppression(t, setting, edit);
}

// Without the key that decides, the default may be the new value.
static bool try_default(task *t, const plim_key *key, const plim_setting *setting) {
  plim_value value;
  plim_edit edit;
  bool is_closed = key->flags & PLIM_KEY_READ_ONLY || key->applies_to || t->is_bound;
  if (is_closed || !plim_key_silence(key, &value)) return false;
  if (!went_well(t, plim_settings_change(&t->f->settings, setting, &value, &edit, NULL)))
    return false;
  bool was_told = t->why[0];
  plim_task_edits all = {0};
  add_edit(t, &all, edit);
  if (try(t, &all)) return true;
  if (!was_told) t->why[0] = 0; // this attempt is not worth reporting
  drop(&all, 0);
  return false;
}

// ---- missing keys -----------------------------------------------------------------------------------

static bool try_insert(task *t, const plim_key *key, const char *name, plim_error *error) {
  plim_value value;
  plim_edit edit;
  if (!plim_key_inverse(key, t->value, &value)) return false;
  if (!went_well(t, plim_settings_insert(&t->f->settings, name, &value, &edit, error)))
    return false;
  return try_with_suppression(t, NULL, edit);
}

static bool try_insert_parallel(task *t, const plim_key *key) {
  plim_value value;
  plim_task_edits all = {0};
  if (!plim_key_inverse(key, t->value, &value)) return false;
  t->has_no_memory |= !plim_trainings_insert(t->f, key->key, &value, &all);
  if (all.len && try(t, &all)) return true;
  drop(&all, 0);
  return false;
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
      bool is_of_model = key->flags & PLIM_KEY_OF_MODEL;
      if (!inserts || setting || !(key->flags & PLIM_KEY_ADDABLE || is_of_model)) continue;
      bool has_place = is_of_model ? plim_project_place_of_model(t->f, key->key, name)
                                   : plim_project_place(t->f, key->key, info->is_nested, name);
      if (has_place && try_insert(t, key, name, error)) return true;
      if (is_of_model) continue;
      if (!has_place && try_insert_parallel(t, key)) return true;
      if (!has_place && !t->why[0] && info->is_nested)
        plim_project_why_no_place(t->f, key->key, t->why, sizeof t->why);
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
  if (t->decides && t->key && try_removal(t, t->key, t->decides, error)) return true;
  if (t->decides && t->key && try_default(t, t->key, t->decides)) return true;
  if (t->is_bound) return false;
  return try_rows(t, false, error) || try_rows(t, true, error) || try_environment(t, error);
}

bool plim_task_perform(task *t, plim_error *error) {
  t->done = (plim_task_edits){0};
  bool is_made = perform(t, error);
  if (!t->has_no_memory) return is_made;
  drop(&t->done, 0);
  return false;
}
