#include "fault_memory.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>

// Without a sanitizer, these functions replace those of libc for every library (glibc's manual, "Replacing malloc"). A
// sanitizer has its own, so the linker's --wrap puts these before them, for the program's own code only.
#ifdef TEST_SANITIZED
#define HERE(name) __wrap_##name
#define BELOW(name) __real_##name
#else
#define HERE(name) name
#define BELOW(name) __libc_##name
#endif

void *BELOW(malloc)(size_t bytes);
void *BELOW(calloc)(size_t count, size_t bytes);
void *BELOW(realloc)(void *old, size_t bytes);
void *HERE(malloc)(size_t bytes);
void *HERE(calloc)(size_t count, size_t bytes);
void *HERE(realloc)(void *old, size_t bytes);

static atomic_size_t count, fails_at = FAULT_NEVER;
static atomic_bool stays_down;

void fault_memory_set(size_t at, bool stays) {
  fails_at = at;
  stays_down = stays;
  count = 0;
}

size_t fault_memory_count(void) { return count; }

static bool fails(void) {
  size_t n = count++, at = fails_at;
  if (n != at && !(stays_down && n > at)) return false;
  errno = ENOMEM;
  return true;
}

void *HERE(malloc)(size_t bytes) { return fails() ? NULL : BELOW(malloc)(bytes); }

void *HERE(calloc)(size_t n, size_t bytes) { return fails() ? NULL : BELOW(calloc)(n, bytes); }

void *HERE(realloc)(void *old, size_t bytes) { return fails() ? NULL : BELOW(realloc)(old, bytes); }
