// Recognises the format of a file (YAML, JSON, TOML, Python, shell, Dockerfile) and reads its settings.
#ifndef PLIM_IO_FORMATS_H
#define PLIM_IO_FORMATS_H

#include "settings.h"

// Finds the format by the file's name, then by its content. Returns false if it is none of these formats.
bool plim_format_of(const char *path, const char *text, size_t size, plim_format *out);

// Reads the settings of a text. If the text is not valid in this format, it fails with error->byte set.
plim_err plim_settings_read(plim_format format, const char *text, size_t size, plim_settings *out,
                            plim_error *error);
#endif
