// Searches the code of a script for calls, names and keyword arguments. Comments and strings are not searched, and imports
// have functions of their own.
#ifndef PLIM_IO_PYTHON_CODE_H
#define PLIM_IO_PYTHON_CODE_H

#include <stdbool.h>
#include <stddef.h>

#include "plimsoll.h"

// Finds the first occurrence of a piece of code, token by token, from byte `from` on: "fully_shard(", "device_map=",
// "zero.Init(". Names must match completely; a * before or after a name stands for the rest of it: "*BatchNorm*".
// SIZE_MAX if there is none.
size_t plim_python_find(const char *text, size_t size, const char *piece, size_t from);
bool plim_python_has(const char *text, size_t size, const char *piece);

// A name in the code that is not a keyword of Python.
typedef struct {
  const char *text; // none of these texts is 0-terminated
  size_t size;
  const char *owner; // the name before its dot; NULL: none
  size_t owner_size;
  bool is_called, is_defined; // by def or class
  bool is_base;               // on a line that begins with class
  bool has_attribute;         // a dot follows
  const char *arguments;      // of a call, with the brackets
  size_t arguments_size;
} plim_python_name;

// Calls `each` with every name until it returns false.
typedef bool plim_python_each(void *context, const plim_python_name *name);
void plim_python_names(const char *text, size_t size, plim_python_each *each, void *context);

// Whether the script imports the module or something from it: "megatron", "transformers.commands".
bool plim_python_imports(const char *text, size_t size, const char *module);

// A module that the script imports.
typedef struct {
  const char *name; // "config.base", not 0-terminated
  size_t size;
  int dots;    // before the name: 1 is the script's own package
  size_t byte; // of the import statement
} plim_python_module;

// Calls `each` with every imported module. For `from config.base import a` these are "config.base" and "config.base.a",
// which may be a module too. Fails only when out of memory: what cannot be read as Python is not searched further.
typedef void plim_python_each_module(void *context, const plim_python_module *module);
plim_err plim_python_modules(const char *text, size_t size, plim_python_each_module *each,
                             void *context);

typedef void plim_python_take(void *context, const char *text, size_t size);
// Calls `take` with the source text between the quotes of every string that fits on one line, but not with docstrings.
// Fails like plim_python_modules.
plim_err plim_python_strings(const char *text, size_t size, plim_python_take *take, void *context);

#endif
