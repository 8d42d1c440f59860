#include "apply_report.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli_alloc.h"
#include "json_writer.h"
#include "term.h"
#include "text.h"
#include "text_file.h"

void apply_note(char *text) {
  fprintf(stderr, "note: ");
  term_say(stderr, text, 6, 6);
  free(text);
}

void apply_say_if_unseen(const char *what) {
  if (fflush(stdout) || ferror(stdout)) apply_note(cli_format("%s", what));
}

char *apply_describe_earlier(const plim_changes *earlier) {
  char files[400] = "";
  for (size_t i = 0, used = 0; i < earlier->count && used < sizeof files; i++)
    used += (size_t)snprintf(files + used, sizeof files - used, "%s%s", i ? ", " : "",
                             earlier->files[i].path);
  plim_text_disarm(files);
  if (earlier->is_lent)
    return cli_format(
        "an earlier run was killed before it could restore these files; they are restored now: %s",
        files);
  return cli_format("the interrupted %s was %s (%s)",
                    earlier->kind == PLIM_CHANGES_UNDO ? "undo" : "apply",
                    earlier->way == PLIM_CHANGES_COMPLETED ? "completed" : "rolled back", files);
}

void apply_print_earlier(const plim_changes *earlier) {
  if (earlier->count) apply_note(apply_describe_earlier(earlier));
}

// "changed train.yaml  (backup: train.yaml.backup)"
static void print_file(const plim_changed_file *f, bool is_undo) {
  char line[2 * PLIM_PATH_BYTES + 64];
  const char *label = is_undo ? "your edited version" : "backup";
  const char *verb = f->gone      ? "removed"
                     : is_undo    ? "restored"
                     : f->created ? "created"
                                  : "changed";
  if (f->skipped) snprintf(line, sizeof line, "skipped %s: its backup is missing", f->path);
  else if (f->left) snprintf(line, sizeof line, "%s already has its original contents", f->path);
  else if (f->backup)
    snprintf(line, sizeof line, "%s %s  (%s: %s)", verb, f->path, label, f->backup);
  else snprintf(line, sizeof line, "%s %s", verb, f->path);
  plim_text_disarm(line);
  term_say(stdout, line, 0, 2);
}

void apply_print_done(const plim_changes *done, bool as_json) {
  json_writer j = jsonw_begin(stdout);
  if (!as_json) {
    for (size_t i = 0; i < done->count; i++)
      print_file(&done->files[i], done->kind == PLIM_CHANGES_UNDO);
    return;
  }
  jsonw_object(&j, NULL);
  jsonw_u64(&j, "format_version", 1);
  jsonw_array(&j, "files");
  for (size_t i = 0; i < done->count; i++) {
    jsonw_object(&j, NULL);
    jsonw_string(&j, "path", done->files[i].path);
    jsonw_string(&j, "backup", done->files[i].backup);
    jsonw_end(&j);
  }
  jsonw_end(&j);
  jsonw_end(&j);
  jsonw_finish(&j);
}
