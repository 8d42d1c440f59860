#include "delta_rule.h"

#include "fold.h"
#include "kernels.h"
#include "ops.h"

#include "op_names.h"

enum { CHUNK = 64 };

// The function's variables, in the order in which its frame releases them. Shapes after the sequence is cut into N
// chunks of C tokens.
typedef struct {
  plim_tensor *query, *key;     // (B,H,N,C,K)
  plim_tensor *value, *beta;    // (B,H,T,V) and (B,H,T)
  plim_tensor *decay;           // (B,H,N,C)
  plim_tensor *v_beta, *k_beta; // (B,H,N,C,V) and (B,H,N,C,K)
  plim_tensor *mask;            // (C,C)
  plim_tensor *cum_decay;       // (B,H,N,C)
  plim_tensor *pairwise_decay;  // (B,H,N,C,C)
  plim_tensor *system, *intra;  // (B,H,N,C,C): ut_system, intra_chunk_attn
  plim_tensor *decayed_k_beta;  // (B,H,N,C,K)
  plim_tensor *new_values;      // (B,H,N,C,V)
  plim_tensor *k_cumdecay;      // (B,H,N,C,K)
  plim_tensor *state;           // (B,H,K,V)
  plim_tensor *out;             // (B,H,N,C,V): core_attn_out
  plim_tensor *chunk_decay;     // (B,H,N,1,1)
  plim_tensor *v_new, *inter;   // (B,H,C,V): of one chunk
} rule;

static plim_tensor *widen(plim_tape *t, plim_tensor *x) {
  return to_contiguous(t, transpose(t, x, 1, 2), PLIM_FP32);
}

static plim_tensor *l2norm(plim_tape *t, plim_tensor *x) {
  plim_tensor *inverse = NULL;
  set(t, &inverse, rsqrt(t, add_scalar(t, sum_dim(t, mul(t, x, x), 3, true, PLIM_FP32))));
  plim_tensor *out = mul(t, x, inverse);
  drop(t, &inverse);
  return out;
}

// Float32, with heads before tokens; queries and keys are normalised, and the sequence is padded to whole chunks.
static void prepare(plim_tape *t, rule *r, int64_t more) {
  plim_tensor *query = widen(t, r->query), *key = widen(t, r->key), *value = widen(t, r->value);
  plim_tensor *beta = widen(t, r->beta), *decay = widen(t, r->decay);
  set(t, &r->query, query);
  set(t, &r->key, key);
  set(t, &r->value, value);
  set(t, &r->beta, beta);
  set(t, &r->decay, decay);
  set(t, &r->query, l2norm(t, r->query));
  set(t, &r->key, l2norm(t, r->key));
  set(t, &r->query, mul_scalar(t, r->query));
  query = pad(t, r->query, 2, more), key = pad(t, r->key, 2, more);
  value = pad(t, r->value, 2, more);
  set(t, &r->query, query);
  set(t, &r->key, key);
  set(t, &r->value, value);
  beta = pad(t, r->beta, 2, more), decay = pad(t, r->decay, 2, more);
  set(t, &r->beta, beta);
  set(t, &r->decay, decay);
}

static plim_tensor *chunked(plim_tape *t, plim_tensor *x) {
  return reshape(t, x, dims(x->shape.at[0], x->shape.at[1], -1, CHUNK, x->shape.at[3]));
}

static void cut(plim_tape *t, rule *r) {
  set(t, &r->v_beta, mul(t, r->value, unsqueeze(t, r->beta, 3)));
  set(t, &r->k_beta, mul(t, r->key, unsqueeze(t, r->beta, 3)));
  set(t, &r->query, chunked(t, r->query));
  set(t, &r->key, chunked(t, r->key));
  set(t, &r->k_beta, chunked(t, r->k_beta));
  set(t, &r->v_beta, chunked(t, r->v_beta));
  plim_dims shape = r->decay->shape;
  set(t, &r->decay, reshape(t, r->decay, dims(shape.at[0], shape.at[1], -1, CHUNK)));
}

// torch.ones(C, C).triu(1), the running sums of the decay, and the decay between any two tokens of a chunk.
static void measure_decay(plim_tape *t, rule *r) {
  plim_tensor *ones = empty(t, dims(CHUNK, CHUNK), PLIM_BOOL);
  set(t, &r->mask, k_unary(t, ones));
  plim_consume(t, ones);
  set(t, &r->cum_decay, cumsum(t, r->decay, 3));
  plim_tensor *to_token = unsqueeze(t, r->cum_decay, 4), *from = unsqueeze(t, r->cum_decay, 3);
  set(t, &r->pairwise_decay, sub(t, to_token, from));
  set(t, &r->pairwise_decay, masked_fill(t, r->pairwise_decay, r->mask));
  set(t, &r->pairwise_decay, exp_(t, r->pairwise_decay));
}

static plim_tensor *times_keys(plim_tape *t, const rule *r, plim_tensor *x) {
  return mul(t, matmul(t, x, transpose(t, r->key, 3, 4)), r->pairwise_decay);
}

// cum_decay.exp().unsqueeze(-1)
static plim_tensor *decay_so_far(plim_tape *t, const rule *r) {
  return unsqueeze(t, exp_(t, r->cum_decay), 4);
}

// Everything that needs no state: one triangular system in each chunk.
static void solve_chunks(plim_tape *t, rule *r) {
  set(t, &r->system, times_keys(t, r, r->k_beta));
  set(t, &r->intra, times_keys(t, r, r->query));
  set(t, &r->decayed_k_beta, mul(t, r->k_beta, decay_so_far(t, r)));
  set(t, &r->new_values, solve_triangular(t, r->system, r->v_beta));
  set(t, &r->k_cumdecay, solve_triangular(t, r->system, r->decayed_k_beta));
}

static void begin_scan(plim_tape *t, rule *r) {
  int64_t b = r->query->shape.at[0], h = r->query->shape.at[1];
  int64_t k = r->query->shape.at[4], v = r->new_values->shape.at[4];
  set(t, &r->state, empty(t, dims(b, h, k, v), (plim_dtype)r->new_values->dtype));
  set(t, &r->out, k_like(t, r->new_values));
  set(t, &r->query, mul(t, r->query, decay_so_far(t, r)));
  plim_tensor *to_end = sub(t, slice(t, r->cum_decay, 3, CHUNK - 1, CHUNK), r->cum_decay);
  set(t, &r->key, mul(t, r->key, unsqueeze(t, exp_(t, to_end), 4)));
  plim_tensor *whole = exp_(t, select_index(t, r->cum_decay, 3));
  set(t, &r->chunk_decay, unsqueeze(t, unsqueeze(t, whole, 3), 4));
}

// One chunk: what it reads from the state, what it writes out, and the next state.
static void scan_chunk(plim_tape *t, rule *r) {
  plim_tensor *fresh = select_index(t, r->new_values, 2);
  plim_tensor *known = matmul(t, select_index(t, r->k_cumdecay, 2), r->state);
  set(t, &r->v_new, sub(t, fresh, known));
  set(t, &r->inter, matmul(t, select_index(t, r->query, 2), r->state));
  plim_tensor *intra = matmul(t, select_index(t, r->intra, 2), r->v_new);
  assign_index(t, r->out, 2, add(t, r->inter, intra));
  plim_tensor *decayed = mul(t, r->state, select_index(t, r->chunk_decay, 2));
  plim_tensor *keys = transpose(t, select_index(t, r->key, 2), 2, 3);
  plim_tensor *update = matmul(t, keys, r->v_new);
  set(t, &r->state, add(t, decayed, update));
}

static plim_tensor *result(plim_tape *t, rule *r, int64_t length, plim_dtype dtype) {
  drop(t, &r->state);
  plim_dims shape = r->out->shape;
  set(t, &r->out, reshape(t, r->out, dims(shape.at[0], shape.at[1], -1, shape.at[4])));
  set(t, &r->out, slice(t, r->out, 2, 0, length));
  set(t, &r->out, to_contiguous(t, transpose(t, r->out, 1, 2), dtype));
  plim_tensor *out = give(t, &r->out);
  drop_all(t, &r->query, &r->key, &r->value, &r->beta, &r->decay, &r->v_beta, &r->k_beta, &r->mask,
           &r->cum_decay, &r->pairwise_decay, &r->system, &r->intra, &r->decayed_k_beta,
           &r->new_values, &r->k_cumdecay, &r->chunk_decay, &r->v_new, &r->inter);
  return out;
}

plim_tensor *plim_delta_rule(plim_tape *t, plim_tensor *query, plim_tensor *key, plim_tensor *value,
                             plim_tensor *decay, plim_tensor *beta) {
  plim_dtype dtype = (plim_dtype)query->dtype;
  int64_t length = key->shape.at[1], more = (CHUNK - length % CHUNK) % CHUNK;
  rule r = {0};
  plim_tape_at(t, "delta rule");
  set(t, &r.query, query);
  set(t, &r.key, key);
  set(t, &r.value, value);
  set(t, &r.beta, beta);
  set(t, &r.decay, decay);
  prepare(t, &r, more);
  cut(t, &r);
  measure_decay(t, &r);
  solve_chunks(t, &r);
  begin_scan(t, &r);
  int64_t chunks = (length + more) / CHUNK;
  plim_fold fold = plim_fold_begin(t, chunks);
  plim_fold_variables variables = {
      .carried = {&r.state, &r.out},
      .shared = {&r.new_values, &r.k_cumdecay, &r.query, &r.intra, &r.key, &r.chunk_decay},
      .rebound = {&r.v_new, &r.inter}};
  for (int64_t i = 0; i < chunks && !plim_tape_failed(t); i++) {
    scan_chunk(t, &r);
    i += plim_fold_end_round(t, &fold, i, &variables);
  }
  return result(t, &r, length, dtype);
}
