#include "nccl_collectives.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "card.h"
#include "nccl_watchdog.h"
#include "vec.h"

#define SYSTEM_ERROR 2 // ncclSystemError
#define EXCHANGED_BYTES                                                                            \
  (1u << 20) // per rank; larger data are weights or activations, even if their type is a byte

// ---- types ----------------------------------------------------------------------------------------------

// By ncclDataType_t: int8 uint8 int32 uint32 int64 uint64 float16 float32 float64 bfloat16 float8e4m3 float8e5m2
enum { INT8, UINT8, INT32, UINT32, INT64, UINT64, INTEGER_TYPES };

static size_t element_bytes(int type) {
  static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && (size_t)type < sizeof bytes / sizeof *bytes ? bytes[type] : 0;
}

// ncclRedOp_t; numbers after these are of operations that a program made.
enum { SUM, PRODUCT, MAXIMUM, MINIMUM, AVERAGE, OPERATIONS };

#define COMBINE(T)                                                                                 \
  do {                                                                                             \
    T *a = into;                                                                                   \
    const T *b = with;                                                                             \
    for (size_t i = 0; i < count; i++) {                                                           \
      if (operation == PRODUCT) a[i] = (T)((uint64_t)a[i] * (uint64_t)b[i]);                       \
      else if (operation == MAXIMUM) a[i] = a[i] > b[i] ? a[i] : b[i];                             \
      else if (operation == MINIMUM) a[i] = a[i] < b[i] ? a[i] : b[i];                             \
      else a[i] = (T)((uint64_t)a[i] + (uint64_t)b[i]);                                            \
    }                                                                                              \
  } while (0)

static void combine(void *into, const void *with, size_t count, int type, int operation) {
  switch (type) {
  case INT8: COMBINE(int8_t); break;
  case UINT8: COMBINE(uint8_t); break;
  case INT32: COMBINE(int32_t); break;
  case UINT32: COMBINE(uint32_t); break;
  case INT64: COMBINE(int64_t); break;
  case UINT64: COMBINE(uint64_t); break;
  }
}

#define DIVIDE(T, W)                                                                               \
  do {                                                                                             \
    T *a = sums;                                                                                   \
    for (size_t i = 0; i < count; i++) a[i] = (T)(a[i] / (W)ranks);                                \
  } while (0)

static void divide(void *sums, size_t count, int type, int ranks) {
  switch (type) {
  case INT8: DIVIDE(int8_t, int64_t); break;
  case UINT8: DIVIDE(uint8_t, uint64_t); break;
  case INT32: DIVIDE(int32_t, int64_t); break;
  case UINT32: DIVIDE(uint32_t, uint64_t); break;
  case INT64: DIVIDE(int64_t, int64_t); break;
  case UINT64: DIVIDE(uint64_t, uint64_t); break;
  }
}

// ---- what each collective does --------------------------------------------------------------------------

typedef enum {
  COMBINED,  // the contributions of all senders
  IN_PLACES, // one behind the other, by rank
  ALONE,     // the one contribution
} arrival;

static const struct {
  const char *name;
  bool root_sends, root_receives; // only the root does
  bool is_cut;                    // each receiver gets a part of the contribution
  arrival arrival;
} kinds[] = {
    [CARD_ALL_REDUCE] = {"ncclAllReduce", false, false, false, COMBINED},
    [CARD_REDUCE] = {"ncclReduce", false, true, false, COMBINED},
    [CARD_BROADCAST] = {"ncclBroadcast", true, false, false, ALONE},
    [CARD_ALL_GATHER] = {"ncclAllGather", false, false, false, IN_PLACES},
    [CARD_REDUCE_SCATTER] = {"ncclReduceScatter", false, false, true, COMBINED},
    [CARD_ALL_TO_ALL] = {"ncclAlltoAll", false, false, true, IN_PLACES},
    [CARD_GATHER] = {"ncclGather", false, true, false, IN_PLACES},
    [CARD_SCATTER] = {"ncclScatter", true, false, true, ALONE},
    [CARD_SEND] = {"ncclSend", false, true, false, ALONE},
    [CARD_RECEIVE] = {"ncclRecv", true, false, false, ALONE},
};

static size_t part_bytes(const card_collective *c) { return c->count * element_bytes(c->type); }
static bool is_pair(const card_collective *c) {
  return c->kind == CARD_SEND || c->kind == CARD_RECEIVE;
}
static bool sends(const card_collective *c, int rank) {
  return !kinds[c->kind].root_sends || rank == c->root;
}
static bool receives(const card_collective *c, int rank) {
  return !kinds[c->kind].root_receives || rank == c->root;
}

// What this rank sends to a rank.
static const void *part_for(const card_collective *c, int rank) {
  return (const char *)c->from + (kinds[c->kind].is_cut ? (size_t)rank * part_bytes(c) : 0);
}

// Where a rank's part belongs.
static void *place_of(const card_collective *c, int rank) {
  return (char *)c->to + (kinds[c->kind].arrival == IN_PLACES ? (size_t)rank * part_bytes(c) : 0);
}

static void note(const card_collective *c, const char *what) {
  char text[CARD_NAME_BYTES];
  snprintf(text, sizeof text, "%s%s", kinds[c->kind].name, what);
  card_unmodelled_call(text);
}

// ---- floats, and what is too large ----------------------------------------------------------------------

// The process's own data replaces that of the other ranks.
static void use_own(const card_collective *c) {
  int here = c->communicator->rank;
  if (!c->from || !c->to || !sends(c, here) || !receives(c, here)) return;
  bool is_each = kinds[c->kind].arrival == IN_PLACES;
  for (int rank = 0; rank < (is_each ? c->communicator->size : 1); rank++)
    if (part_for(c, here) != place_of(c, rank))
      card_copy(place_of(c, rank), part_for(c, here), part_bytes(c));
}

// ---- integers -------------------------------------------------------------------------------------------

// False: the data could not be sent to every rank.
static bool post(const card_collective *c) {
  const card_communicator *here = c->communicator;
  if (!c->from || !sends(c, here->rank)) return true;
  bool is_complete = here->exchange != NULL;
  for (int rank = 0; rank < here->size && here->exchange; rank++)
    if (receives(c, rank) && (rank != here->rank || is_pair(c)))
      is_complete &= card_exchange_post(here->exchange, is_pair(c) ? CARD_PAIR : CARD_COLLECTIVE,
                                        rank, part_for(c, rank), part_bytes(c));
  return is_complete;
}

// Takes one rank's part. If it does not arrive, this rank's own part is used, and the result is false.
static bool get_part(const card_collective *c, int rank, void *into) {
  const card_communicator *here = c->communicator;
  size_t bytes = part_bytes(c);
  if (is_pair(c))
    return here->exchange && card_exchange_take(here->exchange, CARD_PAIR, rank, into, bytes);
  bool is_other = rank != here->rank;
  if (is_other && here->exchange &&
      card_exchange_take(here->exchange, CARD_COLLECTIVE, rank, into, bytes))
    return true;
  bool has_own = c->from && sends(c, here->rank);
  if (has_own && into != part_for(c, here->rank)) memmove(into, part_for(c, here->rank), bytes);
  return !is_other;
}

// False: a rank did not answer.
static bool place_parts(const card_collective *c) {
  bool is_complete = true;
  for (int rank = 0; rank < c->communicator->size; rank++)
    if (sends(c, rank)) is_complete &= get_part(c, rank, place_of(c, rank));
  return is_complete;
}

// `parts` has room for two parts.
static bool combine_parts(const card_collective *c, char *parts) {
  size_t bytes = part_bytes(c);
  bool is_complete = true;
  for (int rank = 0; rank < c->communicator->size; rank++) {
    is_complete &= get_part(c, rank, rank == 0 ? parts : parts + bytes);
    if (rank > 0) combine(parts, parts + bytes, c->count, c->type, c->operation);
  }
  if (c->operation == AVERAGE) divide(parts, c->count, c->type, c->communicator->size);
  memcpy(c->to, parts, bytes);
  return is_complete;
}

static int finish(const card_collective *c, bool is_posted) {
  bool is_complete = is_posted;
  if (c->to && receives(c, c->communicator->rank)) {
    bool is_combined = kinds[c->kind].arrival == COMBINED;
    char *parts = is_combined ? malloc(2 * part_bytes(c)) : NULL;
    if (is_combined && !parts) return SYSTEM_ERROR;
    is_complete &= is_combined ? combine_parts(c, parts) : place_parts(c);
    free(parts);
  }
  bool is_expected = c->communicator->is_alone && !is_pair(c);
  if (!is_complete && !is_expected) note(c, CARD_UNANSWERED);
  return CARD_OK;
}

// ---- groups ---------------------------------------------------------------------------------------------

typedef struct {
  card_collective collective;
  bool is_posted;
} pending;

static __thread int depth; // groups within groups are one
static __thread vec(pending) group;

// All ranks decide in the same way what they exchange, because types and counts are the same on all of them.
static bool is_exchanged(const card_collective *c) {
  if (c->type < 0 || c->type >= INTEGER_TYPES || part_bytes(c) > EXCHANGED_BYTES) return false;
  if (kinds[c->kind].arrival != COMBINED || c->operation < OPERATIONS) return true;
  note(c, " of integers with a user-defined operation");
  return false;
}

int card_collective_do(card_collective c) {
  card_watch_collective();
  if (element_bytes(c.type) == 0) note(&c, " of a type that is not known");
  if (part_bytes(&c) == 0) return CARD_OK;
  if (!is_exchanged(&c)) return use_own(&c), CARD_OK;
  bool is_posted = post(&c);
  if (depth == 0) return finish(&c, is_posted);
  return vec_push(&group, (pending){c, is_posted}) ? CARD_OK : SYSTEM_ERROR;
}

void card_group_start(void) { depth++; }

int card_group_end(void) {
  int result = CARD_OK;
  if (depth > 0 && --depth > 0) return CARD_OK;
  for (size_t i = 0; i < group.len; i++) {
    int failure = finish(&group.at[i].collective, group.at[i].is_posted);
    if (failure) result = failure;
  }
  vec_free(&group);
  return result;
}

bool card_gather_bytes(card_communicator *here, const void *mine, void *all, size_t bytes) {
  card_collective c = {
      .kind = CARD_ALL_GATHER, .from = mine, .to = all, .count = bytes, .communicator = here};
  bool is_posted = post(&c);
  return place_parts(&c) && is_posted;
}
