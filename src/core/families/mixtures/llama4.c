// Llama 4: layers with rotary positions see a chunk of the text only, the others all of it; every layer or every second
// one has experts, all of which compute every token; a tower for images.
#include "decoder.h"
#include "families.h"
#include "moe.h"
#include "ops.h"
#include "rope.h"
#include "tape_state.h"
#include "towers.h"
#include "work.h"

#include "op_names.h"

// ---- attention ----------------------------------------------------------------------------------------

// x * rsqrt(mean(x ** 2)) in float32, converted back.
static plim_tensor *l2_norm(plim_tape *t, plim_tensor *x) {
  plim_tensor *wide = NULL, *out = NULL;
  plim_work_modules(t, 1);
  plim_tape_at(t, "norm");
  bool was = hold(x);
  set(t, &wide, to(t, x, PLIM_FP32));
  set(t, &out, mul(t, wide, rsqrt(t, add_scalar(t, mean_last(t, square(t, wide))))));
  drop(t, &wide);
  set(t, &out, to(t, out, (plim_dtype)x->dtype));
  let_go(t, x, was);
  return give(t, &out);
}

static plim_tensor *norm(plim_tape *t, plim_tensor *x, plim_tensor *weight) {
  plim_tensor *scaled = NULL;
  plim_module_enter(t, weight, NULL);
  bool was = hold(x);
  set(t, &scaled, l2_norm(t, x));
  plim_tensor *out = mul(t, scaled, weight);
  drop(t, &scaled);
  let_go(t, x, was);
  return plim_module_leave(t, weight, out);
}

static plim_tensor *heads(plim_tape *t, const plim_decoder_layer *l, const plim_linear *projection,
                          plim_tensor *x) {
  plim_dims shape = dims(x->shape.at[0], x->shape.at[1], -1, l->m->c.head_dim);
  return view(t, plim_linear_forward(t, projection, x), shape);
}

// log1p(floor((positions.float() + 1) / floor_scale)) * attn_scale + 1, with which queries are multiplied in float32.
static void scale_queries(plim_tape *t, plim_tensor **q, plim_tensor **positions,
                          plim_tensor **scales) {
  enum { OPERATORS = 7 };
  plim_dims shape = (*q)->shape, length = dims(shape.at[1]);
  set(t, positions, add_scalar(t, empty(t, length, PLIM_I64)));
  plim_tensor *scale = empty(t, length, PLIM_FP32);
  for (int i = 1; i < OPERATORS; i++) {
    plim_tensor *next = empty(t, length, PLIM_FP32);
    plim_consume(t, scale);
    scale = next;
  }
  set(t, scales,
      expand(t, view(t, scale, dims(1, shape.at[1], 1, 1)), dims(shape.at[0], -1, 1, 1)));
  set(t, q, to(t, mul(t, *q, *scales), (plim_dtype)(*q)->dtype));
}

static plim_tensor *self_attention(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x,
                                   plim_tensor *const *held, plim_tensor **weights) {
  const plim_config *c = &l->m->c;
  bool turns = plim_config_turns(c, l - l->m->layers);
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *positions = NULL, *scales = NULL;
  set(t, &q, heads(t, l, &l->q_proj, x)); // (B,T,H,D)
  set(t, &k, heads(t, l, &l->k_proj, x));
  set(t, &v, transpose(t, heads(t, l, &l->v_proj, x), 1, 2));
  if (turns) plim_apply_complex_rope_to_rows(t, held[PLIM_HELD_COS(c)], &q, &k);
  if (turns && c->has_qk_norm) {
    set(t, &q, l2_norm(t, q));
    set(t, &k, l2_norm(t, k));
  }
  if (!turns && c->has_temperature) scale_queries(t, &q, &positions, &scales);
  set(t, &q, transpose(t, q, 1, 2)); // (B,H,T,D)
  set(t, &k, transpose(t, k, 1, 2));
  plim_tensor *out = plim_decoder_attend(t, l, &q, &k, &v, held, weights);
  drop_all(t, &positions, &scales);
  return out;
}

// ---- experts ------------------------------------------------------------------------------------------

// Sigmoid of the best scores; that of the others, which are minus infinity, is 0.
static void route(plim_tape *t, const plim_experts *e, plim_tensor *x, plim_routing *r) {
  plim_tensor *best = NULL;
  set(t, &r->logits, linear(t, x, plim_router_weight(t, e, r), NULL));
  topk(t, r->logits, e->c->experts_per_token, &best, &r->chosen);
  set(t, &r->shares, scatter_along(t, r->logits, r->chosen, best));
  plim_dtype dtype = (plim_dtype)r->shares->dtype;
  set(t, &r->shares, to(t, sigmoid(t, to(t, r->shares, PLIM_FP32)), dtype));
  drop_all(t, &best, &r->chosen);
}

// torch.bmm; autocast casts the arguments from right to left.
static plim_tensor *multiply(plim_tape *t, plim_tensor *rows, plim_tensor *weight) {
  bool was = hold(rows);
  plim_tensor *right = cast(t, weight), *left = cast(t, rows);
  plim_tensor *out = bmm(t, left, right);
  let_go(t, rows, was);
  return out;
}

static plim_tensor *run_experts(plim_tape *t, const plim_experts *e, plim_tensor *x) {
  plim_tensor *rows = NULL, *both = NULL, *gate = NULL, *up = NULL, *next = NULL;
  plim_tape_at(t, "experts");
  set(t, &rows, view(t, x, dims(e->c->experts, -1, e->c->hidden)));
  set(t, &both, multiply(t, rows, e->gate_up));
  split(t, both, &gate, &up);
  set(t, &next, multiply(t, mul(t, up, plim_activate(t, e->c->activation, gate)), e->down));
  set(t, &next, view(t, next, dims(-1, e->c->hidden)));
  drop_all(t, &rows, &both, &gate, &up);
  return give(t, &next);
}

// The same with linear layers of each expert, one after the other.
static plim_tensor *run_linear_experts(plim_tape *t, const plim_experts *e, plim_tensor *x) {
  plim_tensor *rows = NULL, *next = NULL, *input = NULL, *gate = NULL, *up = NULL;
  plim_tape_at(t, "experts");
  set(t, &rows, view(t, x, dims(e->c->experts, -1, e->c->hidden)));
  set(t, &next, empty(t, rows->shape, (plim_dtype)rows->dtype));
  for (int64_t i = 0; i < e->c->experts; i++) {
    set(t, &input, select_index(t, rows, 0));
    set(t, &gate, plim_linear_forward(t, &e->gates[i], input));
    set(t, &up, plim_linear_forward(t, &e->ups[i], input));
    plim_tensor *product = mul(t, up, plim_activate(t, e->c->activation, gate));
    assign_index(t, next, 0, plim_linear_forward(t, &e->downs[i], product));
  }
  plim_tensor *out = view(t, next, dims(-1, e->c->hidden));
  drop_all(t, &rows, &next, &input, &gate, &up);
  return out;
}

// Every expert computes every token, times its share, which is 0 for most.
static plim_tensor *run_mixture(plim_tape *t, const plim_experts *e, plim_tensor *x,
                                plim_tensor **logits) {
  int64_t width = e->c->hidden, experts = e->c->experts;
  plim_tensor *rows = NULL, *routed = NULL, *result = NULL, *out = NULL;
  plim_routing r = {0};
  set(t, &rows, reshape(t, x, dims(-1, width)));
  plim_experts_route(t, e, rows, &r);
  set(t, &routed, repeat_rows(t, rows, experts));
  plim_tensor *shares = reshape(t, transpose(t, r.shares, 0, 1), dims(-1, 1));
  set(t, &routed, mul(t, routed, shares));
  set(t, &result, e->gates ? run_linear_experts(t, e, routed) : run_experts(t, e, routed));
  set(t, &out,
      plim_gated_mlp(t, e->c->activation, &e->shared_gate, &e->shared_up, &e->shared_down, rows));
  plim_tensor *parts = reshape(t, result, dims(experts, -1, width));
  plim_dtype dtype = plim_autocast_is_on(t) ? PLIM_FP32 : (plim_dtype)parts->dtype;
  plim_tensor *sum = sum_dim(t, parts, 0, false, dtype);
  add_in_place(t, out, sum);
  plim_consume(t, sum);
  if (!plim_state(t)->is_stopped) set(t, logits, r.logits); // an exception returns nothing
  drop_all(t, &rows, &r.shares, &r.logits, &routed, &result);
  return give(t, &out);
}

// ---- layers -------------------------------------------------------------------------------------------

// One variable holds attention's weights, and then the router's logits.
static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_decoder_layer *l = context;
  plim_tensor *hidden = NULL, *residual = NULL, *attended = NULL, *second = NULL, *logits = NULL;
  set(t, &residual, x);
  set(t, &hidden, norm(t, x, l->input_norm));
  set(t, &attended, self_attention(t, l, hidden, held, &second));
  set(t, &hidden, add(t, residual, attended));
  set(t, &residual, hidden);
  set(t, &hidden, norm(t, hidden, l->post_attention_norm));
  if (l->experts.kind) {
    set(t, &hidden, run_mixture(t, &l->experts, hidden, &logits));
    set(t, &second, give(t, &logits));
  } else set(t, &hidden, plim_decoder_mlp(t, l, hidden));
  set(t, &hidden, add(t, residual, view(t, hidden, residual->shape)));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &attended, &second);
  return out;
}

static plim_model *text_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_paths paths = {.o_proj = "self_attn.o_proj",
                                           .gate_proj = "feed_forward.gate_proj",
                                           .up_proj = "feed_forward.up_proj",
                                           .down_proj = "feed_forward.down_proj"};
  static const plim_decoder_code code = {
      .layer = run_layer,
      .norm = norm,
      .paths = &paths,
      .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
      .softmax = PLIM_SOFTMAX_OWN,
  };
  return plim_decoder_new(t, c, dtype, &code);
}

static const char *unfollowed(const plim_config *c) {
  if (!c->experts) return "no experts";
  return c->sliding_window ? NULL : "no attention_chunk_size";
}

static const plim_mixture mixture = {.route = route,
                                     .shared = {"feed_forward.shared_expert.gate_proj",
                                                "feed_forward.shared_expert.up_proj",
                                                "feed_forward.shared_expert.down_proj"},
                                     .is_stored_whole = true,
                                     .is_transposed = true,
                                     .is_named_first = true};

const plim_family plim_family_llama4_text = {
    .model_type = "llama4_text",
    .has_other_liger = true,
    .factory_lacks_liger = true,
    .build = text_new,
    .unfollowed = unfollowed,
    .defaults = {.hidden = 5120,
                 .intermediate = 8192,
                 .dense_width = 16384,
                 .layers = 48,
                 .heads = 40,
                 .kv_heads = 8,
                 .head_dim = 128,
                 .vocabulary = 202048,
                 .positions = 131072,
                 .activation = PLIM_ACT_SILU,
                 .experts = 16,
                 .experts_per_token = 1,
                 .shared_experts = 1,
                 .sparse_step = 1,
                 .has_qk_norm = true,
                 .has_temperature = true,
                 .unturned_pattern = 4,
                 .sliding_window = 8192},
    .mixture = &mixture,
    .windows = PLIM_WINDOWS_TURNED,
    .has_chunks = true,
    .has_idle_mask = true,
    .has_unturned_layers = true,
    .has_complex_rotary = true,
    .has_linear_router = true,
    .keeps_mask_arguments = true,
    .passes_positions_first = true,
    .first_release = PLIM_RELEASE(5, 0),
    .lora_targets = "q_proj,v_proj",
    .left_out = "the vision tower",
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED,
    .is_refused_flash = true,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};

// ---- the tower ----------------------------------------------------------------------------------------

// _compute_freqs_ci: the angles of patches and class, as complex numbers.
static plim_tensor *tower_angles(plim_tape *t, const plim_tower_config *v, int64_t patches) {
  int64_t n = v->heads ? v->hidden / v->heads / 4 : 0;
  plim_dims each = dims(patches, n), twice = dims(patches, 2 * n);
  plim_tensor *range = empty(t, dims(patches - 1), PLIM_I32), *spread[2];
  plim_tensor *index = empty(t, dims(patches), PLIM_I32);
  plim_consume(t, range);
  plim_tensor *x = empty(t, dims(patches), PLIM_I32), *y = empty(t, dims(patches), PLIM_I32);
  plim_tensor *frequencies = plim_inverse_powers(t, n);
  for (int axis = 0; axis < 2; axis++) {
    plim_tensor *next = empty(t, dims(patches), PLIM_I32), *angles = empty(t, each, PLIM_FP32);
    plim_consume(t, next);
    spread[axis] = empty(t, twice, PLIM_FP32);
    plim_consume(t, angles);
  }
  plim_tensor *both = empty(t, dims(patches, 4 * n), PLIM_FP32);
  plim_tensor *is_class = empty(t, dims(patches), PLIM_BOOL), *angles = empty(t, twice, PLIM_FP32);
  consume_all(t, is_class, both);
  plim_tensor *cos = empty(t, twice, PLIM_FP32), *sin = empty(t, twice, PLIM_FP32);
  plim_tensor *turns = empty(t, twice, PLIM_FP64);
  consume_all(t, sin, cos, index, x, y, frequencies, spread[0], spread[1], angles);
  return turns;
}

static plim_tensor *scaled_parameter(plim_tape *t, plim_towers *w, plim_dims shape, plim_dtype d) {
  plim_tensor *random = empty(t, shape, d);
  plim_tensor *parameter = plim_model_parameter(t, w->model, shape, d);
  plim_consume(t, random);
  return parameter;
}

static void layer_new(plim_tape *t, plim_towers *w, const plim_tower_config *v, int64_t i,
                      plim_dtype d) {
  static const char place[] = "vision_model.model.layers";
  static const char *const attention[] = {"self_attn.q_proj", "self_attn.k_proj",
                                          "self_attn.v_proj", "self_attn.o_proj"};
  int64_t h = v->hidden, wide = v->intermediate;
  for (size_t k = 0; k < sizeof attention / sizeof *attention; k++)
    plim_tower_linear_new(t, w, place, i, attention[k], dims(h, h), true, d);
  plim_tower_linear_new(t, w, place, i, "mlp.fc1", dims(wide, h), true, d);
  plim_tower_linear_new(t, w, place, i, "mlp.fc2", dims(h, wide), true, d);
  plim_norm_new(t, w->model, h, d);
  plim_norm_new(t, w->model, h, d);
}

static void add_towers(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype d) {
  static const char adapter[] = "vision_model.vision_adapter";
  const plim_tower_config *v = &c->vision;
  int64_t side = v->patch_size ? v->image_size / v->patch_size : 0, patches = side * side + 1;
  int64_t patch = v->channels * v->patch_size * v->patch_size, h = v->hidden;
  plim_tower_linear_new(t, w, "vision_model", -1, "patch_embedding.linear", dims(h, patch), false,
                        d);
  plim_tensor *of_class = scaled_parameter(t, w, dims(h), d), *turns = NULL;
  plim_tensor *positions = scaled_parameter(t, w, dims(patches, h), d);
  set(t, &turns, tower_angles(t, v, patches)); // a buffer
  plim_norm_new(t, w->model, h, d);
  plim_norm_new(t, w->model, h, d);
  for (int64_t i = 0; i < v->layers; i++) layer_new(t, w, v, i, d);
  plim_tower_linear_new(t, w, adapter, -1, "mlp.fc1", dims(v->projector_input, v->intermediate),
                        false, d);
  plim_tower_linear_new(t, w, adapter, -1, "mlp.fc2",
                        dims(v->projector_output, v->projector_output), false, d);
  plim_tensor *last = w->model->parameters.at[w->model->parameters.len - 1];
  plim_tape_move_behind(of_class, last, 3); // model.to(): own parameters go last; 1 and 2: adapters
  plim_tape_move_behind(positions, last, 4);
  plim_consume(t, tower_angles(t, v, patches)); // made again when weights are initialised
  plim_tower_linear_new(t, w, "multi_modal_projector", -1, "linear_1", dims(c->hidden, v->output),
                        false, d);
}

const plim_family plim_family_llama4 = {
    .model_type = "llama4",
    .has_other_liger = true,
    .factory_lacks_liger = true,
    .text_types = "llama4_text",
    .add_towers = add_towers,
    .text_place = "language_model.model.layers",
    .has_inner_head = true,
    .defaults = {.vision = {.hidden = 768,
                            .intermediate = 5632,
                            .layers = 34,
                            .heads = 16,
                            .channels = 3,
                            .image_size = 448,
                            .patch_size = 14,
                            .output = 7680,
                            .projector_input = 4096,
                            .projector_output = 4096}},
    .first_release = PLIM_RELEASE(5, 0),
    .recorded = PLIM_RECORDED_TRAINING,
    .is_refused_flash = true,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL,
};
