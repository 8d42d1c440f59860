// A page sees no GPU and has one thread.
#include "nvml.h"
#include "parallel.h"

size_t plim_nvml_cards(plim_card cards[PLIM_MAX_CARDS], plim_nvml_state *state) {
  (void)cards;
  if (state) *state = PLIM_NVML_ABSENT;
  return 0;
}

void plim_parallel(size_t count, void (*job)(void *context, size_t i), void *context) {
  for (size_t i = 0; i < count; i++) job(context, i);
}
