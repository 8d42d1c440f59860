// Prints the commands that start a training in Makefiles and the like, which make_check.py compares with what make runs. One
// JSON object per line: the file, its error, and for each target its name, its line and its script, in which \001 stands for
// a value that is not known.
//
//   dump_launch FILE...
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "launch_file.h"
#include "text_file.h"

enum { MAX_BYTES = 16 << 20 };

static json_t *launch_json(plim_launch *l) {
  plim_sourced *s = &l->script;
  size_t kept = 0;
  for (size_t i = 0; i < s->bytes.len; i++) {
    bool is_open = s->from.at[i] == PLIM_FROM_OPEN;
    if (is_open && i && s->from.at[i - 1] == PLIM_FROM_OPEN) continue;
    s->bytes.at[kept++] = is_open ? 1 : s->bytes.at[i];
  }
  return json_pack("{s:s, s:i, s:b, s:s%}", "name", l->name, "line", l->line, "refused",
                   l->refusal != NULL, "script", s->bytes.at, kept);
}

static void dump(const char *path) {
  plim_launch_file f;
  plim_error error = {0};
  char *text;
  size_t size;
  json_t *all = json_array();
  if (plim_text_file_read(path, MAX_BYTES, &text, &size, &error)) {
    fprintf(stderr, "%s: %s\n", path, error.message);
    exit(2);
  }
  plim_err err = plim_launch_file_read(path, text, size, &f, &error);
  for (size_t i = 0; i < f.at.len && !err; i++)
    json_array_append_new(all, launch_json(&f.at.at[i]));
  json_t *line =
      json_pack("{s:s, s:s, s:o}", "file", path, "error", err ? error.message : "", "targets", all);
  json_dumpf(line, stdout, JSON_COMPACT);
  putchar('\n');
  json_decref(line);
  plim_launch_file_clear(&f);
  free(text);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) dump(argv[i]);
  return 0;
}
