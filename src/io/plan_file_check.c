#include "plan_file_check.h"

#include <string.h>

#include "alloc_conf.h"
#include "plan.h"

// What a count may be. Nobody's batch, sequence or rank is larger: a larger one is a slip.
static const struct {
  plim_knob knob;
  int64_t least, most;
} ranges[] = {
    {PLIM_KNOB_MICRO_BATCH, 1, 1 << 20},  {PLIM_KNOB_ACCUMULATE, 1, 1 << 20},
    {PLIM_KNOB_CHUNKED_LOSS, 0, 1 << 24}, {PLIM_KNOB_SEQUENCE, 1, 1 << 24},
    {PLIM_KNOB_LORA_RANK, 0, 1 << 16},    {PLIM_KNOB_POSITIVES, 0, 1 << 16},
    {PLIM_KNOB_NEGATIVES, 0, 1 << 16},
};

static plim_err edited(plim_error *error, const char *what) {
  plim_err err = plim_fail(error, PLIM_ERR_PARSE, "the plan was edited by hand: %s", what);
  plim_error_hint(error, "hold a setting of your own with plimsoll plan FILES --fix KNOB=VALUE, "
                         "so that it is known to fit");
  return err;
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

static bool is_in_rung(const json_t *rung, plim_knob knob, const plim_value *v) {
  const json_t *said = json_object_get(rung, plim_knob_table[knob].name);
  if (v->kind == PLIM_VALUE_INTEGER)
    return json_is_integer(said) && json_integer_value(said) == v->integer;
  if (json_is_boolean(said)) return strcmp(v->text, json_is_true(said) ? "on" : "off") == 0;
  return json_is_string(said) && strcmp(json_string_value(said), v->text) == 0;
}

static plim_err check_value(const json_t *rung, plim_knob knob, const plim_value *v,
                            plim_error *error) {
  char value[96], what[240];
  const char *name = plim_knob_table[knob].name;
  plim_value_print(v, value, sizeof value);
  if (!json_object_get(rung, name)) snprintf(what, sizeof what, "no plan writes %s", name);
  else if (!is_possible(knob, v)) snprintf(what, sizeof what, "%s cannot be %s", name, value);
  else if (!is_in_rung(rung, knob, v))
    snprintf(what, sizeof what, "it writes %s %s, which is not what its ladder says", name, value);
  else return PLIM_OK;
  return edited(error, what);
}

static bool is_twice(const plim_plan_file *plan, size_t at) {
  for (size_t i = 0; i < at; i++)
    if (plan->changes.at[i].knob == plan->changes.at[at].knob) return true;
  return false;
}

// GPUs of a rung, by its batch; 0: it does not multiply out.
static int64_t world_of(const json_t *rung) {
  int64_t micro = json_integer_value(json_object_get(rung, "micro_batch"));
  int64_t passes = json_integer_value(json_object_get(rung, "accumulate"));
  int64_t all = json_integer_value(json_object_get(rung, "effective_batch"));
  bool is_sane = is_count(PLIM_KNOB_MICRO_BATCH, micro) && is_count(PLIM_KNOB_ACCUMULATE, passes);
  return is_sane && all > 0 && all % (micro * passes) == 0 ? all / (micro * passes) : 0;
}

static plim_err check_batch(const json_t *ladder, plim_error *error) {
  int64_t world = world_of(json_array_get(ladder, 0));
  for (size_t i = 0; i < json_array_size(ladder); i++)
    if (!world || world_of(json_array_get(ladder, i)) != world)
      return edited(error, "micro_batch, accumulate and the GPUs do not multiply out to its "
                           "effective batch");
  return PLIM_OK;
}

plim_err plim_plan_file_check(const json_t *ladder, size_t rung, const plim_plan_file *plan,
                              plim_error *error) {
  const json_t *says = json_array_get(ladder, rung);
  plim_err err = check_batch(ladder, error);
  for (size_t i = 0; i < plan->changes.len && !err; i++) {
    const plim_knob_change *c = &plan->changes.at[i];
    err = is_twice(plan, i) ? edited(error, "it writes a knob twice")
                            : check_value(says, c->knob, &c->value, error);
  }
  for (size_t i = 0; i < plan->by_hand.len && !err; i++)
    err = check_value(says, plan->by_hand.at[i].knob, &plan->by_hand.at[i].value, error);
  return err;
}
