// How plimsoll looks into a program that it starts: a folder for the run, Python modules (src/card/python) that the program
// loads because of its environment, and what they left behind. simulate, profile and run share this.
#ifndef PLIM_APP_INJECTION_H
#define PLIM_APP_INJECTION_H

#include "profile.h"
#include "simulate.h"

// ---- simulate_folder.c ------------------------------------------------------------------------------

// The folder of one run:
//   log       what the program prints; the only thing that stays
//   names/    the stand-ins under the file names of CUDA's libraries
//   out/      record, which the card writes; PID.* of each process that used the card
//   scratch/  what the program writes, instead of its own files
typedef struct {
  char path[PLIM_PATH_BYTES];
  char log[PLIM_PATH_BYTES], record[PLIM_PATH_BYTES], names[PLIM_PATH_BYTES];
  char out[PLIM_PATH_BYTES], scratch[PLIM_PATH_BYTES];
  int lock; // says that the run is under way; -1: the file system has no locks
} simulate_folder;

// $XDG_STATE_HOME/plimsoll/NAME, or that below ~/.local/state.
plim_err simulate_state_path(const char *name, char path[PLIM_PATH_BYTES], plim_error *error);

// Makes the folder below the user's state folder, in its folder `kind` ("simulate", "run"), of whose newest `kept` runs the
// logs are kept. `stand_ins` is the folder with libplimsoll-card.so; NULL: the program runs on a real card, and names/ is
// empty.
plim_err simulate_folder_make(simulate_folder *folder, const char *kind, int kept,
                              const char *stand_ins, plim_error *error);
// Removes everything but the log; with `has_log` false, that too.
void simulate_folder_remove(const char *path, bool has_log);

// The folder with the stand-ins: beside the program (a build), or in ../lib/plimsoll (an installation).
plim_err simulate_find_stand_ins(char path[PLIM_PATH_BYTES], plim_error *error);

// ---- simulate_environment.c -------------------------------------------------------------------------

// The program's environment: ours, with the stand-ins in front. Ends with NULL; free with simulate_environment_free.
char **simulate_environment(const simulate_request *request, const simulate_folder *folder,
                            const char *stand_ins);
// Likewise for a program on a real card: with the Python modules in front, and nothing else.
char **profile_environment(const profile_request *request, const simulate_folder *folder,
                           const char *stand_ins);
// Likewise for a program that is watched while it runs. `variables` are "NAME=VALUE"; ends with NULL. `savers` may be NULL.
char **live_environment(const char *const *variables, const savers_args *savers,
                        const simulate_folder *folder, const char *stand_ins);
void simulate_environment_free(char **environment);

// ---- simulate_observed.c ----------------------------------------------------------------------------

// Reads what the processes left in the folder `out`.
plim_err simulate_read_processes(const char *out, simulate_result *result, plim_error *error);

#endif
