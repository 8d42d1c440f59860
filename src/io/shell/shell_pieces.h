// Finds words that are inside other words: in strings that the shell splits later, and in directives.
#ifndef PLIM_IO_SHELL_PIECES_H
#define PLIM_IO_SHELL_PIECES_H

#include "arguments.h"

// Whether a quoted string contains arguments ("--lr 1e-4 --bf16") or a command with arguments.
bool plim_is_argument_text(const char *text, plim_span quoted);
// Whether a quoted string is one flag and its value: "--lr 1e-4", but not "--name=a b".
bool plim_is_flag_text(const char *text, plim_span quoted);
// Its words; false when out of memory.
bool plim_argument_pieces(const char *text, plim_span quoted, plim_arguments *out);

// For bash -c '...' with arguments in the quotes: the index of -c among the words; `count` for any other command.
size_t plim_quoted_command(const char *text, const plim_argument *at, size_t count);

// The words of one line, up to a comment; false when out of memory.
bool plim_directive_words(const char *text, plim_span line, plim_arguments *out);

// ---- assignments ------------------------------------------------------------------------------------

// Whether the word is export, local or the like.
bool plim_shell_is_declaration(const char *text, const plim_argument *a);
// Whether the word is read, unset or the like, which change the variables named after them.
bool plim_shell_sets_its_words(const char *text, const plim_argument *a);
// Whether it is any of these, or eval, source or the like.
bool plim_shell_sets_variables(const char *text, const plim_argument *a);
// Whether the value comes from the caller of the script: $1, ${2}, $OPTARG, ${arg#*=}.
bool plim_shell_is_given(const char *text, const plim_argument *a);
// The name in : ${NAME:=value}; empty if the word is anything else.
plim_span plim_shell_assigned_default(const char *text, plim_span word);
// The name in ${NAME[@]}, $NAME and so on, quoted or not; empty if the word is anything else.
plim_span plim_shell_list_name(const char *text, plim_span span);

#endif
