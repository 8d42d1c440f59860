// The program with other settings: another command line, edited copies of the user's files, and new files.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command_words.h"
#include "plan_edits.h"
#include "quoting.h"
#include "trial_impl.h"

// ---- the command line -------------------------------------------------------------------------------

typedef struct {
  trial_version *version;
  size_t command, first; // the command that is being read, and where its words begin
  bool is_out;           // of memory
  bool is_odd;           // a word is not a literal
} reading;

static void push_word(reading *r, const char *text) {
  char *copy = strdup(text);
  if (!copy || !vec_push(&r->version->words, copy)) free(copy), r->is_out = true;
}

// The editor may put "export NAME=VALUE" before the command; env then starts the program with that variable.
static void take_word(void *to, size_t command, const char *word, size_t size) {
  reading *r = to;
  plim_bytes text = {0};
  if (command != r->command) r->first = r->version->words.len;
  bool is_first = r->first == r->version->words.len;
  r->command = command;
  bool ok = plim_word_read(PLIM_WORD_WORD, word, (plim_span){0, size}, &text, &r->is_out);
  if (!ok && !r->is_out) r->is_odd = true;
  else if (ok) push_word(r, is_first && strcmp(text.at, "export") == 0 ? "env" : text.at);
  vec_free(&text);
}

static plim_err read_words(trial_version *v, const char *script, size_t size, plim_error *error) {
  reading r = {.version = v};
  plim_err err = plim_command_words(PLIM_FORMAT_SHELL, script, size, take_word, &r);
  if (r.is_out || err == PLIM_ERR_NOMEM || !vec_push(&v->words, NULL)) return plim_no_memory(error);
  if (!err && !r.is_odd && v->words.len > 1) return PLIM_OK;
  return plim_fail(error, PLIM_ERR_UNSUPPORTED, "cannot read the changed command line: %s",
                   script + strlen(PLIM_SCRIPT_START));
}

static plim_err copy_words(trial_version *v, const char *const *words, plim_error *error) {
  for (; *words; words++) {
    char *copy = strdup(*words);
    if (!copy || !vec_push(&v->words, copy)) return free(copy), plim_no_memory(error);
  }
  return vec_push(&v->words, NULL) ? PLIM_OK : plim_no_memory(error);
}

// ---- edited copies ----------------------------------------------------------------------------------

static plim_err cannot_write(const char *path, plim_error *error) {
  return plim_fail(error, PLIM_ERR_IO, "cannot write %.200s: %s", path, strerror(errno));
}

static plim_err make_folder(trial_version *v, const char *parent, plim_error *error) {
  if (*v->folder) return PLIM_OK;
  if (!parent) parent = getenv("TMPDIR");
  if (!plim_path_join(v->folder, parent && *parent ? parent : "/tmp", "plimsoll-trial-XXXXXX") ||
      !mkdtemp(v->folder)) {
    plim_err err = cannot_write(v->folder, error);
    *v->folder = 0;
    return err;
  }
  return PLIM_OK;
}

// The copy has the permissions of the original, but another time: Python uses a cached compiled module if the source has the
// same time and size. `of` is NULL for a new file.
static plim_err write_copy(const char *path, const char *of, const char *text, size_t size,
                           plim_error *error) {
  struct stat like;
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, of ? 0600 : 0666);
  bool ok = fd >= 0 && (!of || stat(of, &like) == 0);
  while (ok && size) {
    ssize_t written = write(fd, text, size);
    ok = written > 0 || (written < 0 && errno == EINTR);
    if (written > 0) text += written, size -= (size_t)written;
  }
  if (ok && of) {
    struct timespec times[2] = {like.st_atim, like.st_mtim};
    times[1].tv_sec++;
    ok = fchmod(fd, like.st_mode & 07777) == 0 && futimens(fd, times) == 0;
  }
  plim_err err = ok ? PLIM_OK : cannot_write(path, error);
  if (fd >= 0) close(fd);
  return err;
}

// Shows the program this text at `at`; `of` is the original there, or NULL for a new file.
static plim_err show(trial_version *v, const char *parent, const char *at, const char *of,
                     const char *text, size_t size, plim_error *error) {
  char path[PLIM_PATH_BYTES], name[24];
  plim_err err = make_folder(v, parent, error);
  if (err) return err;
  snprintf(name, sizeof name, "%zu", v->replaced.len);
  if (!plim_path_join(path, v->folder, name))
    return plim_fail(error, PLIM_ERR_IO, "the path %.200s is too long", v->folder);
  err = write_copy(path, of, text, size, error);
  if (err) return err;
  plim_sandbox_replaced one = {strdup(at), strdup(path)};
  if (one.path && one.with && vec_push(&v->replaced, one)) return PLIM_OK;
  free((char *)one.path);
  free((char *)one.with);
  return plim_no_memory(error);
}

// ---- all of it --------------------------------------------------------------------------------------

static plim_err show_new(trial_version *v, const char *parent, const plim_edit_set *edits,
                         plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; !err && i < edits->files.len; i++) {
    const plim_new_file *f = &edits->files.at[i];
    if (!f->is_there) err = show(v, parent, f->path, NULL, f->text, strlen(f->text), error);
  }
  return err;
}

// Shows the program the file with its edits, if there are any.
static plim_err show_edited(trial_version *v, const char *parent, const plim_project *project,
                            size_t file, const plim_edit_set *edits, plim_error *error) {
  const plim_project_file *f = project->files.at[file];
  char *text = NULL;
  size_t size, source_size;
  const char *source = plim_source_of(f, &source_size);
  plim_err err = plim_project_written(project, file, edits, &text, &size, error);
  bool is_same = err || (size == source_size && memcmp(text, source, size) == 0);
  if (!is_same) err = show(v, parent, f->path, f->path, text, size, error);
  free(text);
  return err;
}

static plim_err edited_words(trial_version *v, const plim_project *project,
                             const char *const *words, const plim_edit_set *edits,
                             plim_error *error) {
  const plim_project_file *f = project->files.at[0];
  char *text = NULL;
  size_t size;
  plim_err err = plim_project_text(project, 0, edits, &text, &size, error);
  bool is_same = err || (size == f->size && memcmp(text, f->text, size) == 0);
  if (!err) err = is_same ? copy_words(v, words, error) : read_words(v, text, size, error);
  free(text);
  return err;
}

// The first file is the command line.
plim_err trial_version_of(const plim_project *project, const char *const *words, const char *parent,
                          const plim_edit_set *edits, trial_version *v, plim_error *error) {
  *v = (trial_version){0};
  plim_err err = show_new(v, parent, edits, error);
  if (!err) err = edited_words(v, project, words, edits, error);
  for (size_t i = 1; !err && i < project->files.len; i++)
    err = show_edited(v, parent, project, i, edits, error);
  return err;
}

plim_err trial_version_of_line(const plim_project *project, const char *line,
                               const plim_edit_set *edits, trial_version *v, plim_error *error) {
  const char *const words[] = {"bash", "-c", line, NULL};
  *v = (trial_version){0};
  plim_err err = show_new(v, NULL, edits, error);
  if (!err) err = copy_words(v, words, error);
  for (size_t i = 0; !err && i < project->files.len; i++)
    if (!project->files.at[i]->is_typed) err = show_edited(v, NULL, project, i, edits, error);
  return err;
}

plim_err trial_version_add(trial_version *v, const char *path, const char *text,
                           plim_error *error) {
  return show(v, NULL, path, NULL, text, strlen(text), error);
}

plim_err trial_version_make(const trial_program *p, const plim_knob_change *changes, size_t count,
                            trial_version *out, plim_error *error) {
  plim_edit_set edits;
  *out = (trial_version){0};
  if (!count) return copy_words(out, p->words, error);
  plim_err err = plim_project_set(&p->files.project, changes, count, &edits, error);
  if (err) return err;
  err = trial_version_of(&p->files.project, p->words, NULL, &edits, out, error);
  plim_edit_set_clear(&edits);
  return err;
}

plim_err trial_version_check(const trial_version *v, bool is_unsandboxed, plim_error *error) {
  if (!is_unsandboxed || !v->replaced.len) return PLIM_OK;
  const char *path = v->replaced.at[0].path;
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                           "other values would need %s %.200s, which only the "
                           "sandbox can give to the program",
                           plim_is_file(path) ? "an edited copy of" : "the new file", path);
  plim_error_hint(error, "if the program has a flag for it, add the flag to the command; or leave "
                         "out --unsandboxed");
  return err;
}

void trial_version_clear(trial_version *v) {
  for (size_t i = 0; i < v->words.len; i++) free(v->words.at[i]);
  for (size_t i = 0; i < v->replaced.len; i++) {
    unlink(v->replaced.at[i].with);
    free((char *)v->replaced.at[i].path);
    free((char *)v->replaced.at[i].with);
  }
  if (*v->folder) rmdir(v->folder);
  vec_free(&v->words);
  vec_free(&v->replaced);
  *v = (trial_version){0};
}

// ---- for the user -----------------------------------------------------------------------------------

plim_err trial_program_diff(const trial_program *p, int64_t micro, trial_diff *out,
                            plim_error *error) {
  plim_knob_change changes[2];
  size_t count = trial_changes(p, micro, changes);
  *out = (trial_diff){0};
  plim_err err = plan_diff_of(&p->files.project, changes, count, &out->files, error);
  if (!err) err = plan_command_of(&p->files.project, changes, count, &out->command, error);
  if (err) trial_diff_clear(out);
  return err;
}

void trial_diff_clear(trial_diff *diff) {
  plim_diff_clear(&diff->files);
  free(diff->command);
  *diff = (trial_diff){0};
}
