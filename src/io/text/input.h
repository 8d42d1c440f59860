// A stream of bytes from a file, standard input or memory. gzip and xz data is decompressed while reading (it is
// recognised by its first bytes, not by its name). The stream reads forward only and keeps one buffer.
//
// Readers use [at, end) directly and call plim_input_fill when they need more bytes. PLIM_INPUT_SLACK more bytes after
// `end` are readable, and zero once the stream has ended: a reader may decode a short item first and check afterwards
// whether it was complete.
#ifndef PLIM_IO_INPUT_H
#define PLIM_IO_INPUT_H

#include "plimsoll.h"

#define PLIM_INPUT_SLACK 512

typedef enum { PLIM_PACKING_NONE, PLIM_PACKING_GZIP, PLIM_PACKING_XZ } plim_packing;

typedef struct plim_input {
  const uint8_t *at, *end; // the buffered bytes that are not read yet; the reader moves `at`
  uint64_t base;           // offset of buffer[0] in the decompressed stream
  uint8_t *buffer;
  bool at_end; // nothing follows `end`
  plim_packing packing;
  struct plim_source *source; // where the compressed bytes come from
} plim_input;

// Opens a file, or standard input for "-". On failure there is nothing to close.
plim_err plim_input_open(plim_input *input, const char *path, plim_error *error);

// The same over memory, which must outlive the input.
plim_err plim_input_open_memory(plim_input *input, const void *data, size_t size,
                                plim_error *error);

// Moves the unread bytes to the front of the buffer and reads at least one more byte. At the end of the stream it sets
// `at_end` instead. Pointers into the buffer become invalid. If compressed data is truncated or damaged, it fails with
// the offset in the decompressed stream.
plim_err plim_input_fill(plim_input *input, plim_error *error);

// Verifies the checksums of compressed data that was read to its end; does nothing for uncompressed data. If more data
// follows than fits into the buffer, it is not decompressed and nothing is verified.
plim_err plim_input_finish(plim_input *input, plim_error *error);

// Releases everything; an input that is all zero is fine.
void plim_input_close(plim_input *input);

// Offset of `at` in the decompressed stream.
static inline uint64_t plim_input_offset(const plim_input *input) {
  return input->base + (uint64_t)(input->at - input->buffer);
}

#endif
