// Making text from other people's files safe to print.
#ifndef PLIM_CORE_TEXT_H
#define PLIM_CORE_TEXT_H

// Replaces control characters in place, so that names in a file cannot control the terminal.
void plim_text_disarm(char *text);

#endif
