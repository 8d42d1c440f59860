// Faults that the user asked for (card_fault.h): when they begin, and whether a call meets one.
#include <unistd.h>

#include "card.h"

static bool is_reached(const card_fault *f, const card_process *process, uint64_t used) {
  switch (f->moment) {
  case CARD_MOMENT_STEP: return process->steps + 1 >= f->at;
  case CARD_MOMENT_ALLOCATION: return process->requests >= f->at;
  case CARD_MOMENT_USED: return used >= f->at;
  default: return true;
  }
}

static card_fault *fault_at(uint32_t i) {
  card_record *record = card_record_here();
  bool is_there = record && i < record->fault_count && i < CARD_MAX_FAULTS;
  return is_there ? &record->faults[i] : NULL;
}

void card_faults_look(uint64_t used_bytes) {
  card_fault *f;
  for (uint32_t i = 0; (f = fault_at(i)); i++)
    if (!f->has_begun && is_reached(f, card_process_here(), used_bytes))
      __atomic_store_n(&f->has_begun, 1, __ATOMIC_SEQ_CST);
}

// The next fault of a kind that has begun, from number *at on; NULL: none.
static card_fault *next(card_fault_kind kind, uint32_t *at) {
  for (card_fault *f; (f = fault_at((*at)++));)
    if (f->kind == kind && __atomic_load_n(&f->has_begun, __ATOMIC_SEQ_CST)) return f;
  return NULL;
}

static void count(card_fault *f, uint64_t times) {
  __atomic_add_fetch(&f->times, times, __ATOMIC_SEQ_CST);
}

bool card_faults_refuse(void) {
  uint32_t at = 0;
  for (card_fault *f; (f = next(CARD_FAULT_REFUSE, &at));) {
    bool is_one = __atomic_add_fetch(&f->times, 1, __ATOMIC_SEQ_CST) <= f->amount;
    if (is_one) return true;
    count(f, (uint64_t)-1);
  }
  return false;
}

void card_faults_leak(void) {
  uint32_t at = 0;
  for (card_fault *f; (f = next(CARD_FAULT_LEAK, &at));)
    if (card_take(card_device(), f->amount)) count(f, f->amount);
}

void card_faults_hang(void) {
  uint32_t at = 0;
  card_fault *f = next(CARD_FAULT_DRIVER_HANGS, &at);
  if (f) count(f, 1);
  while (f) pause();
}

bool card_faults_fail(void) {
  uint32_t at = 0;
  card_fault *f = next(CARD_FAULT_DRIVER_FAILS, &at);
  if (f) count(f, 1);
  return f != NULL;
}
