// The pickle machine: opcodes, stack and memo.
#include <string.h>

#include "pickle_impl.h"

enum {
  NEWEST_PROTOCOL = 5,
  SHORT_TEXT = 256,            // longer strings are copied piece by piece
  LOOKAHEAD = SHORT_TEXT + 16, // the most that one opcode reads, with 8 bytes for hashing
  SPARSE_MEMO = 1024,          // memo indices may run ahead of the count by this, or by the count
};
_Static_assert((int)LOOKAHEAD < PLIM_INPUT_SLACK, "an opcode must fit into the slack");

// ---- values ---------------------------------------------------------------------------------

static inline plim_value integer(plim_pickle *pickle, int64_t number) {
  plim_value value = plim_value_make(PLIM_VALUE_INT, (uint64_t)number);
  return plim_value_small(value) == number ? value
                                           : add_wide(pickle, PLIM_VALUE_WIDE, (uint64_t)number);
}

// LONG1 and LONG4: little-endian two's complement. Nine bytes hold an unsigned 64-bit number.
static inline plim_value long_integer(plim_pickle *pickle, const uint8_t *bytes, uint32_t length) {
  if (length == 0) return plim_value_make(PLIM_VALUE_INT, 0);
  uint64_t bits = plim_le64(bytes);
  if (length <= 8) {
    unsigned unused = 64 - 8 * length;
    return integer(pickle, (int64_t)(bits << unused) >> unused);
  }
  bool has_top_bit = bits >> 63;
  if (length == 9 && bytes[8] == 0)
    return has_top_bit ? add_wide(pickle, PLIM_VALUE_UWIDE, bits) : integer(pickle, (int64_t)bits);
  if (length == 9 && bytes[8] == 0xff && has_top_bit) return integer(pickle, (int64_t)bits);
  return plim_pickle_fail(pickle, PLIM_ERR_UNSUPPORTED,
                          "an integer of %lu bytes does not fit into 64 bits",
                          (unsigned long)length);
}

static bool fits_pair(plim_value value) {
  if (plim_value_kind(value) != PLIM_VALUE_INT) return false;
  int64_t number = plim_value_small(value);
  return number >= -(1 << 27) && number < 1 << 27;
}

static plim_value tuple(plim_pickle *pickle, const plim_value *items, size_t count) {
  if (count == 2 && fits_pair(items[0]) && fits_pair(items[1])) {
    uint64_t mask = (1u << 28) - 1;
    return plim_value_make(PLIM_VALUE_PAIR, (items[0] & mask) << 28 | (items[1] & mask));
  }
  uint32_t id = add_container(pickle, count);
  if (id == PLIM_NO_ID) return plim_value_make(PLIM_VALUE_FAILED, 0);
  plim_container *container = &pickle->containers.at[id];
  if (count) memcpy(pickle->items.at + container->first, items, count * sizeof *items);
  container->count = (uint32_t)count;
  return plim_value_make(PLIM_VALUE_TUPLE, id);
}

// ---- memo -----------------------------------------------------------------------------------

static inline bool is_new(plim_value value) {
  unsigned kind = plim_value_kind(value);
  return kind == PLIM_VALUE_NEW_LIST || kind == PLIM_VALUE_NEW_DICT;
}

enum { SLOT_BITS = 27 };

static inline uint32_t slot_make(unsigned kind, uint64_t payload) {
  return (uint32_t)(kind << SLOT_BITS) | (uint32_t)payload;
}
static inline unsigned slot_kind(uint32_t slot) { return slot >> SLOT_BITS; }
static inline uint32_t slot_payload(uint32_t slot) { return slot & ((1u << SLOT_BITS) - 1); }

static bool far_slot(plim_pickle *pickle, plim_value value, uint32_t *slot) {
  if (pickle->far.len >> SLOT_BITS || !vec_push(&pickle->far, value)) return fail_memory(pickle);
  *slot = slot_make(PLIM_VALUE_FAR, pickle->far.len - 1);
  return true;
}

// Stores a value at an index that exists.
static inline bool put(plim_pickle *pickle, size_t index, plim_value value) {
  uint64_t payload = is_new(value) ? 0 : plim_value_payload(value);
  if (payload >> SLOT_BITS) return far_slot(pickle, value, &pickle->memo.at[index]);
  pickle->memo.at[index] = slot_make(plim_value_kind(value), payload);
  return true;
}

// Memoises *top at an index that exists. A container without items learns its index, so that the
// memo can be told what it becomes.
static inline bool put_top(plim_pickle *pickle, size_t index, plim_value *top) {
  pickle->puts++;
  if (is_new(*top)) {
    if (plim_value_payload(*top)) return fail_shared(pickle);
    *top |= index + 1;
  }
  return put(pickle, index, *top);
}

static inline bool memoize(plim_pickle *pickle, plim_value *top) {
  if (!vec_reserve(&pickle->memo, 1)) return fail_memory(pickle);
  return put_top(pickle, pickle->memo.len++, top);
}

// Memoises *top at any index; holes are allowed in moderation, for files that were rewritten.
static bool memoize_at(plim_pickle *pickle, plim_value *top, uint64_t index) {
  if (index > 2 * pickle->puts + SPARSE_MEMO) {
    plim_pickle_fail(pickle, PLIM_ERR_PARSE, "damaged pickle: memo index %llu after %llu objects",
                     (unsigned long long)index, (unsigned long long)pickle->puts);
    return false;
  }
  while (pickle->memo.len <= index)
    if (!vec_push(&pickle->memo, slot_make(PLIM_VALUE_UNSET, 0))) return fail_memory(pickle);
  return put_top(pickle, (size_t)index, top);
}

// A memo entry that is no plain value. A container fetched without items stays empty for good.
static plim_value fetch_special(plim_pickle *pickle, uint32_t index) {
  uint32_t *slot = &pickle->memo.at[index];
  unsigned kind = slot_kind(*slot);
  if (kind == PLIM_VALUE_FAR) return pickle->far.at[slot_payload(*slot)];
  if (kind != PLIM_VALUE_NEW_LIST && kind != PLIM_VALUE_NEW_DICT)
    return plim_pickle_fail(pickle, PLIM_ERR_PARSE, "damaged pickle: memo index %lu is not set",
                            (unsigned long)index);
  kind = kind == PLIM_VALUE_NEW_LIST ? PLIM_VALUE_EMPTY_LIST : PLIM_VALUE_EMPTY_DICT;
  *slot = slot_make(kind, 0);
  return plim_value_make(kind, 0);
}

static inline plim_value fetch(plim_pickle *pickle, uint32_t index) {
  if (index >= pickle->memo.len)
    return plim_pickle_fail(pickle, PLIM_ERR_PARSE, "damaged pickle: memo index %lu is not set",
                            (unsigned long)index);
  uint32_t slot = pickle->memo.at[index];
  if (slot >= slot_make(PLIM_VALUE_NEW_LIST, 0)) return fetch_special(pickle, index);
  return plim_value_make(slot_kind(slot), slot_payload(slot));
}

// ---- containers -----------------------------------------------------------------------------

// Whether the memo entry of a container without items still is that container.
static bool is_unshared(const plim_pickle *pickle, plim_value value) {
  uint64_t index_plus_1 = plim_value_payload(value);
  return index_plus_1 == 0 ||
         slot_kind(pickle->memo.at[index_plus_1 - 1]) == plim_value_kind(value);
}

// The memo follows what a container turned into. Later batches of the same container find its
// memo index in `open`, since the value itself no longer carries it.
static bool settle(plim_pickle *pickle, struct plim_open *open, plim_value *container,
                   plim_value now) {
  plim_value old = *container;
  size_t at = (size_t)(container - pickle->stack);
  if (is_new(old)) {
    open->at = at;
    open->memo = plim_value_payload(old);
  } else if (now == old) {
    return true;
  } else if (open->at != at || open->value != old) {
    return fail_shared(pickle);
  }
  open->value = *container = now;
  return !open->memo || put(pickle, (size_t)open->memo - 1, now);
}

static bool fill(plim_pickle *pickle, plim_value *container, const plim_value *items, size_t count,
                 plim_shape *shape, uint8_t op) {
  if (shape == pickle->dict && count % 2) return fail_underflow(pickle, op);
  if (count == 0) return true;
  if (is_new(*container) && !is_unshared(pickle, *container)) return fail_shared(pickle);
  unsigned kind = plim_value_kind(*container);
  if (kind == PLIM_VALUE_EMPTY_LIST || kind == PLIM_VALUE_EMPTY_DICT) return fail_shared(pickle);
  if (kind < PLIM_VALUE_LIST) return fail_underflow(pickle, op);
  bool is_list = shape == pickle->list;
  if (kind == (is_list ? PLIM_VALUE_DICT : PLIM_VALUE_LIST) ||
      kind == (is_list ? PLIM_VALUE_NEW_DICT : PLIM_VALUE_NEW_LIST))
    return fail_underflow(pickle, op);
  plim_value now = shape(pickle->self, *container, items, count);
  return plim_value_kind(now) != PLIM_VALUE_FAILED &&
         settle(pickle, is_list ? &pickle->open_list : &pickle->open_dict, container, now);
}

// ---- the machine ----------------------------------------------------------------------------

static bool grow_stack(plim_pickle *pickle) {
  if (plim_vec_grow((void **)&pickle->stack, &pickle->stack_cap, pickle->stack_cap + 1,
                    sizeof *pickle->stack))
    return true;
  return fail_memory(pickle);
}

// Buffers LOOKAHEAD bytes, or all up to the end; true if there is at least one.
static bool more_input(plim_pickle *pickle) {
  plim_input *input = pickle->input;
  while (!input->at_end && input->end - input->at < LOOKAHEAD)
    if ((pickle->failed = plim_input_fill(input, pickle->error))) return false;
  if (input->at < input->end) return true;
  pickle->op = plim_input_offset(input);
  return fail_truncated(pickle, "without a STOP");
}

// The loop keeps its place in the input and on the stack in locals; `floor` is the stack above the
// newest mark. An opcode cut off by the end of the file reads zeros from the slack, and that it
// ran past the end is noticed before the next one.
#define PUSH(value)                                                                                \
  do {                                                                                             \
    plim_value pushed = (value);                                                                   \
    if (plim_value_kind(pushed) == PLIM_VALUE_FAILED) goto failed;                                 \
    if (top == limit) {                                                                            \
      size_t height = (size_t)(top - pickle->stack), mark = (size_t)(floor - pickle->stack);       \
      if (!grow_stack(pickle)) goto failed;                                                        \
      top = pickle->stack + height;                                                                \
      floor = pickle->stack + mark;                                                                \
      limit = pickle->stack + pickle->stack_cap;                                                   \
    }                                                                                              \
    *top++ = pushed;                                                                               \
  } while (0)
#define NEED(count)                                                                                \
  if (top - floor < (count)) {                                                                     \
    fail_underflow(pickle, op);                                                                    \
    goto failed;                                                                                   \
  }
#define TRY(call)                                                                                  \
  if (!(call)) goto failed
// What lies above the newest mark becomes `items`, `count`, and the mark goes.
#define POP_ITEMS()                                                                                \
  if (pickle->marks.len == 0) {                                                                    \
    fail_underflow(pickle, op);                                                                    \
    goto failed;                                                                                   \
  }                                                                                                \
  const plim_value *items = floor;                                                                 \
  size_t count = (size_t)(top - floor);                                                            \
  top = floor;                                                                                     \
  pickle->marks.len--;                                                                             \
  floor = pickle->stack + (pickle->marks.len ? pickle->marks.at[pickle->marks.len - 1] : 0)
#define MEMOIZE_NEXT()                                                                             \
  if (*at == MEMOIZE) {                                                                            \
    at++;                                                                                          \
    TRY(memoize(pickle, top - 1));                                                                 \
  }
#define TEXT(header, length)                                                                       \
  do {                                                                                             \
    uint64_t bytes = (length);                                                                     \
    at += (header);                                                                                \
    if (bytes <= SHORT_TEXT) {                                                                     \
      PUSH(add_text(pickle, at, (size_t)bytes));                                                   \
      at += bytes;                                                                                 \
      MEMOIZE_NEXT();                                                                              \
    } else {                                                                                       \
      if (input->at_end && at > input->end) goto failed;                                           \
      input->at = at;                                                                              \
      plim_value read = add_long_text(pickle, bytes);                                              \
      at = input->at;                                                                              \
      PUSH(read);                                                                                  \
      goto refilled;                                                                               \
    }                                                                                              \
  } while (0)

static inline uint32_t le32(const uint8_t *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static bool run(plim_pickle *pickle, plim_value *result) {
  plim_input *input = pickle->input;
  const uint8_t *at = input->at, *safe = at;
  plim_value *top = pickle->stack, *floor = top, *limit = top + pickle->stack_cap;
  uint64_t bias = 0; // offset of a byte in the stream = bias + its address
  uint8_t op;

refilled:
  safe = at; // anything below forces a look at the input
  for (;;) {
    if (at >= safe) {
      if (input->at_end && at > input->end) goto failed;
      input->at = at;
      TRY(more_input(pickle));
      at = input->at;
      safe = input->at_end ? at + 1 : input->end - LOOKAHEAD + 1;
      bias = input->base - (uint64_t)(uintptr_t)input->buffer;
    }
    pickle->op = bias + (uint64_t)(uintptr_t)at;
    op = *at++;
    switch (op) {
    case LONG_BINGET:
      for (;;) { // runs of them are stacks: a third of all opcodes
        at += 4;
        PUSH(fetch(pickle, le32(at - 4)));
        if (at >= safe || *at != LONG_BINGET) break;
        pickle->op += 5;
        at++;
      }
      break;
    case BINGET: PUSH(fetch(pickle, *at++)); break;
    case MEMOIZE:
      NEED(1);
      TRY(memoize(pickle, top - 1));
      break;
    case BINPUT:
      at++;
      NEED(1);
      TRY(memoize_at(pickle, top - 1, at[-1]));
      break;
    case LONG_BINPUT:
      at += 4;
      NEED(1);
      TRY(memoize_at(pickle, top - 1, le32(at - 4)));
      break;

    case LONG1: {
      uint32_t length = *at;
      at += 1 + length;
      PUSH(long_integer(pickle, at - length, length));
      break;
    }
    case LONG4: {
      uint32_t length = le32(at);
      at += length <= 9 ? 4 + length : 4;
      PUSH(long_integer(pickle, length <= 9 ? at - length : at, length));
      break;
    }
    case BININT:
      at += 4;
      PUSH(integer(pickle, (int32_t)le32(at - 4)));
      break;
    case BININT1: PUSH(plim_value_make(PLIM_VALUE_INT, *at++)); break;
    case BININT2:
      PUSH(plim_value_make(PLIM_VALUE_INT, le32(at) & 0xffff));
      at += 2;
      break;
    case BINFLOAT:
      PUSH(add_real(pickle, at));
      at += 8;
      break;
    case NONE: PUSH(plim_value_make(PLIM_VALUE_NONE, 0)); break;
    case NEWTRUE: PUSH(plim_value_make(PLIM_VALUE_BOOL, 1)); break;
    case NEWFALSE: PUSH(plim_value_make(PLIM_VALUE_BOOL, 0)); break;

    case SHORT_BINUNICODE:
    case SHORT_BINBYTES:
    case SHORT_BINSTRING: TEXT(1, *at); break;
    case BINUNICODE:
    case BINBYTES:
    case BINSTRING: TEXT(4, le32(at)); break;
    case BINUNICODE8:
    case BINBYTES8: TEXT(8, plim_le64(at)); break;

    case EMPTY_LIST:
      PUSH(plim_value_make(PLIM_VALUE_NEW_LIST, 0));
      MEMOIZE_NEXT();
      break;
    case EMPTY_DICT:
      PUSH(plim_value_make(PLIM_VALUE_NEW_DICT, 0));
      MEMOIZE_NEXT();
      if (*at != MARK) break;
      at++;
      // fall through
    case MARK:
      if (!vec_push(&pickle->marks, (size_t)(top - pickle->stack))) TRY(fail_memory(pickle));
      floor = top;
      break;
    case EMPTY_TUPLE: PUSH(tuple(pickle, top, 0)); break;
    case TUPLE1:
    case TUPLE2:
    case TUPLE3: {
      int count = op - TUPLE1 + 1;
      NEED(count);
      top -= count;
      PUSH(tuple(pickle, top, (size_t)count));
      MEMOIZE_NEXT();
      break;
    }
    case TUPLE: {
      POP_ITEMS();
      PUSH(tuple(pickle, items, count));
      break;
    }
    case LIST:
    case DICT: {
      POP_ITEMS();
      bool is_list = op == LIST;
      plim_value made = plim_value_make(is_list ? PLIM_VALUE_NEW_LIST : PLIM_VALUE_NEW_DICT, 0);
      if (is_list || count % 2 == 0) {
        if (count) made = (is_list ? pickle->list : pickle->dict)(pickle->self, made, items, count);
      } else TRY(fail_underflow(pickle, op));
      PUSH(made);
      break;
    }

    case APPEND:
      NEED(2);
      top--;
      TRY(fill(pickle, top - 1, top, 1, pickle->list, op));
      break;
    case SETITEM:
      NEED(3);
      top -= 2;
      TRY(fill(pickle, top - 1, top, 2, pickle->dict, op));
      break;
    case APPENDS:
    case SETITEMS: {
      POP_ITEMS();
      NEED(1);
      TRY(fill(pickle, top - 1, items, count, op == APPENDS ? pickle->list : pickle->dict, op));
      break;
    }
    case POP:
      if (top == floor && pickle->marks.len) { // Python pops a mark, too
        POP_ITEMS();
        (void)items, (void)count;
      } else {
        NEED(1);
        top--;
      }
      break;
    case POP_MARK: {
      POP_ITEMS();
      (void)items, (void)count;
      break;
    }
    case DUP:
      NEED(1);
      if (is_new(top[-1])) TRY(fail_shared(pickle));
      PUSH(top[-1]);
      break;

    case FRAME: at += 8; break;
    case PROTO:
      pickle->protocol = *at++;
      if (pickle->protocol > NEWEST_PROTOCOL) {
        plim_pickle_fail(pickle, PLIM_ERR_UNSUPPORTED, "pickle protocol %u; 5 is the newest known",
                         pickle->protocol);
        goto failed;
      }
      break;
    case STOP:
      NEED(1);
      *result = top[-1];
      input->at = at;
      return true;
    default: TRY(fail_opcode(pickle, op));
    }
  }

failed:
  if (input->at_end && at > input->end) return fail_truncated(pickle, "inside an opcode");
  return false;
}

plim_err plim_pickle_read(plim_pickle *pickle, plim_value *result) {
  if (!grow_stack(pickle)) return pickle->failed;
  return run(pickle, result) ? PLIM_OK : pickle->failed;
}
