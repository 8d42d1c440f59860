// What optimizers need to know about each parameter, by its name.
#include "optimizer_impl.h"
#include "trained.h"

// torch.nn.Linear. A head that is tied to the embedding has no name of its own.
static bool is_linear(const plim_model *m, const plim_parameter_name *n) {
  bool is_head = n->tensor == m->head && n->spot == PLIM_SPOT_OUTSIDE;
  return (n->tensor->is_projection || is_head) && n->tensor->shape.n == 2;
}

static bool is_projected(const plim_model *m, const plim_parameter_name *n, const char *patterns) {
  if (!patterns) return n->tensor != m->head && is_linear(m, n);
  return is_linear(m, n) && plim_parameter_is_named(m, n, patterns);
}

void plim_optimizer_prepare(plim_model *m, const plim_optimizer *o, const plim_projection *how) {
  for (size_t i = 0; i < m->names.len; i++) m->names.at[i].tensor->blocks = 0;
  int64_t rank = how->rank ? how->rank : PLIM_PROJECTION_RANK;
  for (size_t i = 0; o->projects && i < m->names.len; i++)
    if (is_projected(m, &m->names.at[i], how->names))
      m->names.at[i].tensor->blocks = (uint32_t)rank;
}
