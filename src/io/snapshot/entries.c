// Converts the large part of a snapshot (trace entries, frames and stacks) to the form of plim_trace while the pickle is
// being read.
#include "snapshot_reader.h"

#include <string.h>

static const plim_value failed = (uint64_t)PLIM_VALUE_FAILED << 56;

static plim_value fail_memory(plim_reader *reader) {
  return plim_pickle_fail(&reader->pickle, PLIM_ERR_NOMEM, "out of memory");
}

// ---- fields ---------------------------------------------------------------------------------

bool plim_reader_number(plim_reader *reader, plim_value value, const char *what, uint64_t *bits) {
  if (plim_pickle_bits(&reader->pickle, value, bits)) return true;
  plim_pickle_fail(&reader->pickle, PLIM_ERR_PARSE, "%s is not an integer", what);
  return false;
}

bool plim_reader_bytes(plim_reader *reader, plim_value value, const char *what, uint64_t *bytes) {
  if (!plim_reader_number(reader, value, what, bytes)) return false;
  if (*bytes <= INT64_MAX) return true;
  plim_pickle_fail(&reader->pickle, PLIM_ERR_PARSE, "%s is %lld, which is not a number of bytes",
                   what, (long long)*bytes);
  return false;
}

bool plim_reader_stream(plim_reader *reader, plim_value value, uint16_t *stream) {
  uint64_t handle;
  if (!plim_reader_number(reader, value, "stream", &handle)) return false;
  uint32_t index = plim_trace_stream(reader->trace, handle);
  if (index == UINT32_MAX) {
    plim_pickle_fail(&reader->pickle, PLIM_ERR_UNSUPPORTED,
                     "the snapshot has more than %zu streams", reader->trace->streams.len);
    return false;
  }
  *stream = (uint16_t)index;
  return true;
}

// Reads a tuple of two ints; small ones are packed into one value.
static bool pool_id(const plim_pickle *pickle, plim_value value, plim_pool_id *id) {
  if (plim_value_kind(value) == PLIM_VALUE_PAIR) {
    id->owner = (int64_t)(value << 8) >> 36;
    id->id = (int64_t)(value << 36) >> 36;
    return true;
  }
  size_t count;
  const plim_value *items = plim_pickle_items(pickle, value, &count);
  uint64_t owner, number;
  if (count != 2 || !plim_pickle_bits(pickle, items[0], &owner) ||
      !plim_pickle_bits(pickle, items[1], &number))
    return false;
  *id = (plim_pool_id){(int64_t)owner, (int64_t)number};
  return true;
}

bool plim_reader_pool(plim_reader *reader, plim_value value, uint8_t *pool) {
  plim_pool_id id;
  if (!pool_id(&reader->pickle, value, &id)) {
    plim_pickle_fail(&reader->pickle, PLIM_ERR_PARSE, "a pool id is not a pair of integers");
    return false;
  }
  uint32_t index = plim_trace_pool(reader->trace, id);
  if (index == UINT32_MAX) {
    plim_pickle_fail(&reader->pickle, PLIM_ERR_UNSUPPORTED,
                     "the snapshot has more than %zu memory pools", reader->trace->pools.len);
    return false;
  }
  *pool = (uint8_t)index;
  return true;
}

uint32_t plim_reader_stack(plim_reader *reader, plim_value frames) {
  (void)reader;
  return plim_value_kind(frames) == VALUE_STACK ? (uint32_t)plim_value_payload(frames) : 0;
}

// Copies a string into the trace's text, once.
bool plim_reader_text(plim_reader *reader, plim_value string, uint32_t *offset) {
  *offset = 0;
  if (plim_value_kind(string) != PLIM_VALUE_STRING) return true;
  plim_strings *strings = &reader->pickle.strings;
  uint32_t id = (uint32_t)plim_value_payload(string);
  while (reader->text_of.len <= id)
    if (!vec_push(&reader->text_of, 0)) return fail_memory(reader), false;
  uint32_t length = strings->spans.at[id].length;
  if (length == 0 || (*offset = reader->text_of.at[id])) return true;
  plim_trace *trace = reader->trace;
  if (trace->text.len + length + 1 > UINT32_MAX || !vec_reserve(&trace->text, (size_t)length + 1))
    return fail_memory(reader), false;
  *offset = reader->text_of.at[id] = (uint32_t)trace->text.len;
  memcpy(trace->text.at + *offset, plim_strings_text(strings, id), (size_t)length + 1);
  trace->text.len += (size_t)length + 1;
  return true;
}

// ---- entries --------------------------------------------------------------------------------

enum { NO_ACTION = PLIM_EV_COUNT, NO_STREAM = UINT16_MAX };

// The action for a keyword, plus 1; 0 if it is not an action.
static const uint8_t action_of[WORD_COUNT] = {
    [WORD_alloc] = 1 + PLIM_EV_ALLOC,
    [WORD_free] = 1 + PLIM_EV_FREE,
    [WORD_free_requested] = 1 + PLIM_EV_FREE_REQUESTED,
    [WORD_free_completed] = 1 + PLIM_EV_FREE_COMPLETED,
    [WORD_segment_alloc] = 1 + PLIM_EV_SEGMENT_ALLOC,
    [WORD_segment_free] = 1 + PLIM_EV_SEGMENT_FREE,
    [WORD_segment_map] = 1 + PLIM_EV_SEGMENT_MAP,
    [WORD_segment_unmap] = 1 + PLIM_EV_SEGMENT_UNMAP,
    [WORD_oom] = 1 + PLIM_EV_OOM,
    [WORD_snapshot] = 1 + PLIM_EV_SNAPSHOT,
};

// Entries whose action is unknown keep its string id in `block`, which is not in use yet.
static bool set_action(plim_reader *reader, plim_event *event, plim_value value) {
  if (plim_value_kind(value) != PLIM_VALUE_STRING) {
    plim_pickle_fail(&reader->pickle, PLIM_ERR_PARSE,
                     "the action of a trace entry is not a string");
    return false;
  }
  uint64_t word = plim_value_payload(value);
  uint8_t action = word < WORD_COUNT ? action_of[word] : 0;
  event->action = action ? (uint8_t)(action - 1) : NO_ACTION;
  event->block = action ? 0 : (uint32_t)word;
  return true;
}

static inline bool set_field(plim_reader *reader, plim_event *event, uint64_t word,
                             plim_value value) {
  switch (word) {
  case WORD_action: return set_action(reader, event, value);
  case WORD_addr:
  case WORD_device_free: return plim_reader_number(reader, value, "addr", &event->addr);
  case WORD_size: return plim_reader_bytes(reader, value, "size", &event->bytes);
  case WORD_stream: return plim_reader_stream(reader, value, &event->stream);
  case WORD_time_us: return plim_reader_number(reader, value, "time_us", &event->time_us);
  case WORD_frames: event->stack = plim_reader_stack(reader, value); return true;
  case WORD_pool_id:
    reader->has_pool_ids = true;
    return plim_reader_pool(reader, value, &event->pool);
  default: return true;
  }
}

static bool set_fields(plim_reader *reader, plim_event *event, const plim_value *pairs,
                       size_t count) {
  for (size_t i = 0; i < count; i += 2)
    if (plim_value_kind(pairs[i]) == PLIM_VALUE_STRING &&
        !set_field(reader, event, plim_value_payload(pairs[i]), pairs[i + 1]))
      return false;
  bool has_range = event->addr != PLIM_UNKNOWN && event->action != PLIM_EV_OOM;
  if (has_range && event->addr > UINT64_MAX - event->bytes) {
    plim_pickle_fail(&reader->pickle, PLIM_ERR_PARSE,
                     "a trace entry extends past the end of the address space: %llu + %llu bytes",
                     (unsigned long long)event->addr, (unsigned long long)event->bytes);
    return false;
  }
  return true;
}

static plim_value new_entry(plim_reader *reader, const plim_value *pairs, size_t count) {
  if (!vec_reserve(&reader->fresh, 1)) return fail_memory(reader);
  plim_event *event = &reader->fresh.at[reader->fresh.len++];
  *event = (plim_event){
      .addr = PLIM_UNKNOWN, .action = NO_ACTION, .block = PLIM_NO_ID, .stream = NO_STREAM};
  if (!set_fields(reader, event, pairs, count)) return failed;
  return plim_value_make(VALUE_ENTRY, reader->fresh_first + reader->fresh.len - 1);
}

// An entry not yet in a list, or NULL.
static plim_event *fresh_entry(plim_reader *reader, plim_value value) {
  uint64_t number = plim_value_payload(value);
  return number < reader->next_entry ? NULL : &reader->fresh.at[number - reader->fresh_first];
}

static plim_value fail_shared_entry(plim_reader *reader) {
  return plim_pickle_fail(&reader->pickle, PLIM_ERR_UNSUPPORTED,
                          "a trace entry is used twice or out of order; snapshots never do that");
}

static plim_value extend_entry(plim_reader *reader, plim_value now, const plim_value *pairs,
                               size_t count) {
  plim_event *event = fresh_entry(reader, now);
  if (!event) return fail_shared_entry(reader);
  return set_fields(reader, event, pairs, count) ? now : failed;
}

// ---- frames ---------------------------------------------------------------------------------

// Line numbers that exceed 32 bits are dropped.
static uint32_t line_number(const plim_pickle *pickle, plim_value value) {
  uint64_t bits;
  return plim_pickle_bits(pickle, value, &bits) && bits <= UINT32_MAX ? (uint32_t)bits : 0;
}

static plim_value intern_frame(plim_reader *reader, plim_frame frame) {
  plim_trace *trace = reader->trace;
  uint32_t hash = (uint32_t)plim_hash_mix(plim_hash_mix(frame.line, frame.file), frame.name), id;
  for (size_t at = plim_index_start(&reader->frame_index, hash);
       (id = plim_index_next(&reader->frame_index, &at, hash)) != PLIM_NO_ID;) {
    const plim_frame *known = &trace->frames.at[id];
    if (known->file == frame.file && known->name == frame.name && known->line == frame.line)
      return plim_value_make(VALUE_FRAME, id);
  }
  id = (uint32_t)trace->frames.len;
  if (id >= UINT32_MAX - 2 || !vec_push(&trace->frames, frame) ||
      !plim_index_add(&reader->frame_index, hash, id))
    return fail_memory(reader);
  return plim_value_make(VALUE_FRAME, id);
}

// `frame` contains the fields that earlier batches have set.
static plim_value read_frame(plim_reader *reader, plim_frame frame, const plim_value *pairs,
                             size_t count) {
  for (size_t i = 0; i < count; i += 2) {
    if (plim_value_kind(pairs[i]) != PLIM_VALUE_STRING) continue;
    bool ok = true;
    switch (plim_value_payload(pairs[i])) {
    case WORD_filename: ok = plim_reader_text(reader, pairs[i + 1], &frame.file); break;
    case WORD_name: ok = plim_reader_text(reader, pairs[i + 1], &frame.name); break;
    case WORD_line: frame.line = line_number(&reader->pickle, pairs[i + 1]); break;
    }
    if (!ok) return failed;
  }
  return intern_frame(reader, frame);
}

// ---- stacks ---------------------------------------------------------------------------------

// The stack made of the frames in reader->scratch.
static plim_value intern_stack(plim_reader *reader) {
  plim_trace *trace = reader->trace;
  const uint32_t *frames = reader->scratch.at;
  size_t count = reader->scratch.len;
  uint64_t mixed = count;
  for (size_t i = 0; i + 1 < count; i += 2)
    mixed = plim_hash_mix(mixed, (uint64_t)frames[i] << 32 | frames[i + 1]);
  if (count % 2) mixed = plim_hash_mix(mixed, frames[count - 1]);
  uint32_t hash = (uint32_t)mixed, id;
  for (size_t at = plim_index_start(&reader->stack_index, hash);
       (id = plim_index_next(&reader->stack_index, &at, hash)) != PLIM_NO_ID;) {
    plim_stack known = trace->stacks.at[id];
    if (known.count == count &&
        memcmp(trace->stack_frames.at + known.first, frames, count * sizeof *frames) == 0)
      return plim_value_make(VALUE_STACK, id);
  }
  size_t first = trace->stack_frames.len;
  id = (uint32_t)trace->stacks.len;
  if (first + count > UINT32_MAX || id >= UINT32_MAX - 2 ||
      !vec_reserve(&trace->stack_frames, count) ||
      !vec_push(&trace->stacks, (plim_stack){(uint32_t)first, (uint32_t)count}) ||
      !plim_index_add(&reader->stack_index, hash, id))
    return fail_memory(reader);
  memcpy(trace->stack_frames.at + first, frames, count * sizeof *frames);
  trace->stack_frames.len += count;
  return plim_value_make(VALUE_STACK, id);
}

static bool add_to_scratch(plim_reader *reader, const plim_value *frames, size_t count) {
  if (!vec_reserve(&reader->scratch, count)) return fail_memory(reader), false;
  for (size_t i = 0; i < count; i++)
    reader->scratch.at[reader->scratch.len++] = (uint32_t)plim_value_payload(frames[i]);
  return true;
}

// Reads a list of frames, or more frames for the list `now`: Python writes a thousand at a time.
static plim_value read_stack(plim_reader *reader, plim_value now, const plim_value *frames,
                             size_t count) {
  const plim_trace *trace = reader->trace;
  reader->scratch.len = 0;
  if (plim_value_kind(now) == VALUE_STACK) {
    plim_stack before = trace->stacks.at[plim_value_payload(now)];
    if (!vec_reserve(&reader->scratch, before.count)) return fail_memory(reader);
    memcpy(reader->scratch.at, trace->stack_frames.at + before.first,
           before.count * sizeof(uint32_t));
    reader->scratch.len = before.count;
  }
  return add_to_scratch(reader, frames, count) ? intern_stack(reader) : failed;
}

// ---- lists of entries ---------------------------------------------------------------------------

static void count_ignored(device_trace *list, const plim_event *event) {
  if (event->block == WORD_annotate) {
    list->annotate++;
    return;
  }
  if (list->unknown++ == 0) list->first_unknown = event->block;
}

static bool add_event(plim_reader *reader, device_trace *list, plim_event *event) {
  event->entry = (uint32_t)list->entries++;
  if (event->action == NO_ACTION) return count_ignored(list, event), true;
  if (event->stream == NO_STREAM && !plim_reader_stream(reader, 0, &event->stream)) return false;
  plim_trace *trace = reader->trace;
  // A free is joined with its completion, but never with one of another device's list.
  bool is_first = trace->events.len == list->first;
  if (is_first ? !vec_push(&trace->events, *event) : !plim_trace_push(trace, event))
    return fail_memory(reader), false;
  list->count = trace->events.len - list->first;
  return true;
}

static plim_value new_trace(plim_reader *reader) {
  device_trace list = {.first = reader->trace->events.len, .first_unknown = PLIM_NO_ID};
  if (!vec_push(&reader->traces, list)) return fail_memory(reader);
  return plim_value_make(VALUE_TRACE, reader->traces.len - 1);
}

// Moves entries from `fresh` to the events of the list. They come in the order of the file, each once.
static plim_value read_trace(plim_reader *reader, plim_value now, const plim_value *items,
                             size_t count) {
  if (plim_value_kind(now) == PLIM_VALUE_NEW_LIST) now = new_trace(reader);
  if (plim_value_kind(now) == PLIM_VALUE_FAILED) return failed;
  size_t which = (size_t)plim_value_payload(now);
  if (which + 1 != reader->traces.len) return fail_shared_entry(reader);
  device_trace *list = &reader->traces.at[which];
  for (size_t i = 0; i < count; i++) {
    plim_event *event = fresh_entry(reader, items[i]);
    if (!event) return fail_shared_entry(reader);
    if (!add_event(reader, list, event)) return failed;
    reader->next_entry = plim_value_payload(items[i]) + 1;
  }
  if (reader->next_entry == reader->fresh_first + reader->fresh.len) {
    reader->fresh_first = reader->next_entry;
    reader->fresh.len = 0;
  }
  return now;
}

// ---- shapes ---------------------------------------------------------------------------------

// The kind of dict that a key indicates; 0 if it indicates none.
static const uint8_t shape_of[WORD_COUNT] = {
    [WORD_action] = VALUE_ENTRY,
    [WORD_filename] = VALUE_FRAME,
    [WORD_line] = VALUE_FRAME,
};

static inline unsigned dict_shape(const plim_value *pairs, size_t count) {
  for (size_t i = 0; i < count; i += 2) {
    uint64_t word = plim_value_payload(pairs[i]);
    if (plim_value_kind(pairs[i]) == PLIM_VALUE_STRING && word < WORD_COUNT && shape_of[word])
      return shape_of[word];
  }
  return 0;
}

plim_value plim_reader_dict(void *self, plim_value now, const plim_value *pairs, size_t count) {
  plim_reader *reader = self;
  switch (plim_value_kind(now)) {
  case VALUE_ENTRY: return extend_entry(reader, now, pairs, count);
  case VALUE_FRAME:
    return read_frame(reader, reader->trace->frames.at[plim_value_payload(now)], pairs, count);
  case PLIM_VALUE_DICT: return plim_pickle_extend(&reader->pickle, now, pairs, count);
  case PLIM_VALUE_NEW_DICT: break;
  default:
    return plim_pickle_fail(&reader->pickle, PLIM_ERR_PARSE,
                            "the pickle adds keys to something that is not a dict");
  }
  switch (dict_shape(pairs, count)) {
  case VALUE_ENTRY: return new_entry(reader, pairs, count);
  case VALUE_FRAME: return read_frame(reader, (plim_frame){0}, pairs, count);
  default: return plim_pickle_extend(&reader->pickle, now, pairs, count);
  }
}

// If the key that indicates the kind of a dict came in a later batch, the dict is still a plain one: it is converted when
// it is added to a list.
static plim_value reshape(plim_reader *reader, plim_value value) {
  if (plim_value_kind(value) != PLIM_VALUE_DICT) return value;
  size_t count;
  const plim_value *pairs = plim_pickle_items(&reader->pickle, value, &count);
  if (!dict_shape(pairs, count)) return value;
  return plim_reader_dict(reader, plim_value_make(PLIM_VALUE_NEW_DICT, 0), pairs, count);
}

// Whether all items are of one kind.
static bool all_are(unsigned kind, const plim_value *items, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (plim_value_kind(items[i]) != kind) return false;
  return true;
}

static plim_value read_items(plim_reader *reader, plim_value now, const plim_value *items,
                             size_t count) {
  unsigned kind = plim_value_kind(now);
  bool may_be_new = kind == PLIM_VALUE_NEW_LIST;
  if ((may_be_new || kind == VALUE_STACK) && all_are(VALUE_FRAME, items, count))
    return read_stack(reader, now, items, count);
  if ((may_be_new || kind == VALUE_TRACE) && all_are(VALUE_ENTRY, items, count))
    return read_trace(reader, now, items, count);
  if (may_be_new || kind == PLIM_VALUE_LIST)
    return plim_pickle_extend(&reader->pickle, now, items, count);
  return plim_pickle_fail(&reader->pickle, PLIM_ERR_PARSE,
                          "the pickle adds items to something that is not a list of them");
}

plim_value plim_reader_list(void *self, plim_value now, const plim_value *items, size_t count) {
  plim_reader *reader = self;
  if (plim_value_kind(items[0]) != PLIM_VALUE_DICT) return read_items(reader, now, items, count);
  if (count == 1) {
    plim_value item = reshape(reader, items[0]);
    return plim_value_kind(item) == PLIM_VALUE_FAILED ? item : read_items(reader, now, &item, 1);
  }
  plim_value *shaped = malloc(count * sizeof *shaped), made = failed;
  if (!shaped) return fail_memory(reader);
  for (size_t i = 0; i < count; i++)
    if (plim_value_kind(shaped[i] = reshape(reader, items[i])) == PLIM_VALUE_FAILED) goto out;
  made = read_items(reader, now, shaped, count);
out:
  free(shaped);
  return made;
}
