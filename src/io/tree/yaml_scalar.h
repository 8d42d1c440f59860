// Reads a scalar as PyYAML's safe_load does: YAML 1.1 with PyYAML's rules for numbers (1e-5 is text, 1.0e-5 a float, 010
// is 8, 1:30 is 90, yes is true).
#ifndef PLIM_IO_YAML_SCALAR_H
#define PLIM_IO_YAML_SCALAR_H

#include "settings.h"

// `tag` is NULL for an unquoted scalar without a tag and "" for quoted text. `text` must not contain 0 bytes; a TEXT in
// `out` points to it. Returns false if safe_load refuses it, or if plim_value cannot represent the result.
bool plim_yaml_resolve(const char *text, const char *tag, plim_value *out);

// The word for `wanted` in the spelling of the bool `text`; NULL if `text` is not a bool.
const char *plim_yaml_bool(const char *text, size_t size, bool wanted);

#endif
