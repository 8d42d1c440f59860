// Prints the kind of every key of configuration files, which census.py examines. One JSON object per line and key: the
// file, its framework, the key, the kind, and what the row of the table says.
//
//   dump_keys FILE...
#include <jansson.h>
#include <stdio.h>

#include "project.h"
#include "project_keys.h"

static const char *const kinds[] = {[PLIM_KEY_NOT_ASKED] = "not asked",
                                    [PLIM_KEY_KNOB] = "knob",
                                    [PLIM_KEY_FREE] = "free",
                                    [PLIM_KEY_MISSING] = "missing",
                                    [PLIM_KEY_UNKNOWN] = "unknown"};

static void print(json_t *line) {
  char *text = json_dumps(line, JSON_COMPACT | JSON_ENSURE_ASCII);
  if (text) puts(text);
  free(text);
  json_decref(line);
}

static void print_keys(const plim_project_file *f) {
  const char *dialect =
      f->recipe.dialect == PLIM_DIALECTS ? "none" : plim_dialect_table[f->recipe.dialect].name;
  for (size_t i = 0; i < f->settings.at.len; i++) {
    const plim_other_key *row;
    plim_key_kind kind = plim_project_key_kind(f, &f->settings.at.at[i], &row);
    print(json_pack("{s:s, s:s, s:s, s:s, s:s}", "file", f->path, "dialect", dialect, "key",
                    f->settings.at.at[i].key, "kind", kinds[kind], "what", row ? row->what : ""));
  }
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    plim_project p = {0};
    plim_error error = {0};
    plim_err err = plim_project_read(&p, argv[i], &error);
    if (!err) err = plim_project_finish(&p, &error);
    if (err) print(json_pack("{s:s, s:s}", "file", argv[i], "error", error.message));
    else print_keys(p.files.at[0]);
    plim_project_clear(&p);
  }
  return 0;
}
