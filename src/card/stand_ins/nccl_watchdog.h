// When PyTorch's watchdog sees that a collective is done.
//
// PyTorch keeps the tensors of an asynchronous collective until the program waits for it, or until its watchdog, a thread
// that asks for the collective's event every 100 ms, has seen it done and NCCL is called again. DistributedDataParallel
// does not wait in this sense, so its first bucket, which is as large as all gradients, lives as long as that takes. On a
// real card this is a race between the program, the card and the watchdog; in steps of 100 ms and more, the bucket is freed
// at the first collective of the next backward pass (src/core/sharding/ddp.c, tests/truth/README.md).
//
// On the simulated card nothing takes time, so this outcome of the race is chosen: the watchdog sees a collective as done only
// when the next backward pass begins or a communicator ends. All other threads see it as done at once.
#ifndef PLIM_NCCL_WATCHDOG_H
#define PLIM_NCCL_WATCHDOG_H

// A collective was launched: the event that this thread records next tells its end.
void card_watch_collective(void);

// From now on, the watchdog too sees the collectives so far as done.
void card_end_collectives(void);

#endif
