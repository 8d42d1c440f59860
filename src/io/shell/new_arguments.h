// Writes new flags and overrides in the style of the existing ones.
#ifndef PLIM_IO_NEW_ARGUMENTS_H
#define PLIM_IO_NEW_ARGUMENTS_H

#include "settings.h"
#include "shell_value.h"

bool plim_is_flag_key(const char *key);
bool plim_is_variable_key(const char *key);
bool plim_is_override_key(const char *key);

// Writes the words to add to the command `group`: --flag value, --flag=value, --flag or ++a.b=value, as shell words or,
// for PLIM_WORD_ELEMENT, as strings of a JSON array.
plim_err plim_new_words(const plim_shell_scanner *f, size_t group, const char *key,
                        const plim_value *value, plim_word_context place, plim_bytes *out,
                        plim_error *error);

bool plim_bytes_add(plim_bytes *out, const char *text, size_t size);

// Makes an edit that inserts `separator` and `words` at a place.
plim_err plim_edit_insert(size_t at, const char *separator, const char *words, plim_edit *out,
                          plim_error *error);

#endif
