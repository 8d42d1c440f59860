// Stages of one training, one file each, with different counts. The run must fit in every stage. If one stage has the
// largest value of every count that differs, it needs most memory, and its counts are used. They cannot be changed,
// because no single value suits all stages. If no stage is the largest in all counts, the knobs stay unclear.
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "project_impl.h"

// Counts for which a larger value always needs more memory, and positives, of which one is used at a time.
static const plim_knob counted[] = {PLIM_KNOB_MICRO_BATCH, PLIM_KNOB_ACCUMULATE,
                                    PLIM_KNOB_SEQUENCE,    PLIM_KNOB_LORA_RANK,
                                    PLIM_KNOB_NEGATIVES,   PLIM_KNOB_POSITIVES};
enum { COUNTED = sizeof counted / sizeof *counted };

// A rank of 0 trains all parameters, which needs more memory than any rank.
static bool is_of_one_kind(const plim_project *p, plim_knob knob) {
  const plim_project_knob *k = &p->knobs[knob];
  const plim_project_file *first = p->files.at[k->places[0].file];
  for (size_t i = 0; i < k->place_count; i++) {
    const plim_project_file *f = p->files.at[k->places[i].file];
    if (f->settings.format != first->settings.format || f->is.dialect != first->is.dialect)
      return false;
    const plim_value *v = &k->places[i].value;
    if (v->kind != PLIM_VALUE_INTEGER || (knob == PLIM_KNOB_LORA_RANK && v->integer < 1))
      return false;
  }
  return k->place_count < PLIM_KNOB_PLACES;
}

static const plim_knob_place *place_in(const plim_project_knob *k, size_t file) {
  for (size_t i = 0; i < k->place_count; i++)
    if (k->places[i].file == file) return &k->places[i];
  return NULL;
}

static bool has_most(const plim_project_knob *k, size_t file) {
  const plim_knob_place *own = place_in(k, file);
  for (size_t i = 0; own && i < k->place_count; i++)
    if (k->places[i].value.integer > own->value.integer) return false;
  return own;
}

static bool has_most_of_all(const plim_project *p, size_t file) {
  for (size_t i = 0; i < COUNTED; i++) {
    const plim_project_knob *k = &p->knobs[counted[i]];
    bool is_decisive = k->differs && counted[i] != PLIM_KNOB_POSITIVES;
    if (is_decisive && !has_most(k, file)) return false;
  }
  return true;
}

static void swap_first(plim_project_knob *k, size_t file) {
  for (size_t i = 0; i < k->place_count; i++)
    if (k->places[i].file == file) {
      plim_knob_place first = k->places[0];
      k->places[0] = k->places[i], k->places[i] = first;
      return;
    }
}

static void take(plim_project_knob *k, size_t file) {
  for (size_t i = 0; !place_in(k, file); i++)
    if (has_most(k, k->places[i].file)) file = k->places[i].file;
  swap_first(k, file);
  k->origin = PLIM_EXPLICIT;
  k->value = k->places[0].value;
}

static const plim_project_knob *any_that_differs(const plim_project *p) {
  for (size_t i = 0; i < COUNTED; i++)
    if (p->knobs[counted[i]].differs) return &p->knobs[counted[i]];
  return NULL;
}

// Files of another kind are not stages; their counts are dropped.
static void forget_others(plim_project *p) {
  for (int i = 0; i < PLIM_KNOBS; i++) {
    plim_project_knob *k = &p->knobs[i];
    bool is_counted = false;
    for (size_t c = 0; c < COUNTED; c++) is_counted |= counted[c] == (plim_knob)i;
    if (k->differs && (!is_counted || !is_of_one_kind(p, (plim_knob)i))) k->differs = false;
  }
}

void plim_project_take_stage(plim_project *p) {
  forget_others(p);
  const plim_project_knob *one = any_that_differs(p);
  for (size_t i = 0; one && i < one->place_count; i++) {
    size_t file = one->places[i].file;
    if (!has_most_of_all(p, file)) continue;
    for (size_t k = 0; k < COUNTED; k++)
      if (p->knobs[counted[k]].differs) take(&p->knobs[counted[k]], file);
    return;
  }
  for (size_t k = 0; k < COUNTED; k++) p->knobs[counted[k]].differs = false;
}
