#include "profile.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nvml.h"
#include "simulate_impl.h"
#include "sort.h"

// ---- the program ------------------------------------------------------------------------------------

// The program's output goes to standard error, so that standard output has only the report. Ctrl-C ends the program only.
static plim_err start(const char *const *command, char **environment, pid_t *program,
                      plim_error *error) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGQUIT);
  if (posix_spawn_file_actions_init(&files) || posix_spawnattr_init(&attributes))
    return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  int why = posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  if (!why)
    why =
        posix_spawnp(program, command[0], &files, &attributes, (char *const *)command, environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return why ? plim_sandbox_not_started(command[0], why, error) : PLIM_OK;
}

static plim_err run(const char *const *command, char **environment, int *status,
                    plim_error *error) {
  struct sigaction ignored = {.sa_handler = SIG_IGN}, interrupt, quit;
  pid_t program = -1;
  sigaction(SIGINT, &ignored, &interrupt);
  sigaction(SIGQUIT, &ignored, &quit);
  plim_err err = start(command, environment, &program, error);
  while (!err && waitpid(program, status, 0) < 0)
    if (errno != EINTR)
      err = plim_fail(error, PLIM_ERR_IO, "cannot wait for the program: %s", strerror(errno));
  sigaction(SIGINT, &interrupt, NULL);
  sigaction(SIGQUIT, &quit, NULL);
  return err;
}

// ---- its end ----------------------------------------------------------------------------------------

static bool was_interrupted(int status) {
  return WIFSIGNALED(status) ? WTERMSIG(status) == SIGINT : WEXITSTATUS(status) == 128 + SIGINT;
}

static simulate_end end_of(const simulate_result *run) {
  if (WIFEXITED(run->status) && WEXITSTATUS(run->status) == 0) return SIMULATE_RAN;
  for (size_t i = 0; i < run->processes.len; i++)
    if (run->processes.at[i].ooms) return SIMULATE_OUT_OF_MEMORY;
  return was_interrupted(run->status) ? SIMULATE_RAN : SIMULATE_FAILED;
}

// ---- what PyTorch does not count --------------------------------------------------------------------

// CUDA's uuid of a card is NVML's without "GPU-". If uuids are not known and there is only one card, it is that one. A part of
// a card (MIG) has another uuid.
static uint64_t used_on(const plim_card *cards, size_t count, const char *uuid) {
  bool has_name = uuid && *uuid;
  for (size_t i = 0; has_name && i < count; i++)
    if (strstr(cards[i].uuid, uuid)) return cards[i].used_bytes;
  bool is_the_one = count == 1 && !(has_name && *cards[0].uuid);
  return is_the_one ? cards[0].used_bytes : PLIM_UNKNOWN;
}

static bool shares_card(const simulate_result *run, const simulate_process *p) {
  for (size_t i = 0; i < run->processes.len; i++) {
    const simulate_process *other = &run->processes.at[i];
    if (other == p || !other->uses_card || !other->measured.uuid || !p->measured.uuid) continue;
    if (strcmp(other->measured.uuid, p->measured.uuid) == 0) return true;
  }
  return false;
}

static uint64_t without(uint64_t bytes, uint64_t others) {
  if (bytes == PLIM_UNKNOWN || others == PLIM_UNKNOWN) return bytes;
  return bytes > others ? bytes - others : 0;
}

static void take_memory(simulate_result *run, const plim_card *before, const plim_card *after,
                        size_t count, profile_card *card) {
  const simulate_process *p = simulate_fullest(run);
  card->others_bytes = card->others_after_bytes = PLIM_UNKNOWN;
  card->outside_first_bytes = card->outside_peak_bytes = PLIM_UNKNOWN;
  if (!p) return;
  run->peak_bytes = p->peak_reserved_bytes;
  card->others_bytes = used_on(before, count, p->measured.uuid);
  card->others_after_bytes = used_on(after, count, p->measured.uuid);
  if (shares_card(run, p)) return;
  card->outside_first_bytes = without(p->measured.outside_first_bytes, card->others_bytes);
  card->outside_peak_bytes = without(p->measured.outside_peak_bytes, card->others_bytes);
  if (card->outside_peak_bytes != PLIM_UNKNOWN) run->peak_bytes += card->outside_peak_bytes;
}

// ---- all of it --------------------------------------------------------------------------------------

static plim_err no_gpu(plim_nvml_state state, plim_error *error) {
  bool is_silent = state == PLIM_NVML_SILENT;
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "profile needs an NVIDIA GPU, and %s",
                           is_silent ? "the driver of this machine does not answer"
                                     : "the driver reports none on this machine");
  plim_error_hint(error, "to run the program on a simulated GPU: plimsoll simulate --gpu 4090 -- "
                         "COMMAND");
  return err;
}

plim_err profile_find_gpu(plim_error *error) {
  plim_card cards[PLIM_MAX_CARDS];
  plim_nvml_state state;
  return plim_nvml_cards(cards, &state) ? PLIM_OK : no_gpu(state, error);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static plim_err run_in(const simulate_folder *folder, const char *modules,
                       const profile_request *request, simulate_result *result, plim_error *error) {
  char **environment = profile_environment(request, folder, modules);
  if (!environment) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  double start_seconds = now();
  plim_err err = run(request->command, environment, &result->status, error);
  result->seconds = now() - start_seconds;
  simulate_environment_free(environment);
  return err ? err : simulate_read_processes(folder->out, result, error);
}

plim_err profile_run(const profile_request *request, simulate_result *result, profile_card *card,
                     plim_error *error) {
  plim_card before[PLIM_MAX_CARDS], after[PLIM_MAX_CARDS];
  char modules[PLIM_PATH_BYTES];
  simulate_folder folder;
  plim_nvml_state state;
  plim_err err = PLIM_OK;
  *result = (simulate_result){0};
  *card = (profile_card){.gpus = (uint32_t)plim_nvml_cards(before, &state)};
  if (!card->gpus) return no_gpu(state, error);
  if (request->modules) snprintf(modules, sizeof modules, "%s", request->modules);
  else err = simulate_find_stand_ins(modules, error);
  if (!err) err = simulate_folder_make(&folder, "simulate", SIMULATE_KEPT_LOGS, NULL, error);
  if (err) return err;
  snprintf(result->folder, sizeof result->folder, "%s", folder.path);
  result->lock = folder.lock;
  err = run_in(&folder, modules, request, result, error);
  if (err) return err;
  result->end = end_of(result);
  card->is_interrupted = was_interrupted(result->status);
  take_memory(result, before, after, plim_nvml_cards(after, NULL) == card->gpus ? card->gpus : 0,
              card);
  return PLIM_OK;
}

// ---- times ------------------------------------------------------------------------------------------

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

// The first of the intervals is that of the second step.
profile_time profile_step_time(const simulate_process *process) {
  profile_time none = {NAN, NAN, NAN, 0};
  size_t skipped = PROFILE_WARM_UP - 1;
  if (!process || process->measured.step_seconds.len <= skipped) return none;
  size_t count = process->measured.step_seconds.len - skipped;
  double *sorted = malloc(count * sizeof *sorted);
  if (!sorted) return none;
  memcpy(sorted, process->measured.step_seconds.at + skipped, count * sizeof *sorted);
  plim_sort(sorted, count, sizeof *sorted, by_size);
  profile_time time = {(sorted[(count - 1) / 2] + sorted[count / 2]) / 2, sorted[0],
                       sorted[count - 1], count};
  free(sorted);
  return time;
}
