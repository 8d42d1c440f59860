// What a script's code has: calls, names, keyword arguments. Comments and strings are no code, and imports are asked
// for by themselves.
#ifndef PLIM_IO_PYTHON_CODE_H
#define PLIM_IO_PYTHON_CODE_H

#include <stdbool.h>
#include <stddef.h>

// Where the code has a piece, token by token, at this byte or after: "fully_shard(", "device_map=", "zero.Init(".
// Names are compared whole; a * before or after one stands for the rest of it: "*BatchNorm*". SIZE_MAX: nowhere.
size_t plim_python_find(const char *text, size_t size, const char *piece, size_t from);
bool plim_python_has(const char *text, size_t size, const char *piece);

// A name in the code that is no word of Python's.
typedef struct {
  const char *text; // not 0-terminated, as all of these
  size_t size;
  const char *owner; // the name in front of its dot; NULL: none
  size_t owner_size;
  bool is_called, is_defined; // by def or class
  bool is_base;               // on a line that begins with class
  bool has_attribute;         // a dot follows
  const char *arguments;      // of a call, with its brackets: code by itself
  size_t arguments_size;
} plim_python_name;

// Calls `each` with every name until it returns false.
typedef bool plim_python_each(void *context, const plim_python_name *name);
void plim_python_names(const char *text, size_t size, plim_python_each *each, void *context);

// Whether it imports the module or something of it: "megatron", "transformers.commands".
bool plim_python_imports(const char *text, size_t size, const char *module);

typedef void plim_python_take(void *context, const char *text, size_t size);
// Calls `take` with every module that is imported: "settings" and "config.base" of `from config.base import a`, then
// "config.base.a", which may be one too.
void plim_python_modules(const char *text, size_t size, plim_python_take *take, void *context);

// Calls `take` with what stands between the quotes of every string of the code that goes on to no other line, as it is
// written; not with comments and docstrings.
void plim_python_strings(const char *text, size_t size, plim_python_take *take, void *context);

#endif
