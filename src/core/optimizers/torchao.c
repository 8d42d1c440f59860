// torchao 0.18's AdamW8bit and AdamW4bit: each moment has codes, a scale per block and its own table of values. The step
// is compiled, parameter by parameter; what it allocates for a moment is not modelled.
#include "optimizer_impl.h"

#include "tape_names.h"

#define SMALLEST 4096 // elements; below this the state is like the parameter: _new_buffer
#define BLOCK_8BIT 256
#define BLOCK_4BIT 128
#define VALUES_8BIT 256
#define VALUES_4BIT 16

enum { CODES, SCALES, TABLE, PARTS };

static void make_moment(plim_tape *t, const plim_optimizer *o, const plim_tensor *p,
                        plim_tensor **state) {
  int64_t count = plim_numel(&p->shape), block = o->bits == 4 ? BLOCK_4BIT : BLOCK_8BIT;
  if (count < SMALLEST || count % block) {
    set(t, &state[CODES], empty(t, p->shape, (plim_dtype)p->dtype));
    return;
  }
  set(t, &state[CODES], empty(t, dims(count * o->bits / 8), PLIM_U8));
  set(t, &state[SCALES], empty(t, dims(count / block), PLIM_FP32));
  set(t, &state[TABLE], empty(t, dims(o->bits == 4 ? VALUES_4BIT : VALUES_8BIT), PLIM_FP32));
}

void step_torchao(plim_tape *t, const plim_optimizer *o, const update *u) {
  for (size_t i = 0; i < u->count; i++) {
    if (!is_new(u, i)) continue;
    for (int k = 0; k < o->moments; k++)
      make_moment(t, o, u->parameters[i], state_of(u, i) + PARTS * k);
  }
  update_one_by_one(t, u, 1, 5); // reads and writes the parameter, reads the gradient, moments
}
