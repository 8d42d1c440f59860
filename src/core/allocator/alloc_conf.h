// The settings of PYTORCH_ALLOC_CONF that affect the memory of PyTorch's caching allocator.
#ifndef PLIM_CORE_ALLOC_CONF_H
#define PLIM_CORE_ALLOC_CONF_H

#include "plimsoll.h"

#define PLIM_DIVISION_SLOTS 16 // roundup_power2_divisions has one entry per power of two from 1 MiB

typedef struct plim_alloc_conf {
  bool expandable_segments;
  bool throw_on_cudamalloc_oom;          // fail at once instead of releasing and retrying
  uint64_t large_segment_bytes;          // cudaMalloc size for requests of 1 to 10 MiB; page of
                                         // expandable segments in the large pool
  uint64_t max_split_bytes;              // blocks this large are not split; UINT64_MAX = no limit
  uint64_t max_non_split_rounding_bytes; // slack allowed when such a block is reused whole
  double gc_threshold;    // fraction of the limit above which old blocks are released; 0 = off
  double memory_fraction; // per_process_memory_fraction; 1 = no limit
  uint32_t divisions[PLIM_DIVISION_SLOTS]; // entry i: sizes of 2^(20+i) bytes; 0 and 1 = off
} plim_alloc_conf;

// PyTorch's defaults.
plim_alloc_conf plim_alloc_conf_default(void);

// Reads a setting string as PyTorch does ("expandable_segments:True,max_split_size_mb:128").
// An empty string gives the defaults. On error *conf is untouched and error->byte is the offset
// in `text`; an unknown key comes with the nearest known one as hint.
plim_err plim_alloc_conf_parse(const char *text, plim_alloc_conf *conf, plim_error *error);

// The same for a string from a recording, which may come from another version of PyTorch: skips unknown keys and values
// that do not parse. Returns false if it skipped any.
bool plim_alloc_conf_parse_recorded(const char *text, plim_alloc_conf *conf);

bool plim_alloc_conf_equal(const plim_alloc_conf *a, const plim_alloc_conf *b);

// Writes the shortest string that parses back to *conf, sizes in whole MiB; "" for the defaults.
void plim_alloc_conf_print(const plim_alloc_conf *conf, char *text, size_t size);

#endif
