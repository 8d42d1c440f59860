#include "conditions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "key_names.h"
#include "value.h"

enum { MAX_PARTS = 32 };

uint32_t plim_condition_add(plim_settings *s, plim_condition condition) {
  condition.truth = PLIM_MAYBE;
  return vec_push(&s->conditions, condition) ? (uint32_t)s->conditions.len : 0;
}

static const plim_condition *at(const plim_settings *s, uint32_t number) {
  return &s->conditions.at[number - 1];
}

// ---- deciding ---------------------------------------------------------------------------------------

static const plim_value *tested(const plim_settings *s, const plim_condition *c) {
  if (c->is_given) return &c->given;
  const plim_setting *root = c->root ? plim_settings_find(s, c->root) : NULL;
  return root ? &root->value : NULL;
}

static plim_truth truth_of(bool is_true) { return is_true ? PLIM_YES : PLIM_NO; }

static plim_truth truth_of_value(const plim_value *v) {
  switch (v->kind) {
  case PLIM_VALUE_NULL: return PLIM_NO;
  case PLIM_VALUE_BOOL: return truth_of(v->flag);
  case PLIM_VALUE_INTEGER: return truth_of(v->integer != 0);
  case PLIM_VALUE_REAL: return truth_of(v->real != 0);
  case PLIM_VALUE_TEXT: return truth_of(*v->text);
  default: return PLIM_MAYBE;
  }
}

static plim_truth test(const plim_settings *s, const plim_condition *c) {
  const plim_value *v = tested(s, c);
  if (!v || v->kind == PLIM_VALUE_DERIVED) return PLIM_MAYBE;
  if (c->kind == PLIM_IF_TRUE) return truth_of_value(v);
  bool is_none = v->kind == PLIM_VALUE_NULL || c->literal.kind == PLIM_VALUE_NULL;
  return truth_of(is_none ? v->kind == c->literal.kind : plim_value_same(v, &c->literal));
}

static plim_truth decide(const plim_settings *s, const plim_condition *c) {
  plim_truth a = c->a ? at(s, c->a)->truth : PLIM_YES, b = c->b ? at(s, c->b)->truth : PLIM_YES;
  switch (c->kind) {
  case PLIM_IF_ALWAYS: return PLIM_YES;
  case PLIM_IF_TRUE:
  case PLIM_IF_EQUAL: return test(s, c);
  case PLIM_IF_NOT: return (plim_truth)(PLIM_YES - a);
  case PLIM_IF_BOTH: return a < b ? a : b;
  case PLIM_IF_EITHER: return a > b ? a : b;
  case PLIM_IF_LIKELY: return a == PLIM_NO ? PLIM_NO : PLIM_YES;
  default: return PLIM_MAYBE;
  }
}

void plim_conditions_decide(plim_settings *s) {
  for (size_t i = 0; i < s->conditions.len; i++)
    s->conditions.at[i].truth = decide(s, &s->conditions.at[i]);
  for (size_t i = 0; i < s->at.len; i++) {
    plim_setting *x = &s->at.at[i];
    plim_truth truth = x->chooses ? at(s, x->chooses)->truth : PLIM_MAYBE;
    if (x->chooses) x->computed = (plim_value){0};
    if (truth != PLIM_MAYBE) x->computed = x->choices[truth == PLIM_YES];
  }
}

static size_t own_count(const plim_settings *s) {
  size_t count = s->conditions.len;
  while (count && s->conditions.at[count - 1].is_of_other_file) count--;
  return count;
}

static void adopt_foreign(plim_settings *s, const plim_settings *before) {
  size_t own = own_count(before);
  for (size_t i = own; i < before->conditions.len; i++)
    if (!vec_push(&s->conditions, before->conditions.at[i])) s->has_failed = true;
  for (size_t i = 0; i < before->at.len && s->conditions.len > own && !s->has_failed; i++) {
    const plim_setting *x = &before->at.at[i];
    const plim_setting *now = x->condition > own ? plim_settings_find(s, x->key) : NULL;
    if (now) s->at.at[now - s->at.at].condition = x->condition;
  }
}

void plim_conditions_adopt(plim_settings *s, const plim_settings *before) {
  if (s->conditions.len != own_count(before)) return;
  for (size_t i = 0; i < s->conditions.len; i++) {
    s->conditions.at[i].given = before->conditions.at[i].given;
    s->conditions.at[i].is_given = before->conditions.at[i].is_given;
  }
  adopt_foreign(s, before);
  plim_conditions_decide(s);
}

// ---- of settings ------------------------------------------------------------------------------------

plim_truth plim_setting_counts(const plim_settings *s, const plim_setting *setting) {
  return setting->condition ? at(s, setting->condition)->truth : PLIM_YES;
}

const char *plim_setting_doubt(const plim_settings *s, const plim_setting *setting) {
  uint32_t number = setting->condition;
  while (number && !at(s, number)->text) {
    const plim_condition *c = at(s, number);
    number = c->b && at(s, c->b)->truth == PLIM_MAYBE ? c->b : c->a;
  }
  return number ? at(s, number)->text : "";
}

// Splits a condition into the conditions that must all hold; returns their number.
static size_t parts_of(const plim_settings *s, uint32_t number, uint32_t out[MAX_PARTS]) {
  size_t count = 0;
  for (; number && count < MAX_PARTS; number = at(s, number)->a) {
    bool is_both = at(s, number)->kind == PLIM_IF_BOTH;
    out[count++] = is_both ? at(s, number)->b : number;
    if (!is_both) break;
  }
  return count;
}

static bool is_opposite(const plim_settings *s, uint32_t a, uint32_t b) {
  return (at(s, a)->kind == PLIM_IF_NOT && at(s, a)->a == b) ||
         (at(s, b)->kind == PLIM_IF_NOT && at(s, b)->a == a);
}

bool plim_settings_alternate(const plim_settings *s, const plim_setting *a, const plim_setting *b) {
  uint32_t of_a[MAX_PARTS], of_b[MAX_PARTS];
  size_t n = parts_of(s, a->condition, of_a), m = parts_of(s, b->condition, of_b);
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < m; k++)
      if (is_opposite(s, of_a[i], of_b[k])) return true;
  return false;
}

bool plim_setting_is_passed_over(const plim_settings *s, const plim_setting *setting) {
  const plim_setting *last = plim_settings_find(s, setting->key);
  if (last != setting && plim_setting_counts(s, last) != PLIM_NO) return true;
  const char *sign = setting->group ? strrchr(setting->key, '#') : NULL;
  int number = sign ? atoi(sign + 1) : 1;
  char before[PLIM_KEY_BYTES];
  if (number < 2) return false;
  int n = snprintf(before, sizeof before, "%.*s", (int)(sign - setting->key), setting->key);
  if (number > 2 && n > 0 && (size_t)n < sizeof before)
    snprintf(before + n, sizeof before - (size_t)n, "#%d", number - 1);
  const plim_setting *other = plim_settings_find(s, before);
  return other && other->group == setting->group;
}
