// What the driver keeps for itself: memory of a process on a card that the program did not ask for.
//
// It takes addresses between the program's segments, and so decides which segment lies below which (driver.h). As
// recorded on an H200 (driver 580, CUDA 13, torch 2.11):
// - 72 MiB and the threads' local memory when a context begins;
// - 2 MiB for code when the first kernel is launched;
// - larger local memory when a kernel is launched that does more than draw random numbers. The old one is given back;
// - 10 MiB when a kernel is launched that checks its arguments: assert() needs buffers;
// - twice 2 MiB for code when the first handle of cuBLAS is made, and what each handle allocates;
// - 8 MiB when cuDNN's attention first runs.
#ifndef PLIM_CORE_OWN_MEMORY_H
#define PLIM_CORE_OWN_MEMORY_H

#include "driver.h"

typedef enum {
  PLIM_KERNEL_RANDOM,  // draws random numbers
  PLIM_KERNEL_PLAIN,   // any other
  PLIM_KERNEL_CHECKING // has an assert(): gather, index, scatter, pow, nll_loss
} plim_kernel_kind;

typedef struct {
  uint64_t threads; // for which there is local memory
  uint64_t local_memory, local_bytes;
  bool has_code, has_library_code, has_larger_local_memory, has_assert_buffers, has_cudnn;
} plim_own_memory;

// A context begins on a card with so many multiprocessors, each of which holds so many threads.
void plim_own_memory_begin(plim_own_memory *own, plim_address_model *model, int multiprocessors,
                           int threads);

void plim_own_memory_launch(plim_own_memory *own, plim_address_model *model,
                            plim_kernel_kind kernel);

// A library's handle is made, which allocates so much for itself.
void plim_own_memory_handle(plim_own_memory *own, plim_address_model *model, uint64_t bytes);

// A kernel of cuDNN for attention is launched.
void plim_own_memory_cudnn(plim_own_memory *own, plim_address_model *model);

// Whether plim_own_memory_launch will take nothing more.
bool plim_own_memory_is_complete(const plim_own_memory *own);

#endif
