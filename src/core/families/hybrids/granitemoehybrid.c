// Granite 4: Granite's forward with a state space in place of attention in most layers, and an MLP that every token
// passes, with or without experts beside it.
#include "decoder.h"
#include "families.h"
#include "granite.h"
#include "ops.h"
#include "state_space.h"

#include "op_names.h"

static plim_tensor *embed(plim_tape *t, const plim_decoder *m, const plim_batch *batch) {
  plim_tensor *embedded = NULL;
  set(t, &embedded, plim_embed(t, batch, m->embed_tokens, batch->ids));
  set(t, &embedded, mul_scalar(t, embedded));
  return give(t, &embedded);
}

// GraniteMoeHybridMLP: output_linear(act(first half) * second half)
static plim_tensor *run_shared(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x) {
  plim_tensor *hidden = NULL, *gate = NULL, *up = NULL;
  set(t, &hidden, plim_linear_forward(t, &l->gate_up_proj, x));
  split(t, hidden, &gate, &up);
  set(t, &hidden, mul(t, plim_activate(t, l->m->c.activation, gate), up));
  set(t, &hidden, plim_linear_forward(t, &l->down_proj, hidden));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &up, &gate);
  return out;
}

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_decoder_layer *l = context;
  plim_tensor *hidden = NULL, *residual = NULL, *weights = NULL, *mixed = NULL;
  set(t, &residual, x);
  set(t, &hidden, plim_rms_norm(t, x, l->input_norm));
  set(t, &hidden,
      l->mixer ? plim_state_space_forward(t, l->mixer, &l->m->c, hidden, held[PLIM_HELD_MASK])
               : plim_decoder_attention(t, l, hidden, held, &weights));
  set(t, &hidden, add(t, residual, mul_scalar(t, hidden)));
  set(t, &residual, hidden);
  set(t, &hidden, plim_rms_norm(t, hidden, l->post_attention_norm));
  if (l->experts.kind) set(t, &mixed, plim_experts_forward(t, &l->experts, hidden, NULL));
  plim_tensor *shared = run_shared(t, l, hidden);
  set(t, &hidden, mixed ? add(t, mixed, shared) : shared);
  set(t, &hidden, add(t, residual, mul_scalar(t, hidden)));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &weights, &mixed);
  return out;
}

static plim_model *granitemoehybrid_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_paths paths = {.o_proj = "self_attn.o_proj",
                                           .gate_proj = "shared_mlp.input_linear",
                                           .up_proj = "shared_mlp.input_linear",
                                           .down_proj = "shared_mlp.output_linear"};
  static const plim_decoder_code code = {
      .layer = run_layer,
      .norm = plim_rms_norm,
      .embed = embed,
      .mixer = &plim_state_space_mixer,
      .paths = &paths,
      .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
      .order = {PLIM_BUILDS_NORMS, PLIM_BUILDS_FEEDING, PLIM_BUILDS_MIXING},
      .has_shared_mlp = true,
      .divides_logits = true,
  };
  return plim_decoder_new(t, c, dtype, &code);
}

static const plim_mixture mixture = {.route = plim_route_best_widely,
                                     .forward = plim_granite_mix,
                                     .is_stored_whole = true,
                                     .builds_router_first = true,
                                     .is_block_sparse_moe = true};

static const char *unfollowed(const plim_config *c) {
  if (c->shared_width < 1) return "an MLP without a width (shared_intermediate_size)";
  return plim_state_space_unfollowed(c);
}

const plim_family plim_family_granitemoehybrid = {
    .model_type = "granitemoehybrid",
    .axolotl_splits_kernels = true,
    .build = granitemoehybrid_new,
    .unfollowed = unfollowed,
    .defaults = {.hidden = 4096,
                 .intermediate = 11008,
                 .layers = 32,
                 .heads = 32,
                 .vocabulary = 32000,
                 .positions = 2048,
                 .activation = PLIM_ACT_SILU,
                 .experts = 8,
                 .experts_per_token = 2,
                 .shared_width = 1024,
                 .state_heads = 128,
                 .state_groups = 1,
                 .state_size = 256,
                 .state_kernel = 4,
                 .state_expansion = 2,
                 .state_chunk = 256,
                 .attention_interval = 1 << 20, // no attention unless it is listed
                 .has_conv_bias = true,
                 .has_state_norm = true,
                 .has_no_rotary = true},
    .mixture = &mixture,
    .mixes = PLIM_LAYER_MAMBA,
    .has_fused_gate = true,
    .keeps_mask_arguments = true,
    .masks_lack_positions = true,
    .layers_lack_positions = true,
    .lacks_heads = 1u << PLIM_HEAD_TEXTS | 1u << PLIM_HEAD_TOKENS | 1u << PLIM_HEAD_ANSWERS,
    .faster_packages = "mamba-ssm and causal-conv1d",
    .packages = 1u << PLIM_PACKAGE_KERNELS,
    .first_release = PLIM_RELEASE(4, 52),
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED,
};
