// Shared by the guided and the what-if replay. Private to this folder.
#ifndef PLIM_CORE_REPLAY_IMPL_H
#define PLIM_CORE_REPLAY_IMPL_H

#include "driver.h"
#include "replay.h"

// The completion of a free. A plain free may be one, too: see guided_replay.c, follow_event.
static inline bool is_completion(const plim_event *e) {
  return e->action == PLIM_EV_FREE_COMPLETED || e->action == PLIM_EV_FREE;
}

plim_allocator_options replay_allocator_options(const plim_trace *trace,
                                                const plim_replay_options *options,
                                                plim_driver driver);

// An allocator in the state at the start of the recording; *consistent is false if that state is not fully known.
// Returns NULL when out of memory.
plim_allocator *replay_start(const plim_trace *trace, const plim_allocator_options *options,
                             bool *consistent);

// Records the event at which each peak was reached.
void replay_note_peaks(const plim_allocator *a, plim_usage *known, size_t event,
                       size_t *allocated_event, size_t *reserved_event);

// Whether the allocator's blocks are those of the final layout; true where the snapshot has none.
bool replay_ends_as_recorded(const plim_trace *t, const plim_allocator *a, bool *no_memory);

#endif
