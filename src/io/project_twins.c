// Several trainings in one script that say the same: TrainingArguments of a first and of a second stage. They are
// changed together, and where they do not say the same, nobody knows which of them is meant.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conditions.h"
#include "dialect_values.h"
#include "project_impl.h"
#include "project_task.h"

enum { MAX_TRAININGS = 4 };

static const char batch_key[] = ".per_device_train_batch_size";

// "TrainingArguments#2" of TrainingArguments#2.per_device_train_batch_size.
typedef struct {
  const char *name;
  size_t size;
} training;

static bool is_batch(const plim_setting *setting) {
  size_t n = strlen(setting->key), m = sizeof batch_key - 1;
  return n > m && strcmp(setting->key + n - m, batch_key) == 0;
}

static size_t find_trainings(const plim_settings *s, training out[MAX_TRAININGS]) {
  size_t count = 0;
  for (size_t i = 0; s->format == PLIM_FORMAT_PYTHON && i < s->at.len; i++) {
    const plim_setting *x = &s->at.at[i];
    if (!is_batch(x) || x->is_of_evaluation || plim_setting_counts(s, x) == PLIM_NO) continue;
    if (count == MAX_TRAININGS) return 0;
    out[count++] = (training){x->key, strlen(x->key) - (sizeof batch_key - 1)};
  }
  return count;
}

static const plim_setting *setting_in(const plim_settings *s, training t, const char *key) {
  char name[PLIM_KEY_BYTES];
  int size = snprintf(name, sizeof name, "%.*s.%s", (int)t.size, t.name, key);
  return size > 0 && (size_t)size < sizeof name ? plim_settings_find(s, name) : NULL;
}

// ---- where they differ ------------------------------------------------------------------------------

static plim_token say(plim_settings *s, const plim_key *key, const plim_setting *setting) {
  plim_token nothing = {0};
  const plim_setting *root = setting && setting->root ? plim_settings_find(s, setting->root) : NULL;
  if (setting) return plim_key_read(key, s, root ? root : setting);
  return key->otherwise ? plim_token_of(key->otherwise) : nothing;
}

// One says it and the other leaves it as it is without.
static void compare(plim_settings *s, const plim_key *key, training a, training b,
                    plim_reading *out) {
  const plim_setting *first = setting_in(s, a, key->key), *second = setting_in(s, b, key->key);
  plim_token x = say(s, key, first), y = say(s, key, second);
  bool is_one = !first != !second;
  if (!is_one || out->said == PLIM_UNCLEAR || plim_value_same(&x.value, &y.value)) return;
  const plim_setting *there = first ? first : second;
  *out = (plim_reading){.said = PLIM_UNCLEAR, .setting = there, .key = key, .is_fixed = true};
  training other = first ? b : a;
  snprintf(out->why, sizeof out->why, "%.90s is there (line %d), and %.*s has none", there->key,
           there->line, (int)(other.size < 60 ? other.size : 60), other.name);
}

void plim_twins_doubt(plim_project_file *f) {
  static const plim_knob knobs[] = {PLIM_KNOB_ACCUMULATE, PLIM_KNOB_CHECKPOINT, PLIM_KNOB_PRECISION,
                                    PLIM_KNOB_OPTIMIZER,  PLIM_KNOB_SEQUENCE,   PLIM_KNOB_LIGER};
  training all[MAX_TRAININGS];
  size_t count = find_trainings(&f->settings, all);
  bool is_trainer =
      f->recipe.dialect != PLIM_DIALECTS && plim_dialect_table[f->recipe.dialect].has_trainer;
  for (plim_dialect at = f->recipe.dialect; count > 1 && is_trainer && at != PLIM_DIALECTS;
       at = plim_dialect_table[at].base)
    for (const plim_key *key = plim_dialect_table[at].keys; key->key; key++)
      for (size_t k = 0; k < sizeof knobs / sizeof *knobs; k++)
        for (size_t i = 1; key->knob == knobs[k] && !strchr(key->key, '.') && i < count; i++)
          compare(&f->settings, key, all[0], all[i], &f->recipe.knobs[knobs[k]]);
}

// ---- edits ------------------------------------------------------------------------------------------

// Batches that multiply out differently are not each other's.
static bool is_one_batch(const plim_project_file *f, plim_knob knob) {
  bool is_batch_knob = knob == PLIM_KNOB_MICRO_BATCH || knob == PLIM_KNOB_ACCUMULATE;
  return !is_batch_knob || (f->recipe.knobs[PLIM_KNOB_MICRO_BATCH].said != PLIM_UNCLEAR &&
                            f->recipe.knobs[PLIM_KNOB_ACCUMULATE].said != PLIM_UNCLEAR);
}

size_t plim_twins_change(const plim_project_file *f, const plim_key *key, const plim_setting *of,
                         const plim_value *value, plim_edit *edits, size_t count, size_t most) {
  bool is_nested = plim_dialect_table[f->recipe.dialect].is_nested;
  if (!is_one_batch(f, key->knob)) return count;
  for (size_t i = 0; i < f->settings.at.len && count < most; i++) {
    const plim_setting *x = &f->settings.at.at[i];
    bool is_twin = x != of && !x->group && !x->is_of_evaluation &&
                   plim_key_is_of(key, x, is_nested) && plim_value_same(&x->value, &of->value) &&
                   plim_setting_counts(&f->settings, x) != PLIM_NO;
    if (is_twin && !plim_settings_change(&f->settings, x, value, &edits[count], NULL)) count++;
  }
  return count;
}

size_t plim_twins_insert(const plim_project_file *f, const char *key, const plim_value *value,
                         plim_edit *edits, size_t most) {
  training all[MAX_TRAININGS];
  size_t trainings = find_trainings(&f->settings, all), count = 0;
  for (size_t i = 0; trainings > 1 && i < trainings && count < most; i++) {
    char name[PLIM_KEY_BYTES];
    int size = snprintf(name, sizeof name, "%.*s.%s", (int)all[i].size, all[i].name, key);
    bool fits = size > 0 && (size_t)size < sizeof name;
    if (fits && !plim_settings_insert(&f->settings, name, value, &edits[count], NULL)) count++;
  }
  if (count == trainings) return count;
  while (count > 0) free(edits[--count].text);
  return 0;
}
