// Converts values of files to values of knobs, and back.
#ifndef PLIM_IO_DIALECT_VALUES_H
#define PLIM_IO_DIALECT_VALUES_H

#include "dialect.h"

// How strongly a row sets its knob: not at all, as a default that other rows may override, or definitely.
typedef enum { PLIM_NOTHING, PLIM_WEAK, PLIM_STRONG, PLIM_UNREADABLE } plim_force;

typedef struct {
  plim_force force;
  plim_value value; // its text is static, or kept by the settings
} plim_token;

// Reads a setting with a row. Returns NOTHING if memory runs out; callers that need to know check s->strings.
plim_token plim_key_read(const plim_key *key, plim_settings *s, const plim_setting *setting);

// A value with which the row does not set the knob, or only weakly; false if there is none.
bool plim_key_silence(const plim_key *key, plim_value *out);

// Parses a word of plim_word.knob: "4", "0.05", "on", "?off", "-".
plim_token plim_token_of(const char *word);

// The number in a text, or the product of several: "8", "5 * 8". False if there is none.
bool plim_number_of(const char *text, plim_value *out);

#endif
