// A stream of bytes from a file, standard input or memory, unpacked on the way when it is gzip or
// xz (told by its first bytes, not by its name). Reads forward only and keeps one buffer.
//
// Readers work on [at, end) directly and call plim_input_fill when that is too short for them.
// Behind `end` lie PLIM_INPUT_SLACK readable bytes, zero once the stream has ended, so that a
// reader may look at a short item first and ask whether it was all there afterwards.
#ifndef PLIM_IO_INPUT_H
#define PLIM_IO_INPUT_H

#include "plimsoll.h"

#define PLIM_INPUT_SLACK 512

typedef enum { PLIM_PACKING_NONE, PLIM_PACKING_GZIP, PLIM_PACKING_XZ } plim_packing;

typedef struct plim_input {
  const uint8_t *at, *end; // what is buffered and unread; the reader moves `at`
  uint64_t base;           // offset of buffer[0] in the unpacked stream
  uint8_t *buffer;
  bool at_end; // nothing follows `end`
  plim_packing packing;
  struct plim_source *source; // where the packed bytes come from
} plim_input;

// Opens a file, or standard input for "-". On failure there is nothing to close.
plim_err plim_input_open(plim_input *input, const char *path, plim_error *error);

// The same over memory, which must outlive the input.
plim_err plim_input_open_memory(plim_input *input, const void *data, size_t size,
                                plim_error *error);

// Moves what is unread to the front of the buffer and reads at least one byte more, unless the
// stream ends: then `at_end` becomes true. Pointers into the buffer are void afterwards. Packed
// data that are cut off or damaged fail with the offset in the unpacked stream.
plim_err plim_input_fill(plim_input *input, plim_error *error);

// Verifies the checksums of packed data that were read to their end; does nothing for plain data. If more follows than a
// buffer holds, which is nobody's, it is not unpacked and nothing is verified.
plim_err plim_input_finish(plim_input *input, plim_error *error);

// Releases everything; an input that is all zero is fine.
void plim_input_close(plim_input *input);

// Offset of `at` in the unpacked stream.
static inline uint64_t plim_input_offset(const plim_input *input) {
  return input->base + (uint64_t)(input->at - input->buffer);
}

#endif
