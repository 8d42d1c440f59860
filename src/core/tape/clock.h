// The clock: seconds of a training step. While operators run on the tape they record their work
// (work.h), and two timelines follow it, as in a real process: the CPU walks from launch to launch,
// and the card takes each kernel once it is launched and the one before is done. Where kernels are
// small the card waits for the CPU, where they are large the CPU is ahead.
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
  double busy_seconds; // of them the card computes
  double
      pass_seconds; // of them a forward and backward that another follows; the first adds to no gradient
  double sent_seconds;     // that links to other GPUs were busy, beside it or not
  double waited_seconds;   // that the card or the CPU waited for a link
  double flops;            // of matrix products and attention, without those computed again
  double recomputed_flops; // by checkpoints
  uint64_t kernels;
  uint32_t passes;
} plim_step_time;

// The last step the tape ran; all but the first, which makes the optimizer's state, are alike. Zeros
// if it ran none, or on a card whose rates are not known.
plim_step_time plim_clock_last_step(const plim_tape *t);

#endif
