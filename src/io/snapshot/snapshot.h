// Reads what torch.cuda.memory._dump_snapshot writes: a pickle, plain or packed with gzip or xz.
// Files of several GB are fine: memory follows the events kept, not the text.
#ifndef PLIM_IO_SNAPSHOT_H
#define PLIM_IO_SNAPSHOT_H

#include "input.h"
#include "trace.h"

#define PLIM_SNAPSHOT_MAX_DEVICES 4096 // more is a damaged file

// What a caller may want to tell the user about a snapshot.
typedef struct {
  uint32_t devices;                 // devices the snapshot speaks of: 0 .. devices-1
  vec(uint64_t) entries_per_device; // trace entries recorded on each
  uint64_t annotate_entries;        // entries of the chosen device that were left out: markers,
  uint64_t unknown_entries;         // and actions this version does not know,
  char unknown_action[32];          // of which this was the first; empty if none
  bool has_host_traces;             // pinned host memory was recorded, too; it is skipped
  bool pools_from_layout;           // entries had no pool_id; pools were taken from the segments
  plim_packing packing;
  uint64_t bytes;    // of the pickle, unpacked
  unsigned protocol; // of the pickle
} plim_snapshot_info;

// Reads the recording of one device (-1: the one with the most entries, the lowest of equals) into
// *trace, which the caller clears with plim_trace_clear. "-" is standard input. A snapshot without
// trace entries is no failure: trace->entries is 0 and the layout is there.
//
// `info` may be NULL; otherwise it is cleared with plim_snapshot_info_clear. On failure both
// outputs are empty and need no clearing; error->byte counts in the unpacked data.
//
// Where entries carry no pool_id (torch up to 2.11) but the layout has segments in private pools,
// events get the pool of the segment that holds their address at the end, from the time it was
// made. Segments freed before the snapshot was taken leave no trace of their pool, so their events
// stay in the default pool.
plim_err plim_snapshot_read(const char *path, int device, plim_trace *trace,
                            plim_snapshot_info *info, plim_error *error);

// The same from memory.
plim_err plim_snapshot_read_memory(const void *data, size_t size, int device, plim_trace *trace,
                                   plim_snapshot_info *info, plim_error *error);

void plim_snapshot_info_clear(plim_snapshot_info *info);

#endif
