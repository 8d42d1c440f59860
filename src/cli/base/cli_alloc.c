#include "cli_alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

_Noreturn void cli_out_of_memory(void) {
  fputs("error: out of memory\n", stderr);
  exit(CLI_ERROR);
}

void *cli_alloc(size_t bytes) {
  void *memory = calloc(1, bytes ? bytes : 1);
  if (!memory) cli_out_of_memory();
  return memory;
}

char *cli_strndup(const char *text, size_t bytes) {
  char *copy = cli_alloc(bytes + 1);
  memcpy(copy, text, bytes);
  return copy;
}

char *cli_vformat(const char *format, va_list args) {
  char *text;
  if (vasprintf(&text, format, args) < 0) cli_out_of_memory();
  return text;
}

char *cli_format(const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *text = cli_vformat(format, args);
  va_end(args);
  return text;
}
