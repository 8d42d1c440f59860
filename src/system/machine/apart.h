// Runs a function in a process of its own, because it may never return: a driver that hangs keeps even a killed thread.
//
//   answer a;
//   plim_apart_end end = plim_apart(question, &context, &a, sizeof a, 30);
#ifndef PLIM_SYSTEM_APART_H
#define PLIM_SYSTEM_APART_H

#include <stddef.h>

typedef enum {
  PLIM_APART_ANSWERED,
  PLIM_APART_SILENT, // not within that many seconds; the process was told to end, and is not waited for
  PLIM_APART_FAILED, // the process could not be started, or crashed
} plim_apart_end;

// `question` writes its answer, at most 64 KiB, to the memory it is given, which starts as a copy of
// `answer`. The process has no files of ours, so it holds up nobody who reads our output. Unless it is answered,
// `answer` is unchanged.
plim_apart_end plim_apart(void (*question)(void *context, void *answer), void *context,
                          void *answer, size_t size, double seconds);

#endif
