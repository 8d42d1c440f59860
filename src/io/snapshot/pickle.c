// Executes the opcodes of a pickle on a stack.
#include "pickle_stack.h"

enum {
  NEWEST_PROTOCOL = 5,
  SHORT_TEXT = 256,            // longer strings are copied piece by piece
  LOOKAHEAD = SHORT_TEXT + 16, // the most that one opcode reads, with 8 bytes for hashing
};
_Static_assert((int)LOOKAHEAD < PLIM_INPUT_SLACK, "an opcode must fit into the slack");

// The position in the input and on the stack; the items above the newest mark begin at `floor`. Its address is passed
// only to inlined functions, so that the compiler keeps it in registers.
typedef struct {
  plim_pickle *pickle;
  const uint8_t *at, *safe; // from `safe` on, the input must be checked before an opcode is read
  plim_value *top, *floor, *limit;
  uint64_t bias; // offset of a byte in the stream = bias + its address
  uint8_t op;
  bool is_done;
} machine;

// One step of the machine; false if it fails.
#define OPCODE static inline __attribute__((always_inline)) bool

static inline uint32_t le32(const uint8_t *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

// ---- input and stack ------------------------------------------------------------------------

// Picklers write items in batches of 1000; only a damaged file has millions of items waiting for their list.
enum { MOST_WAITING = 1 << 22 };

static bool grow_stack(plim_pickle *pickle) {
  if (pickle->stack_cap >= MOST_WAITING) {
    plim_pickle_fail(pickle, PLIM_ERR_UNSUPPORTED,
                     "damaged pickle: more than %d items belong to no list yet", MOST_WAITING);
    return false;
  }
  if (plim_vec_grow((void **)&pickle->stack, &pickle->stack_cap, pickle->stack_cap + 1,
                    sizeof *pickle->stack))
    return true;
  return fail_memory(pickle);
}

// Buffers LOOKAHEAD bytes, or all that are left; true if there is at least one.
static bool more_input(plim_pickle *pickle) {
  plim_input *input = pickle->input;
  while (!input->at_end && input->end - input->at < LOOKAHEAD)
    if ((pickle->failed = plim_input_fill(input, pickle->error))) return false;
  if (input->at < input->end) return true;
  pickle->op = plim_input_offset(input);
  return fail_truncated(pickle, "without a STOP");
}

static inline bool ran_past_end(const machine *m) {
  return m->pickle->input->at_end && m->at > m->pickle->input->end;
}

// An opcode that is cut off by the end of the file reads zeros from the slack; this is detected before the next opcode.
OPCODE look_at_input(machine *m) {
  plim_input *input = m->pickle->input;
  if (ran_past_end(m)) return false;
  input->at = m->at;
  if (!more_input(m->pickle)) return false;
  m->at = input->at;
  m->safe = input->at_end ? m->at + 1 : input->end - LOOKAHEAD + 1;
  m->bias = input->base - (uint64_t)(uintptr_t)input->buffer;
  return true;
}

OPCODE make_room(machine *m) {
  plim_pickle *pickle = m->pickle;
  size_t height = (size_t)(m->top - pickle->stack), mark = (size_t)(m->floor - pickle->stack);
  if (!grow_stack(pickle)) return false;
  m->top = pickle->stack + height;
  m->floor = pickle->stack + mark;
  m->limit = pickle->stack + pickle->stack_cap;
  return true;
}

OPCODE push(machine *m, plim_value value) {
  if (plim_value_kind(value) == PLIM_VALUE_FAILED) return false;
  if (m->top == m->limit && !make_room(m)) return false;
  *m->top++ = value;
  return true;
}

OPCODE has(const machine *m, int count) {
  return m->top - m->floor >= count || fail_underflow(m->pickle, m->op);
}

// The items above the newest mark; the mark is removed.
typedef struct {
  const plim_value *at;
  size_t count;
} items;

OPCODE pop_items(machine *m, items *out) {
  plim_pickle *pickle = m->pickle;
  if (pickle->marks.len == 0) {
    fail_underflow(pickle, m->op);
    return false;
  }
  *out = (items){m->floor, (size_t)(m->top - m->floor)};
  m->top = m->floor;
  pickle->marks.len--;
  m->floor = pickle->stack + (pickle->marks.len ? pickle->marks.at[pickle->marks.len - 1] : 0);
  return true;
}

// Executes the MEMOIZE that follows most values that can be shared.
OPCODE memoize_next(machine *m) {
  if (*m->at != MEMOIZE) return true;
  m->at++;
  return memoize(m->pickle, m->top - 1);
}

// ---- memo -----------------------------------------------------------------------------------

// Executes a run of these opcodes: stacks consist of them, and they are a third of all opcodes.
OPCODE get_long(machine *m) {
  for (;;) {
    m->at += 4;
    if (!push(m, fetch(m->pickle, le32(m->at - 4)))) return false;
    if (m->at >= m->safe || *m->at != LONG_BINGET) return true;
    m->pickle->op += 5;
    m->at++;
  }
}

OPCODE get(machine *m) { return push(m, fetch(m->pickle, *m->at++)); }
OPCODE memoize_top(machine *m) { return has(m, 1) && memoize(m->pickle, m->top - 1); }

OPCODE put_short(machine *m) {
  m->at++;
  return has(m, 1) && memoize_at(m->pickle, m->top - 1, m->at[-1]);
}

OPCODE put_long(machine *m) {
  m->at += 4;
  return has(m, 1) && memoize_at(m->pickle, m->top - 1, le32(m->at - 4));
}

// ---- numbers and words ----------------------------------------------------------------------

OPCODE long1(machine *m) {
  uint32_t length = *m->at;
  m->at += 1 + length;
  return push(m, long_integer(m->pickle, m->at - length, length));
}

OPCODE long4(machine *m) {
  uint32_t length = le32(m->at);
  m->at += length <= 9 ? 4 + length : 4;
  return push(m, long_integer(m->pickle, length <= 9 ? m->at - length : m->at, length));
}

OPCODE int4(machine *m) {
  m->at += 4;
  return push(m, integer(m->pickle, (int32_t)le32(m->at - 4)));
}

OPCODE int1(machine *m) { return push(m, plim_value_make(PLIM_VALUE_INT, *m->at++)); }

OPCODE int2(machine *m) {
  m->at += 2;
  return push(m, plim_value_make(PLIM_VALUE_INT, le32(m->at - 2) & 0xffff));
}

OPCODE real(machine *m) {
  m->at += 8;
  return push(m, add_real(m->pickle, m->at - 8));
}

OPCODE none(machine *m) { return push(m, plim_value_make(PLIM_VALUE_NONE, 0)); }
OPCODE yes(machine *m) { return push(m, plim_value_make(PLIM_VALUE_BOOL, 1)); }
OPCODE no(machine *m) { return push(m, plim_value_make(PLIM_VALUE_BOOL, 0)); }

// ---- texts ----------------------------------------------------------------------------------

// Reads a text that may be longer than the buffer, which refills the input.
OPCODE long_text(machine *m, uint64_t bytes) {
  plim_input *input = m->pickle->input;
  if (ran_past_end(m)) return false;
  input->at = m->at;
  plim_value read = add_long_text(m->pickle, bytes);
  m->at = m->safe = input->at;
  return push(m, read);
}

OPCODE text(machine *m, unsigned header, uint64_t bytes) {
  m->at += header;
  if (bytes > SHORT_TEXT) return long_text(m, bytes);
  if (!push(m, add_text(m->pickle, m->at, (size_t)bytes))) return false;
  m->at += bytes;
  return memoize_next(m);
}

OPCODE text1(machine *m) { return text(m, 1, *m->at); }
OPCODE text4(machine *m) { return text(m, 4, le32(m->at)); }
OPCODE text8(machine *m) { return text(m, 8, plim_le64(m->at)); }

// ---- containers -----------------------------------------------------------------------------

OPCODE mark(machine *m) {
  plim_pickle *pickle = m->pickle;
  if (!vec_push(&pickle->marks, (size_t)(m->top - pickle->stack))) return fail_memory(pickle);
  m->floor = m->top;
  return true;
}

OPCODE empty_list(machine *m) {
  return push(m, plim_value_make(PLIM_VALUE_NEW_LIST, 0)) && memoize_next(m);
}

OPCODE empty_dict(machine *m) {
  if (!push(m, plim_value_make(PLIM_VALUE_NEW_DICT, 0)) || !memoize_next(m)) return false;
  if (*m->at != MARK) return true;
  m->at++;
  return mark(m);
}

OPCODE empty_tuple(machine *m) { return push(m, tuple(m->pickle, m->top, 0)); }

OPCODE small_tuple(machine *m) {
  int count = m->op - TUPLE1 + 1;
  if (!has(m, count)) return false;
  m->top -= count;
  return push(m, tuple(m->pickle, m->top, (size_t)count)) && memoize_next(m);
}

OPCODE long_tuple(machine *m) {
  items got;
  return pop_items(m, &got) && push(m, tuple(m->pickle, got.at, got.count));
}

OPCODE whole_list(machine *m) {
  items got;
  plim_value made = plim_value_make(PLIM_VALUE_NEW_LIST, 0);
  if (!pop_items(m, &got)) return false;
  if (got.count) made = m->pickle->list(m->pickle->self, made, got.at, got.count);
  return push(m, made);
}

OPCODE whole_dict(machine *m) {
  items got;
  plim_value made = plim_value_make(PLIM_VALUE_NEW_DICT, 0);
  if (!pop_items(m, &got)) return false;
  if (got.count % 2) return fail_underflow(m->pickle, m->op);
  if (got.count) made = m->pickle->dict(m->pickle->self, made, got.at, got.count);
  return push(m, made);
}

OPCODE append(machine *m) {
  if (!has(m, 2)) return false;
  m->top--;
  return fill(m->pickle, m->top - 1, m->top, 1, m->pickle->list, m->op);
}

OPCODE set_item(machine *m) {
  if (!has(m, 3)) return false;
  m->top -= 2;
  return fill(m->pickle, m->top - 1, m->top, 2, m->pickle->dict, m->op);
}

OPCODE fill_from_mark(machine *m, plim_shape *shape) {
  items got;
  return pop_items(m, &got) && has(m, 1) &&
         fill(m->pickle, m->top - 1, got.at, got.count, shape, m->op);
}

OPCODE appends(machine *m) { return fill_from_mark(m, m->pickle->list); }
OPCODE set_items(machine *m) { return fill_from_mark(m, m->pickle->dict); }

// ---- other opcodes --------------------------------------------------------------------------

OPCODE pop_mark(machine *m) {
  items dropped;
  return pop_items(m, &dropped);
}

OPCODE pop(machine *m) {
  if (m->top == m->floor && m->pickle->marks.len) return pop_mark(m); // Python pops a mark too
  if (!has(m, 1)) return false;
  m->top--;
  return true;
}

OPCODE duplicate(machine *m) {
  if (!has(m, 1)) return false;
  return is_new(m->top[-1]) ? fail_shared(m->pickle) : push(m, m->top[-1]);
}

OPCODE frame(machine *m) {
  m->at += 8;
  return true;
}

OPCODE protocol(machine *m) {
  m->pickle->protocol = *m->at++;
  if (m->pickle->protocol <= NEWEST_PROTOCOL) return true;
  plim_pickle_fail(m->pickle, PLIM_ERR_UNSUPPORTED,
                   "pickle protocol %u is not supported yet; 5 is the newest supported",
                   m->pickle->protocol);
  return false;
}

OPCODE stop(machine *m) { return m->is_done = has(m, 1); }

// ---- the machine ----------------------------------------------------------------------------

// clang-format off
#define OPCODES(X)                                                                                 \
  X(LONG_BINGET, get_long) X(BINGET, get) X(MEMOIZE, memoize_top) X(BINPUT, put_short)             \
  X(LONG_BINPUT, put_long)                                                                         \
  X(LONG1, long1) X(LONG4, long4) X(BININT, int4) X(BININT1, int1) X(BININT2, int2)                \
  X(BINFLOAT, real) X(NONE, none) X(NEWTRUE, yes) X(NEWFALSE, no)                                  \
  X(SHORT_BINUNICODE, text1) X(SHORT_BINBYTES, text1) X(SHORT_BINSTRING, text1)                    \
  X(BINUNICODE, text4) X(BINBYTES, text4) X(BINSTRING, text4)                                      \
  X(BINUNICODE8, text8) X(BINBYTES8, text8)                                                        \
  X(MARK, mark) X(EMPTY_LIST, empty_list) X(EMPTY_DICT, empty_dict) X(EMPTY_TUPLE, empty_tuple)    \
  X(TUPLE1, small_tuple) X(TUPLE2, small_tuple) X(TUPLE3, small_tuple) X(TUPLE, long_tuple)        \
  X(LIST, whole_list) X(DICT, whole_dict) X(APPEND, append) X(SETITEM, set_item)                   \
  X(APPENDS, appends) X(SETITEMS, set_items)                                                       \
  X(POP, pop) X(POP_MARK, pop_mark) X(DUP, duplicate)                                              \
  X(FRAME, frame) X(PROTO, protocol) X(STOP, stop)
// clang-format on

OPCODE step(machine *m) {
  if (m->at >= m->safe && !look_at_input(m)) return false;
  m->pickle->op = m->bias + (uint64_t)(uintptr_t)m->at;
  m->op = *m->at++;
  switch (m->op) {
#define CASE(code, does)                                                                           \
  case code: return does(m);
    OPCODES(CASE)
  default: return fail_opcode(m->pickle, m->op);
  }
}

static bool run(plim_pickle *pickle, plim_value *result) {
  machine m = {.pickle = pickle,
               .at = pickle->input->at,
               .safe = pickle->input->at,
               .top = pickle->stack,
               .floor = pickle->stack,
               .limit = pickle->stack + pickle->stack_cap};
  while (!m.is_done)
    if (!step(&m)) return ran_past_end(&m) ? fail_truncated(pickle, "inside an opcode") : false;
  *result = m.top[-1];
  pickle->input->at = m.at;
  return true;
}

plim_err plim_pickle_read(plim_pickle *pickle, plim_value *result) {
  if (!grow_stack(pickle)) return pickle->failed;
  return run(pickle, result) ? PLIM_OK : pickle->failed;
}
