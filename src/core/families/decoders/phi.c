// Phi 1, 1.5 and 2: attention and MLP side by side, behind one LayerNorm; part of each head is rotated.
#include "decoder.h"
#include "families.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

// dropout(mlp(x)): no variable of the layer holds what the MLP returns.
static plim_tensor *feed(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x) {
  plim_tensor *fed = NULL;
  set(t, &fed, plim_decoder_mlp(t, l, x));
  set(t, &fed, dropout(t, fed, l->m->c.dropout));
  return give(t, &fed);
}

// attended + fed + residual
static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_decoder_layer *l = context;
  plim_tensor *hidden = NULL, *attended = NULL, *fed = NULL, *weights = NULL;
  set(t, &hidden, plim_decoder_input_norm(t, l, x));
  set(t, &attended, plim_decoder_attention(t, l, hidden, held, &weights));
  set(t, &attended, dropout(t, attended, l->m->c.dropout));
  set(t, &fed, feed(t, l, hidden));
  set(t, &hidden, add(t, add(t, attended, fed), x));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &attended, &weights, &fed);
  return out;
}

static plim_model *phi_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_paths paths = {
      .o_proj = "self_attn.dense", .up_proj = "mlp.fc1", .down_proj = "mlp.fc2"};
  static const plim_decoder_code code = {.layer = run_layer,
                                         .biased_norm = plim_norm_forward,
                                         .paths = &paths,
                                         .norms = PLIM_INPUT_NORM,
                                         .builds_norm_last = true,
                                         .names_norm_first = true,
                                         .has_plain_mlp = true,
                                         .has_head_bias = true,
                                         .drops_embedded = true,
                                         .keeps_parts = true};
  return plim_decoder_new(t, c, dtype, &code);
}

static const char *unfollowed(const plim_config *c) {
  if (c->ties_embeddings) return "a head tied to the embedding";
  return c->has_qk_norm ? "norms of queries and keys" : NULL;
}

const plim_family plim_family_phi = {
    .model_type = "phi",
    .build = phi_new,
    .defaults = {.hidden = 2048,
                 .intermediate = 8192,
                 .layers = 24,
                 .heads = 32,
                 .vocabulary = 51200,
                 .positions = 2048,
                 .activation = PLIM_ACT_NEW_GELU,
                 .rotary_share = 0.5,
                 .has_attention_bias = true,
                 .has_mlp_bias = true},
    .unfollowed = unfollowed,
    .turns_part_of_head = true,
    .lora_targets = "q_proj,v_proj,fc1,fc2",
    .passes_positions_first = true,
    .lacks_heads = 1u << PLIM_HEAD_ANSWERS,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};
