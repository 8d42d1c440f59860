// The words of a command as its program gets them: flags with their values, and overrides in the way of
// Hydra.
#ifndef PLIM_IO_ARGUMENTS_H
#define PLIM_IO_ARGUMENTS_H

#include "shell_value.h"

typedef struct {
  plim_span span; // all of the word, quotes included
  plim_word_context place;
  plim_span head; // its plain beginning: all of it, or what stands before "="; empty if it has none
  plim_span tail; // what stands after "="
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
  size_t order;        // of the first; of all of them if is_list
  bool is_list;        // passed on as a whole by a variable
  const char *prefix;  // of keys
  bool expects_script; // a launcher: flags of its own, then a script
  bool has_overrides;  // words such as a.b=c are settings
  bool is_aside;       // of a command that does not train
} plim_argument_list;

void plim_arguments_find(plim_shell_scanner *f, const plim_argument_list *list);

// ---- what commands are ------------------------------------------------------------------------------

typedef struct {
  bool is_utility;  // cp, echo, pip: its flags are no settings of a training
  bool is_launcher; // has python, torchrun or the like in it, or a .py file
  bool is_training; // and runs a program, not a line of code or a tool of its own
  bool is_aside;    // a program that does something else than train, by its name
  size_t at;        // of the launcher among the words
} plim_command_kind;

// python, torchrun, a .py file.
bool plim_argument_launches(const char *text, const plim_argument *a);

// Whether a script or a command is run for the programs it brings: conda, venv, modules.
bool plim_brings_programs(const char *text, plim_span name);

// source FILE, of one that may set variables of the training; `count` is at least 1.
bool plim_command_sources(const char *text, const plim_argument *at, size_t count);

plim_command_kind plim_command_kind_of(const char *text, const plim_argument *at, size_t count,
                                       bool has_here_document);

#endif
