// A simulation of PyTorch's CUDA caching allocator that takes a stream of requests and needs no card.
//
// The caller identifies tensors by slot numbers of its choice; a slot may be reused once it is freed. Everything is
// deterministic: the same calls give the same segments and addresses.
//
//   plim_allocator *a = plim_allocator_new(&options);
//   plim_allocator_malloc(a, 0, bytes, PLIM_DEFAULT_STREAM, PLIM_DEFAULT_POOL);
//   plim_allocator_free(a, 0);
//   plim_allocator_stats(a)->peak.reserved_bytes;
//   plim_allocator_delete(a);
#ifndef PLIM_CORE_ALLOCATOR_H
#define PLIM_CORE_ALLOCATOR_H

#include "alloc_conf.h"
#include "plimsoll.h"
#include "vec.h"

#define PLIM_DEFAULT_STREAM 0
#define PLIM_DEFAULT_POOL 0

// How blocks of equal size are ordered in the free set.
typedef enum {
  PLIM_ORDER_ADDRESS,     // torch up to 2.12: lowest address first
  PLIM_ORDER_REGISTRATION // torch 2.13 and later: oldest segment first, then lowest address
} plim_block_order;

// The order used by a torch version ("2.11", "2.13.0+cu130"); false if the text is not a version.
bool plim_block_order_of(const char *torch_version, plim_block_order *order);

// Chooses the addresses of new segments, as the CUDA driver does. See driver.h for implementations.
#define PLIM_DRIVER_FAILED (PLIM_UNKNOWN - 1)

typedef struct {
  void *self;
  // Returns the address of a new segment or address range; PLIM_UNKNOWN if there is none, PLIM_DRIVER_FAILED if this
  // machine is out of memory.
  uint64_t (*reserve)(void *self, uint64_t bytes);
  void (*release)(void *self, uint64_t addr, uint64_t bytes);
} plim_driver;

typedef enum {
  PLIM_SEGMENT_ALLOC,
  PLIM_SEGMENT_FREE,
  PLIM_SEGMENT_MAP,
  PLIM_SEGMENT_UNMAP
} plim_segment_action;

typedef struct {
  plim_segment_action action;
  uint64_t addr, bytes;
} plim_segment_event;

typedef struct {
  plim_alloc_conf conf;
  plim_block_order order;
  plim_driver driver;
  uint64_t limit_bytes;    // set by set_per_process_memory_fraction; PLIM_UNKNOWN = none
  uint64_t capacity_bytes; // memory of the card; PLIM_UNKNOWN = unlimited
  uint64_t range_bytes;    // address space of an expandable segment (torch: 9/8 of the card's
                           // memory); PLIM_UNKNOWN = more than any request
  const uint64_t *streams; // CUDA handles, which order the streams; NULL = only the default stream
  uint32_t stream_count;
  uint32_t pool_count; // private pools are numbered from 1; 0 or 1 = only the default pool
  void (*on_segment)(void *context, const plim_segment_event *event); // may be NULL
  void *context;
} plim_allocator_options;

typedef struct {
  uint64_t allocated_bytes; // blocks handed out, unsplit remainders included
  uint64_t active_bytes;    // the same, and those waiting for another stream
  uint64_t requested_bytes; // what the user requested, of active blocks
  uint64_t reserved_bytes;  // segments and mapped pages
} plim_usage;

typedef struct {
  plim_usage now, peak;                   // each field has its own peak, as in torch
  uint64_t segment_allocs, segment_frees; // cudaMalloc or map, cudaFree or unmap calls
  uint64_t retries, ooms;
} plim_allocator_stats_t;

typedef struct plim_allocator plim_allocator;

// Returns NULL when out of memory. The options' streams are copied; the driver is used until delete.
plim_allocator *plim_allocator_new(const plim_allocator_options *options);
void plim_allocator_delete(plim_allocator *a);

// A copy in the same state, with its own driver (in the same state) and limit; with a higher one, the card's memory does
// not end either. The address index of plim_allocator_place is not copied. Returns NULL when out of memory.
plim_allocator *plim_allocator_clone(const plim_allocator *a, plim_driver driver,
                                     uint64_t limit_bytes);

typedef enum {
  PLIM_MALLOC_OK,
  PLIM_MALLOC_OOM, // torch would raise OutOfMemoryError here
  PLIM_MALLOC_NO_HOST_MEMORY
} plim_malloc_result;

plim_malloc_result plim_allocator_malloc(plim_allocator *a, uint32_t slot, uint64_t bytes,
                                         uint32_t stream, uint32_t pool);

// A free that takes effect at once.
void plim_allocator_free(plim_allocator *a, uint32_t slot);

// A free of a tensor that other streams still use: its bytes are no longer allocated, its block
// stays active until plim_allocator_complete, empty_cache or a release of all cached blocks.
void plim_allocator_free_later(plim_allocator *a, uint32_t slot);

// The other streams are done with the tensor. Does nothing if the free was already completed.
void plim_allocator_complete(plim_allocator *a, uint32_t slot);

// torch.cuda.empty_cache().
void plim_allocator_empty_cache(plim_allocator *a);

void plim_allocator_set_limit(plim_allocator *a, uint64_t limit_bytes);

// True once this machine ran out of memory in a call that cannot report it otherwise.
bool plim_allocator_out_of_host_memory(const plim_allocator *a);

const plim_allocator_stats_t *plim_allocator_stats(const plim_allocator *a);
void plim_allocator_reset_peaks(plim_allocator *a);

// ---- queries ------------------------------------------------------------------------------------

// Address and size of a slot's block; PLIM_UNKNOWN if the slot is empty.
uint64_t plim_allocator_addr(const plim_allocator *a, uint32_t slot);
uint64_t plim_allocator_block_bytes(const plim_allocator *a, uint32_t slot);

// Address of the cached block that such a malloc would take; PLIM_UNKNOWN on a miss.
uint64_t plim_allocator_would_reuse(const plim_allocator *a, uint64_t bytes, uint32_t stream,
                                    uint32_t pool);

// Whether, if all pending frees completed, the free block around a pending slot could serve a request of `bytes`. False
// if the slot is not pending.
bool plim_allocator_serves_when_complete(const plim_allocator *a, uint32_t slot, uint64_t bytes);

// The block size of a request: rounded up to 512 bytes, or as roundup_power2_divisions says.
uint64_t plim_round_request(const plim_alloc_conf *conf, uint64_t bytes);

// Whether a request goes to the large pool.
bool plim_request_is_large(const plim_alloc_conf *conf, uint64_t bytes);

// Whether a block that serves `bytes` (rounded) is split if `rest_bytes` remain.
bool plim_block_is_split(const plim_alloc_conf *conf, bool is_large, uint64_t bytes,
                         uint64_t rest_bytes);

// The size of the cudaMalloc call for a request of `bytes`.
uint64_t plim_allocator_segment_request(const plim_allocator *a, uint64_t bytes);

// What a malloc that misses would release before it gets its segment or fails.
typedef struct {
  bool releases_all;                  // it would release all cached blocks
  vec(plim_segment_event) before_all; // garbage collection and oversize blocks, in order
  vec(plim_segment_event) all;        // then these, if releases_all
} plim_release_preview;

bool plim_allocator_preview(plim_allocator *a, uint64_t bytes, uint32_t stream, uint32_t pool,
                            plim_release_preview *preview);
void plim_release_preview_clear(plim_release_preview *preview);

// One block of the current state. The blocks of a segment are visited in a row, by address.
typedef struct {
  uint64_t addr, bytes, requested_bytes;
  uint32_t stream, pool;
  bool starts_segment, is_large, is_expandable;
  bool is_free, is_pending; // neither: allocated
} plim_block_view;

// Calls `visit` for each mapped block, segment by segment.
void plim_allocator_visit(const plim_allocator *a,
                          void (*visit)(void *context, const plim_block_view *block),
                          void *context);
// Calls `visit` for each slot that is not empty.
void plim_allocator_visit_slots(const plim_allocator *a,
                                void (*visit)(void *context, uint32_t slot, uint64_t addr,
                                              bool is_large),
                                void *context);

// ---- setting a state ----------------------------------------------------------------------------

// A block that exists when the recording starts.
typedef struct {
  uint64_t addr, bytes, requested_bytes;
  uint32_t slot;
  bool is_pending;
} plim_seed_block;

// Adds a segment with the given blocks (sorted by address, inside the segment, not overlapping); the rest of it is
// free. A mapped piece of an expandable segment is put into its address range, which is created if necessary. Emits no
// event. Returns false when out of memory or if the blocks do not fit.
typedef struct {
  uint64_t addr, bytes;
  uint64_t range_start, range_end; // of the expandable segment
  uint32_t stream, pool;
  bool is_large, is_expandable;
} plim_seed_segment;

bool plim_allocator_seed(plim_allocator *a, const plim_seed_segment *segment,
                         const plim_seed_block *blocks, size_t count);

// Places a request at the recorded address, whatever the search would have chosen. Returns false and changes nothing if
// no free block starts there or it is too small.
bool plim_allocator_place(plim_allocator *a, uint32_t slot, uint64_t bytes, uint32_t stream,
                          uint32_t pool, uint64_t addr);

#endif
