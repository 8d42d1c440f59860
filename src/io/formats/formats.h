// The formats that are read and edited, and which of them a file has.
#ifndef PLIM_IO_FORMATS_H
#define PLIM_IO_FORMATS_H

#include "settings.h"

// By the file's name, then by its content. False if it is none of them.
bool plim_format_of(const char *path, const char *text, size_t size, plim_format *out);

// Text that is not of the format is refused with error->byte.
plim_err plim_settings_read(plim_format format, const char *text, size_t size, plim_settings *out,
                            plim_error *error);
#endif
