// The error messages of the pickle reader.
#include <stdarg.h>
#include <stdio.h>

#include "pickle_impl.h"

typedef enum {
  KNOWN,  // data
  BUILDS, // creates or calls Python objects
  TEXTUAL // decimal lines of protocol 0
} family;

static const struct {
  const char *name;
  family family;
} opcodes[256] = {
    [MARK] = {"MARK", KNOWN},
    [STOP] = {"STOP", KNOWN},
    [POP] = {"POP", KNOWN},
    [POP_MARK] = {"POP_MARK", KNOWN},
    [DUP] = {"DUP", KNOWN},
    [BINFLOAT] = {"BINFLOAT", KNOWN},
    [BININT] = {"BININT", KNOWN},
    [BININT1] = {"BININT1", KNOWN},
    [BININT2] = {"BININT2", KNOWN},
    [NONE] = {"NONE", KNOWN},
    [BINSTRING] = {"BINSTRING", KNOWN},
    [SHORT_BINSTRING] = {"SHORT_BINSTRING", KNOWN},
    [BINUNICODE] = {"BINUNICODE", KNOWN},
    [BINBYTES] = {"BINBYTES", KNOWN},
    [SHORT_BINBYTES] = {"SHORT_BINBYTES", KNOWN},
    [APPEND] = {"APPEND", KNOWN},
    [APPENDS] = {"APPENDS", KNOWN},
    [DICT] = {"DICT", KNOWN},
    [LIST] = {"LIST", KNOWN},
    [EMPTY_DICT] = {"EMPTY_DICT", KNOWN},
    [EMPTY_LIST] = {"EMPTY_LIST", KNOWN},
    [EMPTY_TUPLE] = {"EMPTY_TUPLE", KNOWN},
    [TUPLE] = {"TUPLE", KNOWN},
    [BINGET] = {"BINGET", KNOWN},
    [LONG_BINGET] = {"LONG_BINGET", KNOWN},
    [BINPUT] = {"BINPUT", KNOWN},
    [LONG_BINPUT] = {"LONG_BINPUT", KNOWN},
    [SETITEM] = {"SETITEM", KNOWN},
    [SETITEMS] = {"SETITEMS", KNOWN},
    [PROTO] = {"PROTO", KNOWN},
    [TUPLE1] = {"TUPLE1", KNOWN},
    [TUPLE2] = {"TUPLE2", KNOWN},
    [TUPLE3] = {"TUPLE3", KNOWN},
    [NEWTRUE] = {"NEWTRUE", KNOWN},
    [NEWFALSE] = {"NEWFALSE", KNOWN},
    [LONG1] = {"LONG1", KNOWN},
    [LONG4] = {"LONG4", KNOWN},
    [SHORT_BINUNICODE] = {"SHORT_BINUNICODE", KNOWN},
    [BINUNICODE8] = {"BINUNICODE8", KNOWN},
    [BINBYTES8] = {"BINBYTES8", KNOWN},
    [MEMOIZE] = {"MEMOIZE", KNOWN},
    [FRAME] = {"FRAME", KNOWN},
    ['F'] = {"FLOAT", TEXTUAL},
    ['I'] = {"INT", TEXTUAL},
    ['L'] = {"LONG", TEXTUAL},
    ['S'] = {"STRING", TEXTUAL},
    ['V'] = {"UNICODE", TEXTUAL},
    ['g'] = {"GET", TEXTUAL},
    ['p'] = {"PUT", TEXTUAL},
    ['P'] = {"PERSID", BUILDS},
    ['Q'] = {"BINPERSID", BUILDS},
    ['R'] = {"REDUCE", BUILDS},
    ['b'] = {"BUILD", BUILDS},
    ['c'] = {"GLOBAL", BUILDS},
    ['i'] = {"INST", BUILDS},
    ['o'] = {"OBJ", BUILDS},
    [0x81] = {"NEWOBJ", BUILDS},
    [0x82] = {"EXT1", BUILDS},
    [0x83] = {"EXT2", BUILDS},
    [0x84] = {"EXT4", BUILDS},
    [0x8f] = {"EMPTY_SET", BUILDS},
    [0x90] = {"ADDITEMS", BUILDS},
    [0x91] = {"FROZENSET", BUILDS},
    [0x92] = {"NEWOBJ_EX", BUILDS},
    [0x93] = {"STACK_GLOBAL", BUILDS},
    [0x96] = {"BYTEARRAY8", BUILDS},
    [0x97] = {"NEXT_BUFFER", BUILDS},
    [0x98] = {"READONLY_BUFFER", BUILDS},
};

plim_value plim_pickle_fail(plim_pickle *pickle, plim_err code, const char *format, ...) {
  char message[sizeof pickle->error->message];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  pickle->failed = plim_fail(pickle->error, code, "%s", message);
  plim_error_at(pickle->error, pickle->op);
  return plim_value_make(PLIM_VALUE_FAILED, 0);
}

bool fail_memory(plim_pickle *pickle) {
  plim_pickle_fail(pickle, PLIM_ERR_NOMEM, "out of memory");
  return false;
}

bool fail_truncated(plim_pickle *pickle, const char *where) {
  plim_pickle_fail(pickle, PLIM_ERR_PARSE, "the pickle is truncated: it ends %s", where);
  plim_error_hint(pickle->error,
                  "copy the file again, or wait until the program has finished writing it");
  return false;
}

bool fail_opcode(plim_pickle *pickle, uint8_t op) {
  unsigned long long at = pickle->op;
  const char *name = opcodes[op].name;
  if (!name) {
    plim_pickle_fail(pickle, PLIM_ERR_PARSE, "byte %llu (0x%02x) is not a pickle opcode", at, op);
  } else if (opcodes[op].family == BUILDS) {
    plim_pickle_fail(pickle, PLIM_ERR_UNSUPPORTED,
                     "this pickle would build Python objects (%s at byte %llu), which a snapshot "
                     "never does; it is refused",
                     name, at);
  } else {
    plim_pickle_fail(pickle, PLIM_ERR_UNSUPPORTED,
                     "pickle protocol 0 (%s at byte %llu) is not supported", name, at);
    plim_error_hint(pickle->error,
                    "load it in Python and save it again: pickle.dump(snapshot, file, protocol=4)");
  }
  return false;
}

bool fail_underflow(plim_pickle *pickle, uint8_t op) {
  plim_pickle_fail(pickle, PLIM_ERR_PARSE,
                   "damaged pickle: %s does not find what it needs on the stack", opcodes[op].name);
  return false;
}

bool fail_shared(plim_pickle *pickle) {
  plim_pickle_fail(pickle, PLIM_ERR_UNSUPPORTED,
                   "a list or dict is used before its items are added; a snapshot never does that");
  return false;
}
