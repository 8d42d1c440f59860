#include "hook_memory.h"

hook_attempt hook_begin(uint32_t device, uint64_t bytes, bool is_virtual) {
  hook_request request = {device, bytes, is_virtual};
  return (hook_attempt){request, hook_count(device, bytes)};
}

static void uncount(const hook_piece *piece) {
  if (piece->place == HOOK_SPILLED) hook_uncount_spill(piece->device, piece->bytes);
  else if (piece->place == HOOK_MANAGED) hook_count_managed(piece->device, -(int64_t)piece->bytes);
  else hook_uncount(piece->device, piece->bytes);
}

void hook_remember(const hook_piece *piece) {
  static const hook_event_kind kinds[] = {
      [HOOK_ON_DEVICE] = HOOK_EVENT_ALLOC,
      [HOOK_SPILLED] = HOOK_EVENT_SPILL,
      [HOOK_MANAGED] = HOOK_EVENT_MANAGED,
  };
  hook_piece old;
  hook_lock();
  // The driver handed out an address again whose end nobody saw, as when a context is destroyed.
  bool had_old = hook_table_take(piece->space, piece->key, &old);
  bool is_kept = hook_table_put(piece);
  hook_unlock();
  if (had_old) uncount(&old);
  hook_event_now(kinds[piece->place], piece->device, piece->key, piece->bytes);
  if (!is_kept) uncount(piece); // its end would not be seen either
}

void hook_forget(const hook_piece *piece) {
  static const hook_event_kind kinds[] = {
      [HOOK_ON_DEVICE] = HOOK_EVENT_FREE,
      [HOOK_SPILLED] = HOOK_EVENT_UNSPILL,
      [HOOK_MANAGED] = HOOK_EVENT_MANAGED_FREE,
  };
  uncount(piece);
  hook_event_now(kinds[piece->place], piece->device, piece->key, piece->bytes);
}

bool hook_end(const hook_attempt *attempt, int result, hook_space space, uint64_t key,
              bool can_spill) {
  const hook_request *r = &attempt->request;
  if (result == CU_OK) {
    hook_spill_succeeded(r);
    hook_count_peak(r->device);
    hook_remember(
        &(hook_piece){.space = space, .key = key, .bytes = r->bytes, .device = r->device});
    return false;
  }
  if (attempt->is_counted) hook_uncount(r->device, r->bytes);
  if (result != CU_OUT_OF_MEMORY) return false;
  if (can_spill && hook_spill_may(r)) return true;
  hook_count_refusal(r->device, r->bytes);
  return false;
}

int hook_end_spill(const hook_attempt *attempt, int result, hook_space space, uint64_t key,
                   uint64_t host) {
  const hook_request *r = &attempt->request;
  hook_piece piece = {.space = space,
                      .key = key,
                      .bytes = r->bytes,
                      .device = r->device,
                      .other = host,
                      .place = HOOK_SPILLED};
  if (result == CU_OK) {
    hook_remember(&piece);
    return CU_OK;
  }
  uncount(&piece);
  hook_host_refused();
  hook_count_refusal(r->device, r->bytes);
  return CU_OUT_OF_MEMORY;
}

static bool is_on(const hook_piece *piece, void *context) {
  bool is_of_context = piece->space == HOOK_SPACE_ADDRESS || piece->space == HOOK_SPACE_ARRAY;
  bool is_gone = is_of_context && piece->device == *(uint32_t *)context;
  if (is_gone) hook_forget(piece);
  return is_gone;
}

void hook_forget_context(uint32_t device) {
  hook_lock();
  hook_table_sweep(is_on, &device);
  hook_unlock();
}
