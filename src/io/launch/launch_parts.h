// For the readers of this folder.
#ifndef PLIM_IO_LAUNCH_PARTS_H
#define PLIM_IO_LAUNCH_PARTS_H

#include "launch_file.h"

typedef plim_err plim_launch_reader(const char *text, size_t size, plim_launch_file *out,
                                    plim_error *error);
plim_launch_reader plim_read_makefile, plim_read_justfile, plim_read_taskfile, plim_read_pyproject,
    plim_read_launch_json;

// Whether a command of the script starts a training. If it is no valid script, the first such error is kept in f->unread.
bool plim_launch_trains(plim_launch_file *f, const plim_sourced *script);

// The value of a setting; its bytes have places in the file if the file has it as it is.
void plim_launch_read_value(const plim_settings *s, const plim_setting *setting, plim_sourced *out);

// Adds a target unless another one has the same commands; takes ownership of the script.
plim_err plim_launch_add(plim_launch_file *f, const char *name, int line, plim_sourced *script,
                         const char *refusal, plim_error *error);

// The text of a command with what is not known marked as open: inside '...', it is put between quotes of its own.
void plim_launch_put_command(plim_sourced *script, const plim_sourced *command);
// What stands for a value that is not known: a substitution of this name, which no shell reader takes for a value.
void plim_launch_put_open(plim_sourced *t, const char *name, size_t size);
// What stands for a value that whoever starts the command gives: a variable of the environment. If the text assigns to
// that name, it is a substitution.
void plim_launch_put_given(plim_sourced *t, const char *text, size_t text_size, const char *name,
                           size_t size);

#endif
