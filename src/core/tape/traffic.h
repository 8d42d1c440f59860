// Transfers that overlap with computing, for the clock: collectives between GPUs, copies to and from the host, and
// the optimizer step where it runs on the host. Each link has its own timeline: a transfer begins when the CPU has
// issued it and the link is free, and the card waits for it only at plim_await. With one GPU a collective takes no
// time. The share of the card's own time and bandwidth that collectives use is not modelled.
//
//   double ready = plim_send_gather(t, bytes, 0);
//   ...                                            // the card computes something else
//   plim_await(t, ready);
#ifndef PLIM_CORE_TRAFFIC_H
#define PLIM_CORE_TRAFFIC_H

#include "interconnect.h"
#include "tape.h"

// Describes the GPUs that the tape's card works with.
void plim_traffic_wire(plim_tape *t, const plim_wiring *wiring);

double plim_traffic_now(plim_tape *t); // when the card will have done all issued work

// Each transfer starts no earlier than `after`; the result is when it ends. `bytes` is the size of the whole tensor.
double plim_send_gather(plim_tape *t, double bytes, double after);  // all-gather
double plim_send_scatter(plim_tape *t, double bytes, double after); // reduce-scatter
double plim_send_reduce(plim_tape *t, double bytes, double after);  // all-reduce
double plim_copy_to_host(plim_tape *t, double bytes, double after);
double plim_copy_from_host(plim_tape *t, double bytes, double after);
// The same from and to memory that is not pinned. Python waits for such copies: call plim_await_on_host.
double plim_copy_pageable(plim_tape *t, double bytes, double after);
double plim_copy_to_pageable(plim_tape *t, double bytes, double after);

void plim_await(plim_tape *t, double moment);         // the card waits
void plim_await_on_host(plim_tape *t, double moment); // the CPU waits
void plim_await_once(plim_tape *t, double moment);    // the card waits, in only one pass of a step

// An AdamW step on the host, with clipping, over this rank's elements. The ranks of a machine share its memory.
void plim_update_by_deepspeed(plim_tape *t, double elements); // also writes a 16-bit copy
void plim_update_by_torch(plim_tape *t, size_t parameters, double elements, plim_dtype dtype);

#endif
