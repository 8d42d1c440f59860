// What operators report to the clock: each kernel when it is launched, and what the CPU does between launches.
// An operator built from kernels.h and ended by finish() is recorded automatically as one kernel that reads its
// arguments and writes its result; operators that do more or less report it themselves. On a card whose rates are
// not known these functions do nothing.
#ifndef PLIM_CORE_WORK_H
#define PLIM_CORE_WORK_H

#include "kernel_rates.h"
#include "tape.h"

// An elementwise kernel that reads up to two tensors (NULL: none) and writes `out`.
void plim_work_map(plim_tape *t, const plim_tensor *a, const plim_tensor *b, plim_tensor *out);
// The same, unless a kernel that wrote `out` is already recorded or `out` shares the memory of an argument.
void plim_work_default(plim_tape *t, const plim_tensor *a, const plim_tensor *b, plim_tensor *out);
// A sum over rows (along the last dimension) or over columns.
void plim_work_sum(plim_tape *t, const plim_tensor *x, bool over_rows, plim_tensor *out);
// A softmax or its gradient, which reads `inputs` tensors of the size of `out`.
void plim_work_softmax(plim_tape *t, int inputs, plim_tensor *out);
// Any other kernel that moves this many bytes.
void plim_work_bytes(plim_tape *t, double bytes);
// A product of matrices or of batches of them.
void plim_work_matmul(plim_tape *t, const plim_tensor *a, const plim_tensor *b, plim_tensor *out);
// The same for any kernel in which each element of the result is a sum of k products; b may be NULL.
void plim_work_products(plim_tape *t, int64_t k, const plim_tensor *a, const plim_tensor *b,
                        plim_tensor *out);
// Attention in one fused kernel; `node` (NULL: no gradients) remembers the amount of work for backward. Call
// plim_work_attention_kind first to say whether it is causal and has dropout.
void plim_work_attention_kind(plim_tape *t, bool is_causal, bool has_dropout);
void plim_work_attention(plim_tape *t, plim_grad_node *node, plim_sdpa_kernel kernel,
                         const plim_tensor *q, const plim_tensor *k);
void plim_work_attention_backward(plim_tape *t, const plim_grad_node *node, plim_sdpa_kernel kernel,
                                  plim_tensor *const *gradients);
// A multi-tensor kernel over all parameters that have a gradient, or over tensors of the same sizes, which it
// reads or writes `passes` times in total.
void plim_work_foreach(plim_tape *t, plim_tensor *const *parameters, size_t count, double passes);

// What the CPU does apart from launching.
void plim_work_operator(plim_tape *t);                 // an operator of forward
void plim_work_node(plim_tape *t);                     // a node of backward
void plim_work_triton(plim_tape *t);                   // a kernel launched from Python by Triton
void plim_work_hook(plim_tape *t);                     // a saved tensor packed or unpacked
void plim_work_parameters(plim_tape *t, size_t count); // a Python loop over parameters
void plim_work_modules(plim_tape *t, uint32_t count);  // modules called in forward
void plim_work_cpu(plim_tape *t, double seconds);      // anything else
// From now on every call of a module also runs hooks, which take so long.
void plim_work_hook_modules(plim_tape *t, double seconds);
// Modules called in forward since the last call of this function.
uint32_t plim_work_take_modules(plim_tape *t);
// The last pass of a step does work that the others do not, so its time does not stand for them.
void plim_work_ends_longer(plim_tape *t);
// Trainer's own work around a forward and backward: it reads the loss and walks over the modules.
void plim_work_trainer(plim_tape *t);
// The CPU waits for the card.
void plim_work_synchronize(plim_tape *t);

// Begin and end of an optimizer step of the training loop.
void plim_work_step_begin(plim_tape *t);
void plim_work_pass_end(plim_tape *t); // the end of one forward and backward in it
void plim_work_step_end(plim_tape *t);

double plim_bytes_of(const plim_tensor *x); // bytes that a kernel touches; NULL: 0

#endif
