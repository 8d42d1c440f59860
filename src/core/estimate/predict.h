// Runs a job on the tape with the allocator behind it: how much memory it takes, when, and for what.
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

// Sees every event of the stream, after the allocator has. Hooks may be NULL. What the program around
// the model allocates before it is built, and does when it is there, can happen in two of them.
typedef struct {
  void (*event)(void *context, const plim_tape *t, const plim_allocator *a, plim_stream_kind kind,
                uint32_t id, uint64_t bytes);
  void *context;
  void (*begins)(void *context, plim_tape *t);
  void (*is_loaded)(void *context, plim_tape *t);
  void (*repurpose)(void *context, uint32_t id, plim_purpose purpose); // as the tape's; or NULL
  void (*skips)(void *context, uint64_t events); // so many that were not run, and are not shown
  void (*keeps)(void *context, uint32_t id, uint32_t like); // but one of them left this behind
} plim_observer;

typedef struct {
  const plim_job *job;
  const plim_gpu *gpu;           // NULL: unknown; kernels then run as on an H200
  const plim_alloc_conf *conf;   // NULL: PyTorch's defaults
  uint64_t limit_bytes;          // that the allocator may take; PLIM_UNKNOWN: any
  const plim_observer *observer; // NULL: none
  bool runs_all;                 // rounds that repeat too, for an observer that wants to see each
  uint64_t shown_event;          // 0: none; the observer wants to see this one, run or not
} plim_predict_request;

// Peaks are those of training, as torch counts them when they are reset after the model is loaded.
typedef struct {
  uint64_t parameters, trainable; // elements
  uint64_t loaded_bytes;          // allocated when the model is there
  uint64_t loading_bytes;         // reserved at most until then
  uint64_t peak_allocated_bytes, peak_reserved_bytes;
  uint64_t live_bytes[PLIM_PURPOSES]; // at the peak of allocated memory, before rounding
  plim_program_point peak_at;
  uint64_t peak_event; // index of the event that made it
  uint64_t host_bytes; // of the CPU's memory: what is offloaded or paged
  uint64_t events;     // of the stream, from the first parameter to the end of training
  uint64_t retries;
  plim_step_time step;            // the last; zeros if the card is unknown
  bool assumes_repetition;        // passes or steps that were not run and not known to repeat
  bool ran_math;                  // attention without a fused kernel, its scores in memory
  bool runs_out;                  // a request failed: the program ends there
  plim_program_point runs_out_at; //
  uint64_t runs_out_bytes;        // that were asked for
} plim_prediction;

plim_err plim_predict(const plim_predict_request *request, plim_prediction *out, plim_error *error);

// The same, and in one go what it would be on a card without the limit.
plim_err plim_predict_both(const plim_predict_request *request, plim_prediction *limited,
                           plim_prediction *unlimited, plim_error *error);

#endif
