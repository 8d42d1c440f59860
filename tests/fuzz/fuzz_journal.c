// Any journal is refused, or is the same when it is written again, and never leads out of the folders of its files.
// The digest is corrected first, because otherwise every input would be refused.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transaction.h"

static void expect(bool condition) {
  if (!condition) abort();
}

static char *sealed(const uint8_t *data, size_t size, size_t *sealed_size) {
  uint8_t digest[PLIM_SHA256_BYTES];
  plim_sha256(data, size, digest);
  char *text = malloc(size + 2 * PLIM_SHA256_BYTES + 16);
  expect(text);
  if (size) memcpy(text, data, size);
  char *at = text + size;
  at += sprintf(at, "sha256 ");
  for (int i = 0; i < PLIM_SHA256_BYTES; i++) at += sprintf(at, "%02x", digest[i]);
  *at++ = '\n';
  *sealed_size = (size_t)(at - text);
  return text;
}

static void check_step(plim_transaction *t, plim_file_step *s) {
  expect(plim_transaction_name(t, "/project", s));
  expect(s->path[0] == '/' || strncmp(s->target, "/project/", 9) == 0);
  expect(!strstr(s->target, "/../") && strncmp(s->staged, s->target, strlen(s->target)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  size_t text_size, again_size;
  char *text = sealed(data, size, &text_size);
  plim_transaction t, copy;
  plim_error error = {0};
  if (plim_journal_read(text, text_size, &t, &error)) {
    expect(error.code == PLIM_ERR_PARSE && error.byte <= text_size);
    free(text);
    return 0;
  }
  for (size_t i = 0; i < t.steps.len; i++) check_step(&t, &t.steps.at[i]);
  char *again = plim_journal_write(&t, &again_size);
  expect(again && !plim_journal_read(again, again_size, &copy, NULL));
  expect(copy.steps.len == t.steps.len && copy.record == t.record && copy.id == t.id);
  for (size_t i = 0; i < t.steps.len; i++)
    expect(strcmp(copy.steps.at[i].path, t.steps.at[i].path) == 0);
  plim_transaction_clear(&copy);
  plim_transaction_clear(&t);
  free(again);
  free(text);
  return 0;
}
