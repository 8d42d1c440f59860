// The settings of a shell script, and the commands that run a training in it.
#ifndef PLIM_IO_SHELL_SETTINGS_H
#define PLIM_IO_SHELL_SETTINGS_H

#include "arguments.h"
#include "shell_script.h"

typedef struct {
  plim_shell_script script;
  vec(size_t) groups;    // of each command: the one that gets its words; PLIM_NOWHERE: a list that
                         // a training passes on
  vec(size_t) trainings; // commands that run one, in order
} plim_shell_view;

typedef struct {
  const char *text; // not always that of the settings: a Dockerfile's instruction
  size_t size;
  size_t first_group;
  bool is_instruction; // of a Dockerfile: variables and comments are not looked for
  bool only_trainings; // only their flags are settings
} plim_shell_text;

// Finds what the text says; the view is the caller's to clear, also after an error.
plim_err plim_shell_find(plim_shell_scanner *f, const plim_shell_text *t, plim_shell_view *view,
                         plim_error *error);
void plim_shell_view_clear(plim_shell_view *view);

// The words of a command after its assignments.
bool plim_shell_arguments(const plim_shell_view *view, const char *text, size_t command,
                          plim_arguments *out);

// "line 12: torchrun train.py, line 20: ..." into `text`.
void plim_shell_candidates(const plim_shell_view *view, const char *text, char *out, size_t size);

// Where words are put at the end of a training's command, and what comes before them: a blank, or the
// end of a line with the indentation of the next.
typedef struct {
  size_t at;
  plim_bytes separator;
} plim_shell_gap;

bool plim_shell_end_of(const plim_shell_view *view, const char *text, size_t size, size_t command,
                       plim_shell_gap *out);

#endif
