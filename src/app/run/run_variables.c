// Environment variables that help any training.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "machine.h"
#include "run.h"

static plim_err add(run_variables *out, const char *name, const char *value, const char *why,
                    plim_error *error) {
  char *setting = NULL;
  if (asprintf(&setting, "%s=%s", name, value) < 0)
    return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  if (vec_push(out, (run_variable){setting, why})) return PLIM_OK;
  free(setting);
  return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

static bool is_set(const char *name) {
  const char *value = getenv(name);
  return value && *value;
}

// PyTorch 2.9 reads one of the two names and ignores the other; which one depends on the version.
static plim_err add_allocator(run_variables *out, plim_error *error) {
  static const char *const names[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
  plim_machine machine;
  plim_machine_read("", &machine);
  bool has[] = {is_set(names[0]), is_set(names[1])};
  if (has[0] && has[1]) return PLIM_OK;
  if (has[0] || has[1])
    return add(out, names[has[0]], getenv(names[has[1]]),
               "PyTorch versions differ in which of the two names they read", error);
  if (machine.is_wsl) return PLIM_OK; // expandable segments fail there (PyTorch issue 192330)
  plim_err err = PLIM_OK;
  for (size_t i = 0; !err && i < 2; i++)
    err = add(out, names[i], "expandable_segments:True", "less memory is lost to fragmentation",
              error);
  return err;
}

// Without a limit, each process starts a thread for every core.
static plim_err add_threads(const run_options *options, run_variables *out, plim_error *error) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  char text[24];
  if (options->cards < 2 || cores < 1 || is_set("OMP_NUM_THREADS")) return PLIM_OK;
  long each = cores / (long)options->cards;
  snprintf(text, sizeof text, "%ld", each > 1 ? each : 1);
  return add(out, "OMP_NUM_THREADS", text, "the processes share the cores", error);
}

plim_err run_helpful(const run_options *options, run_variables *out, plim_error *error) {
  *out = (run_variables){0};
  plim_err err = add_allocator(out, error);
  if (!err && !is_set("TOKENIZERS_PARALLELISM"))
    err = add(out, "TOKENIZERS_PARALLELISM", "false",
              "data loader workers are forked, and tokenizers would warn or hang", error);
  return err ? err : add_threads(options, out, error);
}

// python, python3, python3.11
static bool is_python(const char *word) {
  const char *slash = strrchr(word, '/'), *name = slash ? slash + 1 : word;
  return strncmp(name, "python", 6) == 0 && name[6 + strspn(name + 6, "0123456789.")] == 0;
}

const char *run_isolated_python(const char *const *command) {
  if (!command[0] || !is_python(command[0])) return NULL;
  for (const char *const *at = command + 1; *at && at[0][0] == '-'; at++) {
    size_t before =
        strcspn(*at + 1, "IESWXcm"); // the last four have an argument, which ends the letters
    char letter = at[0][1 + before];
    if (at[0][1] == '-' || letter == 'c' || letter == 'm') return NULL;
    if (letter == 'I' || letter == 'E' || letter == 'S') return *at;
    bool is_apart = letter && !at[0][2 + before]; // -W error
    if (is_apart && !*++at) return NULL;
  }
  return NULL;
}

void run_variables_clear(run_variables *v) {
  for (size_t i = 0; i < v->len; i++) free(v->at[i].setting);
  vec_free(v);
}
