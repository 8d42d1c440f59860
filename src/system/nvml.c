#include "nvml.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

// ---- the part of nvml.h that is used ----------------------------------------------------------------

typedef struct nvml_device *nvml_device;

typedef struct {
  unsigned long long total, free, used; // used: with what the driver keeps for itself
} nvml_memory;

typedef struct {
  unsigned version; // size and version, which the driver checks
  unsigned long long total, reserved, free, used;
} nvml_memory_v2;

#define NVML_MEMORY_V2 ((unsigned)sizeof(nvml_memory_v2) | 2u << 24)

// Every call returns 0 when it went well. Those the library does not have are NULL.
typedef struct {
  void *library;
  int (*init)(void);
  int (*shutdown)(void);
  int (*count)(unsigned *);
  int (*by_index)(unsigned, nvml_device *);
  int (*name)(nvml_device, char *, unsigned);
  int (*memory)(nvml_device, nvml_memory *);
  int (*memory_v2)(nvml_device, nvml_memory_v2 *);
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
  BIND(n, memory, "nvmlDeviceGetMemoryInfo", NULL);
  BIND(n, memory_v2, "nvmlDeviceGetMemoryInfo_v2", NULL);
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
  *card = (plim_card){
      .total_bytes = PLIM_UNKNOWN, .free_bytes = PLIM_UNKNOWN, .used_bytes = PLIM_UNKNOWN};
  if (n->by_index(index, &device) != 0) return false;
  if (n->name(device, card->name, sizeof card->name) != 0) card->name[0] = '\0';
  card->name[sizeof card->name - 1] = '\0';
  read_memory(n, device, card);
  return true;
}

size_t plim_nvml_cards(plim_card cards[PLIM_MAX_CARDS]) {
  nvml n;
  unsigned count = 0;
  size_t found = 0;
  bool is_loaded = load(&n), has_begun = is_loaded && n.init() == 0;
  if (has_begun && n.count(&count) == 0)
    for (unsigned i = 0; i < count && found < PLIM_MAX_CARDS; i++)
      found += read_card(&n, i, &cards[found]);
  if (has_begun) n.shutdown();
  if (n.library) dlclose(n.library);
  return found;
}
