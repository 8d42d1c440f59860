// A text put together from parts of a file, which knows of each byte where in the file it is.
#ifndef PLIM_IO_SOURCED_TEXT_H
#define PLIM_IO_SOURCED_TEXT_H

#include "settings.h"

#define PLIM_FROM_NOWHERE UINT32_MAX    // not in the file
#define PLIM_FROM_OPEN (UINT32_MAX - 1) // of a reference whose value is not known
#define PLIM_FROM_VARIABLE (1u << 31)   // added to the place if it is in the value of a variable
#define PLIM_FROM_SHARED (1u << 30)     // and if that variable is used elsewhere, too
#define PLIM_FROM_PLACE(from) ((from) & (PLIM_FROM_SHARED - 1))

typedef struct {
  vec(char) bytes;
  vec(uint32_t) from; // as many
  bool is_out;        // of memory; what follows is missing
} plim_sourced;

void plim_sourced_put(plim_sourced *t, char c, uint32_t from);
// A text that is not in the file.
void plim_sourced_write(plim_sourced *t, const char *text, uint32_t from);
// A part of the file.
void plim_sourced_copy(plim_sourced *t, const char *file, plim_span part);
// A part of another text.
void plim_sourced_append(plim_sourced *t, const plim_sourced *other, size_t begin, size_t end);
// Line ends, until the next byte is in this line.
void plim_sourced_go_to(plim_sourced *t, int line);
void plim_sourced_free(plim_sourced *t);

// As one word of a shell command: quoted if it has to be. What is open stays open.
void plim_sourced_quote(plim_sourced *t, const plim_sourced *word);

#endif
