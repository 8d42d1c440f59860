// What the command line prints goes through here: the build includes this file before each source of src/cli. So no text
// from a file can control the terminal. Text that is meant to control it is written with (fputs)(text, out).
#ifndef PLIM_CLI_DISARMED_STDIO_H
#define PLIM_CLI_DISARMED_STDIO_H

#include <stdarg.h>
#include <stdio.h>

int disarmed_printf(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
int disarmed_vprintf(FILE *out, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
int disarmed_puts(const char *text, FILE *out);

// Bytes as they are, for other programs; on a terminal disarmed.
void disarmed_write(const char *data, size_t size, FILE *out);

// What another program printed: carriage returns stay too, with which it draws progress bars.
void disarmed_output(const char *text, FILE *out);

#define printf(...) disarmed_printf(stdout, __VA_ARGS__)
#define fprintf(out, ...) disarmed_printf(out, __VA_ARGS__)
#define vfprintf(out, format, args) disarmed_vprintf(out, format, args)
#define fputs(text, out) disarmed_puts(text, out)

#endif
