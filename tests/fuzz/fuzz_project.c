// Any texts as the files of one run are refused with a message, or read together without harm. A change of a knob is
// refused with a message, or leaves files that read back, including the files that it creates. Any byte of any text can be
// shown, in an error and in a finding.
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "formats.h"
#include "project_change.h"
#include "project_keys.h"
#include "report.h"

enum { MAX_FILES = 5, MAX_BYTES = 6000, SEPARATOR = 0x1e };

static void expect(bool condition) {
  if (!condition) abort();
}

// The first byte of each text selects its path.
static const char *const paths[] = {"train.py",    "launch.sh",  "train.yaml",    "ds.json",
                                    "utils.py",    "fsdp.yaml",  "plimsoll.yaml", "Dockerfile",
                                    "conf/a.yaml", "titan.toml", "run.sh",        "train.ipynb"};

// Shows a byte of the text as the report of an error and as a finding do.
static void show(const char *bytes, size_t size, plim_error error, uint64_t byte) {
  char *printed, text[MAX_BYTES + 1];
  size_t length;
  check_finding finding = {0};
  memcpy(text, bytes, size);
  text[size] = 0;
  FILE *out = open_memstream(&printed, &length);
  expect(out);
  plim_error_at(&error, byte);
  cli_report_text(out, &error, text);
  expect(!fclose(out) && length);
  free(printed);
  check_show(&finding, text, (size_t)byte % (strlen(text) + 1));
}

static plim_err add_all(plim_project *p, const char *at, size_t size, plim_error *error) {
  plim_err err = PLIM_OK;
  const char *end = at + size;
  for (int i = 0; at < end && i < MAX_FILES && !err; i++) {
    const char *stop = memchr(at, SEPARATOR, (size_t)(end - at));
    if (!stop) stop = end;
    const char *path = paths[(unsigned char)*at % (sizeof paths / sizeof *paths)];
    if (at < stop) err = plim_project_add(p, path, at + 1, (size_t)(stop - at - 1), error);
    if (err) show(at + 1, (size_t)(stop - at - 1), *error, error->byte);
    else if (at < stop)
      show(at + 1, (size_t)(stop - at - 1), (plim_error){0}, (uint64_t)(stop - at) * 3 / 4);
    at = stop + 1;
  }
  return err;
}

static const plim_knob_change changes[] = {
    {PLIM_KNOB_MICRO_BATCH, {.kind = PLIM_VALUE_INTEGER, .integer = 2}},
    {PLIM_KNOB_ACCUMULATE, {.kind = PLIM_VALUE_INTEGER, .integer = 16}},
    {PLIM_KNOB_CHECKPOINT, {.kind = PLIM_VALUE_TEXT, .text = "on"}},
    {PLIM_KNOB_PRECISION, {.kind = PLIM_VALUE_TEXT, .text = "bf16"}},
    {PLIM_KNOB_STRATEGY, {.kind = PLIM_VALUE_TEXT, .text = "zero3"}},
    {PLIM_KNOB_OFFLOAD, {.kind = PLIM_VALUE_TEXT, .text = "optimizer"}},
    {PLIM_KNOB_STRATEGY, {.kind = PLIM_VALUE_TEXT, .text = "fsdp2"}},
    {PLIM_KNOB_LIGER, {.kind = PLIM_VALUE_TEXT, .text = "on"}},
    {PLIM_KNOB_OPTIMIZER, {.kind = PLIM_VALUE_TEXT, .text = "adamw-8bit"}},
    {PLIM_KNOB_CACHED_BATCH, {.kind = PLIM_VALUE_INTEGER, .integer = 16}},
    {PLIM_KNOB_ALLOC_CONF, {.kind = PLIM_VALUE_TEXT, .text = "expandable_segments:True"}},
    {PLIM_KNOB_STRATEGY, {.kind = PLIM_VALUE_TEXT, .text = "ddp"}},
    {PLIM_KNOB_SEQUENCE, {.kind = PLIM_VALUE_INTEGER, .integer = 512}},
    {PLIM_KNOB_QUANTISATION, {.kind = PLIM_VALUE_TEXT, .text = "nf4"}},
};
enum { CHANGES = sizeof changes / sizeof *changes };

static void check_texts(const plim_project *p, const plim_edit_set *edits) {
  for (size_t i = 0; i < p->files.len; i++) {
    char *text;
    size_t size;
    plim_settings after;
    expect(!plim_project_text(p, i, edits, &text, &size, NULL));
    expect(!plim_settings_read(p->files.at[i]->settings.format, text, size, &after, NULL));
    plim_settings_clear(&after);
    free(text);
  }
  for (size_t i = 0; i < edits->files.len; i++)
    expect(edits->files.at[i].path[0] && edits->files.at[i].text[0]);
}

static void change(const plim_project *p, size_t first, size_t count) {
  plim_edit_set edits;
  plim_error error = {0};
  plim_err err = plim_project_set(p, changes + first, count, &edits, &error);
  expect(!err == !error.message[0]);
  if (!err) check_texts(p, &edits);
  plim_edit_set_clear(&edits);
}

// Reads them like plimsoll plan without options.
static void fill(project_job *p) {
  plim_error error = {0};
  job_args args = JOB_DEFAULTS_WITH(JOB_UNSET);
  plim_err err = plim_run_settings_of(&p->project, &p->run, &error);
  if (!err) err = project_job_fill(p, &args, &error);
  expect(!err == !error.message[0]);
  expect(err || (args.model && args.batch && args.batch != JOB_UNSET));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static project_job p;
  plim_error error = {0};
  if (size < 2 || size > MAX_BYTES) return 0;
  p = (project_job){0};
  plim_err err = add_all(&p.project, (const char *)data + 1, size - 1, &error);
  if (!err) err = plim_project_finish(&p.project, &error);
  expect(!err == !error.message[0]);
  if (!err) {
    size_t first = data[0] % CHANGES;
    change(&p.project, first, 1);
    change(&p.project, (first + 5) % CHANGES, 1);
    if (first + 2 <= CHANGES) change(&p.project, first, 2);
    fill(&p);
    plim_project_note_typos(&p.project);
    plim_project_note_keys(&p.project, false, &p.notes);
  }
  project_job_clear(&p);
  return 0;
}
