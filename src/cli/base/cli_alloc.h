// Memory for the command line, where running out ends the program with a message. Library code
// returns PLIM_ERR_NOMEM instead.
#ifndef PLIM_CLI_CLI_ALLOC_H
#define PLIM_CLI_CLI_ALLOC_H

#include <stdarg.h>
#include <stddef.h>

void *cli_alloc(size_t bytes); // zeroed; free() it, as all below
char *cli_strndup(const char *text, size_t bytes);
char *cli_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *cli_vformat(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

_Noreturn void cli_out_of_memory(void);

#endif
