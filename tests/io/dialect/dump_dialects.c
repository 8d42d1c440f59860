// Reads configuration files, changes every knob to other values and prints the results, which dialect_check.py compares
// with real parsers. One JSON object per line: first the dialect of the file and its knobs, each with its value (null:
// unclear) and the keys that set it; then the file, the knob, the requested value, the keys that set the knob together
// if there are several, and the edited text or the reason why there is none; then each setting that can be removed,
// and the text without it.
//
//   dump_dialects FILE...
#include <jansson.h>
#include <stdio.h>

#include "other_values.h"
#include "project.h"
#include "project_change.h"

static void print(json_t *line) {
  char *text = json_dumps(line, JSON_COMPACT | JSON_ENSURE_ASCII);
  if (text) puts(text);
  free(text);
  json_decref(line);
}

static json_t *keys_of(const plim_project *p, plim_knob knob) {
  json_t *keys = json_array();
  const plim_project_knob *k = &p->knobs[knob];
  for (size_t i = 0; i < k->place_count; i++)
    json_array_append_new(keys, json_string(k->places[i].setting->key));
  return keys;
}

static json_t *value_of(const plim_project_knob *k) {
  char text[512];
  if (k->origin == PLIM_UNCLEAR) return json_null();
  plim_value_print(&k->value, text, sizeof text);
  return json_string(text);
}

static void print_knobs(const plim_project *p) {
  json_t *knobs = json_object();
  for (int i = 0; i < PLIM_KNOBS; i++)
    if (p->knobs[i].origin == PLIM_EXPLICIT || p->knobs[i].origin == PLIM_UNCLEAR)
      json_object_set_new(knobs, plim_knob_table[i].name,
                          json_pack("{s:o, s:o}", "value", value_of(&p->knobs[i]), "keys",
                                    keys_of(p, (plim_knob)i)));
  print(json_pack("{s:s, s:s, s:o}", "file", p->files.at[0]->path, "dialect",
                  plim_dialect_table[p->files.at[0]->is.dialect].name, "knobs", knobs));
}

static void try_value(const plim_project *p, plim_knob knob, const char *to) {
  plim_edit_set edits;
  plim_error error = {0};
  plim_knob_change change = {knob, value_from(to)};
  char *text = NULL;
  size_t size = 0;
  json_t *line = json_pack("{s:s, s:s, s:s, s:o}", "file", p->files.at[0]->path, "knob",
                           plim_knob_table[knob].name, "to", to, "keys", keys_of(p, knob));
  const char *set = keys_set_together(p->files.at[0]->is.dialect, knob);
  if (set) json_object_set_new(line, "set", json_string(set));
  plim_err err = plim_project_set(p, &change, 1, &edits, &error);
  if (!err) err = plim_project_text(p, 0, &edits, &text, &size, &error);
  if (err) json_object_set_new(line, "refusal", json_string(error.message));
  else json_object_set_new(line, "text", json_stringn(text, size));
  print(line);
  free(text);
  plim_edit_set_clear(&edits);
}

static void try_removal(const plim_project *p, const plim_setting *setting) {
  const plim_project_file *f = p->files.at[0];
  plim_edit edit;
  char *text = NULL;
  size_t size;
  if (plim_settings_remove(&f->settings, setting, &edit, NULL)) return;
  plim_edits_apply(f->text, f->size, &edit, 1, &text, &size, NULL);
  print(
      json_pack("{s:s, s:s, s:s%}", "file", f->path, "removed", setting->key, "text", text, size));
  free(text);
  free(edit.text);
}

static void dump(const char *path) {
  plim_project p = {0};
  plim_error error = {0};
  plim_err err = plim_project_read(&p, path, &error);
  if (!err) err = plim_project_finish(&p, &error);
  if (err) print(json_pack("{s:s, s:s}", "file", path, "error", error.message));
  else print_knobs(&p);
  for (int i = 0; i < OTHERS && !err; i++)
    for (int k = 0; k < 4 && others[i].values[k]; k++)
      try_value(&p, others[i].knob, others[i].values[k]);
  for (size_t i = 0; !err && i < p.files.at[0]->settings.at.len; i++)
    try_removal(&p, &p.files.at[0]->settings.at.at[i]);
  plim_project_clear(&p);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) dump(argv[i]);
  return 0;
}
