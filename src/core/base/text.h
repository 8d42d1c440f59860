// Text that other people wrote.
#ifndef PLIM_CORE_TEXT_H
#define PLIM_CORE_TEXT_H

// Replaces control characters in place: whoever wrote the file chose the names in it, and nothing in
// them may steer a terminal.
void plim_text_disarm(char *text);

#endif
