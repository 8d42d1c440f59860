// The simulated card that all stand-ins share: its description, its memory, and what is recorded about a process.
//
// A stand-in is a function with the name and arguments of one of CUDA's libraries. It is loaded in front of the real
// library (LD_PRELOAD), so the program and PyTorch call it instead. Kernels do nothing; device memory consists of addresses only.
#ifndef PLIM_CARD_H
#define PLIM_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "card_record.h"
#include "kernel_rates.h"

#define STAND_IN __attribute__((visibility("default")))

// The error numbers of CUDA that are used; the runtime's and the driver's have the same values.
enum {
  CARD_OK = 0,
  CARD_INVALID_VALUE = 1,
  CARD_OUT_OF_MEMORY = 2,
  CARD_INVALID_DEVICE = 101,
  CARD_NO_IMAGE = 209,
  CARD_NOT_FOUND = 500,
  CARD_NOT_SUPPORTED = 801,
  CARD_UNKNOWN = 999,
};

// ---- the driver (driver_functions.c) -----------------------------------------------------------------

// What the runtime asks of it.
int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuMemAlloc_v2(uint64_t *address, size_t bytes);
int cuMemFree_v2(uint64_t address);
int cuMemGetInfo_v2(size_t *left, size_t *total);
int cuPointerGetAttribute(void *out, int attribute, uint64_t address);

// CU_POINTER_ATTRIBUTE_*
enum {
  CARD_POINTER_CONTEXT = 1,
  CARD_POINTER_MEMORY_TYPE,
  CARD_POINTER_ON_DEVICE,
  CARD_POINTER_ON_HOST,
  CARD_POINTER_IS_MANAGED = 8,
  CARD_POINTER_DEVICE_NUMBER,
  CARD_POINTER_RANGE_START = 11,
  CARD_POINTER_RANGE_BYTES,
};

// ---- the card (card.c) ------------------------------------------------------------------------------

// What a program may ask about a device.
typedef struct {
  const plim_gpu *gpu;
  const char *name; // as the driver reports it: "NVIDIA GeForce RTX 4090"
  uint64_t total_bytes;
  int major, minor; // compute capability
  int multiprocessors, threads_per_multiprocessor, blocks_per_multiprocessor;
  int shared_per_multiprocessor, shared_per_block_optin; // bytes
  int l2_bytes, bus_bits;
} card_description;

// Uses the card that a record describes. When a program starts, $PLIMSOLL_CARD names the file. False if it is not a record.
bool card_open(const char *record_path);

// The folder of the record, which the processes of a run share; NULL: there is no card.
const char *card_folder(void);

const card_description *card(void);
int card_device_count(void);   // the devices that the program may see
int card_physical(int device); // the device of the record that the program sees under this number
void card_uuid(int physical, char *out, size_t size); // its name, as NVML has it: "GPU-0000..."
card_record *card_record_here(void);                  // NULL: there is no card
card_process *
card_process_here(void);     // the record of this process, made if there is none; never NULL
bool card_has_room(void);    // false: so many processes used the card that this one has no record
int card_cuda_version(void); // of the runtime that the program was built for: 12010 is 12.1

// The device of this thread.
int card_device(void);
bool card_set_device(int device); // false: there is no such device

// Remembers a result of the runtime that is an error, for cudaGetLastError, and returns it. A launch between <<< and >>>
// has no other way to fail.
int card_result(int code);

// Whether the driver's functions are refused to this thread. The real cuDNN brings a CUDA runtime of its own, which must
// find no card while it plans.
bool *card_is_hidden(void);

// A new number for a stream, an event or another object that only needs to be told apart.
void *card_handle(void);

// Records the call of a function whose result matters and is not modelled. At most 63 characters of the name are kept.
void card_unmodelled_call(const char *name);

// ---- faults on demand (card_faults.c) -----------------------------------------------------------------

// Lets faults begin whose moment this process has reached; call it before an allocation, with what the process would then
// use on the device, and after a step.
void card_faults_look(uint64_t used_bytes);
// Whether a fault refuses this request for memory.
bool card_faults_refuse(void);
// A step has ended: memory that leaks outside PyTorch's allocator is taken.
void card_faults_leak(void);
// Does not return if the driver hangs.
void card_faults_hang(void);
// Whether the driver answers with an error.
bool card_faults_fail(void);

// ---- time (card_clock.c) ---------------------------------------------------------------------------

// Matrix products: k multiplications for each of batch x m x n results.
void card_time_products(plim_compute compute, double m, double n, double k, double batch);
// Attention in one kernel. With pairs 0, a backward pass has as many pairs as the last forward pass.
void card_time_attention(plim_compute compute, plim_sdpa_kernel kernel, double pairs, double width,
                         bool is_backward);
// Kinds of kernels that are recognised by their names. Names are long, so ask once for each kernel.
typedef enum {
  CARD_KERNEL_NEW, // not asked yet
  CARD_KERNEL_OTHER,
  CARD_KERNEL_LISTS,
  CARD_KERNEL_FLASH_FORWARD,
  CARD_KERNEL_FLASH_BACKWARD,
  CARD_KERNEL_EFFICIENT_FORWARD,
  CARD_KERNEL_EFFICIENT_BACKWARD,
} card_kernel_kind;
card_kernel_kind card_kernel_kind_of(const char *name);
// x, y and z are the blocks of its grid.
void card_time_kernel(card_kernel_kind kind, const char *name, unsigned x, unsigned y, unsigned z);

// ---- memory (card_memory.c) ---------------------------------------------------------------------

// Call it in a forked process, which does not own its parent's memory.
void card_memory_after_fork(void);

// Creates the process's context on the device if it has none; its share is then in use.
void card_use(int device);

// Counts the launch of a kernel and takes the addresses that the driver needs for it. The name may be NULL: unknown.
void card_count_launch(int device, const char *kernel);

// Whether the names of kernels do not matter any more on this device.
bool card_knows_kernels(int device);

// Takes the addresses that a handle of cuBLAS needs, which allocates so much for itself. The memory is part of the
// context's share.
void card_make_handle(int device, uint64_t bytes);

// Takes memory of a device that is never given back, without an address. False: there is not enough.
bool card_take(int device, uint64_t bytes);

// Reserves memory on a device with an address, as cudaMalloc does. CARD_OK or CARD_OUT_OF_MEMORY.
int card_malloc(int device, uint64_t bytes, uint64_t *address);
int card_free(uint64_t address);

// Addresses without memory, and memory without addresses, as the virtual memory functions of the driver have them.
int card_reserve(int device, uint64_t bytes, uint64_t *address);
void card_unreserve(uint64_t address, uint64_t bytes);
int card_create(int device, uint64_t bytes,
                uint64_t *handle); // device -1: pinned memory of the host
int card_release(uint64_t handle);

uint64_t card_free_bytes(int device);

// The device that an address belongs to; -1: an address of the host.
int card_device_of(const void *pointer);

// The allocation that contains an address; false: none.
bool card_range_of(uint64_t address, uint64_t *start, uint64_t *bytes);

// Copies between host and device or within either. Large copies that involve the device are not made, because the
// contents of weights and activations are not computed. plimsoll_values.py computes integers and writes them to the same
// addresses.
void card_copy(void *to, const void *from, size_t bytes);
// An algorithm of cuSOLVER has converged: the next byte that this thread copies to the host tells so.
void card_converged(void);
void card_copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                    size_t height);
void card_fill(void *to, int byte, size_t bytes);
void card_fill_words(void *to, uint32_t word, size_t count);

int card_host_alloc(size_t bytes, void **out);
int card_host_free(void *pointer);
// Pins memory that the program has, and lets it go.
int card_host_register(void *pointer, size_t bytes);
int card_host_unregister(void *pointer);
bool card_is_pinned(const void *pointer);
// Memory that moves between host and card, such as that of paged optimizers. The card gives up what it has of it when a
// program needs more room, so it counts as the host's.
int card_managed_alloc(size_t bytes, uint64_t *address);
bool card_is_managed(const void *pointer);

#endif
