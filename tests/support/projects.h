// Projects for tests: files, or texts as if they were files; the values of their knobs, and whether one can be changed.
#ifndef PLIM_TESTS_PROJECTS_H
#define PLIM_TESTS_PROJECTS_H

#include "other_values.h"
#include "project.h"
#include "project_change.h"
#include "test.h"

#define FIXTURES TEST_ROOT "/fixtures/"

static plim_project project;
static plim_error error;

static inline plim_err read_files(const char *const *paths, size_t count) {
  plim_project_clear(&project);
  project = (plim_project){0};
  error = (plim_error){0};
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < count && !err; i++) err = plim_project_read(&project, paths[i], &error);
  return err ? err : plim_project_finish(&project, &error);
}

#define READ(...)                                                                                  \
  read_files((const char *const[]){__VA_ARGS__},                                                   \
             sizeof(const char *const[]){__VA_ARGS__} / sizeof(char *))

// Reads two texts as if they were files of those names; `second` may be NULL.
static inline plim_err read_two(const char *path, const char *text, const char *second,
                                const char *more) {
  plim_project_clear(&project);
  project = (plim_project){0};
  error = (plim_error){0};
  plim_err err = plim_project_add(&project, path, text, strlen(text), &error);
  if (!err && second) err = plim_project_add(&project, second, more, strlen(more), &error);
  return err ? err : plim_project_finish(&project, &error);
}

static inline plim_err read_text(const char *path, const char *text) {
  return read_two(path, text, NULL, NULL);
}

static inline const char *value_of(plim_knob knob) {
  static char text[4][512];
  static int next;
  char *out = text[next++ % 4];
  const plim_project_knob *k = &project.knobs[knob];
  if (k->origin == PLIM_UNCLEAR) snprintf(out, sizeof *text, "unclear");
  else plim_value_print(&k->value, out, sizeof *text);
  return out;
}

// Whether all of "micro_batch=4 checkpoint=on" are true. Prints those that are not.
static inline bool says(const char *expected) {
  bool ok = true;
  for (const char *at = expected; *at;) {
    size_t size = strcspn(at, " "), name_size = strcspn(at, "=");
    char name[64], want[256];
    snprintf(name, sizeof name, "%.*s", (int)name_size, at);
    snprintf(want, sizeof want, "%.*s", (int)(size - name_size - 1), at + name_size + 1);
    plim_knob knob = plim_knob_named(name);
    bool is_right = knob != PLIM_KNOBS && strcmp(value_of(knob), want) == 0;
    if (!is_right)
      printf("%s is %s, not %s\n", name, knob == PLIM_KNOBS ? "?" : value_of(knob), want);
    ok = ok && is_right;
    at += size + (at[size] == ' ');
  }
  return ok;
}

// Sets one knob of the project; false with the reason in `error`.
static inline bool set(const char *name, const char *to, plim_edit_set *edits) {
  plim_knob_change change = {plim_knob_named(name), value_from(to)};
  error = (plim_error){0};
  return !plim_project_set(&project, &change, 1, edits, &error);
}

static inline bool changes(const char *name, const char *to) {
  plim_edit_set edits;
  bool ok = set(name, to, &edits);
  if (!ok) printf("%s: %s\n", name, error.message);
  if (ok) plim_edit_set_clear(&edits);
  return ok;
}

static inline bool refuses(const char *name, const char *to, const char *reason) {
  plim_edit_set edits;
  bool ok = set(name, to, &edits);
  if (ok) plim_edit_set_clear(&edits);
  if (!ok && strstr(error.message, reason)) return true;
  printf("%s: %s\n", name, ok ? "it was changed" : error.message);
  return false;
}

static inline plim_err read_and_follow(const char *path) {
  plim_project_clear(&project);
  project = (plim_project){0};
  plim_err err = plim_project_read(&project, path, &error);
  if (!err) err = plim_project_follow(&project, &error);
  return err ? err : plim_project_finish(&project, &error);
}

static inline char *text_after(size_t file, const plim_edit_set *edits) {
  char *text = NULL;
  size_t size;
  if (plim_project_text(&project, file, edits, &text, &size, &error)) test_failed = true;
  return text;
}

static inline bool becomes(size_t file, const plim_edit_set *edits, const char *expected) {
  char *text = text_after(file, edits);
  bool is = text && strcmp(text, expected) == 0;
  if (!is) printf("%s", text ? text : error.message);
  free(text);
  return is;
}

#endif
