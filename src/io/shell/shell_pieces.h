// Words in places where the shell does not see them as such: in strings that it splits later, and in
// directives.
#ifndef PLIM_IO_SHELL_PIECES_H
#define PLIM_IO_SHELL_PIECES_H

#include "arguments.h"

// Whether a quoted string holds arguments ("--lr 1e-4 --bf16") or a command with them.
bool plim_is_argument_text(const char *text, plim_span quoted);
// Whether it is one flag and its value in one pair of quotes: "--lr 1e-4", but not "--name=a b".
bool plim_is_flag_text(const char *text, plim_span quoted);
// Its words; false when out of memory.
bool plim_argument_pieces(const char *text, plim_span quoted, plim_arguments *out);

// bash -c '...' with arguments in it: where the -c stands among the words; all of them if it does not.
size_t plim_quoted_command(const char *text, const plim_argument *at, size_t count);

// The words of one line, up to a comment; false when out of memory.
bool plim_directive_words(const char *text, plim_span line, plim_arguments *out);

// ---- assignments ------------------------------------------------------------------------------------

// export, local and the like.
bool plim_shell_is_declaration(const char *text, const plim_argument *a);
// read, unset and the like change variables that stand among their words.
bool plim_shell_sets_its_words(const char *text, const plim_argument *a);
// Any of them, and eval, source and the like.
bool plim_shell_sets_variables(const char *text, const plim_argument *a);
// A value that whoever calls the script gives: $1, ${2}, $OPTARG, ${arg#*=}.
bool plim_shell_is_given(const char *text, const plim_argument *a);
// : ${NAME:=value}: its name; empty if there is none.
plim_span plim_shell_assigned_default(const char *text, plim_span word);
// ${NAME[@]}, $NAME and so on, in quotes or not: its name; empty if there is none.
plim_span plim_shell_list_name(const char *text, plim_span span);

#endif
