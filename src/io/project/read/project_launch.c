// Commands in a Makefile, a pyproject.toml, a justfile or a launch.json that start a training.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats.h"
#include "project_impl.h"
#include "run_settings.h"
#include "suggest.h"
#include "text_file.h"

enum { MAX_BYTES = 4 << 20, NAMED = 4 }; // targets that a question names

char *plim_project_name_of(const plim_project_file *f) {
  char *name = NULL;
  if (!f->target) return strdup(f->path);
  return asprintf(&name, "%s:%s", f->path, f->target) < 0 ? NULL : name;
}

uint64_t plim_source_byte(const plim_project_file *f, uint64_t byte) {
  if (!f->from || byte == PLIM_UNKNOWN) return byte;
  return plim_launch_place(f->from, byte < f->size ? (size_t)byte : f->size - 1);
}

// ---- one of several ---------------------------------------------------------------------------------

static plim_err ask(const char *path, const plim_launch_file *f, plim_error *error) {
  char names[200];
  size_t used = 0, shown = 0;
  for (; shown < f->at.len && shown < NAMED; shown++) {
    const plim_launch *l = &f->at.at[shown];
    const char *before = !shown ? "" : shown + 1 == f->at.len ? " and " : ", ";
    if (used + strlen(l->name) + 48 > sizeof names) break;
    used += (size_t)sprintf(names + used, "%s%s (line %d)", before, l->name, l->line);
  }
  if (shown < f->at.len)
    sprintf(names + used, "%s%zu more", shown ? " and " : "", f->at.len - shown);
  plim_err err =
      plim_fail(error, PLIM_ERR_ARGUMENT, "%.60s starts %zu trainings: %s", path, f->at.len, names);
  plim_error_hint(error, "name the one that you mean, for example \"%.160s:%.60s\"", path,
                  f->at.at[0].name);
  return err;
}

static plim_err refuse_name(const char *path, const char *target, const plim_launch_file *f,
                            plim_error *error) {
  const char *names[64];
  size_t count = 0;
  for (; count < f->at.len && count < sizeof names / sizeof *names; count++)
    names[count] = f->at.at[count].name;
  const char *near = count ? plim_suggest(target, names, count) : NULL;
  plim_err err =
      plim_fail(error, PLIM_ERR_ARGUMENT, "\"%.60s\" in %.160s starts no training", target, path);
  if (near) plim_error_hint(error, "did you mean \"%.160s:%.60s\"?", path, near);
  else if (count) {
    char all[200];
    plim_suggest_list(names, count, NAMED, all, sizeof all);
    plim_error_hint(error, "targets that do: %s (type \"%.160s:%.60s\")", all, path, names[0]);
  }
  return err;
}

static plim_err refuse_none(const char *path, const plim_launch_file *f, plim_error *error) {
  plim_err err;
  if (f->unread.code) {
    if (error) *error = f->unread;
    return plim_error_file(error, f->unread.code, path);
  }
  if (*f->entry)
    err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                    "this file defines an entry point (%s), but no command that starts a training",
                    f->entry);
  else err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "no command in this file starts a training");
  const char *module = strstr(f->entry, "= ");
  if (module)
    plim_error_hint(error, "give the command with its arguments: --command \"python -m %.*s ...\"",
                    (int)strcspn(module + 2, ":"), module + 2);
  else
    plim_error_hint(error, "name the file that starts the training, or give the command that does: "
                           "--command \"python train.py --batch_size 8\"");
  return plim_error_file(error, err, path);
}

static const plim_launch *find(const plim_launch_file *f, const char *target) {
  for (size_t i = 0; i < f->at.len; i++)
    if (!target || strcmp(f->at.at[i].name, target) == 0) return &f->at.at[i];
  return NULL;
}

static plim_err refuse_launch(const char *path, const plim_launch *l, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "line %d: the command of %.60s %s", l->line,
                           l->name, l->refusal);
  plim_error_hint(error, "give the command that runs: --command \"python train.py ...\"");
  return plim_error_file(error, err, path);
}

// Whether there is a choice of names.
static bool has_names(const plim_launch_file *f) {
  for (size_t i = 1; i < f->at.len; i++)
    if (strcmp(f->at.at[i].name, f->at.at[0].name) != 0) return true;
  return false;
}

static plim_err add(plim_project *p, const char *path, const char *target, const char *text,
                    size_t size, const plim_launch_file *f, plim_error *error) {
  const plim_launch *l = find(f, target);
  if (!f->at.len) return refuse_none(path, f, error);
  if (!target && has_names(f)) return ask(path, f, error);
  if (!l) return refuse_name(path, target, f, error);
  if (l->refusal) return refuse_launch(path, l, error);
  const plim_sourced *script = &l->script;
  size_t bytes = script->from.len * sizeof *script->from.at;
  uint32_t *from = malloc(bytes);
  if (!from) return plim_no_memory(error);
  memcpy(from, script->from.at, bytes);
  plim_err err = plim_project_add_script(p, path, l->name, text, size, script->bytes.at,
                                         script->bytes.len, error);
  if (err) free(from);
  else p->files.at[p->files.len - 1]->from = from;
  return err;
}

// Whether the files of a command are those of a training; a command may start any program.
static bool is_training(const char *path, const plim_launch_file *f, size_t i, const char *text,
                        size_t size, bool *is_out) {
  plim_project p = {0};
  plim_run_settings settings;
  plim_error why = {0};
  plim_err err = add(&p, path, f->at.at[i].name, text, size, f, &why);
  if (!err) err = plim_project_note_real(&p, path, &why);
  if (!err) err = plim_project_follow(&p, &why);
  if (!err) err = plim_project_finish(&p, &why);
  if (!err) err = plim_run_settings_of(&p, &settings, &why);
  plim_project_clear(&p);
  *is_out |= err == PLIM_ERR_NOMEM;
  return !err || f->at.at[i].refusal;
}

// Of several commands, those remain that start a training that is known, if there is one.
static bool keep_trainings(const char *path, plim_launch_file *f, const char *text, size_t size) {
  bool *keeps = calloc(f->at.len + 1, sizeof *keeps), is_out = !keeps;
  size_t found = 0, kept = 0;
  for (size_t i = 0; !is_out && i < f->at.len; i++)
    found += keeps[i] = is_training(path, f, i, text, size, &is_out);
  for (size_t i = 0; !is_out && found && i < f->at.len; i++) {
    plim_launch moved = f->at.at[i];
    if (!keeps[i]) continue;
    f->at.at[i] = f->at.at[kept];
    f->at.at[kept++] = moved;
  }
  while (!is_out && found && f->at.len > kept) plim_launch_clear(&f->at.at[--f->at.len]);
  free(keeps);
  return !is_out;
}

plim_err plim_project_add_target(plim_project *p, const char *path, const char *target,
                                 const char *text, size_t size, plim_error *error) {
  plim_launch_file f;
  plim_err err = plim_launch_file_read(path, text, size, &f, error);
  if (!err && !target && has_names(&f) && !keep_trainings(path, &f, text, size))
    err = plim_no_memory(error);
  err = err ? plim_error_file(error, err, path) : add(p, path, target, text, size, &f, error);
  plim_launch_file_clear(&f);
  return err;
}

// ---- as named ---------------------------------------------------------------------------------------

// "Makefile:train" unless there is a file of this name. Returns false if it is no such file.
static bool split(const char *named, char path[PLIM_PATH_BYTES], const char **target) {
  size_t size = strlen(named);
  *target = NULL;
  if (size >= PLIM_PATH_BYTES) return false;
  memcpy(path, named, size + 1);
  if (plim_is_file(path)) return plim_is_launch_file(path);
  for (const char *colon = strchr(named, ':'); colon; colon = strchr(colon + 1, ':')) {
    *target = colon + 1;
    snprintf(path, PLIM_PATH_BYTES, "%.*s", (int)(colon - named), named);
    if (plim_is_launch_file(path) && plim_is_file(path)) return true;
  }
  return false;
}

// A pyproject.toml or a launch.json without such commands may hold settings of a training.
static bool is_ordinary(const char *path, const char *text, size_t size) {
  const char *dot = strrchr(path, '.');
  plim_launch_file f;
  plim_error why;
  plim_format format;
  if (!dot || !plim_format_of(path, "", 0, &format)) return false;
  bool is = plim_launch_file_read(path, text, size, &f, &why) ||
            (!f.at.len && !*f.entry && !f.unread.code);
  plim_launch_file_clear(&f);
  return is;
}

plim_err plim_project_read_named(plim_project *p, const char *named, plim_error *error) {
  char given[PLIM_PATH_BYTES], path[PLIM_PATH_BYTES], name[PLIM_PATH_BYTES], *text = NULL;
  const char *target;
  size_t size;
  if (!split(named, given, &target) || !plim_path_tidy(given, path))
    return plim_project_read(p, named, error);
  plim_path_shorten(path, name);
  plim_err err = plim_text_file_read(name, MAX_BYTES, &text, &size, error);
  bool is_other = !err && !target && is_ordinary(name, text, size);
  if (!err && is_other) err = plim_project_read(p, named, error);
  else if (!err) err = plim_project_add_target(p, name, target, text, size, error);
  if (!err && !is_other) err = plim_project_note_real(p, name, error);
  free(text);
  return err;
}
