#include "loading.h"

#include <string.h>

#include "modules.h"

#include "tape_names.h"

typedef struct {
  plim_tape *t;
  plim_model *m;
  plim_weights_kind kind;
  double bytes; // as transformers counts them
} loading;

static double element_bytes(const loading *l, const plim_tensor *p) {
  if (p->declared) return plim_dtype_bytes[p->declared];
  if (!p->is_projection || l->kind == PLIM_WEIGHTS_PLAIN) return plim_dtype_bytes[p->dtype];
  return l->kind == PLIM_WEIGHTS_INT8 ? 1 : 0.5;
}

static void count_bytes(void *context, plim_tensor *p) {
  loading *l = context;
  l->bytes += (double)plim_numel(&p->shape) * element_bytes(l, p);
}

// Parameters that are neither quantised nor assembled from pieces stay on the host; they are moved together afterwards.
static void load_parameter(void *context, plim_tensor *p) {
  loading *l = context;
  if (l->m->assemble && l->m->assemble(l->t, l->m, p)) return;
  if (l->kind == PLIM_WEIGHTS_PLAIN) return;
  plim_tape_written(l->t, PLIM_BY_COPY);
  plim_retype(l->t, p, (plim_dtype)p->dtype);
  if (p->is_projection) plim_quantise(l->t, p, l->kind);
}

static void for_each(plim_model *m, void (*visit)(void *, plim_tensor *), void *context) {
  if (m->in_name_order) m->in_name_order(m, visit, context);
  else
    for (size_t i = 0; i < m->parameters.len; i++) visit(context, m->parameters.at[i]);
}

void plim_move_model(plim_tape *t) {
  plim_tape_end_host(t);
  plim_tape_move_to_device(t);
}

// Buffers are moved last because checkpoints do not contain them.
void plim_load_to_device(plim_tape *t, plim_model *m, plim_weights_kind kind) {
  loading l = {.t = t, .m = m, .kind = kind};
  plim_tape_end_host(t);
  // transformers' caching_allocator_warmup, in units of float16: makes the parameters lie in one segment.
  for_each(m, count_bytes, &l);
  plim_tape_written(t, PLIM_BY_COPY);
  plim_consume(t, scratch(t, (uint64_t)l.bytes / 2 * 2));
  for_each(m, load_parameter, &l);
  plim_tape_move_to_device(t);
  if (m->initialise) m->initialise(t, m, PLIM_FP32);
  if (m->padded) plim_retype(t, m->padded, (plim_dtype)m->padded->dtype);
}

static void quantise_projection(void *context, plim_tensor *p) {
  const loading *l = context;
  if (p->is_projection) plim_quantise(l->t, p, l->kind);
}

void plim_quantise_on_host(plim_tape *t, plim_model *m, plim_weights_kind kind) {
  loading l = {.t = t, .m = m, .kind = kind};
  for_each(m, quantise_projection, &l);
}

static bool is_called(const char *name, const char *const *names) {
  for (; *names; names++)
    if (strcmp(name, *names) == 0) return true;
  return false;
}

// get_linear_embedding_layers of Axolotl's loaders/utils.py, whose names may be a part of a module's (embed_tokens_per_layer);
// a tied embedding of another name is the head's weight, too.
static unsigned end_of(const plim_parameter_name *n, bool ties_embeddings) {
  static const char *const ends[] = {"lm_head", "embed_in", "embed_out", NULL};
  static const char *const tied[] = {"wte", "word_embeddings", NULL};
  if (n->spot == PLIM_SPOT_UNKNOWN) return 0;
  if (!n->path) return n->tensor->shape.n == 1 ? PLIM_END_NORM : 0; // norms have no name here
  if (strstr(n->path, "norm")) return PLIM_END_NORM;
  const char *dot = strrchr(n->path, '.'), *name = dot ? dot + 1 : n->path;
  if (strcmp(name, "gate") == 0) return PLIM_END_GATE;
  bool is_table = strncmp(name, "embed_tokens", 12) == 0 || is_called(name, ends) ||
                  (ties_embeddings && is_called(name, tied));
  return is_table ? PLIM_END_TABLE : 0;
}

void plim_retype_ends(plim_tape *t, plim_model *m, bool ties_embeddings, unsigned kinds,
                      plim_dtype dtype) {
  for (size_t i = 0; i < m->names.len; i++) {
    plim_tensor *p = m->names.at[i].tensor;
    bool is_number = p->dtype == PLIM_BF16 || p->dtype == PLIM_FP16 || p->dtype == PLIM_FP32;
    bool is_asked = end_of(&m->names.at[i], ties_embeddings) & kinds;
    if (is_asked && is_number && !p->quant && p->dtype != dtype) plim_retype(t, p, dtype);
  }
}

static bool is_table(const plim_model *m, const plim_tensor *p, bool ties_embeddings) {
  for (size_t i = 0; i < m->names.len; i++)
    if (m->names.at[i].tensor == p)
      return end_of(&m->names.at[i], ties_embeddings) & PLIM_END_TABLE;
  return false;
}

void plim_prepare_kbit(plim_tape *t, plim_model *m, bool leaves_tables, bool ties_embeddings) {
  for (size_t i = 0; i < m->parameters.len; i++) {
    plim_tensor *p = m->parameters.at[i];
    if (p->quant || p->dtype == PLIM_FP32) continue;
    if (!leaves_tables || !is_table(m, p, ties_embeddings)) plim_retype(t, p, PLIM_FP32);
  }
}
