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

// Adam-mini by the names of parameters, of which only biases have Adam's moments (adam_mini.py). Names that are not known
// are those of norms, if they are vectors.
static uint32_t blocks_of(const plim_model *m, const plim_parameter_name *n,
                          int64_t head_elements) {
  static const char biases[] = "bias", heads[] = "k_proj q_proj wq wk query key",
                    rows[] = "embed embd wte lm_head output final_layer v_proj wv value o_proj wo "
                             "attn.proj feed_forward linear mlp";
  const plim_tensor *p = n->tensor;
  if (plim_parameter_is_named(m, n, biases)) return 0;
  if (plim_parameter_is_named(m, n, heads) && head_elements) {
    int64_t blocks = plim_numel(&p->shape) / head_elements;
    return blocks ? (uint32_t)blocks : PLIM_ONE_BLOCK;
  }
  bool has_rows = plim_parameter_is_named(m, n, rows) || n->spot == PLIM_SPOT_UNKNOWN;
  return has_rows && p->shape.n > 1 ? (uint32_t)p->shape.at[0] : PLIM_ONE_BLOCK;
}

void plim_optimizer_prepare(plim_model *m, const plim_optimizer *o, const plim_projection *how) {
  int64_t rank = how->rank ? how->rank : PLIM_PROJECTION_RANK;
  bool asks = o->divides_blocks || o->projects;
  for (size_t i = 0; asks && i < m->names.len; i++) {
    const plim_parameter_name *n = &m->names.at[i];
    if (o->divides_blocks) n->tensor->blocks = blocks_of(m, n, m->head_elements);
    else if (is_projected(m, n, how->names)) n->tensor->blocks = (uint32_t)rank;
  }
}
