// Decodes, checks and writes UTF-8.
#ifndef PLIM_IO_UTF8_H
#define PLIM_IO_UTF8_H

#include "plimsoll.h"

// The length in bytes (1 to 4) of the well-formed character at the start of `text`; 0 if there is none.
// `code` may be NULL.
size_t plim_utf8_length(const char *text, size_t size, uint32_t *code);

// The offset of the first byte that is not part of a well-formed character; `size` if there is no such byte.
size_t plim_utf8_check(const char *text, size_t size);

// Writes a character; returns its length.
size_t plim_utf8_write(uint32_t code, char out[4]);

// Refuses UTF-16 and malformed UTF-8. Sets `*skip` to the length of the byte order mark, 0 or 3.
plim_err plim_utf8_open(const char *text, size_t size, size_t *skip, plim_error *error);

#endif
