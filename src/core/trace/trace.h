// A trace: the events that PyTorch's allocator recorded. The snapshot reader fills it; replay, tuning and analysis read
// it. It is independent of files and pickles.
#ifndef PLIM_CORE_TRACE_H
#define PLIM_CORE_TRACE_H

#include "plimsoll.h"
#include "vec.h"

typedef enum {
  PLIM_EV_ALLOC,          // a tensor's storage was allocated
  PLIM_EV_FREE,           // free_requested immediately followed by free_completed
  PLIM_EV_FREE_REQUESTED, // a free that waits for another stream
  PLIM_EV_FREE_COMPLETED, // the end of that wait
  PLIM_EV_SEGMENT_ALLOC,  // cudaMalloc
  PLIM_EV_SEGMENT_FREE,   // cudaFree
  PLIM_EV_SEGMENT_MAP,    // pages mapped into an expandable segment
  PLIM_EV_SEGMENT_UNMAP,
  PLIM_EV_OOM,      // a request failed
  PLIM_EV_SNAPSHOT, // the moment a snapshot was taken
  PLIM_EV_COUNT
} plim_action;

typedef struct {
  uint64_t addr;    // device address; for an OOM: the device's free bytes, or PLIM_UNKNOWN
  uint64_t bytes;   // as requested by the user; segments: their size; OOM: rounded to 512
  uint64_t time_us; // since the epoch; 0 if the recording has no times
  uint32_t stack;   // index into plim_trace.stacks; 0 = no stack recorded
  uint32_t block;   // set by plim_trace_link: slot of its allocation (slots are reused)
  uint32_t entry;   // index in the recorded trace, where a FREE is two entries
  uint16_t stream;  // index into plim_trace.streams
  uint8_t action;   // a plim_action
  uint8_t pool;     // index into plim_trace.pools; 0 = the default pool
} plim_event;

typedef struct {
  uint32_t file, name; // offsets into plim_trace.text
  uint32_t line;
} plim_frame;

typedef struct {
  uint32_t first, count; // range in plim_trace.stack_frames; innermost call first
} plim_stack;

typedef enum {
  PLIM_BLOCK_ALLOCATED,
  PLIM_BLOCK_PENDING_FREE,
  PLIM_BLOCK_INACTIVE
} plim_block_state;

// One block of a segment in the snapshot's final layout.
typedef struct {
  uint64_t addr, bytes;
  uint64_t requested_bytes; // PLIM_UNKNOWN in old layouts
  uint32_t stack;
  uint8_t state; // a plim_block_state
} plim_layout_block;

// One segment (or one mapped range of an expandable segment) in the snapshot's final layout.
typedef struct {
  uint64_t addr, bytes;
  uint32_t first_block, block_count; // range in plim_trace.layout_blocks
  uint16_t stream;
  uint8_t pool;
  bool is_large, is_expandable;
} plim_layout_segment;

// A span marker of torch.profiler or an optimizer ("Optimizer.step#AdamW.step").
typedef struct {
  uint64_t time_us;
  uint32_t name; // offset into plim_trace.text
  bool is_end;
} plim_annotation;

typedef struct {
  int64_t owner, id; // torch's (int, int) pool id; (0,0) is the default pool
} plim_pool_id;

// The settings in a snapshot. Missing ones keep their "unknown" value.
typedef struct {
  uint32_t conf;      // PYTORCH_CUDA_ALLOC_CONF, offset into text
  bool known;         // false: the snapshot has no allocator_settings at all
  bool has_max_split; // max_split_bytes is valid; -1 = unlimited
  bool has_gc_threshold;
  bool has_expandable, expandable;
  bool has_divisions;
  int64_t max_split_bytes;
  double gc_threshold;
  uint32_t divisions[16]; // entry i is for sizes of 2^(20+i) bytes
} plim_recorded_settings;

// A block in use when the recording began: its first event is a free, or it has no events.
typedef struct {
  uint64_t addr;
  uint64_t requested_bytes;
  uint64_t block_bytes; // from the final layout; PLIM_UNKNOWN if freed before the end
  uint64_t end_at_most; // lowest address allocated after it while it lived; UINT64_MAX if none
  uint32_t slot, stack; // the stack is known only from the final layout
  uint16_t stream;
  uint8_t pool;
  bool is_pending; // its free was requested before the recording began
  bool is_gone;    // while linking: its free was seen
} plim_start_block;

// A segment, or a mapped piece of an expandable one, that existed when the recording began.
typedef struct {
  uint64_t addr, bytes;
  uint64_t range_start, range_end; // of the expandable segment, as far as the recording shows it
  uint16_t stream;
  uint8_t pool;
  bool is_large, is_expandable;
  bool size_is_unknown; // while linking: not known yet whether it is large
} plim_start_segment;

// The recording of one device.
typedef struct plim_trace {
  uint32_t device;
  vec(plim_event) events;
  vec(uint64_t) streams;           // CUDA stream handles; [0] is the first one seen
  vec(plim_pool_id) pools;         // [0] is always (0,0)
  vec(plim_layout_segment) layout; // the final layout, by address
  vec(plim_layout_block) layout_blocks;
  vec(plim_annotation) annotations;
  plim_recorded_settings settings;
  uint64_t entries; // trace entries as recorded, before free pairs were joined
  bool has_layout;  // the snapshot had a `segments` list

  // Interned text, frames and stacks. stacks[0] is the empty stack, text[0] the empty string.
  vec(char) text;
  vec(plim_frame) frames;
  vec(uint32_t) stack_frames; // indices into frames
  vec(plim_stack) stacks;

  // Set by plim_trace_link.
  uint32_t block_slots;                   // slots used by plim_event.block
  vec(plim_start_block) start_blocks;     // in use when the recording began, by address
  vec(plim_start_segment) start_segments; // by address
  uint64_t lost_frees;                    // addresses allocated again without a recorded free
} plim_trace;

// Initialises an empty trace with the reserved first entries. Returns false when out of memory.
bool plim_trace_init(plim_trace *trace);

// Frees the contents of the trace, not the trace itself. NULL is fine.
void plim_trace_clear(plim_trace *trace);

// Appends a recorded entry. A FREE_COMPLETED right after the FREE_REQUESTED of the same address is folded into one
// FREE. Returns false when out of memory.
bool plim_trace_push(plim_trace *trace, const plim_event *event);

// Index of a stream handle or pool id, which is added if new. UINT32_MAX when out of memory or if there are more than
// the index can hold (65,535 streams, 255 pools).
uint32_t plim_trace_stream(plim_trace *trace, uint64_t handle);
uint32_t plim_trace_pool(plim_trace *trace, plim_pool_id id);

// Determines the allocation of each event, and reconstructs what existed before the first event from frees of unknown
// allocations and from the final layout. Call once, after the last push. Returns false when out of memory.
bool plim_trace_link(plim_trace *trace);

// Whether the event gets memory from the driver, or returns some to it.
static inline bool plim_event_is_map(const plim_event *e) {
  return e->action == PLIM_EV_SEGMENT_ALLOC || e->action == PLIM_EV_SEGMENT_MAP;
}

static inline bool plim_event_is_release(const plim_event *e) {
  return e->action == PLIM_EV_SEGMENT_FREE || e->action == PLIM_EV_SEGMENT_UNMAP;
}

static inline const char *plim_trace_text(const plim_trace *trace, uint32_t offset) {
  return trace->text.at + offset;
}

#endif
