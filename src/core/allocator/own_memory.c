#include "own_memory.h"

#define CONTEXT_BYTES (72 * PLIM_MIB)
#define CODE_BYTES (2 * PLIM_MIB)
#define ASSERT_BYTES (10 * PLIM_MIB)
#define CUDNN_BYTES (8 * PLIM_MIB)
#define PAGE_BYTES (2 * PLIM_MIB)

// Per thread.
enum { LOCAL_BYTES = 1472, LARGER_LOCAL_BYTES = 1792 };

static uint64_t take(plim_address_model *model, uint64_t bytes) {
  plim_driver driver = plim_address_model_driver(model);
  return driver.reserve(driver.self, bytes);
}

static uint64_t pages(uint64_t bytes) { return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES; }

static void take_local_memory(plim_own_memory *own, plim_address_model *model,
                              uint64_t per_thread) {
  uint64_t bytes = pages(own->threads * per_thread);
  if (!bytes) return; // the card is not known
  uint64_t address = take(model, bytes);
  plim_driver driver = plim_address_model_driver(model);
  if (own->local_bytes) driver.release(driver.self, own->local_memory, own->local_bytes);
  own->local_memory = address;
  own->local_bytes = bytes;
}

// Recorded: local memory for 144 multiprocessors, all that the chip has, of which 132 are used. Other cards are assumed to
// have the same proportion.
void plim_own_memory_begin(plim_own_memory *own, plim_address_model *model, int multiprocessors,
                           int threads) {
  *own = (plim_own_memory){.threads = (uint64_t)multiprocessors * 12 / 11 * (uint64_t)threads};
  take(model, CONTEXT_BYTES);
  take_local_memory(own, model, LOCAL_BYTES);
}

void plim_own_memory_launch(plim_own_memory *own, plim_address_model *model,
                            plim_kernel_kind kernel) {
  if (!own->has_code) take(model, CODE_BYTES);
  own->has_code = true;
  if (!own->has_larger_local_memory && kernel != PLIM_KERNEL_RANDOM) {
    take_local_memory(own, model, LARGER_LOCAL_BYTES);
    take(model, CODE_BYTES);
    own->has_larger_local_memory = true;
  }
  if (!own->has_assert_buffers && kernel == PLIM_KERNEL_CHECKING) {
    take(model, ASSERT_BYTES);
    own->has_assert_buffers = true;
  }
}

void plim_own_memory_handle(plim_own_memory *own, plim_address_model *model, uint64_t bytes) {
  for (int i = 0; i < 2 && !own->has_library_code; i++) take(model, CODE_BYTES);
  own->has_library_code = true;
  take(model, pages(bytes));
}

void plim_own_memory_cudnn(plim_own_memory *own, plim_address_model *model) {
  if (!own->has_cudnn) take(model, CUDNN_BYTES);
  own->has_cudnn = true;
}

bool plim_own_memory_is_complete(const plim_own_memory *own) {
  return own->has_larger_local_memory && own->has_assert_buffers;
}
