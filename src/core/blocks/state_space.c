#include "state_space.h"

#include "causal_conv.h"
#include "kernels.h"
#include "ops.h"
#include "state_kernels.h"
#include "state_scan.h"
#include "tape_state.h"
#include "work.h"

#include "op_names.h"

const char *plim_state_space_unfollowed(const plim_config *c) {
  bool has_sizes = c->state_heads > 0 && c->state_groups > 0 && c->state_size > 0 &&
                   c->state_kernel > 0 && c->state_chunk > 0 && c->state_width > 0;
  if (!has_sizes) return "a state space without heads";
  if (c->state_heads % c->state_groups) return "a state space whose groups do not divide its heads";
  return c->state_width % c->state_heads ? "a state space whose heads do not divide its width"
                                         : NULL;
}

// ---- construction -------------------------------------------------------------------------------------

// Channels of the convolution: the input, and what writes and reads the state.
static int64_t channels_of(const plim_config *c) {
  return c->state_width + 2 * c->state_groups * c->state_size;
}

// torch.log(torch.arange(1, heads + 1, dtype=torch.float32))
static void initialise_rates(plim_tape *t, const plim_config *c) {
  plim_tensor *range = empty(t, dims(c->state_heads), PLIM_FP32);
  plim_consume(t, k_unary(t, range));
  plim_consume(t, range);
}

// model.parameters() lists the module's own parameters, then those of its parts.
static void list_own_first(plim_model *m, const plim_state_space *n, size_t first) {
  plim_tensor *own[] = {n->step_bias, n->rate_log, n->skip};
  size_t count = sizeof own / sizeof *own, end = m->parameters.len;
  if (m->failed) return;
  for (size_t i = end, to = end; i-- > first;) {
    plim_tensor *p = m->parameters.at[i];
    bool is_own = p == own[0] || p == own[1] || p == own[2];
    if (!is_own) m->parameters.at[--to] = p;
  }
  for (size_t i = 0; i < count; i++) m->parameters.at[first + i] = own[i];
}

// model.to() moves the parts of a module before its own parameters; 1 and 2 are for adapters.
static const plim_tensor *last_part(const plim_state_space *n) {
  return n->out_proj.bias ? n->out_proj.bias : n->out_proj.weight;
}

static void move_own_behind(const plim_state_space *n) {
  const plim_tensor *last = last_part(n);
  plim_tape_move_behind(n->step_bias, last, 3);
  plim_tape_move_behind(n->rate_log, last, 4);
  plim_tape_move_behind(n->skip, last, 5);
}

// Names in a layer.
typedef struct {
  const char *in, *out, *conv1d, *step_bias, *rate_log, *skip;
} paths;

static plim_tensor *own(plim_tape *t, plim_model *m, const char *path, int64_t size, plim_dtype d) {
  plim_tensor *p = plim_model_parameter(t, m, dims(size), d);
  plim_model_name(m, path, "");
  return p;
}

static void build_at(plim_tape *t, plim_model *m, const plim_config *c, const paths *at,
                     plim_state_space *n, plim_dtype d) {
  int64_t channels = channels_of(c), heads = c->state_heads;
  size_t first = m->parameters.len;
  n->conv1d = plim_model_parameter(t, m, dims(channels, 1, c->state_kernel), d);
  plim_model_name(m, at->conv1d, "weight");
  if (c->has_conv_bias) {
    n->conv_bias = plim_model_parameter(t, m, dims(channels), d);
    plim_model_name(m, at->conv1d, "bias");
  }
  n->in_proj = plim_linear_new(t, m, at->in, c->state_width + channels + heads, c->hidden,
                               c->has_state_bias, d);
  n->step_bias = own(t, m, at->step_bias, heads, d);
  n->rate_log = own(t, m, at->rate_log, heads, d);
  if (c->has_state_norm) n->norm = plim_model_parameter(t, m, dims(c->state_width), d);
  n->skip = own(t, m, at->skip, heads, d);
  n->rate_log->decay = n->skip->decay = PLIM_DECAY_ALWAYS;
  if (!plim_tape_is_on_host(t) && !c->family->has_only_mixers) initialise_rates(t, c);
  bool has_output_bias = c->family->scales_states ? c->has_projector_bias : c->has_state_bias;
  n->out_proj = plim_linear_new(t, m, at->out, c->hidden, c->state_width, has_output_bias, d);
  list_own_first(m, n, first);
  move_own_behind(n);
}

static void build(plim_tape *t, plim_model *m, const plim_config *c, void *mixer, plim_dtype d) {
  static const paths at = {"mamba.in_proj", "mamba.out_proj", "mamba.conv1d",
                           "mamba.dt_bias", "mamba.A_log",    "mamba.D"};
  build_at(t, m, c, &at, mixer, d);
}

static void build_block(plim_tape *t, plim_model *m, const plim_config *c, void *mixer,
                        plim_dtype d) {
  static const paths at = {"mixer.in_proj", "mixer.out_proj", "mixer.conv1d",
                           "mixer.dt_bias", "mixer.A_log",    "mixer.D"};
  build_at(t, m, c, &at, mixer, d);
}

// torch.log(torch.arange(1, heads + 1))
static void initialise(plim_tape *t, const void *mixer, plim_dtype dtype) {
  const plim_state_space *n = mixer;
  plim_tensor *range = empty(t, n->rate_log->shape, PLIM_I64);
  plim_tensor *rates = empty(t, n->rate_log->shape, dtype);
  plim_consume(t, range);
  plim_consume(t, rates);
}

enum { TO_STEPS = 4, TO_INVERSE = 5 }; // operators on random numbers, and on the time steps

// Nemotron-H's: random time steps, and a smaller out_proj.
static void initialise_block(plim_tape *t, const void *mixer, plim_dtype dtype) {
  const plim_state_space *n = mixer;
  plim_dims heads = n->rate_log->shape;
  plim_tensor *range = empty(t, heads, PLIM_I64), *steps = NULL, *inverse = NULL;
  plim_consume(t, empty(t, heads, dtype));
  set(t, &steps, empty(t, heads, dtype));
  for (int i = 0; i < TO_STEPS; i++) set(t, &steps, empty(t, heads, dtype));
  for (int i = 0; i < TO_INVERSE; i++) set(t, &inverse, empty(t, heads, dtype));
  plim_tensor *scaled = empty(t, n->out_proj.weight->shape, dtype);
  plim_consume(t, range);
  drop_all(t, &steps, &inverse);
  plim_consume(t, scaled);
}

// Mamba2Mixer.init_mamba2_weights: all of it in float32.
static void initialise_only(plim_tape *t, const void *mixer, plim_dtype dtype) {
  const plim_state_space *n = mixer;
  plim_dims heads = n->rate_log->shape;
  plim_tensor *range = empty(t, heads, PLIM_FP32), *steps = NULL, *inverse = NULL;
  (void)dtype;
  plim_consume(t, k_unary(t, range));
  set(t, &steps, empty(t, heads, PLIM_FP32));
  for (int i = 0; i < TO_STEPS; i++) set(t, &steps, empty(t, heads, PLIM_FP32));
  for (int i = 0; i < TO_INVERSE; i++) set(t, &inverse, empty(t, heads, PLIM_FP32));
  plim_consume(t, range);
  drop_all(t, &steps, &inverse);
}

static void visit_all(const void *mixer, plim_visit *visit, void *context) {
  const plim_state_space *n = mixer;
  visit(context, n->rate_log);
  visit(context, n->skip);
  if (n->conv_bias) visit(context, n->conv_bias);
  visit(context, n->conv1d);
  visit(context, n->step_bias);
  plim_linear_visit(&n->in_proj, visit, context);
  if (n->norm) visit(context, n->norm);
  plim_linear_visit(&n->out_proj, visit, context);
}

static size_t linears(void *mixer, plim_linear **out) {
  plim_state_space *n = mixer;
  out[0] = &n->in_proj;
  out[1] = &n->out_proj;
  return 2;
}

static void set_scale(plim_tape *t, void *mixer, plim_tensor *scale) {
  plim_state_space *n = mixer;
  set(t, &n->scale, scale);
  plim_tape_move_behind(n->scale, last_part(n), 6);
}

static int64_t scale_width(const plim_config *c) {
  return c->state_width + channels_of(c) + c->state_heads;
}

const plim_mixer plim_state_space_mixer = {.bytes = sizeof(plim_state_space),
                                           .build = build,
                                           .initialise = initialise,
                                           .visit = visit_all,
                                           .linears = linears,
                                           .is_initialised_on_host = true,
                                           .set_scale = set_scale,
                                           .scale_width = scale_width};

const plim_mixer plim_state_block_mixer = {.bytes = sizeof(plim_state_space),
                                           .build = build_block,
                                           .initialise = initialise_block,
                                           .visit = visit_all,
                                           .linears = linears,
                                           .is_initialised_on_host = true};

const plim_mixer plim_state_only_mixer = {.bytes = sizeof(plim_state_space),
                                          .build = build_block,
                                          .initialise = initialise_only,
                                          .visit = visit_all,
                                          .linears = linears};

const plim_decoder_paths plim_feed_forward_paths = {.o_proj = "self_attn.o_proj",
                                                    .gate_proj = "feed_forward.gate_proj",
                                                    .up_proj = "feed_forward.up_proj",
                                                    .down_proj = "feed_forward.down_proj"};

// ---- forward ------------------------------------------------------------------------------------------

// Variables of the module's forward.
typedef struct {
  plim_tensor *hidden, *projected, *rates, *gate, *mixed, *steps, *to_state, *from_state;
  plim_tensor *out, *scanned;
} variables;

// apply_mask_to_padding_states
static plim_tensor *without_padding(plim_tape *t, plim_tensor *x, plim_tensor *mask) {
  if (!mask) return x;
  plim_dtype dtype = (plim_dtype)x->dtype;
  return to(t, mul(t, x, unsqueeze(t, mask, 2)), dtype);
}

static void project(plim_tape *t, const plim_state_space *n, const plim_config *c, variables *v) {
  if (c->family->scales_states) set(t, &v->hidden, mul_scalar(t, v->hidden));
  set(t, &v->projected, plim_linear_forward(t, &n->in_proj, v->hidden));
  if (n->scale) set(t, &v->projected, mul(t, v->projected, n->scale));
  set(t, &v->rates, neg(t, exp_(t, to(t, n->rate_log, PLIM_FP32))));
}

static void convolve(plim_tape *t, const plim_state_space *n, const plim_config *c, variables *v,
                     plim_tensor *mask) {
  int64_t channels = channels_of(c);
  split_sizes(t, v->projected, 2, ((int64_t[]){c->state_width, channels, c->state_heads}), &v->gate,
              &v->mixed, &v->steps);
  set(t, &v->mixed, transpose(t, v->mixed, 1, 2));
  set(t, &v->mixed, plim_causal_conv(t, n->conv1d, n->conv_bias, PLIM_ACT_SILU, v->mixed));
  set(t, &v->mixed, without_padding(t, transpose(t, v->mixed, 1, 2), mask));
}

static void scan(plim_tape *t, const plim_state_space *n, const plim_config *c, variables *v) {
  int64_t b = v->hidden->shape.at[0], length = v->hidden->shape.at[1];
  int64_t states = c->state_groups * c->state_size;
  split_sizes(t, v->mixed, 2, ((int64_t[]){c->state_width, states, states}), &v->hidden,
              &v->to_state, &v->from_state);
  plim_state_inputs in = {.steps = v->steps,
                          .rates = v->rates,
                          .skip = n->skip,
                          .step_bias = n->step_bias,
                          .chunk = c->state_chunk};
  plim_dims heads = dims(b, length, c->state_heads, -1),
            groups = dims(b, length, c->state_groups, -1);
  in.x = view(t, v->hidden, heads);
  in.to_state = view(t, v->to_state, groups);
  in.from_state = view(t, v->from_state, groups);
  set(t, &v->scanned, plim_state_scan(t, &in));
  set(t, &v->out, v->scanned);
  set(t, &v->out, reshape(t, v->out, dims(b, length, -1)));
}

// norm(x * silu(gate)), in groups if the family has them.
static plim_tensor *gated_norm(plim_tape *t, const plim_state_space *n, const plim_config *c,
                               plim_tensor *x, plim_tensor *gate) {
  plim_tensor *hidden = NULL, *variance = NULL, *grouped = NULL;
  plim_dims whole = x->shape, groups = dims(whole.at[0], whole.at[1], c->state_groups, -1);
  plim_dtype dtype = (plim_dtype)x->dtype;
  plim_work_modules(t, 1);
  plim_tape_at(t, "norm");
  plim_module_enter(t, n->norm, NULL);
  set(t, &hidden, to(t, x, PLIM_FP32));
  set(t, &hidden, mul(t, hidden, silu(t, to(t, gate, PLIM_FP32))));
  set(t, &grouped, c->family->norms_state_groups ? view(t, hidden, groups) : hidden);
  if (!c->family->norms_state_groups) drop(t, &hidden);
  set(t, &variance, mean_last(t, square(t, grouped)));
  set(t, &grouped, mul(t, grouped, rsqrt(t, add_scalar(t, variance))));
  set(t, &hidden, c->family->norms_state_groups ? view(t, grouped, whole) : grouped);
  plim_tensor *out = mul(t, n->norm, to(t, hidden, dtype));
  drop_all(t, &hidden, &grouped, &variance);
  return plim_module_leave(t, n->norm, out);
}

// Falcon-H1's: weight and gate are applied to groups, in float32.
static plim_tensor *wide_gated_norm(plim_tape *t, const plim_state_space *n, const plim_config *c,
                                    plim_tensor *x, plim_tensor *gate) {
  plim_tensor *hidden = NULL, *variance = NULL;
  plim_dims whole = x->shape, groups = dims(whole.at[0], whole.at[1], c->state_groups, -1);
  plim_dtype dtype = (plim_dtype)x->dtype;
  plim_work_modules(t, 1);
  plim_tape_at(t, "norm");
  plim_module_enter(t, n->norm, NULL);
  set(t, &hidden, x);
  if (!c->norms_before_gate) set(t, &hidden, mul(t, hidden, silu(t, to(t, gate, PLIM_FP32))));
  set(t, &hidden, to(t, hidden, PLIM_FP32));
  set(t, &hidden, view(t, hidden, groups));
  set(t, &variance, mean_last(t, square(t, hidden)));
  set(t, &hidden, mul(t, hidden, rsqrt(t, add_scalar(t, variance))));
  set(t, &hidden, mul(t, view(t, n->norm, dims(c->state_groups, -1)), hidden));
  set(t, &hidden, view(t, hidden, whole));
  if (c->norms_before_gate) set(t, &hidden, mul(t, hidden, silu(t, to(t, gate, PLIM_FP32))));
  set(t, &hidden, to(t, hidden, dtype));
  plim_tensor *out = give(t, &hidden);
  drop(t, &variance);
  return plim_module_leave(t, n->norm, out);
}

// The kernels that version 5 fetches (lazy_load_kernel).
static bool has_kernels(const plim_tape *t) {
  return plim_has_package(t, PLIM_PACKAGE_KERNELS) && plim_transformers_from(t, 5, 0);
}

static plim_tensor *by_kernels(plim_tape *t, const plim_state_space *n, const plim_config *c,
                               const variables *v) {
  plim_dims flat = dims(channels_of(c), c->state_kernel);
  plim_split_scan in = {.projected = v->projected,
                        .conv1d = view(t, n->conv1d, flat),
                        .conv_bias = n->conv_bias,
                        .step_bias = n->step_bias,
                        .rates = v->rates,
                        .skip = n->skip,
                        .norm = n->norm,
                        .width = c->state_width,
                        .groups = c->state_groups,
                        .size = c->state_size,
                        .chunk = c->state_chunk};
  return plim_mamba_split_scan(t, &in);
}

static plim_tensor *normed(plim_tape *t, const plim_state_space *n, const plim_config *c,
                           const variables *v) {
  if (!n->norm) return mul(t, v->out, silu(t, v->gate));
  return c->family->scales_states ? wide_gated_norm(t, n, c, v->out, v->gate)
                                  : gated_norm(t, n, c, v->out, v->gate);
}

plim_tensor *plim_state_space_forward(plim_tape *t, const plim_state_space *n, const plim_config *c,
                                      plim_tensor *x, plim_tensor *mask) {
  variables v = {0};
  plim_dtype dtype = (plim_dtype)x->dtype;
  set(t, &v.hidden, without_padding(t, x, mask));
  project(t, n, c, &v);
  if (has_kernels(t)) set(t, &v.out, by_kernels(t, n, c, &v));
  else {
    convolve(t, n, c, &v, mask);
    scan(t, n, c, &v);
    set(t, &v.out, normed(t, n, c, &v));
  }
  plim_tensor *out = plim_linear_forward(t, &n->out_proj, to(t, v.out, dtype));
  drop_all(t, &v.hidden, &v.projected, &v.rates, &v.gate, &v.mixed, &v.steps, &v.to_state,
           &v.from_state, &v.out, &v.scanned);
  return out;
}
