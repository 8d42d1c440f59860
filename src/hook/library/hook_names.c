// How a program finds a function of the driver: as a symbol, by dlsym, by cuGetProcAddress.
#include "hook_names.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hook_functions.h"
#include "hook_state.h"

typedef enum { LEGACY, PER_THREAD } default_stream;

typedef struct {
  const char *symbol, *base;
  int since;
  default_stream stream;
  void *ours; // NULL: it is only called
} row;

static const row rows[] = {
#define X(symbol, base, since, stream, arguments) {#symbol, base, since, stream, (void *)symbol},
    HOOKED_FUNCTIONS(X)
#undef X
#define X(symbol, base, since, stream, arguments) {#symbol, base, since, stream, NULL},
        CALLED_FUNCTIONS(X)
#undef X
};

static void *reals[HOOK_FUNCTIONS];

// ---- the C library's dlsym ----------------------------------------------------------------------

typedef void *find_symbol(void *handle, const char *name);

// The versions under which glibc has had it, on x86-64 and on 64-bit ARM.
static find_symbol *real_dlsym(void) {
  static find_symbol *known;
  static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
  find_symbol *found = __atomic_load_n(&known, __ATOMIC_ACQUIRE);
  for (size_t i = 0; !found && i < sizeof versions / sizeof *versions; i++)
    found = (find_symbol *)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
  __atomic_store_n(&known, found, __ATOMIC_RELEASE);
  return found;
}

// ---- the driver's functions ---------------------------------------------------------------------

// A program may close the driver's library, and our pointers into it must stay.
static void *keep_loaded(const char *library) {
  return dlopen(library, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static void keep_real(size_t i, void *found) {
  Dl_info about;
  void *none = NULL;
  bool is_first = __atomic_compare_exchange_n(&reals[i], &none, found, false, __ATOMIC_ACQ_REL,
                                              __ATOMIC_ACQUIRE);
  if (is_first && dladdr(found, &about) && about.dli_fname) keep_loaded(about.dli_fname);
}

// Behind this library, or in a driver that was loaded for a part of the program only.
static void *find_in_driver(const char *symbol) {
  bool is_nvml = strncmp(symbol, "nvml", 4) == 0;
  find_symbol *find = real_dlsym();
  void *found = find ? find(RTLD_NEXT, symbol) : NULL;
  if (found || !find) return found;
  void *driver = keep_loaded(is_nvml ? "libnvidia-ml.so.1" : "libcuda.so.1");
  return driver ? find(driver, symbol) : NULL;
}

void *hook_real(hook_function function) {
  // The list of called functions continues that of the hooked ones.
  void *found = __atomic_load_n(&reals[function], __ATOMIC_ACQUIRE);
  if (found) return found;
  found = find_in_driver(rows[function].symbol);
  if (found && found != rows[function].ours) keep_real(function, found);
  return __atomic_load_n(&reals[function], __ATOMIC_ACQUIRE);
}

// ---- dlsym --------------------------------------------------------------------------------------

static int row_of_symbol(const char *name) {
  if (!name || (strncmp(name, "cu", 2) != 0 && strncmp(name, "nvml", 4) != 0)) return -1;
  for (int i = 0; i < HOOK_HOOKED; i++)
    if (strcmp(rows[i].symbol, name) == 0) return i;
  return -1;
}

// A handle that reaches this library finds our function, also where there is no driver.
static void *behind(int i, void *found) {
  if (found != rows[i].ours) return found;
  found = hook_real(i);
  return found ? found : real_dlsym()(RTLD_NEXT, rows[i].symbol); // so that dlerror() says why
}

hook_found hook_find(void *handle, const char *name) {
  find_symbol *find = real_dlsym();
  int i = hook_is_on() && handle != RTLD_NEXT ? row_of_symbol(name) : -1;
  if (i < 0 || !find) return (hook_found){(void *)find, NULL};
  void *found = behind(i, find(handle, name));
  if (!found) return (hook_found){NULL, NULL}; // dlerror() says why
  keep_real((size_t)i, found);
  return (hook_found){NULL, rows[i].ours};
}

// dlsym(RTLD_NEXT, ...) depends on who calls it, so the C library's function must see the program's own call: we jump to it
// with the arguments as they came. A name without a version stands for every version that programs ask for.
#if defined(HOOK_WITHOUT_DLSYM)
#elif defined(__x86_64__)
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        "  endbr64\n"
        "  push %rdi\n"
        "  push %rsi\n"
        "  sub $8, %rsp\n"
        "  call hook_find\n"
        "  add $8, %rsp\n"
        "  pop %rsi\n"
        "  pop %rdi\n"
        "  test %rax, %rax\n"
        "  jz 1f\n"
        "  jmp *%rax\n"
        "1: mov %rdx, %rax\n"
        "  ret\n"
        ".size dlsym, .-dlsym\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, %function\n"
        "dlsym:\n"
        "  stp x29, x30, [sp, #-32]!\n"
        "  mov x29, sp\n"
        "  stp x0, x1, [sp, #16]\n"
        "  bl hook_find\n"
        "  mov x16, x0\n"
        "  mov x17, x1\n"
        "  ldp x0, x1, [sp, #16]\n"
        "  ldp x29, x30, [sp], #32\n"
        "  cbz x16, 1f\n"
        "  br x16\n"
        "1: mov x0, x17\n"
        "  ret\n"
        ".size dlsym, .-dlsym\n");
#endif

// ---- cuGetProcAddress ---------------------------------------------------------------------------

// The function that a version of CUDA calls by this name; -1: none of ours.
static int row_of_base(const char *base, int version, uint64_t flags) {
  int found = -1;
  for (int i = 0; i < HOOK_HOOKED; i++) {
    if (!*rows[i].base || strcmp(rows[i].base, base) != 0 || rows[i].since > version) continue;
    if (rows[i].stream == PER_THREAD && !(flags & CU_FIND_PER_THREAD)) continue;
    if (found < 0 || rows[i].since >= rows[found].since)
      found = i; // variants follow their function
  }
  return found;
}

// cuMemAlloc_v2 -> cuMemAlloc_v3, cuMemCreate -> cuMemCreate_v2
static bool has_newer(const row *r) {
  char newer[128];
  const char *suffix = strstr(r->symbol, "_v");
  snprintf(newer, sizeof newer, "%s_v%d", r->base, suffix ? atoi(suffix + 2) + 1 : 2);
  bool is_ours = row_of_symbol(newer) >= 0;
  return !is_ours && find_in_driver(newer);
}

// Puts our function in place of the driver's. A version of CUDA that is newer than this list may mean a function with other
// arguments by the same name; the program then gets the driver's.
static void put_ours(const char *base, void **out, int version, uint64_t flags) {
  if (!hook_is_on() || !base || !out || !*out) return;
  int i = row_of_base(base, version, flags);
  if (i < 0 || *out == rows[i].ours) return;
  if (version > CU_KNOWN_VERSION && has_newer(&rows[i])) return;
  keep_real((size_t)i, *out);
  *out = rows[i].ours;
}

int cuGetProcAddress(const char *name, void **out, int version, uint64_t flags) {
  FIND_REAL(cuGetProcAddress);
  int result = real(name, out, version, flags);
  if (result == CU_OK) put_ours(name, out, version, flags);
  return result;
}

int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags, int *status) {
  FIND_REAL(cuGetProcAddress_v2);
  int result = real(name, out, version, flags, status); // the driver fills the status
  if (result == CU_OK) put_ours(name, out, version, flags);
  return result;
}
