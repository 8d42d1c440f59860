// cuSOLVER: decompositions and inverses of matrices, which always succeed. How large their workspaces are is not documented,
// so the answer is 0, and simulate says that these workspaces are missing.
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "card.h"

// The argument that is `distance` behind the last one that was read. Those in between are integers and pointers, each of
// which takes a register or a slot of the stack.
static void *argument(va_list *arguments, int distance) {
  for (int i = 1; i < distance; i++) va_arg(*arguments, void *);
  return va_arg(*arguments, void *);
}

// Writes 0 to the number on the card, or to the list of them, that tells whether an algorithm has converged.
static void succeed(va_list *arguments, int info, int batch) {
  void *status = argument(arguments, info);
  size_t count = batch ? (uint32_t)(uintptr_t)argument(arguments, batch) : 1;
  if (status) card_fill(status, 0, count * sizeof(int));
  card_converged();
}

#define FUNCTION(name, ...)                                                                        \
  STAND_IN int name(void *handle, ...) {                                                           \
    va_list arguments;                                                                             \
    (void)handle;                                                                                  \
    va_start(arguments, handle);                                                                   \
    __VA_ARGS__                                                                                    \
    va_end(arguments);                                                                             \
    return CARD_OK;                                                                                \
  }

// Argument `info` is the status (the handle is argument 0). With a batch, the number of matrices is `batch` behind it.
#define SUCCEEDS(name, info, batch) FUNCTION(name, succeed(&arguments, info, batch);)
// Argument `position` is the size in elements.
#define ELEMENTS(name, position)                                                                   \
  FUNCTION(name, *(int *)argument(&arguments, position) = 0; card_unmodelled_call(#name);)
// Argument `position` is the size in bytes on the card, and the next one that on the host.
#define BYTES(name, position)                                                                      \
  FUNCTION(name, *(size_t *)argument(&arguments, position) = 0; *va_arg(arguments, size_t *) = 0;  \
           card_unmodelled_call(#name);)

// A function for float, double and their complex types, which have another name for some.
#define STEP(real, complex, info, batch)                                                           \
  SUCCEEDS(cusolverDnS##real, info, batch)                                                         \
  SUCCEEDS(cusolverDnD##real, info, batch)                                                         \
  SUCCEEDS(cusolverDnC##complex, info, batch)                                                      \
  SUCCEEDS(cusolverDnZ##complex, info, batch)
#define STEP_IN_WORKSPACE(real, complex, size, info, batch)                                        \
  STEP(real, complex, info, batch)                                                                 \
  ELEMENTS(cusolverDnS##real##_bufferSize, size)                                                   \
  ELEMENTS(cusolverDnD##real##_bufferSize, size)                                                   \
  ELEMENTS(cusolverDnC##complex##_bufferSize, size)                                                \
  ELEMENTS(cusolverDnZ##complex##_bufferSize, size)
#define STEP_OF_ANY_TYPE(name, size, info, batch)                                                  \
  SUCCEEDS(cusolverDnX##name, info, batch)                                                         \
  BYTES(cusolverDnX##name##_bufferSize, size)

// Positions are those of cuSOLVER's reference (cusolverDn.h).
STEP(getrs, getrs, 9, 0)
STEP(potrfBatched, potrfBatched, 5, 1)
STEP(potrs, potrs, 8, 0)
STEP(potrsBatched, potrsBatched, 8, 0)
STEP_IN_WORKSPACE(geqrf, geqrf, 5, 8, 0)
STEP_IN_WORKSPACE(gesvd, gesvd, 3, 15, 0)
STEP_IN_WORKSPACE(gesvdaStridedBatched, gesvdaStridedBatched, 16, 18, 2)
STEP_IN_WORKSPACE(gesvdj, gesvdj, 12, 14, 0)
STEP_IN_WORKSPACE(gesvdjBatched, gesvdjBatched, 11, 13, 2)
STEP_IN_WORKSPACE(getrf, getrf, 5, 7, 0)
STEP_IN_WORKSPACE(orgqr, ungqr, 7, 9, 0)
STEP_IN_WORKSPACE(ormqr, unmqr, 11, 13, 0)
STEP_IN_WORKSPACE(potrf, potrf, 5, 7, 0)
STEP_IN_WORKSPACE(syevd, heevd, 7, 9, 0)
STEP_IN_WORKSPACE(syevj, heevj, 7, 9, 0)
STEP_IN_WORKSPACE(syevjBatched, heevjBatched, 7, 9, 2)
STEP_IN_WORKSPACE(sytrf, sytrf, 4, 8, 0)
STEP_OF_ANY_TYPE(geev, 17, 21, 0)
STEP_OF_ANY_TYPE(geqrf, 10, 14, 0)
STEP_OF_ANY_TYPE(potrf, 8, 12, 0)
STEP_OF_ANY_TYPE(syevBatched, 11, 15, 1)
STEP_OF_ANY_TYPE(syevd, 11, 15, 0)
STEP_OF_ANY_TYPE(sytrs, 11, 15, 0)
SUCCEEDS(cusolverDnXpotrs, 11, 0)
