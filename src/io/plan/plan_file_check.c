#include "plan_file_check.h"

#include <string.h>

#include "alloc_conf.h"
#include "plan.h"
#include "plan_digest.h"

// Ranges of counts. A larger batch, sequence or rank does not occur in practice and is a mistake.
static const struct {
  plim_knob knob;
  int64_t least, most;
} ranges[] = {
    {PLIM_KNOB_MICRO_BATCH, 1, 1 << 20},  {PLIM_KNOB_ACCUMULATE, 1, 1 << 20},
    {PLIM_KNOB_CHUNKED_LOSS, 0, 1 << 24}, {PLIM_KNOB_SEQUENCE, 1, 1 << 24},
    {PLIM_KNOB_LORA_RANK, 0, 1 << 16},    {PLIM_KNOB_POSITIVES, 0, 1 << 16},
    {PLIM_KNOB_NEGATIVES, 0, 1 << 16},    {PLIM_KNOB_CACHED_BATCH, 0, 1 << 20},
};

static plim_err edited(plim_error *error, const char *what) {
  plim_err err =
      plim_fail(error, PLIM_ERR_PARSE,
                "the plan was changed after plimsoll wrote it (%s), so apply refuses", what);
  plim_error_hint(error,
                  "make a new plan; to force a setting: plimsoll plan FILES --fix KNOB=VALUE "
                  "--out plan.json");
  return err;
}

plim_err plim_plan_file_check_digest(const json_t *plan, plim_error *error) {
  plim_plan_digest digest;
  const char *origin = json_string_value(json_object_get(plan, PLIM_PLAN_DIGEST_KEY));
  if (!origin) return edited(error, "it has no " PLIM_PLAN_DIGEST_KEY);
  plim_err err = plim_plan_digest_of(plan, &digest, error);
  if (err || strcmp(origin, digest.hex) == 0) return err;
  return edited(error, "checksum mismatch");
}

static bool is_count(plim_knob knob, int64_t value) {
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    if (ranges[i].knob == knob) return value >= ranges[i].least && value <= ranges[i].most;
  return false;
}

static bool is_possible(plim_knob knob, const plim_value *v) {
  int64_t place;
  plim_alloc_conf conf;
  if (v->kind == PLIM_VALUE_INTEGER) return is_count(knob, v->integer);
  if (knob == PLIM_KNOB_ALLOC_CONF) return !plim_alloc_conf_parse(v->text, &conf, NULL);
  return plim_knob_value_name(knob, 0) && plim_knob_value_of(knob, v->text, &place);
}

static bool is_written(plim_knob knob) {
  for (size_t i = 0; i < plim_plan_knob_count; i++)
    if (plim_plan_knobs[i] == knob) return true;
  return false;
}

static plim_err check_value(plim_knob knob, const plim_value *v, plim_error *error) {
  char value[96], what[240];
  const char *name = plim_knob_table[knob].name;
  plim_value_print(v, value, sizeof value);
  if (!is_written(knob)) snprintf(what, sizeof what, "a plan never writes %s", name);
  else if (!is_possible(knob, v)) snprintf(what, sizeof what, "%s cannot be %s", name, value);
  else return PLIM_OK;
  return edited(error, what);
}

static bool is_twice(const plim_plan_file *plan, size_t at) {
  for (size_t i = 0; i < at; i++)
    if (plan->changes.at[i].knob == plan->changes.at[at].knob) return true;
  return false;
}

plim_err plim_plan_file_check_values(const plim_plan_file *plan, plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < plan->changes.len && !err; i++) {
    const plim_knob_change *c = &plan->changes.at[i];
    err = is_twice(plan, i) ? edited(error, "it writes the same knob twice")
                            : check_value(c->knob, &c->value, error);
  }
  for (size_t i = 0; i < plan->by_hand.len && !err; i++)
    err = check_value(plan->by_hand.at[i].knob, &plan->by_hand.at[i].value, error);
  return err;
}
