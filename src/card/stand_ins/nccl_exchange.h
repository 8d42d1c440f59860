// Messages between the ranks of an NCCL communicator, which are processes of one run.
//
// Every ordered pair of ranks has a channel for collectives and one for sends and receives. Posting copies the data and
// returns; taking waits for the message. Messages are numbered, so one that arrives after its receiver gave up is dropped.
#ifndef PLIM_NCCL_EXCHANGE_H
#define PLIM_NCCL_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct card_exchange card_exchange;
typedef enum { CARD_COLLECTIVE, CARD_PAIR, CARD_CHANNELS } card_channel;

// A name that no other communicator has.
typedef struct {
  uint8_t bytes[16];
} card_exchange_name;

card_exchange_name card_exchange_new_name(void);

// Joins the ranks that open the same name in the folder of the record. NULL: there is no record, or no memory.
card_exchange *card_exchange_open(const card_exchange_name *name, int size, int rank);

// Opens all ranks for this process alone. False: no memory, and nothing is open.
bool card_exchange_open_all(int size, card_exchange **out);

void card_exchange_close(card_exchange *x); // NULL is fine

// False: the other rank ended or did not make room in time.
bool card_exchange_post(card_exchange *x, card_channel channel, int to, const void *data,
                        size_t bytes);

// Waits for the next message of a rank. False: the rank ended, did not answer in time, or sent another number of bytes;
// `data` is then unchanged.
bool card_exchange_take(card_exchange *x, card_channel channel, int from, void *data, size_t bytes);

// How many seconds a rank waits for another one that still runs: 60. If that one did not answer in time, it is not waited for
// again until it does.
extern double card_exchange_seconds;

#endif
