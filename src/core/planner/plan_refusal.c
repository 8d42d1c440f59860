// Explains why a search found nothing: no batch may be tried, or the named values are impossible, alone or together.
#include <stdio.h>
#include <string.h>

#include "candidate_families.h"

static bool has_splits(const plim_search *s) {
  plim_split_list alone, passes;
  plim_concessions concessions = plim_concession_of_all(s, false);
  plim_splits_of(&concessions, true, &alone);
  plim_splits_of(&concessions, false, &passes);
  return alone.count || passes.count;
}

// The divisor of `whole` that is nearest to `value` in this direction; 0: none.
static uint64_t divisor_near(uint64_t whole, uint64_t value, int direction) {
  uint64_t at = value;
  while (at >= 1 && at <= whole && whole % at) at = direction < 0 ? at - 1 : at + 1;
  return at >= 1 && at <= whole ? at : 0;
}

static plim_err one_does_not_divide(const plim_plan_request *r, plim_error *error) {
  uint64_t micro = (uint64_t)r->domains[PLIM_KNOB_MICRO_BATCH].at[0];
  uint64_t world = (uint64_t)r->world, each = r->effective_batch / world;
  uint64_t below = divisor_near(each, micro < each ? micro : each, -1);
  uint64_t above = divisor_near(each, micro, 1);
  char gpus[40] = "", other[40] = "";
  if (world > 1) snprintf(gpus, sizeof gpus, " on %llu GPUs", (unsigned long long)world);
  if (above && above != below) snprintf(other, sizeof other, " or %llu", (unsigned long long)above);
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           "micro_batch=%llu does not divide the effective batch of %llu%s",
                           (unsigned long long)micro, (unsigned long long)r->effective_batch, gpus);
  plim_error_hint(error, "--fix micro_batch=%llu%s, or --effective-batch any",
                  (unsigned long long)below, other);
  return err;
}

static plim_err nothing_divides(const plim_plan_request *r, plim_error *error) {
  bool is_one = r->domains[PLIM_KNOB_MICRO_BATCH].count == 1 &&
                !r->domains[PLIM_KNOB_ACCUMULATE].count && r->world > 0;
  if (is_one && r->effective_batch % (uint64_t)r->world == 0) return one_does_not_divide(r, error);
  plim_err err = plim_fail(
      error, PLIM_ERR_ARGUMENT,
      "no micro batch and accumulation among the values to try give an effective batch of %llu",
      (unsigned long long)r->effective_batch);
  plim_error_hint(error, "use --effective-batch any, or other values for --try and --fix");
  return err;
}

// ---- values that are impossible ---------------------------------------------------------------------

typedef struct {
  char text[80]; // "liger=on"
} setting;

static setting setting_of(plim_knob knob, int64_t value) {
  char text[48];
  setting out;
  plim_knob_value_text(knob, value, text, sizeof text);
  snprintf(out.text, sizeof out.text, "%s=%s", plim_knob_table[knob].name, text);
  return out;
}

static bool has_program(const plim_plan_request *r, const plim_choice *choice, plim_error *why) {
  plim_estimate e;
  return plim_choice_is_sound(r, choice) && !plim_choice_estimate(r, choice, &e, why);
}

// Whether the user's own settings are not supported with any of the values named for the knob. *out has the last one.
static bool cannot_be(const plim_plan_request *r, plim_knob knob, plim_choice *out,
                      plim_error *why) {
  const plim_domain *d = &r->domains[knob];
  *out = plim_plan_own_choice(r);
  for (int i = 0; i < d->count; i++) {
    out->at[knob] = d->at[i];
    if (has_program(r, out, why)) return false;
  }
  return d->count;
}

// The knob of the user's own settings that conflicts with it; PLIM_KNOBS if there is none.
static plim_knob partner_of(const plim_plan_request *r, plim_knob knob, const plim_choice *choice) {
  for (size_t i = 0; i < plim_plan_knob_count; i++) {
    plim_choice other = *choice;
    plim_knob at = plim_plan_knobs[i];
    if (at == knob || !other.at[at]) continue;
    other.at[at] = 0;
    if (has_program(r, &other, NULL)) return at;
  }
  return PLIM_KNOBS;
}

static plim_err refuse_together(const plim_plan_request *r, plim_error *error) {
  char names[200] = "";
  size_t used = 0;
  for (size_t i = 0; i < plim_plan_knob_count; i++) {
    plim_knob knob = plim_plan_knobs[i];
    if (!r->domains[knob].count || used + 24 > sizeof names) continue;
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "",
                             plim_knob_table[knob].name);
  }
  if (!used)
    return plim_fail(error, PLIM_ERR_ARGUMENT,
                     "these settings do not work together: no valid run can be predicted");
  plim_err err = plim_fail(
      error, PLIM_ERR_ARGUMENT,
      "these --fix and --try values do not work together: no combination of %s gives a valid run",
      names);
  plim_error_hint(error, "remove one --fix or --try, or give more values");
  return err;
}

static plim_err refuse_pair(plim_knob knob, plim_knob partner, const plim_choice *choice,
                            plim_error *error) {
  setting named = setting_of(knob, choice->at[knob]);
  setting own = setting_of(partner, choice->at[partner]), off = setting_of(partner, 0);
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           "%s does not work with %s, which your run uses", named.text, own.text);
  plim_error_hint(error, "add --fix %s, or remove --fix %s", off.text, named.text);
  return err;
}

// The row by which the framework does not have a value; NULL: there is none.
static const plim_refused_pair *without_value(const plim_plan_request *r, plim_knob knob,
                                              const char *value) {
  for (size_t i = 0; i < r->refused_count && value; i++) {
    const plim_refused_pair *x = &r->refused[i];
    if (x->knob[0] == knob && x->knob[1] == knob && strcmp(x->values[0], value) == 0) return x;
  }
  return NULL;
}

static plim_err refuse(const plim_plan_request *r, plim_knob knob, const plim_choice *choice,
                       const plim_error *why, plim_error *error) {
  plim_knob partner = partner_of(r, knob, choice);
  if (partner != PLIM_KNOBS)
    return r->domains[partner].count ? refuse_together(r, error)
                                     : refuse_pair(knob, partner, choice, error);
  const plim_refused_pair *lacks =
      without_value(r, knob, plim_knob_value_name(knob, choice->at[knob]));
  const char *reason = why->message[0] || !lacks ? why->message : lacks->why;
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "%s is not possible here%s%.150s",
                           setting_of(knob, choice->at[knob]).text, *reason ? ": " : "", reason);
  if (lacks && lacks->instead) plim_error_hint(error, "%s in place of it", lacks->instead);
  else plim_error_hint(error, "remove --fix and --try for %s", plim_knob_table[knob].name);
  return err;
}

static plim_err refuse_own(const plim_plan_request *r, const plim_refused_pair *pair,
                           plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           "%s, and the search keeps what these files have", pair->why);
  if (r->holds_others)
    plim_error_hint(error, "also --try other values of %s or %s, or plan without --try",
                    plim_knob_table[pair->knob[0]].name, plim_knob_table[pair->knob[1]].name);
  return err;
}

plim_err plim_search_refuse(const plim_search *s, plim_error *error) {
  const plim_plan_request *r = s->r;
  const plim_refused_pair *own = plim_plan_refused(r, &s->plan->before_choice);
  if (!has_splits(s)) return nothing_divides(r, error);
  if (own) return refuse_own(r, own, error);
  for (size_t i = 0; i < plim_plan_knob_count; i++) {
    plim_choice choice;
    plim_error why = {0};
    if (cannot_be(r, plim_plan_knobs[i], &choice, &why))
      return refuse(r, plim_plan_knobs[i], &choice, &why, error);
  }
  return refuse_together(r, error);
}
