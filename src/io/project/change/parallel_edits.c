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

size_t plim_trainings_change(const plim_project_file *f, const plim_key *key,
                             const plim_setting *of, const plim_value *value, plim_edit *edits,
                             size_t count, size_t most) {
  bool is_nested = plim_dialect_table[f->recipe.dialect].is_nested;
  if (!is_one_batch(f, key->knob)) return count;
  for (size_t i = 0; i < f->settings.at.len && count < most; i++) {
    const plim_setting *x = &f->settings.at.at[i];
    bool is_parallel =
        x != of && !x->group && !x->is_of_evaluation && plim_key_is_of(key, x, is_nested) &&
        plim_value_same(&x->value, &of->value) && plim_setting_counts(&f->settings, x) != PLIM_NO;
    if (is_parallel && !plim_settings_change(&f->settings, x, value, &edits[count], NULL)) count++;
  }
  return count;
}

size_t plim_trainings_insert(const plim_project_file *f, const char *key, const plim_value *value,
                             plim_edit *edits, size_t most) {
  plim_trainings all;
  size_t count = 0;
  bool is_found = plim_trainings_find(&f->settings, &all);
  size_t trainings = all.len > 1 ? all.len : 0;
  for (size_t i = 0; is_found && i < trainings && count < most; i++) {
    char name[PLIM_KEY_BYTES];
    const plim_training *t = &all.at[i];
    int size = snprintf(name, sizeof name, "%.*s.%s", (int)t->size, t->name, key);
    bool fits = size > 0 && (size_t)size < sizeof name;
    if (fits && !plim_settings_insert(&f->settings, name, value, &edits[count], NULL)) count++;
  }
  vec_free(&all);
  if (is_found && count == trainings) return count;
  while (count > 0) free(edits[--count].text);
  return 0;
}
