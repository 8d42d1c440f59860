// Any text that reads as settings is recognised or not, and read as every dialect there is, without harm;
// a change of a knob is refused with a message, or reads back as asked.
#include <stdlib.h>
#include <string.h>

#include "project.h"

static void expect(bool condition) {
  if (!condition) abort();
}

static const char *const paths[] = {"a.yaml", "a.json", "a.py", "a.sh", "Dockerfile", "a.toml"};

static void read_as_all(plim_settings *s) {
  static plim_recipe_file recipe;
  for (int i = 0; i < PLIM_DIALECTS; i++) {
    expect(!plim_recipe_file_read(s, (plim_dialect)i, &recipe, NULL));
    for (int k = 0; k < PLIM_KNOBS; k++) {
      const plim_reading *r = &recipe.knobs[k];
      expect(r->said != PLIM_UNCLEAR || r->why[0]);
      expect(r->said != PLIM_SAID || r->value.kind != PLIM_VALUE_NULL);
      expect(r->said == PLIM_SAID || !r->is_fixed || r->why[0]);
    }
  }
}

static void change(const plim_project *p, plim_knob knob, plim_value value) {
  plim_edit_set edits;
  plim_error error = {0};
  plim_err err = plim_project_set(p, &(plim_knob_change){knob, value}, 1, &edits, &error);
  expect(!err == !error.message[0]);
  plim_edit_set_clear(&edits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1 || size > 4096) return 0;
  static plim_project p;
  p = (plim_project){0};
  const char *path = paths[data[0] % (sizeof paths / sizeof *paths)];
  plim_error error = {0};
  plim_err err = plim_project_add(&p, path, (const char *)data + 1, size - 1, &error);
  if (!err) err = plim_project_finish(&p, &error);
  expect(!err || error.message[0]);
  if (!err) {
    read_as_all(&p.files.at[0]->settings);
    change(&p, PLIM_KNOB_MICRO_BATCH, (plim_value){.kind = PLIM_VALUE_INTEGER, .integer = 3});
    change(&p, PLIM_KNOB_CHECKPOINT, (plim_value){.kind = PLIM_VALUE_TEXT, .text = "off"});
    change(&p, PLIM_KNOB_PRECISION, (plim_value){.kind = PLIM_VALUE_TEXT, .text = "fp16"});
  }
  plim_project_clear(&p);
  return 0;
}
