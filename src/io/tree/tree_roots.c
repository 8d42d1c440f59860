// Finds the literal that a DERIVED value of a tree is computed from, and computes its number.
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"
#include "sort.h"
#include "tree.h"

enum { MAX_HOPS = 16 }; // the longest chain of references

static int by_key_and_place(const void *x, const void *y) {
  const plim_setting *a = *(const plim_setting *const *)x, *b = *(const plim_setting *const *)y;
  int order = strcmp(a->key, b->key);
  return order ? order : (a > b) - (a < b);
}

static const plim_setting *last_named(plim_setting *const *sorted, size_t count, const char *key) {
  size_t low = 0, high = count; // searches the first setting with a greater key
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (strcmp(sorted[middle]->key, key) <= 0) low = middle + 1;
    else high = middle;
  }
  return low && strcmp(sorted[low - 1]->key, key) == 0 ? sorted[low - 1] : NULL;
}

static const char *follow(plim_setting *const *sorted, size_t count, const char *key) {
  for (int hop = 0; key && hop < MAX_HOPS; hop++) {
    const plim_setting *s = last_named(sorted, count, key);
    if (!s) return NULL;
    if (s->value.kind != PLIM_VALUE_DERIVED) return key;
    key = s->root;
  }
  return NULL;
}

// The number that a computed setting has: through a chain of references, or as the default of an environment variable.
static plim_value computed_of(plim_setting *const *sorted, size_t count, const plim_setting *s,
                              char environment[PLIM_ENVIRONMENT_BYTES]) {
  plim_value value = {0};
  plim_evaluator by = {.environment = environment};
  for (int hop = 0; hop < MAX_HOPS && s && s->value.kind == PLIM_VALUE_DERIVED; hop++) {
    if (s->value.text && plim_evaluate(s->value.text, &by, &value)) return value;
    s = s->root ? last_named(sorted, count, s->root) : NULL;
  }
  if (s && s->value.kind != PLIM_VALUE_DERIVED) plim_literal_number(&s->value, &value);
  bool is_number = value.kind == PLIM_VALUE_INTEGER || value.kind == PLIM_VALUE_REAL;
  return is_number ? value : (plim_value){0};
}

static bool compute(plim_settings *out, plim_setting *const *sorted, size_t count,
                    plim_setting *s) {
  char environment[PLIM_ENVIRONMENT_BYTES] = "";
  s->computed = computed_of(sorted, count, s, environment);
  if (*environment) s->environment = plim_settings_keep(out, environment, strlen(environment));
  return !*environment || s->environment;
}

plim_err plim_tree_resolve(plim_settings *out, plim_error *error) {
  size_t count = out->at.len;
  bool is_out = false;
  plim_setting **sorted = malloc((count + 1) * sizeof *sorted);
  if (!sorted) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  for (size_t i = 0; i < count; i++) sorted[i] = &out->at.at[i];
  plim_sort(sorted, count, sizeof *sorted, by_key_and_place);
  for (size_t i = 0; i < count; i++)
    if (sorted[i]->value.kind == PLIM_VALUE_DERIVED)
      is_out |= !compute(out, sorted, count, sorted[i]);
  for (size_t i = 0; i < count; i++) {
    plim_setting *s = &out->at.at[i];
    if (s->root) s->root = follow(sorted, count, s->root);
  }
  free(sorted);
  return is_out ? plim_fail(error, PLIM_ERR_NOMEM, "out of memory") : PLIM_OK;
}
