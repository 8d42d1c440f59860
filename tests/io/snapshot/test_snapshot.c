#include <lzma.h>
#include <stdlib.h>
#include <zlib.h>

#include "snapshot.h"
#include "test.h"

#ifndef TEST_ROOT
#define TEST_ROOT "tests"
#endif
#ifndef TRUTH_DIR
#define TRUTH_DIR TEST_ROOT "/truth"
#endif

typedef vec(uint8_t) bytes;

// ---- pickles as text ----------------------------------------------------------------------------

static void add(bytes *out, uint8_t byte) {
  if (!vec_push(out, byte)) abort();
}

static void add_number(bytes *out, long long number) {
  if (number >= 0 && number < 256) {
    add(out, 'K'), add(out, (uint8_t)number);
    return;
  }
  add(out, 0x8a), add(out, 8);
  for (int i = 0; i < 8; i++) add(out, (uint8_t)((unsigned long long)number >> 8 * i));
}

static const char *add_text(bytes *out, const char *text) { // 'text' -> SHORT_BINUNICODE
  const char *end = strchr(text, '\'');
  add(out, 0x8c), add(out, (uint8_t)(end - text));
  while (text < end) add(out, (uint8_t)*text++);
  return end + 1;
}

static const char *add_hex(bytes *out, const char *text) { // <8a09 ff>
  for (; *text != '>'; text++) {
    if (*text == ' ') continue;
    char pair[3] = {text[0], text[1], 0};
    add(out, (uint8_t)strtoul(pair, NULL, 16));
    text++;
  }
  return text + 1;
}

// Assembles a pickle: letters are opcodes, 'x' is a string, #5 a number, <94> bytes in hex; spaces only separate.
static bytes assemble(const char *source) {
  bytes out = {0};
  while (*source) {
    char c = *source++;
    if (c == '\'') source = add_text(&out, source);
    else if (c == '<') source = add_hex(&out, source);
    else if (c == '#') add_number(&out, strtoll(source, (char **)(uintptr_t)&source, 10));
    else if (c != ' ') add(&out, (uint8_t)c);
  }
  return out;
}

typedef struct {
  plim_err failed;
  plim_trace trace;
  plim_snapshot_info info;
  plim_error error;
} result;

static result read_bytes(const bytes *pickle, int device) {
  result got = {0};
  // An exact copy, so that a sanitizer sees any byte read beyond it.
  uint8_t *exact = malloc(pickle->len ? pickle->len : 1);
  if (!exact) abort();
  if (pickle->len) memcpy(exact, pickle->at, pickle->len);
  got.failed =
      plim_snapshot_read_memory(exact, pickle->len, device, &got.trace, &got.info, &got.error);
  free(exact);
  return got;
}

static result read_text_of(const char *source, int device) {
  bytes pickle = assemble(source);
  result got = read_bytes(&pickle, device);
  vec_free(&pickle);
  return got;
}

static result read_text(const char *source) { return read_text_of(source, -1); }

static void drop(result *got) {
  plim_trace_clear(&got->trace);
  plim_snapshot_info_clear(&got->info);
}

#define CHECK_READ(got)                                                                            \
  CHECK((got).failed == PLIM_OK, "%s at byte %" PRIu64, (got).error.message, (got).error.byte)

// The message must contain `part`, and the error must be at this byte.
#define CHECK_FAILS(source, want_code, want_byte, part)                                            \
  do {                                                                                             \
    result bad = read_text(source);                                                                \
    CHECK(bad.failed == (want_code), "code %d (%s) for %s", bad.failed, bad.error.message,         \
          source);                                                                                 \
    CHECK(bad.error.byte == (want_byte), "byte %" PRIu64 " (%s) for %s", bad.error.byte,           \
          bad.error.message, source);                                                              \
    CHECK(strstr(bad.error.message, part), "\"%s\" for %s", bad.error.message, source);            \
    CHECK(bad.trace.text.at == NULL && bad.info.entries_per_device.at == NULL, "not empty");       \
  } while (0)

// A snapshot with one device and these entries or other items.
#define TRACE(entries) "<8004> } ( 'device_traces' ] ] ( " entries " e a u ."

// ---- well-formed pickles --------------------------------------------------------------------

TEST(an_entry_has_all_its_fields) {
  result got =
      read_text(TRACE("} ( 'action' 'alloc' 'addr' #140315608481792 'size' #32768000 'stream' #7 "
                      "'time_us' #1794704777474973 'compile_context' 'N/A' 'pool_id' #2 #5 <86> "
                      "'frames' ] ( } ( 'name' 'f' 'filename' 'a.py' 'line' #12 u "
                      "} ( 'filename' 'b.py' 'line' #9 'name' 'g' u e u"));
  CHECK_READ(got);
  CHECK_U64(got.trace.events.len, 1);
  plim_event event = got.trace.events.at[0];
  CHECK_U64(event.action, PLIM_EV_ALLOC);
  CHECK_U64(event.addr, 140315608481792);
  CHECK_U64(event.bytes, 32768000);
  CHECK_U64(event.time_us, 1794704777474973);
  CHECK_U64(got.trace.streams.at[event.stream], 7);
  CHECK_U64(got.trace.pools.at[event.pool].owner, 2);
  CHECK_U64(got.trace.pools.at[event.pool].id, 5);
  plim_stack stack = got.trace.stacks.at[event.stack];
  CHECK_U64(stack.count, 2);
  plim_frame outer = got.trace.frames.at[got.trace.stack_frames.at[stack.first + 1]];
  CHECK_STR(plim_trace_text(&got.trace, outer.file), "b.py");
  CHECK_STR(plim_trace_text(&got.trace, outer.name), "g");
  CHECK_U64(outer.line, 9);
  CHECK_U64(got.info.protocol, 4);
  drop(&got);
}

TEST(integers_of_every_width_and_sign) {
  static const struct {
    const char *code;
    uint64_t value;
  } cases[] = {
      {"K<ff>", 255},
      {"M<34 12>", 0x1234},
      {"J<78 56 34 12>", 0x12345678},
      {"J<ff ff ff ff>", UINT64_MAX},
      {"<8a 00>", 0},
      {"<8a 01 80>", (uint64_t)-128},
      {"<8a 07 ff ff ff ff ff ff 7f>", 0x7fffffffffffff},
      {"<8a 07 00 00 00 00 00 00 80>", 0xff80000000000000},
      {"<8a 08 ff ff ff ff ff ff ff 7f>", INT64_MAX},
      {"<8a 08 00 00 00 00 00 00 00 80>", UINT64_C(1) << 63},
      {"<8a 09 01 00 00 00 00 00 00 80 00>", (UINT64_C(1) << 63) + 1}, // other readers failed on it
      {"<8a 09 ff ff ff ff ff ff ff ff 00>", UINT64_MAX},
      {"<8a 09 05 00 00 00 00 00 00 00 00>", 5},
      {"<8a 09 fe ff ff ff ff ff ff ff ff>", (uint64_t)-2},
      {"<8b 02 00 00 00 34 12>", 0x1234},
      {"<8b 09 00 00 00 01 00 00 00 00 00 00 80 00>", (UINT64_C(1) << 63) + 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char source[256];
    snprintf(source, sizeof source, TRACE("} ( 'action' 'alloc' 'time_us' %s u"), cases[i].code);
    result got = read_text(source);
    CHECK_READ(got);
    CHECK(got.trace.events.at[0].time_us == cases[i].value, "%s is %" PRIu64, cases[i].code,
          got.trace.events.at[0].time_us);
    drop(&got);
  }
}

TEST(every_opcode_that_holds_data_is_read) {
  // The values of unknown keys are one of each kind; the entry after them shows that all were skipped correctly.
  result got = read_text(
      "<8005> <95 ff 00 00 00 00 00 00 00> } ( 'a' N 'b' <88> 'c' <89> 'd' G<3f f8 00 00 00 00 00 "
      "00> "
      "'e' ) 'f' #1 <85> 'g' #1 #2 #3 <87> 'h' ( #1 #2 #3 #4 t 'i' ( 'k' #1 d 'j' ( #1 #2 l "
      "'k' X<02 00 00 00>ab 'l' <8d 01 00 00 00 00 00 00 00>x 'm' C<01>x 'n' B<01 00 00 00>x "
      "'o' U<01>x 'p' T<01 00 00 00>x 'q' <8e 01 00 00 00 00 00 00 00>x 'r' #1 2 0 "
      "'s' #1 ( #5 #6 1 't' } 'x' #1 s 'u' ] #1 a 'v' ] <94> 'w' h<00> "
      "'y' ] q<01> 'z' ] r<02 00 00 00> 'aa' j<02 00 00 00> 'ab' ( 0 N "
      "'device_traces' ] ] } 'action' 'alloc' s a a u .");
  CHECK_READ(got);
  CHECK_U64(got.trace.entries, 1);
  CHECK_U64(got.info.protocol, 5);
  drop(&got);
}

TEST(long_strings_cross_the_buffer) {
  bytes pickle = assemble("<8004> } ( 'big' X<40 0d 03 00>"); // 200,000 bytes
  for (int i = 0; i < 200000; i++) add(&pickle, 'x');
  bytes rest = assemble("'bigger' <8d 20 a1 07 00 00 00 00 00>"); // 500,000
  for (size_t i = 0; i < rest.len; i++) add(&pickle, rest.at[i]);
  for (int i = 0; i < 500000; i++) add(&pickle, 'y');
  size_t before = pickle.len;
  bytes tail = assemble("'device_traces' ] u . ");
  for (size_t i = 0; i < tail.len; i++) add(&pickle, tail.at[i]);
  result got = read_bytes(&pickle, -1);
  CHECK_READ(got);
  drop(&got);
  pickle.at[before] = 'c'; // the offset after them must be right
  got = read_bytes(&pickle, -1);
  CHECK_U64(got.error.byte, before);
  pickle.len = before - 1;
  got = read_bytes(&pickle, -1);
  CHECK(strstr(got.error.message, "truncated"), "%s", got.error.message);
  vec_free(&pickle), vec_free(&rest), vec_free(&tail);
}

TEST(frames_and_stacks_are_shared_and_interned) {
  // Entry 1 creates list m3 of frames m1 and m2; entry 2 refers to it; 3 contains the same list again;
  // 4 and 5 share an empty list; 6 has one frame.
  result got = read_text(TRACE(
      "} ( 'action' <94> 'alloc' 'frames' ] <94> ( } <94> ( 'filename' 'a' 'line' #1 'name' 'f' u "
      "} <94> ( 'filename' 'b' 'line' #2 'name' 'g' u e u "
      "} ( h<00> 'alloc' 'frames' h<01> u "
      "} ( h<00> 'alloc' 'frames' ] ( h<02> } ( 'name' 'g' 'line' #2 'filename' 'b' u e u "
      "} ( h<00> 'alloc' 'frames' ] <94> u "
      "} ( h<00> 'alloc' 'frames' h<04> u "
      "} ( h<00> 'alloc' 'frames' ] h<03> a u"));
  CHECK_READ(got);
  const plim_event *events = got.trace.events.at;
  CHECK_U64(got.trace.events.len, 6);
  CHECK_U64(got.trace.frames.len, 2);
  CHECK_U64(got.trace.stacks.len, 3);
  CHECK(events[0].stack == 1 && events[1].stack == 1 && events[2].stack == 1, "not one stack");
  CHECK(events[3].stack == 0 && events[4].stack == 0, "not empty");
  CHECK_U64(got.trace.stacks.at[events[5].stack].count, 1);
  drop(&got);
}

TEST(containers_filled_in_batches_are_whole) {
  // The memoised list of frames grows twice, the trace and one entry once. A dict whose kind is only known from its
  // second batch is an entry too.
  result got =
      read_text("<8002> } 'device_traces' ] ] } 'action' 'alloc' s 'size' #5 s 'frames' ] q<00> "
                "} ( 'filename' 'a' 'line' #1 u a ( } ( 'filename' 'b' 'line' #2 u } ( 'filename' "
                "'c' 'line' #3 u e s a "
                "( } 'size' #6 s 'action' 'alloc' s 'frames' h<00> s e a s .");
  CHECK_READ(got);
  CHECK_U64(got.trace.events.len, 2);
  CHECK_U64(got.trace.events.at[0].bytes, 5);
  CHECK_U64(got.trace.events.at[1].bytes, 6);
  CHECK_U64(got.trace.stacks.at[got.trace.events.at[0].stack].count, 3);
  CHECK_U64(got.trace.events.at[1].stack, got.trace.events.at[0].stack);
  drop(&got);
}

TEST(a_stack_of_thousands_comes_in_batches) {
  bytes pickle = assemble("<8004> } ( 'device_traces' ] ] ( } ( 'action' 'alloc' 'frames' ] <94>");
  for (unsigned i = 0; i < 2500; i++) {
    char frame[64];
    snprintf(frame, sizeof frame, "%s } <94> ( 'filename' 'f' 'line' #%u u",
             i % 1000 ? ""
             : i      ? "e ("
                      : "(",
             i);
    bytes more = assemble(frame);
    for (size_t k = 0; k < more.len; k++) add(&pickle, more.at[k]);
    vec_free(&more);
  }
  bytes rest = assemble("e u } ( 'action' 'alloc' 'frames' h<00> u e a u .");
  for (size_t k = 0; k < rest.len; k++) add(&pickle, rest.at[k]);
  result got = read_bytes(&pickle, -1);
  CHECK_READ(got);
  plim_stack stack = got.trace.stacks.at[got.trace.events.at[0].stack];
  CHECK_U64(stack.count, 2500);
  CHECK_U64(got.trace.frames.at[got.trace.stack_frames.at[stack.first + 2499]].line, 2499);
  CHECK_U64(got.trace.events.at[1].stack, got.trace.events.at[0].stack); // the memo was updated
  drop(&got);
  vec_free(&pickle), vec_free(&rest);
}

TEST(frees_are_joined_but_not_across_devices) {
  result got = read_text_of(
      "<8004> } ( 'device_traces' ] ( ] ( } ( 'action' 'free_requested' 'addr' #9 u "
      "} ( 'action' 'free_completed' 'addr' #9 u } ( 'action' 'free_requested' 'addr' #8 u e "
      "] ( } ( 'action' 'free_completed' 'addr' #8 'stream' #77 u } ( 'action' 'oom' 'device_free' "
      "#3 'size' #512 u e e u .",
      1);
  CHECK_READ(got);
  CHECK_U64(got.info.devices, 2);
  CHECK_U64(got.info.entries_per_device.at[0], 3);
  CHECK_U64(got.trace.device, 1);
  CHECK_U64(got.trace.events.len, 2);
  CHECK_U64(got.trace.events.at[0].action, PLIM_EV_FREE_COMPLETED);
  CHECK_U64(got.trace.streams.at[got.trace.events.at[0].stream], 77);
  CHECK_U64(got.trace.events.at[1].action, PLIM_EV_OOM);
  CHECK_U64(got.trace.events.at[1].addr, 3);
  drop(&got);
  got =
      read_text("<8004> } ( 'device_traces' ] ( ] ( } ( 'action' 'free_requested' 'addr' #9 u "
                "} ( 'action' 'free_completed' 'addr' #9 u e ] } ( 'action' 'snapshot' u a e u .");
  CHECK_READ(got); // chooses the device with the most entries
  CHECK_U64(got.trace.device, 0);
  CHECK_U64(got.trace.entries, 2);
  CHECK_U64(got.trace.events.len, 1);
  CHECK_U64(got.trace.events.at[0].action, PLIM_EV_FREE);
  drop(&got);
}

TEST(unknown_things_are_counted_and_skipped) {
  result got =
      read_text("<8004> } ( 'host_traces' ] ] } ( 'action' 'alloc' 'addr' #1 u a a 'what' ( #1 } t "
                "'device_traces' ] ] ( } ( 'action' 'annotate' 'user_metadata' 'x' u } ( 'action' "
                "'teleport' 'addr' #1 u "
                "} ( 'action' 'alloc' 'new_key' } 'a' ] s u e a u .");
  CHECK_READ(got);
  CHECK(got.info.has_host_traces, "host traces");
  CHECK_U64(got.info.annotate_entries, 1);
  CHECK_U64(got.info.unknown_entries, 1);
  CHECK_STR(got.info.unknown_action, "teleport");
  CHECK_U64(got.trace.entries, 3);
  CHECK_U64(got.trace.events.len, 1);
  drop(&got);
}

#define SEGMENT                                                                                    \
  "} ( 'device' #0 'address' #8192 'total_size' #4096 'stream' #3 'segment_type' 'large' "         \
  "'is_expandable' <88> "

TEST(segments_are_sorted_and_have_their_blocks) {
  result got = read_text(
      "<8004> } ( 'segments' ] ( " SEGMENT "'segment_pool_id' #1 #0 <86> 'blocks' ] ( "
      "} ( 'address' #8192 'size' #1024 'requested_size' #1000 'state' 'active_allocated' u "
      "} ( 'address' #9216 'size' #1024 'requested_size' #7 'state' 'active_pending_free' u "
      "} ( 'address' #10240 'size' #2048 'state' 'inactive' u e u "
      "} ( 'address' #4096 'total_size' #512 'segment_type' 'small' 'blocks' ] u e "
      "'device_traces' ] ] ( } ( 'action' 'alloc' 'addr' #9000 u } ( 'action' 'alloc' 'addr' "
      "#12288 u e a u .");
  CHECK_READ(got);
  CHECK(got.trace.has_layout, "no layout");
  CHECK_U64(got.trace.layout.len, 2);
  CHECK_U64(got.trace.layout.at[0].addr, 4096);
  plim_layout_segment segment = got.trace.layout.at[1];
  CHECK(segment.is_large && segment.is_expandable && !got.trace.layout.at[0].is_large, "flags");
  CHECK_U64(got.trace.streams.at[segment.stream], 3);
  CHECK_U64(segment.block_count, 3);
  const plim_layout_block *blocks = &got.trace.layout_blocks.at[segment.first_block];
  CHECK(blocks[0].state == PLIM_BLOCK_ALLOCATED && blocks[1].state == PLIM_BLOCK_PENDING_FREE &&
            blocks[2].state == PLIM_BLOCK_INACTIVE,
        "states");
  CHECK_U64(blocks[0].requested_bytes, 1000);
  CHECK_U64(blocks[2].requested_bytes, PLIM_UNKNOWN);
  // The entries have no pool_id, so the segment decides.
  CHECK(got.info.pools_from_layout, "pools");
  CHECK_U64(got.trace.pools.at[got.trace.events.at[0].pool].owner, 1);
  CHECK_U64(got.trace.events.at[1].pool, 0); // one byte after the segment
  drop(&got);
}

TEST(the_old_layout_is_read) {
  // A bare list; blocks have no addresses, and the requested size is in the history.
  result got =
      read_text("<8002> ] q<00> } ( 'device' #0 'address' #4096 'total_size' #2048 'blocks' ] ( "
                "} ( 'size' #512 'state' 'active_allocated' 'history' ] } ( 'addr' #1 'real_size' "
                "#300 'frames' "
                "] } ( 'filename' 'a' 'line' #3 'name' 'f' u a u a u "
                "} ( 'size' #512 'state' 'active_awaiting_free' u } ( 'size' #1024 'state' "
                "'inactive' u e u a .");
  CHECK_READ(got);
  CHECK_U64(got.trace.entries, 0);
  CHECK(got.trace.has_layout, "no layout");
  CHECK_U64(got.trace.layout_blocks.len, 3);
  const plim_layout_block *blocks = got.trace.layout_blocks.at;
  CHECK_U64(blocks[0].addr, 4096);
  CHECK_U64(blocks[0].requested_bytes, 300);
  CHECK_U64(blocks[0].stack, 1);
  CHECK_U64(blocks[1].addr, 4608);
  CHECK_U64(blocks[1].state, PLIM_BLOCK_PENDING_FREE);
  CHECK_U64(blocks[2].addr, 5120);
  drop(&got);
}

TEST(settings_and_annotations) {
  result got = read_text(
      "<8004> } ( 'segments' ] 'allocator_settings' } ( 'PYTORCH_ALLOC_CONF' 'a:b' "
      "'max_split_size' "
      "<8a 09 ff ff ff ff ff ff ff ff 00> 'garbage_collection_threshold' G<3f e8 00 00 00 00 00 "
      "00> "
      "'expandable_segments' <88> 'roundup_power2_divisions' } ( '1' #8 '32768' #4 '3' #9 u u "
      "'external_annotations' ] ( } ( 'stage' 'START' 'name' 'step' 'device' #0 'time_us' #7 u "
      "} ( 'stage' 'END' 'name' 'step' 'device' #0 'time_us' #8 u } ( 'stage' 'END' 'device' #1 u "
      "e u .");
  CHECK_READ(got);
  const plim_recorded_settings *settings = &got.trace.settings;
  CHECK(settings->known && settings->has_max_split && settings->has_gc_threshold, "missing");
  CHECK(settings->max_split_bytes == -1 && settings->gc_threshold == 0.75, "values");
  CHECK(settings->has_expandable && settings->expandable && settings->has_divisions, "missing");
  CHECK(settings->divisions[0] == 8 && settings->divisions[15] == 4 && settings->divisions[1] == 0,
        "divisions");
  CHECK_STR(plim_trace_text(&got.trace, settings->conf), "a:b");
  CHECK_U64(got.trace.annotations.len, 2);
  CHECK(!got.trace.annotations.at[0].is_end && got.trace.annotations.at[1].is_end, "stages");
  CHECK_STR(plim_trace_text(&got.trace, got.trace.annotations.at[1].name), "step");
  CHECK_U64(got.trace.entries, 0);
  CHECK_U64(got.info.devices, 0);
  drop(&got);
}

// ---- malformed pickles ----------------------------------------------------------------------

TEST(opcodes_that_build_objects_are_refused) {
  static const uint8_t builders[] = {'P',  'Q',  'R',  'b',  'c',  'i',  'o',  0x81, 0x82, 0x83,
                                     0x84, 0x8f, 0x90, 0x91, 0x92, 0x93, 0x96, 0x97, 0x98};
  for (size_t i = 0; i < sizeof builders; i++) {
    char source[64];
    snprintf(source, sizeof source, "<8004> } ( 'a' <%02x> u .", builders[i]);
    CHECK_FAILS(source, PLIM_ERR_UNSUPPORTED, 7, "would build Python objects");
  }
  CHECK_FAILS("<8004> } c", PLIM_ERR_UNSUPPORTED, 3,
              "(GLOBAL at byte 3), which a snapshot never does; it is refused");
}

TEST(damage_is_reported_with_its_byte) {
  CHECK_FAILS("<8004> } <ff>", PLIM_ERR_PARSE, 3, "0xff");
  CHECK_FAILS("<8006> } .", PLIM_ERR_UNSUPPORTED, 0, "protocol 6");
  CHECK_FAILS("<8002> I01", PLIM_ERR_UNSUPPORTED, 2, "protocol 0");
  CHECK_FAILS("<8004> .", PLIM_ERR_PARSE, 2, "STOP");
  CHECK_FAILS("<8004> 0", PLIM_ERR_PARSE, 2, "POP");
  CHECK_FAILS("<8004> 1", PLIM_ERR_PARSE, 2, "POP_MARK");
  CHECK_FAILS("<8004> #1 ( a", PLIM_ERR_PARSE, 5, "APPEND");
  CHECK_FAILS("<8004> u", PLIM_ERR_PARSE, 2, "SETITEMS");
  CHECK_FAILS("<8004> ( N e", PLIM_ERR_PARSE, 4, "APPENDS");
  CHECK_FAILS("<8004> } ( N u", PLIM_ERR_PARSE, 5, "SETITEMS"); // a key without a value
  CHECK_FAILS("<8004> ( N d", PLIM_ERR_PARSE, 4, "DICT");
  CHECK_FAILS("<8004> } N a", PLIM_ERR_PARSE, 4, "APPEND");
  CHECK_FAILS("<8004> ] N N s", PLIM_ERR_PARSE, 5, "SETITEM");
  CHECK_FAILS("<8004> #3 N a", PLIM_ERR_PARSE, 5, "APPEND");
  CHECK_FAILS("<8004> N <86>", PLIM_ERR_PARSE, 3, "TUPLE2");
  CHECK_FAILS("<8004> <94>", PLIM_ERR_PARSE, 2, "MEMOIZE");
  CHECK_FAILS("<8004> h<00>", PLIM_ERR_PARSE, 2, "memo index 0 is not set");
  CHECK_FAILS("<8004> N <94> j<00 00 00 00> j<01 00 00 00>", PLIM_ERR_PARSE, 9,
              "memo index 1 is not set");
  CHECK_FAILS("<8004> N r<05 00 00 00> h<04>", PLIM_ERR_PARSE, 8, "memo index 4 is not set");
  CHECK_FAILS("<8004> N r<ff ff ff ff>", PLIM_ERR_PARSE, 3, "memo index 4294967295");
  CHECK_FAILS("<8004> <8a 0a 01 02 03 04 05 06 07 08 09 0a>", PLIM_ERR_UNSUPPORTED, 2, "10 bytes");
  CHECK_FAILS("<8004> <8a 09 00 00 00 00 00 00 00 00 01>", PLIM_ERR_UNSUPPORTED, 2, "64 bits");
  CHECK_FAILS("<8004> <8b ff ff ff 7f>", PLIM_ERR_UNSUPPORTED, 2, "2147483647 bytes");
  CHECK_FAILS("<8004> <8d ff ff ff ff ff ff ff ff> x", PLIM_ERR_UNSUPPORTED, 2, "64 MiB");
  CHECK_FAILS("<8004> X<00 00 00 08> x", PLIM_ERR_UNSUPPORTED, 2, "a string of 134217728 bytes");
  CHECK_FAILS("<8004> X<ff ff 00 00> x", PLIM_ERR_PARSE, 2, "truncated");
}

TEST(structures_that_no_snapshot_has_are_refused) {
  CHECK_FAILS("<8004> ] <94> h<00> a", PLIM_ERR_UNSUPPORTED, 6,
              "before its items"); // a list that contains itself
  CHECK_FAILS("<8004> ] <94> ( h<00> e", PLIM_ERR_UNSUPPORTED, 7, "before its items");
  CHECK_FAILS("<8004> } <94> ( 'a' h<00> u", PLIM_ERR_UNSUPPORTED, 10, "before its items");
  CHECK_FAILS("<8004> ] <94> 0 h<00> N a", PLIM_ERR_UNSUPPORTED, 8, "before its items");
  CHECK_FAILS("<8004> ] 2", PLIM_ERR_UNSUPPORTED, 3, "before its items");
  CHECK_FAILS("<8004> ] <94 94>", PLIM_ERR_UNSUPPORTED, 4, "before its items");
  CHECK_FAILS("<8004> ] ( } <94> ( 'action' 'alloc' u h<00> e", PLIM_ERR_UNSUPPORTED, 25, "twice");
}

TEST(fields_of_the_wrong_kind_are_reported) {
  CHECK_FAILS("<8004> } ( 'action' #1 u", PLIM_ERR_PARSE, 14, "action");
  CHECK_FAILS("<8004> } ( 'action' 'oom' 'size' #-1 u", PLIM_ERR_PARSE, 33, "size is -1");
  CHECK_FAILS("<8004> } ( 'action' 'oom' 'size' N u", PLIM_ERR_PARSE, 24, "size is not an integer");
  CHECK_FAILS("<8004> } ( 'action' 'alloc' 'size' #2 'addr' #-2 u", PLIM_ERR_PARSE, 43,
              "address space");
  CHECK_FAILS("<8004> } ( 'action' 'oom' 'pool_id' #1 u", PLIM_ERR_PARSE, 28, "pool id");
  CHECK_FAILS("<8004> } ( 'segments' ] #1 a u .", PLIM_ERR_PARSE, 19, "segment is not a dict");
  CHECK_FAILS("<8004> } ( 'segments' ] } 'device' #0 s a u .", PLIM_ERR_PARSE, 26, "no address");
  CHECK_FAILS("<8004> } ( 'segments' ] } 'device' #-1 s a u .", PLIM_ERR_PARSE, 34, "device");
  CHECK_FAILS("<8004> } ( 'segments' ] } ( 'address' #-9 'total_size' #10 u a u .", PLIM_ERR_PARSE,
              50, "address space");
  CHECK_FAILS("<8004> } ( 'device_traces' ] #1 a u .", PLIM_ERR_PARSE, 24, "device_traces[0]");
}

TEST(too_many_streams_or_pools_are_reported) {
  for (int is_pool = 0; is_pool < 2; is_pool++) {
    bytes pickle = assemble("<8004> } ( 'device_traces' ] ] ( ");
    for (unsigned i = 0; i < (is_pool ? 300u : 66000u); i++) {
      char entry[96];
      snprintf(entry, sizeof entry,
               is_pool ? "} ( 'action' 'oom' 'pool_id' #1 #%u <86> u"
                       : "} ( 'action' 'oom' 'stream' #%u u",
               i);
      bytes more = assemble(entry);
      for (size_t k = 0; k < more.len; k++) add(&pickle, more.at[k]);
      vec_free(&more);
    }
    result got = read_bytes(&pickle, -1);
    CHECK(got.failed == PLIM_ERR_UNSUPPORTED, "%s", got.error.message);
    CHECK_STR(got.error.message, is_pool ? "the snapshot has more than 255 memory pools"
                                         : "the snapshot has more than 65535 streams");
    vec_free(&pickle);
  }
}

static const char whole[] =
    "<8004> <95 10 00 00 00 00 00 00 00> } <94> ( 'segments' <94> ] <94> ( " SEGMENT
    "'blocks' ] } ( 'size' #1024 'state' 'inactive' u a u e "
    "'device_traces' ] ] ( } ( 'action' <94> X<05 00 00 00>alloc <94> 'addr' <94> #4096 'size' "
    "M<00 02> 'frames' ] } ( 'filename' 'a.py' "
    "'line' J<01 00 00 00> 'name' 'f' u a u } ( j<03 00 00 00> 'free_requested' h<05> #4096 "
    "'pool_id' #0 #0 <86> u e a "
    "'allocator_settings' } 'garbage_collection_threshold' G<3f f8 00 00 00 00 00 00> s u .";

TEST(a_pickle_cut_anywhere_fails) {
  bytes pickle = assemble(whole);
  result got = read_bytes(&pickle, -1);
  CHECK_READ(got);
  CHECK_U64(got.trace.events.len, 2);
  drop(&got);
  size_t length = pickle.len;
  for (pickle.len = 0; pickle.len < length; pickle.len++) {
    got = read_bytes(&pickle, -1);
    CHECK(got.failed == PLIM_ERR_PARSE, "%zu bytes: code %d", pickle.len, got.failed);
    CHECK(got.error.byte <= pickle.len, "%zu bytes: at %" PRIu64, pickle.len, got.error.byte);
    if (pickle.len > 0)
      CHECK(strstr(got.error.message, "truncated"), "%zu: %s", pickle.len, got.error.message);
  }
  vec_free(&pickle);
}

TEST(every_single_byte_changed_does_no_harm) {
  static const uint8_t values[] = {0,   1,   0x7f, 0xff, '.', '(', 'e',  'u',
                                   'a', 's', 'h',  '2',  '0', 'N', 0x85, 0x94};
  bytes pickle = assemble(whole);
  int read = 0, failed = 0;
  for (size_t i = 0; i < pickle.len; i++)
    for (size_t k = 0; k < sizeof values; k++) {
      uint8_t was = pickle.at[i];
      pickle.at[i] = values[k];
      result got = read_bytes(&pickle, -1);
      if (got.failed) failed++;
      else read++;
      drop(&got);
      pickle.at[i] = was;
    }
  CHECK(read > 0 && failed > 0, "%d read, %d failed", read, failed);
  vec_free(&pickle);
}

TEST(other_files_are_named) {
  static const struct {
    const char *start, *what;
  } cases[] = {
      {"", "an empty file"},
      {"PK\3\4rest of a checkpoint", "zip archive"},
      {"<!DOCTYPE html><html>", "web page"},
      {"{\"a\": 1}", "JSON"},
      {"import torch\nx = 1\n", "text"},
      {"\x28\xb5\x2f\xfd", "zstd"},
      {"BZh9", "bzip2"},
      {"\x10\x20\x30", "binary data"},
      {"\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.", "old version of torch.save"},
      {"\x80\x02}.", "a dict"},
      {"\x80\x02].", "a list"},
      {"\x80\x02}U\1aK\1s.", "with the keys 'a'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    plim_trace trace;
    plim_error error = {0};
    plim_err failed =
        plim_snapshot_read_memory(cases[i].start, strlen(cases[i].start), -1, &trace, NULL, &error);
    CHECK(failed == PLIM_ERR_PARSE, "%s: %d", cases[i].what, failed);
    CHECK(strstr(error.message, cases[i].what), "want %s: %s", cases[i].what, error.message);
    CHECK(error.hint[0], "no hint for %s", cases[i].what);
  }
}

TEST(a_missing_device_is_reported) {
  result got = read_text_of(whole, 3);
  CHECK(got.failed == PLIM_ERR_ARGUMENT, "%d", got.failed);
  CHECK_STR(got.error.message, "device 3 is not in this snapshot");
  CHECK_STR(got.error.hint, "it has only device 0");
}

TEST(memory_stays_in_proportion_to_hostile_input) {
  // A million one-byte opcodes each. If they used too much memory, the sanitizer or the kernel would end this test.
  static const uint8_t spam[] = {'(', 'N', ']', '}', ')', 0x94, 0x85, '2'};
  for (size_t i = 0; i < sizeof spam; i++) {
    bytes pickle = assemble("<8004> N");
    for (int k = 0; k < 1000000; k++) add(&pickle, spam[i]);
    result got = read_bytes(&pickle, -1);
    CHECK(got.failed == PLIM_ERR_PARSE, "opcode 0x%02x: %d", spam[i], got.failed);
    vec_free(&pickle);
  }
}

TEST(items_that_belong_to_no_list_are_bounded) {
  bytes pickle = assemble("<8004> (");
  for (int k = 0; k < 20000000; k++) add(&pickle, 'N');
  result got = read_bytes(&pickle, -1);
  CHECK(got.failed == PLIM_ERR_UNSUPPORTED && got.error.byte < 10000000, "%s at %llu",
        got.error.message, (unsigned long long)got.error.byte);
  vec_free(&pickle);
}

// ---- packed -------------------------------------------------------------------------------------

TEST(packed_snapshots_are_unpacked) {
  bytes pickle = assemble(whole);
  uint8_t gz[4096];
  z_stream stream = {0};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = pickle.at, stream.avail_in = (uInt)pickle.len;
  stream.next_out = gz, stream.avail_out = sizeof gz;
  CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END, "deflate");
  bytes packed = {gz, stream.total_out, sizeof gz};
  deflateEnd(&stream);
  result got = read_bytes(&packed, -1);
  CHECK_READ(got);
  CHECK_U64(got.info.packing, PLIM_PACKING_GZIP);
  CHECK_U64(got.info.bytes, pickle.len);
  drop(&got);

  uint8_t xz[4096];
  size_t used = 0;
  lzma_easy_buffer_encode(6, LZMA_CHECK_CRC32, NULL, pickle.at, pickle.len, xz, &used, sizeof xz);
  packed = (bytes){xz, used, sizeof xz};
  got = read_bytes(&packed, -1);
  CHECK_READ(got);
  CHECK_U64(got.info.packing, PLIM_PACKING_XZ);
  drop(&got);
  for (packed.len = 6; packed.len < used; packed.len++) {
    got = read_bytes(&packed, -1);
    CHECK(got.failed == PLIM_ERR_PARSE, "%zu bytes: %d", packed.len, got.failed);
  }
  vec_free(&pickle);
}

// ---- real files -----------------------------------------------------------------------------

TEST(a_recorded_snapshot_has_what_python_sees) {
  plim_trace trace;
  plim_snapshot_info info;
  plim_error error;
  plim_err failed =
      plim_snapshot_read(TRUTH_DIR "/snapshots/stacks-tiny.pickle.xz", -1, &trace, &info, &error);
  if (failed == PLIM_ERR_IO) SKIP("%s: %s", error.file, error.message);
  CHECK(failed == PLIM_OK, "%s", error.message);
  CHECK_U64(trace.entries, 5336);
  CHECK_U64(trace.events.len, 3571); // 1765 frees are joined pairs
  CHECK_U64(trace.layout.len, 39);
  CHECK_U64(trace.annotations.len, 12);
  CHECK_U64(trace.stacks.len, 95);
  CHECK_U64(info.bytes, 495771);
  CHECK_U64(info.devices, 1);
  plim_event first = trace.events.at[0];
  CHECK_U64(first.action, PLIM_EV_SEGMENT_ALLOC);
  CHECK_U64(first.addr, 140315608481792);
  CHECK_U64(first.time_us, 1794704777474969);
  plim_frame frame = trace.frames.at[trace.stack_frames.at[trace.stacks.at[first.stack].first]];
  CHECK_STR(plim_trace_text(&trace, frame.file), "site-packages/torch/utils/_device.py");
  CHECK_STR(plim_trace_text(&trace, frame.name), "__torch_function__");
  CHECK_U64(frame.line, 116);
  CHECK(trace.settings.known && trace.settings.max_split_bytes == -1, "settings");
  plim_trace_clear(&trace);
  plim_snapshot_info_clear(&info);
}

TEST(a_missing_file_is_named) {
  plim_trace trace;
  plim_error error;
  CHECK(plim_snapshot_read("/no/such/snapshot", -1, &trace, NULL, &error) == PLIM_ERR_IO, "read");
  CHECK_STR(error.file, "/no/such/snapshot");
}

TEST_MAIN
