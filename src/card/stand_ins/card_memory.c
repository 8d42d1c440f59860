// The memory of the simulated devices: which addresses the driver hands out, how much is in use, and what the bytes are.
//
// A device address is also an address of this process, as it is with a real card: the driver takes ranges of addresses
// from those that the program does not use, and what the program maps and unmaps on the host decides which ones are left.
// They are mapped without memory behind them: a page takes host memory only when real data is written to it. This is how
// copies of small tensors, and integers that plimsoll_values.py computes, can be read back.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "card.h"
#include "own_memory.h"
#include "vec.h"

#define PAGE (2ull << 20) // of device memory: what the driver gives to a segment is a multiple

// Copies up to this size are made, larger ones are weights, activations or batches of floats.
#define COPIED_BYTES (256u << 10)

typedef struct {
  uint64_t start, bytes; // start is a handle for memory without an address
  int device;
} holding;

typedef vec(holding) holdings;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static plim_address_model addresses[CARD_MAX_DEVICES];
static holdings allocations; // by address, of cudaMalloc
static holdings created;     // by handle, of cuMemCreate
static holdings managed;     // by address, of cudaMallocManaged

static uint64_t up(uint64_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

// ---- lists by start -------------------------------------------------------------------------------------

// The first entry that starts after an address.
static size_t after(const holdings *list, uint64_t start) {
  size_t low = 0, high = list->len;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (list->at[middle].start <= start) low = middle + 1;
    else high = middle;
  }
  return low;
}

static bool add(holdings *list, holding new) {
  if (!vec_reserve(list, 1)) return false;
  size_t at = after(list, new.start);
  memmove(list->at + at + 1, list->at + at, (list->len++ - at) * sizeof *list->at);
  list->at[at] = new;
  return true;
}

static bool take(holdings *list, uint64_t start, holding *out) {
  size_t at = after(list, start);
  if (at == 0 || list->at[at - 1].start != start) return false;
  *out = list->at[at - 1];
  memmove(list->at + at - 1, list->at + at, (list->len - at) * sizeof *list->at);
  list->len--;
  return true;
}

// ---- addresses ------------------------------------------------------------------------------------------

// Linux takes the highest gap that is large enough. Recorded addresses are multiples of the step and leave out gaps of
// exactly their size, as if the driver asked for as much more as an aligned range may need, and gave the rest back.
static uint64_t take_range(uint64_t bytes) {
  const uint64_t step = PLIM_ADDRESS_STEP, more = step - 4096;
  void *at =
      mmap(NULL, bytes + more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    card_unmodelled_call("addresses of the GPU, which the system refuses (ulimit -v)");
    return 0;
  }
  uint64_t first = (uint64_t)at, start = (first + step - 1) / step * step;
  if (start > first) munmap(at, start - first);
  if (start < first + more) munmap((void *)(start + bytes), first + more - start);
  return start;
}

static void give_back_range(uint64_t start, uint64_t bytes) { munmap((void *)start, bytes); }

static plim_address_model *addresses_of(int device) {
  addresses[device].space = (plim_address_space){take_range, give_back_range};
  return &addresses[device];
}

// 0: none is left.
static uint64_t new_address(int device, uint64_t bytes) {
  plim_driver driver = plim_address_model_driver(addresses_of(device));
  uint64_t address = driver.reserve(driver.self, bytes);
  return address == PLIM_UNKNOWN || address == PLIM_DRIVER_FAILED ? 0 : address;
}

static void give_back_address(int device, uint64_t address, uint64_t bytes) {
  plim_driver driver = plim_address_model_driver(&addresses[device]);
  driver.release(driver.self, address, bytes);
}

// ---- what the driver keeps for itself ------------------------------------------------------------------

// Its bytes are part of the context's share, which the record has; here are only their addresses.
static plim_own_memory own[CARD_MAX_DEVICES];

static const char *const random_kernels[] = {"distribution_elementwise", NULL};
static const char *const checking_kernels[] = {"gather",     "index_",   "indexSelect", "scatter",
                                               "pow_tensor", "nll_loss", NULL};

static bool is_among(const char *kernel, const char *const parts[]) {
  for (; kernel && *parts; parts++)
    if (strstr(kernel, *parts)) return true;
  return false;
}

static plim_kernel_kind kind_of(const char *kernel) {
  if (is_among(kernel, checking_kernels)) return PLIM_KERNEL_CHECKING;
  return is_among(kernel, random_kernels) ? PLIM_KERNEL_RANDOM : PLIM_KERNEL_PLAIN;
}

// ---- how much is in use -----------------------------------------------------------------------------

static card_holding *holding_of(int device) {
  return &card_process_here()->devices[card_physical(device)];
}

// Of all processes.
static uint64_t used_on(int device) {
  return card_record_used(card_record_here(), card_physical(device));
}

// Of the program's own processes.
static void note_peak(int device, uint64_t used) {
  uint64_t others = card_record_others(card_record_here());
  used = used > others ? used - others : 0;
  uint64_t *most = &card_record_here()->peak_bytes[card_physical(device)];
  uint64_t seen = __atomic_load_n(most, __ATOMIC_RELAXED);
  while (used > seen &&
         !__atomic_compare_exchange_n(most, &seen, used, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    continue;
}

static void begin_context(int device) {
  card_holding *mine = holding_of(device);
  if (mine->context_bytes || !card_record_here()) return;
  mine->context_bytes = card_record_here()->context_bytes;
  note_peak(device, used_on(device));
  if (!own[device].threads)
    plim_own_memory_begin(&own[device], addresses_of(device), card()->multiprocessors,
                          card()->threads_per_multiprocessor);
}

static void charge_host(int64_t bytes) {
  card_process *process = card_process_here();
  process->pinned_bytes += (uint64_t)bytes;
  if (process->pinned_bytes > process->peak_pinned_bytes)
    process->peak_pinned_bytes = process->pinned_bytes;
}

// The bytes are added before anybody looks whether they fit, so that of two processes that ask at once at most one gets
// what only one can have.
static bool take_bytes(int device, uint64_t bytes) {
  card_holding *mine = holding_of(device);
  uint64_t used = PLIM_UNKNOWN;
  if (card_record_here() && card_has_room() && bytes <= card()->total_bytes) {
    __atomic_add_fetch(&mine->used_bytes, bytes, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    used = used_on(device);
    if (used > card()->total_bytes) mine->used_bytes -= bytes;
  }
  if (used > card()->total_bytes) return false;
  note_peak(device, used);
  return true;
}

// Device -1 is the host.
static bool charge(int device, uint64_t bytes) {
  if (device < 0) {
    charge_host((int64_t)bytes);
    return true;
  }
  begin_context(device);
  card_holding *mine = holding_of(device);
  __atomic_add_fetch(&card_process_here()->requests, 1, __ATOMIC_RELAXED);
  card_faults_look(mine->context_bytes + mine->used_bytes + bytes);
  if (!card_faults_refuse() && take_bytes(device, bytes)) return true;
  mine->refusals++;
  return false;
}

bool card_take(int device, uint64_t bytes) {
  pthread_mutex_lock(&lock);
  begin_context(device);
  bool is_taken = take_bytes(device, bytes);
  pthread_mutex_unlock(&lock);
  return is_taken;
}

static void discharge(int device, uint64_t bytes) {
  if (device < 0) charge_host(-(int64_t)bytes);
  else holding_of(device)->used_bytes -= bytes;
}

void card_use(int device) {
  if (holding_of(device)->context_bytes) return; // the usual case, which needs no lock
  pthread_mutex_lock(&lock);
  begin_context(device);
  pthread_mutex_unlock(&lock);
}

bool card_knows_kernels(int device) { return plim_own_memory_is_complete(&own[device]); }

void card_count_launch(int device, const char *kernel) {
  __atomic_add_fetch(&card_process_here()->launches, 1, __ATOMIC_RELAXED);
  if (card_knows_kernels(device)) return; // the usual case, which needs no lock
  pthread_mutex_lock(&lock);
  begin_context(device);
  plim_own_memory_launch(&own[device], addresses_of(device), kind_of(kernel));
  pthread_mutex_unlock(&lock);
}

void card_make_handle(int device, uint64_t bytes) {
  pthread_mutex_lock(&lock);
  begin_context(device);
  plim_own_memory_handle(&own[device], addresses_of(device), bytes);
  pthread_mutex_unlock(&lock);
}

uint64_t card_free_bytes(int device) {
  pthread_mutex_lock(&lock);
  begin_context(device);
  uint64_t used = card_record_here() ? used_on(device) : PLIM_UNKNOWN;
  pthread_mutex_unlock(&lock);
  return used < card()->total_bytes ? card()->total_bytes - used : 0;
}

// ---- memory with addresses -----------------------------------------------------------------------------

static bool map_anew(uint64_t address, uint64_t bytes, int access) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  return mmap((void *)address, bytes, access, flags, -1, 0) != MAP_FAILED;
}

// Makes the addresses readable and writable for this process.
static bool back(uint64_t address, uint64_t bytes) {
  return map_anew(address, bytes, PROT_READ | PROT_WRITE);
}

// What was written there is gone.
static void unback(int device, uint64_t address, uint64_t bytes) {
  map_anew(address, bytes, PROT_NONE);
  give_back_address(device, address, bytes);
}

int card_malloc(int device, uint64_t bytes, uint64_t *address) {
  uint64_t size = up(bytes ? bytes : 1);
  int result = CARD_OUT_OF_MEMORY;
  pthread_mutex_lock(&lock);
  if (size >= bytes && charge(device, size)) {
    *address = new_address(device, size);
    bool is_backed = *address && back(*address, size);
    if (is_backed && add(&allocations, (holding){*address, size, device})) result = CARD_OK;
    else {
      if (*address) unback(device, *address, size);
      discharge(device, size);
    }
  }
  pthread_mutex_unlock(&lock);
  return result;
}

int card_free(uint64_t address) {
  holding old;
  if (!address) return CARD_OK;
  pthread_mutex_lock(&lock);
  bool is_one = take(&allocations, address, &old);
  bool is_managed = !is_one && take(&managed, address, &old);
  if (is_one) {
    unback(old.device, old.start, old.bytes);
    discharge(old.device, old.bytes);
  }
  if (is_managed) munmap((void *)old.start, old.bytes);
  pthread_mutex_unlock(&lock);
  return is_one || is_managed ? CARD_OK : CARD_INVALID_VALUE;
}

// ---- addresses and memory apart -------------------------------------------------------------------------

int card_reserve(int device, uint64_t bytes, uint64_t *address) {
  pthread_mutex_lock(&lock);
  *address = new_address(device, bytes);
  if (*address && !back(*address, bytes)) {
    unback(device, *address, bytes);
    *address = 0;
  }
  pthread_mutex_unlock(&lock);
  return *address ? CARD_OK : CARD_OUT_OF_MEMORY;
}

void card_unreserve(uint64_t address, uint64_t bytes) {
  int device = card_device_of((const void *)address);
  if (device < 0) return;
  pthread_mutex_lock(&lock);
  unback(device, address, bytes);
  pthread_mutex_unlock(&lock);
}

int card_create(int device, uint64_t bytes, uint64_t *handle) {
  int result = CARD_OUT_OF_MEMORY;
  pthread_mutex_lock(&lock);
  if (charge(device, bytes)) {
    *handle = (uint64_t)card_handle();
    if (add(&created, (holding){*handle, bytes, device})) result = CARD_OK;
    else discharge(device, bytes);
  }
  pthread_mutex_unlock(&lock);
  return result;
}

int card_release(uint64_t handle) {
  holding old;
  pthread_mutex_lock(&lock);
  bool is_one = take(&created, handle, &old);
  if (is_one) discharge(old.device, old.bytes);
  pthread_mutex_unlock(&lock);
  return is_one ? CARD_OK : CARD_INVALID_VALUE;
}

int card_device_of(const void *pointer) {
  int device = CARD_MAX_DEVICES - 1;
  pthread_mutex_lock(&lock);
  while (device >= 0 && !plim_address_model_contains(&addresses[device], (uint64_t)pointer))
    device--;
  pthread_mutex_unlock(&lock);
  return device;
}

bool card_range_of(uint64_t address, uint64_t *start, uint64_t *bytes) {
  pthread_mutex_lock(&lock);
  size_t at = after(&allocations, address);
  const holding *found = at ? &allocations.at[at - 1] : NULL;
  bool is_inside = found && address - found->start < found->bytes;
  if (is_inside) *start = found->start, *bytes = found->bytes;
  pthread_mutex_unlock(&lock);
  return is_inside;
}

// ---- contents -------------------------------------------------------------------------------------------

// An answer that the thread's next copy of a count to the host gives.
static __thread uint64_t answer;
static __thread bool has_answer;

STAND_IN void plimsoll_card_answer(uint64_t count) {
  answer = count;
  has_answer = true;
}

STAND_IN void plimsoll_card_forget_answer(void) { has_answer = false; }

static bool is_copied(const void *to, const void *from, size_t bytes) {
  return bytes <= COPIED_BYTES || (card_device_of(to) < 0 && card_device_of(from) < 0);
}

// PyTorch asks on the card whether any status of a decomposition is not 0 (_linalg_check_errors). No kernel answers here, so
// the byte that this thread reads next is that answer.
static __thread bool has_converged;

void card_converged(void) { has_converged = true; }

void card_copy(void *to, const void *from, size_t bytes) {
  if (has_converged && bytes == 1 && card_device_of(from) >= 0 && card_device_of(to) < 0) {
    has_converged = false;
    memset(to, 0, 1);
    return;
  }
  bool is_count = has_answer && card_device_of(from) >= 0 && card_device_of(to) < 0 && bytes <= 8;
  if (is_count) {
    memcpy(to, &answer, bytes);
    has_answer = false;
    return;
  }
  if (is_copied(to, from, bytes)) memmove(to, from, bytes);
}

void card_copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                    size_t height) {
  if (!is_copied(to, from, width * height)) return;
  for (size_t row = 0; row < height; row++)
    memmove((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
}

void card_fill(void *to, int byte, size_t bytes) {
  if (is_copied(to, to, bytes)) memset(to, byte, bytes);
}

void card_fill_words(void *to, uint32_t word, size_t count) {
  if (!is_copied(to, to, count * sizeof word)) return;
  for (size_t i = 0; i < count; i++) memcpy((char *)to + i * sizeof word, &word, sizeof word);
}

// ---- the host's memory ----------------------------------------------------------------------------------

static holdings pinned; // `device` says whose the memory is
enum { OF_CARD, OF_PROGRAM };

static bool pin(void *at, size_t bytes, int owner) {
  pthread_mutex_lock(&lock);
  bool is_listed = add(&pinned, (holding){(uint64_t)at, bytes, owner});
  if (is_listed) charge_host((int64_t)bytes);
  pthread_mutex_unlock(&lock);
  return is_listed;
}

// The bytes that were pinned there; 0: none of this owner.
static size_t unpin(void *start, int owner) {
  holding old = {0};
  pthread_mutex_lock(&lock);
  size_t at = after(&pinned, (uint64_t)start);
  bool is_one =
      at && pinned.at[at - 1].start == (uint64_t)start && pinned.at[at - 1].device == owner;
  if (is_one && take(&pinned, (uint64_t)start, &old)) charge_host(-(int64_t)old.bytes);
  pthread_mutex_unlock(&lock);
  return old.bytes;
}

int card_host_alloc(size_t asked, void **out) {
  size_t bytes = asked ? asked : 1;
  void *at =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return CARD_OUT_OF_MEMORY;
  if (!pin(at, bytes, OF_CARD)) {
    munmap(at, bytes);
    return CARD_OUT_OF_MEMORY;
  }
  *out = at;
  return CARD_OK;
}

int card_host_free(void *pointer) {
  size_t bytes = pointer ? unpin(pointer, OF_CARD) : 0;
  if (bytes) munmap(pointer, bytes);
  return bytes || !pointer ? CARD_OK : CARD_INVALID_VALUE;
}

int card_host_register(void *pointer, size_t bytes) {
  if (!pointer || !bytes || card_is_pinned(pointer)) return CARD_INVALID_VALUE;
  return pin(pointer, bytes, OF_PROGRAM) ? CARD_OK : CARD_OUT_OF_MEMORY;
}

int card_host_unregister(void *pointer) {
  return unpin(pointer, OF_PROGRAM) ? CARD_OK : CARD_INVALID_VALUE;
}

static bool is_within(const holdings *list, const void *pointer) {
  pthread_mutex_lock(&lock);
  size_t at = after(list, (uint64_t)pointer);
  const holding *found = at ? &list->at[at - 1] : NULL;
  bool is_inside = found && (uint64_t)pointer - found->start < found->bytes;
  pthread_mutex_unlock(&lock);
  return is_inside;
}

bool card_is_pinned(const void *pointer) { return is_within(&pinned, pointer); }
bool card_is_managed(const void *pointer) { return is_within(&managed, pointer); }

int card_managed_alloc(size_t bytes, uint64_t *address) {
  void *at = bytes ? mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                   : MAP_FAILED;
  if (at == MAP_FAILED) return bytes ? CARD_OUT_OF_MEMORY : CARD_INVALID_VALUE;
  card_unmodelled_call("cudaMallocManaged (taken to be on the host)");
  pthread_mutex_lock(&lock);
  bool is_listed = add(&managed, (holding){(uint64_t)at, bytes, 0});
  pthread_mutex_unlock(&lock);
  *address = (uint64_t)at;
  if (!is_listed) munmap(at, bytes);
  return is_listed ? CARD_OK : CARD_OUT_OF_MEMORY;
}

void card_memory_after_fork(void) {
  pthread_mutex_init(&lock, NULL);
  allocations.len = created.len = pinned.len = managed.len = 0;
}
