// Linear layers and the LoRA adapters on them.
#include "modules.h"
#include "ops.h"
#include "quantised.h"
#include "tape_state.h"
#include "work.h"

#include "op_names.h"

const char *const plim_projection_names[PLIM_PROJECTIONS] = {
    [PLIM_Q_PROJ] = "q_proj",
    [PLIM_K_PROJ] = "k_proj",
    [PLIM_V_PROJ] = "v_proj",
    [PLIM_O_PROJ] = "o_proj",
    [PLIM_QKV_PROJ] = "qkv_proj",
    [PLIM_GATE_PROJ] = "gate_proj",
    [PLIM_UP_PROJ] = "up_proj",
    [PLIM_GATE_UP_PROJ] = "gate_up_proj",
    [PLIM_DOWN_PROJ] = "down_proj",
    [PLIM_C_ATTN] = "c_attn",
    [PLIM_C_PROJ] = "c_proj",
    [PLIM_C_FC] = "c_fc",
    [PLIM_QUERY_KEY_VALUE] = "query_key_value",
    [PLIM_DENSE] = "dense",
    [PLIM_DENSE_H_TO_4H] = "dense_h_to_4h",
    [PLIM_DENSE_4H_TO_H] = "dense_4h_to_h",
    [PLIM_QUERY] = "query",
    [PLIM_KEY] = "key",
    [PLIM_VALUE] = "value",
    [PLIM_Q] = "q",
    [PLIM_K] = "k",
    [PLIM_V] = "v",
    [PLIM_O] = "o",
    [PLIM_WI] = "wi",
    [PLIM_WI_0] = "wi_0",
    [PLIM_WI_1] = "wi_1",
    [PLIM_WO] = "wo",
};

static plim_linear linear_as(plim_projection projection) {
  return (plim_linear){.projection = projection, .name = plim_projection_names[projection]};
}

plim_linear plim_linear_new(plim_tape *t, plim_model *m, plim_projection projection, int64_t out,
                            int64_t in, bool has_bias, plim_dtype dtype) {
  plim_linear l = linear_as(projection);
  l.weight = plim_model_parameter(t, m, dims(out, in), dtype);
  l.weight->is_projection = true;
  if (has_bias) l.bias = plim_model_parameter(t, m, dims(out), dtype);
  return l;
}

plim_linear plim_conv1d_new(plim_tape *t, plim_model *m, plim_projection projection, int64_t in,
                            int64_t out, plim_dtype dtype) {
  plim_linear l = linear_as(projection);
  l.is_conv1d = true;
  l.weight = plim_model_parameter(t, m, dims(in, out), dtype);
  l.weight->is_projection = l.weight->is_flipped = true;
  l.bias = plim_model_parameter(t, m, dims(out), dtype);
  return l;
}

void plim_linear_visit(const plim_linear *l, plim_visit *visit, void *context) {
  if (l->bias) visit(context, l->bias);
  if (l->weight) visit(context, l->weight);
}

void plim_lora_begin(plim_model *m) {
  for (size_t i = 0; i < m->parameters.len; i++) {
    m->parameters.at[i]->requires_grad = false;
    if (!vec_push(&m->frozen, m->parameters.at[i])) m->failed = true;
  }
  m->parameters.len = 0;
}

// Adapters have the compute dtype of the base layer; LLM.int8() has none, so there they are float32.
static plim_dtype adapter_dtype(const plim_tensor *weight) {
  if (!weight->quant) return (plim_dtype)weight->dtype;
  return weight->quant->kind == PLIM_WEIGHTS_INT8 ? PLIM_FP32 : weight->quant->compute;
}

static void add_adapter(plim_tape *t, plim_model *m, const plim_lora *lora, plim_linear *l) {
  plim_dtype dtype = adapter_dtype(l->weight);
  int64_t in = l->weight->shape.at[!l->weight->is_flipped];
  int64_t out = l->weight->shape.at[l->weight->is_flipped];
  l->lora_a = plim_model_parameter(t, m, dims(lora->rank, in), dtype);
  l->lora_b = plim_model_parameter(t, m, dims(out, lora->rank), dtype);
  l->dropout = lora->dropout;
  const plim_tensor *last = l->bias ? l->bias : l->weight; // last parameter of the wrapped module
  l->lora_a->behind = l->lora_b->behind = last;
  plim_tape_move_behind(l->lora_a, last, 1);
  plim_tape_move_behind(l->lora_b, last, 2);
}

void plim_lora_add(plim_tape *t, plim_model *m, const plim_lora *lora, plim_linear *const *layers,
                   size_t count) {
  for (size_t i = 0; i < count; i++)
    if (layers[i]->weight && lora->targets >> layers[i]->projection & 1)
      add_adapter(t, m, lora, layers[i]);
}

void plim_lora_end(plim_tape *t, plim_model *m, const plim_lora *lora) {
  if (lora->keeps_dtype) return;
  for (size_t i = 0; i < m->parameters.len; i++)
    if (m->parameters.at[i]->dtype != PLIM_FP32) plim_retype(t, m->parameters.at[i], PLIM_FP32);
}

// Conv1D: addmm over the flattened rows. Autocast casts weight, input, bias in this order.
static plim_tensor *conv1d(plim_tape *t, const plim_linear *p, plim_tensor *x) {
  plim_dims shape = x->shape;
  bool was = hold(x);
  plim_tensor *rows = NULL;
  set(t, &rows, view(t, x, dims(-1, shape.at[2])));
  plim_tensor *weight = cast(t, p->weight), *input = cast(t, rows), *bias = cast(t, p->bias);
  shape.at[2] = p->weight->shape.at[1];
  plim_tensor *out = view(t, addmm(t, bias, input, weight), shape);
  drop(t, &rows);
  let_go(t, x, was);
  return out;
}

static plim_tensor *base_forward(plim_tape *t, const plim_linear *p, plim_tensor *x) {
  plim_module_enter(t, p->weight, p->bias);
  plim_tensor *out = p->weight->quant ? plim_quantised_linear(t, x, p->weight, p->bias)
                     : p->is_conv1d   ? conv1d(t, p, x)
                                      : linear(t, x, p->weight, p->bias);
  return plim_module_leave(t, p->weight, out);
}

static plim_tensor *adapter(plim_tape *t, plim_tensor *x, plim_tensor *weight) {
  plim_module_enter(t, weight, NULL);
  return plim_module_leave(t, weight, linear(t, x, weight, NULL));
}

// peft's layer over a quantised one: the adapter's output is cast, not the sum, and only if autocast does not do it.
// Over a 4-bit layer the base's output is cloned first.
static plim_tensor *quantised_lora(plim_tape *t, const plim_linear *p, plim_tensor *x) {
  plim_tensor *result = NULL, *input = NULL, *delta = NULL;
  bool was = hold(x), converts = !plim_autocast_is_on(t);
  set(t, &result, base_forward(t, p, x));
  if (p->weight->quant->kind != PLIM_WEIGHTS_INT8) set(t, &result, contiguous_copy(t, result));
  plim_dtype dtype = (plim_dtype)result->dtype;
  set(t, &input, converts ? to(t, x, (plim_dtype)p->lora_a->dtype) : x);
  plim_tensor *inner = adapter(t, dropout(t, input, p->dropout), p->lora_a);
  set(t, &delta, mul_scalar(t, adapter(t, inner, p->lora_b)));
  if (converts) set(t, &delta, to(t, delta, dtype));
  set(t, &result, add(t, result, delta));
  drop(t, &input);
  plim_tensor *out = give(t, &result);
  drop(t, &delta);
  let_go(t, x, was);
  return out;
}

// peft's layer, the layer it wraps, dropout and both matrices are modules.
enum { MODULES_OF_LORA = 5 };

plim_tensor *plim_linear_forward(plim_tape *t, const plim_linear *p, plim_tensor *x) {
  plim_tape_at(t, p->name);
  plim_work_modules(t, p->lora_a ? MODULES_OF_LORA : 1);
  if (!p->lora_a) return base_forward(t, p, x);
  if (p->weight->quant) return quantised_lora(t, p, x);
  plim_tensor *result = NULL, *input = NULL;
  bool was = hold(x);
  set(t, &result, base_forward(t, p, x));
  plim_dtype dtype = (plim_dtype)result->dtype;
  set(t, &input, to(t, x, (plim_dtype)p->lora_a->dtype));
  plim_tensor *inner = adapter(t, dropout(t, input, p->dropout), p->lora_a);
  plim_tensor *delta = mul_scalar(t, adapter(t, inner, p->lora_b));
  set(t, &result, add(t, result, delta));
  set(t, &result, to(t, result, dtype));
  drop(t, &input);
  plim_tensor *out = give(t, &result);
  let_go(t, x, was);
  return out;
}
