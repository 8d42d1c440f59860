// A file that a command writes. It never replaces a file that the command reads, nor any other file except an older one
// of the same kind.
#ifndef PLIM_CLI_OUTPUT_FILE_H
#define PLIM_CLI_OUTPUT_FILE_H

#include "plimsoll.h"

typedef struct {
  const char *option, *path; // "--out", "plan.json"
  const char *example;       // what to type instead: "plan.json"
  const char *kind;          // what it makes: "a plan"
  bool (*is_own)(const char *text, size_t size);
} output_file;

// Whether both name one file, by whatever path.
bool output_is_same(const char *a, const char *b);

plim_err output_refuse(const output_file *file, const char *why, const char *what,
                       plim_error *error);
// Refuses standard output, an existing file with other content, and a folder in which nothing can be written: a mistake
// should not cost the minutes of a run.
plim_err output_check(const output_file *file, plim_error *error);

#endif
