// cuSOLVER's functions that tell how large a workspace they need. The sizes are not documented, so the answer is 0, and
// simulate says that these workspaces are missing.
#include <stdarg.h>
#include <stddef.h>

#include "card.h"

// The arguments in front of the answer are integers and pointers, each of which takes a register or a slot of the stack.
static void *answer_at(va_list *arguments, int position) {
  for (int i = 1; i < position; i++) va_arg(*arguments, void *);
  return va_arg(*arguments, void *);
}

// The size in elements is argument `position` (the handle is argument 0).
#define ELEMENTS(name, position)                                                                   \
  STAND_IN int name(void *handle, ...) {                                                           \
    va_list arguments;                                                                             \
    (void)handle;                                                                                  \
    va_start(arguments, handle);                                                                   \
    *(int *)answer_at(&arguments, position) = 0;                                                   \
    va_end(arguments);                                                                             \
    card_unmodelled_call(#name);                                                                   \
    return CARD_OK;                                                                                \
  }

// The size in bytes on the card is argument `position`, followed by the size on the host.
#define BYTES(name, position)                                                                      \
  STAND_IN int name(void *handle, ...) {                                                           \
    va_list arguments;                                                                             \
    (void)handle;                                                                                  \
    va_start(arguments, handle);                                                                   \
    *(size_t *)answer_at(&arguments, position) = 0;                                                \
    *va_arg(arguments, size_t *) = 0;                                                              \
    va_end(arguments);                                                                             \
    card_unmodelled_call(#name);                                                                   \
    return CARD_OK;                                                                                \
  }

// The same function for float, double and their complex types, which have other names for some.
#define OF_ALL_TYPES(name, position)                                                               \
  ELEMENTS(cusolverDnS##name##_bufferSize, position)                                               \
  ELEMENTS(cusolverDnD##name##_bufferSize, position)                                               \
  ELEMENTS(cusolverDnC##name##_bufferSize, position)                                               \
  ELEMENTS(cusolverDnZ##name##_bufferSize, position)
#define OF_REAL_AND_COMPLEX(real, complex, position)                                               \
  ELEMENTS(cusolverDnS##real##_bufferSize, position)                                               \
  ELEMENTS(cusolverDnD##real##_bufferSize, position)                                               \
  ELEMENTS(cusolverDnC##complex##_bufferSize, position)                                            \
  ELEMENTS(cusolverDnZ##complex##_bufferSize, position)

// Positions are those of cuSOLVER's reference (cusolverDn.h).
OF_ALL_TYPES(geqrf, 5)
OF_ALL_TYPES(gesvd, 3)
OF_ALL_TYPES(gesvdaStridedBatched, 16)
OF_ALL_TYPES(gesvdj, 12)
OF_ALL_TYPES(gesvdjBatched, 11)
OF_ALL_TYPES(getrf, 5)
OF_ALL_TYPES(potrf, 5)
OF_ALL_TYPES(sytrf, 4)
OF_REAL_AND_COMPLEX(syevd, heevd, 7)
OF_REAL_AND_COMPLEX(syevj, heevj, 7)
OF_REAL_AND_COMPLEX(syevjBatched, heevjBatched, 7)
OF_REAL_AND_COMPLEX(orgqr, ungqr, 7)
OF_REAL_AND_COMPLEX(ormqr, unmqr, 11)
BYTES(cusolverDnXgeev_bufferSize, 17)
BYTES(cusolverDnXgeqrf_bufferSize, 10)
BYTES(cusolverDnXpotrf_bufferSize, 8)
BYTES(cusolverDnXsyevBatched_bufferSize, 11)
BYTES(cusolverDnXsyevd_bufferSize, 11)
BYTES(cusolverDnXsytrs_bufferSize, 11)
