// Command R, R7B and A, Aya: attention and MLP side by side, behind one norm without a bias; neighbours are rotated, in float32.
#include "decoder.h"
#include "families.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

// CohereLayerNorm: in float32, operator by operator.
static plim_tensor *norm(plim_tape *t, plim_tensor *x, plim_tensor *weight) {
  plim_tensor *hidden = NULL, *mean = NULL, *variance = NULL, *out = NULL;
  plim_work_modules(t, 1);
  plim_tape_at(t, "norm");
  plim_module_enter(t, weight, NULL);
  bool was = hold(x);
  set(t, &hidden, to(t, x, PLIM_FP32));
  set(t, &mean, mean_last(t, hidden));
  set(t, &variance, mean_last(t, square(t, sub(t, hidden, mean))));
  plim_tensor *centred = sub(t, hidden, mean);
  set(t, &hidden, mul(t, centred, rsqrt(t, add_scalar(t, variance))));
  set(t, &hidden, mul(t, to(t, weight, PLIM_FP32), hidden));
  set(t, &out, to(t, hidden, (plim_dtype)x->dtype));
  drop_all(t, &hidden, &mean, &variance);
  let_go(t, x, was);
  return plim_module_leave(t, weight, give(t, &out));
}

// residual + attended + fed
static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_decoder_layer *l = context;
  plim_tensor *hidden = NULL, *attended = NULL, *fed = NULL, *weights = NULL;
  set(t, &hidden, plim_decoder_input_norm(t, l, x));
  set(t, &attended, plim_decoder_attention(t, l, hidden, held, &weights));
  set(t, &fed, plim_decoder_mlp(t, l, hidden));
  set(t, &hidden, add(t, add(t, x, attended), fed));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &attended, &weights, &fed);
  return out;
}

static plim_model *cohere_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {.layer = run_layer,
                                         .norm = norm,
                                         .norms = PLIM_INPUT_NORM,
                                         .divides_logits = true,
                                         .views_first = true};
  return plim_decoder_new(t, c, dtype, &code);
}

static const char *unfollowed(const plim_config *c) {
  return c->has_qk_norm ? "norms of queries and keys" : NULL;
}

const plim_family plim_family_cohere = {
    .model_type = "cohere",
    .build = cohere_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 8192,
                 .intermediate = 22528,
                 .layers = 40,
                 .heads = 64,
                 .vocabulary = 256000,
                 .positions = 8192,
                 .activation = PLIM_ACT_SILU,
                 .ties_embeddings = true},
    .unfollowed = unfollowed,
    .turns_neighbours_wide = true,
    .lacks_heads = 1u << PLIM_HEAD_TEXTS | 1u << PLIM_HEAD_TOKENS | 1u << PLIM_HEAD_ANSWERS,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};

// Windows in three of four layers, which alone have rotary positions.
static plim_model *cohere2_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {
      .layer = run_layer, .norm = norm, .norms = PLIM_INPUT_NORM, .divides_logits = true};
  return plim_decoder_new(t, c, dtype, &code);
}

const plim_family plim_family_cohere2 = {
    .model_type = "cohere2",
    .build = cohere2_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 8192,
                 .intermediate = 22528,
                 .layers = 40,
                 .heads = 64,
                 .vocabulary = 256000,
                 .positions = 8192,
                 .sliding_window = 4096,
                 .window_pattern = 4,
                 .activation = PLIM_ACT_SILU,
                 .ties_embeddings = true},
    .divides_width = true,
    .windows = PLIM_WINDOWS_PATTERN,
    .turns_windows_only = true,
    .turns_neighbours_wide = true,
    .keeps_mask_arguments = true,
    .has_idle_mask = true,
    .lacks_heads = 1u << PLIM_HEAD_TEXTS | 1u << PLIM_HEAD_TOKENS | 1u << PLIM_HEAD_ANSWERS,
    .first_release = PLIM_RELEASE(4, 48),
    .recorded = PLIM_RECORDED_TRAINING,
};
