// Granite 3 with experts: Granite's forward, and a mixture in place of the MLP.
#include "decoder.h"
#include "families.h"
#include "granite.h"
#include "ops.h"

#include "op_names.h"

plim_tensor *plim_granite_mix(plim_tape *t, const plim_experts *e, plim_tensor *x) {
  plim_dims shape = x->shape;
  plim_tensor *rows = NULL, *out = NULL;
  plim_routing r = {0};
  set(t, &rows, reshape(t, x, dims(-1, shape.at[2])));
  plim_experts_route(t, e, rows, &r);
  set(t, &out, plim_experts_run(t, e, rows, r.shares, r.chosen));
  set(t, &out, view(t, out, shape));
  drop_all(t, &rows, &r.chosen, &r.shares, &r.logits);
  return give(t, &out);
}

static plim_model *granitemoe_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {
      .layer = plim_granite_layer,
      .norm = plim_rms_norm,
      .scales_embedded_late = true,
      .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
      .divides_logits = true,
  };
  return plim_decoder_new(t, c, dtype, &code);
}

static const plim_mixture mixture = {.route = plim_route_best_widely,
                                     .forward = plim_granite_mix,
                                     .is_built_last = true,
                                     .is_stored_whole = true,
                                     .builds_router_first = true,
                                     .is_block_sparse_moe = true};

const plim_family plim_family_granitemoe = {
    .model_type = "granitemoe",
    .build = granitemoe_new,
    .defaults = {.hidden = 4096,
                 .intermediate = 11008,
                 .layers = 32,
                 .heads = 32,
                 .vocabulary = 32000,
                 .positions = 2048,
                 .activation = PLIM_ACT_SILU,
                 .experts = 8,
                 .experts_per_token = 2},
    .mixture = &mixture,
    .recorded = PLIM_RECORDED_TRAINING,
};
