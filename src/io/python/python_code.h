// Searches the code of a script for calls, names and keyword arguments. Comments and strings are not searched, and imports
// have functions of their own.
//
//   plim_python_code code;
//   err = plim_python_code_read(text, size, &code);
//   plim_python_has(&code, "fully_shard(")
//   plim_python_code_clear(&code);
#ifndef PLIM_IO_PYTHON_CODE_H
#define PLIM_IO_PYTHON_CODE_H

#include "python_lexer.h"

// The tokens of a whole script. A search needs no memory of its own, so it cannot fail.
typedef struct {
  const char *text; // borrowed
  size_t size;
  vec(plim_py_token) tokens; // `match` counts from the first token of the line
  vec(uint32_t) lines;       // the first token of each logical line
} plim_python_code;

// Fails only when out of memory: what cannot be read as Python is left out, with all that follows it.
plim_err plim_python_code_read(const char *text, size_t size, plim_python_code *out);
void plim_python_code_clear(plim_python_code *code); // of one that is {0}, too

// Finds the first occurrence of a piece of code, token by token, that begins at a byte from `from` to before `until`:
// "fully_shard(", "device_map=", "zero.Init(". Names must match completely; a * before or after a name stands for the rest
// of it: "*BatchNorm*". SIZE_MAX if there is none.
size_t plim_python_find(const plim_python_code *code, const char *piece, size_t from, size_t until);
bool plim_python_has(const plim_python_code *code, const char *piece);

// The number of items in the first pair of brackets from `byte` on; a trailing comma does not add one.
size_t plim_python_items(const plim_python_code *code, size_t byte);

// A name in the code that is not a keyword of Python.
typedef struct {
  const char *text; // not 0-terminated, nor is the owner
  size_t size;
  const char *owner; // the name before its dot; NULL: none
  size_t owner_size;
  bool is_called, is_defined; // by def or class
  bool is_base;               // on a line that begins with class
  bool has_attribute;         // a dot follows
  plim_span arguments;        // of a call, with the brackets
} plim_python_name;

// Calls `each` with every name until it returns false.
typedef bool plim_python_each(void *context, const plim_python_name *name);
void plim_python_names(const plim_python_code *code, plim_python_each *each, void *context);

// Whether the script imports the module or something from it: "megatron", "transformers.commands".
bool plim_python_imports(const plim_python_code *code, const char *module);

// A module that the script imports.
typedef struct {
  const char *name; // "config.base", not 0-terminated
  size_t size;
  int dots;    // before the name: 1 is the script's own package
  size_t byte; // of the import statement
} plim_python_module;

// Calls `each` with every imported module. For `from config.base import a` these are "config.base" and "config.base.a",
// which may be a module too. Fails only when out of memory.
typedef void plim_python_each_module(void *context, const plim_python_module *module);
plim_err plim_python_modules(const plim_python_code *code, plim_python_each_module *each,
                             void *context);

typedef void plim_python_take(void *context, const char *text, size_t size);
// Calls `take` with the source text between the quotes of every string within the span that fits on one line, but not
// with docstrings.
void plim_python_strings(const plim_python_code *code, plim_span within, plim_python_take *take,
                         void *context);

#endif
