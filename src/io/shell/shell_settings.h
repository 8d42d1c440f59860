// Finds the settings of a shell script and the commands that start a training.
#ifndef PLIM_IO_SHELL_SETTINGS_H
#define PLIM_IO_SHELL_SETTINGS_H

#include "arguments.h"
#include "shell_script.h"

typedef struct {
  plim_shell_script script;
  vec(size_t)
      groups; // for each command: the command that receives its words; PLIM_NOWHERE: a list that
              // a training passes on
  vec(size_t) trainings; // the commands that start a training, in order
} plim_shell_view;

typedef struct {
  const char *text; // the text of the settings, or an instruction of a Dockerfile
  size_t size;
  size_t first_group;
  bool is_instruction; // an instruction of a Dockerfile: variables and comments are ignored
  bool only_trainings; // only the flags of trainings are settings
} plim_shell_text;

// Finds the settings of the text. The caller clears the view, also after an error.
plim_err plim_shell_find(plim_shell_scanner *f, const plim_shell_text *t, plim_shell_view *view,
                         plim_error *error);
void plim_shell_view_clear(plim_shell_view *view);

// The words of a command after its assignments.
bool plim_shell_arguments(const plim_shell_view *view, const char *text, size_t command,
                          plim_arguments *out);

// Writes a list of the trainings to `out`: "line 12: torchrun train.py; line 20: ...".
void plim_shell_candidates(const plim_shell_view *view, const char *text, char *out, size_t size);

// The place for new words at the end of a training's command, and the separator before them: a blank, or a continued
// line with the indentation of the next one.
typedef struct {
  size_t at;
  plim_bytes separator;
} plim_shell_gap;

bool plim_shell_end_of(const plim_shell_view *view, const char *text, size_t size, size_t command,
                       plim_shell_gap *out);

#endif
