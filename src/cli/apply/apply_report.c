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

void apply_print_earlier(const plim_changes *earlier) {
  for (size_t i = 0; i < earlier->count; i++)
    apply_note(cli_format("an earlier, interrupted apply or undo was %s: %s",
                          earlier->way == PLIM_CHANGES_COMPLETED ? "completed" : "rolled back",
                          earlier->files[i].path));
}

void apply_print_done(const plim_changes *done, const char *verb, bool as_json) {
  json_writer j = jsonw_begin(stdout);
  if (!as_json) {
    for (size_t i = 0; i < done->count; i++) {
      const plim_changed_file *f = &done->files[i];
      char line[2 * PLIM_PATH_BYTES];
      snprintf(line, sizeof line, "%s %s%s%s%s",
               f->created ? "created"
               : f->gone  ? "removed"
               : f->left  ? "left as it is:"
                          : verb,
               f->path, f->backup ? "  (backup: " : "", f->backup ? f->backup : "",
               f->backup ? ")" : "");
      plim_text_disarm(line);
      term_say(stdout, line, 0, 2);
    }
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
