#include "loading.h"

#include "modules.h"

typedef struct {
  plim_tape *t;
  plim_weights_kind kind;
  double bytes; // as transformers counts them
} loading;

static double element_bytes(const loading *l, const plim_tensor *p) {
  if (!p->is_projection) return plim_dtype_bytes[p->dtype];
  return l->kind == PLIM_WEIGHTS_INT8 ? 1 : 0.5;
}

static void count_bytes(void *context, plim_tensor *p) {
  loading *l = context;
  l->bytes += (double)plim_numel(&p->shape) * element_bytes(l, p);
}

static void load_parameter(void *context, plim_tensor *p) {
  loading *l = context;
  plim_retype(l->t, p, (plim_dtype)p->dtype);
  if (p->is_projection) plim_quantise(l->t, p, l->kind);
}

static void for_each(plim_model *m, void (*visit)(void *, plim_tensor *), void *context) {
  if (m->in_name_order) m->in_name_order(m, visit, context);
  else
    for (size_t i = 0; i < m->parameters.len; i++) visit(context, m->parameters.at[i]);
}

// One block of the size of all of it is taken and given back first: caching_allocator_warmup.
void plim_load_quantised(plim_tape *t, plim_model *m, plim_weights_kind kind) {
  loading l = {.t = t, .kind = kind};
  for_each(m, count_bytes, &l);
  plim_consume(t, scratch(t, (uint64_t)l.bytes / 2 * 2));
  for_each(m, load_parameter, &l);
  for (size_t i = 0; i < m->buffers.len; i++)
    plim_retype(t, m->buffers.at[i], (plim_dtype)m->buffers.at[i]->dtype);
}

void plim_prepare_kbit(plim_tape *t, plim_model *m) {
  for (size_t i = 0; i < m->parameters.len; i++) {
    plim_tensor *p = m->parameters.at[i];
    if (!p->quant && p->dtype != PLIM_FP32) plim_retype(t, p, PLIM_FP32);
  }
  plim_tape_empty_cache(t);
}
