// Whether a script's code has a piece of text, such as "fully_shard(": not in comments, strings or imports.
#ifndef PLIM_IO_PYTHON_CODE_H
#define PLIM_IO_PYTHON_CODE_H

#include <stdbool.h>
#include <stddef.h>

// The piece begins a name or an operator, and may go on over what is behind it.
bool plim_python_has(const char *text, size_t size, const char *piece);

#endif
