// Linked with the driver (-lcuda), as a program and as a module: holds 5 MiB, having held 8.
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(uint64_t *, size_t);
int cuMemFree_v2(uint64_t);
__attribute__((visibility("default"))) int use_driver(void);
__attribute__((visibility("default"))) void *next_function(void);

int use_driver(void) {
  uint64_t a, b;
  const size_t mib = 1 << 20;
  if (cuCtxSetCurrent((void *)1)) return 1;
  if (cuMemAlloc_v2(&a, 5 * mib) || cuMemAlloc_v2(&b, 3 * mib)) return 2;
  return cuMemFree_v2(b);
}

// What another library that stands in front of the driver asks for. dlsym looks where its call returns to: here.
void *next_function(void) {
  void *volatile found = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
  return found;
}

#ifndef HOOK_MODULE
int main(void) { return use_driver(); }
#endif
