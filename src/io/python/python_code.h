// Whether a script's code has a piece of text, such as "fully_shard(": not in comments, strings or imports.
#ifndef PLIM_IO_PYTHON_CODE_H
#define PLIM_IO_PYTHON_CODE_H

#include <stdbool.h>
#include <stddef.h>

// The piece begins a name or an operator, and may go on over what is behind it.
bool plim_python_has(const char *text, size_t size, const char *piece);

// Whether it imports the module or something of it: "megatron", "transformers.commands".
bool plim_python_imports(const char *text, size_t size, const char *module);

// Calls `take` with what stands between the quotes of every string of the code that goes on to no other line, as it is
// written; not with comments and docstrings.
typedef void plim_python_take(void *context, const char *text, size_t size);
void plim_python_strings(const char *text, size_t size, plim_python_take *take, void *context);

#endif
