// What goes over links while the card computes, for the clock: collectives of several GPUs, copies to
// the host and back, and the optimizer where it runs on the host. Each way has a timeline of its own; a
// transfer begins when the CPU has asked for it and the way is free, and the card waits for it only
// where it is told to. With one GPU a collective takes no time. What collectives take of the card's own
// time and bandwidth is left out.
//
//   double ready = plim_send_gather(t, bytes, 0);
//   ...                                            // the card computes something else
//   plim_await(t, ready);
#ifndef PLIM_CORE_TRAFFIC_H
#define PLIM_CORE_TRAFFIC_H

#include "interconnect.h"
#include "tape.h"

// The GPUs that the tape's card works with.
void plim_traffic_wire(plim_tape *t, const plim_wiring *wiring);

double plim_traffic_now(const plim_tape *t); // when the card will have done all that is asked of it

// Not before `after`; return when they are done. Bytes are those of the whole tensor.
double plim_send_gather(plim_tape *t, double bytes, double after);  // all-gather
double plim_send_scatter(plim_tape *t, double bytes, double after); // reduce-scatter
double plim_send_reduce(plim_tape *t, double bytes, double after);  // all-reduce
double plim_copy_to_host(plim_tape *t, double bytes, double after);
double plim_copy_from_host(plim_tape *t, double bytes, double after);
double plim_copy_pageable(plim_tape *t, double bytes,
                          double after); // from memory that is not pinned

void plim_await(plim_tape *t, double moment);         // the card
void plim_await_on_host(plim_tape *t, double moment); // the CPU
void plim_await_once(plim_tape *t, double moment);    // the card, in one pass of a step alone

// An AdamW step on the host over so many elements of this rank, with clipping. The ranks of a machine share its memory.
void plim_update_by_deepspeed(plim_tape *t, double elements); // and a copy in 16 bits
void plim_update_by_torch(plim_tape *t, size_t parameters, double elements, plim_dtype dtype);

#endif
