// Lists the words of the commands that a script runs, or that a container runs when it starts, as they are written: flags,
// values, quotes. Redirections are left out; a new command begins after |, ; or &&.
#ifndef PLIM_IO_COMMAND_WORDS_H
#define PLIM_IO_COMMAND_WORDS_H

#include "settings.h"

// `command` is the number of the command. The word is not NUL-terminated.
typedef void plim_word_visitor(void *to, size_t command, const char *word, size_t size);

// In a shell script: all commands except those in substitutions. In a Dockerfile: the command of ENTRYPOINT and CMD, with
// elements of an array without their quotes. Other formats have no commands.
plim_err plim_command_words(plim_format format, const char *text, size_t size,
                            plim_word_visitor *visit, void *to);

#endif
