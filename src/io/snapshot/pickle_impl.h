// Shared by the parts of the pickle reader: pickle.c (the opcode loop), pickle_stack.h (operations on values),
// pickle_values.c (creating values), pickle_failing.c (error messages). Only these files include it.
#ifndef PLIM_IO_PICKLE_IMPL_H
#define PLIM_IO_PICKLE_IMPL_H

#include "pickle.h"

// clang-format off
enum { // the supported opcodes
  MARK = '(', STOP = '.', POP = '0', POP_MARK = '1', DUP = '2', BINFLOAT = 'G', BININT = 'J',
  BININT1 = 'K', BININT2 = 'M', NONE = 'N', BINSTRING = 'T', SHORT_BINSTRING = 'U',
  BINUNICODE = 'X', BINBYTES = 'B', SHORT_BINBYTES = 'C', APPEND = 'a', APPENDS = 'e', DICT = 'd',
  LIST = 'l', EMPTY_DICT = '}', EMPTY_LIST = ']', EMPTY_TUPLE = ')', TUPLE = 't', BINGET = 'h',
  LONG_BINGET = 'j', BINPUT = 'q', LONG_BINPUT = 'r', SETITEM = 's', SETITEMS = 'u', PROTO = 0x80,
  TUPLE1 = 0x85, TUPLE2 = 0x86, TUPLE3 = 0x87, NEWTRUE = 0x88, NEWFALSE = 0x89, LONG1 = 0x8a,
  LONG4 = 0x8b, SHORT_BINUNICODE = 0x8c, BINUNICODE8 = 0x8d, BINBYTES8 = 0x8e, MEMOIZE = 0x94,
  FRAME = 0x95,
};
// clang-format on

// pickle_failing.c: all return false.
bool fail_memory(plim_pickle *pickle);
bool fail_truncated(plim_pickle *pickle, const char *where);
bool fail_opcode(plim_pickle *pickle, uint8_t op); // for an unsupported opcode
bool fail_underflow(plim_pickle *pickle, uint8_t op);
bool fail_shared(plim_pickle *pickle);

// pickle_values.c: PLIM_VALUE_FAILED when out of memory.
plim_value add_wide(plim_pickle *pickle, unsigned kind, uint64_t bits);
plim_value add_real(plim_pickle *pickle, const uint8_t *bytes); // big-endian, unlike the rest
// Reads a string that may be longer than the buffer; input->at is after the length.
plim_value add_long_text(plim_pickle *pickle, uint64_t length);
// A new container with room for `room` items; PLIM_NO_ID when out of memory.
uint32_t add_container(plim_pickle *pickle, size_t room);

static inline plim_value add_text(plim_pickle *pickle, const uint8_t *bytes, size_t length) {
  uint32_t id = plim_strings_add(&pickle->strings, bytes, length);
  if (id != PLIM_NO_ID) return plim_value_make(PLIM_VALUE_STRING, id);
  fail_memory(pickle);
  return plim_value_make(PLIM_VALUE_FAILED, 0);
}

#endif
