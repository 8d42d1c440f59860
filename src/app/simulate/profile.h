// Runs the user's program on the GPUs of this machine and collects what it did there, as simulate.h does on a simulated card,
// but without stand-ins and without a sandbox. The program's output goes to standard error.
//
//   profile_request request = {.command = words, .steps = 10};
//   simulate_result result;
//   profile_card card;
//   plim_err err = profile_run(&request, &result, &card, &error);
//   ...
//   simulate_result_clear(&result); // the snapshots are gone then
#ifndef PLIM_APP_PROFILE_H
#define PLIM_APP_PROFILE_H

#include "simulate.h"

typedef struct {
  const char *const *command; // ends with NULL
  const char *modules;        // the folder with python/, our modules; NULL: beside this program
  uint64_t steps; // optimizer steps after which the program is ended; 0: it ends by itself
  const savers_args *savers; // or NULL
} profile_request;

// What was measured in addition to the processes' own results.
typedef struct {
  bool is_interrupted; // the user stopped it (Ctrl-C)
  uint32_t gpus;       // of this machine
  // What other processes used on the card of the fullest process, before and after the run; PLIM_UNKNOWN if the driver does
  // not say. What they used before is not part of the result's peak_bytes.
  uint64_t others_bytes, others_after_bytes;
  // What CUDA and its libraries used there in addition to PyTorch: when training began, and at most; PLIM_UNKNOWN if several
  // processes of the program shared the card.
  uint64_t outside_first_bytes, outside_peak_bytes;
} profile_card;

// Fails if this machine has no GPU.
plim_err profile_find_gpu(plim_error *error);

// Fails if there is no GPU or the program cannot be started. If the program itself fails, that is a result. In any case, clear
// the result. Its peak_bytes is what the fullest process used on its card; it has no log, and nothing that only a simulated
// card knows.
plim_err profile_run(const profile_request *request, simulate_result *result, profile_card *card,
                     plim_error *error);

// Steps whose time does not count: the first one allocates, and in the second, kernels are still compiled and tuned.
enum { PROFILE_WARM_UP = 2 };

// Seconds of a step, warm-up excluded; NaN if too few steps were made.
typedef struct {
  double median, least, most;
  size_t count; // of steps that it is taken from
} profile_time;

profile_time profile_step_time(const simulate_process *process); // NULL is fine

#endif
