// The trainings in a folder. Each is found by the file that starts it: a launch script, a configuration or a script that no
// other training reads.
#ifndef PLIM_IO_PROJECT_FOLDER_H
#define PLIM_IO_PROJECT_FOLDER_H

#include "plimsoll.h"
#include "vec.h"

typedef struct {
  char *path;        // the file that starts it, or "Makefile:train"; owned
  int line;          // of the command in such a file; 0: none
  vec(char *) files; // the real paths of all its files; owned
} plim_folder_training;

typedef struct {
  vec(plim_folder_training) trainings; // ordered by path
  vec(char *) unused;                  // configurations of launchers that no training names; owned
  bool is_cut;         // there are more files, or folders deeper down, than are read
  plim_error unparsed; // the first file that cannot be parsed; code 0: none
} plim_folder;

// Reads the files of a folder and of the folders below it. Hidden folders, installed packages and links to
// folders are passed over. Fails if the folder cannot be read, or memory runs out.
plim_err plim_folder_read(const char *folder, plim_folder *out, plim_error *error);
void plim_folder_clear(plim_folder *f);

#endif
