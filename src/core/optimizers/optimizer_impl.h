// Shared by the optimizers: optimizer.c has the table, and each other file some of them. Private to this folder.
#ifndef PLIM_CORE_OPTIMIZER_IMPL_H
#define PLIM_CORE_OPTIMIZER_IMPL_H

#include "optimizer.h"

typedef struct {
  plim_tensor *const *parameters;
  plim_tensor **state;  // PLIM_OPTIMIZER_STATE variables for each parameter
  plim_tensor **shared; // PLIM_OPTIMIZER_SHARED variables
  size_t count;
  bool widens_tables;
} update;

struct plim_optimizer {
  const char *name;
  void (*step)(plim_tape *t, const plim_optimizer *o, const update *u);
  void (*begin)(plim_tape *t, plim_tensor *const *parameters, size_t count, plim_tensor **state);
  int moments;        // moments per parameter as large as it; factored ones do not count
  int bits;           // bitsandbytes: width of its state
  bool doubles_first; // AdEMAMix: two first moments, in one tensor
  bool is_compiled;
  bool projects;         // GaLore, APOLLO: gradients to a low rank
  bool in_deepspeed;     // DeepSpeed has it on the host
  bool is_alone;         // a package of its own, recorded on one GPU only
  bool lags;             // LOMO: steps in backward, one gradient late
  bool has_factors;      // AdaLOMO: has Adafactor's moments
  bool divides_blocks;   // Adam-mini: second moments of blocks
  bool draws_projection; // APOLLO: the gradient is projected on random vectors, not on its own
  bool scales_whole;     // APOLLO: one factor for a whole gradient instead of one per channel
  bool
      measures_updates; // bitsandbytes: max_unorm, the norm of the update compared with that of the parameter
  plim_step_order order;
  bool takes_scale;
  bool is_paged; // state in managed memory, which moves between host and card
};

// State variables: what parameters share, for one that has an optimizer of its own, and the matrix on which its gradient is
// projected.
enum { OWN_SHARED = 4, PROJECTION = 6 };

static inline plim_tensor **state_of(const update *u, size_t i) {
  return &u->state[PLIM_OPTIMIZER_STATE * i];
}

// Whether the parameter has a gradient but no state yet.
static inline bool is_new(const update *u, size_t i) {
  return u->parameters[i]->grad && !*state_of(u, i);
}

// `blocks` of a parameter that is one block, of whatever size.
#define PLIM_ONE_BLOCK UINT32_MAX

// Records the in-place work of a step for the clock: kernels that together read or write a tensor of each parameter's
// size `passes` times, for all parameters at once or for one after the other.
void update_in_place(plim_tape *t, const update *u, int kernels, double passes);
void update_one_by_one(plim_tape *t, const update *u, int kernels, double passes);

void step_adamw_fused(plim_tape *t, const plim_optimizer *o, const update *u);
void step_adamw_foreach(plim_tape *t, const plim_optimizer *o, const update *u);
void step_adamw_loop(plim_tape *t, const plim_optimizer *o, const update *u);
void step_sgd(plim_tape *t, const plim_optimizer *o, const update *u);
void step_sgd_momentum(plim_tape *t, const plim_optimizer *o, const update *u);
void step_lion(plim_tape *t, const plim_optimizer *o, const update *u);
void step_adafactor(plim_tape *t, const plim_optimizer *o, const update *u);
void step_bitsandbytes(plim_tape *t, const plim_optimizer *o, const update *u);
void step_muon(plim_tape *t, const plim_optimizer *o, const update *u);
void step_torchao(plim_tape *t, const plim_optimizer *o, const update *u);

// Of Adafactor (adafactor.c): norm(x) / sqrt(count); the mean over the last dimension but one, or the last one; the second
// moment from the means of its rows and columns; and these means for a gradient, or for a vector the whole moment.
plim_tensor *root_mean_square(plim_tape *t, const plim_tensor *x, plim_dtype dtype);
plim_tensor *mean_over(plim_tape *t, const plim_tensor *x, int from_last, bool keep);
plim_tensor *from_factors(plim_tape *t, plim_tensor *row, plim_tensor *column);
void make_factors(plim_tape *t, const plim_tensor *grad, plim_tensor **row_state,
                  plim_tensor **column_state);

// One parameter's step by bitsandbytes' kernels; x has the shape for which the parameter has moments.
void update_with_bitsandbytes(plim_tape *t, const plim_optimizer *o, const update *u, size_t i,
                              plim_tensor *x);

// A gradient projected to a rank, on a matrix that is made at first, and an update projected back (low_rank.c).
plim_tensor *plim_project(plim_tape *t, const plim_optimizer *o, plim_tensor *grad, int64_t rank,
                          plim_tensor **projection);
plim_tensor *plim_project_back(plim_tape *t, const plim_tensor *low, const plim_tensor *projection);

void step_adam_mini(plim_tape *t, const plim_optimizer *o, const update *u);
void step_badam(plim_tape *t, const plim_optimizer *o, const update *u);
void begin_badam(plim_tape *t, plim_tensor *const *parameters, size_t count, plim_tensor **state);
void step_came(plim_tape *t, const plim_optimizer *o, const update *u);
void step_grokadamw(plim_tape *t, const plim_optimizer *o, const update *u);
void step_optimi(plim_tape *t, const plim_optimizer *o, const update *u);
void step_stable_adamw(plim_tape *t, const plim_optimizer *o, const update *u);
void step_lomo(plim_tape *t, const plim_optimizer *o, const update *u);
void begin_adalomo(plim_tape *t, plim_tensor *const *parameters, size_t count, plim_tensor **state);
void step_low_rank(plim_tape *t, const plim_optimizer *o, const update *u);
void step_low_rank_8bit(plim_tape *t, const plim_optimizer *o, const update *u);

#endif
