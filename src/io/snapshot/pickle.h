// Reads pickles that contain only data: numbers, text, lists, tuples and dicts, in protocols 1 to 5.
// Opcodes that would build Python objects are refused, so nothing in a file is ever executed.
//
// It does not build a tree. The caller passes two functions that receive the items of each list and dict as soon as they
// are read, and that may turn the container into something smaller ("an interned frame", "trace entry 17"); any other
// container becomes a plain one. The memory needed is therefore 4 bytes per memoised object plus what the two functions
// store.
#ifndef PLIM_IO_PICKLE_H
#define PLIM_IO_PICKLE_H

#include "input.h"
#include "intern.h"
#include "vec.h"

// A Python value in 8 bytes: its kind in the top byte, 56 bits of payload below.
typedef uint64_t plim_value;

enum {
  PLIM_VALUE_INT,   // payload: the number, signed
  PLIM_VALUE_WIDE,  // index into `wide`: an int64_t
  PLIM_VALUE_UWIDE, // index into `wide`: a uint64_t with the top bit set
  PLIM_VALUE_FLOAT, // index into `wide`: the bits of a double
  PLIM_VALUE_NONE,
  PLIM_VALUE_BOOL,
  PLIM_VALUE_STRING,     // id in `strings`; bytes are strings too
  PLIM_VALUE_PAIR,       // a tuple of two small ints, 28 signed bits each
  PLIM_VALUE_TUPLE,      // index into `containers`
  PLIM_VALUE_LIST,       // the same
  PLIM_VALUE_DICT,       // the same; items are key, value, key, value ...
  PLIM_VALUE_EMPTY_LIST, // stays empty: it was used while it had no items
  PLIM_VALUE_EMPTY_DICT,
  PLIM_VALUE_FREE, // kinds from here up to 26 are for the caller's two functions

  // The last five of 32 kinds need special handling when they are fetched from the memo.
  PLIM_VALUE_NEW_LIST = 27, // no items so far; payload: its memo index + 1, 0 = none
  PLIM_VALUE_NEW_DICT,
  PLIM_VALUE_FAILED, // returned by a shape: it has filled the error
  PLIM_VALUE_UNSET,  // a memo index that was skipped
  PLIM_VALUE_FAR,    // in the memo: the value is in `far`
};

#define PLIM_VALUE_PAYLOAD_MASK ((UINT64_C(1) << 56) - 1)

static inline plim_value plim_value_make(unsigned kind, uint64_t payload) {
  return (uint64_t)kind << 56 | (payload & PLIM_VALUE_PAYLOAD_MASK);
}
static inline unsigned plim_value_kind(plim_value value) { return (unsigned)(value >> 56); }
static inline uint64_t plim_value_payload(plim_value value) {
  return value & PLIM_VALUE_PAYLOAD_MASK;
}
static inline int64_t plim_value_small(plim_value value) { return (int64_t)(value << 8) >> 8; }

typedef struct {
  uint64_t byte;               // of the opcode that made it
  uint32_t first, count, room; // range in `items`
} plim_container;

typedef struct plim_pickle plim_pickle;

// Called when `items` are added to a container; returns what the container becomes. `now` is NEW_LIST or NEW_DICT in the
// first call and the last returned value in later calls. Items of a dict are pairs. The items are on the pickle's stack
// and are invalid after the call. Returns PLIM_VALUE_FAILED after plim_pickle_fail.
typedef plim_value plim_shape(void *self, plim_value now, const plim_value *items, size_t count);

struct plim_pickle {
  plim_input *input;
  plim_error *error;
  plim_err failed;
  plim_shape *list, *dict;
  void *self;  // passed to them
  uint64_t op; // offset of the current opcode
  unsigned protocol;
  plim_strings strings;
  vec(uint64_t) wide;
  vec(plim_container) containers;
  vec(plim_value) items; // of all containers

  plim_value *stack; // this and the following members are private
  size_t stack_cap;
  vec(uint32_t) memo;  // kind in the top 5 bits, payload below; NEW_ ones have no payload
  vec(plim_value) far; // memoised values with a payload of more than 27 bits
  vec(size_t) marks;
  vec(uint8_t) long_text;
  uint64_t puts;
  struct plim_open {  // the list and the dict that got their first items last
    size_t at;        // its place on the stack
    plim_value value; // what it is now
    uint64_t memo;    // its memo index + 1, 0 = none
  } open_list, open_dict;
};

// Reads one pickle. `pickle` must be zero except for input, error, list, dict, self and the content of `strings`. *result
// is the object; containers and strings stay valid until plim_pickle_clear, which must be called after a failure too.
plim_err plim_pickle_read(plim_pickle *pickle, plim_value *result);
void plim_pickle_clear(plim_pickle *pickle);

// Frees what is needed only while reading: stack, memo and marks.
void plim_pickle_trim(plim_pickle *pickle);

// Reports a failure at the current opcode; returns PLIM_VALUE_FAILED.
plim_value plim_pickle_fail(plim_pickle *pickle, plim_err code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Adds items to a plain list or dict; a NEW_ container becomes a plain one first.
plim_value plim_pickle_extend(plim_pickle *pickle, plim_value now, const plim_value *items,
                              size_t count);

// The container of a list, tuple or dict, or NULL for anything else, empty ones included.
static inline const plim_container *plim_pickle_container(const plim_pickle *pickle,
                                                          plim_value value) {
  unsigned kind = plim_value_kind(value);
  if (kind < PLIM_VALUE_TUPLE || kind > PLIM_VALUE_DICT) return NULL;
  return &pickle->containers.at[plim_value_payload(value)];
}

// The items of a list, tuple or dict; *count is 0 for anything else.
const plim_value *plim_pickle_items(const plim_pickle *pickle, plim_value value, size_t *count);

// Looks up a string key in a plain dict; the last one counts if the key occurs twice. False if the key is missing.
bool plim_pickle_get(const plim_pickle *pickle, plim_value dict, uint32_t key, plim_value *value);

// The 64 bits of an integer, in two's complement if it is negative. False if the value is not an integer.
static inline bool plim_pickle_bits(const plim_pickle *pickle, plim_value value, uint64_t *bits) {
  unsigned kind = plim_value_kind(value);
  if (kind == PLIM_VALUE_INT) *bits = (uint64_t)plim_value_small(value);
  else if (kind == PLIM_VALUE_WIDE || kind == PLIM_VALUE_UWIDE)
    *bits = pickle->wide.at[plim_value_payload(value)];
  else return false;
  return true;
}

static inline bool plim_value_is_empty(plim_value value) {
  unsigned kind = plim_value_kind(value);
  return kind == PLIM_VALUE_NEW_LIST || kind == PLIM_VALUE_NEW_DICT ||
         kind == PLIM_VALUE_EMPTY_LIST || kind == PLIM_VALUE_EMPTY_DICT;
}

#endif
