// Reads the small parts of a snapshot (final segments, annotations and settings) from plain containers, after the whole
// pickle was read.
#include "snapshot_reader.h"

#include <string.h>

#include "sort.h"

static bool get(const plim_reader *reader, plim_value dict, enum plim_word key, plim_value *value) {
  return plim_pickle_get(&reader->pickle, dict, key, value);
}

static bool is_word(plim_value value, enum plim_word word) {
  return value == plim_value_make(PLIM_VALUE_STRING, word);
}

static bool is_true(plim_value value) {
  unsigned kind = plim_value_kind(value);
  return (kind == PLIM_VALUE_BOOL || kind == PLIM_VALUE_INT) && plim_value_payload(value) != 0;
}

static bool fail_memory(plim_reader *reader) {
  plim_pickle_fail(&reader->pickle, PLIM_ERR_NOMEM, "out of memory");
  return false;
}

static bool fail_parse(plim_reader *reader, const char *message) {
  plim_pickle_fail(&reader->pickle, PLIM_ERR_PARSE, "%s", message);
  return false;
}

// Checks that the value is a dict; errors from here on are about this dict.
static bool enter_dict(plim_reader *reader, plim_value value, const char *complaint) {
  const plim_container *container = plim_pickle_container(&reader->pickle, value);
  if (container) reader->pickle.op = container->byte;
  return plim_value_kind(value) == PLIM_VALUE_DICT || fail_parse(reader, complaint);
}

static bool check_range(plim_reader *reader, const char *what, uint64_t addr, uint64_t bytes) {
  if (addr <= UINT64_MAX - bytes) return true;
  plim_pickle_fail(&reader->pickle, PLIM_ERR_PARSE,
                   "a %s extends past the end of the address space: %llu + %llu bytes", what,
                   (unsigned long long)addr, (unsigned long long)bytes);
  return false;
}

// ---- segments -------------------------------------------------------------------------------

static uint8_t block_state(plim_value value) {
  if (is_word(value, WORD_active_allocated)) return PLIM_BLOCK_ALLOCATED;
  // PyTorch's code writes "pending", its documentation "awaiting".
  if (is_word(value, WORD_active_pending_free) || is_word(value, WORD_active_awaiting_free))
    return PLIM_BLOCK_PENDING_FREE;
  return PLIM_BLOCK_INACTIVE;
}

// Blocks of old versions have the requested size and the stack in `history`, newest first.
static bool read_history(plim_reader *reader, plim_value history, plim_layout_block *block) {
  size_t count;
  const plim_value *items = plim_pickle_items(&reader->pickle, history, &count);
  if (count == 0) return true;
  plim_value value;
  if (get(reader, items[0], WORD_frames, &value)) block->stack = plim_reader_stack(reader, value);
  return !get(reader, items[0], WORD_real_size, &value) ||
         plim_reader_bytes(reader, value, "real_size", &block->requested_bytes);
}

// Blocks without an address lie one after another from `addr` on.
static bool read_block(plim_reader *reader, plim_value dict, uint64_t addr,
                       plim_layout_block *block) {
  if (!enter_dict(reader, dict, "a block of a segment is not a dict")) return false;
  *block = (plim_layout_block){
      .addr = addr, .requested_bytes = PLIM_UNKNOWN, .state = PLIM_BLOCK_INACTIVE};
  plim_value value;
  if (get(reader, dict, WORD_address, &value) &&
      !plim_reader_number(reader, value, "address", &block->addr))
    return false;
  if (get(reader, dict, WORD_size, &value) &&
      !plim_reader_bytes(reader, value, "size", &block->bytes))
    return false;
  if (get(reader, dict, WORD_history, &value) && !read_history(reader, value, block)) return false;
  if (get(reader, dict, WORD_requested_size, &value) &&
      !plim_reader_bytes(reader, value, "requested_size", &block->requested_bytes))
    return false;
  if (get(reader, dict, WORD_frames, &value)) block->stack = plim_reader_stack(reader, value);
  if (get(reader, dict, WORD_state, &value)) block->state = block_state(value);
  return check_range(reader, "block", block->addr, block->bytes);
}

static bool read_blocks(plim_reader *reader, plim_value list, plim_layout_segment *segment) {
  plim_trace *trace = reader->trace;
  size_t count;
  const plim_value *blocks = plim_pickle_items(&reader->pickle, list, &count);
  if (trace->layout_blocks.len + count > UINT32_MAX) return fail_memory(reader);
  segment->first_block = (uint32_t)trace->layout_blocks.len;
  segment->block_count = (uint32_t)count;
  uint64_t addr = segment->addr;
  for (size_t i = 0; i < count; i++) {
    plim_layout_block block;
    if (!read_block(reader, blocks[i], addr, &block)) return false;
    if (!vec_push(&trace->layout_blocks, block)) return fail_memory(reader);
    addr = block.addr + block.bytes;
  }
  // A segment without a size ends with its last block.
  if (segment->bytes == PLIM_UNKNOWN)
    segment->bytes = addr > segment->addr ? addr - segment->addr : 0;
  return true;
}

static bool read_segment(plim_reader *reader, plim_value dict, plim_layout_segment *segment) {
  *segment = (plim_layout_segment){.bytes = PLIM_UNKNOWN};
  plim_value value, blocks = plim_value_make(PLIM_VALUE_EMPTY_LIST, 0);
  if (!get(reader, dict, WORD_address, &value))
    return fail_parse(reader, "a segment has no address");
  if (!plim_reader_number(reader, value, "address", &segment->addr)) return false;
  if (get(reader, dict, WORD_total_size, &value) &&
      !plim_reader_bytes(reader, value, "total_size", &segment->bytes))
    return false;
  plim_value stream = plim_value_make(PLIM_VALUE_INT, 0);
  get(reader, dict, WORD_stream, &stream);
  if (!plim_reader_stream(reader, stream, &segment->stream)) return false;
  if (get(reader, dict, WORD_segment_pool_id, &value) &&
      !plim_reader_pool(reader, value, &segment->pool))
    return false;
  if (get(reader, dict, WORD_segment_type, &value)) segment->is_large = is_word(value, WORD_large);
  if (get(reader, dict, WORD_is_expandable, &value)) segment->is_expandable = is_true(value);
  get(reader, dict, WORD_blocks, &blocks);
  uint64_t op = reader->pickle.op;
  if (!read_blocks(reader, blocks, segment)) return false;
  reader->pickle.op = op;
  return check_range(reader, "segment", segment->addr, segment->bytes);
}

bool plim_reader_segment_device(plim_reader *reader, plim_value segment, uint32_t *device) {
  plim_value value;
  uint64_t number = 0;
  if (!enter_dict(reader, segment, "a segment is not a dict")) return false;
  if (get(reader, segment, WORD_device, &value) &&
      !plim_reader_number(reader, value, "device", &number))
    return false;
  if (number >= PLIM_SNAPSHOT_MAX_DEVICES)
    return fail_parse(reader, "the device of a segment is not a device number");
  *device = (uint32_t)number;
  return true;
}

static int by_address(const void *a, const void *b) {
  const plim_layout_segment *left = a, *right = b;
  return (left->addr > right->addr) - (left->addr < right->addr);
}

bool plim_reader_layout(plim_reader *reader, plim_value segments, uint32_t device) {
  plim_trace *trace = reader->trace;
  size_t count;
  const plim_value *items = plim_pickle_items(&reader->pickle, segments, &count);
  for (size_t i = 0; i < count; i++) {
    uint32_t on;
    plim_layout_segment segment;
    if (!plim_reader_segment_device(reader, items[i], &on)) return false;
    if (on != device) continue;
    if (!read_segment(reader, items[i], &segment)) return false;
    if (!vec_push(&trace->layout, segment)) return fail_memory(reader);
  }
  if (trace->layout.len)
    plim_sort(trace->layout.at, trace->layout.len, sizeof *trace->layout.at, by_address);
  trace->has_layout = true;
  return true;
}

// ---- annotations ----------------------------------------------------------------------------

static bool read_annotation(plim_reader *reader, plim_value dict, uint32_t device) {
  plim_annotation annotation = {0};
  plim_value value;
  uint64_t on = device;
  if (!enter_dict(reader, dict, "an annotation is not a dict")) return false;
  if (get(reader, dict, WORD_device, &value) && !plim_reader_number(reader, value, "device", &on))
    return false;
  if (on != device) return true;
  if (get(reader, dict, WORD_time_us, &value) &&
      !plim_reader_number(reader, value, "time_us", &annotation.time_us))
    return false;
  if (get(reader, dict, WORD_name, &value) && !plim_reader_text(reader, value, &annotation.name))
    return false;
  if (get(reader, dict, WORD_stage, &value)) annotation.is_end = is_word(value, WORD_END);
  return vec_push(&reader->trace->annotations, annotation) || fail_memory(reader);
}

bool plim_reader_annotations(plim_reader *reader, plim_value annotations, uint32_t device) {
  size_t count;
  const plim_value *items = plim_pickle_items(&reader->pickle, annotations, &count);
  for (size_t i = 0; i < count; i++)
    if (!read_annotation(reader, items[i], device)) return false;
  return true;
}

// ---- settings -------------------------------------------------------------------------------

static bool read_real(const plim_reader *reader, plim_value value, double *number) {
  const plim_pickle *pickle = &reader->pickle;
  uint64_t bits;
  if (plim_value_kind(value) == PLIM_VALUE_FLOAT) {
    memcpy(number, &pickle->wide.at[plim_value_payload(value)], sizeof *number);
    return true;
  }
  if (!plim_pickle_bits(pickle, value, &bits)) return false;
  *number = (double)(int64_t)bits;
  return true;
}

// i if the key is 2^i in decimal, else -1.
static int division_of(const char *key) {
  char power[8];
  for (int i = 0, size = 1; i < 16; i++, size *= 2) {
    char *digit = power + sizeof power - 1;
    *digit = '\0';
    for (int left = size; left; left /= 10) *--digit = (char)('0' + left % 10);
    if (strcmp(key, digit) == 0) return i;
  }
  return -1;
}

static void read_divisions(plim_reader *reader, plim_value dict) {
  plim_recorded_settings *settings = &reader->trace->settings;
  size_t count;
  const plim_value *pairs = plim_pickle_items(&reader->pickle, dict, &count);
  for (size_t i = 0; i + 1 < count; i += 2) {
    uint64_t bits;
    if (plim_value_kind(pairs[i]) != PLIM_VALUE_STRING ||
        !plim_pickle_bits(&reader->pickle, pairs[i + 1], &bits) || bits > UINT32_MAX)
      continue;
    uint32_t key = (uint32_t)plim_value_payload(pairs[i]);
    int at = division_of(plim_strings_text(&reader->pickle.strings, key));
    if (at < 0) continue;
    settings->divisions[at] = (uint32_t)bits;
    settings->has_divisions = true;
  }
}

bool plim_reader_settings(plim_reader *reader, plim_value dict) {
  plim_recorded_settings *settings = &reader->trace->settings;
  plim_value value;
  uint64_t bits;
  if (plim_value_kind(dict) != PLIM_VALUE_DICT) return true;
  settings->known = true;
  if ((get(reader, dict, WORD_PYTORCH_CUDA_ALLOC_CONF, &value) ||
       get(reader, dict, WORD_PYTORCH_ALLOC_CONF, &value)) &&
      !plim_reader_text(reader, value, &settings->conf))
    return false;
  if (get(reader, dict, WORD_max_split_size, &value) &&
      plim_pickle_bits(&reader->pickle, value, &bits)) {
    settings->has_max_split = true;
    settings->max_split_bytes = (int64_t)bits; // "unlimited" is -1 or, unsigned, 2^64 - 1
  }
  if (get(reader, dict, WORD_garbage_collection_threshold, &value))
    settings->has_gc_threshold = read_real(reader, value, &settings->gc_threshold);
  if (get(reader, dict, WORD_expandable_segments, &value)) {
    settings->has_expandable = true;
    settings->expandable = is_true(value);
  }
  if (get(reader, dict, WORD_roundup_power2_divisions, &value)) read_divisions(reader, value);
  return true;
}
