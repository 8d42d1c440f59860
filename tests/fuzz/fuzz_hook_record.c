// Reads arbitrary bytes as the record of the hook library: whatever a killed or broken process left there, the reader must get
// through it, and hand out only events that make sense. The bytes are the beginning of the file and of the ring.
#include <stdlib.h>
#include <string.h>

#include "hook_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool condition) {
  if (!condition) abort();
}

static void put(void *to, size_t room, const uint8_t *data, size_t size) {
  memcpy(to, data, size < room ? size : room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  enum { SLOTS = 6 };
  static hook_record record;
  hook_event events[SLOTS];
  uint64_t next = 0, lost = 0, read = 0;
  memset(&record, 0, offsetof(hook_record, processes));
  memset(record.ring, 0, SLOTS * sizeof *record.ring);
  size_t half = size / 2;
  put(&record, offsetof(hook_record, processes), data, half);
  put(record.ring, SLOTS * sizeof *record.ring, data + half, size - half);
  record.events %= SLOTS + 1; // the ring's other slots are empty, and each is waited for
  hook_event own = {.time_ns = 5, .bytes = 7, .pid = 9, .thread = 9, .kind = HOOK_EVENT_ALLOC};
  hook_record_write(&record, &own);
  for (size_t count; (count = hook_record_read(&record, &next, &lost, events, 3)); read += count)
    for (size_t i = 0; i < count; i++)
      expect(events[i].kind > HOOK_EVENT_NONE && events[i].kind < HOOK_EVENT_COUNT &&
             events[i].device < HOOK_MAX_DEVICES);
  expect(read >= 1 && read + lost == record.events && next == record.events);
  expect(hook_record_processes(&record) <= HOOK_MAX_PROCESSES);
  expect(hook_record_used(&record, 0) == 0);
  return 0;
}
