// LFM2: most layers have a short convolution with two gates in place of attention; with or without experts.
#include "causal_conv.h"
#include "decoder.h"
#include "experts.h"
#include "families.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

// ---- the convolution --------------------------------------------------------------------------------

typedef struct {
  plim_linear in_proj, out_proj;
  plim_tensor *conv, *conv_bias; // (h,1,K), (h)
} short_conv;

static void build(plim_tape *t, plim_model *m, const plim_config *c, void *mixer, plim_dtype d) {
  short_conv *s = mixer;
  int64_t h = c->hidden;
  bool biased = c->has_conv_bias;
  s->conv = plim_model_parameter(t, m, dims(h, 1, c->conv_kernel), d);
  plim_model_name(m, "conv.conv", "weight");
  if (biased) {
    s->conv_bias = plim_model_parameter(t, m, dims(h), d);
    plim_model_name(m, "conv.conv", "bias");
  }
  s->in_proj = plim_linear_new(t, m, "conv.in_proj", 3 * h, h, biased, d);
  s->out_proj = plim_linear_new(t, m, "conv.out_proj", h, h, biased, d);
}

static void visit_all(const void *mixer, plim_visit *visit, void *context) {
  const short_conv *s = mixer;
  if (s->conv_bias) visit(context, s->conv_bias);
  visit(context, s->conv);
  plim_linear_visit(&s->in_proj, visit, context);
  plim_linear_visit(&s->out_proj, visit, context);
}

static size_t linears(void *mixer, plim_linear **out) {
  short_conv *s = mixer;
  out[0] = &s->in_proj;
  out[1] = &s->out_proj;
  return 2;
}

static const plim_mixer mixer = {
    .bytes = sizeof(short_conv), .build = build, .visit = visit_all, .linears = linears};

static plim_tensor *convolve(plim_tape *t, const short_conv *s, plim_tensor *x, plim_tensor *mask) {
  int64_t h = x->shape.at[2];
  plim_tensor *hidden = NULL, *all = NULL, *b = NULL, *c = NULL, *in = NULL, *y = NULL;
  set(t, &hidden, mask ? mul(t, x, unsqueeze(t, mask, 2)) : x);
  set(t, &all, transpose(t, plim_linear_forward(t, &s->in_proj, hidden), 1, 2)); // (B,3h,T)
  split_sizes(t, all, 1, ((int64_t[]){h, h, h}), &b, &c, &in);
  set(t, &hidden, mul(t, b, in));
  set(t, &hidden, plim_causal_conv(t, s->conv, s->conv_bias, PLIM_ACT_UNKNOWN, hidden));
  set(t, &y, mul(t, c, hidden));
  set(t, &y, contiguous(t, transpose(t, y, 1, 2)));
  set(t, &y, plim_linear_forward(t, &s->out_proj, y));
  drop_all(t, &hidden, &all, &b, &c, &in);
  return give(t, &y);
}

// ---- layers -----------------------------------------------------------------------------------------

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_decoder_layer *l = context;
  plim_tensor *hidden = NULL, *residual = NULL, *normed = NULL, *weights = NULL;
  set(t, &residual, x);
  set(t, &normed, plim_rms_norm(t, x, l->input_norm));
  set(t, &hidden,
      l->mixer ? convolve(t, l->mixer, normed, held[PLIM_HELD_MASK])
               : plim_decoder_attention(t, l, normed, held, &weights));
  drop(t, &normed);
  set(t, &hidden, add(t, hidden, residual));
  set(t, &normed, plim_rms_norm(t, hidden, l->post_attention_norm));
  plim_tensor *fed = plim_decoder_mlp(t, l, normed);
  drop(t, &normed);
  set(t, &hidden, add(t, hidden, fed));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &weights);
  return out;
}

static plim_model *lfm2_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_paths paths = {.o_proj = "self_attn.out_proj",
                                           .gate_proj = "feed_forward.w1",
                                           .up_proj = "feed_forward.w3",
                                           .down_proj = "feed_forward.w2"};
  static const plim_decoder_code code = {
      .layer = run_layer,
      .norm = plim_rms_norm,
      .mixer = &mixer,
      .paths = &paths,
      .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
      .builds_norm_last = true,
      .keeps_attended = true,
  };
  return plim_decoder_new(t, c, dtype, &code);
}

static const char *unfollowed(const plim_config *c) {
  return c->conv_kernel < 1 ? "convolutions without a length" : NULL;
}

const plim_family plim_family_lfm2 = {
    .model_type = "lfm2",
    .build = lfm2_new,
    .unfollowed = unfollowed,
    .defaults = {.has_padding_row = true,
                 .hidden = 2560,
                 .intermediate = 12288,
                 .layers = 32,
                 .heads = 32,
                 .kv_heads = 8,
                 .vocabulary = 65536,
                 .positions = 128000,
                 .activation = PLIM_ACT_SILU,
                 .conv_kernel = 3,
                 .fits_intermediate = true,
                 .intermediate_factor = 1,
                 .intermediate_step = 256,
                 .ties_embeddings = true},
    .mixes = PLIM_LAYER_CONV,
    .qk_norm = PLIM_QK_NORM_HEADS,
    .keeps_mask_arguments = true,
    .faster_packages = "causal-conv1d",
    .axolotl_refuses = 1u << PLIM_PACKAGE_CAUSAL_CONV1D,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};

// ---- with experts -----------------------------------------------------------------------------------

// Sigmoid of all experts; a buffer is added to choose the best.
static void route(plim_tape *t, const plim_experts *e, plim_tensor *x, plim_routing *r) {
  plim_tensor *scores = NULL, *corrected = NULL, *values = NULL;
  set(t, &r->logits, linear(t, x, plim_router_weight(t, e, r), NULL));
  set(t, &scores, sigmoid(t, r->logits));
  set(t, &corrected, add(t, scores, e->correction));
  topk(t, corrected, e->c->experts_per_token, &values, &r->chosen);
  set(t, &r->shares, gather_rows(t, scores, r->chosen));
  drop(t, &scores);
  set(t, &r->shares, to(t, r->shares, (plim_dtype)r->logits->dtype));
  if (e->c->normalises_shares) {
    plim_dtype summed = plim_autocast_is_on(t) ? PLIM_FP32 : (plim_dtype)r->shares->dtype;
    plim_tensor *sum = add_scalar(t, sum_dim(t, r->shares, 1, true, summed));
    set(t, &r->shares, divide_both(t, r->shares, sum));
  }
  set(t, &r->shares, mul_scalar(t, r->shares));
  drop_all(t, &corrected, &values);
}

static const plim_mixture mixture = {
    .route = route, .has_correction = true, .has_wide_correction = true};

static const char *moe_unfollowed(const plim_config *c) {
  return c->lacks_expert_bias ? "experts without a bias (use_expert_bias)" : unfollowed(c);
}

const plim_family plim_family_lfm2_moe = {
    .model_type = "lfm2_moe",
    .build = lfm2_new,
    .unfollowed = moe_unfollowed,
    .defaults = {.has_padding_row = true,
                 .hidden = 2048,
                 .intermediate = 7168,
                 .layers = 32,
                 .heads = 32,
                 .kv_heads = 8,
                 .vocabulary = 65536,
                 .positions = 128000,
                 .activation = PLIM_ACT_SILU,
                 .conv_kernel = 3,
                 .experts = 32,
                 .experts_per_token = 4,
                 .expert_width = 1792,
                 .dense_layers = 2,
                 .normalises_shares = true,
                 .ties_embeddings = true},
    .mixture = &mixture,
    .mixes = PLIM_LAYER_CONV,
    .qk_norm = PLIM_QK_NORM_HEADS,
    .keeps_mask_arguments = true,
    .passes_positions_first = true,
    .faster_packages = "causal-conv1d",
    .first_release = PLIM_RELEASE(4, 57),
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};
