// PyTorch's CUDA caching allocator, over a stream of requests instead of a card.
//
// Requests name their tensor by a slot number of the caller's choice; a slot may be reused once it
// was freed. Everything is deterministic: the same calls give the same segments and addresses.
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

// The order used by a torch version ("2.11", "2.13.0+cu130"); false if that is no version.
bool plim_block_order_of(const char *torch_version, plim_block_order *order);

// Chooses the addresses of new segments: the CUDA driver's part. See driver.h for two of them.
#define PLIM_DRIVER_FAILED (PLIM_UNKNOWN - 1)

typedef struct {
  void *self;
  // Address for a new segment or address range; PLIM_UNKNOWN if none can be had, PLIM_DRIVER_FAILED if
  // this machine has no memory to say.
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
  uint64_t limit_bytes;    // set_per_process_memory_fraction's; PLIM_UNKNOWN = none
  uint64_t capacity_bytes; // what the card itself can give; PLIM_UNKNOWN = without end
  uint64_t range_bytes;    // address space of an expandable segment (torch: 9/8 of the card's
                           // memory); PLIM_UNKNOWN = more than any request
  const uint64_t *streams; // CUDA handles, which order the streams; NULL = just the default stream
  uint32_t stream_count;
  uint32_t pool_count; // private pools are numbered from 1; 0 or 1 = just the default pool
  void (*on_segment)(void *context, const plim_segment_event *event); // may be NULL
  void *context;
} plim_allocator_options;

typedef struct {
  uint64_t allocated_bytes; // blocks handed out, unsplit remainders included
  uint64_t active_bytes;    // and those waiting for another stream
  uint64_t requested_bytes; // what the user asked for, of active blocks
  uint64_t reserved_bytes;  // segments and mapped pages
} plim_usage;

typedef struct {
  plim_usage now, peak;                   // peaks are per field, as torch keeps them
  uint64_t segment_allocs, segment_frees; // cudaMalloc or map, cudaFree or unmap calls
  uint64_t retries, ooms;
} plim_allocator_stats_t;

typedef struct plim_allocator plim_allocator;

// NULL when memory is out. The options' streams are copied, the driver is used until delete.
plim_allocator *plim_allocator_new(const plim_allocator_options *options);
void plim_allocator_delete(plim_allocator *a);

// Another in the same state, with its own driver (in the same state) and limit; no private memory of
// recordings. NULL when memory is out.
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

// The wait is over. Does nothing if it was over already.
void plim_allocator_complete(plim_allocator *a, uint32_t slot);

// torch.cuda.empty_cache().
void plim_allocator_empty_cache(plim_allocator *a);

void plim_allocator_set_limit(plim_allocator *a, uint64_t limit_bytes);

// True once this machine's memory ran out inside a call that has no other way to say so.
bool plim_allocator_out_of_host_memory(const plim_allocator *a);

const plim_allocator_stats_t *plim_allocator_stats(const plim_allocator *a);
void plim_allocator_reset_peaks(plim_allocator *a);

// ---- looking inside -----------------------------------------------------------------------------

// Address and size of a slot's block; PLIM_UNKNOWN if the slot holds none.
uint64_t plim_allocator_addr(const plim_allocator *a, uint32_t slot);
uint64_t plim_allocator_block_bytes(const plim_allocator *a, uint32_t slot);

// Address of the cached block the next malloc of this kind would take; PLIM_UNKNOWN on a miss.
uint64_t plim_allocator_would_reuse(const plim_allocator *a, uint64_t bytes, uint32_t stream,
                                    uint32_t pool);

// Whether a request of `bytes` could take the free block there would be around a pending slot if
// all pending frees completed. False if the slot is not pending.
bool plim_allocator_serves_when_complete(const plim_allocator *a, uint32_t slot, uint64_t bytes);

// The block size of a request: rounded up to 512 bytes, or as roundup_power2_divisions says.
uint64_t plim_round_request(const plim_alloc_conf *conf, uint64_t bytes);

// Whether a request goes to the large pool.
bool plim_request_is_large(const plim_alloc_conf *conf, uint64_t bytes);

// Whether a block that serves `bytes` (rounded) and has `rest_bytes` to spare gives them back.
bool plim_block_is_split(const plim_alloc_conf *conf, bool is_large, uint64_t bytes,
                         uint64_t rest_bytes);

// What cudaMalloc would be asked for to serve a request of `bytes`.
uint64_t plim_allocator_segment_request(const plim_allocator *a, uint64_t bytes);

// What a malloc that misses would release before it gets its segment (or fails).
typedef struct {
  bool releases_all;                  // true: it comes to a release of all cached blocks
  vec(plim_segment_event) before_all; // garbage collection and oversize blocks, in order
  vec(plim_segment_event) all;        // then these, if releases_all
} plim_release_preview;

bool plim_allocator_preview(plim_allocator *a, uint64_t bytes, uint32_t stream, uint32_t pool,
                            plim_release_preview *preview);
void plim_release_preview_clear(plim_release_preview *preview);

// One block of the current state. Blocks of a segment come in a row, by address.
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

// Adds a segment with the given blocks (by address, inside the segment, not overlapping); what
// they leave is free. A mapped piece of an expandable segment goes into the address range it
// belongs to, which is made if it is not there. Emits no event. False when memory is out or the
// blocks do not fit.
typedef struct {
  uint64_t addr, bytes;
  uint64_t range_start, range_end; // of the expandable segment
  uint32_t stream, pool;
  bool is_large, is_expandable;
} plim_seed_segment;

bool plim_allocator_seed(plim_allocator *a, const plim_seed_segment *segment,
                         const plim_seed_block *blocks, size_t count);

// Puts a request where the recording says it went, whatever the search would have chosen.
// False if no free block starts at that address or it is too small: nothing is changed then.
bool plim_allocator_place(plim_allocator *a, uint32_t slot, uint64_t bytes, uint32_t stream,
                          uint32_t pool, uint64_t addr);

#endif
