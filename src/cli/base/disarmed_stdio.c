#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli_alloc.h"
#include "text.h"

static int print_long(FILE *out, const char *format, va_list args, size_t size) {
  char *text = malloc(size + 1);
  if (!text) cli_out_of_memory();
  vsnprintf(text, size + 1, format, args);
  plim_text_disarm_lines(text, size);
  int result = (fputs)(text, out);
  free(text);
  return result < 0 ? result : (int)size;
}

int disarmed_vprintf(FILE *out, const char *format, va_list args) {
  char text[512];
  va_list again;
  va_copy(again, args);
  int size = vsnprintf(text, sizeof text, format, args);
  if (size >= (int)sizeof text) size = print_long(out, format, again, (size_t)size);
  else if (size > 0) {
    plim_text_disarm_lines(text, (size_t)size);
    if ((fputs)(text, out) < 0) size = -1;
  }
  va_end(again);
  return size;
}

int disarmed_printf(FILE *out, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int result = disarmed_vprintf(out, format, args);
  va_end(args);
  return result;
}

int disarmed_puts(const char *text, FILE *out) { return disarmed_printf(out, "%s", text); }

void disarmed_output(const char *text, FILE *out) {
  for (size_t n; *text; text += n) {
    n = strcspn(text, "\r");
    disarmed_printf(out, "%.*s", (int)n, text);
    if (text[n] == '\r') (fputs)("\r", out), n++;
  }
}

void disarmed_write(const char *data, size_t size, FILE *out) {
  char *copy = isatty(fileno(out)) ? cli_strndup(data, size) : NULL;
  if (copy) plim_text_disarm_lines(copy, strlen(copy));
  fwrite(copy ? copy : data, 1, copy ? strlen(copy) : size, out);
  free(copy);
}
