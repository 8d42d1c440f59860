#include "delta_net.h"

#include "causal_conv.h"
#include "delta_kernels.h"
#include "delta_rule.h"
#include "kernels.h"
#include "ops.h"
#include "tape_state.h"
#include "work.h"

#include "op_names.h"

const char *plim_delta_net_unfollowed(const plim_config *c) {
  bool has_heads = c->linear_key_heads > 0 && c->linear_value_heads > 0 && c->linear_key_dim > 0 &&
                   c->linear_value_dim > 0 && c->linear_kernel > 0;
  if (!has_heads) return "linear attention without heads";
  return c->linear_value_heads % c->linear_key_heads
             ? "key heads that do not divide its value heads"
             : NULL;
}

// ---- construction -------------------------------------------------------------------------------------

typedef struct {
  int64_t key, value, mixed; // of all heads; mixed: queries, keys and values
} widths;

static widths widths_of(const plim_config *c) {
  widths w = {c->linear_key_heads * c->linear_key_dim, c->linear_value_heads * c->linear_value_dim,
              0};
  w.mixed = 2 * w.key + w.value;
  return w;
}

// model.parameters() lists a module's own parameters before those of its parts; the convolution is made first.
static void put_last(plim_model *m, plim_tensor *p) {
  size_t n = m->parameters.len, i = 0;
  while (i < n && m->parameters.at[i] != p) i++;
  for (; i + 1 < n; i++) m->parameters.at[i] = m->parameters.at[i + 1];
  if (n) m->parameters.at[n - 1] = p;
}

// The module's own parameters. Returns a local variable of the constructor.
static plim_tensor *build_own(plim_tape *t, plim_model *m, int64_t heads, plim_delta_net *n,
                              plim_dtype d) {
  n->dt_bias = plim_model_parameter(t, m, dims(heads), d);
  plim_model_name(m, "linear_attn.dt_bias", "");
  plim_tensor *a = empty(t, dims(heads), d);
  n->a_log = plim_model_parameter(t, m, dims(heads), d);
  plim_model_name(m, "linear_attn.A_log", "");
  n->a_log->decay = PLIM_DECAY_ALWAYS;
  return a;
}

// model.to() moves the parts of a module before its own parameters; 1 and 2 are for adapters.
static void move_own_behind(const plim_delta_net *n, const plim_tensor *last) {
  plim_tape_move_behind(n->dt_bias, last, 3);
  plim_tape_move_behind(n->a_log, last, 4);
}

static void build(plim_tape *t, plim_model *m, const plim_config *c, void *mixer, plim_dtype d) {
  plim_delta_net *n = mixer;
  widths w = widths_of(c);
  int64_t h = c->hidden, heads = c->linear_value_heads;
  n->conv1d = plim_model_parameter(t, m, dims(w.mixed, 1, c->linear_kernel), d);
  plim_model_name(m, "linear_attn.conv1d", "weight");
  plim_tensor *a = build_own(t, m, heads, n, d);
  put_last(m, n->conv1d);
  n->norm = plim_model_parameter(t, m, dims(c->linear_value_dim), d);
  n->out_proj = plim_linear_new(t, m, "linear_attn.out_proj", h, w.value, false, d);
  n->in_proj_qkv = plim_linear_new(t, m, "linear_attn.in_proj_qkv", w.mixed, h, false, d);
  n->in_proj_z = plim_linear_new(t, m, "linear_attn.in_proj_z", w.value, h, false, d);
  n->in_proj_b = plim_linear_new(t, m, "linear_attn.in_proj_b", heads, h, false, d);
  n->in_proj_a = plim_linear_new(t, m, "linear_attn.in_proj_a", heads, h, false, d);
  plim_consume(t, a);
  move_own_behind(n, n->in_proj_a.weight);
}

static void build_joined(plim_tape *t, plim_model *m, const plim_config *c, void *mixer,
                         plim_dtype d) {
  plim_delta_net *n = mixer;
  widths w = widths_of(c);
  int64_t h = c->hidden, heads = c->linear_value_heads;
  n->conv1d = plim_model_parameter(t, m, dims(w.mixed, 1, c->linear_kernel), d);
  plim_model_name(m, "linear_attn.conv1d", "weight");
  n->in_proj_qkvz =
      plim_linear_new(t, m, "linear_attn.in_proj_qkvz", w.mixed + w.value, h, false, d);
  n->in_proj_ba = plim_linear_new(t, m, "linear_attn.in_proj_ba", 2 * heads, h, false, d);
  plim_tensor *a = build_own(t, m, heads, n, d);
  put_last(m, n->conv1d);
  put_last(m, n->in_proj_qkvz.weight);
  put_last(m, n->in_proj_ba.weight);
  n->norm = plim_model_parameter(t, m, dims(c->linear_value_dim), d);
  n->out_proj = plim_linear_new(t, m, "linear_attn.out_proj", h, w.value, false, d);
  plim_consume(t, a);
  move_own_behind(n, n->out_proj.weight);
}

static void initialise(plim_tape *t, const void *mixer, plim_dtype dtype) {
  const plim_delta_net *n = mixer;
  plim_consume(t, empty(t, n->a_log->shape, dtype));
}

static void visit_all(const void *mixer, plim_visit *visit, void *context) {
  const plim_delta_net *n = mixer;
  visit(context, n->a_log);
  visit(context, n->conv1d);
  visit(context, n->dt_bias);
  plim_linear_visit(&n->in_proj_a, visit, context);
  plim_linear_visit(&n->in_proj_b, visit, context);
  plim_linear_visit(&n->in_proj_qkv, visit, context);
  plim_linear_visit(&n->in_proj_z, visit, context);
  visit(context, n->norm);
  plim_linear_visit(&n->out_proj, visit, context);
}

static void visit_joined(const void *mixer, plim_visit *visit, void *context) {
  const plim_delta_net *n = mixer;
  visit(context, n->a_log);
  visit(context, n->conv1d);
  visit(context, n->dt_bias);
  plim_linear_visit(&n->in_proj_ba, visit, context);
  plim_linear_visit(&n->in_proj_qkvz, visit, context);
  visit(context, n->norm);
  plim_linear_visit(&n->out_proj, visit, context);
}

static size_t linears(void *mixer, plim_linear **out) {
  plim_delta_net *n = mixer;
  out[0] = &n->out_proj;
  out[1] = &n->in_proj_qkv;
  out[2] = &n->in_proj_z;
  out[3] = &n->in_proj_b;
  out[4] = &n->in_proj_a;
  return 5;
}

const plim_mixer plim_delta_net_mixer = {.bytes = sizeof(plim_delta_net),
                                         .build = build,
                                         .initialise = initialise,
                                         .visit = visit_all,
                                         .linears = linears};

static size_t joined_linears(void *mixer, plim_linear **out) {
  plim_delta_net *n = mixer;
  out[0] = &n->in_proj_qkvz;
  out[1] = &n->in_proj_ba;
  out[2] = &n->out_proj;
  return 3;
}

const plim_mixer plim_joined_delta_net_mixer = {.bytes = sizeof(plim_delta_net),
                                                .build = build_joined,
                                                .initialise = initialise,
                                                .visit = visit_joined,
                                                .linears = joined_linears};

// ---- forward ------------------------------------------------------------------------------------------

// Variables of the module's forward.
typedef struct {
  plim_tensor *hidden, *mixed, *z, *b, *a, *query, *key, *value, *beta, *g, *out;
  plim_tensor *qkvz, *ba; // of joined projections
} variables;

// -A_log.float().exp() * softplus(a.float() + dt_bias)
static plim_tensor *decay(plim_tape *t, const plim_delta_net *n, plim_tensor *a) {
  plim_tensor *rate = neg(t, exp_(t, to(t, n->a_log, PLIM_FP32)));
  plim_tensor *step = softplus(t, add(t, to(t, a, PLIM_FP32), n->dt_bias));
  return mul(t, rate, step);
}

// The convolution, by whichever package is there. FLA's takes (B,T,C), the others (B,C,T).
static void convolve(plim_tape *t, const plim_delta_net *n, const plim_config *c, variables *v) {
  plim_dims flat = dims(n->conv1d->shape.at[0], n->conv1d->shape.at[2]);
  if (plim_has_package(t, PLIM_PACKAGE_FLA_CONV1D)) {
    set(t, &v->mixed, plim_fla_conv1d(t, v->mixed, view(t, n->conv1d, flat)));
    return;
  }
  set(t, &v->mixed, transpose(t, v->mixed, 1, 2));
  set(t, &v->mixed,
      plim_has_package(t, PLIM_PACKAGE_CAUSAL_CONV1D)
          ? plim_package_conv1d(t, v->mixed, view(t, n->conv1d, flat))
          : plim_causal_conv(t, n->conv1d, NULL, c->activation, v->mixed));
  set(t, &v->mixed, transpose(t, v->mixed, 1, 2));
}

static void mix(plim_tape *t, const plim_delta_net *n, const plim_config *c, variables *v) {
  widths w = widths_of(c);
  int64_t b = v->hidden->shape.at[0], length = v->hidden->shape.at[1];
  convolve(t, n, c, v);
  split_sizes(t, v->mixed, 2, ((int64_t[]){w.key, w.key, w.value}), &v->query, &v->key, &v->value);
  set(t, &v->query, reshape(t, v->query, dims(b, length, -1, c->linear_key_dim)));
  set(t, &v->key, reshape(t, v->key, dims(b, length, -1, c->linear_key_dim)));
  set(t, &v->value, reshape(t, v->value, dims(b, length, -1, c->linear_value_dim)));
  set(t, &v->beta, sigmoid(t, v->b));
  set(t, &v->g, decay(t, n, v->a));
  int64_t times = c->linear_value_heads / c->linear_key_heads;
  if (times == 1) return;
  set(t, &v->query, repeat_each(t, v->query, times, 2));
  set(t, &v->key, repeat_each(t, v->key, times, 2));
}

// transformers used FLA's norm up to 5.14 (models/qwen3_5/modeling_qwen3_5.py).
static bool has_fused_norm(const plim_tape *t) {
  return plim_has_package(t, PLIM_PACKAGE_FLA) && !plim_transformers_from(t, 5, 15);
}

// RMSNormGated: norm(x) * silu(gate), of rows.
static plim_tensor *gated_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight,
                               plim_tensor *gate) {
  plim_tensor *hidden = NULL, *variance = NULL, *out = NULL;
  plim_dtype dtype = (plim_dtype)x->dtype;
  plim_work_modules(t, 1);
  plim_tape_at(t, "norm");
  plim_module_enter(t, weight, NULL);
  if (has_fused_norm(t))
    return plim_module_leave(t, weight, plim_fla_gated_norm(t, x, gate, weight));
  set(t, &hidden, to(t, x, PLIM_FP32));
  set(t, &variance, mean_last(t, square(t, hidden)));
  set(t, &hidden, mul(t, hidden, rsqrt(t, add_scalar(t, variance))));
  set(t, &hidden, mul(t, weight, to(t, hidden, dtype)));
  set(t, &hidden, mul(t, hidden, silu(t, to(t, gate, PLIM_FP32))));
  set(t, &out, to(t, hidden, dtype));
  drop_all(t, &hidden, &variance);
  return plim_module_leave(t, weight, give(t, &out));
}

static plim_tensor *project_out(plim_tape *t, const plim_delta_net *n, variables *v) {
  int64_t b = v->hidden->shape.at[0], length = v->hidden->shape.at[1];
  int64_t width = n->norm->shape.at[0];
  set(t, &v->out, reshape(t, v->out, dims(-1, width)));
  set(t, &v->z, reshape(t, v->z, dims(-1, width)));
  set(t, &v->out, gated_norm(t, v->out, n->norm, v->z));
  set(t, &v->out, reshape(t, v->out, dims(b, length, -1)));
  return plim_linear_forward(t, &n->out_proj, v->out);
}

static void project(plim_tape *t, const plim_delta_net *n, const plim_config *c, variables *v) {
  int64_t b = v->hidden->shape.at[0], length = v->hidden->shape.at[1];
  set(t, &v->mixed, plim_linear_forward(t, &n->in_proj_qkv, v->hidden));
  set(t, &v->z, plim_linear_forward(t, &n->in_proj_z, v->hidden));
  set(t, &v->z, reshape(t, v->z, dims(b, length, -1, c->linear_value_dim)));
  set(t, &v->b, plim_linear_forward(t, &n->in_proj_b, v->hidden));
  set(t, &v->a, plim_linear_forward(t, &n->in_proj_a, v->hidden));
}

// fix_query_key_value_ordering: the columns are ordered by key head.
static void cut_heads(plim_tape *t, const plim_config *c, variables *v) {
  int64_t b = v->qkvz->shape.at[0], length = v->qkvz->shape.at[1];
  int64_t heads = c->linear_key_heads, values = c->linear_value_heads / heads;
  int64_t key = c->linear_key_dim, value = values * c->linear_value_dim;
  plim_tensor *qkvz = NULL, *ba = NULL;
  set(t, &qkvz, view(t, v->qkvz, dims(b, length, heads, 2 * (key + value))));
  set(t, &ba, view(t, v->ba, dims(b, length, heads, 2 * values)));
  split_sizes(t, qkvz, 3, ((int64_t[]){key, key, value, value}), &v->query, &v->key, &v->value,
              &v->z);
  split(t, ba, &v->b, &v->a);
  set(t, &v->value, reshape(t, v->value, dims(b, length, -1, c->linear_value_dim)));
  set(t, &v->z, reshape(t, v->z, dims(b, length, -1, c->linear_value_dim)));
  set(t, &v->b, reshape(t, v->b, dims(b, length, c->linear_value_heads)));
  set(t, &v->a, reshape(t, v->a, dims(b, length, c->linear_value_heads)));
  drop_all(t, &qkvz, &ba);
}

static void project_joined(plim_tape *t, const plim_delta_net *n, const plim_config *c,
                           variables *v) {
  int64_t b = v->hidden->shape.at[0], length = v->hidden->shape.at[1];
  set(t, &v->qkvz, plim_linear_forward(t, &n->in_proj_qkvz, v->hidden));
  set(t, &v->ba, plim_linear_forward(t, &n->in_proj_ba, v->hidden));
  cut_heads(t, c, v);
  set(t, &v->query, reshape(t, v->query, dims(b, length, -1)));
  set(t, &v->key, reshape(t, v->key, dims(b, length, -1)));
  set(t, &v->value, reshape(t, v->value, dims(b, length, -1)));
  set(t, &v->mixed, cat3(t, v->query, v->key, v->value, 2));
}

// Axolotl's code for packed samples of Qwen3.5 casts the decay (monkeypatch/models/qwen3_5/modeling.py).
static plim_tensor *run_rule(plim_tape *t, bool is_joined, const variables *v) {
  if (!plim_has_package(t, PLIM_PACKAGE_FLA))
    return plim_delta_rule(t, v->query, v->key, v->value, v->g, v->beta);
  bool casts = plim_has_package(t, PLIM_PACKAGE_FLA_CONV1D) && !is_joined;
  plim_tensor *g = casts ? to(t, v->g, (plim_dtype)v->query->dtype) : v->g;
  return plim_fla_delta_rule(t, v->query, v->key, v->value, g, v->beta);
}

plim_tensor *plim_delta_net_forward(plim_tape *t, const plim_delta_net *n, const plim_config *c,
                                    plim_tensor *x, plim_tensor *mask) {
  variables v = {0};
  bool is_joined = n->in_proj_qkvz.weight != NULL;
  set(t, &v.hidden, mask ? mul(t, x, unsqueeze(t, mask, 2)) : x);
  if (is_joined) project_joined(t, n, c, &v);
  else project(t, n, c, &v);
  mix(t, n, c, &v);
  set(t, &v.out, run_rule(t, is_joined, &v));
  plim_tensor *out = project_out(t, n, &v);
  drop_all(t, &v.hidden, &v.qkvz, &v.ba);
  if (is_joined) drop_all(t, &v.query, &v.key, &v.value, &v.z, &v.b, &v.a, &v.mixed);
  drop_all(t, &v.mixed, &v.z, &v.b, &v.a, &v.query, &v.key, &v.value, &v.beta, &v.g, &v.out);
  return out;
}
