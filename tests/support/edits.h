// Edits of texts, in a short form for tests.
#ifndef PLIM_TESTS_EDITS_H
#define PLIM_TESTS_EDITS_H

#include "settings.h"

#define NONE ((plim_value){.kind = PLIM_VALUE_NULL})
#define FLAG(x) ((plim_value){.kind = PLIM_VALUE_BOOL, .flag = (x)})
#define INTEGER(x) ((plim_value){.kind = PLIM_VALUE_INTEGER, .integer = (x)})
#define REAL(x) ((plim_value){.kind = PLIM_VALUE_REAL, .real = (x)})
#define WORDS(x) ((plim_value){.kind = PLIM_VALUE_TEXT, .text = (x)})

typedef struct {
  const char *before, *key;
  plim_value value;
  const char *after; // NULL: it must be refused
} edit_case;

// The text with the key changed or added, or "refused: " and the message; valid until the next call.
const char *edited(plim_format format, const char *text, const char *key, plim_value value);

// All settings as "key=value" lines with a mark of their kind; valid until the next call.
const char *listed(plim_format format, const char *text);

// Runs cases; if one differs, prints it and returns false.
bool edits_hold(plim_format format, const edit_case *cases, size_t count);

#endif
