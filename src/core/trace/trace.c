#include "trace.h"

enum { MAX_STREAMS = 65535, MAX_POOLS = 255 }; // plim_event.stream is 16 bits, .pool 8

bool plim_trace_init(plim_trace *trace) {
  *trace = (plim_trace){0};
  if (vec_push(&trace->text, '\0') && vec_push(&trace->stacks, (plim_stack){0, 0}) &&
      vec_push(&trace->pools, (plim_pool_id){0, 0}))
    return true;
  plim_trace_clear(trace);
  return false;
}

void plim_trace_clear(plim_trace *trace) {
  if (!trace) return;
  vec_free(&trace->events);
  vec_free(&trace->streams);
  vec_free(&trace->pools);
  vec_free(&trace->layout);
  vec_free(&trace->layout_blocks);
  vec_free(&trace->annotations);
  vec_free(&trace->text);
  vec_free(&trace->frames);
  vec_free(&trace->stack_frames);
  vec_free(&trace->stacks);
  vec_free(&trace->start_blocks);
  vec_free(&trace->start_segments);
  *trace = (plim_trace){0};
}

static bool completes_last(const plim_trace *trace, const plim_event *event) {
  if (event->action != PLIM_EV_FREE_COMPLETED || trace->events.len == 0) return false;
  const plim_event *last = &trace->events.at[trace->events.len - 1];
  return last->action == PLIM_EV_FREE_REQUESTED && last->addr == event->addr;
}

bool plim_trace_push(plim_trace *trace, const plim_event *event) {
  if (completes_last(trace, event)) trace->events.at[trace->events.len - 1].action = PLIM_EV_FREE;
  else if (!vec_push(&trace->events, *event)) return false;
  trace->entries++;
  return true;
}

uint32_t plim_trace_stream(plim_trace *trace, uint64_t handle) {
  for (size_t i = 0; i < trace->streams.len; i++)
    if (trace->streams.at[i] == handle) return (uint32_t)i;
  if (trace->streams.len == MAX_STREAMS || !vec_push(&trace->streams, handle)) return UINT32_MAX;
  return (uint32_t)trace->streams.len - 1;
}

uint32_t plim_trace_pool(plim_trace *trace, plim_pool_id id) {
  for (size_t i = 0; i < trace->pools.len; i++)
    if (trace->pools.at[i].owner == id.owner && trace->pools.at[i].id == id.id) return (uint32_t)i;
  if (trace->pools.len == MAX_POOLS || !vec_push(&trace->pools, id)) return UINT32_MAX;
  return (uint32_t)trace->pools.len - 1;
}
