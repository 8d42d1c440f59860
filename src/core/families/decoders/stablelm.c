// StableLM: llama's projections between LayerNorms; part of each head is rotated.
#include "decoder.h"
#include "families.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

// Variables hold the first norm's result and that of attention to the end.
static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_decoder_layer *l = context;
  plim_tensor *hidden = NULL, *residual = NULL, *attended = NULL, *weights = NULL;
  plim_tensor *normed = NULL, *fed = NULL;
  set(t, &hidden, plim_decoder_input_norm(t, l, x));
  set(t, &attended, plim_decoder_attention(t, l, hidden, held, &weights));
  set(t, &residual, add(t, x, attended));
  set(t, &normed, plim_decoder_mlp_norm(t, l, residual));
  plim_tensor *new_fed = plim_decoder_mlp(t, l, normed);
  drop(t, &normed);
  set(t, &fed, new_fed);
  set(t, &fed, dropout(t, fed, l->m->c.dropout));
  set(t, &hidden, add(t, residual, fed));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &attended, &weights, &fed);
  return out;
}

static plim_model *stablelm_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {.layer = run_layer,
                                         .biased_norm = plim_norm_forward,
                                         .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
                                         .projects_first = true,
                                         .keeps_parts = true};
  return plim_decoder_new(t, c, dtype, &code);
}

static const char *unfollowed(const plim_config *c) {
  if (c->has_parallel_residual) return "attention and MLP side by side";
  return c->has_qk_norm ? "norms of queries and keys" : NULL;
}

const plim_family plim_family_stablelm = {
    .model_type = "stablelm",
    .build = stablelm_new,
    .defaults = {.hidden = 2560,
                 .intermediate = 6912,
                 .layers = 32,
                 .heads = 32,
                 .kv_heads = 32,
                 .vocabulary = 50304,
                 .positions = 4096,
                 .activation = PLIM_ACT_SILU,
                 .rotary_share = 0.25},
    .unfollowed = unfollowed,
    .divides_width = true,
    .turns_part_of_head = true,
    .lora_targets = "q_proj,v_proj",
    .passes_positions_first = true,
    .lacks_heads = 1u << PLIM_HEAD_ANSWERS,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_loss = PLIM_AXOLOTL_LOSS_GENERIC,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};
