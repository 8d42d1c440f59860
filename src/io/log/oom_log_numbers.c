// Takes the numbers of a message apart. A message is searched in lower case and without blanks, because lines may be
// wrapped anywhere, even within a number.
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oom_log_impl.h"

// More than any machine has: such numbers are the result of an overflow.
#define MOST_BYTES (1024.0 * 1024 * (double)PLIM_GIB)

// ---- sizes ------------------------------------------------------------------------------------------

// Programs that print MB or GB mean MiB and GiB (DeepSpeed, PaddlePaddle, the kernel's kB). The longest comes first.
static const struct {
  const char *name;
  double bytes;
} units[] = {
    {"bytes", 1},        {"byte", 1},
    {"kib", 1024},       {"mib", 1048576},
    {"gib", 1073741824}, {"tib", 1099511627776},
    {"kb", 1024},        {"mb", 1048576},
    {"gb", 1073741824},  {"tb", 1099511627776},
    {"k", 1024},         {"m", 1048576},
    {"g", 1073741824},   {"b", 1},
};

static double unit_bytes(const char *text, size_t *length) {
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    *length = strlen(units[i].name);
    if (strncasecmp(text, units[i].name, *length) == 0) return units[i].bytes;
  }
  *length = 0;
  return 0;
}

// Reads 12.34, 1,234,567 and 1900,00; a comma is a decimal one unless three digits follow it.
static double read_number(const char *text, size_t *length) {
  double value = 0, scale = 0;
  size_t i = 0;
  for (; isdigit((unsigned char)text[i]) || text[i] == '.' || text[i] == ','; i++) {
    if (text[i] == '.' || text[i] == ',') {
      size_t digits = strspn(text + i + 1, "0123456789");
      bool is_group = text[i] == ',' && digits == 3;
      if (!digits || (scale != 0 && !is_group)) break;
      if (!is_group) scale = 1;
      continue;
    }
    value = value * 10 + (text[i] - '0');
    scale *= 10;
  }
  *length = i;
  return scale != 0 ? value / scale : value;
}

size_t log_read_size(const char *text, uint64_t *bytes) {
  size_t number, unit;
  if (!isdigit((unsigned char)*text)) return 0;
  double value = read_number(text, &number);
  const char *rest = text + number + strspn(text + number, ". "); // NumPy has "926. GiB"
  double factor = unit_bytes(rest, &unit);
  if (!unit) return 0;
  value *= factor;
  *bytes = value < MOST_BYTES ? (uint64_t)llround(value) : PLIM_UNKNOWN;
  return (size_t)(rest - text) + unit;
}

// ---- fields -----------------------------------------------------------------------------------------

// A number stands between two texts, either of which may be empty.
static const struct {
  plim_oom_field field;
  const char *before, *after;
} places[] = {
    // PyTorch's caching allocator since 2.1, and before.
    {PLIM_OOM_WANTED, "triedtoallocate", ""},
    {PLIM_OOM_TOTAL, "totalcapacityof", ""},
    {PLIM_OOM_TOTAL, "totalcapactyof", ""},
    {PLIM_OOM_TOTAL, "", "totalcapacity"},
    {PLIM_OOM_FREE, "ofwhich", "isfree"},
    {PLIM_OOM_FREE, "", "free;"},
    {PLIM_OOM_PROCESS, "thisprocesshas", "memoryinuse"},
    {PLIM_OOM_ALLOCATED, "oftheallocatedmemory", "isallocatedbypytorch"},
    {PLIM_OOM_ALLOCATED, "", "alreadyallocated"},
    {PLIM_OOM_STRANDED, "and", "isreservedbypytorchbutunallocated"},
    {PLIM_OOM_STRANDED, "", "cached)"},
    {PLIM_OOM_RESERVED, "", "reservedintotal"},
    {PLIM_OOM_ALLOWED, "", "allowed;"},
    {PLIM_OOM_POOLS, "with", "allocatedinprivatepools"},
    // cudaMallocAsync
    {PLIM_OOM_ALLOCATED, "currentlyallocated:", ""},
    {PLIM_OOM_WANTED, "requested:", ""},
    {PLIM_OOM_TOTAL, "devicelimit:", ""},
    {PLIM_OOM_FREE, "free(accordingtocuda):", ""},
    {PLIM_OOM_ALLOWED, "pytorchlimit(setbyuser-suppliedmemoryfraction):", ""},
    // MPS
    {PLIM_OOM_ALLOCATED, "mpsallocated:", ""},
    {PLIM_OOM_OUTSIDE, "otherallocations:", ""},
    {PLIM_OOM_ALLOWED, "maxallowed:", ""},
    // NCCL, host, Linux
    {PLIM_OOM_WANTED, "failedtocudacallocasync", ""},
    {PLIM_OOM_WANTED, "failedtocudacalloc", ""},
    {PLIM_OOM_WANTED, "failedtocudamalloc", ""},
    {PLIM_OOM_WANTED, "failedtocudahostalloc", ""},
    {PLIM_OOM_WANTED, "memoryallocationof", "failed"},
    {PLIM_OOM_WANTED, "unabletoallocate", "foranarray"},
    {PLIM_OOM_RESIDENT, "anon-rss:", ""},
    // XLA and TPU
    {PLIM_OOM_WANTED, "whiletryingtoallocate", ""},
    {PLIM_OOM_WANTED, "failedtoallocaterequestfor", ""},
    {PLIM_OOM_WANTED, "failedtoallocate", ""},
    {PLIM_OOM_WANTED, "hbm.used", "of"},
    {PLIM_OOM_TOTAL, "of", "hbm.exceeded"},
    {PLIM_OOM_PARAMETERS, "parameterallocation:", ""},
    {PLIM_OOM_OUTPUTS, "maybe_live_outallocation:", ""},
    {PLIM_OOM_TEMPORARY, "preallocatedtempallocation:", ""},
    {PLIM_OOM_PROGRAM, "totalallocation:", ""},
    // TensorFlow, ROCm, ggml, CuPy, PaddlePaddle
    {PLIM_OOM_WANTED, "ranoutofmemorytryingtoallocate", ""},
    {PLIM_OOM_FREE, "availablefreemem:", ""},
    {PLIM_OOM_WANTED, "allocating", "ondevice"},
    {PLIM_OOM_WANTED, "bufferofsize", ""},
    {PLIM_OOM_WANTED, "outofmemoryallocating", ""},
    {PLIM_OOM_ALLOCATED, "allocatedsofar:", ""},
    {PLIM_OOM_WANTED, "cannotallocate", "memoryongpu"},
    {PLIM_OOM_ALLOCATED, "", "memoryhasbeenallocated"},
    {PLIM_OOM_FREE, "availablememoryisonly", ""},
};

// The start of the size that ends at `end`, or NULL. A comma or a full stop before it may belong to the sentence, as in
// "on GPU 0, 23.5GB memory has been allocated".
static const char *size_before(const char *text, const char *end) {
  const char *at = end;
  while (at > text && isalpha((unsigned char)at[-1])) at--;
  while (at > text && (isdigit((unsigned char)at[-1]) || at[-1] == '.' || at[-1] == ',')) at--;
  uint64_t bytes;
  while (at < end && log_read_size(at, &bytes) != (size_t)(end - at)) {
    while (at < end && *at != '.' && *at != ',') at++;
    at++;
  }
  return at < end ? at : NULL;
}

static bool find_between(const char *text, const char *before, const char *after, uint64_t *bytes) {
  size_t skip = strlen(before);
  for (const char *at = text; (at = strstr(at, skip ? before : after)); at++) {
    const char *size = skip ? at + skip : size_before(text, at);
    size_t length = size ? log_read_size(size, bytes) : 0;
    if (length && strncmp(size + length, after, strlen(after)) == 0) return true;
  }
  return false;
}

static void take_sizes(plim_oom_message *m, const char *text) {
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    plim_oom_field field = places[i].field;
    uint64_t bytes;
    if (m->bytes[field] != PLIM_UNKNOWN || m->is_impossible[field]) continue;
    if (!find_between(text, places[i].before, places[i].after, &bytes)) continue;
    m->bytes[field] = bytes;
    m->is_impossible[field] = bytes == PLIM_UNKNOWN;
  }
}

// "Process 3894014 has 5.37 GiB memory in use."
static void take_processes(plim_oom_message *m, const char *text) {
  for (const char *at = text; (at = strstr(at, "process")); at++) {
    uint64_t pid, bytes;
    const char *digits = at + 7;
    size_t count = strspn(digits, "0123456789");
    if (!log_count((log_text){digits, count}, &pid)) continue;
    if (strncmp(digits + count, "has", 3) != 0) continue;
    size_t length = log_read_size(digits + count + 3, &bytes);
    if (!length || strncmp(digits + count + 3 + length, "memoryinuse", 11) != 0) continue;
    if (m->process_count == PLIM_OOM_MAX_PROCESSES) return;
    m->processes[m->process_count++] = (plim_oom_process){pid, bytes};
  }
}

// The number after the first of some words: "GPU 0 has a total", "(GPU 0;", "on device 1:", "device:GPU:0".
static void take_index(plim_oom_message *m, const char *text) {
  static const char *const words[] = {"gpu", "(npu", "device:gpu:", "ondevice", "(cuda:", "xpu"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    for (const char *at = text; (at = strstr(at, words[i])); at++) {
      const char *digits = at + strlen(words[i]);
      size_t count = strspn(digits, "0123456789");
      if (count && count < 4 && digits[count] && strchr("h;:bw)", digits[count])) {
        log_count((log_text){digits, count}, &m->index);
        return;
      }
    }
}

// The bytes of TensorFlow's "shape[128,3,8] and type float".
static void take_shape(plim_oom_message *m, const char *text) {
  static const struct {
    const char *name;
    double bytes;
  } types[] = {{"float", 4}, {"half", 2},  {"bfloat16", 2}, {"double", 8}, {"int64", 8},
               {"int32", 4}, {"uint8", 1}, {"int8", 1},     {"bool", 1}};
  const char *at = strstr(text, "oomwhenallocatingtensor");
  at = at ? strstr(at, "shape[") : NULL;
  const char *type = at ? strstr(at, "]andtype") : NULL;
  if (!type || m->bytes[PLIM_OOM_WANTED] != PLIM_UNKNOWN) return;
  double bytes = 0;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strncmp(type + 8, types[i].name, strlen(types[i].name)) == 0) bytes = types[i].bytes;
  for (at = strchr(at, '[') + 1; at < type; at++) {
    size_t digits = strspn(at, "0123456789");
    if (!digits) return;
    bytes *= strtod(at, NULL);
    at += digits;
  }
  if (bytes > 0 && bytes < MOST_BYTES) m->bytes[PLIM_OOM_WANTED] = (uint64_t)bytes;
}

// ---- the device -------------------------------------------------------------------------------------

static bool ends_with(const char *text, size_t size, const char *word) {
  size_t length = strlen(word);
  return size >= length && memcmp(text + size - length, word, length) == 0;
}

// The word before "out of memory" names the device.
static plim_oom_device device_of(const char *text, size_t phrase_at) {
  const char *found = strstr(text + phrase_at, "outofmemory");
  size_t before = found ? (size_t)(found - text) : phrase_at;
  if (ends_with(text, before, "cuda")) return PLIM_OOM_CUDA;
  if (ends_with(text, before, "hip")) return PLIM_OOM_HIP;
  if (ends_with(text, before, "xpu")) return PLIM_OOM_XPU;
  return found && before && isalpha((unsigned char)text[before - 1]) ? PLIM_OOM_ACCELERATOR
                                                                     : PLIM_OOM_CUDA;
}

static plim_oom_device find_device(const plim_oom_message *m, const char *text, size_t phrase_at) {
  switch (m->kind) {
  case PLIM_OOM_ALLOCATOR: return device_of(text, phrase_at);
  case PLIM_OOM_MPS: return PLIM_OOM_METAL;
  case PLIM_OOM_XLA_COMPILE: return strstr(text, "hbm") ? PLIM_OOM_TPU : PLIM_OOM_UNKNOWN_DEVICE;
  case PLIM_OOM_HOST_REQUEST:
  case PLIM_OOM_HOST_KILLER:
  case PLIM_OOM_SIGKILL:
  case PLIM_OOM_SHARED_MEMORY:
  case PLIM_OOM_WORKER_KILLED:
  case PLIM_OOM_PAGING_FILE: return PLIM_OOM_HOST;
  case PLIM_OOM_TENSORFLOW:
    return strstr(text, "device:cpu") || strstr(text, "allocatorcpu") ||
                   strstr(text, "allocatormklcpu")
               ? PLIM_OOM_HOST
               : PLIM_OOM_CUDA;
  case PLIM_OOM_DRIVER:
    if (strstr(text, "hsa_status") || strstr(text, "hiperror")) return PLIM_OOM_HIP;
    return strstr(text, "ur_result") ? PLIM_OOM_XPU : PLIM_OOM_CUDA;
  case PLIM_OOM_ASYNC:
  case PLIM_OOM_BLAS:
  case PLIM_OOM_BLAS_MAYBE:
  case PLIM_OOM_NCCL:
  case PLIM_OOM_GGML:
  case PLIM_OOM_VLLM:
  case PLIM_OOM_VLLM_CACHE: return PLIM_OOM_CUDA;
  default: return PLIM_OOM_UNKNOWN_DEVICE;
  }
}

// ---- all --------------------------------------------------------------------------------------------

// The end of this message: where the next one of its kind begins.
static size_t message_end(const char *text, size_t phrase_at) {
  const char *first = strstr(text + phrase_at, "triedtoallocate");
  const char *second = first ? strstr(first + 1, "triedtoallocate") : NULL;
  return second ? (size_t)(second - text) : strlen(text);
}

void log_take_apart(plim_oom_message *m, const char *text, size_t phrase_at) {
  char bare[LOG_MESSAGE_BYTES];
  size_t length = 0, at = 0;
  for (size_t i = 0; text[i] && length + 1 < sizeof bare; i++) {
    if (i == phrase_at) at = length;
    if (text[i] != ' ') bare[length++] = (char)tolower((unsigned char)text[i]);
  }
  bare[length] = 0;
  bare[message_end(bare, at)] = 0;
  if (m->kind == PLIM_OOM_DRIVER && strstr(bare, "cumem_allocator")) m->kind = PLIM_OOM_VLLM;
  take_sizes(m, bare);
  if (m->bytes[PLIM_OOM_WANTED] == PLIM_UNKNOWN && strstr(bare, "allocatemorethan1ebmemory"))
    m->is_impossible[PLIM_OOM_WANTED] = true;
  take_shape(m, bare);
  take_processes(m, bare);
  m->device = find_device(m, bare, at);
  if (m->device != PLIM_OOM_HOST) take_index(m, bare);
}
