// gpt-oss: every second layer has a sliding window, attention has sinks, and every MLP is a mixture of experts with
// biases, whose gates and inputs are interleaved.
#include "decoder.h"
#include "families.h"
#include "ops.h"

#include "op_names.h"

// (up + 1) * gate * sigmoid(alpha * gate), both clamped
static plim_tensor *gate_interleaved(plim_tape *t, plim_tensor *both) {
  plim_tensor *gate = NULL, *up = NULL, *glu = NULL;
  set(t, &gate, every_other(t, both));
  set(t, &up, every_other(t, both));
  set(t, &gate, clamp(t, gate, 1));
  set(t, &up, clamp(t, up, 2));
  set(t, &glu, mul(t, gate, sigmoid(t, mul_scalar(t, gate))));
  plim_tensor *out = mul(t, add_scalar(t, up), glu);
  drop_all(t, &gate, &up, &glu);
  return out;
}

// The layer keeps attention's weights, and then the experts' shares, in the same variable.
static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_decoder_layer *l = context;
  plim_tensor *hidden = NULL, *residual = NULL, *second = NULL, *shares = NULL;
  set(t, &residual, x);
  set(t, &hidden, plim_wide_rms_norm(t, x, l->input_norm));
  set(t, &hidden, plim_decoder_attention(t, l, hidden, held, &second));
  set(t, &hidden, add(t, residual, hidden));
  set(t, &residual, hidden);
  set(t, &hidden, plim_wide_rms_norm(t, hidden, l->post_attention_norm));
  set(t, &hidden, plim_experts_forward(t, &l->experts, hidden, &shares));
  set(t, &second, give(t, &shares));
  set(t, &hidden, add(t, residual, hidden));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &second);
  return out;
}

static const char *unfollowed(const plim_config *c) { return c->experts ? NULL : "no experts"; }

static plim_model *gpt_oss_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {
      .layer = run_layer,
      .norm = plim_wide_rms_norm,
      .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
  };
  return plim_decoder_new(t, c, dtype, &code);
}

static const plim_mixture mixture = {.route = plim_route_best,
                                     .gate = gate_interleaved,
                                     .is_stored_whole = true,
                                     .has_biases = true,
                                     .builds_router_first = true};

const plim_family plim_family_gpt_oss = {
    .model_type = "gpt_oss",
    .has_other_liger = true,
    .factory_has_kernel = true,
    .build = gpt_oss_new,
    .defaults = {.hidden = 2880,
                 .intermediate = 2880,
                 .layers = 36,
                 .heads = 64,
                 .kv_heads = 8,
                 .head_dim = 64,
                 .vocabulary = 201088,
                 .positions = 131072,
                 .activation = PLIM_ACT_SILU,
                 .sliding_window = 128,
                 .window_pattern = 2,
                 .rope = PLIM_ROPE_YARN,
                 .original_positions = 4096,
                 .experts = 128,
                 .experts_per_token = 4,
                 .has_attention_bias = true},
    .unfollowed = unfollowed,
    .lacks_sdpa = true,
    .mixture = &mixture,
    .windows = PLIM_WINDOWS_PATTERN,
    .has_sinks = true,
    .has_half_rotary = true,
    .keeps_mask_arguments = true,
    .masks_lack_positions = true,
    .first_release = PLIM_RELEASE(4, 55),
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED,
};
