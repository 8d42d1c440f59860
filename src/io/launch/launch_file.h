// The shell commands that start a training in files of other tools: a Makefile, the tasks of a pyproject.toml, a justfile,
// a Taskfile.yml, VS Code's launch.json.
//
//   plim_launch_file f;
//   err = plim_launch_file_read("Makefile", text, size, &f, &error);
//   f.at.at[0].script.bytes      // "\n\n\n\tpython train.py --batch_size 4\n"
//   plim_launch_file_clear(&f);
#ifndef PLIM_IO_LAUNCH_FILE_H
#define PLIM_IO_LAUNCH_FILE_H

#include "sourced_text.h"

// A target, task or configuration with commands of which one starts a training.
typedef struct {
  char *name;
  int line; // of its first command
  plim_sourced
      script; // its commands as a shell script; each is in the line in which the file has it
  const char *refusal; // why the commands cannot be told from the file; NULL: they can
} plim_launch;

typedef struct {
  vec(plim_launch) at;
  plim_error unread; // the first command that is not valid for a shell; code 0: none
  char entry
      [96]; // an entry point of a package, "train = pkg.cli:main", which is no command; "": none
} plim_launch_file;

// Whether the path is that of a Makefile, pyproject.toml, justfile, Taskfile.yml or launch.json.
bool plim_is_launch_file(const char *path);

// Fails if the text is not valid in the file's format. The caller clears `out`, also after an error.
plim_err plim_launch_file_read(const char *path, const char *text, size_t size,
                               plim_launch_file *out, plim_error *error);
void plim_launch_file_clear(plim_launch_file *f);
void plim_launch_clear(plim_launch *l); // one of them

// Translates an edit of a script to one of the file. False if the place is not literal in the file, and when out of memory.
bool plim_launch_edit(const plim_launch *launch, const plim_edit *in_script, plim_edit *out);

// The place in the file of a byte of a script, or of the last one before it that has one; PLIM_UNKNOWN: none has.
uint64_t plim_launch_place(const uint32_t *from, size_t at);
// The line of a byte, counted from 1.
int plim_launch_line(const char *text, size_t byte);

#endif
