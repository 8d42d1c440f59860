// What PyYAML's safe_load makes of a scalar: its resolver is YAML 1.1, with its own idea of numbers
// (1e-5 is text, 1.0e-5 a float, 010 is 8, 1:30 is 90, yes is true).
#ifndef PLIM_IO_YAML_SCALAR_H
#define PLIM_IO_YAML_SCALAR_H

#include "settings.h"

// `tag` is NULL for what has none and is not quoted; "" for quoted text. `text` has no 0 in it; `out`
// points to it for a TEXT. False: safe_load refuses it, or gives what no plim_value holds.
bool plim_yaml_resolve(const char *text, const char *tag, plim_value *out);

// Whether this is spelled as a bool, and the spelling of its opposite.
const char *plim_yaml_bool(const char *text, size_t size, bool wanted);

#endif
