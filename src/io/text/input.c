#define _POSIX_C_SOURCE 200809L // O_CLOEXEC

#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "text_file.h"

enum {
  BUFFER_BYTES = 256 * 1024, // stays in the second-level cache
  RAW_BYTES = 64 * 1024,
};
// Snapshots decompress to at most 60 times their size (tests/truth), hostile files to thousands of times.
#define MOST_RATIO 1000
#define ALWAYS_UNPACKED (64 * PLIM_MIB)
#define XZ_MEMORY_LIMIT PLIM_GIB // xz -9 takes 65 MiB; the format allows dictionaries of 4 GiB

typedef struct plim_source {
  int fd;                // -1: memory
  const uint8_t *memory; // the bytes that are not read yet
  size_t memory_left;
  bool ended;            // no more raw bytes after raw_end
  uint64_t packed_bytes; // compressed bytes read so far
  uint8_t *raw_at, *raw_end;
  z_stream gzip;
  lzma_stream xz;
  bool unpacked_all;
  uint8_t raw[RAW_BYTES];
} plim_source;

// ---- raw bytes ------------------------------------------------------------------------------

// Returns the number of bytes read, 0 at the end, -1 on failure with *error filled.
static ptrdiff_t source_read(plim_source *source, uint8_t *out, size_t room, plim_error *error) {
  if (source->fd < 0) {
    size_t take = room < source->memory_left ? room : source->memory_left;
    if (take) memcpy(out, source->memory, take);
    source->memory += take;
    source->memory_left -= take;
    source->packed_bytes += take;
    return (ptrdiff_t)take;
  }
  for (;;) {
    ssize_t got = read(source->fd, out, room);
    if (got >= 0) return source->packed_bytes += (uint64_t)got, got;
    if (errno == EINTR) continue;
    plim_fail(error, PLIM_ERR_IO, "cannot read: %s", strerror(errno));
    return -1;
  }
}

// Reads more raw bytes if none are left and the source has not ended.
static bool source_refill(plim_source *source, plim_error *error) {
  if (source->raw_at < source->raw_end || source->ended) return true;
  ptrdiff_t got = source_read(source, source->raw, RAW_BYTES, error);
  if (got < 0) return false;
  source->raw_at = source->raw;
  source->raw_end = source->raw + got;
  source->ended = got == 0;
  return true;
}

// Reads until `want` raw bytes are buffered or the source ends, because pipes return small pieces.
static bool source_peek(plim_source *source, size_t want, plim_error *error) {
  while (!source->ended && (size_t)(source->raw_end - source->raw_at) < want) {
    size_t kept = (size_t)(source->raw_end - source->raw_at);
    memmove(source->raw, source->raw_at, kept);
    ptrdiff_t got = source_read(source, source->raw + kept, RAW_BYTES - kept, error);
    if (got < 0) return false;
    source->raw_at = source->raw;
    source->raw_end = source->raw + kept + got;
    source->ended = got == 0;
  }
  return true;
}

static bool raw_starts_with(const plim_source *source, const char *magic, size_t length) {
  return (size_t)(source->raw_end - source->raw_at) >= length &&
         memcmp(source->raw_at, magic, length) == 0;
}

// ---- unpacking: each returns the bytes written, 0 at the end, -1 on failure ---------------------

static ptrdiff_t read_plain(plim_input *input, uint8_t *out, size_t room, plim_error *error) {
  plim_source *source = input->source;
  size_t buffered = (size_t)(source->raw_end - source->raw_at);
  if (buffered == 0) return source->ended ? 0 : source_read(source, out, room, error);
  if (buffered > room) buffered = room;
  memcpy(out, source->raw_at, buffered);
  source->raw_at += buffered;
  return (ptrdiff_t)buffered;
}

static ptrdiff_t fail_packed(plim_error *error, const char *format, const char *what) {
  plim_fail(error, PLIM_ERR_PARSE, "the %s data is %s", format, what);
  plim_error_hint(error, "copy the file again; test it with %s -t", format);
  return -1;
}

// A gzip file may consist of several members. Anything else after a member is ignored, as by gzip itself.
static bool next_member(plim_source *source, plim_error *error) {
  if (!source_peek(source, 2, error)) return false;
  source->unpacked_all = !raw_starts_with(source, "\x1f\x8b", 2);
  if (!source->unpacked_all) inflateReset(&source->gzip);
  return true;
}

static ptrdiff_t read_gzip(plim_input *input, uint8_t *out, size_t room, plim_error *error) {
  plim_source *source = input->source;
  z_stream *stream = &source->gzip;
  stream->next_out = out;
  stream->avail_out = (uInt)room;
  while (stream->avail_out == room && !source->unpacked_all) {
    if (!source_refill(source, error)) return -1;
    if (source->ended) return fail_packed(error, "gzip", "truncated");
    stream->next_in = source->raw_at;
    stream->avail_in = (uInt)(source->raw_end - source->raw_at);
    int status = inflate(stream, Z_NO_FLUSH);
    source->raw_at = source->raw_end - stream->avail_in;
    if (status == Z_STREAM_END && !next_member(source, error)) return -1;
    if (status == Z_MEM_ERROR) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory"), -1;
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      return fail_packed(error, "gzip", "damaged");
  }
  return (ptrdiff_t)(room - stream->avail_out);
}

static ptrdiff_t fail_xz(plim_source *source, lzma_ret status, plim_error *error) {
  switch (status) {
  case LZMA_MEM_ERROR: return plim_fail(error, PLIM_ERR_NOMEM, "out of memory"), -1;
  case LZMA_MEMLIMIT_ERROR:
    plim_fail(error, PLIM_ERR_UNSUPPORTED,
              "decompressing the xz data would take %llu MiB of memory",
              (unsigned long long)(lzma_memusage(&source->xz) / PLIM_MIB));
    plim_error_hint(error, "decompress the file first: xz -d");
    return -1;
  case LZMA_BUF_ERROR: return fail_packed(error, "xz", "truncated");
  case LZMA_OPTIONS_ERROR:
    return fail_packed(error, "xz", "in a newer format than this program supports");
  default: return fail_packed(error, "xz", "damaged");
  }
}

static ptrdiff_t read_xz(plim_input *input, uint8_t *out, size_t room, plim_error *error) {
  plim_source *source = input->source;
  lzma_stream *stream = &source->xz;
  stream->next_out = out;
  stream->avail_out = room;
  while (stream->avail_out == room && !source->unpacked_all) {
    if (!source_refill(source, error)) return -1;
    stream->next_in = source->raw_at;
    stream->avail_in = (size_t)(source->raw_end - source->raw_at);
    lzma_ret status = lzma_code(stream, source->ended ? LZMA_FINISH : LZMA_RUN);
    source->raw_at = source->raw_end - stream->avail_in;
    source->unpacked_all = status == LZMA_STREAM_END;
    if (status != LZMA_OK && status != LZMA_STREAM_END) return fail_xz(source, status, error);
  }
  return (ptrdiff_t)(room - stream->avail_out);
}

// Refuses a small file that would decompress to a huge one and fill the memory.
static plim_err check_ratio(const plim_input *input, uint64_t unpacked, plim_error *error) {
  bool is_fine = input->packing == PLIM_PACKING_NONE || unpacked <= ALWAYS_UNPACKED ||
                 unpacked / MOST_RATIO <= input->source->packed_bytes;
  if (is_fine) return PLIM_OK;
  plim_fail(error, PLIM_ERR_UNSUPPORTED, "the file decompresses to more than %d times its size",
            MOST_RATIO);
  plim_error_hint(error, "if that is intended, decompress it first: %s",
                  input->packing == PLIM_PACKING_XZ ? "xz -d" : "gzip -d");
  return PLIM_ERR_UNSUPPORTED;
}

static ptrdiff_t (*const unpack[])(plim_input *, uint8_t *, size_t, plim_error *) = {
    [PLIM_PACKING_NONE] = read_plain,
    [PLIM_PACKING_GZIP] = read_gzip,
    [PLIM_PACKING_XZ] = read_xz,
};

// ---- the stream -----------------------------------------------------------------------------

static bool start_unpacking(plim_input *input) {
  plim_source *source = input->source;
  if (raw_starts_with(source, "\x1f\x8b\x08", 3)) {
    if (inflateInit2(&source->gzip, 16 + MAX_WBITS) != Z_OK) return false;
    input->packing = PLIM_PACKING_GZIP;
  } else if (raw_starts_with(source,
                             "\xfd"
                             "7zXZ\0",
                             6)) {
    if (lzma_stream_decoder(&source->xz, XZ_MEMORY_LIMIT, LZMA_CONCATENATED) != LZMA_OK)
      return false;
    input->packing = PLIM_PACKING_XZ;
  }
  return true;
}

// Starts reading; owns `fd` from now on.
static plim_err start(plim_input *input, int fd, const void *data, size_t size, plim_error *error) {
  *input = (plim_input){0};
  plim_source *source = input->source = malloc(sizeof *source);
  input->buffer = malloc(BUFFER_BYTES + PLIM_INPUT_SLACK);
  if (!source || !input->buffer) {
    if (fd > STDIN_FILENO) close(fd);
    free(source);
    free(input->buffer);
    *input = (plim_input){0};
    return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  }
  memset(source, 0, offsetof(plim_source, raw));
  source->fd = fd;
  source->memory = data;
  source->memory_left = size;
  source->raw_at = source->raw_end = source->raw;
  source->xz = (lzma_stream)LZMA_STREAM_INIT;
  memset(input->buffer, 0, PLIM_INPUT_SLACK);
  input->at = input->end = input->buffer;
  plim_err failed = PLIM_OK;
  if (!source_peek(source, 6, error)) failed = PLIM_ERR_IO;
  else if (!start_unpacking(input)) failed = plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  if (failed) plim_input_close(input);
  return failed;
}

plim_err plim_input_open(plim_input *input, const char *path, plim_error *error) {
  *input = (plim_input){0};
  if (strcmp(path, "-") == 0) return start(input, STDIN_FILENO, NULL, 0, error);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT)
    return plim_fail(error, PLIM_ERR_IO, "%.200s does not exist", path);
  if (fd < 0) return plim_fail(error, PLIM_ERR_IO, "cannot open: %s", strerror(errno));
  if (plim_is_folder(path)) {
    close(fd);
    plim_fail(error, PLIM_ERR_IO, "cannot open %.200s: this is a folder", path);
    plim_error_hint(error, "name the file to read");
    return PLIM_ERR_IO;
  }
  return start(input, fd, NULL, 0, error);
}

plim_err plim_input_open_memory(plim_input *input, const void *data, size_t size,
                                plim_error *error) {
  return start(input, -1, data, size, error);
}

plim_err plim_input_fill(plim_input *input, plim_error *error) {
  size_t kept = (size_t)(input->end - input->at);
  input->base += (uint64_t)(input->at - input->buffer);
  memmove(input->buffer, input->at, kept);
  input->at = input->buffer;
  input->end = input->buffer + kept;
  if (!input->at_end && kept < BUFFER_BYTES) {
    plim_error why = {0};
    ptrdiff_t got = unpack[input->packing](input, input->buffer + kept, BUFFER_BYTES - kept, &why);
    if (got < 0) {
      if (error) *error = why;
      plim_error_at(error, input->base + kept);
      return why.code;
    }
    input->end += got;
    input->at_end = got == 0;
    plim_err err = check_ratio(input, input->base + kept + (uint64_t)got, error);
    if (err) return err;
  }
  memset(input->buffer + (input->end - input->buffer), 0, PLIM_INPUT_SLACK);
  return PLIM_OK;
}

plim_err plim_input_finish(plim_input *input, plim_error *error) {
  if (input->packing == PLIM_PACKING_NONE || input->at_end) return PLIM_OK;
  input->at = input->end;
  return plim_input_fill(input, error);
}

void plim_input_close(plim_input *input) {
  if (!input) return;
  plim_source *source = input->source;
  if (source) {
    if (input->packing == PLIM_PACKING_GZIP) inflateEnd(&source->gzip);
    if (input->packing == PLIM_PACKING_XZ) lzma_end(&source->xz);
    if (source->fd > STDIN_FILENO) close(source->fd);
  }
  free(source);
  free(input->buffer);
  *input = (plim_input){0};
}
