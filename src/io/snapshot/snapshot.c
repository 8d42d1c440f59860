#include "snapshot.h"

#include <stdio.h>
#include <string.h>

#include "snapshot_reader.h"

static const char record_hint[] =
    "record one with torch.cuda.memory._record_memory_history(context=\"all\", stacks=\"python\"); "
    "train a few steps; "
    "torch.cuda.memory._dump_snapshot(\"snap.pickle\")";

// ---- what a file looks like -------------------------------------------------------------------

static const struct {
  const char *start;
  uint8_t length;
  const char *what, *hint; // hint NULL: how to record a snapshot
} looks[] = {
    {"PK\3\4", 4, "a zip archive, as torch.save writes checkpoints", NULL},
    {"\x80\2\x8a\x0al\xfc\x9c\x46", 8, "a checkpoint written by an old version of torch.save",
     NULL},
    {"<", 1, "a web page or XML", "download the file itself, not the page about it"},
    {"{\"", 2, "JSON", NULL},
    {"{\n", 2, "JSON", NULL},
    {"\x93NUMPY", 6, "a NumPy array", NULL},
    {"\x89HDF", 4, "an HDF5 file", NULL},
    {"SQLite format 3", 15, "an SQLite database", NULL},
    {"\x7f"
     "ELF",
     4, "a program", NULL},
    {"\x28\xb5\x2f\xfd", 4, "a file compressed with zstd", "decompress it first: zstd -d"},
    {"BZh", 3, "a file compressed with bzip2", "decompress it first: bunzip2"},
    {"\x1f\x8b", 2, "a file compressed twice with gzip", "decompress it first: gunzip"},
    {"\xfd"
     "7zXZ",
     5, "a file compressed twice with xz", "decompress it first: unxz"},
};

static bool is_text(const uint8_t *bytes, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (bytes[i] == 0x7f || (bytes[i] < ' ' && !strchr("\t\n\r\f", bytes[i])) || bytes[i] == 0)
      return false;
  return true;
}

// Pickles of protocol 2 and later start with PROTO, older ones with a container.
static bool may_be_pickle(const uint8_t *bytes, size_t length) {
  return length && (bytes[0] == 0x80 || memchr("}](", bytes[0], 3));
}

static plim_err fail_look(plim_error *error, const char *what, const char *hint) {
  plim_fail(error, PLIM_ERR_PARSE, "this is %s, not a memory snapshot", what);
  plim_error_at(error, 0);
  plim_error_hint(error, "%s", hint ? hint : record_hint);
  return PLIM_ERR_PARSE;
}

static plim_err check_start(plim_input *input, plim_error *error) {
  enum { LOOK_AT = 64 };
  while (!input->at_end && input->end - input->at < LOOK_AT) {
    plim_err failed = plim_input_fill(input, error);
    if (failed) return failed;
  }
  const uint8_t *bytes = input->at;
  size_t length = (size_t)(input->end - bytes);
  if (length > LOOK_AT) length = LOOK_AT;
  if (length == 0) return fail_look(error, "an empty file", NULL);
  for (size_t i = 0; i < sizeof looks / sizeof *looks; i++)
    if (length >= looks[i].length && memcmp(bytes, looks[i].start, looks[i].length) == 0)
      return fail_look(error, looks[i].what, looks[i].hint);
  if (length > 9 && bytes[8] == '{' && bytes[9] == '"')
    return fail_look(error, "a safetensors file", NULL);
  if (may_be_pickle(bytes, length)) return PLIM_OK;
  return fail_look(error, is_text(bytes, length) ? "text" : "binary data of an unknown kind", NULL);
}

// ---- top level ------------------------------------------------------------------------------

typedef struct {
  bool has_segments, has_traces, has_host_traces;
  plim_value segments, traces, annotations, settings;
} top_level;

// Very old snapshots consist only of the list of segments.
static bool is_segment_list(const plim_reader *reader, plim_value value) {
  size_t count;
  plim_value blocks;
  if (plim_value_kind(value) != PLIM_VALUE_LIST) return false;
  const plim_value *items = plim_pickle_items(&reader->pickle, value, &count);
  return count && plim_pickle_get(&reader->pickle, items[0], WORD_blocks, &blocks);
}

static bool is_list(plim_value value) {
  unsigned kind = plim_value_kind(value);
  return kind == PLIM_VALUE_LIST || kind == PLIM_VALUE_NEW_LIST || kind == PLIM_VALUE_EMPTY_LIST;
}

// Describes a dict by its first keys, for users who passed the wrong file.
static void describe_dict(const plim_reader *reader, plim_value dict, char *out, size_t room) {
  size_t count, used = 0;
  const plim_value *pairs = plim_pickle_items(&reader->pickle, dict, &count);
  for (size_t i = 0; i < count && i < 6 && used < room; i += 2) {
    if (plim_value_kind(pairs[i]) != PLIM_VALUE_STRING) continue;
    uint32_t key = (uint32_t)plim_value_payload(pairs[i]);
    used += (size_t)snprintf(out + used, room - used, "%s'%.30s'", used ? ", " : " with the keys ",
                             plim_strings_text(&reader->pickle.strings, key));
  }
}

static bool fail_top(plim_reader *reader, plim_value value) {
  char what[160] = "";
  unsigned kind = plim_value_kind(value);
  if (kind == PLIM_VALUE_DICT) describe_dict(reader, value, what, sizeof what);
  bool is_dict = kind == PLIM_VALUE_DICT || kind == PLIM_VALUE_NEW_DICT;
  plim_pickle_fail(
      &reader->pickle, PLIM_ERR_PARSE,
      "this pickle contains a %s%s, not a memory snapshot: it has no segments and no device_traces",
      is_dict          ? "dict"
      : is_list(value) ? "list"
                       : "value",
      what);
  plim_error_hint(reader->pickle.error, "%s", record_hint);
  return false;
}

static bool find_top(plim_reader *reader, plim_value value, top_level *top) {
  const plim_pickle *pickle = &reader->pickle;
  plim_value nothing = plim_value_make(PLIM_VALUE_EMPTY_LIST, 0), host;
  *top = (top_level){.segments = nothing, .traces = nothing, .annotations = nothing};
  if (is_segment_list(reader, value)) {
    top->segments = value;
    return top->has_segments = true;
  }
  top->has_segments = plim_pickle_get(pickle, value, WORD_segments, &top->segments);
  top->has_traces = plim_pickle_get(pickle, value, WORD_device_traces, &top->traces);
  if ((!top->has_segments && !top->has_traces) || !is_list(top->segments) || !is_list(top->traces))
    return fail_top(reader, value);
  plim_pickle_get(pickle, value, WORD_external_annotations, &top->annotations);
  plim_pickle_get(pickle, value, WORD_allocator_settings, &top->settings);
  top->has_host_traces =
      plim_pickle_get(pickle, value, WORD_host_traces, &host) && !plim_value_is_empty(host);
  return true;
}

// ---- devices --------------------------------------------------------------------------------

static bool fail_memory(plim_reader *reader) {
  plim_pickle_fail(&reader->pickle, PLIM_ERR_NOMEM, "out of memory");
  return false;
}

// A device's list of entries; NULL if it is empty.
static const device_trace *trace_of(const plim_reader *reader, plim_value list) {
  if (plim_value_kind(list) != VALUE_TRACE) return NULL;
  return &reader->traces.at[plim_value_payload(list)];
}

static bool add_devices(plim_reader *reader, plim_snapshot_info *info, size_t count) {
  while (info->entries_per_device.len < count)
    if (!vec_push(&info->entries_per_device, 0)) return fail_memory(reader);
  info->devices = (uint32_t)info->entries_per_device.len;
  return true;
}

static bool count_devices(plim_reader *reader, const top_level *top, plim_snapshot_info *info) {
  size_t count;
  const plim_value *lists = plim_pickle_items(&reader->pickle, top->traces, &count);
  if (count > PLIM_SNAPSHOT_MAX_DEVICES) {
    plim_pickle_fail(&reader->pickle, PLIM_ERR_PARSE, "device_traces has %zu devices", count);
    return false;
  }
  if (!add_devices(reader, info, count)) return false;
  for (size_t i = 0; i < count; i++) {
    const device_trace *list = trace_of(reader, lists[i]);
    if (list) info->entries_per_device.at[i] = list->entries;
    else if (!plim_value_is_empty(lists[i])) {
      plim_pickle_fail(&reader->pickle, PLIM_ERR_PARSE,
                       "device_traces[%zu] is not a list of trace entries", i);
      return false;
    }
  }
  const plim_value *segments = plim_pickle_items(&reader->pickle, top->segments, &count);
  for (size_t i = 0; i < count; i++) {
    uint32_t device;
    if (!plim_reader_segment_device(reader, segments[i], &device)) return false;
    if (!add_devices(reader, info, (size_t)device + 1)) return false;
  }
  return true;
}

// The device of a snapshot without entries: the lowest one that has a segment, or 0.
static uint32_t device_of_layout(plim_reader *reader, plim_value segments) {
  size_t count;
  const plim_value *items = plim_pickle_items(&reader->pickle, segments, &count);
  uint32_t lowest = PLIM_NO_ID, device;
  for (size_t i = 0; i < count; i++)
    if (plim_reader_segment_device(reader, items[i], &device) && device < lowest) lowest = device;
  return lowest == PLIM_NO_ID ? 0 : lowest;
}

static bool choose_device(plim_reader *reader, const top_level *top, const plim_snapshot_info *info,
                          int wanted, uint32_t *device) {
  if (wanted >= 0 && (uint32_t)wanted >= info->devices) {
    plim_pickle_fail(&reader->pickle, PLIM_ERR_ARGUMENT, "device %d is not in this snapshot",
                     wanted);
    plim_error_at(reader->pickle.error, PLIM_UNKNOWN);
    if (info->devices == 1) plim_error_hint(reader->pickle.error, "it has only device 0");
    else if (info->devices)
      plim_error_hint(reader->pickle.error, "it has devices 0 to %lu",
                      (unsigned long)info->devices - 1);
    return false;
  }
  *device = (uint32_t)wanted;
  if (wanted >= 0) return true;
  uint64_t most = 0;
  for (uint32_t i = 0; i < info->devices; i++) {
    if (info->entries_per_device.at[i] <= most) continue;
    most = info->entries_per_device.at[i];
    *device = i;
  }
  if (most == 0) *device = device_of_layout(reader, top->segments);
  return true;
}

// ---- the chosen device's events -----------------------------------------------------------------

// Removes the streams and pools of other devices: both tables are rebuilt from the remaining events.
static bool renumber(plim_reader *reader) {
  plim_trace *trace = reader->trace, old = *trace;
  memset(&trace->streams, 0, sizeof trace->streams);
  memset(&trace->pools, 0, sizeof trace->pools);
  bool ok = vec_push(&trace->pools, (plim_pool_id){0, 0});
  for (size_t i = 0; ok && i < trace->events.len; i++) {
    plim_event *event = &trace->events.at[i];
    uint32_t stream = plim_trace_stream(trace, old.streams.at[event->stream]);
    uint32_t pool = plim_trace_pool(trace, old.pools.at[event->pool]);
    ok = stream != UINT32_MAX && pool != UINT32_MAX;
    event->stream = (uint16_t)stream;
    event->pool = (uint8_t)pool;
  }
  vec_free(&old.streams);
  vec_free(&old.pools);
  return ok || fail_memory(reader);
}

static bool keep_events(plim_reader *reader, const device_trace *list) {
  plim_trace *trace = reader->trace;
  device_trace none = {0};
  if (!list) list = &none;
  bool drops_some = list->count < trace->events.len;
  if (list->count && list->first)
    memmove(trace->events.at, trace->events.at + list->first,
            list->count * sizeof *trace->events.at);
  trace->events.len = list->count;
  trace->entries = list->entries;
  return !drops_some || renumber(reader);
}

static void report_ignored(const plim_reader *reader, const device_trace *list,
                           plim_snapshot_info *info) {
  if (!list) return;
  info->annotate_entries = list->annotate;
  info->unknown_entries = list->unknown;
  if (list->unknown && list->first_unknown != PLIM_NO_ID)
    snprintf(info->unknown_action, sizeof info->unknown_action, "%s",
             plim_strings_text(&reader->pickle.strings, list->first_unknown));
}

static const plim_layout_segment *segment_at(const plim_trace *trace, uint64_t addr) {
  size_t low = 0, high = trace->layout.len; // the last segment that starts at or below addr
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (trace->layout.at[middle].addr <= addr) low = middle + 1;
    else high = middle;
  }
  if (low == 0) return NULL;
  const plim_layout_segment *segment = &trace->layout.at[low - 1];
  return addr - segment->addr < segment->bytes ? segment : NULL;
}

// Entries of older versions have no pool, but the segment that contains their address has one if it still exists at the
// end. Going backwards, an address belongs to that segment until the segment_alloc that created it; before that it
// belonged to another segment.
static bool pools_from_layout(plim_reader *reader, plim_snapshot_info *info) {
  plim_trace *trace = reader->trace;
  bool has_private = false;
  for (size_t i = 0; i < trace->layout.len; i++) has_private |= trace->layout.at[i].pool != 0;
  if (!has_private) return true;
  bool *is_made = calloc(trace->layout.len, sizeof *is_made);
  if (!is_made) return fail_memory(reader);
  for (size_t i = trace->events.len; i-- > 0;) {
    plim_event *event = &trace->events.at[i];
    bool has_place = event->action != PLIM_EV_OOM && event->action != PLIM_EV_SNAPSHOT;
    const plim_layout_segment *segment = has_place ? segment_at(trace, event->addr) : NULL;
    if (!segment || is_made[segment - trace->layout.at]) continue;
    event->pool = segment->pool;
    is_made[segment - trace->layout.at] = event->action == PLIM_EV_SEGMENT_ALLOC;
  }
  free(is_made);
  info->pools_from_layout = true;
  return true;
}

// ---- reading --------------------------------------------------------------------------------

static bool intern_words(plim_reader *reader) {
#define WORD_TEXT(word) {sizeof #word - 1, #word},
  static const struct {
    uint8_t length;
    char text[40]; // with padding, because the hash reads ahead
  } words[] = {PLIM_WORDS(WORD_TEXT)};
  for (uint32_t i = 0; i < WORD_COUNT; i++)
    if (plim_strings_add(&reader->pickle.strings, (const uint8_t *)words[i].text,
                         words[i].length) != i)
      return fail_memory(reader);
  return true;
}

static bool build_trace(plim_reader *reader, plim_value value, int wanted,
                        plim_snapshot_info *info) {
  top_level top;
  uint32_t device;
  if (!find_top(reader, value, &top) || !count_devices(reader, &top, info) ||
      !choose_device(reader, &top, info, wanted, &device))
    return false;
  size_t count;
  const plim_value *lists = plim_pickle_items(&reader->pickle, top.traces, &count);
  const device_trace *list = device < count ? trace_of(reader, lists[device]) : NULL;
  info->has_host_traces = top.has_host_traces;
  reader->trace->device = device;
  report_ignored(reader, list, info);
  if (!keep_events(reader, list)) return false;
  if (top.has_segments && !plim_reader_layout(reader, top.segments, device)) return false;
  if (!plim_reader_annotations(reader, top.annotations, device)) return false;
  if (!plim_reader_settings(reader, top.settings)) return false;
  return reader->has_pool_ids || pools_from_layout(reader, info);
}

static plim_err read_pickle(plim_reader *reader, int device, plim_snapshot_info *info) {
  plim_pickle *pickle = &reader->pickle;
  plim_input *input = pickle->input;
  plim_value value;
  plim_err failed = check_start(input, pickle->error);
  if (failed) return failed;
  if (!intern_words(reader)) return pickle->failed;
  if ((failed = plim_pickle_read(pickle, &value))) return failed;
  info->packing = input->packing;
  info->protocol = pickle->protocol;
  info->bytes = plim_input_offset(input);
  if ((failed = plim_input_finish(input, pickle->error))) return failed;
  plim_pickle_trim(pickle);
  return build_trace(reader, value, device, info) ? PLIM_OK : pickle->failed;
}

static void clear_reader(plim_reader *reader) {
  plim_pickle_clear(&reader->pickle);
  vec_free(&reader->traces);
  vec_free(&reader->fresh);
  vec_free(&reader->text_of);
  vec_free(&reader->scratch);
  plim_index_clear(&reader->frame_index);
  plim_index_clear(&reader->stack_index);
}

// Reads from an open input and closes it.
static plim_err read_input(plim_input *input, int device, plim_trace *trace,
                           plim_snapshot_info *info, plim_error *error) {
  plim_error ignored_error;
  plim_snapshot_info own_info = {0};
  plim_reader reader = {.trace = trace};
  reader.pickle = (plim_pickle){.input = input,
                                .error = error ? error : &ignored_error,
                                .list = plim_reader_list,
                                .dict = plim_reader_dict};
  reader.pickle.self = &reader;
  plim_err failed = plim_trace_init(trace) ? read_pickle(&reader, device, &own_info)
                                           : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  clear_reader(&reader);
  plim_input_close(input);
  if (failed) plim_trace_clear(trace);
  if (failed || !info) plim_snapshot_info_clear(&own_info);
  if (info) *info = own_info;
  return failed;
}

plim_err plim_snapshot_read(const char *path, int device, plim_trace *trace,
                            plim_snapshot_info *info, plim_error *error) {
  plim_input input;
  *trace = (plim_trace){0};
  if (info) *info = (plim_snapshot_info){0};
  plim_err failed = plim_input_open(&input, path, error);
  if (!failed) failed = read_input(&input, device, trace, info, error);
  if (failed && error) snprintf(error->file, sizeof error->file, "%s", path);
  return failed;
}

plim_err plim_snapshot_read_memory(const void *data, size_t size, int device, plim_trace *trace,
                                   plim_snapshot_info *info, plim_error *error) {
  plim_input input;
  *trace = (plim_trace){0};
  if (info) *info = (plim_snapshot_info){0};
  plim_err failed = plim_input_open_memory(&input, data, size, error);
  return failed ? failed : read_input(&input, device, trace, info, error);
}

void plim_snapshot_info_clear(plim_snapshot_info *info) {
  if (!info) return;
  vec_free(&info->entries_per_device);
  *info = (plim_snapshot_info){0};
}
