// Any bytes are samples, a run, or neither; texts in them are safe to print, and reading in parts finds the same lines.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "live.h"
#include "text.h"

static void expect(bool condition) {
  if (!condition) abort();
}

static void expect_safe(const char *text) {
  char *copy = strdup(text);
  expect(copy);
  plim_text_disarm(copy);
  expect(strcmp(copy, text) == 0);
  free(copy);
}

static size_t count_samples(const char *path, size_t at_once) {
  live_sample samples[16];
  live_reader r = {0};
  size_t count = 0, got;
  snprintf(r.path, sizeof r.path, "%s", path);
  while ((got = live_read(&r, samples, at_once))) count += got;
  return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  live_sample s;
  live_run run;
  if (live_parse((const char *)data, size, &s)) {
    expect(s.phase >= 0 && s.phase < LIVE_PHASES);
    expect_safe(s.uuid);
  }
  if (live_parse_run((const char *)data, size, &run)) {
    expect(run.pid > 0);
    expect_safe(run.command);
  }
  char path[] = "/tmp/fuzz_live.XXXXXX";
  int file = mkstemp(path);
  expect(file >= 0 && write(file, data, size) == (ssize_t)size);
  close(file);
  expect(count_samples(path, 1) == count_samples(path, 16));
  unlink(path);
  return 0;
}
