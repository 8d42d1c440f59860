// Apertus: llama's forward, with norms of each head's query and key, and without a gate: xIELU, whose slopes are trained.
#include "decoder.h"
#include "families.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

enum { ALPHA_P, ALPHA_N }; // parameters
enum { BETA, EPS };        // buffers

// log(expm1(number)): two temporaries. A parameter of the model, unless m is NULL.
static plim_tensor *slope_new(plim_tape *t, plim_decoder *m, plim_dtype dtype) {
  plim_tensor *number = empty(t, (plim_dims){0}, dtype), *raised = empty(t, (plim_dims){0}, dtype);
  plim_consume(t, number);
  plim_tensor *slope =
      m ? plim_model_parameter(t, &m->model, dims(1), dtype) : empty(t, dims(1), dtype);
  if (m) slope->decay = PLIM_DECAY_ALWAYS;
  plim_consume(t, raised);
  return slope;
}

// The MLP makes the module by its name, and then again with its own dtype.
static void add_activation(plim_tape *t, plim_decoder *m, plim_decoder_layer *l, plim_dtype dtype) {
  plim_tensor *alpha_p = slope_new(t, NULL, PLIM_BF16), *alpha_n = slope_new(t, NULL, PLIM_BF16);
  plim_tensor *beta = empty(t, (plim_dims){0}, PLIM_BF16),
              *eps = empty(t, (plim_dims){0}, PLIM_BF16);
  l->slopes[ALPHA_P] = slope_new(t, m, dtype);
  l->slopes[ALPHA_N] = slope_new(t, m, dtype);
  set(t, &l->constants[BETA], empty(t, (plim_dims){0}, dtype));
  set(t, &l->constants[EPS], empty(t, (plim_dims){0}, dtype));
  consume_all(t, alpha_p, alpha_n, beta, eps);
}

// x > 0: alpha_p * x * x + beta * x; otherwise (expm1(min(x, eps)) - x) * alpha_n + beta * x
static plim_tensor *activate(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x) {
  plim_tensor *alpha_p = NULL, *alpha_n = NULL, *lower = NULL, *beta = l->constants[BETA];
  bool was = hold(x);
  plim_tape_at(t, "activation");
  set(t, &alpha_p, softplus(t, cast_wide(t, l->slopes[ALPHA_P])));
  set(t, &alpha_n, add(t, beta, softplus(t, cast_wide(t, l->slopes[ALPHA_N]))));
  plim_tensor *is_positive = empty(t, x->shape, PLIM_BOOL);
  plim_tensor *above = mul(t, mul(t, alpha_p, x), x);
  above = add(t, above, mul(t, beta, x));
  set(t, &lower, minimum(t, x, l->constants[EPS]));
  plim_tensor *raised = expm1_(t, cast_wide(t, lower));
  drop(t, &lower);
  plim_tensor *below = mul(t, sub(t, raised, x), alpha_n);
  below = add(t, below, mul(t, beta, x));
  plim_tensor *out = where_both(t, is_positive, above, below);
  drop_all(t, &alpha_p, &alpha_n);
  let_go(t, x, was);
  return out;
}

static plim_model *apertus_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {.layer = plim_decoder_prenorm_layer,
                                         .norm = plim_rms_norm,
                                         .add_activation = add_activation,
                                         .activate = activate,
                                         .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
                                         .names_norms_first = true,
                                         .has_plain_mlp = true};
  return plim_decoder_new(t, c, dtype, &code);
}

const plim_family plim_family_apertus = {
    .model_type = "apertus",
    .build = apertus_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 4096,
                 .intermediate = 14336,
                 .layers = 32,
                 .heads = 32,
                 .vocabulary = 131072,
                 .positions = 65536,
                 .rope = PLIM_ROPE_LLAMA3,
                 .activation = PLIM_ACT_XIELU},
    .qk_norm = PLIM_QK_NORM_TURNED,
    .lacks_heads = 1u << PLIM_HEAD_TEXTS | 1u << PLIM_HEAD_ANSWERS,
    .faster_packages = "xielu",
    .first_release = PLIM_RELEASE(4, 56),
    .recorded = PLIM_RECORDED_TRAINING,
};
