// The environment in which a program finds the simulated card.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simulate_impl.h"

// CUDA 11.8, 12 and 13; libcuda and NVML are opened by name, so they are not preloaded.
const char *const simulate_library_names[] = {
    "libcudart.so.11.0",
    "libcudart.so.12",
    "libcudart.so.13",
    "libcublas.so.11",
    "libcublas.so.12",
    "libcublas.so.13",
    "libcublasLt.so.11",
    "libcublasLt.so.12",
    "libcublasLt.so.13",
    "libcudnn.so.8",
    "libcudnn.so.9",
    "libcufft.so.10",
    "libcufft.so.11",
    "libcufft.so.12",
    "libcufile.so.0",
    "libcupti.so.11.8",
    "libcupti.so.12",
    "libcupti.so.13",
    "libcurand.so.10",
    "libcusolver.so.11",
    "libcusolver.so.12",
    "libcusparse.so.11",
    "libcusparse.so.12",
    "libcusparseLt.so.0",
    "libnccl.so.2",
    "libnvToolsExt.so.1",
    "libnvrtc.so.11.2",
    "libnvrtc.so.12",
    "libnvrtc.so.13",
    "libnvshmem_host.so.3",
    NULL,
};

// Libraries are told to work offline, so that they do not wait for a network that is not there. Not with --online.
static const char *const offline[][2] = {
    {"HF_HUB_OFFLINE", "1"},     {"HF_DATASETS_OFFLINE", "1"},  {"TRANSFORMERS_OFFLINE", "1"},
    {"WANDB_MODE", "offline"},   {"MLFLOW_TRACKING_URI", ""},   {"COMET_OFFLINE", "1"},
    {"NEPTUNE_MODE", "offline"}, {"CLEARML_OFFLINE_MODE", "1"}, {"HF_HUB_DISABLE_TELEMETRY", "1"},
};

#define VISIBLE "CUDA_VISIBLE_DEVICES"

typedef struct {
  vec(char *) list;
  bool has_no_memory;
} environment;

static void remove_name(environment *e, const char *name, size_t n) {
  for (size_t i = 0; i < e->list.len; i++)
    if (strncmp(e->list.at[i], name, n) == 0 && e->list.at[i][n] == '=') {
      free(e->list.at[i]);
      e->list.at[i] = e->list.at[--e->list.len];
      return;
    }
}

static void put(environment *e, const char *name, const char *value) {
  char *entry = NULL;
  remove_name(e, name, strlen(name));
  if (asprintf(&entry, "%s=%s", name, value) < 0) {
    e->has_no_memory = true;
    return;
  }
  if (vec_push(&e->list, entry)) return;
  free(entry);
  e->has_no_memory = true;
}

// "NAME=VALUE"
static void put_entry(environment *e, const char *entry) {
  char *copy = strdup(entry);
  remove_name(e, entry, strcspn(entry, "="));
  if (copy && vec_push(&e->list, copy)) return;
  free(copy);
  e->has_no_memory = true;
}

// In front of what the variable has already.
static void put_before(environment *e, const char *name, const char *first, char separator) {
  const char *rest = getenv(name);
  char *value = NULL;
  if (!rest || !*rest) {
    put(e, name, first);
    return;
  }
  if (asprintf(&value, "%s%c%s", first, separator, rest) < 0) e->has_no_memory = true;
  else put(e, name, value);
  free(value);
}

// The stand-ins come first. The names of CUDA's libraries follow, so that the loader regards these as loaded and looks for no
// file. Names without a folder are looked up in LD_LIBRARY_PATH: a folder's name could contain a blank, which LD_PRELOAD would
// take as a separator.
static void put_preload(environment *e) {
  char list[2048] = "libplimsoll-card.so";
  for (const char *const *name = simulate_library_names; *name; name++) {
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, ":%s", *name);
  }
  put_before(e, "LD_PRELOAD", list, ':');
}

static void put_world(environment *e, const simulate_request *request) {
  char number[24];
  remove_name(e, "PLIMSOLL_WORLD", strlen("PLIMSOLL_WORLD")); // of a run around this one
  if (!request->world) return;
  snprintf(number, sizeof number, "%u", request->world);
  put(e, "PLIMSOLL_WORLD", number);
  snprintf(number, sizeof number, "%u", request->gpus);
  put(e, "PLIMSOLL_GPUS", number);
}

// Numbers that the simulated cards have, too.
static bool are_simulated(const char *list, uint32_t gpus) {
  for (char *end;; list = end + 1) {
    bool is_number = isdigit((unsigned char)*list);
    if (!is_number || strtoul(list, &end, 10) >= gpus) return false;
    if (*end != ',') return !*end;
  }
}

const char *simulate_other_cards(const simulate_request *request) {
  const char *list = getenv(VISIBLE);
  return list && !are_simulated(list, request->gpus) ? list : NULL;
}

static void put_python(environment *e, const char *stand_ins) {
  char path[PLIM_PATH_BYTES];
  if (plim_path_join(path, stand_ins, "python")) put_before(e, "PYTHONPATH", path, ':');
}

// This process's environment, and what the Python modules read: where to write, and after how many steps to end the program.
static environment begin(uint64_t steps, const savers_args *savers, const simulate_folder *folder,
                         const char *stand_ins) {
  environment e = {0};
  savers_variables variables = savers_variables_of(savers);
  char text[24];
  for (char **at = environ; *at; at++) {
    char *copy = strdup(*at);
    if (copy && vec_push(&e.list, copy)) continue;
    free(copy);
    e.has_no_memory = true;
  }
  snprintf(text, sizeof text, "%llu", (unsigned long long)steps);
  put(&e, "PLIMSOLL_OUT", folder->out);
  put(&e, "PLIMSOLL_STEPS", text);
  for (size_t i = 0; i < variables.count; i++) put_entry(&e, variables.entries[i]);
  put_python(&e, stand_ins);
  return e;
}

static char **end(environment *e) {
  if (vec_push(&e->list, NULL) && !e->has_no_memory) return e->list.at;
  for (size_t i = 0; i < e->list.len; i++) free(e->list.at[i]);
  vec_free(&e->list);
  return NULL;
}

char **simulate_environment(const simulate_request *request, const simulate_folder *folder,
                            const char *stand_ins) {
  environment e = begin(request->steps, request->savers, folder, stand_ins);
  put(&e, "PLIMSOLL_CARD", folder->record);
  put(&e, "PLIMSOLL_PROFILE", "");
  if (simulate_other_cards(request)) remove_name(&e, VISIBLE, strlen(VISIBLE));
  put_world(&e, request);
  put_preload(&e);
  put_before(&e, "LD_LIBRARY_PATH", folder->names, ':');
  for (const char *const *at = request->variables; at && *at; at++) put_entry(&e, *at);
  for (size_t i = 0; i < sizeof offline / sizeof *offline && !request->has_network; i++)
    put(&e, offline[i][0], offline[i][1]);
  return end(&e);
}

char **profile_environment(const profile_request *request, const simulate_folder *folder,
                           const char *stand_ins) {
  environment e = begin(request->steps, request->savers, folder, stand_ins);
  put(&e, "PLIMSOLL_PROFILE", "1");
  return end(&e);
}

char **live_environment(const char *const *variables, const savers_args *savers,
                        const simulate_folder *folder, const char *stand_ins) {
  environment e = begin(0, savers, folder, stand_ins);
  put(&e, "PLIMSOLL_PROFILE", "");
  put(&e, "PLIMSOLL_LIVE", folder->path);
  for (const char *const *at = variables; *at; at++) put_entry(&e, *at);
  return end(&e);
}

void simulate_environment_free(char **entries) {
  for (char **at = entries; at && *at; at++) free(*at);
  free(entries);
}
