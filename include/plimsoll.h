// Plimsoll: makes deep-learning training fit in GPU memory.
//
// The public C interface. Everything here is pure: no files, no clock, no threads, no printing.
// Device bytes are uint64_t throughout. Unknown is a value of its own (PLIM_UNKNOWN), never 0.
#ifndef PLIMSOLL_H
#define PLIMSOLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PLIM_VERSION "0.1.0"
#define PLIM_UNKNOWN UINT64_MAX // a byte count, address or limit that is not known
#define PLIM_MIB (1024ull * 1024)
#define PLIM_GIB (1024ull * PLIM_MIB)

// ---- errors ---------------------------------------------------------------------------------

typedef enum {
  PLIM_OK = 0,
  PLIM_ERR_NOMEM,      // the host ran out of memory
  PLIM_ERR_IO,         // a file could not be opened, read or written
  PLIM_ERR_PARSE,      // the input is not what it claims to be; `byte` says where
  PLIM_ERR_ARGUMENT,   // a setting or argument has a value that is not allowed
  PLIM_ERR_UNSUPPORTED // well formed, but something this program refuses or does not know
} plim_err;

// Filled by library calls that fail. Callers may pass NULL where they do not care.
typedef struct plim_error {
  plim_err code;
  char message[320]; // what is wrong, naming the value
  char hint[640];    // what to type or do next; empty if there is nothing to say
  char file[512];    // the file it is about; empty if none
  uint64_t byte;     // offset of the mistake in that file or text; PLIM_UNKNOWN if it has none
} plim_error;

// Fills *error (if not NULL) from a printf format, with no file, byte or hint, and returns `code`,
// so that a failing call reads `return plim_fail(error, PLIM_ERR_PARSE, "...")`.
plim_err plim_fail(plim_error *error, plim_err code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Adds the offending byte to *error; error may be NULL.
void plim_error_at(plim_error *error, uint64_t byte);

// Adds a hint to *error; error may be NULL.
void plim_error_hint(plim_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif
#endif
