// Runs a job on the tape and its stream on the allocator: how much memory it takes, when, and for what.
//
//   plim_prediction p;
//   plim_err err = plim_predict(&request, &p, &error);
//   p.peak_reserved_bytes;
#ifndef PLIM_CORE_PREDICT_H
#define PLIM_CORE_PREDICT_H

#include "alloc_conf.h"
#include "allocator.h"
#include "clock.h"
#include "job.h"

// Sees every event of the stream after the allocator has processed it. Hooks may be NULL. `begins` and `is_loaded` may
// allocate on the tape, for what the surrounding program does before the model is built and after it is loaded.
typedef struct {
  void (*event)(void *context, const plim_tape *t, const plim_allocator *a, plim_stream_kind kind,
                uint32_t id, uint64_t bytes);
  void *context;
  void (*begins)(void *context, plim_tape *t);
  void (*is_loaded)(void *context, plim_tape *t);
  void (*repurpose)(void *context, uint32_t id, plim_purpose purpose); // like the sink's; or NULL
  void (*skips)(void *context, uint64_t events); // number of events that were neither run nor shown
  void (*keeps)(void *context, uint32_t id, uint32_t like); // an allocation that they left behind
} plim_observer;

typedef struct {
  const plim_job *job;
  const plim_gpu *gpu;         // NULL: unknown; kernels then run as on an H200
  const plim_alloc_conf *conf; // NULL: PyTorch's defaults
  uint64_t limit_bytes;        // the most that the allocator may reserve; PLIM_UNKNOWN: no limit
  bool limit_is_card;          // as in plim_target
  uint64_t
      most_bytes; // the second prediction of plim_predict_both ends when it reserves more; 0: never
  const plim_observer *observer; // NULL: none
  bool runs_all;        // runs repeating rounds, too, for an observer that needs every event
  uint64_t shown_event; // an event that the observer needs to see even if it repeats; 0: none
} plim_predict_request;

// Peaks are those of training, as torch reports them if they are reset after loading the model.
typedef struct {
  uint64_t parameters, trainable; // elements
  uint64_t loaded_bytes;          // allocated after loading
  uint64_t loading_bytes;         // peak of reserved memory during loading
  uint64_t loading_in_use_bytes;  // peak of allocated memory during loading
  uint64_t peak_allocated_bytes, peak_reserved_bytes;
  uint64_t live_bytes[PLIM_PURPOSES]; // at the peak of allocated memory, before rounding
  plim_program_point peak_at;
  uint64_t peak_event;    // index of the event at that peak
  uint64_t host_bytes;    // host memory: offloaded or paged
  uint64_t events;        // number of events from the first parameter to the end of training
  uint64_t folded_events; // of these, sent without running the tape (fold.h, pass_replay.h)
  uint64_t retries;
  plim_step_time step;            // the last step; zeros if the card is unknown
  bool assumes_repetition;        // skipped passes or steps are assumed to repeat, not known to
  bool ran_math;                  // attention ran without a fused kernel, with its scores in memory
  bool runs_out;                  // an allocation failed, which ended the program
  plim_program_point runs_out_at; // where it failed
  uint64_t runs_out_bytes;        // size of the failed request
  uint64_t runs_out_allocated_bytes; // in use at that moment
} plim_prediction;

plim_err plim_predict(const plim_predict_request *request, plim_prediction *out, plim_error *error);

// The same, together with the prediction for a card without the limit, in one run.
plim_err plim_predict_both(const plim_predict_request *request, plim_prediction *limited,
                           plim_prediction *unlimited, plim_error *error);

#endif
