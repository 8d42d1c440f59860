// GrokAdamW (grokadamw 0.1.2): AdamW on a gradient with its slow average added. All states are on the host and come to the
// card for each step, parameter by parameter.
#include "kernels.h"
#include "optimizer_impl.h"
#include "traffic.h"
#include "work.h"

#include "tape_names.h"

enum { STATES = 3 };

// Variables of the loop over parameters: what one iteration assigns lives until the next rebinds it.
typedef struct {
  plim_tensor *average, *square, *slow, *grad;
} variables;

static void fetch(plim_tape *t, const plim_tensor *p, variables *v) {
  plim_tensor *average = k_like(t, p), *square = k_like(t, p);
  set(t, &v->square, square); // Python stores the second of a pair first
  set(t, &v->average, average);
  set(t, &v->slow, k_like(t, p));
}

static void step_one(plim_tape *t, plim_tensor *p, variables *v) {
  fetch(t, p, v);
  plim_consume(t, plim_clip_grad_norm(t, &p, 1));
  plim_tensor *scaled = k_unary(t, v->slow), *sum = k_binary(t, p->grad, scaled);
  plim_consume(t, scaled);
  set(t, &v->grad, sum);
  plim_consume(t, k_unary(t, v->square));
}

static void move_states(plim_tape *t, const update *u) {
  double bytes = 0, now = plim_traffic_now(t);
  for (size_t i = 0; i < u->count; i++)
    if (u->parameters[i]->grad) bytes += STATES * (double)plim_bytes_of(u->parameters[i]);
  plim_await(t, plim_copy_from_host(t, bytes, now));
  plim_await(t, plim_copy_to_host(t, bytes, now));
}

void step_grokadamw(plim_tape *t, const plim_optimizer *o, const update *u) {
  variables v = {0};
  (void)o;
  for (size_t i = 0; i < u->count; i++)
    if (u->parameters[i]->grad) step_one(t, u->parameters[i], &v);
  move_states(t, u);
  update_one_by_one(t, u, 6,
                    18); // averages, decay and the parameter; other kernels are recorded above
  drop_all(t, &v.average, &v.square, &v.slow, &v.grad);
}
