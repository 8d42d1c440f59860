// Filling the plim_error that a failing call reports (plimsoll.h).
#include <stdarg.h>
#include <stdio.h>

#include "plimsoll.h"

plim_err plim_fail(plim_error *error, plim_err code, const char *format, ...) {
  if (!error) return code;
  *error = (plim_error){.code = code, .byte = PLIM_UNKNOWN};
  va_list args;
  va_start(args, format);
  vsnprintf(error->message, sizeof error->message, format, args);
  va_end(args);
  return code;
}

void plim_error_at(plim_error *error, uint64_t byte) {
  if (error) error->byte = byte;
}

void plim_error_hint(plim_error *error, const char *format, ...) {
  if (!error) return;
  va_list args;
  va_start(args, format);
  vsnprintf(error->hint, sizeof error->hint, format, args);
  va_end(args);
}
