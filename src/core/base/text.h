// Making text from other people's files safe to print.
#ifndef PLIM_CORE_TEXT_H
#define PLIM_CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The length of the UTF-8 character at `text`, which ends in a 0; 0 if there is none.
size_t plim_text_char(const char *text, uint32_t *code);

// Whether a character controls the terminal instead of being shown: control characters (including U+0080 to U+009F) and
// those that change the direction of writing.
bool plim_char_steers(uint32_t code);

// Replaces such characters, and bytes that are not UTF-8, by as many "?" in place, so that names in a file cannot control
// the terminal.
void plim_text_disarm(char *text);
// The same for a text of several lines: line breaks and tabs stay. A 0 stands behind it.
void plim_text_disarm_lines(char *text, size_t size);

#endif
