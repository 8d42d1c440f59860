// The clock: how many seconds a training step takes. Operators on the tape record their work (work.h) on two
// timelines, as in a real process: the CPU goes from launch to launch, and the card runs each kernel once it is
// launched and the previous one is done. With small kernels the card waits for the CPU; with large ones the CPU
// runs ahead.
//
//   plim_tape_set_gpu(t, gpu);
//   plim_train(t, model, &recipe);
//   printf("%.3f s\n", plim_clock_last_step(t).seconds);
#ifndef PLIM_CORE_CLOCK_H
#define PLIM_CORE_CLOCK_H

#include "gpu.h"
#include "tape.h"

typedef struct {
  double seconds;      // from the first launch until the card is done
  double busy_seconds; // time in which the card computes
  // Time of one forward and backward that is followed by another. With several passes it is not that of the first,
  // which has no gradient to add to.
  double pass_seconds;
  double sent_seconds;     // time in which links to other GPUs are busy, overlapped or not
  double waited_seconds;   // time in which the card or the CPU waits for a link
  double flops;            // of matrix products and attention, without recomputation
  double recomputed_flops; // of checkpoints
  uint64_t kernels;
  uint32_t passes;
} plim_step_time;

// The last step the tape ran. All steps are alike except the first, which allocates the optimizer's state. Zeros
// if no step ran, or if the card's rates are not known.
plim_step_time plim_clock_last_step(const plim_tape *t);

#endif
