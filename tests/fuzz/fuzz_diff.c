// The diff of any two texts, applied line by line, turns one into the other.
#include <stdlib.h>
#include <string.h>

#include "diff.h"

static void expect(bool condition) {
  if (!condition) abort();
}

typedef struct {
  const char *at, *end;
} cursor;

// The length of the next line with its \n; the last line may have none.
static size_t line_bytes(const cursor *c) {
  const char *found = memchr(c->at, '\n', (size_t)(c->end - c->at));
  return (size_t)((found ? found + 1 : c->end) - c->at);
}

static bool starts(const cursor *c, const char *word) {
  size_t size = strlen(word);
  return (size_t)(c->end - c->at) >= size && memcmp(c->at, word, size) == 0;
}

static size_t number(cursor *c) {
  size_t value = 0;
  for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
    value = value * 10 + (*c->at - '0');
  return value;
}

static void range(cursor *c, size_t *begin, size_t *count) {
  *begin = number(c);
  *count = c->at < c->end && *c->at == ',' ? (c->at++, number(c)) : 1;
}

// Skips in `text` exactly the content of a line of the diff; the \n may belong to the diff only.
static void take(cursor *text, const char *line, size_t size, bool has_newline) {
  size_t bytes = has_newline ? size : size - 1;
  expect((size_t)(text->end - text->at) >= bytes && memcmp(text->at, line, bytes) == 0);
  text->at += bytes;
}

static void follow_line(cursor *diff, cursor *before, cursor *after, size_t *old, size_t *new) {
  char sign = *diff->at;
  cursor next = {diff->at + line_bytes(diff), diff->end};
  bool has_newline = !starts(&next, "\\ No newline at end of file\n");
  const char *line = diff->at + 1;
  size_t size = line_bytes(diff) - 1;
  expect(sign == ' ' || sign == '-' || sign == '+');
  if (sign != '+') take(before, line, size, has_newline), --*old;
  if (sign != '-') take(after, line, size, has_newline), --*new;
  diff->at = next.at;
  if (!has_newline) diff->at += line_bytes(diff);
}

static void follow_hunk(cursor *diff, cursor *before, cursor *after) {
  size_t old_begin, old, new_begin, new;
  expect(starts(diff, "@@ -"));
  diff->at += 4;
  range(diff, &old_begin, &old);
  expect(starts(diff, " +"));
  diff->at += 2;
  range(diff, &new_begin, &new);
  expect(starts(diff, " @@\n"));
  diff->at += 4;
  while (old || new) follow_line(diff, before, after, &old, &new);
}

// Skips the equal lines before the next hunk, by the line number in the old text.
static void skip_to_hunk(const char *text, cursor *diff, cursor *before, cursor *after) {
  cursor peek = {diff->at + 4, diff->end};
  size_t begin, count, line = 1;
  range(&peek, &begin, &count);
  size_t first = count ? begin : begin + 1;
  for (cursor c = {text, before->at}; c.at < c.end; line++) c.at += line_bytes(&c);
  for (; line < first; line++) {
    size_t size = line_bytes(before);
    take(after, before->at, size, true);
    before->at += size;
  }
}

static void follow(const plim_diff *diff, cursor before, cursor after) {
  const char *text = before.at;
  cursor d = {diff->at, diff->at + diff->len};
  for (int i = 0; i < 3; i++) d.at += line_bytes(&d);
  while (d.at < d.end) {
    expect(starts(&d, "@@ -"));
    skip_to_hunk(text, &d, &before, &after);
    follow_hunk(&d, &before, &after);
  }
  size_t rest = (size_t)(before.end - before.at);
  expect((size_t)(after.end - after.at) == rest && memcmp(before.at, after.at, rest) == 0);
}

// The first byte is the position of the second text; letters become lines, so that lines repeat.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  size_t texts = size - 2, split = (size_t)data[0] * texts / 255;
  char *copy = malloc(texts + 1);
  if (!copy) return 0;
  for (size_t i = 0; i < texts; i++) copy[i] = (char)(data[1] % 2 && i % 2 ? '\n' : data[2 + i]);
  plim_diff diff = {0};
  expect(!plim_diff_add(&diff, "f", copy, split, copy + split, texts - split, NULL));
  cursor before = {copy, copy + split}, after = {copy + split, copy + texts};
  if (diff.len) follow(&diff, before, after);
  else expect(split == texts - split && memcmp(copy, copy + split, split) == 0);
  plim_diff_clear(&diff);
  free(copy);
  return 0;
}
