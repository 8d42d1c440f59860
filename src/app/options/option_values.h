// Values of options: from a text into the field of an args struct.
#ifndef PLIM_APP_OPTION_VALUES_H
#define PLIM_APP_OPTION_VALUES_H

#include "options.h"

// How each kind of value is written: an example for hints (NULL: use the placeholder), and what it is in words, if the
// placeholder does not say it.
typedef struct {
  const char *example, *what;
} cli_kind_words;
extern const cli_kind_words cli_kinds[CLI_KIND_COUNT];

// Reads the value of an option into the field at option->offset of `base`; flags are set by cli_option_turn_on. The text
// must outlive the struct. Errors name the value and carry a byte of it.
plim_err cli_option_set(const cli_option *option, void *base, const char *text, plim_error *error);

size_t cli_choice_count(const char *const *choices); // NULL at the end
// The index of `text` in choices; on failure, the error has the wrong value and the allowed ones.
plim_err cli_choice_find(const char *const *choices, const char *text, int *index,
                         plim_error *error);

// The member of a request in JSON that stands for an option: its name with _ in place of -.
void cli_member_name(const cli_option *option, char *text, size_t size);

// An example of a valid value: what was probably meant by the wrong one (which may be NULL).
const char *cli_option_example(const cli_option *option, const char *wrong, char *text,
                               size_t size);

void cli_call_clear(
    cli_call *call); // frees what reading the call allocated; the struct itself stays

#endif
