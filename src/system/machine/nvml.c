#include "nvml.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

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

// Every call returns 0 on success. Functions that the library does not have are NULL.
typedef struct {
  void *library;
  int (*init)(void);
  int (*shutdown)(void);
  int (*count)(unsigned *);
  int (*by_index)(unsigned, nvml_device *);
  int (*name)(nvml_device, char *, unsigned);
  int (*uuid)(nvml_device, char *, unsigned);
  int (*memory)(nvml_device, nvml_memory *);
  int (*memory_v2)(nvml_device, nvml_memory_v2 *);
  list_processes *computing, *drawing; // version 1 has a shorter struct and is not used
} nvml;

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

// Whether the library exists and was initialised; call `end` in any case.
static bool begin(nvml *n, bool *has_begun) {
  bool is_loaded = load(n);
  return *has_begun = is_loaded && n->init() == 0;
}

static void end(nvml *n, bool has_begun) {
  if (has_begun) n->shutdown();
  if (n->library) dlclose(n->library);
}

size_t plim_nvml_cards(plim_card cards[PLIM_MAX_CARDS]) {
  nvml n;
  unsigned count = 0;
  size_t found = 0;
  bool has_begun;
  if (begin(&n, &has_begun) && n.count(&count) == 0)
    for (unsigned i = 0; i < count && found < PLIM_MAX_CARDS; i++)
      found += read_card(&n, i, &cards[found]);
  end(&n, has_begun);
  return found;
}

// ---- processes --------------------------------------------------------------------------------------

static bool is_listed(const plim_card_process *out, size_t count, unsigned pid) {
  for (size_t i = 0; i < count; i++)
    if (out[i].pid == pid) return true;
  return false;
}

static size_t add_processes(list_processes *list, nvml_device device, plim_card_process *out,
                            size_t count) {
  nvml_process found[PLIM_MAX_PROCESSES];
  unsigned size = PLIM_MAX_PROCESSES;
  if (!list || list(device, &size, found) != 0) return count;
  for (unsigned i = 0; i < size && i < PLIM_MAX_PROCESSES && count < PLIM_MAX_PROCESSES; i++)
    if (!is_listed(out, count, found[i].pid))
      out[count++] = (plim_card_process){found[i].pid, found[i].used};
  return count;
}

size_t plim_nvml_processes(const plim_card *card, plim_card_process out[PLIM_MAX_PROCESSES]) {
  nvml n;
  nvml_device device;
  size_t count = 0;
  bool has_begun;
  if (begin(&n, &has_begun) && n.by_index(card->index, &device) == 0) {
    count = add_processes(n.computing, device, out, count);
    count = add_processes(n.drawing, device, out, count);
  }
  end(&n, has_begun);
  return count;
}
