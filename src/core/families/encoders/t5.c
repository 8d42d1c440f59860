// T5: encoder and decoder, relative positions as a bias of the scores, one table of embeddings.
#include <string.h>

#include "attention.h"
#include "families.h"
#include "kernels.h"
#include "loss.h"
#include "modules.h"
#include "ops.h"
#include "relative_bias.h"
#include "tape_state.h"

#include "op_names.h"

typedef struct {
  plim_linear q, k, v, o;
  plim_tensor *relative; // bias by distance, (buckets, heads); of a stack's first self attention
  plim_tensor *norm;
} attention_layer;

typedef struct {
  struct stack *of;
  attention_layer self, cross; // cross: of decoders
  plim_linear wi, wi_0, wi_1, wo;
  plim_tensor *norm;
  plim_tensor **self_cache, **cross_cache; // a key and a value each; NULL: there is no cache
} block;

typedef struct stack {
  struct plim_t5 *m;
  block *blocks;
  int64_t count;
  plim_tensor *norm;
  plim_tensor *results[PLIM_MAX_RESULTS]; // of the block that runs
  bool is_decoder;
} stack;

typedef struct plim_t5 {
  plim_model model;
  plim_config c;
  plim_tensor *shared, *lm_head;
  stack encoder, decoder;
  plim_attention_kind attention; // of the batch that runs
  bool is_checkpointed;          // that batch
} plim_t5;

// ---- construction ---------------------------------------------------------------------------------

// Where a block's linear layers are.
typedef struct {
  const char *q, *k, *v, *o;
} attention_paths;

typedef struct {
  const char *wi, *wi_0, *wi_1, *wo;
} mlp_paths;

#define ATTENTION(place)                                                                           \
  { place ".q", place ".k", place ".v", place ".o" }
#define MLP(place)                                                                                 \
  { place ".wi", place ".wi_0", place ".wi_1", place ".wo" }

static const attention_paths self_paths = ATTENTION("layer.0.SelfAttention"),
                             cross_paths = ATTENTION("layer.1.EncDecAttention");
static const mlp_paths encoder_mlp = MLP("layer.1.DenseReluDense"),
                       decoder_mlp = MLP("layer.2.DenseReluDense");

static attention_layer attention_new(plim_tape *t, plim_t5 *m, const attention_paths *at,
                                     bool is_first, plim_dtype d) {
  plim_model *model = &m->model;
  int64_t h = m->c.hidden, inner = m->c.heads * m->c.head_dim;
  attention_layer a = {.q = plim_linear_new(t, model, at->q, inner, h, false, d)};
  a.k = plim_linear_new(t, model, at->k, inner, h, false, d);
  a.v = plim_linear_new(t, model, at->v, inner, h, false, d);
  a.o = plim_linear_new(t, model, at->o, h, inner, false, d);
  plim_dims table = dims(m->c.relative_buckets, m->c.heads);
  if (is_first) a.relative = plim_model_parameter(t, model, table, d);
  a.norm = plim_model_parameter(t, model, dims(h), d);
  return a;
}

static block block_new(plim_tape *t, stack *s, bool is_first, plim_dtype d) {
  plim_t5 *m = s->m;
  plim_model *model = &m->model;
  const mlp_paths *at = s->is_decoder ? &decoder_mlp : &encoder_mlp;
  int64_t h = m->c.hidden, i = m->c.intermediate;
  block b = {.of = s, .self = attention_new(t, m, &self_paths, is_first, d)};
  if (s->is_decoder) b.cross = attention_new(t, m, &cross_paths, false, d);
  if (m->c.has_gated_mlp) {
    b.wi_0 = plim_linear_new(t, model, at->wi_0, i, h, false, d);
    b.wi_1 = plim_linear_new(t, model, at->wi_1, i, h, false, d);
  } else b.wi = plim_linear_new(t, model, at->wi, i, h, false, d);
  b.wo = plim_linear_new(t, model, at->wo, h, i, false, d);
  b.norm = plim_model_parameter(t, model, dims(h), d);
  return b;
}

static void stack_build(plim_tape *t, stack *s, plim_dtype d) {
  for (int64_t i = 0; i < s->count; i++) s->blocks[i] = block_new(t, s, i == 0, d);
  s->norm = plim_model_parameter(t, &s->m->model, dims(s->m->c.hidden), d);
}

static plim_tensor *table_new(plim_tape *t, plim_dims shape, plim_dtype d) {
  plim_tape_written(t, PLIM_BY_RANDOM_KERNEL);
  return empty(t, shape, d);
}

// Both stacks and the head are made with a table of their own, which goes when they are tied. Before 5.0 the stacks got
// the shared one, and a configuration that does not tie the head (T5 1.1) left it its own.
static void build(plim_tape *t, plim_t5 *m, plim_dtype d) {
  plim_dims table = dims(m->c.vocabulary, m->c.hidden);
  bool is_five = plim_transformers_from(t, 5, 0);
  if (!is_five && !m->c.ties_embeddings) m->c.has_own_head = true;
  m->shared = plim_model_table(t, &m->model, table, d, false);
  plim_tensor *encoders = is_five ? table_new(t, table, d) : NULL;
  stack_build(t, &m->encoder, d);
  plim_tensor *decoders = is_five ? table_new(t, table, d) : NULL;
  stack_build(t, &m->decoder, d);
  m->encoder.blocks[0].self.relative->decay = PLIM_DECAY_NEVER;
  m->decoder.blocks[0].self.relative->decay = PLIM_DECAY_NEVER;
  m->lm_head = m->shared;
  plim_tensor *heads = NULL;
  if (m->c.has_own_head) m->lm_head = plim_model_parameter(t, &m->model, table, d);
  else heads = table_new(t, table, d);
  bool ties_head_last = plim_transformers_from(t, 5, 18);
  if (heads && !ties_head_last) plim_consume(t, heads);
  plim_consume(t, encoders);
  plim_consume(t, decoders);
  if (heads && ties_head_last) plim_consume(t, heads);
}

static void add_stack_lora(plim_tape *t, stack *s, const plim_lora *lora) {
  for (int64_t i = 0; i < s->count; i++) {
    block *b = &s->blocks[i];
    plim_lora_add_all(t, &s->m->model, lora, s->is_decoder ? "decoder.block" : "encoder.block", i,
                      &b->self.q, &b->self.k, &b->self.v, &b->self.o, &b->cross.q, &b->cross.k,
                      &b->cross.v, &b->cross.o, &b->wi, &b->wi_0, &b->wi_1, &b->wo);
  }
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_t5 *m = (plim_t5 *)model;
  plim_lora_begin(model);
  add_stack_lora(t, &m->encoder, lora);
  add_stack_lora(t, &m->decoder, lora);
  plim_lora_end(t, model, lora);
}

// ---- attention -----------------------------------------------------------------------------------

// Without a table the bias is zero, and still a tensor; checkpointing makes it need a gradient.
static plim_tensor *position_bias(plim_tape *t, const stack *s, const attention_layer *a,
                                  const plim_tensor *q, const plim_tensor *k) {
  int64_t queries = q->shape.at[2], keys = k->shape.at[2];
  if (a->relative) return plim_relative_bias(t, a->relative, queries, keys, !s->is_decoder);
  plim_tensor *zeros = empty(t, dims(1, s->m->c.heads, queries, keys), (plim_dtype)q->dtype);
  zeros->requires_grad = s->m->is_checkpointed;
  return zeros;
}

// What one attention works on beside its input.
typedef struct {
  plim_tensor *states; // keys and values come from here; NULL: from its input
  plim_tensor *mask, *bias;
  plim_tensor **cache; // a key and a value; NULL: there is none
  bool is_causal;
} surroundings;

static plim_tensor *lower_triangle(plim_tape *t, int64_t queries, int64_t keys) { // (1,1,Q,K)
  plim_tensor *query = empty(t, dims(queries, 1), PLIM_I64);
  plim_tensor *key = empty(t, dims(1, keys), PLIM_I64);
  plim_tensor *is_lower = k_binary_as(t, query, key, PLIM_BOOL);
  plim_consume(t, query);
  plim_consume(t, key);
  return view(t, is_lower, dims(1, 1, queries, keys));
}

// Mask and bias in one: what the kernel adds to the scores.
static plim_tensor *masked_bias(plim_tape *t, const surroundings *with, int64_t queries,
                                int64_t keys) {
  plim_tensor *triangle = NULL, *bias = NULL, *dense = NULL;
  if (!with->mask && with->is_causal && queries > 1)
    set(t, &triangle, lower_triangle(t, queries, keys));
  plim_tensor *mask = with->mask ? with->mask : triangle;
  set(t, &bias, mask ? where(t, mask, with->bias) : with->bias);
  set(t, &dense, plim_transformers_from(t, 5, 20) ? contiguous(t, bias) : bias);
  drop_all(t, &triangle, &bias);
  return give(t, &dense);
}

static plim_tensor *by_kernel(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                              const surroundings *with, double dropout_p) {
  plim_tensor *bias = NULL;
  set(t, &bias, masked_bias(t, with, q->shape.at[2], k->shape.at[2]));
  plim_tensor *out = contiguous(t, transpose(t, attention(t, q, k, v, bias, dropout_p), 1, 2));
  drop(t, &bias);
  return out;
}

// past_key_values.update(): what is new is put behind what is there, which is nothing.
static void put_into_cache(plim_tape *t, plim_tensor **cache, plim_tensor **k, plim_tensor **v) {
  if (!cache) return;
  set(t, &cache[0], contiguous_copy(t, *k));
  set(t, &cache[1], contiguous_copy(t, *v));
  set(t, k, cache[0]);
  set(t, v, cache[1]);
}

// Before 5.15: the mask is part of the bias, which is added to the scores in place; the softmax is in float32. Reading the
// number of queries from cache_position makes a number on the device, which a variable holds.
static plim_tensor *attend_before(plim_tape *t, const stack *s, const attention_layer *a,
                                  plim_tensor *x, surroundings with, plim_tensor **bias) {
  int64_t d = s->m->c.head_dim;
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *scores = NULL, *count = NULL, *weights = NULL,
              *out = NULL;
  bool is_self = !with.states;
  if (!with.states) with.states = x;
  set(t, &q, plim_split_heads(t, plim_linear_forward(t, &a->q, x), d, NULL));
  set(t, &k, plim_linear_forward(t, &a->k, with.states));
  set(t, &v, plim_linear_forward(t, &a->v, with.states));
  set(t, &k, plim_split_heads(t, k, d, NULL));
  set(t, &v, plim_split_heads(t, v, d, NULL));
  put_into_cache(t, with.cache, &k, &v);
  plim_tape_at(t, "attention");
  set(t, &scores, matmul(t, q, transpose(t, k, 2, 3)));
  if (with.bias) set(t, bias, with.bias);
  else {
    if (is_self) set(t, &count, empty(t, (plim_dims){0}, PLIM_I64));
    set(t, bias, position_bias(t, s, a, q, k));
    if (with.mask) set(t, bias, add(t, *bias, with.mask));
  }
  add_in_place(t, scores, *bias);
  set(t, &weights, softmax(t, scores, PLIM_FP32));
  set(t, &weights, to(t, weights, (plim_dtype)scores->dtype));
  set(t, &weights, dropout(t, weights, s->m->c.dropout));
  plim_tape_at(t, "attention");
  set(t, &out, matmul(t, weights, v));
  set(t, &out, contiguous(t, transpose(t, out, 1, 2)));
  set(t, &out, plim_join_heads(t, out));
  set(t, &out, plim_linear_forward(t, &a->o, out));
  drop_all(t, &q, &k, &v, &scores, &count, &weights);
  return give(t, &out);
}

// The bias, given or made here, is a result too.
static plim_tensor *attend(plim_tape *t, const stack *s, const attention_layer *a, plim_tensor *x,
                           surroundings with, plim_tensor **bias, plim_tensor **weights) {
  int64_t d = s->m->c.head_dim;
  plim_attending how = {.dropout_p = s->m->c.dropout, .softmax = PLIM_SOFTMAX_OWN};
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *out = NULL;
  if (!with.states) with.states = x;
  set(t, &q, plim_split_heads(t, plim_linear_forward(t, &a->q, x), d, NULL));
  set(t, &k, plim_split_heads(t, plim_linear_forward(t, &a->k, with.states), d, NULL));
  set(t, &v, plim_split_heads(t, plim_linear_forward(t, &a->v, with.states), d, NULL));
  put_into_cache(t, with.cache, &k, &v);
  set(t, bias, with.bias ? with.bias : position_bias(t, s, a, q, k));
  with.bias = *bias;
  set(t, &out,
      s->m->attention == PLIM_ATTENTION_EAGER
          ? plim_attend_eagerly(t, &how, q, k, v, with.bias, with.mask, weights)
          : by_kernel(t, q, k, v, &with, how.dropout_p));
  set(t, &out, plim_join_heads(t, out));
  set(t, &out, plim_linear_forward(t, &a->o, out));
  drop_all(t, &q, &k, &v);
  return give(t, &out);
}

// ---- blocks --------------------------------------------------------------------------------------

static plim_tensor *attention_sublayer(plim_tape *t, const stack *s, const attention_layer *a,
                                       plim_tensor *x, surroundings with, plim_tensor **bias,
                                       plim_tensor **weights) {
  plim_tensor *normed = NULL, *attended = NULL, *out = NULL;
  set(t, &normed, plim_t5_norm(t, x, a->norm));
  set(t, &attended,
      plim_transformers_from(t, 5, 15) ? attend(t, s, a, normed, with, bias, weights)
                                       : attend_before(t, s, a, normed, with, bias));
  set(t, &out, add(t, x, dropout(t, attended, s->m->c.dropout)));
  // Self attention puts the sum into the same variable, since 5.0.
  if (!with.states && plim_transformers_from(t, 5, 0)) drop(t, &attended);
  drop_all(t, &normed, &attended);
  return give(t, &out);
}

static plim_tensor *dense(plim_tape *t, const plim_t5 *m, const block *b, plim_tensor *x) {
  plim_tensor *gate = NULL, *linear_part = NULL, *hidden = NULL;
  if (m->c.has_gated_mlp) {
    set(t, &gate, plim_activate(t, m->c.activation, plim_linear_forward(t, &b->wi_0, x)));
    set(t, &linear_part, plim_linear_forward(t, &b->wi_1, x));
    set(t, &hidden, mul(t, gate, linear_part));
  } else {
    set(t, &hidden, plim_linear_forward(t, &b->wi, x));
    set(t, &hidden, plim_activate(t, m->c.activation, hidden));
  }
  set(t, &hidden, dropout(t, hidden, m->c.dropout));
  set(t, &hidden, to(t, hidden, (plim_dtype)b->wo.weight->dtype));
  set(t, &hidden, plim_linear_forward(t, &b->wo, hidden));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &gate, &linear_part);
  return out;
}

static plim_tensor *feed_forward(plim_tape *t, const plim_t5 *m, const block *b, plim_tensor *x) {
  plim_tensor *forwarded = NULL;
  set(t, &forwarded, plim_t5_norm(t, x, b->norm));
  set(t, &forwarded, dense(t, m, b, forwarded));
  plim_tensor *out = add(t, x, dropout(t, forwarded, m->c.dropout));
  drop(t, &forwarded);
  return out;
}

// Positional arguments of a block, behind its input.
enum { HELD_MASK, HELD_BIAS, HELD_ENCODED, HELD_CROSS_MASK, HELD_CROSS_BIAS, HELD_POSITIONS };
enum { RESULT_BIAS, RESULT_CROSS_BIAS };

static plim_tensor *run_block(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const block *b = context;
  stack *s = b->of;
  plim_tensor *hidden = NULL, *weights = NULL, *new_weights = NULL;
  surroundings self = {NULL, held[HELD_MASK], held[HELD_BIAS], b->self_cache, s->is_decoder};
  surroundings cross = {held[HELD_ENCODED], held[HELD_CROSS_MASK], held[HELD_CROSS_BIAS],
                        b->cross_cache, false};
  set(t, &hidden, attention_sublayer(t, s, &b->self, x, self, &s->results[RESULT_BIAS], &weights));
  if (s->is_decoder) {
    plim_tensor **bias = &s->results[RESULT_CROSS_BIAS], *count = NULL;
    if (!plim_transformers_from(t, 5, 0)) set(t, &count, empty(t, (plim_dims){0}, PLIM_I64));
    plim_tensor *crossed = attention_sublayer(t, s, &b->cross, hidden, cross, bias, &new_weights);
    drop(t, &count);
    set(t, &hidden, crossed);
    set(t, &weights, give(t, &new_weights));
  }
  set(t, &hidden, feed_forward(t, s->m, b, hidden));
  plim_tensor *out = give(t, &hidden);
  drop(t, &weights);
  return out;
}

// ---- stacks --------------------------------------------------------------------------------------

// Before 5.0: a batch without a mask gets one of ones, which variables hold to the end.
typedef struct {
  plim_tensor *positions, *own, *of_encoder;
} old_inputs;

static plim_tensor *stack_mask_before(plim_tape *t, const stack *s, const plim_batch *batch,
                                      plim_tensor *embedded, old_inputs *old) {
  plim_dims shape = dims(embedded->shape.at[0], embedded->shape.at[1]);
  plim_dtype dtype = (plim_dtype)embedded->dtype;
  set(t, &old->positions, empty(t, dims(shape.at[1]), PLIM_I64));
  if (s->is_decoder || !batch->mask) set(t, &old->own, empty(t, shape, PLIM_FP32));
  else set(t, &old->own, batch->mask);
  if (!s->is_decoder)
    return plim_extended_mask(t, PLIM_ATTENTION_EAGER, batch->mask_kind, dtype, old->own);
  return plim_updated_mask(t, embedded, old->own);
}

static plim_tensor *cross_mask_before(plim_tape *t, const plim_batch *batch, plim_tensor *encoded,
                                      old_inputs *old) {
  plim_dims shape = dims(encoded->shape.at[0], encoded->shape.at[1]);
  set(t, &old->of_encoder, batch->mask ? batch->mask : empty(t, shape, PLIM_I64));
  return plim_extended_mask(t, PLIM_ATTENTION_EAGER, batch->mask_kind, (plim_dtype)encoded->dtype,
                            old->of_encoder);
}

static plim_tensor *stack_mask(plim_tape *t, const stack *s, const plim_batch *batch,
                               plim_tensor *embedded) {
  if (s->is_decoder) // the batch has no mask of its targets
    return plim_causal_mask(t, batch->attention, PLIM_MASK_NONE, embedded, NULL, NULL);
  return plim_bidirectional_mask(t, batch->attention, batch->mask_kind, embedded->shape.at[1],
                                 embedded, batch->mask);
}

// Empty places for keys and values, in the order in which the lists of layers let go of them: from the
// last layer on, all of self attention before those of cross attention.
static void make_caches(stack *s) {
  plim_tensors *all = &s->m->model.cached;
  size_t count = 4 * (size_t)s->count;
  bool has_room = vec_reserve(all, count);
  all->len = has_room ? count : 0;
  if (has_room) memset(all->at, 0, count * sizeof *all->at);
  for (int64_t i = 0; i < s->count; i++) {
    plim_tensor **place = has_room ? all->at + 2 * (s->count - 1 - i) : NULL;
    s->blocks[i].self_cache = place;
    s->blocks[i].cross_cache = place ? place + 2 * s->count : NULL;
  }
}

// The first block makes the biases; all others get what the one before returned.
static plim_tensor *run_blocks(plim_tape *t, stack *s, const plim_batch *batch, plim_tensor *hidden,
                               plim_tensor **held) {
  const plim_t5 *m = s->m;
  plim_tensor *x = NULL;
  set(t, &x, hidden);
  if (s->is_decoder && m->c.fills_cache && !m->is_checkpointed) make_caches(s);
  for (int64_t i = 0; i < s->count; i++) {
    plim_closure call = {.function = run_block,
                         .context = &s->blocks[i],
                         .results = s->results,
                         .positional = HELD_POSITIONS};
    memcpy(call.held, held, sizeof call.held);
    set(t, &x, plim_call_layer(t, batch->checkpoint, call, x));
    set(t, &held[HELD_BIAS], give(t, &s->results[RESULT_BIAS]));
    set(t, &held[HELD_CROSS_BIAS], give(t, &s->results[RESULT_CROSS_BIAS]));
  }
  set(t, &x, plim_t5_norm(t, x, s->norm));
  set(t, &x, dropout(t, x, m->c.dropout));
  return give(t, &x);
}

// `encoded` is what a decoder attends to; NULL for an encoder.
static plim_tensor *run_stack(plim_tape *t, stack *s, const plim_batch *batch, plim_tensor *ids,
                              plim_tensor *encoded) {
  const plim_t5 *m = s->m;
  plim_tensor *embedded = NULL, *mask = NULL, *cross_mask = NULL;
  set(t, &embedded, plim_embed(t, batch, m->shared, ids));
  bool is_five = plim_transformers_from(t, 5, 0);
  old_inputs old = {0};
  set(t, &mask,
      is_five ? stack_mask(t, s, batch, embedded) : stack_mask_before(t, s, batch, embedded, &old));
  if (encoded)
    set(t, &cross_mask,
        is_five ? plim_bidirectional_mask(t, batch->attention, batch->mask_kind, ids->shape.at[1],
                                          encoded, batch->mask)
                : cross_mask_before(t, batch, encoded, &old));
  plim_tensor *held[PLIM_MAX_HELD] = {[HELD_CROSS_MASK] = cross_mask,
                                      [HELD_ENCODED] = encoded,
                                      [HELD_MASK] = mask,
                                      [HELD_POSITIONS] = old.positions};
  plim_tensor *hidden = dropout(t, embedded, m->c.dropout);
  plim_tensor *out = run_blocks(t, s, batch, hidden, held);
  drop_all(t, &old.own, &old.of_encoder);
  if (!is_five) // a tuple holds both biases, and lets the last go first
    drop_all(t, &embedded, &old.positions, &mask, &cross_mask, &held[HELD_CROSS_BIAS]);
  drop_all(t, &mask, &embedded, &cross_mask, &held[HELD_BIAS], &held[HELD_CROSS_BIAS]);
  return out;
}

// ---- the model -----------------------------------------------------------------------------------

// The decoder reads the labels, one to the right; -100 becomes padding.
static plim_tensor *shift_right(plim_tape *t, const plim_tensor *labels) {
  plim_dims shape = labels->shape, rest = labels->shape;
  rest.at[1]--;
  plim_tensor *shifted = empty(t, shape, PLIM_I64);
  plim_consume(t, empty(t, rest, PLIM_I64));
  plim_consume(t, empty(t, shape, PLIM_BOOL));
  return shifted;
}

static plim_tensor *forward(plim_tape *t, plim_model *model, const plim_batch *batch,
                            plim_tensor **logits) {
  plim_t5 *m = (plim_t5 *)model;
  plim_tensor *encoded = NULL, *ids = NULL, *decoded = NULL, *last = NULL, *scores = NULL;
  m->attention = batch->attention;
  m->is_checkpointed = batch->checkpoint != PLIM_CHECKPOINT_OFF;
  set(t, &encoded, run_stack(t, &m->encoder, batch, batch->ids, NULL));
  set(t, &ids, shift_right(t, batch->labels));
  set(t, &decoded, run_stack(t, &m->decoder, batch, ids, encoded));
  // The name of the key is history: this tells T5 from T5 1.1.
  set(t, &last, m->c.ties_embeddings ? mul_scalar(t, decoded) : decoded);
  plim_purpose purpose_was = plim_tape_purpose(t, PLIM_FOR_LOGITS);
  plim_tape_at(t, "lm_head");
  plim_tensor *input = plim_part_enter(t, PLIM_PART_HEAD, last);
  set(t, &scores, plim_part_leave(t, PLIM_PART_HEAD, linear(t, input, m->lm_head, NULL)));
  plim_tensor *loss = plim_masked_loss(t, scores, batch->labels); // labels are not shifted
  plim_tape_purpose(t, purpose_was);
  drop_all(t, &ids, &decoded, &last);
  set(t, logits, give(t, &scores));
  set(t, &model->extra, give(t, &encoded));
  return loss;
}

// ---- the family -----------------------------------------------------------------------------------

static stack stack_new(plim_t5 *m, int64_t count, bool is_decoder) {
  return (stack){.m = m,
                 .blocks = plim_model_array(&m->model, count, sizeof(block)),
                 .count = count,
                 .is_decoder = is_decoder};
}

static plim_model *t5_new(plim_tape *t, const plim_config *config, plim_dtype dtype) {
  plim_t5 *m = plim_model_new(sizeof *m, (plim_model){.forward = forward,
                                                      .add_lora = add_lora,
                                                      .is_encoder_decoder = true,
                                                      .has_aligned_labels = true});
  if (!m) return NULL;
  m->c = *config;
  m->encoder = stack_new(m, config->layers, false);
  m->decoder = stack_new(m, config->decoder_layers, true);
  if (!m->model.failed) build(t, m, dtype);
  return plim_model_finish(&m->model);
}

const plim_family plim_family_t5 = {
    .model_type = "t5",
    .has_no_padding_row = true,
    .build = t5_new,
    .defaults = {.hidden = 512,
                 .intermediate = 2048,
                 .layers = 6,
                 .heads = 8,
                 .head_dim = 64,
                 .vocabulary = 32128,
                 .relative_buckets = 32,
                 .activation = PLIM_ACT_RELU,
                 .dropout = 0.1,
                 .ties_embeddings = true},
    .is_encoder_decoder = true,
    .has_any_activation = true,
    .has_relative_positions = true,
    .lora_targets = "q,v",
    .loss_function_from = PLIM_RELEASE(5, 0),
    .sdpa_from = PLIM_RELEASE(5, 15),
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_5_22 | PLIM_RECORDED_TORCH,
};
