#include "gemma4.h"
#include "modules.h"
#include "moe.h"
#include "ops.h"

#include "op_names.h"

const plim_mixture plim_gemma4_experts = {.is_stored_whole = true};

// ---- construction -----------------------------------------------------------------------------------

// model.parameters() lists the parameters of the router itself before that of its linear layer.
static void add_router(plim_tape *t, plim_model *m, const plim_config *c, plim_dtype d,
                       plim_gemma4_mixture *out) {
  size_t first = m->parameters.len;
  out->projection = plim_linear_new(t, m, "router.proj", c->experts, c->hidden, false, d);
  out->scale = plim_model_parameter(t, m, dims(c->hidden), d);
  out->expert_scale = plim_model_parameter(t, m, dims(c->experts), d);
  if (m->failed) return;
  m->parameters.at[first] = out->scale;
  m->parameters.at[first + 1] = out->expert_scale;
  m->parameters.at[first + 2] = out->projection.weight;
}

plim_gemma4_mixture plim_gemma4_mixture_new(plim_tape *t, plim_model *m, const plim_config *c,
                                            plim_dtype d) {
  plim_gemma4_mixture out = {.experts = {.kind = &plim_gemma4_experts, .c = c}};
  int64_t n = c->experts, h = c->hidden, i = c->expert_width;
  add_router(t, m, c, d, &out);
  out.experts.gate_up = plim_model_parameter(t, m, dims(n, 2 * i, h), d);
  out.experts.down = plim_model_parameter(t, m, dims(n, h, i), d);
  out.post_mlp_norm = plim_model_parameter(t, m, dims(h), d);
  out.post_norm = plim_model_parameter(t, m, dims(h), d);
  out.pre_norm = plim_model_parameter(t, m, dims(h), d);
  return out;
}

// ---- forward ----------------------------------------------------------------------------------------

plim_tensor *plim_gemma4_norm(plim_tape *t, plim_tensor *x, plim_tensor *scale) {
  plim_tensor *wide = NULL, *mean = NULL, *out = NULL;
  plim_tape_at(t, "norm");
  plim_work_modules(t, 1);
  if (scale) plim_module_enter(t, scale, NULL);
  bool was = hold(x);
  set(t, &wide, to(t, x, PLIM_FP32));
  set(t, &mean, add_scalar(t, mean_last(t, square(t, wide))));
  set(t, &out, mul(t, wide, square(t, mean)));
  drop_all(t, &wide, &mean);
  if (scale) set(t, &out, mul(t, out, to(t, scale, PLIM_FP32)));
  set(t, &out, to(t, out, (plim_dtype)x->dtype));
  let_go(t, x, was);
  plim_tensor *result = give(t, &out);
  return scale ? plim_module_leave(t, scale, result) : result;
}

static void route(plim_tape *t, const plim_gemma4_mixture *m, plim_tensor *rows,
                  plim_tensor **probabilities, plim_gemma4_mixing *v) {
  plim_tensor *hidden = NULL, *scores = NULL, *likely = NULL, *shares = NULL, *chosen = NULL;
  plim_tape_at(t, "gate");
  set(t, &hidden, plim_gemma4_norm(t, rows, NULL));
  set(t, &hidden, mul_scalar(t, mul(t, hidden, m->scale)));
  set(t, &scores, plim_linear_forward(t, &m->projection, hidden));
  set(t, &likely, softmax(t, scores, PLIM_FP32));
  topk(t, likely, m->experts.c->experts_per_token, &shares, &chosen);
  div_in_place(t, shares, sum_dim(t, shares, 1, true, PLIM_FP32));
  set(t, &shares, mul(t, shares, index_rows(t, m->expert_scale, chosen)));
  drop_all(t, &hidden, &scores);
  set(t, probabilities, likely);
  set(t, &v->shares, shares);
  set(t, &v->chosen, chosen);
  drop_all(t, &likely, &shares, &chosen);
}

plim_tensor *plim_gemma4_mix(plim_tape *t, const plim_gemma4_mixture *m, plim_tensor *residual,
                             plim_tensor *hidden, plim_gemma4_mixing *v,
                             plim_tensor **probabilities) {
  plim_dims shape = residual->shape;
  set(t, &v->dense, plim_gemma4_norm(t, hidden, m->post_mlp_norm));
  set(t, &v->rows, reshape(t, residual, dims(-1, shape.at[2])));
  route(t, m, v->rows, probabilities, v);
  set(t, &v->routed, plim_gemma4_norm(t, v->rows, m->pre_norm));
  set(t, &v->routed, plim_experts_run(t, &m->experts, v->routed, v->shares, v->chosen));
  set(t, &v->routed, reshape(t, v->routed, shape));
  set(t, &v->routed, plim_gemma4_norm(t, v->routed, m->post_norm));
  return add(t, v->dense, v->routed);
}

void plim_gemma4_mixing_drop(plim_tape *t, plim_gemma4_mixing *v) {
  drop_all(t, &v->dense, &v->rows, &v->shares, &v->chosen, &v->routed);
}
