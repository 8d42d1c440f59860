// NCCL: communicators, groups, and the collectives by name.
#include <stdlib.h>
#include <string.h>

#include "card.h"
#include "nccl_collectives.h"
#include "nccl_watchdog.h"

#define SYSTEM_ERROR 2 // ncclSystemError

typedef card_communicator communicator;

// The first bytes are the name of the exchange.
typedef struct {
  char bytes[128];
} unique_id;

// Of --world: the other ranks do not run.
static bool is_alone(void) {
  const char *world = getenv("PLIMSOLL_WORLD");
  return world && *world;
}

static int create(communicator **out, int size, int rank, card_exchange *exchange) {
  communicator *new = malloc(sizeof *new);
  if (!new) return card_exchange_close(exchange), SYSTEM_ERROR;
  *new = (communicator){size, rank, exchange, is_alone()};
  *out = new;
  card_use(card_device());
  return CARD_OK;
}

// Ranks with the same identifier find each other. If they cannot, their collectives are recorded as unanswered.
static int create_with_id(communicator **out, int size, int rank, const unique_id *id) {
  card_exchange_name name;
  memcpy(&name, id, sizeof name);
  return create(out, size, rank, is_alone() ? NULL : card_exchange_open(&name, size, rank));
}

STAND_IN int ncclGetVersion(int *version) {
  *version = 22800;
  return CARD_OK;
}

STAND_IN int ncclGetUniqueId(unique_id *out) {
  card_exchange_name name = card_exchange_new_name();
  memset(out, 0, sizeof *out);
  memcpy(out, &name, sizeof name);
  return CARD_OK;
}

STAND_IN int ncclCommInitRank(communicator **out, int size, unique_id id, int rank) {
  return create_with_id(out, size, rank, &id);
}

STAND_IN int ncclCommInitRankConfig(communicator **out, int size, unique_id id, int rank,
                                    void *config) {
  (void)config;
  return create_with_id(out, size, rank, &id);
}

// All ranks have the same list of identifiers.
STAND_IN int ncclCommInitRankScalable(communicator **out, int size, int rank, int ids,
                                      const unique_id *id, void *config) {
  (void)ids, (void)config;
  return create_with_id(out, size, rank, id);
}

// All ranks in one process, as torch.nn.DataParallel has them.
STAND_IN int ncclCommInitAll(communicator **out, int size, const int *devices) {
  (void)devices;
  card_exchange **exchanges = calloc((size_t)size, sizeof *exchanges);
  if (!exchanges || !card_exchange_open_all(size, exchanges)) return free(exchanges), SYSTEM_ERROR;
  int result = CARD_OK;
  for (int rank = 0; rank < size; rank++)
    if (create(&out[rank], size, rank, exchanges[rank])) result = SYSTEM_ERROR;
  free(exchanges);
  return result;
}

// What the ranks send each other when a communicator is split.
typedef struct {
  int color, key;
  card_exchange_name name; // of the new communicator, if the rank is its first
} split;

// The new communicator has the ranks of the same color, by key and then by rank.
static int create_part(communicator **out, const communicator *from, const split *all) {
  const split *mine = &all[from->rank], *first = mine;
  int size = 0, rank = 0;
  for (int i = 0; i < from->size; i++) {
    if (all[i].color != mine->color) continue;
    bool is_before = all[i].key < mine->key || (all[i].key == mine->key && i < from->rank);
    bool is_first = all[i].key < first->key || (all[i].key == first->key && &all[i] < first);
    size++;
    rank += is_before;
    if (is_first) first = &all[i];
  }
  return create(out, size, rank, card_exchange_open(&first->name, size, rank));
}

STAND_IN int ncclCommSplit(communicator *from, int color, int key, communicator **out,
                           void *config) {
  (void)config;
  split mine = {color, key, card_exchange_new_name()};
  split *all = calloc((size_t)from->size, sizeof *all);
  int result = SYSTEM_ERROR;
  *out = NULL;
  if (!all) return SYSTEM_ERROR;
  if (!card_gather_bytes(from, &mine, all, sizeof mine)) {
    card_unmodelled_call("ncclCommSplit" CARD_UNANSWERED);
    result = color < 0 ? CARD_OK : create(out, from->size, from->rank, NULL);
  } else result = color < 0 ? CARD_OK : create_part(out, from, all);
  free(all);
  return result;
}

STAND_IN int ncclCommFinalize(communicator *old) {
  (void)old;
  card_end_collectives();
  return CARD_OK;
}

STAND_IN int ncclCommDestroy(communicator *old) {
  card_end_collectives();
  if (old) card_exchange_close(old->exchange);
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

// ---- groups and collectives -----------------------------------------------------------------------------

STAND_IN int ncclGroupStart(void) {
  card_group_start();
  return CARD_OK;
}

STAND_IN int ncclGroupEnd(void) { return card_group_end(); }

// A program can make an operation from a factor. The factor is ignored: floats are not computed.
STAND_IN int ncclRedOpCreatePreMulSum(int *operation) {
  *operation = 5; // the first after NCCL's own
  return CARD_OK;
}

STAND_IN int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation,
                           communicator *c) {
  return card_collective_do(
      (card_collective){CARD_ALL_REDUCE, from, to, count, type, operation, 0, c});
}

STAND_IN int ncclReduce(const void *from, void *to, size_t count, int type, int operation, int root,
                        communicator *c) {
  return card_collective_do(
      (card_collective){CARD_REDUCE, from, to, count, type, operation, root, c});
}

STAND_IN int ncclBroadcast(const void *from, void *to, size_t count, int type, int root,
                           communicator *c) {
  return card_collective_do((card_collective){CARD_BROADCAST, from, to, count, type, 0, root, c});
}

STAND_IN int ncclBcast(void *data, size_t count, int type, int root, communicator *c) {
  return ncclBroadcast(data, data, count, type, root, c);
}

STAND_IN int ncclAllGather(const void *from, void *to, size_t count, int type, communicator *c) {
  return card_collective_do((card_collective){CARD_ALL_GATHER, from, to, count, type, 0, 0, c});
}

STAND_IN int ncclReduceScatter(const void *from, void *to, size_t count, int type, int operation,
                               communicator *c) {
  return card_collective_do(
      (card_collective){CARD_REDUCE_SCATTER, from, to, count, type, operation, 0, c});
}

STAND_IN int ncclAlltoAll(const void *from, void *to, size_t count, int type, communicator *c) {
  return card_collective_do((card_collective){CARD_ALL_TO_ALL, from, to, count, type, 0, 0, c});
}

STAND_IN int ncclGather(const void *from, void *to, size_t count, int type, int root,
                        communicator *c) {
  return card_collective_do((card_collective){CARD_GATHER, from, to, count, type, 0, root, c});
}

STAND_IN int ncclScatter(const void *from, void *to, size_t count, int type, int root,
                         communicator *c) {
  return card_collective_do((card_collective){CARD_SCATTER, from, to, count, type, 0, root, c});
}

STAND_IN int ncclSend(const void *from, size_t count, int type, int to, communicator *c) {
  return card_collective_do((card_collective){CARD_SEND, from, NULL, count, type, 0, to, c});
}

STAND_IN int ncclRecv(void *to, size_t count, int type, int from, communicator *c) {
  return card_collective_do((card_collective){CARD_RECEIVE, NULL, to, count, type, 0, from, c});
}
