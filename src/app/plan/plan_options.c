#include "plan_options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job_effects.h"
#include "project_job.h"
#include "suggest.h"
#include "units.h"
#include "value.h"

// The command line's option for a knob; NULL: none.
static const cli_option *option_of(plim_knob knob) {
  for (const cli_option *o = job_own_options; o->name; o++)
    if (plim_knob_named(o->name) == knob) return o;
  return NULL;
}

// A knob that the program reads from files and that no plan changes.
static plim_err not_planned(const char *option, plim_knob knob, plim_error *error) {
  const char *name = plim_knob_table[knob].name;
  plim_err err = plim_fail(
      error, PLIM_ERR_ARGUMENT,
      "%s %s is not possible: %s (%s) is read from your files, and plimsoll does not change it",
      option, name, name, plim_knob_table[knob].what);
  const cli_option *o = option_of(knob);
  if (o) plim_error_hint(error, "give it with --%s", o->name);
  else plim_error_hint(error, "leave it out; plimsoll help knobs lists what can be changed");
  return err;
}

static plim_err unknown_knob(const char *option, const char *name, plim_error *error) {
  const char *names[64];
  for (size_t i = 0; i < plim_plan_knob_count; i++)
    names[i] = plim_knob_table[plim_plan_knobs[i]].name;
  const char *close = plim_suggest(name, names, plim_plan_knob_count);
  plim_knob known = plim_knob_named(name);
  if (known != PLIM_KNOBS) return not_planned(option, known, error);
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "there is no knob \"%.48s\"", name);
  if (close) plim_error_hint(error, "did you mean %s?", close);
  else plim_error_hint(error, "to list the knobs: plimsoll help knobs");
  return err;
}

static plim_err knob_of(const char *option, const char *name, plim_knob *out, plim_error *error) {
  *out = plim_knob_named(name);
  for (size_t i = 0; i < plim_plan_knob_count; i++)
    if (plim_plan_knobs[i] == *out) return PLIM_OK;
  return unknown_knob(option, name, error);
}

static plim_err too_many(plim_knob knob, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "--try lists more than %d values of %s",
                           PLIM_MAX_VALUES, plim_knob_table[knob].name);
  plim_error_hint(error, "give fewer values, further apart");
  return err;
}

// Names the values that the knob has, and the one that was probably meant.
static plim_err no_value(plim_knob knob, const char *text, plim_error *error) {
  char values[640];
  const char *name = plim_knob_table[knob].name, *close = plim_knob_value_near(knob, text);
  const char *what = plim_knob_table[knob].what;
  size_t about = plim_knob_value_name(knob, 0) ? strcspn(what, ":") : strlen(what);
  plim_knob_values_text(knob, values, sizeof values);
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "%s (%.*s) cannot be \"%.64s\"", name,
                           (int)about, what, text);
  if (close) plim_error_hint(error, "did you mean %s=%s? Allowed are: %s", name, close, values);
  else plim_error_hint(error, "allowed are: %s", values);
  return err;
}

static plim_err add_value(plim_plan_request *r, plim_knob knob, const char *text,
                          plim_error *error) {
  plim_domain *d = &r->domains[knob];
  int64_t value;
  if (!plim_knob_value_of(knob, text, &value)) return no_value(knob, text, error);
  for (int i = 0; i < d->count; i++)
    if (d->at[i] == value) return PLIM_OK;
  if (d->count == PLIM_MAX_VALUES) return too_many(knob, error);
  d->at[d->count++] = value;
  return PLIM_OK;
}

// --fix micro_batch, or --fix micro_batch=.
static plim_err no_value_given(const char *option, const char *text, plim_error *error) {
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
  plim_knob knob = PLIM_KNOBS;
  plim_err err = knob_of(option, name, &knob, error);
  if (err) return err;
  const char *first = plim_knob_value_name(knob, 1);
  err = plim_fail(error, PLIM_ERR_ARGUMENT, "%s %s needs a value", option, name);
  plim_error_hint(error, "%s %s=%s", option, name, first ? first : "4");
  return err;
}

// The earlier --fix or --try of this knob contradicts this one.
static plim_err given_twice(const char *option, const char *text, const char *earlier_option,
                            const char *earlier, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "%s %.64s contradicts %s %.64s", option, text,
                           earlier_option, earlier);
  plim_error_hint(error, "leave one of them out; --try KNOB=V,V compares several values");
  return err;
}

static bool is_same_knob(const char *a, const char *b) {
  char first[64], second[64];
  snprintf(first, sizeof first, "%.*s", (int)strcspn(a, "="), a);
  snprintf(second, sizeof second, "%.*s", (int)strcspn(b, "="), b);
  plim_knob knob = plim_knob_named(first);
  return knob != PLIM_KNOBS && knob == plim_knob_named(second);
}

// --fix gives a knob one value, so nothing else may give it another.
static plim_err check_contradictions(const plan_args *args, plim_error *error) {
  for (size_t i = 0; i < args->fix.len; i++) {
    for (size_t k = 0; k < i; k++)
      if (is_same_knob(args->fix.at[i], args->fix.at[k]) &&
          strcmp(args->fix.at[i], args->fix.at[k]) != 0)
        return given_twice("--fix", args->fix.at[i], "--fix", args->fix.at[k], error);
    for (size_t k = 0; k < args->tries.len; k++)
      if (is_same_knob(args->fix.at[i], args->tries.at[k]))
        return given_twice("--try", args->tries.at[k], "--fix", args->fix.at[i], error);
  }
  return PLIM_OK;
}

// Reads KNOB=V,V of --try or --fix.
static plim_err read_domain(plim_plan_request *r, const char *option, const char *text,
                            plim_error *error) {
  char *copy = strdup(text), *values = copy ? strchr(copy, '=') : NULL;
  plim_knob knob = PLIM_KNOBS;
  plim_err err = PLIM_OK;
  if (!copy) return plim_no_memory(error);
  if (!values || !values[1]) err = no_value_given(option, text, error);
  else {
    *values++ = 0;
    err = knob_of(option, copy, &knob, error);
  }
  for (char *rest = values, *v; !err && (v = strsep(&rest, ","));)
    err = add_value(r, knob, v, error);
  free(copy);
  return err;
}

plim_err plan_read_setting(const char *option, const char *text, plim_knob *knob, plim_value *value,
                           plim_error *error) {
  char name[64];
  const char *equals = strchr(text, '=');
  int64_t number;
  if (!equals || !equals[1]) return no_value_given(option, text, error);
  snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
  plim_err err = knob_of(option, name, knob, error);
  if (err) return err;
  if (!plim_knob_value_of(*knob, equals + 1, &number)) return no_value(*knob, equals + 1, error);
  const char *word = plim_knob_value_name(*knob, number);
  *value = word ? (plim_value){.kind = PLIM_VALUE_TEXT, .text = word}
                : (plim_value){.kind = PLIM_VALUE_INTEGER, .integer = number};
  return PLIM_OK;
}

uint64_t plan_fixed_length(const plan_args *args) {
  int64_t length = 0;
  for (size_t i = 0; i < args->fix.len; i++) {
    char name[48];
    const char *values = strchr(args->fix.at[i], '=');
    if (!values) continue;
    snprintf(name, sizeof name, "%.*s", (int)(values - args->fix.at[i]), args->fix.at[i]);
    bool is_length = plim_knob_named(name) == PLIM_KNOB_SEQUENCE;
    if (is_length && !plim_knob_value_of(PLIM_KNOB_SEQUENCE, values + 1, &length)) return 0;
  }
  return (uint64_t)length;
}

static int by_value(const void *x, const void *y) {
  const int64_t *a = x, *b = y;
  return (*a > *b) - (*a < *b);
}

static void allow_all(plim_plan_request *r) {
  for (int i = 0; i < PLIM_KNOBS; i++)
    if (plim_knob_table[i].kind == PLIM_KNOB_QUALITY) r->allowed[i] = true;
  r->allowed[PLIM_KNOB_OPTIMIZER] = true;
  if (plim_plan_compares_batch(r)) r->allowed[PLIM_KNOB_MICRO_BATCH] = true;
}

// Reads --allow KNOB,KNOB or --allow all.
static plim_err allow(plim_plan_request *r, const char *text, plim_error *error) {
  char *copy = strdup(text), *rest = copy, *name;
  if (!copy) return plim_no_memory(error);
  plim_err err = PLIM_OK;
  while (!err && (name = strsep(&rest, ","))) {
    plim_knob knob;
    bool is_all = strcmp(name, "all") == 0;
    if (is_all) allow_all(r);
    else err = knob_of("--allow", name, &knob, error);
    if (!err && !is_all) r->allowed[knob] = true;
  }
  free(copy);
  return err;
}

// --try keeps all other knobs, also the split of the batch, unless another effective batch is requested.
static void hold_others(const plan_args *args, plim_plan_request *r) {
  r->holds_others = args->tries.len > 0;
  bool is_compared = plim_plan_compares_batch(r); // there, the batch needs permission anyway
  bool is_split = r->domains[PLIM_KNOB_MICRO_BATCH].count || r->domains[PLIM_KNOB_ACCUMULATE].count;
  if (r->holds_others && !is_compared && !is_split && !args->effective_batch)
    r->domains[PLIM_KNOB_MICRO_BATCH] = (plim_domain){1, {r->job.recipe.batch}};
}

static plim_err read_domains(const plan_args *args, plim_plan_request *r, plim_error *error) {
  plim_err err = check_contradictions(args, error);
  for (size_t i = 0; !err && i < args->fix.len; i++)
    err = read_domain(r, "--fix", args->fix.at[i], error);
  for (size_t i = 0; !err && i < args->tries.len; i++)
    err = read_domain(r, "--try", args->tries.at[i], error);
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
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           "--effective-batch %.48s: it must be at least 1 and at most %d, or any",
                           args->effective_batch, PLIM_MAX_BATCH);
  plim_error_hint(error, "--effective-batch 64");
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

// ---- the rows -----------------------------------------------------------------------------------------

const plan_args plan_defaults = {
    .job = JOB_DEFAULTS_WITH(JOB_UNSET), .price = NAN, .epochs = NAN, .samples = PLIM_UNKNOWN};

#define AT(field) offsetof(plan_args, job.field)
const cli_option plan_options[] = {
    {"effective-batch", 0, "N|any", CLI_STRING, offsetof(plan_args, effective_batch),
     "effective batch size to keep, in sequences per optimizer step; any: choose the fastest "
     "(default: --batch x --accumulate x --world)",
     NULL, true},
    {"fix", 0, "KNOB=V", CLI_SETTINGS, offsetof(plan_args, fix),
     "give the setting this value; the plan does not change it", NULL, true},
    {"try", 0, "KNOB=V,V", CLI_SETTINGS, offsetof(plan_args, tries),
     "try only these values and change no other setting (with --effective-batch, the micro batch "
     "may still change)",
     NULL},
    {"allow", 0, "KNOB,KNOB|all", CLI_KNOBS, offsetof(plan_args, allow),
     "allow changes that affect what the model learns: optimizer (8-bit states), dtype, "
     "micro_batch, n_positives and n_negatives of a contrastive loss, quantisation, sequence, "
     "lora_rank; the plan uses them in this order, and only as many as it needs",
     NULL, true},
    {"margin", 0, "SHARE", CLI_STRING, offsetof(plan_args, margin),
     "fraction of the memory to leave free, 0.05 or 5% (default: the estimate's error margin)",
     NULL},
    {"contrastive", 0, NULL, CLI_FLAG, offsetof(plan_args, contrastive),
     "the loss compares samples within the micro batch, so keep its size unless --allow "
     "micro_batch is given",
     NULL},
    {"batch-norm", 0, NULL, CLI_FLAG, offsetof(plan_args, batch_norm),
     "the model has batch norm, so keep the micro batch size unless --allow micro_batch is given",
     NULL},
    {"samples", 0, "N", CLI_UINT, offsetof(plan_args, samples),
     "sequences in the training data, to show how long the run takes", NULL},
    {"epochs", 0, "N", CLI_NUMBER, offsetof(plan_args, epochs),
     "epochs over the training data, also a fraction (default: as set in the files, or 1)", NULL},
    {"price", 0, "X", CLI_NUMBER, offsetof(plan_args, price),
     "price of one GPU per hour, to show what the run costs", NULL},
    {"set", 0, "KNOB=FILE:KEY", CLI_STRINGS, offsetof(plan_args, set),
     "where a setting is in your files, if it was not found", NULL},
    {"command", 0, "LINE", CLI_STRING, offsetof(plan_args, command), PROJECT_COMMAND_HELP, NULL,
     true},
    {"out", 0, "FILE", CLI_FILE, offsetof(plan_args, out),
     "save the plan to this file, for plimsoll apply", NULL, true},
    {"prove", 0, NULL, CLI_FLAG, offsetof(plan_args, is_proved),
     "with FILES: run the training with the planned settings on a simulated GPU, and compare the "
     "memory that it needs with the prediction; its command is --command, a launch script among "
     "the files, or a script without arguments",
     NULL},
    {"online", 0, NULL, CLI_FLAG, offsetof(plan_args, is_online),
     "with COMMAND or --prove: let the program use the network; it may then upload and send "
     "messages",
     NULL},
    {"unsandboxed", 0, NULL, CLI_FLAG, offsetof(plan_args, is_unsandboxed),
     "with COMMAND or --prove: run the program without a sandbox; it may then change your files",
     NULL},
    JOB_OPTIONS(AT),
    {0},
};
