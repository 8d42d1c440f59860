#include "state_scan.h"

#include "kernels.h"
#include "ops.h"

#include "op_names.h"

// The function's variables, in the order in which its frame releases them. Shapes after the sequence is cut into N
// chunks of C tokens.
typedef struct {
  plim_tensor *x;                 // (B,N,C,H,P): hidden_states
  plim_tensor *steps;             // (B,T,H): dt
  plim_tensor *decay;             // (B,H,N,C): A
  plim_tensor *to_state;          // (B,N,C,H,S): B
  plim_tensor *from_state;        // (B,N,C,H,S): C
  plim_tensor *skipped;           // (B,T,H,P): D_residual, padded
  plim_tensor *sums;              // (B,H,N,C): A_cumsum
  plim_tensor *pairwise;          // (B,H,N,C,C): L
  plim_tensor *scores, *weights;  // (B,N,C,C,H): G, M
  plim_tensor *within;            // (B,N,C,H,P): Y_diag
  plim_tensor *to_end;            // (B,H,N,C): decay_states
  plim_tensor *decayed;           // (B,N,C,H,S): B_decay
  plim_tensor *states, *before;   // (B,N,H,P,S): states, previous_states
  plim_tensor *chunk_decay;       // (B,N+1,N+1,H): decay_chunk
  plim_tensor *new_states, *last; // (B,N+1,H,P,S) and (B,H,P,S)
  plim_tensor *from_start;        // (B,H,N,C): state_decay_out
  plim_tensor *read, *between;    // (B,N,C,H,P,S) and (B,N,C,H,P): C_times_states, Y_off
  plim_tensor *out;               // (B,T,H,P)
} scan;

// ---- sums of all segments -----------------------------------------------------------------------------

// ~torch.tril(torch.ones(n, n))
static plim_tensor *above_diagonal(plim_tape *t, int64_t n, plim_tensor **mask) {
  plim_tensor *ones = empty(t, dims(n, n), PLIM_BOOL), *lower = k_unary(t, ones);
  plim_consume(t, ones);
  set(t, mask, lower);
  return k_unary(t, *mask);
}

static void fill_above(plim_tape *t, int64_t n, plim_tensor **x, plim_tensor **mask) {
  plim_tensor *is_above = above_diagonal(t, n, mask), *filled = masked_fill(t, *x, is_above);
  plim_consume(t, is_above);
  set(t, x, filled);
}

// segment_sum: of every pair of tokens, what lies between them.
static plim_tensor *segment_sums(plim_tape *t, plim_tensor *x) {
  int rank = x->shape.n;
  int64_t n = x->shape.at[rank - 1];
  plim_dims square_shape = {.n = rank + 1};
  for (int i = 0; i < rank; i++) square_shape.at[i] = x->shape.at[i];
  square_shape.at[rank] = n;
  plim_tensor *pairs = NULL, *mask = NULL, *sums = NULL;
  set(t, &pairs, expand(t, unsqueeze(t, x, rank), square_shape));
  fill_above(t, n, &pairs, &mask);
  set(t, &sums, cumsum(t, pairs, rank - 1));
  fill_above(t, n, &sums, &mask);
  plim_tensor *out = give(t, &sums);
  drop_all(t, &pairs, &mask);
  return out;
}

// ---- the parts of the scan ----------------------------------------------------------------------------

// Float32, a state for each head, and the steps in time.
static void widen(plim_tape *t, const plim_state_inputs *in, int64_t more, scan *s) {
  int64_t heads = in->x->shape.at[2], times = heads / in->to_state->shape.at[2];
  set(t, &s->steps, add(t, in->steps, to(t, in->step_bias, (plim_dtype)in->steps->dtype)));
  set(t, &s->steps, softplus(t, s->steps));
  set(t, &s->steps, clamp(t, s->steps, 2));
  set(t, &s->x, to(t, s->x, PLIM_FP32));
  set(t, &s->to_state, repeat_each(t, to(t, s->to_state, PLIM_FP32), times, 2));
  set(t, &s->from_state, repeat_each(t, to(t, s->from_state, PLIM_FP32), times, 2));
  plim_tensor *skip = unsqueeze(t, in->skip, 1);
  set(t, &s->skipped, mul(t, skip, pad(t, s->x, 1, more)));
  set(t, &s->x, mul(t, s->x, to(t, unsqueeze(t, s->steps, 3), PLIM_FP32)));
  set(t, &s->decay, mul(t, in->rates, to(t, s->steps, PLIM_FP32)));
}

// reshape_into_chunks
static plim_tensor *chunked(plim_tape *t, plim_tensor *x, int64_t more, int64_t chunk) {
  plim_tensor *padded = pad(t, x, 1, more);
  plim_dims shape = padded->shape;
  if (shape.n == 3) return reshape(t, padded, dims(shape.at[0], -1, chunk, shape.at[2]));
  return reshape(t, padded, dims(shape.at[0], -1, chunk, shape.at[2], shape.at[3]));
}

static void cut(plim_tape *t, int64_t more, int64_t chunk, scan *s) {
  plim_tensor *x = chunked(t, s->x, more, chunk), *decay = chunked(t, s->decay, more, chunk);
  plim_tensor *to_state = chunked(t, s->to_state, more, chunk);
  plim_tensor *from_state = chunked(t, s->from_state, more, chunk);
  set(t, &s->x, x);
  set(t, &s->decay, decay);
  set(t, &s->to_state, to_state);
  set(t, &s->from_state, from_state);
  set(t, &s->decay, permute(t, s->decay, dims(0, 3, 1, 2)));
  set(t, &s->sums, cumsum(t, s->decay, 3));
}

// Tokens that affect later ones of their chunk: products with six dimensions, which are then summed up.
static void mix_within(plim_tape *t, scan *s) {
  set(t, &s->pairwise, exp_(t, segment_sums(t, s->decay)));
  plim_tensor *read = unsqueeze(t, s->from_state, 3), *written = unsqueeze(t, s->to_state, 2);
  set(t, &s->scores, sum_dim(t, mul(t, read, written), 5, false, PLIM_FP32));
  plim_tensor *scores = unsqueeze(t, s->scores, 5);
  plim_tensor *decay = unsqueeze(t, permute(t, s->pairwise, dims(0, 2, 3, 4, 1)), 5);
  set(t, &s->weights, sum_dim(t, mul(t, scores, decay), 5, false, PLIM_FP32));
  plim_tensor *weights = unsqueeze(t, s->weights, 5), *values = unsqueeze(t, s->x, 2);
  set(t, &s->within, sum_dim(t, mul(t, weights, values), 3, false, PLIM_FP32));
}

// What each chunk adds to the state.
static void write_states(plim_tape *t, int64_t chunk, scan *s) {
  plim_tensor *at_end = slice(t, s->sums, 3, chunk - 1, chunk);
  set(t, &s->to_end, exp_(t, sub(t, at_end, s->sums)));
  plim_tensor *to_end = unsqueeze(t, permute(t, s->to_end, dims(0, 2, 3, 1)), 4);
  set(t, &s->decayed, mul(t, s->to_state, to_end));
  plim_tensor *written = unsqueeze(t, s->decayed, 4), *values = unsqueeze(t, s->x, 5);
  set(t, &s->states, sum_dim(t, mul(t, written, values), 2, false, PLIM_FP32));
}

// The state before each chunk.
static void carry_states(plim_tape *t, scan *s) {
  plim_dims first = s->states->shape;
  first.at[1] = 1;
  int64_t chunks = s->states->shape.at[1];
  set(t, &s->before, empty(t, first, PLIM_FP32));
  set(t, &s->states, cat2(t, s->before, s->states, 1));
  plim_tensor *whole = pad(t, select_index(t, s->sums, 3), 2, 1);
  set(t, &s->chunk_decay, transpose(t, exp_(t, segment_sums(t, whole)), 1, 3));
  plim_tensor *decay = unsqueeze(t, unsqueeze(t, s->chunk_decay, 4), 5);
  plim_tensor *carried = mul(t, decay, unsqueeze(t, s->states, 2));
  set(t, &s->new_states, sum_dim(t, carried, 1, false, PLIM_FP32));
  plim_tensor *states = slice(t, s->new_states, 1, 0, chunks);
  plim_tensor *last = select_index(t, s->new_states, 1);
  set(t, &s->states, states);
  set(t, &s->last, last);
}

static void read_states(plim_tape *t, scan *s) {
  set(t, &s->from_start, exp_(t, s->sums));
  set(t, &s->read, mul(t, unsqueeze(t, s->from_state, 4), unsqueeze(t, s->states, 2)));
  plim_tensor *sum = sum_dim(t, s->read, 5, false, PLIM_FP32);
  plim_tensor *decay = unsqueeze(t, permute(t, s->from_start, dims(0, 2, 3, 1)), 4);
  set(t, &s->between, mul(t, sum, decay));
}

static plim_tensor *result(plim_tape *t, scan *s, int64_t length, int64_t more) {
  plim_dims shape = s->within->shape;
  set(t, &s->out, add(t, s->within, s->between));
  set(t, &s->out, reshape(t, s->out, dims(shape.at[0], -1, shape.at[3], shape.at[4])));
  set(t, &s->out, add(t, s->out, s->skipped));
  if (more) set(t, &s->out, slice(t, s->out, 1, 0, length));
  plim_tensor *out = give(t, &s->out);
  drop_all(t, &s->x, &s->steps, &s->decay, &s->to_state, &s->from_state, &s->skipped, &s->sums,
           &s->pairwise, &s->scores, &s->weights, &s->within, &s->to_end, &s->decayed, &s->states,
           &s->before, &s->chunk_decay, &s->new_states, &s->last, &s->from_start, &s->read,
           &s->between);
  return out;
}

plim_tensor *plim_state_scan(plim_tape *t, const plim_state_inputs *in) {
  int64_t length = in->x->shape.at[1], more = (in->chunk - length % in->chunk) % in->chunk;
  scan s = {0};
  plim_tape_at(t, "state space");
  set(t, &s.x, in->x);
  set(t, &s.to_state, in->to_state);
  set(t, &s.from_state, in->from_state);
  widen(t, in, more, &s);
  cut(t, more, in->chunk, &s);
  mix_within(t, &s);
  write_states(t, in->chunk, &s);
  carry_states(t, &s);
  read_states(t, &s);
  return result(t, &s, length, more);
}
