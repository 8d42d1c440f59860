// Edits several trainings in one script together if they have the same value.
#include <stdio.h>
#include <stdlib.h>

#include "conditions.h"
#include "dialect_values.h"
#include "project_change_impl.h"

// Trainings with different effective batches are not changed together.
static bool is_one_batch(const plim_project_file *f, plim_knob knob) {
  bool is_batch_knob = knob == PLIM_KNOB_MICRO_BATCH || knob == PLIM_KNOB_ACCUMULATE;
  return !is_batch_knob || (f->recipe.knobs[PLIM_KNOB_MICRO_BATCH].origin != PLIM_UNCLEAR &&
                            f->recipe.knobs[PLIM_KNOB_ACCUMULATE].origin != PLIM_UNCLEAR);
}

// Every edit reads the script again. A script with more trainings is left to its author: with one of them edited the
// knob does not get its value, and the change is refused.
enum { MOST_TRAININGS = 64 };

// Whether a setting has the same key and value in another training.
static bool is_parallel(const plim_project_file *f, const plim_key *key, const plim_setting *of,
                        const plim_setting *x) {
  bool is_nested = plim_dialect_table[f->recipe.dialect].is_nested;
  return x != of && !x->group && !x->is_of_evaluation && plim_key_is_of(key, x, is_nested) &&
         plim_value_same(&x->value, &of->value) && plim_setting_counts(&f->settings, x) != PLIM_NO;
}

static bool has_too_many(const plim_project_file *f, const plim_key *key, const plim_setting *of) {
  size_t count = 0;
  for (size_t i = 0; i < f->settings.at.len && count <= MOST_TRAININGS; i++)
    count += is_parallel(f, key, of, &f->settings.at.at[i]);
  return count > MOST_TRAININGS;
}

bool plim_trainings_change(const plim_project_file *f, const plim_key *key, const plim_setting *of,
                           const plim_value *value, plim_task_edits *edits) {
  if (!is_one_batch(f, key->knob) || has_too_many(f, key, of)) return true;
  for (size_t i = 0; i < f->settings.at.len; i++) {
    const plim_setting *x = &f->settings.at.at[i];
    plim_edit edit;
    if (!is_parallel(f, key, of, x) || plim_settings_change(&f->settings, x, value, &edit, NULL))
      continue;
    if (vec_push(edits, edit)) continue;
    free(edit.text);
    return false;
  }
  return true;
}

bool plim_trainings_insert(const plim_project_file *f, const char *key, const plim_value *value,
                           plim_task_edits *edits) {
  plim_trainings all;
  bool ok = plim_trainings_find(&f->settings, &all), is_whole = true;
  size_t trainings = all.len > 1 && all.len <= MOST_TRAININGS ? all.len : 0;
  for (size_t i = 0; ok && is_whole && i < trainings; i++) {
    char name[PLIM_KEY_BYTES];
    plim_edit edit;
    const plim_training *t = &all.at[i];
    int size = snprintf(name, sizeof name, "%.*s.%s", (int)t->size, t->name, key);
    bool fits = size > 0 && (size_t)size < sizeof name;
    is_whole = fits && !plim_settings_insert(&f->settings, name, value, &edit, NULL);
    if (!is_whole || vec_push(edits, edit)) continue;
    free(edit.text);
    ok = false;
  }
  vec_free(&all);
  while (!(ok && is_whole) && edits->len > 0) free(edits->at[--edits->len].text);
  return ok;
}
