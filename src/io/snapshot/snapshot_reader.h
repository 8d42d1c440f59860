// What the parts of the snapshot reader share. Private to snapshot.c, entries.c and layout.c.
#ifndef PLIM_IO_SNAPSHOT_READER_H
#define PLIM_IO_SNAPSHOT_READER_H

#include "pickle.h"
#include "snapshot.h"
#include "snapshot_keywords.h"
#include "trace.h"

// What containers turn into while they are read.
enum {
  VALUE_ENTRY = PLIM_VALUE_FREE, // a trace entry; payload: how many came before it in the file
  VALUE_TRACE,                   // a list of entries; index into plim_reader.traces
  VALUE_FRAME,                   // index into plim_trace.frames
  VALUE_STACK,                   // a list of frames; index into plim_trace.stacks
};

// One list of trace entries: a device's, or the host's.
typedef struct {
  size_t first, count;        // range in plim_trace.events
  uint64_t entries;           // as recorded
  uint64_t annotate, unknown; // among them, left out of the events
  uint32_t first_unknown;     // string id of the action; PLIM_NO_ID
} device_trace;

typedef struct plim_reader {
  plim_pickle pickle;
  plim_trace *trace;
  vec(device_trace) traces;
  vec(plim_event) fresh; // entries read and not yet in a list; usually a thousand at most
  uint64_t fresh_first;  // number of fresh.at[0]
  uint64_t next_entry;   // entries below this number were put into a list already
  bool has_pool_ids;     // some entry had a pool_id
  vec(uint32_t) text_of; // string id -> offset in trace->text, 0 = not copied yet
  plim_index frame_index, stack_index;
  vec(uint32_t) scratch; // a stack being put together
} plim_reader;

// entries.c: the two shapes of the pickle; `self` is a plim_reader.
plim_shape plim_reader_list, plim_reader_dict;

// entries.c: values in the form the trace wants. All fail through plim_pickle_fail at the opcode
// at work, with `what` naming the field.
bool plim_reader_number(plim_reader *reader, plim_value value, const char *what, uint64_t *bits);
bool plim_reader_bytes(plim_reader *reader, plim_value value, const char *what, uint64_t *bytes);
bool plim_reader_stream(plim_reader *reader, plim_value value, uint16_t *stream);
bool plim_reader_pool(plim_reader *reader, plim_value value, uint8_t *pool);
uint32_t plim_reader_stack(plim_reader *reader,
                           plim_value frames); // 0 for what is no list of frames
bool plim_reader_text(plim_reader *reader, plim_value string, uint32_t *offset);

// layout.c: the end state, annotations and settings from what was read, for one device.
bool plim_reader_layout(plim_reader *reader, plim_value segments, uint32_t device);
bool plim_reader_annotations(plim_reader *reader, plim_value annotations, uint32_t device);
bool plim_reader_settings(plim_reader *reader, plim_value settings);
// The device a segment is on; 0 where it does not say.
bool plim_reader_segment_device(plim_reader *reader, plim_value segment, uint32_t *device);

#endif
