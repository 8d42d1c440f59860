// The options of `plimsoll replay` that say what is replayed.
#ifndef PLIM_APP_REPLAY_OPTIONS_H
#define PLIM_APP_REPLAY_OPTIONS_H

#include "options.h"
#include "replay_result.h"

typedef struct {
  const char *alloc_conf, *torch;
  uint64_t limit_bytes, device; // PLIM_UNKNOWN: not given
  bool tune;
} replay_args;

#define REPLAY_DEFAULTS                                                                            \
  { .limit_bytes = PLIM_UNKNOWN, .device = PLIM_UNKNOWN }

// Rows for a table of options; AT(field) is the offset of the field of replay_args.
#define REPLAY_OPTIONS(AT)                                                                         \
  {"alloc-conf",                                                                                   \
   0,                                                                                              \
   "STR",                                                                                          \
   CLI_STRING,                                                                                     \
   AT(alloc_conf),                                                                                 \
   "replay with these allocator settings instead of the recorded ones",                            \
   NULL},                                                                                          \
      {"limit",                                                                                    \
       0,                                                                                          \
       "SIZE",                                                                                     \
       CLI_BYTES,                                                                                  \
       AT(limit_bytes),                                                                            \
       "memory PyTorch may use: what set_per_process_memory_fraction allows, or the GPU's memory " \
       "minus the CUDA context (about 0.5 GiB)",                                                   \
       NULL},                                                                                      \
      {"torch",                                                                                    \
       0,                                                                                          \
       "VERSION",                                                                                  \
       CLI_STRING,                                                                                 \
       AT(torch),                                                                                  \
       "PyTorch version that recorded the snapshot (default: detected); since 2.13 free blocks "   \
       "of "                                                                                       \
       "equal size are used in a different order",                                                 \
       NULL},                                                                                      \
      {"device",   0,                                                                              \
       "N",        CLI_UINT,                                                                       \
       AT(device), "which device's trace to replay (default: the one with the most events)",       \
       NULL},                                                                                      \
  {                                                                                                \
    "tune", 0, NULL, CLI_FLAG, AT(tune),                                                           \
        "try commonly used allocator settings on this trace and rank them", NULL                   \
  }

// Checks the arguments and makes the request, which borrows from them and from *conf. On error, `*source` is the text that
// error->byte refers to, or NULL.
plim_err replay_request_of(const replay_args *args, replay_request *request, plim_alloc_conf *conf,
                           const char **source, plim_error *error);

// Reads the snapshot and investigates it. Whatever the outcome, clear *r, which must be empty.
plim_err replay_make(const char *path, const replay_args *args, replay_result *r,
                     const char **source, plim_error *error);

#endif
