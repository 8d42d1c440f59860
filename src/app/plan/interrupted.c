#include "interrupted.h"

#include <stdio.h>
#include <string.h>

#include "changeset.h"
#include "text.h"

static const char *const sides[] = {
    [PLIM_FILE_OLD] = "has its old contents",
    [PLIM_FILE_NEW] = "has its new contents",
    [PLIM_FILE_OTHER] = "has changed since",
};

static void list_files(const plim_changes *c, interrupted *out) {
  for (size_t i = 0; i < c->count; i++) {
    size_t used = strlen(out->what);
    snprintf(out->what + used, sizeof out->what - used, "%s %.80s %s", i ? "," : ":",
             c->files[i].path, sides[c->files[i].found]);
    out->is_mixed = out->is_mixed || c->files[i].found != c->files[0].found;
  }
  plim_text_disarm(out->what);
}

static void describe(const plim_changes *c, interrupted *out) {
  bool is_undo = c->kind == PLIM_CHANGES_UNDO;
  const char *command = c->is_lent ? "run" : is_undo ? "undo" : "apply";
  const char *fix = c->is_lent ? "restore the files" : is_undo ? "complete it" : "roll it back";
  snprintf(out->what, sizeof out->what, "plimsoll %s was %s in this folder", command,
           c->is_lent ? "killed" : "interrupted");
  snprintf(out->fix, sizeof out->fix, "to %s: plimsoll undo", fix);
  list_files(c, out);
}

bool interrupted_find(interrupted *out) {
  plim_changes changes;
  plim_error error = {0};
  *out = (interrupted){0};
  plim_err err = plim_changeset_look(".", &changes, &error);
  if (err) {
    snprintf(out->what, sizeof out->what, "%.200s: %.100s", error.file, error.message);
    snprintf(out->fix, sizeof out->fix, "to see the details: plimsoll undo");
  } else if (changes.count) describe(&changes, out);
  plim_changes_clear(&changes);
  return *out->what;
}
