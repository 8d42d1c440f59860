#define _POSIX_C_SOURCE 200809L

#include <lzma.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "input.h"
#include "test.h"
#include "vec.h"

typedef vec(uint8_t) bytes;

enum { TEXT_BYTES = 700 * 1000 }; // several buffers long

// Numbers, so that the text is compressible, but not to almost nothing.
static void fill_text(uint8_t *text) {
  uint32_t state = 1;
  for (size_t i = 0; i < TEXT_BYTES; i++) {
    state = state * 1664525 + 1013904223;
    text[i] = (uint8_t)('0' + (state >> 24) % 10);
  }
}

static void pack_gzip(bytes *out, const uint8_t *data, size_t size) {
  z_stream stream = {0};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  uLong room = deflateBound(&stream, (uLong)size);
  if (!vec_reserve(out, room)) abort();
  stream.next_in = (Bytef *)(uintptr_t)data;
  stream.avail_in = (uInt)size;
  stream.next_out = out->at + out->len;
  stream.avail_out = (uInt)room;
  deflate(&stream, Z_FINISH);
  out->len += stream.total_out;
  deflateEnd(&stream);
}

static void pack_xz(bytes *out, const uint8_t *data, size_t size) {
  size_t room = lzma_stream_buffer_bound(size), used = 0;
  if (!vec_reserve(out, room)) abort();
  lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, NULL, data, size, out->at + out->len, &used, room);
  out->len += used;
}

// Reads all of an open input, a third of the buffer at a time, and closes it.
static plim_err drain(plim_input *input, bytes *out, plim_error *error) {
  plim_err failed = PLIM_OK;
  while (!failed && !(input->at_end && input->at == input->end)) {
    size_t take = (size_t)(input->end - input->at + 2) / 3;
    if (take && !vec_reserve(out, take)) abort();
    if (take) memcpy(out->at + out->len, input->at, take);
    out->len += take;
    input->at += take;
    failed = plim_input_fill(input, error);
  }
  for (int i = 0; !failed && i < PLIM_INPUT_SLACK; i++)
    if (input->end[i] != 0) failed = PLIM_ERR_ARGUMENT; // the bytes after the end are zero
  plim_input_close(input);
  return failed;
}

static plim_err unpack(const bytes *packed, size_t size, bytes *out, plim_error *error) {
  plim_input input;
  plim_err failed = plim_input_open_memory(&input, packed->at, size, error);
  return failed ? failed : drain(&input, out, error);
}

static bool is_text(const bytes *out, const uint8_t *text, size_t times) {
  if (out->len != times * TEXT_BYTES) return false;
  for (size_t i = 0; i < times; i++)
    if (memcmp(out->at + i * TEXT_BYTES, text, TEXT_BYTES) != 0) return false;
  return true;
}

static uint8_t text[TEXT_BYTES];

TEST(plain_memory_comes_back_unchanged) {
  fill_text(text);
  bytes packed = {text, TEXT_BYTES, TEXT_BYTES}, out = {0};
  plim_error error;
  CHECK(unpack(&packed, TEXT_BYTES, &out, &error) == PLIM_OK, "%s", error.message);
  CHECK(is_text(&out, text, 1), "%zu bytes", out.len);
  vec_free(&out);
}

static void (*const packers[])(bytes *, const uint8_t *, size_t) = {pack_gzip, pack_xz};
static const char *const packer_names[] = {"gzip", "xz"};

TEST(packed_members_are_joined) {
  fill_text(text);
  for (size_t kind = 0; kind < 2; kind++)
    for (size_t members = 1; members <= 3; members++) {
      bytes packed = {0}, out = {0};
      plim_error error;
      for (size_t i = 0; i < members; i++) packers[kind](&packed, text, TEXT_BYTES);
      CHECK(unpack(&packed, packed.len, &out, &error) == PLIM_OK, "%s", error.message);
      CHECK(is_text(&out, text, members), "%s: %zu bytes", packer_names[kind], out.len);
      vec_free(&packed);
      vec_free(&out);
    }
}

TEST(garbage_after_gzip_is_ignored) {
  fill_text(text);
  bytes packed = {0}, out = {0};
  plim_error error;
  pack_gzip(&packed, text, TEXT_BYTES);
  for (int i = 0; i < 600; i++) CHECK(vec_push(&packed, 0), "memory");
  CHECK(unpack(&packed, packed.len, &out, &error) == PLIM_OK, "%s", error.message);
  CHECK(is_text(&out, text, 1), "%zu bytes", out.len);
  vec_free(&packed);
  vec_free(&out);
}

TEST(truncation_is_reported_with_the_unpacked_offset) {
  fill_text(text);
  for (size_t kind = 0; kind < 2; kind++) {
    bytes packed = {0};
    packers[kind](&packed, text, TEXT_BYTES);
    for (size_t keep = packed.len / 7; keep < packed.len; keep += packed.len / 7) {
      bytes out = {0};
      plim_error error = {0};
      CHECK(unpack(&packed, keep, &out, &error) == PLIM_ERR_PARSE, "%zu bytes kept", keep);
      CHECK(strstr(error.message, "truncated"), "%s", error.message);
      CHECK(strstr(error.message, packer_names[kind]), "%s", error.message);
      CHECK(error.byte <= TEXT_BYTES && error.byte >= out.len, "byte %" PRIu64, error.byte);
      vec_free(&out);
    }
    vec_free(&packed);
  }
}

TEST(damage_is_reported) {
  fill_text(text);
  for (size_t kind = 0; kind < 2; kind++) {
    bytes packed = {0}, out = {0};
    plim_error error = {0};
    packers[kind](&packed, text, TEXT_BYTES);
    packed.at[packed.len / 2] ^= 0xff;
    CHECK(unpack(&packed, packed.len, &out, &error) == PLIM_ERR_PARSE, "%s", packer_names[kind]);
    CHECK(strstr(error.message, "damaged"), "%s", error.message);
    vec_free(&packed);
    vec_free(&out);
  }
}

TEST(checksums_are_verified_by_finish) {
  fill_text(text);
  for (size_t kind = 0; kind < 2; kind++) {
    bytes packed = {0};
    plim_error error = {0};
    plim_input input;
    packers[kind](&packed, text, 1000);
    packed.at[packed.len - (kind == 0 ? 8 : 34)] ^= 1; // in the checksum of the data
    CHECK(plim_input_open_memory(&input, packed.at, packed.len, &error) == PLIM_OK, "open");
    plim_err failed = plim_input_fill(&input, &error);
    if (!failed) failed = plim_input_finish(&input, &error);
    CHECK(failed == PLIM_ERR_PARSE, "%s: %d", packer_names[kind], failed);
    plim_input_close(&input);
    vec_free(&packed);
  }
}

// 200 MiB of the same byte.
TEST(input_that_unpacks_to_too_much_is_refused) {
  enum { SIZE = 200 << 20 };
  uint8_t *same = calloc(1, SIZE);
  for (size_t kind = 0; kind < 2; kind++) {
    bytes packed = {0};
    plim_input input;
    plim_error error = {0};
    packers[kind](&packed, same, SIZE);
    CHECK(!plim_input_open_memory(&input, packed.at, packed.len, &error), "open");
    plim_err failed = PLIM_OK;
    while (!failed && !input.at_end) input.at = input.end, failed = plim_input_fill(&input, &error);
    CHECK(failed == PLIM_ERR_UNSUPPORTED && input.base < 80 << 20, "%s: %s", packer_names[kind],
          error.message);
    plim_input_close(&input);
    vec_free(&packed);
  }
  free(same);
}

TEST(data_after_the_end_is_not_unpacked) {
  enum { SIZE = 50 << 20 };
  uint8_t *same = calloc(1, SIZE);
  for (size_t kind = 0; kind < 2; kind++) {
    bytes packed = {0};
    plim_input input;
    plim_error error = {0};
    packers[kind](&packed, same, SIZE);
    CHECK(!plim_input_open_memory(&input, packed.at, packed.len, &error), "open");
    CHECK(!plim_input_fill(&input, &error) && !plim_input_finish(&input, &error), "%s",
          error.message);
    CHECK(input.base < 1 << 20, "%llu bytes were unpacked", (unsigned long long)input.base);
    plim_input_close(&input);
    vec_free(&packed);
  }
  free(same);
}

TEST(standard_input_may_come_in_small_pieces) {
  int ends[2], saved = dup(STDIN_FILENO);
  CHECK(pipe(ends) == 0 && saved >= 0, "no pipe");
  dup2(ends[0], STDIN_FILENO);
  plim_input input;
  plim_error error;
  CHECK(write(ends[1], "abc", 3) == 3, "write");
  CHECK(write(ends[1], "defg", 4) == 4, "write");
  plim_err failed = plim_input_open(&input, "-", &error);
  CHECK(failed == PLIM_OK, "%s", error.message);
  CHECK(plim_input_fill(&input, &error) == PLIM_OK, "%s", error.message);
  CHECK(write(ends[1], "hi", 2) == 2, "write");
  close(ends[1]);
  bytes out = {0};
  CHECK(drain(&input, &out, &error) == PLIM_OK, "%s", error.message);
  CHECK(out.len == 9 && memcmp(out.at, "abcdefghi", 9) == 0, "%zu bytes", out.len);
  dup2(saved, STDIN_FILENO);
  close(saved);
  close(ends[0]);
  vec_free(&out);
}

TEST(unreadable_files_are_reported) {
  plim_input input;
  plim_error error = {0};
  CHECK(plim_input_open(&input, "/no/such/file", &error) == PLIM_ERR_IO, "%s", error.message);
  CHECK_STR(error.message, "/no/such/file does not exist");
  CHECK(plim_input_open(&input, "/", &error) == PLIM_ERR_IO, "%s", error.message);
  CHECK_STR(error.message, "cannot open /: this is a folder");
}

TEST_MAIN
