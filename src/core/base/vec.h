// A growable array in three words. `vec(T)` declares one; it starts as {0} and is freed with vec_free.
//
//   vec(uint32_t) ids = {0};
//   if (!vec_push(&ids, 7)) return PLIM_ERR_NOMEM;
#ifndef PLIM_CORE_VEC_H
#define PLIM_CORE_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define vec(T)                                                                                     \
  struct {                                                                                         \
    T *at;                                                                                         \
    size_t len, cap;                                                                               \
  }

// Makes room for `more` further elements. False when out of memory; the contents stay valid.
#define vec_reserve(v, more)                                                                       \
  ((v)->len + (more) <= (v)->cap ||                                                                \
   plim_vec_grow((void **)&(v)->at, &(v)->cap, (v)->len + (more), sizeof *(v)->at))

// Appends one element. False when out of memory.
#define vec_push(v, ...) (vec_reserve(v, 1) && ((v)->at[(v)->len++] = (__VA_ARGS__), true))

#define vec_free(v) (free((v)->at), (v)->at = NULL, (v)->len = (v)->cap = 0)

// Copies `from` into `to`, which must be empty. False when out of memory; `to` is then empty.
#define vec_copy(to, from)                                                                         \
  (vec_reserve(to, (from)->len) &&                                                                 \
   (((from)->len ? memcpy((to)->at, (from)->at, (from)->len * sizeof *(to)->at) : (to)->at),       \
    (to)->len = (from)->len, true))

bool plim_vec_grow(void **at, size_t *cap, size_t need, size_t element_bytes);

#endif
