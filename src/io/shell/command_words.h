// The words of commands that a script runs, or an image when it is started, as they are written: flags, values,
// quotes. Redirections and what stands after |, ; or && belong to no command before it.
#ifndef PLIM_IO_COMMAND_WORDS_H
#define PLIM_IO_COMMAND_WORDS_H

#include "settings.h"

// `command` tells commands apart. The word is not NUL-terminated.
typedef void plim_word_visitor(void *to, size_t command, const char *word, size_t size);

// Of a shell script all commands but those in substitutions; of a Dockerfile the one of ENTRYPOINT and CMD, an element
// of an array without its quotes. Other formats have none.
plim_err plim_command_words(plim_format format, const char *text, size_t size,
                            plim_word_visitor *visit, void *to);

#endif
