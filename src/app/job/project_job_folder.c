// plan and check with a folder: its files are those of the only training in it. Several trainings are a question.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "project_folder.h"
#include "project_job.h"
#include "text_file.h"

enum { NAMED = 4 }; // trainings that a question names

// The path of a training as seen from the folder.
static const char *inside(const char *path, const char *folder) {
  size_t n = strlen(folder);
  if (strncmp(path, folder, n) == 0) path += n;
  return path + strspn(path, "/");
}

// "a.yaml, b.yaml and 3 more"; names that do not fit are among the rest.
static void list(const plim_folder *f, const char *folder, char *out, size_t size) {
  size_t count = f->trainings.len, shown = 0, used = 0;
  const size_t rest = sizeof " and 18446744073709551615 more";
  for (; shown < count && shown < NAMED; shown++) {
    const plim_folder_training *t = &f->trainings.at[shown];
    const char *name = inside(t->path, folder);
    const char *before = shown == 0 ? "" : shown + 1 == count ? " and " : ", ";
    char line[32] = "";
    if (t->line) snprintf(line, sizeof line, " (line %d)", t->line);
    if (used + strlen(before) + strlen(name) + strlen(line) + rest > size) break;
    used += (size_t)sprintf(out + used, "%s%s%s", before, name, line);
  }
  if (shown < count) sprintf(out + used, "%s%zu more", shown ? " and " : "", count - shown);
}

static plim_err refuse_none(const plim_folder *f, const char *folder, plim_error *error) {
  if (f->unparsed.code) {
    if (error) *error = f->unparsed; // probably the one that is meant
    return f->unparsed.code;
  }
  plim_err err =
      plim_fail(error, PLIM_ERR_UNSUPPORTED, "no file in %.200s starts a training", folder);
  plim_error_hint(error, "name the file that starts the training, or give the command that does: "
                         "--command \"python train.py --batch_size 8\"");
  return err;
}

// One training may not be the only one.
static plim_err refuse_large(const char *folder, plim_error *error) {
  plim_err err =
      plim_fail(error, PLIM_ERR_UNSUPPORTED,
                "%.200s has more files or deeper folders than are searched for a training", folder);
  plim_error_hint(error, "name the file that starts the training, or a folder with fewer files");
  return err;
}

static plim_err ask(const plim_folder *f, const char *folder, plim_error *error) {
  char names[200];
  list(f, folder, names, sizeof names);
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "%.60s has %zu trainings%s: %s", folder,
                           f->trainings.len, f->is_cut ? " or more" : "", names);
  plim_error_hint(error, "name the one that you mean instead of the folder: %.240s",
                  f->trainings.at[0].path);
  return err;
}

static bool is_named(const project_input *in, const char *path) {
  char *real = realpath(path, NULL);
  bool is = false;
  for (size_t i = 0; real && i < in->count && !is; i++) {
    char *other = realpath(in->files[i], NULL);
    is = other && strcmp(other, real) == 0;
    free(other);
  }
  free(real);
  return is;
}

static void note_unused(project_job *p, const plim_folder *f, const project_input *in) {
  for (size_t i = 0; i < f->unused.len; i++) {
    char path[PLIM_PATH_BYTES];
    if (is_named(in, f->unused.at[i]) || !plim_path_tidy(f->unused.at[i], path)) continue;
    plim_note_add(
        &p->notes, "unused.file", NULL,
        "%.160s is left out, because no file of the training mentions it; if the run uses "
        "it, add it to the command after the folder",
        path);
    plim_note_at(&p->notes, path, 0);
  }
}

static void note_unparsed(project_job *p, const plim_folder *f) {
  if (!f->unparsed.code) return;
  plim_note_add(&p->notes, "unread.file", NULL, "%.160s cannot be read: %.200s", f->unparsed.file,
                f->unparsed.message);
  plim_note_at(&p->notes, f->unparsed.file, 0);
}

plim_err project_job_add_folder(project_job *p, const char *folder, const project_input *in,
                                plim_error *error) {
  plim_folder f;
  plim_err err = plim_folder_read(folder, &f, error);
  if (err) return err;
  if (f.is_cut && f.trainings.len < 2) err = refuse_large(folder, error);
  else if (f.trainings.len == 0) err = refuse_none(&f, folder, error);
  else if (f.trainings.len > 1) err = ask(&f, folder, error);
  else err = plim_project_read_named(&p->project, f.trainings.at[0].path, error);
  if (!err) note_unused(p, &f, in);
  if (!err) note_unparsed(p, &f);
  plim_folder_clear(&f);
  return err;
}
