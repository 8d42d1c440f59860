// Any text with settings can be read as every dialect without harm. A change of a knob is refused with a message, or
// reads back as requested.
#include <stdlib.h>
#include <string.h>

#include "formats.h"
#include "project.h"
#include "project_change.h"

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
      expect(r->origin != PLIM_UNCLEAR || r->why[0]);
      expect(r->origin != PLIM_EXPLICIT || r->value.kind != PLIM_VALUE_NULL);
      expect(r->origin == PLIM_EXPLICIT || !r->is_fixed || r->why[0]);
    }
  }
}

static bool is_same(const plim_value *a, const plim_value *b) {
  if (a->kind == PLIM_VALUE_DERIVED && b->kind == PLIM_VALUE_DERIVED) return true;
  return a->kind == b->kind && (a->kind == PLIM_VALUE_NULL || plim_value_same(a, b) ||
                                a->real != a->real || a->flag == b->flag);
}

static const plim_value *resolved(const plim_settings *s, const plim_setting *setting) {
  const plim_setting *root = setting->root ? plim_settings_find(s, setting->root) : NULL;
  return root ? &root->value : &setting->value;
}

static bool is_row(const plim_project_file *f, const plim_setting *setting) {
  for (plim_dialect at = f->recipe.dialect; at != PLIM_DIALECTS; at = plim_dialect_table[at].base)
    for (const plim_key *key = plim_dialect_table[at].keys; key->key; key++)
      if (plim_key_is_of(key, setting, plim_dialect_table[at].is_nested)) return true;
  return false;
}

static bool is_touched(const plim_setting *setting, const plim_edit_set *edits) {
  for (size_t i = 0; i < edits->at.len; i++)
    if (edits->at.at[i].edit.span.begin <= setting->span.end &&
        edits->at.at[i].edit.span.end >= setting->span.begin)
      return true;
  return false;
}

static size_t times(const plim_settings *s, const char *key) {
  size_t count = 0;
  for (size_t i = 0; i < s->at.len; i++) count += strcmp(s->at.at[i].key, key) == 0;
  return count;
}

// The same setting in the edited text; NULL if several have its key. A removed and an inserted key move the settings
// between them.
static const plim_setting *parallel(const plim_settings *after, size_t i, const plim_setting *a) {
  if (strcmp(after->at.at[i].key, a->key) == 0) return &after->at.at[i];
  return times(after, a->key) > 1 ? NULL : plim_settings_find(after, a->key);
}

// Every setting that no edit touches has its old effective value, or belongs to a row of the dialect, whose knob was
// compared.
static void check_others(const plim_project *p, const plim_edit_set *edits) {
  const plim_project_file *f = p->files.at[0];
  char *text;
  size_t size;
  plim_settings after;
  expect(!plim_project_text(p, 0, edits, &text, &size, NULL));
  expect(!plim_settings_read(f->settings.format, text, size, &after, NULL));
  for (size_t i = 0; after.at.len == f->settings.at.len && i < after.at.len; i++) {
    const plim_setting *a = &f->settings.at.at[i], *b = parallel(&after, i, a);
    if (is_touched(a, edits) || is_row(f, a) || a->key[0] == '$') continue;
    if (a->root && f->settings.format == PLIM_FORMAT_PYTHON && !strchr(a->key, '.')) continue;
    expect(times(&after, a->key));
    expect(!b || is_same(resolved(&f->settings, a), resolved(&after, b)));
  }
  plim_settings_clear(&after);
  free(text);
}

static void change(const plim_project *p, plim_knob knob, plim_value value) {
  plim_edit_set edits;
  plim_error error = {0};
  plim_err err = plim_project_set(p, &(plim_knob_change){knob, value}, 1, &edits, &error);
  expect(!err == !error.message[0]);
  if (!err) check_others(p, &edits);
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
