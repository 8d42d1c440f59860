// Splits a Dockerfile into its instructions. Continued lines are joined, and the comments between them are left out.
#ifndef PLIM_IO_DOCKERFILE_H
#define PLIM_IO_DOCKERFILE_H

#include "arguments.h"

typedef struct {
  const char *text;
  size_t size, at;
  char escape;          // \ or the character that the escape directive sets
  bool is_out;          // out of memory
  plim_spans *comments; // receives the comments if not NULL

  // The instruction that was read last.
  plim_span span;          // from its first byte to the end of its last line, without the line feed
  size_t after;            // after its line feed, and after here-documents
  bool is_open;            // the text ends without a line feed
  plim_bytes line;         // the joined text
  vec(uint32_t) from;      // the offset of each of its bytes in the file, and one more for its end
  plim_span keyword, rest; // of the line
} plim_docker;

plim_docker plim_docker_begin(const char *text, size_t size);
bool plim_docker_next(plim_docker *d); // false at the end, and when out of memory
void plim_docker_end(plim_docker *d);
bool plim_docker_is(const plim_docker *d, const char *keyword);
plim_span plim_docker_place(const plim_docker *d, plim_span in_line);

// A name and value of ENV or ARG.
typedef struct {
  plim_span name, value;
  bool has_value, is_rest;
} plim_docker_pair;

// The next pair from *at on; false if there is none.
bool plim_docker_pair_next(const plim_docker *d, bool is_env, size_t *at, plim_docker_pair *out);

// The strings of a JSON array. Returns false if the instruction is not an array, so that the shell runs the line, and when
// out of memory (d->is_out).
bool plim_docker_array(plim_docker *d, plim_arguments *out);

#endif
