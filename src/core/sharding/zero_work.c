#include "zero_work.h"

#include "tape_state.h"
#include "work.h"

// Fitted to steps of DeepSpeed 0.19.8 on an H200's host (Xeon, virtual machine, Python 3.12),
// tests/truth/timing_offload.json; see docs/measurements.md, "What goes to the host". The same step varies by a fifth
// in both directions from run to run.
static const struct {
  double visit_seconds;     // hooks around the forward of one module, or around its backward
  double gather_seconds;    // a parameter fetched, waited for and released
  double gradient_seconds;  // its hook and the copy into a bucket
  double offloaded_seconds; // its norm, the search for infinities, and copies to the host
  double step_seconds;      // loops over all parameters around the optimizer
  double norm_seconds;      // adding up the norm of one offloaded gradient
} python = {.visit_seconds = 350e-6,
            .gather_seconds = 50e-6,
            .gradient_seconds = 150e-6,
            .offloaded_seconds = 200e-6,
            .step_seconds = 50e-6,
            .norm_seconds = 80e-6};

void zero_work_begin(plim_tape *t) { plim_work_ends_longer(t); }

void zero_watch_modules(plim_tape *t) { plim_work_hook_modules(t, python.visit_seconds); }

uint32_t zero_count_modules(plim_tape *t) { return plim_work_take_modules(t); }

void zero_work_backward(plim_tape *t, uint32_t modules) {
  plim_work_cpu(t, python.visit_seconds * modules);
}

void zero_work_gather(plim_tape *t, size_t parameters) {
  plim_work_cpu(t, python.gather_seconds * (double)parameters);
}

void zero_work_gradient(plim_tape *t, bool is_offloaded) {
  plim_work_cpu(t, python.gradient_seconds + (is_offloaded ? python.offloaded_seconds : 0));
}

void zero_work_step(plim_tape *t, size_t parameters, size_t offloaded_gradients) {
  plim_work_cpu(t, python.step_seconds * (double)parameters +
                       python.norm_seconds * (double)offloaded_gradients);
}
