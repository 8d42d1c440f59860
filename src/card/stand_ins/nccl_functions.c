// NCCL: communicators that know their size and rank; collectives return at once.
//
// Processes exchange nothing: what a collective would bring is either floats, which nobody computes, or integers, of which
// each process keeps its own. All ranks of a training do the same, so a gathered value is the process's own, repeated.
#include <stdlib.h>
#include <string.h>

#include "card.h"

typedef struct {
  int size, rank;
} communicator;

typedef struct {
  char bytes[128];
} unique_id;

static int create(void **out, int size, int rank) {
  communicator *new = malloc(sizeof *new);
  if (!new) return 2; // ncclSystemError
  *new = (communicator){size, rank};
  *out = new;
  card_use(card_device());
  return CARD_OK;
}

STAND_IN int ncclGetVersion(int *version) {
  *version = 22800;
  return CARD_OK;
}

STAND_IN int ncclGetUniqueId(unique_id *out) {
  memset(out, 7, sizeof *out);
  return CARD_OK;
}

STAND_IN int ncclCommInitRank(void **out, int size, unique_id id, int rank) {
  (void)id;
  return create(out, size, rank);
}

STAND_IN int ncclCommInitRankConfig(void **out, int size, unique_id id, int rank, void *config) {
  (void)id, (void)config;
  return create(out, size, rank);
}

STAND_IN int ncclCommInitRankScalable(void **out, int size, int rank, int ids, unique_id *id,
                                      void *config) {
  (void)ids, (void)id, (void)config;
  return create(out, size, rank);
}

STAND_IN int ncclCommSplit(const communicator *from, int color, int key, void **out, void *config) {
  (void)config, (void)key;
  if (color >= 0) return create(out, from->size, from->rank);
  *out = NULL;
  return CARD_OK;
}

STAND_IN int ncclCommDestroy(communicator *old) {
  free(old);
  return CARD_OK;
}

STAND_IN int ncclCommAbort(communicator *old) { return ncclCommDestroy(old); }

STAND_IN int ncclCommCount(const communicator *c, int *size) {
  *size = c->size;
  return CARD_OK;
}

STAND_IN int ncclCommUserRank(const communicator *c, int *rank) {
  *rank = c->rank;
  return CARD_OK;
}

STAND_IN int ncclCommGetAsyncError(const communicator *c, int *error) {
  (void)c;
  *error = CARD_OK;
  return CARD_OK;
}

STAND_IN const char *ncclGetErrorString(int code) { return code ? "system error" : "no error"; }
STAND_IN const char *ncclGetLastError(const communicator *c) {
  (void)c;
  return "";
}

STAND_IN int ncclMemAlloc(void **out, size_t bytes) {
  uint64_t address = 0;
  int result = card_malloc(card_device(), bytes, &address);
  *out = (void *)address;
  return result ? 2 : CARD_OK;
}

STAND_IN int ncclMemFree(void *pointer) { return card_free((uint64_t)pointer) ? 4 : CARD_OK; }

// ---- collectives ------------------------------------------------------------------------------------------

// Bytes of an element, by ncclDataType_t.
static size_t element_bytes(int type) {
  static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && (size_t)type < sizeof bytes / sizeof *bytes ? bytes[type] : 0;
}

STAND_IN int ncclAllReduce(const void *from, void *to, size_t count, int type) {
  if (from != to) card_copy(to, from, count * element_bytes(type));
  return CARD_OK;
}

STAND_IN int ncclBroadcast(const void *from, void *to, size_t count, int type) {
  return ncclAllReduce(from, to, count, type);
}

STAND_IN int ncclReduce(const void *from, void *to, size_t count, int type) {
  return to ? ncclAllReduce(from, to, count, type) : CARD_OK;
}

STAND_IN int ncclAllGather(const void *from, void *to, size_t count, int type,
                           const communicator *c) {
  size_t bytes = count * element_bytes(type);
  for (int i = 0; i < c->size; i++) card_copy((char *)to + (size_t)i * bytes, from, bytes);
  return CARD_OK;
}

STAND_IN int ncclReduceScatter(const void *from, void *to, size_t count, int type, int operation,
                               const communicator *c) {
  (void)operation;
  size_t bytes = count * element_bytes(type);
  card_copy(to, (const char *)from + (size_t)c->rank * bytes, bytes);
  return CARD_OK;
}
