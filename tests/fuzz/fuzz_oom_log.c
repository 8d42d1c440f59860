// Reads arbitrary bytes as a log and explains it: no crash, texts that end, and the same verdict when it is read again.
#include <stdlib.h>
#include <string.h>

#include "explain.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool condition) {
  if (!condition) abort();
}

static void check_log(const plim_oom_log *log) {
  const plim_oom_message *m = &log->message;
  expect(m->kind < PLIM_OOM_KINDS && m->device < PLIM_OOM_DEVICES);
  expect(memchr(m->text, 0, sizeof m->text) && memchr(log->last_error, 0, sizeof log->last_error));
  expect(m->process_count <= PLIM_OOM_MAX_PROCESSES);
  expect(m->kind == PLIM_OOM_NONE || (m->line >= 1 && m->line <= log->lines));
  for (int i = 0; i < PLIM_OOM_FIELDS; i++)
    expect(!m->is_impossible[i] || m->bytes[i] == PLIM_UNKNOWN);
}

static void check_explanation(const plim_oom_log *log, const explanation *e) {
  expect(e->verdict < EXPLAIN_VERDICTS && e->surety < EXPLAIN_SURETIES && e->summary);
  expect((e->surety == EXPLAIN_CERTAIN) == (e->why_not_sure == NULL));
  expect((e->verdict == EXPLAIN_NO_OOM) == (log->message.kind == PLIM_OOM_NONE));
  expect((e->verdict == EXPLAIN_NO_OOM) == (e->cures.len == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static plim_oom_log log, again;
  plim_error error = {0};
  explanation e;
  if (plim_oom_log_read_memory(data, size, &log, &error)) return 0; // damaged gzip or xz
  expect(!plim_oom_log_read_memory(data, size, &again, &error));
  expect(memcmp(log.message.bytes, again.message.bytes, sizeof log.message.bytes) == 0);
  check_log(&log);
  expect(!explain_log(&log, NULL, &e, &error));
  check_explanation(&log, &e);
  explanation_clear(&e);
  return 0;
}
