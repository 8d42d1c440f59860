#include "trained.h"

#include <stdio.h>
#include <string.h>

#include "family.h"
#include "lora_pattern.h"

#include "tape_names.h"

enum { NAME_BYTES = 160, PATTERN_BYTES = 256 };

// "model.layers.3.mlp.up_proj.weight", "model.norm.weight", "lm_head.weight"
static void name_of(const plim_model *m, const plim_parameter_name *n, char text[NAME_BYTES]) {
  const char *path = n->path ? n->path : "norm", *dot = strrchr(m->place, '.');
  int used = 0, beside = dot ? (int)(dot - m->place) + 1 : 0;
  if (n->spot > 0) used = snprintf(text, NAME_BYTES, "%s.%lld.", m->place, (long long)n->spot - 1);
  else if (n->spot == PLIM_SPOT_BESIDE) used = snprintf(text, NAME_BYTES, "%.*s", beside, m->place);
  snprintf(text + used, NAME_BYTES - (size_t)used, "%s%s%s", path, *n->end ? "." : "", n->end);
}

static bool is_named(const char *patterns, const char *name) {
  char pattern[PATTERN_BYTES];
  while (*patterns) {
    size_t length = strcspn(patterns, " ");
    snprintf(pattern, sizeof pattern, "%.*s", (int)length, patterns);
    if (length && plim_lora_pattern_occurs(pattern, name)) return true;
    patterns += length + (patterns[length] == ' ');
  }
  return false;
}

static bool fits_any(const plim_model *m, const char *pattern) {
  char name[NAME_BYTES];
  for (size_t i = 0; i < m->names.len; i++) {
    // Parameters of towers have no names here: the expression may be about them.
    if (m->names.at[i].spot == PLIM_SPOT_UNKNOWN) return true;
    name_of(m, &m->names.at[i], name);
    if (plim_lora_pattern_occurs(pattern, name)) return true;
  }
  return false;
}

static void find_unmatched(const plim_model *m, const char *patterns, plim_trained_count *out) {
  char pattern[PATTERN_BYTES];
  for (size_t length; *patterns; patterns += length + (patterns[length] == ' ')) {
    length = strcspn(patterns, " ");
    snprintf(pattern, sizeof pattern, "%.*s", (int)length, patterns);
    if (!length || fits_any(m, pattern)) continue;
    if (!out->unmatched_count++) snprintf(out->unmatched, sizeof out->unmatched, "%.127s", pattern);
  }
}

// Parameters of towers have no names here: what sees images is not trained.
bool plim_parameter_is_named(const plim_model *m, const plim_parameter_name *n,
                             const char *patterns) {
  char name[NAME_BYTES];
  if (n->spot == PLIM_SPOT_UNKNOWN || !m->place) return false;
  name_of(m, n, name);
  return is_named(patterns, name);
}

// Keeps the order of model.parameters(): a trained parameter is behind the frozen one before it.
static void divide(plim_model *m) {
  size_t kept = 0;
  for (size_t i = 0; i < m->parameters.len; i++) {
    plim_tensor *p = m->parameters.at[i];
    if (p->requires_grad) {
      p->behind = m->frozen.len ? m->frozen.at[m->frozen.len - 1] : NULL;
      m->parameters.at[kept++] = p;
    } else if (!vec_push(&m->frozen, p)) m->failed = true;
  }
  m->parameters.len = kept;
}

void plim_train_named(plim_tape *t, plim_model *m, const plim_trained *which) {
  if (!m->place) return;
  for (size_t i = 0; i < m->names.len; i++)
    m->names.at[i].tensor->requires_grad =
        plim_parameter_is_named(m, &m->names.at[i], which->names);
  divide(m);
  m->is_partly_trained = true;
  for (size_t i = 0; which->is_widened && i < m->parameters.len; i++)
    if (m->parameters.at[i]->dtype != PLIM_FP32) plim_retype(t, m->parameters.at[i], PLIM_FP32);
}

bool plim_layer_is_trained(const plim_model *m, int64_t layer) {
  for (size_t i = 0; i < m->names.len; i++)
    if (m->names.at[i].spot == layer + 1 && m->names.at[i].tensor->requires_grad) return true;
  return false;
}

static void ignore(void *context, plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  (void)context, (void)kind, (void)id, (void)bytes;
}

plim_err plim_trained_check(const plim_config *c, const plim_trained *which,
                            plim_trained_count *out, plim_error *error) {
  *out = (plim_trained_count){0};
  plim_tape *t = plim_tape_new((plim_tape_sink){.event = ignore});
  plim_model *m = t ? c->family->build(t, c, PLIM_BF16) : NULL;
  plim_err err =
      m ? PLIM_OK : plim_fail(error, PLIM_ERR_NOMEM, "not enough memory on this machine");
  if (m) {
    out->has_names = m->place != NULL;
    out->elements = m->elements;
    if (out->has_names) find_unmatched(m, which->names, out);
    plim_train_named(t, m, &(plim_trained){which->names, false});
    for (size_t i = 0; i < m->parameters.len; i++)
      out->trained += (uint64_t)plim_numel(&m->parameters.at[i]->shape);
  }
  plim_model_delete(m);
  plim_tape_delete(t);
  return err;
}
