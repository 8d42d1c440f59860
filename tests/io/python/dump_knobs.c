// Reads projects and prints the value of each knob, which arguments_check.py compares with what Python does. One JSON
// object per line: the folder, and for each knob its origin and value.
//
//   dump_knobs FOLDER...     each with train.py, and run.sh where a command starts it
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "project.h"
#include "text_file.h"

static const char *const origins[] = {"absent", "default", "unclear", "explicit"};

static json_t *knob_of(const plim_project_knob *k) {
  char text[128];
  plim_value_print(&k->value, text, sizeof text);
  return json_pack("{s:s, s:s, s:s}", "origin", origins[k->origin], "value", text, "why", k->why);
}

static plim_err read_folder(plim_project *p, const char *folder, plim_error *error) {
  static const char *const names[] = {"train.py", "run.sh"};
  plim_err err = PLIM_OK;
  for (int i = 0; i < 2 && !err; i++) {
    char path[PLIM_PATH_BYTES];
    if (plim_path_join(path, folder, names[i]) && plim_is_file(path))
      err = plim_project_read(p, path, error);
  }
  return err ? err : plim_project_finish(p, error);
}

static void dump(const char *folder) {
  plim_project p = {0};
  plim_error error = {0};
  json_t *line = json_pack("{s:s}", "folder", folder);
  if (read_folder(&p, folder, &error))
    json_object_set_new(line, "error", json_string(error.message));
  else
    for (int i = 0; i < PLIM_KNOBS; i++)
      json_object_set_new(line, plim_knob_table[i].name, knob_of(&p.knobs[i]));
  char *text = json_dumps(line, JSON_COMPACT | JSON_ENSURE_ASCII);
  if (text) puts(text);
  free(text);
  json_decref(line);
  plim_project_clear(&p);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) dump(argv[i]);
  return 0;
}
