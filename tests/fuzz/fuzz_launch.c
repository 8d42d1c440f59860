// Any Makefile, pyproject.toml, justfile, Taskfile.yml or launch.json is refused with a place in it, or read: every byte of a script is from
// the file as it says. A change of a setting in a script is refused, or gives a file that is the same elsewhere and has
// the changed script.
#include <stdlib.h>
#include <string.h>

#include "launch_file.h"
#include "project_change.h"

static const char *const paths[] = {"Makefile", "pyproject.toml", "justfile", "launch.json",
                                    "Taskfile.yml"};
enum { PATHS = sizeof paths / sizeof *paths };

static void expect(bool condition) {
  if (!condition) abort();
}

static void check_places(const plim_launch *l, const char *text, size_t size) {
  expect(l->script.bytes.len == l->script.from.len && !l->script.is_out);
  for (size_t i = 0; i < l->script.from.len; i++) {
    uint32_t from = l->script.from.at[i];
    if (from >= PLIM_FROM_OPEN) continue;
    expect(PLIM_FROM_PLACE(from) < size);
    char c = text[PLIM_FROM_PLACE(from)];
    expect(c == l->script.bytes.at[i]);
  }
}

static const plim_launch *find(const plim_launch_file *f, const char *name) {
  for (size_t i = 0; i < f->at.len; i++)
    if (strcmp(f->at.at[i].name, name) == 0) return &f->at.at[i];
  return NULL;
}

// The other targets have the scripts that they had.
static void check_others(const plim_launch_file *was, const char *path, const char *target,
                         const char *text, size_t size) {
  plim_launch_file now;
  expect(!plim_launch_file_read(path, text, size, &now, NULL) && now.at.len == was->at.len);
  for (size_t i = 0; i < was->at.len; i++) {
    const plim_launch *before = &was->at.at[i], *after = find(&now, before->name);
    if (strcmp(before->name, target) == 0) continue;
    size_t bytes = before->script.bytes.len;
    expect(after && after->script.bytes.len == bytes &&
           memcmp(after->script.bytes.at, before->script.bytes.at, bytes) == 0);
  }
  plim_launch_file_clear(&now);
}

static void check_change(plim_project *p, const plim_launch_file *was) {
  const plim_knob_change change = {PLIM_KNOB_MICRO_BATCH,
                                   {.kind = PLIM_VALUE_INTEGER, .integer = 2}};
  plim_edit_set edits;
  plim_project now = {0};
  char *text = NULL;
  size_t size;
  const plim_project_file *f = p->files.at[0];
  if (plim_project_set(p, &change, 1, &edits, &(plim_error){0})) return;
  expect(!plim_project_written(p, 0, &edits, &text, &size, NULL));
  check_others(was, f->path, f->target, text, size);
  expect(!plim_project_add_target(&now, f->path, f->target, text, size, NULL));
  expect(!plim_project_finish(&now, NULL));
  expect(plim_value_same(&now.knobs[PLIM_KNOB_MICRO_BATCH].value, &change.value));
  plim_project_clear(&now);
  free(text);
  plim_edit_set_clear(&edits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  plim_launch_file f;
  plim_error error = {.byte = PLIM_UNKNOWN};
  if (!size || size > 6000) return 0;
  const char *path = paths[*data % PATHS], *text = (const char *)data + 1;
  plim_err err = plim_launch_file_read(path, text, size - 1, &f, &error);
  expect(!err || *error.message);
  expect(!err || error.byte == PLIM_UNKNOWN || error.byte <= size - 1);
  for (size_t i = 0; !err && i < f.at.len; i++) {
    plim_project p = {0};
    check_places(&f.at.at[i], text, size - 1);
    if (!plim_project_add_target(&p, path, f.at.at[i].name, text, size - 1, &error) &&
        !plim_project_finish(&p, &error))
      check_change(&p, &f);
    plim_project_clear(&p);
  }
  plim_launch_file_clear(&f);
  return 0;
}
