#include "plan_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suggest.h"
#include "units.h"

static plim_err unknown_knob(const char *name, plim_error *error) {
  const char *names[64];
  for (size_t i = 0; i < plim_plan_knob_count; i++)
    names[i] = plim_knob_table[plim_plan_knobs[i]].name;
  const char *close = plim_suggest(name, names, plim_plan_knob_count);
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "there is no knob \"%.48s\"", name);
  if (close) plim_error_hint(error, "did you mean %s?", close);
  else plim_error_hint(error, "plimsoll help knobs   lists them");
  return err;
}

static plim_err knob_of(const char *name, plim_knob *out, plim_error *error) {
  *out = plim_knob_named(name);
  for (size_t i = 0; i < plim_plan_knob_count; i++)
    if (plim_plan_knobs[i] == *out) return PLIM_OK;
  return unknown_knob(name, error);
}

static plim_err too_many(plim_knob knob, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "--try lists more than %d values of %s",
                           PLIM_MAX_VALUES, plim_knob_table[knob].name);
  plim_error_hint(error, "give fewer values, further apart");
  return err;
}

static plim_err add_value(plim_plan_request *r, plim_knob knob, const char *text,
                          plim_error *error) {
  plim_domain *d = &r->domains[knob];
  int64_t value;
  bool is_count = !plim_knob_value_name(knob, 0);
  bool may_be_none = knob == PLIM_KNOB_CHUNKED_LOSS || knob == PLIM_KNOB_LORA_RANK ||
                     knob == PLIM_KNOB_POSITIVES || knob == PLIM_KNOB_NEGATIVES ||
                     knob == PLIM_KNOB_CACHED_BATCH;
  int64_t least = may_be_none ? 0 : 1;
  if (!plim_knob_value_of(knob, text, &value) ||
      (is_count && (value < least || value > PLIM_MAX_BATCH))) {
    plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "%s cannot be \"%.64s\"",
                             plim_knob_table[knob].name, text);
    plim_error_hint(error, "%s", plim_knob_table[knob].what);
    return err;
  }
  for (int i = 0; i < d->count; i++)
    if (d->at[i] == value) return PLIM_OK;
  if (d->count == PLIM_MAX_VALUES) return too_many(knob, error);
  d->at[d->count++] = value;
  return PLIM_OK;
}

static plim_err not_knob_value(const char *text, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "\"%.64s\" is not KNOB=VALUE", text);
  plim_error_hint(error, "--try micro_batch=1,2,4 --fix checkpoint=on");
  return err;
}

// Reads --try KNOB=V,V.
static plim_err read_domain(plim_plan_request *r, const char *text, plim_error *error) {
  char *copy = strdup(text), *values = copy ? strchr(copy, '=') : NULL;
  plim_knob knob = PLIM_KNOBS;
  plim_err err = PLIM_OK;
  if (!copy) return plim_fail(error, PLIM_ERR_NOMEM, "this machine does not have enough memory");
  if (!values || !values[1]) err = not_knob_value(text, error);
  else {
    *values++ = 0;
    err = knob_of(copy, &knob, error);
  }
  for (char *rest = values, *v; !err && (v = strsep(&rest, ","));)
    err = add_value(r, knob, v, error);
  free(copy);
  return err;
}

static int by_value(const void *x, const void *y) {
  const int64_t *a = x, *b = y;
  return (*a > *b) - (*a < *b);
}

static void allow_all(plim_plan_request *r) {
  for (int i = 0; i < PLIM_KNOBS; i++)
    if (plim_knob_table[i].kind == PLIM_KNOB_QUALITY) r->allowed[i] = true;
  r->allowed[PLIM_KNOB_OPTIMIZER] = true;
  if (r->is_contrastive || r->has_batch_norm) r->allowed[PLIM_KNOB_MICRO_BATCH] = true;
}

// Reads --allow KNOB,KNOB or --allow all.
static plim_err allow(plim_plan_request *r, const char *text, plim_error *error) {
  char copy[256], *rest = copy, *name;
  snprintf(copy, sizeof copy, "%s", text);
  plim_err err = PLIM_OK;
  while (!err && (name = strsep(&rest, ","))) {
    plim_knob knob;
    bool is_all = strcmp(name, "all") == 0;
    if (is_all) allow_all(r);
    else err = knob_of(name, &knob, error);
    if (!err && !is_all) r->allowed[knob] = true;
  }
  return err;
}

// --try keeps all other knobs, also the split of the batch, unless another effective batch is requested.
static void hold_others(const plan_args *args, plim_plan_request *r) {
  r->holds_others = args->tries.len > 0;
  bool is_compared =
      r->is_contrastive || r->has_batch_norm; // there, the batch needs permission anyway
  bool is_split = r->domains[PLIM_KNOB_MICRO_BATCH].count || r->domains[PLIM_KNOB_ACCUMULATE].count;
  if (r->holds_others && !is_compared && !is_split && !args->effective_batch)
    r->domains[PLIM_KNOB_MICRO_BATCH] = (plim_domain){1, {r->job.recipe.batch}};
}

static plim_err read_domains(const plan_args *args, plim_plan_request *r, plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; !err && i < args->fix.len; i++) err = read_domain(r, args->fix.at[i], error);
  for (size_t i = 0; !err && i < args->tries.len; i++)
    err = read_domain(r, args->tries.at[i], error);
  for (size_t i = 0; !err && i < args->allow.len; i++) err = allow(r, args->allow.at[i], error);
  hold_others(args, r);
  plim_domain *batches = &r->domains[PLIM_KNOB_MICRO_BATCH];
  qsort(batches->at, (size_t)batches->count, sizeof *batches->at, by_value);
  return err;
}

static plim_err read_batch(const plan_args *args, plim_plan_request *r, plim_error *error) {
  const plim_recipe *c = &r->job.recipe;
  if (!args->effective_batch) {
    r->effective_batch = (uint64_t)(c->batch * (c->accumulate > 1 ? c->accumulate : 1) * r->world);
    if (r->effective_batch <= PLIM_MAX_BATCH) return PLIM_OK;
    return plim_fail(error, PLIM_ERR_ARGUMENT,
                     "an effective batch of %llu sequences is more than the %d that can be planned",
                     (unsigned long long)r->effective_batch, PLIM_MAX_BATCH);
  }
  if (strcmp(args->effective_batch, "any") == 0) return PLIM_OK;
  uint64_t value;
  if (!units_parse_u64(args->effective_batch, &value, NULL) && value >= 1 &&
      value <= PLIM_MAX_BATCH) {
    r->effective_batch = value;
    return PLIM_OK;
  }
  plim_err err =
      plim_fail(error, PLIM_ERR_ARGUMENT, "--effective-batch %.48s: it must be a number, or any",
                args->effective_batch);
  return err;
}

static plim_err no_share(const char *text, plim_error *error) {
  plim_err err =
      plim_fail(error, PLIM_ERR_ARGUMENT, "--margin %.48s is not a fraction of the memory", text);
  plim_error_hint(error, "--margin 0.05 and --margin 5%% both leave 5 %% free");
  return err;
}

// Reads a fraction or a percentage.
static plim_err read_margin(const char *text, double *margin, plim_error *error) {
  *margin = -1; // use the interval of the prediction
  if (!text) return PLIM_OK;
  char *end;
  double value = strtod(text, &end);
  bool is_percent = strcmp(end, "%") == 0;
  if (is_percent) value /= 100;
  if (end == text || (*end && !is_percent) || !(value >= 0 && value < 0.9))
    return no_share(text, error);
  *margin = value;
  return PLIM_OK;
}

plim_err plan_read_options(const plan_args *args, plim_plan_request *r, plim_error *error) {
  plim_err err = read_margin(args->margin, &r->margin, error);
  if (!err) err = read_domains(args, r, error);
  if (!err) err = read_batch(args, r, error);
  return err;
}
