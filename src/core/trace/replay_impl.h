// What the guided and the what-if replay share. Nobody else includes this.
#ifndef PLIM_CORE_REPLAY_IMPL_H
#define PLIM_CORE_REPLAY_IMPL_H

#include "driver.h"
#include "replay.h"

// The end of a wait. A free may stand for one: see guided_replay.c, follow_event.
static inline bool is_completion(const plim_event *e) {
  return e->action == PLIM_EV_FREE_COMPLETED || e->action == PLIM_EV_FREE;
}

plim_allocator_options replay_allocator_options(const plim_trace *trace,
                                                const plim_replay_options *options,
                                                plim_driver driver);

// An allocator in the state the recording began with; *consistent is false if that is not fully
// known. NULL when memory is out.
plim_allocator *replay_start(const plim_trace *trace, const plim_allocator_options *options,
                             bool *consistent);

// Keeps the event at which each peak was reached.
void replay_note_peaks(const plim_allocator *a, plim_usage *known, size_t event,
                       size_t *allocated_event, size_t *reserved_event);

// Whether the allocator's blocks are those of the final layout; true where the snapshot has none.
bool replay_ends_as_recorded(const plim_trace *t, const plim_allocator *a, bool *no_memory);

#endif
