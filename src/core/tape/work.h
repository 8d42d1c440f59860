// What operators tell the clock: each kernel when it is launched, and what the CPU does in between.
// Operators made of the helpers of kernels.h and ended by finish() are recorded without a line of
// their own, as one kernel that reads its arguments and writes its result; those that do more or
// less say so. On a card whose rates are not known
// all of this is nothing.
#ifndef PLIM_CORE_WORK_H
#define PLIM_CORE_WORK_H

#include "tape.h"

typedef enum {
  PLIM_SDPA_CUDNN,     // what Hopper picks
  PLIM_SDPA_FLASH,     // what Ampere and Ada pick
  PLIM_SDPA_EFFICIENT, // older cards, float32, masks
  PLIM_SDPA_MATH       // when nothing else can
} plim_sdpa_kernel;

// Elementwise: reads up to two tensors (NULL: none) and writes one.
void plim_work_map(plim_tape *t, const plim_tensor *a, const plim_tensor *b, plim_tensor *out);
// The same, unless it has been written, or shares the memory of its arguments.
void plim_work_default(plim_tape *t, const plim_tensor *a, const plim_tensor *b, plim_tensor *out);
// A sum over rows (along the last dimension) or over columns.
void plim_work_sum(plim_tape *t, const plim_tensor *x, bool over_rows, plim_tensor *out);
// A softmax or its gradient, which reads `inputs` tensors like `out`.
void plim_work_softmax(plim_tape *t, int inputs, plim_tensor *out);
// Whatever else moves bytes.
void plim_work_bytes(plim_tape *t, double bytes);
// A product of matrices or of batches of them.
void plim_work_matmul(plim_tape *t, const plim_tensor *a, const plim_tensor *b, plim_tensor *out);
// The same where every element of the result is a sum of k.
void plim_work_products(plim_tape *t, int64_t k, const plim_tensor *a, const plim_tensor *b,
                        plim_tensor *out);
// Attention in one kernel, of which `node` (NULL: no gradients) remembers the work. What kind comes
// first: causal or not, with dropout or not.
void plim_work_attention_kind(plim_tape *t, bool is_causal, bool has_dropout);
void plim_work_attention(plim_tape *t, plim_grad_node *node, plim_sdpa_kernel kernel,
                         const plim_tensor *q, const plim_tensor *k);
void plim_work_attention_backward(plim_tape *t, const plim_grad_node *node, plim_sdpa_kernel kernel,
                                  plim_tensor *const *gradients);
// A kernel over all parameters that have a gradient, or over tensors like them, which it reads and
// writes `passes` times in all.
void plim_work_foreach(plim_tape *t, plim_tensor *const *parameters, size_t count, double passes);

// What the CPU does apart from launching.
void plim_work_operator(plim_tape *t);                 // an operator of forward
void plim_work_node(plim_tape *t);                     // a node of backward
void plim_work_triton(plim_tape *t);                   // a kernel that Python launches by Triton
void plim_work_hook(plim_tape *t);                     // a saved tensor packed or unpacked
void plim_work_parameters(plim_tape *t, size_t count); // a loop over parameters in Python
void plim_work_modules(plim_tape *t, uint32_t count);  // called in forward, if hooks are on them
void plim_work_hook_modules(plim_tape *t,
                            double seconds); // hooks on every module take so long around a call
uint32_t
plim_work_take_modules(plim_tape *t); // modules called in forward since this was last asked
void plim_work_ends_longer(
    plim_tape *t); // the last pass of a step does work that the others do not
void plim_work_cpu(plim_tape *t, double seconds); // anything else
// What Trainer does around a forward and backward: it looks at the loss, and walks the modules.
void plim_work_trainer(plim_tape *t);
// The CPU waits for the card.
void plim_work_synchronize(plim_tape *t);

// An optimizer step of the training loop.
void plim_work_step_begin(plim_tape *t);
void plim_work_pass_end(plim_tape *t); // of one forward and backward in it
void plim_work_step_end(plim_tape *t);

double plim_bytes_of(const plim_tensor *x); // that a kernel touches; NULL: 0

#endif
