#include "nvml.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "apart.h"

// ---- the part of nvml.h that is used ----------------------------------------------------------------

typedef struct nvml_device *nvml_device;

typedef struct {
  unsigned long long total, free, used; // used includes the driver's reserve
} nvml_memory;

typedef struct {
  unsigned version; // size and version, which the driver checks
  unsigned long long total, reserved, free, used;
} nvml_memory_v2;

#define NVML_MEMORY_V2 ((unsigned)sizeof(nvml_memory_v2) | 2u << 24)

typedef struct {
  unsigned pid;
  unsigned long long used; // all ones: not known, which is PLIM_UNKNOWN
  unsigned gpu_instance, compute_instance;
} nvml_process;

// count: in, the room in the array; out, the number of processes.
typedef int list_processes(nvml_device, unsigned *count, nvml_process *);

typedef struct {
  unsigned gpu,
      memory; // percent of the time in which a kernel ran, in which memory was read or written
} nvml_utilization;

// Every call returns 0 on success. Functions that the library does not have are NULL.
struct plim_nvml {
  void *library;
  int (*init)(void);
  int (*shutdown)(void);
  int (*count)(unsigned *);
  int (*by_index)(unsigned, nvml_device *);
  int (*name)(nvml_device, char *, unsigned);
  int (*uuid)(nvml_device, char *, unsigned);
  int (*memory)(nvml_device, nvml_memory *);
  int (*memory_v2)(nvml_device, nvml_memory_v2 *);
  int (*utilization)(nvml_device, nvml_utilization *);
  int (*temperature)(nvml_device, int sensor, unsigned *celsius);
  int (*power)(nvml_device, unsigned *milliwatts);
  int (*power_limit)(nvml_device, unsigned *milliwatts);
  list_processes *computing, *drawing; // version 1 has a shorter struct and is not used
};

typedef plim_nvml nvml;

enum { NVML_TEMPERATURE_GPU = 0 };

// ---- loading ----------------------------------------------------------------------------------------

// The newest version of a function that the library has.
static void *symbol(void *library, const char *newest, const char *older) {
  void *found = dlsym(library, newest);
  return found || !older ? found : dlsym(library, older);
}

// POSIX wants dlsym's result stored like this, not cast.
#define BIND(n, field, newest, older) *(void **)&(n)->field = symbol((n)->library, newest, older)

static bool load(nvml *n) {
  const char *path = getenv("PLIMSOLL_NVML");
  *n = (nvml){.library = dlopen(path && *path ? path : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
  if (!n->library) return false;
  BIND(n, init, "nvmlInit_v2", "nvmlInit");
  BIND(n, shutdown, "nvmlShutdown", NULL);
  BIND(n, count, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount");
  BIND(n, by_index, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex");
  BIND(n, name, "nvmlDeviceGetName", NULL);
  BIND(n, uuid, "nvmlDeviceGetUUID", NULL);
  BIND(n, memory, "nvmlDeviceGetMemoryInfo", NULL);
  BIND(n, memory_v2, "nvmlDeviceGetMemoryInfo_v2", NULL);
  BIND(n, utilization, "nvmlDeviceGetUtilizationRates", NULL);
  BIND(n, temperature, "nvmlDeviceGetTemperature", NULL);
  BIND(n, power, "nvmlDeviceGetPowerUsage", NULL);
  BIND(n, power_limit, "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit");
  BIND(n, computing, "nvmlDeviceGetComputeRunningProcesses_v3",
       "nvmlDeviceGetComputeRunningProcesses_v2");
  BIND(n, drawing, "nvmlDeviceGetGraphicsRunningProcesses_v3",
       "nvmlDeviceGetGraphicsRunningProcesses_v2");
  return n->init && n->shutdown && n->count && n->by_index && n->name && n->memory;
}

// ---- asking -----------------------------------------------------------------------------------------

static void read_memory(const nvml *n, nvml_device device, plim_card *card) {
  nvml_memory_v2 newer = {.version = NVML_MEMORY_V2};
  nvml_memory older = {0};
  if (n->memory_v2 && n->memory_v2(device, &newer) == 0) {
    card->total_bytes = newer.total;
    card->free_bytes = newer.free;
    card->used_bytes = newer.used;
  } else if (n->memory(device, &older) == 0) {
    card->total_bytes = older.total;
    card->free_bytes = older.free;
    card->used_bytes = older.used;
  }
}

static bool read_card(const nvml *n, unsigned index, plim_card *card) {
  nvml_device device;
  *card = (plim_card){.index = index,
                      .total_bytes = PLIM_UNKNOWN,
                      .free_bytes = PLIM_UNKNOWN,
                      .used_bytes = PLIM_UNKNOWN};
  if (n->by_index(index, &device) != 0) return false;
  if (n->name(device, card->name, sizeof card->name) != 0) card->name[0] = '\0';
  card->name[sizeof card->name - 1] = '\0';
  if (!n->uuid || n->uuid(device, card->uuid, sizeof card->uuid) != 0) card->uuid[0] = '\0';
  card->uuid[sizeof card->uuid - 1] = '\0';
  read_memory(n, device, card);
  return true;
}

// ---- cards ------------------------------------------------------------------------------------------

plim_nvml *plim_nvml_open(plim_nvml_state *state) {
  nvml *n = malloc(sizeof *n);
  *state = PLIM_NVML_FAILED;
  if (!n) return NULL;
  *state = PLIM_NVML_ABSENT;
  bool is_loaded = load(n);
  if (is_loaded) *state = n->init() == 0 ? PLIM_NVML_OPEN : PLIM_NVML_FAILED;
  if (*state == PLIM_NVML_OPEN) return n;
  if (n->library) dlclose(n->library);
  free(n);
  return NULL;
}

void plim_nvml_close(plim_nvml *n) {
  if (!n) return;
  n->shutdown();
  dlclose(n->library);
  free(n);
}

bool plim_nvml_list(plim_nvml *n, plim_card cards[PLIM_MAX_CARDS], size_t *found) {
  unsigned count = 0;
  *found = 0;
  if (n->count(&count) != 0) return false;
  for (unsigned i = 0; i < count && *found < PLIM_MAX_CARDS; i++)
    *found += read_card(n, i, &cards[*found]);
  return true;
}

// ---- asking once ------------------------------------------------------------------------------------

static double patience_seconds(void) {
  const char *text = getenv("PLIMSOLL_NVML_SECONDS");
  double seconds = text ? strtod(text, NULL) : 0;
  return seconds > 0 ? seconds : 30;
}

// Asks in a process of its own. Where no driver is installed, none is started.
static plim_nvml_state ask(void (*question)(void *context, void *answer), nvml *n, void *answer,
                           size_t size) {
  plim_apart_end end = PLIM_APART_FAILED;
  bool is_loaded = load(n);
  if (is_loaded) end = plim_apart(question, n, answer, size, patience_seconds());
  if (n->library) dlclose(n->library);
  if (!is_loaded) return PLIM_NVML_ABSENT;
  if (end == PLIM_APART_SILENT) return PLIM_NVML_SILENT;
  return end == PLIM_APART_ANSWERED ? PLIM_NVML_OPEN : PLIM_NVML_FAILED;
}

typedef struct {
  bool is_known;
  size_t count;
  plim_card cards[PLIM_MAX_CARDS];
} cards_answer;

static void ask_for_cards(void *context, void *answer) {
  nvml *n = context;
  cards_answer *out = answer;
  out->is_known = n->init() == 0 && plim_nvml_list(n, out->cards, &out->count);
}

size_t plim_nvml_cards(plim_card cards[PLIM_MAX_CARDS], plim_nvml_state *state) {
  cards_answer answer = {0};
  nvml n;
  plim_nvml_state how = ask(ask_for_cards, &n, &answer, sizeof answer);
  if (how == PLIM_NVML_OPEN && !answer.is_known) how = PLIM_NVML_FAILED;
  memcpy(cards, answer.cards, sizeof answer.cards);
  if (state) *state = how;
  return answer.count;
}

// ---- what a card does -------------------------------------------------------------------------------

plim_card_activity plim_nvml_activity(plim_nvml *n, const plim_card *card) {
  plim_card_activity a = {PLIM_UNKNOWN, PLIM_UNKNOWN, PLIM_UNKNOWN, PLIM_UNKNOWN};
  nvml_device device;
  nvml_utilization use;
  unsigned value;
  if (n->by_index(card->index, &device) != 0) return a;
  if (n->utilization && n->utilization(device, &use) == 0 && use.gpu <= 100)
    a.busy_percent = use.gpu;
  if (n->temperature && n->temperature(device, NVML_TEMPERATURE_GPU, &value) == 0)
    a.temperature_celsius = value;
  if (n->power && n->power(device, &value) == 0) a.power_milliwatts = value;
  if (n->power_limit && n->power_limit(device, &value) == 0) a.power_limit_milliwatts = value;
  return a;
}

// ---- processes --------------------------------------------------------------------------------------

static bool is_listed(const plim_card_process *out, size_t count, unsigned pid) {
  for (size_t i = 0; i < count; i++)
    if (out[i].pid == pid) return true;
  return false;
}

// False if the driver does not list them.
static bool add_processes(list_processes *list, nvml_device device, bool computes,
                          plim_card_process *out, size_t *count) {
  nvml_process found[PLIM_MAX_PROCESSES];
  unsigned size = PLIM_MAX_PROCESSES;
  if (!list || list(device, &size, found) != 0) return false;
  for (unsigned i = 0; i < size && i < PLIM_MAX_PROCESSES && *count < PLIM_MAX_PROCESSES; i++)
    if (!is_listed(out, *count, found[i].pid))
      out[(*count)++] = (plim_card_process){found[i].pid, found[i].used, computes};
  return true;
}

bool plim_nvml_users(plim_nvml *n, const plim_card *card, plim_card_process out[PLIM_MAX_PROCESSES],
                     size_t *count) {
  nvml_device device;
  *count = 0;
  if (n->by_index(card->index, &device) != 0) return false;
  bool computes = add_processes(n->computing, device, true, out, count);
  bool draws = add_processes(n->drawing, device, false, out, count);
  return computes || draws;
}

typedef struct {
  plim_card card;
  size_t count;
  plim_card_process processes[PLIM_MAX_PROCESSES];
} users_answer;

static void ask_for_users(void *context, void *answer) {
  nvml *n = context;
  users_answer *out = answer;
  if (n->init() == 0) plim_nvml_users(n, &out->card, out->processes, &out->count);
}

size_t plim_nvml_processes(const plim_card *card, plim_card_process out[PLIM_MAX_PROCESSES],
                           plim_nvml_state *state) {
  users_answer answer = {.card = *card};
  nvml n;
  plim_nvml_state how = ask(ask_for_users, &n, &answer, sizeof answer);
  memcpy(out, answer.processes, sizeof answer.processes);
  if (state) *state = how;
  return answer.count;
}
