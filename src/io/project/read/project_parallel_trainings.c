// Several trainings in one script, such as TrainingArguments for two stages. If they set a knob differently, the knob is
// unclear; if they agree, they are changed together.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conditions.h"
#include "dialect_values.h"
#include "project_impl.h"

static const char batch_key[] = ".per_device_train_batch_size";

static bool is_batch(const plim_setting *setting) {
  size_t n = strlen(setting->key), m = sizeof batch_key - 1;
  return n > m && strcmp(setting->key + n - m, batch_key) == 0;
}

bool plim_trainings_find(const plim_settings *s, plim_trainings *out) {
  *out = (plim_trainings){0};
  for (size_t i = 0; s->format == PLIM_FORMAT_PYTHON && i < s->at.len; i++) {
    const plim_setting *x = &s->at.at[i];
    if (!is_batch(x) || x->is_of_evaluation || plim_setting_counts(s, x) == PLIM_NO) continue;
    plim_training training = {x->key, strlen(x->key) - (sizeof batch_key - 1)};
    if (!vec_push(out, training)) return false;
  }
  return true;
}

static const plim_setting *setting_in(const plim_settings *s, plim_training t, const char *key) {
  char name[PLIM_KEY_BYTES];
  int size = snprintf(name, sizeof name, "%.*s.%s", (int)t.size, t.name, key);
  return size > 0 && (size_t)size < sizeof name ? plim_settings_find(s, name) : NULL;
}

// ---- where they differ ------------------------------------------------------------------------------

static plim_token read_or_default(plim_settings *s, const plim_key *key,
                                  const plim_setting *setting) {
  plim_token nothing = {0};
  const plim_setting *root = setting && setting->root ? plim_settings_find(s, setting->root) : NULL;
  if (setting) return plim_key_read(key, s, root ? root : setting);
  return key->otherwise ? plim_token_of(key->otherwise) : nothing;
}

// If one training sets the knob and the other leaves it to its default, with a different value, it is unclear.
static void compare(plim_settings *s, const plim_key *key, plim_training a, plim_training b,
                    plim_reading *out) {
  const plim_setting *first = setting_in(s, a, key->key), *second = setting_in(s, b, key->key);
  plim_token x = read_or_default(s, key, first), y = read_or_default(s, key, second);
  bool is_one = !first != !second;
  if (!is_one || out->origin == PLIM_UNCLEAR || plim_value_same(&x.value, &y.value)) return;
  const plim_setting *there = first ? first : second;
  *out = (plim_reading){.origin = PLIM_UNCLEAR, .setting = there, .key = key, .is_fixed = true};
  plim_training other = first ? b : a;
  snprintf(out->why, sizeof out->why, "%.90s is set (line %d), but %.*s does not set it",
           there->key, there->line, (int)(other.size < 60 ? other.size : 60), other.name);
}

void plim_trainings_doubt(plim_project_file *f) {
  static const plim_knob knobs[] = {PLIM_KNOB_ACCUMULATE, PLIM_KNOB_CHECKPOINT, PLIM_KNOB_PRECISION,
                                    PLIM_KNOB_OPTIMIZER,  PLIM_KNOB_SEQUENCE,   PLIM_KNOB_LIGER};
  plim_trainings all;
  if (!plim_trainings_find(&f->settings, &all)) f->settings.has_failed = true;
  bool is_trainer =
      f->recipe.dialect != PLIM_DIALECTS && plim_dialect_table[f->recipe.dialect].has_trainer;
  for (plim_dialect at = f->recipe.dialect; all.len > 1 && is_trainer && at != PLIM_DIALECTS;
       at = plim_dialect_table[at].base)
    for (const plim_key *key = plim_dialect_table[at].keys; key->key; key++)
      for (size_t k = 0; k < sizeof knobs / sizeof *knobs; k++)
        for (size_t i = 1; key->knob == knobs[k] && !strchr(key->key, '.') && i < all.len; i++)
          compare(&f->settings, key, all.at[0], all.at[i], &f->recipe.knobs[knobs[k]]);
  vec_free(&all);
}
