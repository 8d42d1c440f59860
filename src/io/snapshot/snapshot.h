// Reads snapshots of torch.cuda.memory._dump_snapshot: a pickle, uncompressed or compressed with gzip or xz. Files of
// several GB are supported: the memory needed depends on the number of events, not on the size of the file.
#ifndef PLIM_IO_SNAPSHOT_H
#define PLIM_IO_SNAPSHOT_H

#include "input.h"
#include "trace.h"

#define PLIM_SNAPSHOT_MAX_DEVICES 4096 // more is a damaged file

// Facts about a snapshot that may interest the user.
typedef struct {
  uint32_t devices;                 // the snapshot contains devices 0 to devices-1
  vec(uint64_t) entries_per_device; // trace entries recorded on each
  uint64_t annotate_entries;        // markers of the chosen device, which are left out
  uint64_t
      unknown_entries; // entries of the chosen device with an unknown action, which are left out
  char unknown_action[32]; // the first unknown action; empty if there is none
  bool has_host_traces;    // pinned host memory was recorded too; it is skipped
  bool pools_from_layout;  // the entries had no pool_id; the pools come from the segments
  plim_packing packing;
  uint64_t bytes;    // of the decompressed pickle
  unsigned protocol; // of the pickle
} plim_snapshot_info;

// Reads the recording of one device into *trace, which the caller clears with plim_trace_clear. Device -1 is the device
// with the most entries, and the lowest of several such devices. Path "-" is standard input. A snapshot without trace
// entries is valid: trace->entries is 0, and the layout is filled.
//
// `info` may be NULL; otherwise it is cleared with plim_snapshot_info_clear. On failure both
// outputs are empty and need no clearing; error->byte is an offset in the decompressed data.
//
// If the entries have no pool_id (torch up to 2.11) but the layout has segments in private pools, an event gets the pool
// of the segment that contains its address in the layout, from the time when that segment was created. The pool of a
// segment that was freed before the snapshot is unknown, so its events stay in the default pool.
plim_err plim_snapshot_read(const char *path, int device, plim_trace *trace,
                            plim_snapshot_info *info, plim_error *error);

// The same from memory.
plim_err plim_snapshot_read_memory(const void *data, size_t size, int device, plim_trace *trace,
                                   plim_snapshot_info *info, plim_error *error);

void plim_snapshot_info_clear(plim_snapshot_info *info);

#endif
