// Reads arbitrary bytes as a snapshot and, if that succeeds, follows every index of the trace.
#include <stdlib.h>
#include <string.h>

#include "snapshot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool condition) {
  if (!condition) abort();
}

static void check_text(const plim_trace *trace, uint32_t offset) {
  expect(offset < trace->text.len);
  expect(memchr(trace->text.at + offset, 0, trace->text.len - offset) != NULL);
}

static void check_stacks(const plim_trace *trace) {
  expect(trace->stacks.len > 0 && trace->stacks.at[0].count == 0);
  for (size_t i = 0; i < trace->stacks.len; i++) {
    plim_stack stack = trace->stacks.at[i];
    expect((uint64_t)stack.first + stack.count <= trace->stack_frames.len);
  }
  for (size_t i = 0; i < trace->stack_frames.len; i++)
    expect(trace->stack_frames.at[i] < trace->frames.len);
  for (size_t i = 0; i < trace->frames.len; i++) {
    check_text(trace, trace->frames.at[i].file);
    check_text(trace, trace->frames.at[i].name);
  }
}

static void check_events(const plim_trace *trace) {
  expect(trace->events.len <= trace->entries);
  for (size_t i = 0; i < trace->events.len; i++) {
    const plim_event *event = &trace->events.at[i];
    expect(event->action < PLIM_EV_COUNT && event->stack < trace->stacks.len);
    expect(event->stream < trace->streams.len && event->pool < trace->pools.len);
    expect(event->addr == PLIM_UNKNOWN || event->action == PLIM_EV_OOM ||
           event->addr + event->bytes >= event->addr);
  }
}

static void check_layout(const plim_trace *trace) {
  for (size_t i = 0; i < trace->layout.len; i++) {
    const plim_layout_segment *segment = &trace->layout.at[i];
    expect(segment->stream < trace->streams.len && segment->pool < trace->pools.len);
    expect((uint64_t)segment->first_block + segment->block_count <= trace->layout_blocks.len);
    expect(segment->addr + segment->bytes >= segment->addr);
    expect(i == 0 || segment[-1].addr <= segment->addr);
  }
  for (size_t i = 0; i < trace->layout_blocks.len; i++) {
    const plim_layout_block *block = &trace->layout_blocks.at[i];
    expect(block->stack < trace->stacks.len && block->state <= PLIM_BLOCK_INACTIVE);
    expect(block->addr + block->bytes >= block->addr);
  }
  for (size_t i = 0; i < trace->annotations.len; i++)
    check_text(trace, trace->annotations.at[i].name);
  check_text(trace, trace->settings.conf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  plim_trace trace;
  plim_snapshot_info info;
  plim_error error = {0};
  plim_err failed = plim_snapshot_read_memory(data, size, -1, &trace, &info, &error);
  if (failed) {
    expect(failed == error.code && error.message[0] && trace.events.at == NULL);
    return 0;
  }
  expect(info.devices == info.entries_per_device.len);
  check_stacks(&trace);
  check_events(&trace);
  check_layout(&trace);
  plim_snapshot_info_clear(&info);
  plim_trace_clear(&trace);
  return 0;
}
