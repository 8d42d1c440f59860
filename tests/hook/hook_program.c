// hook_program WAY: uses the driver of the tests in one of the ways in which programs use CUDA's, as test_hook_preload.c asks.
// The exit status is 0, or the number of the line where something was not as it should be. It prints nothing.
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ull << 20)
#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition)) _exit(__LINE__ & 0x7f ? __LINE__ & 0x7f : 1);                                \
  } while (0)

typedef int allocate_type(uint64_t *, size_t);
typedef int free_type(uint64_t);
typedef int look_up_type(const char *, void **, int, uint64_t, int *);

#if defined(__x86_64__)
// What programs that were linked before glibc 2.34 ask for.
void *old_dlsym(void *, const char *);
__asm__(".symver old_dlsym,dlsym@GLIBC_2.2.5");
#else
#define old_dlsym dlsym
#endif

typedef struct {
  allocate_type *allocate;
  free_type *release;
} driver_functions;

static void *open_driver(int flags) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | flags);
  EXPECT(driver);
  int (*set)(void *) = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
  EXPECT(set && set((void *)1) == 0);
  return driver;
}

static driver_functions by_dlsym(void *driver) {
  return (driver_functions){(allocate_type *)dlsym(driver, "cuMemAlloc_v2"),
                            (free_type *)dlsym(driver, "cuMemFree_v2")};
}

// Holds 5 MiB, having held 8.
static void use(driver_functions f) {
  uint64_t a, b;
  EXPECT(f.allocate && f.release);
  EXPECT(f.allocate(&a, 5 * MIB) == 0 && f.allocate(&b, 3 * MIB) == 0);
  EXPECT(f.release(b) == 0);
}

static void way_dlsym(void) { use(by_dlsym(open_driver(0))); }

static void way_old_dlsym(void) {
  void *driver = open_driver(0);
  use((driver_functions){(allocate_type *)old_dlsym(driver, "cuMemAlloc_v2"),
                         (free_type *)old_dlsym(driver, "cuMemFree_v2")});
}

// As the CUDA runtime does, linked statically or not: only cuGetProcAddress is looked up.
static void way_runtime(void) {
  driver_functions f = {0};
  int status = 9;
  look_up_type *by_symbol = (look_up_type *)dlsym(open_driver(0), "cuGetProcAddress_v2"),
               *look_up = NULL;
  EXPECT(by_symbol("cuGetProcAddress", (void **)&look_up, 12000, 0, &status) == 0 && status == 0);
  EXPECT(look_up("cuMemAlloc", (void **)&f.allocate, 3020, 0, &status) == 0 && status == 0);
  EXPECT(look_up("cuMemFree", (void **)&f.release, 3020, 0, &status) == 0 && status == 0);
  use(f);
}

// A module that is linked with the driver, of a program that is not: Triton's launchers, bitsandbytes.
static void way_module(void) {
  void *module = dlopen(getenv("HOOK_MODULE"), RTLD_NOW | RTLD_LOCAL);
  int (*in_module)(void) = module ? (int (*)(void))dlsym(module, "use_driver") : NULL;
  EXPECT(in_module && in_module() == 0);
  void *(*next)(void) = (void *(*)(void))dlsym(module, "next_function");
  Dl_info about;
  EXPECT(next && dladdr(next(), &about) && strstr(about.dli_fname, "libcuda"));
}

// dlsym(RTLD_NEXT) means what comes after its caller, which is not the hook library.
static void way_next(void) {
  EXPECT(dlsym(RTLD_NEXT, "plimsoll_hook_phase"));
  EXPECT(old_dlsym(RTLD_NEXT, "plimsoll_hook_phase"));
  EXPECT(dlsym(RTLD_NEXT, "malloc") && !dlsym(RTLD_NEXT, "no_such_function"));
  EXPECT(dlerror());
}

// A program that looks whether there is a driver must not find the hook library's functions instead.
static void way_default(void) {
  EXPECT(!dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") && dlerror());
  EXPECT(!dlsym(dlopen(NULL, RTLD_NOW), "cuMemAlloc_v2") && dlerror());
  open_driver(RTLD_GLOBAL);
  use(by_dlsym(RTLD_DEFAULT));
}

static void way_close(void) {
  void *driver = open_driver(0);
  driver_functions f = by_dlsym(driver);
  EXPECT(f.allocate);
  dlclose(driver);
  driver = open_driver(0);
  use(f);
  dlclose(driver);
}

static void way_fork(void) {
  int status;
  driver_functions f = by_dlsym(open_driver(0));
  use(f);
  pid_t child = fork();
  if (child == 0) {
    use(f);
    _exit(0);
  }
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

static void way_exec(void) {
  way_dlsym();
  char *words[] = {"hook_program", "runtime", NULL};
  execv("/proc/self/exe", words);
}

// Not at all, as shells and tools that a run starts.
static void way_not(void) {}

static void way_off(void) {
  Dl_info about;
  void *driver = open_driver(0);
  EXPECT(dladdr(dlsym(driver, "cuMemAlloc_v2"), &about) && strstr(about.dli_fname, "libcuda"));
  use(by_dlsym(driver));
}

// For memory beyond the cap, and what others hold on the card.
static void way_full(void) {
  uint64_t a;
  driver_functions f = by_dlsym(open_driver(0));
  EXPECT(f.allocate(&a, 60 * MIB) == 0);
  EXPECT(f.allocate(&a, 60 * MIB) == 2);
}

static void *write_always(void *functions) {
  const driver_functions *f = functions;
  uint64_t a;
  open_driver(0);
  for (;;) EXPECT(f->allocate(&a, MIB) == 0 && f->release(a) == 0);
}

// Until it is killed. Says so by a byte once all threads write.
static void way_forever(void) {
  static driver_functions f;
  pthread_t threads[3];
  f = by_dlsym(open_driver(0));
  for (int i = 0; i < 3; i++) EXPECT(pthread_create(&threads[i], NULL, write_always, &f) == 0);
  write_always(&f);
}

static const struct {
  const char *name;
  void (*use)(void);
} ways[] = {
    {"dlsym", way_dlsym},     {"old-dlsym", way_old_dlsym},
    {"runtime", way_runtime}, {"module", way_module},
    {"next", way_next},       {"default", way_default},
    {"close", way_close},     {"fork", way_fork},
    {"exec", way_exec},       {"not", way_not},
    {"off", way_off},         {"full", way_full},
    {"forever", way_forever},
};

int main(int argc, char **argv) {
  EXPECT(argc == 2);
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
    if (strcmp(argv[1], ways[i].name) == 0) {
      ways[i].use();
      return 0;
    }
  return 1;
}
