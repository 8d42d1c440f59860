// The words of a command as its program receives them: flags with their values, and Hydra overrides.
#ifndef PLIM_IO_ARGUMENTS_H
#define PLIM_IO_ARGUMENTS_H

#include "shell_value.h"

typedef struct {
  plim_span span; // the whole word, quotes included
  plim_word_context place;
  plim_span
      head; // the literal beginning: the whole word, or the part before "="; empty if there is none
  plim_span tail; // the part after "="
  plim_word_context tail_place;
  bool has_tail;
} plim_argument;

plim_argument plim_argument_at(const char *text, plim_span span, plim_word_context place);
bool plim_argument_is(const char *text, const plim_argument *a, const char *word);
bool plim_argument_ends(const char *text, const plim_argument *a, const char *ending);

typedef vec(plim_argument) plim_arguments;

typedef struct {
  const char *text;
  const plim_argument *at;
  size_t count;
  size_t group;
  size_t order;        // of the first word; of all words if is_list
  bool is_list;        // the words are the content of a variable
  const char *prefix;  // of the keys
  bool expects_script; // the command is a launcher: its own flags come first, then a script
  bool has_overrides;  // words such as a.b=c are settings
  bool is_aside;       // the command does not train
} plim_argument_list;

void plim_arguments_find(plim_shell_scanner *f, const plim_argument_list *list);

// ---- what commands are ------------------------------------------------------------------------------

typedef struct {
  bool is_utility;  // cp, echo, pip: its flags are not settings of a training
  bool is_launcher; // contains python, torchrun or the like, or a .py file
  bool is_training; // a launcher that runs a program, not python -c or a tool
  bool is_aside;    // its name shows that the program does not train
  size_t at;        // index of the launcher among the words
} plim_command_kind;

// Whether the word is python, torchrun or the like, or a .py file.
bool plim_argument_launches(const char *text, const plim_argument *a);

// Whether a script or command only makes programs available: conda, venv, modules.
bool plim_brings_programs(const char *text, plim_span name);

// Whether the command is `source FILE` with a file that may set variables of the training; `count` is at least 1.
bool plim_command_sources(const char *text, const plim_argument *at, size_t count);

plim_command_kind plim_command_kind_of(const char *text, const plim_argument *at, size_t count,
                                       bool has_here_document);

#endif
