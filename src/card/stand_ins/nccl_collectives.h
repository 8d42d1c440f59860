// The results of collectives. Integers are really exchanged. Floating-point data is not: a rank gets results as if every
// rank had sent its own data.
#ifndef PLIM_NCCL_COLLECTIVES_H
#define PLIM_NCCL_COLLECTIVES_H

#include "nccl_exchange.h"

typedef struct {
  int size, rank;
  card_exchange *exchange; // NULL: the other ranks cannot be reached
  bool is_alone;           // the other ranks do not run (--world): this rank's data replaces theirs
} card_communicator;

typedef enum {
  CARD_ALL_REDUCE,
  CARD_REDUCE,
  CARD_BROADCAST,
  CARD_ALL_GATHER,
  CARD_REDUCE_SCATTER,
  CARD_ALL_TO_ALL,
  CARD_GATHER,
  CARD_SCATTER,
  CARD_SEND,
  CARD_RECEIVE,
} card_collective_kind;

typedef struct {
  card_collective_kind kind;
  const void *from; // NULL where this rank contributes nothing
  void *to;         // NULL where this rank gets nothing
  size_t count;     // of elements, as the function counts them
  int type;         // ncclDataType_t
  int operation;    // ncclRedOp_t
  int root;         // or the other rank of a send or receive
  card_communicator *communicator;
} card_collective;

// Sends what this rank contributes, and waits for what it gets; within a group it waits when the group ends.
// CARD_OK, or ncclSystemError if there is no memory.
int card_collective_do(card_collective c);

void card_group_start(void);
int card_group_end(void);

// Every rank's data of `bytes` bytes, by rank; `all` has room for them. False: a rank did not answer.
bool card_gather_bytes(card_communicator *c, const void *mine, void *all, size_t bytes);

#endif
