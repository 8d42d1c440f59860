// Shared by the parts of the snapshot reader. Private to snapshot.c, entries.c and layout.c.
#ifndef PLIM_IO_SNAPSHOT_READER_H
#define PLIM_IO_SNAPSHOT_READER_H

#include "pickle.h"
#include "snapshot.h"
#include "snapshot_keywords.h"
#include "trace.h"

// What containers of the pickle become while they are read.
enum {
  VALUE_ENTRY =
      PLIM_VALUE_FREE, // a trace entry; payload: the number of entries before it in the file
  VALUE_TRACE,         // a list of entries; index into plim_reader.traces
  VALUE_FRAME,         // index into plim_trace.frames
  VALUE_STACK,         // a list of frames; index into plim_trace.stacks
};

// The list of trace entries of one device, or of the host.
typedef struct {
  size_t first, count;        // range in plim_trace.events
  uint64_t entries;           // as recorded
  uint64_t annotate, unknown; // how many of them are left out of the events
  uint32_t first_unknown;     // string id of the action; PLIM_NO_ID
} device_trace;

typedef struct plim_reader {
  plim_pickle pickle;
  plim_trace *trace;
  vec(device_trace) traces;
  vec(plim_event) fresh; // entries that are not part of a list yet; usually at most a thousand
  uint64_t fresh_first;  // number of fresh.at[0]
  uint64_t next_entry;   // entries below this number are already part of a list
  bool has_pool_ids;     // some entry had a pool_id
  vec(uint32_t) text_of; // string id -> offset in trace->text, 0 = not copied yet
  plim_index frame_index, stack_index;
  vec(uint32_t) scratch; // a stack being put together
} plim_reader;

// entries.c: the two functions that plim_pickle calls; `self` is a plim_reader.
plim_shape plim_reader_list, plim_reader_dict;

// entries.c: convert values to the form that the trace needs. All report failures with plim_pickle_fail at the current
// opcode; `what` is the name of the field.
bool plim_reader_number(plim_reader *reader, plim_value value, const char *what, uint64_t *bits);
bool plim_reader_bytes(plim_reader *reader, plim_value value, const char *what, uint64_t *bytes);
bool plim_reader_stream(plim_reader *reader, plim_value value, uint16_t *stream);
bool plim_reader_pool(plim_reader *reader, plim_value value, uint8_t *pool);
uint32_t plim_reader_stack(plim_reader *reader,
                           plim_value frames); // 0 if it is not a list of frames
bool plim_reader_text(plim_reader *reader, plim_value string, uint32_t *offset);

// layout.c: read the final layout, the annotations and the settings of one device.
bool plim_reader_layout(plim_reader *reader, plim_value segments, uint32_t device);
bool plim_reader_annotations(plim_reader *reader, plim_value annotations, uint32_t device);
bool plim_reader_settings(plim_reader *reader, plim_value settings);
// The device of a segment; 0 if the segment does not name one.
bool plim_reader_segment_device(plim_reader *reader, plim_value segment, uint32_t *device);

#endif
