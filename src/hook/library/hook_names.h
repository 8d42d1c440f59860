// Between dlsym, which is written in assembler, and the list of functions.
#ifndef PLIM_HOOK_NAMES_H
#define PLIM_HOOK_NAMES_H

// The answer to dlsym(handle, name): `ask` is a function to ask instead, with the same arguments; if it is NULL, `answer` is
// what the program gets.
typedef struct {
  void *ask, *answer;
} hook_found;

hook_found hook_find(void *handle, const char *name);

#endif
