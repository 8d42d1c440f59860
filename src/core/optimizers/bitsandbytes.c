// The optimizers of bitsandbytes 0.50: state in float32, or in 8 bits with one scale per block, on the card or in
// managed memory. The step itself works in place.
#include "kernels.h"
#include "optimizer_impl.h"
#include "rounding.h"
#include "traffic.h"
#include "work.h"

#include "tape_names.h"

#define SMALLEST_8BIT 4096 // elements; below this the state is float32: min_8bit_size
#define SMALLEST_PAGED 1e5 // elements; below this the state stays on the card: get_state_buffer
#define BLOCK 256          // elements per scale: blocksize
#define QUANTILES 256      // values of an 8-bit code: create_dynamic_map

enum {
  MOMENT,
  SCALE = 2,
  UPDATE_NORM = 7
}; // indices of the first moment and the first scale in the state

// How many moments the tensor of a moment has.
static int64_t times(const plim_optimizer *o, int moment) {
  return o->doubles_first && moment == 0 ? 2 : 1;
}

static plim_tensor *state_buffer(plim_tape *t, const plim_optimizer *o, const plim_tensor *p,
                                 int moment, plim_dtype dtype) {
  bool is_paged = o->is_paged && (double)plim_numel(&p->shape) >= SMALLEST_PAGED;
  plim_dims shape = p->shape;
  shape.at[0] *= times(o, moment);
  return is_paged ? empty_on_host(t, shape, dtype) : empty(t, shape, dtype);
}

static void make_wide(plim_tape *t, const plim_optimizer *o, const plim_tensor *p,
                      plim_tensor **state) {
  for (int k = 0; k < o->moments; k++)
    set(t, &state[MOMENT + k], state_buffer(t, o, p, k, PLIM_FP32));
}

static void make_scales(plim_tape *t, const plim_optimizer *o, const plim_tensor *p,
                        plim_tensor **state) {
  int64_t blocks = plim_ceil_div(plim_numel(&p->shape), BLOCK);
  for (int k = 0; k < o->moments; k++)
    set(t, &state[SCALE + k], empty(t, dims(times(o, k) * blocks), PLIM_FP32));
}

// The code tables of both moments are copied to the card with the first parameter that needs them.
static void make_narrow(plim_tape *t, const plim_optimizer *o, const plim_tensor *p,
                        plim_tensor **state, plim_tensor **codes) {
  for (int k = 0; k < o->moments; k++)
    if (!codes[k]) set(t, &codes[k], empty(t, dims(QUANTILES), PLIM_FP32));
  if (o->doubles_first) make_scales(t, o, p, state);
  for (int k = 0; k < o->moments; k++)
    set(t, &state[MOMENT + k], state_buffer(t, o, p, k, PLIM_U8));
  if (!o->doubles_first) make_scales(t, o, p, state);
}

// One kernel per parameter: reads and writes the parameter, reads the gradient, reads and writes moments of `bits`
// bits.
static void update_by_bits(plim_tape *t, const plim_optimizer *o, const update *u) {
  for (size_t i = 0; i < u->count; i++) {
    double moment = o->bits / 8.0 / plim_dtype_bytes[u->parameters[i]->dtype];
    update one = {.parameters = u->parameters + i, .count = 1};
    update_in_place(t, &one, 1, 3 + 2 * o->moments * moment);
  }
}

static double paged_bytes(const plim_optimizer *o, const update *u) {
  double bytes = 0;
  for (size_t i = 0; i < u->count; i++)
    for (int k = 0; k < o->moments; k++) {
      const plim_tensor *moment = state_of(u, i)[MOMENT + k];
      if (moment && moment->storage->is_on_host) bytes += plim_bytes_of(moment);
    }
  return bytes;
}

// bitsandbytes only asks for the state to be on the card (optim/optimizer.py, prefetch_state); what leaves it is the
// driver's choice. With room beside what PyTorch has reserved, managed memory stays (timing_host.json).
static bool stays(const plim_tape *t) {
  uint64_t room = plim_tape_room(t);
  return room != PLIM_UNKNOWN && plim_tape_host_bytes(t) <= room;
}

// Otherwise all of it goes to the card for the step and leaves it for the next forward pass, even if only a part has no
// room: the driver evicts what was used longest ago, and every step uses all of it in the same order.
static void page(plim_tape *t, const plim_optimizer *o, const update *u) {
  if (stays(t)) return;
  double bytes = paged_bytes(o, u), now = plim_traffic_now(t);
  plim_await(t, plim_copy_from_host(t, bytes, now));
  plim_await(t, plim_copy_to_host(t, bytes, now));
}

static void make_state(plim_tape *t, const plim_optimizer *o, const update *u, size_t i,
                       const plim_tensor *x) {
  // Trainer asks for it by the name of the class, which GaLore's has not.
  bool is_table = u->widens_tables && u->parameters[i]->is_table && !o->projects;
  if (o->bits == 32 || plim_numel(&x->shape) < SMALLEST_8BIT || is_table)
    make_wide(t, o, x, state_of(u, i));
  else make_narrow(t, o, x, state_of(u, i), u->shared);
  if (o->measures_updates) set(t, &state_of(u, i)[UPDATE_NORM], empty(t, dims(1), PLIM_FP32));
}

void update_with_bitsandbytes(plim_tape *t, const plim_optimizer *o, const update *u, size_t i,
                              plim_tensor *x) {
  if (is_new(u, i)) make_state(t, o, u, i, x);
  if (!o->measures_updates || state_of(u, i)[MOMENT]->dtype != PLIM_FP32) return;
  plim_tensor *wide = k_to(t, x, PLIM_FP32); // torch.norm(p.data.float())
  plim_tensor *norm = k_sum(t, wide, (1u << x->shape.n) - 1, false, PLIM_FP32);
  if (wide != x) plim_consume(t, wide);
  plim_consume(t, norm);
}

void step_bitsandbytes(plim_tape *t, const plim_optimizer *o, const update *u) {
  for (size_t i = 0; i < u->count; i++)
    if (is_new(u, i)) make_state(t, o, u, i, u->parameters[i]);
  if (o->is_paged) page(t, o, u);
  update_by_bits(t, o, u);
}
