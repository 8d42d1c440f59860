#include "sets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault_disk.h"
#include "folder.h"

plim_changeset_result set_result;
plim_error set_error;

char *set_path_of(const char *name) {
  static char paths[8][512];
  static int turn;
  char *path = paths[turn = (turn + 1) % 8];
  snprintf(path, sizeof paths[0], "%s", folder_path(name));
  return path;
}

plim_file_change set_change_of(const char *name, const char *before, const char *after) {
  return (plim_file_change){set_path_of(name), plim_content_of(before, before ? strlen(before) : 0),
                            after, after ? strlen(after) : 0};
}

plim_err set_apply(const plim_file_change *changes, size_t count) {
  plim_changeset_result_clear(&set_result);
  set_error = (plim_error){0};
  return plim_changeset_apply(set_path_of("."), changes, count, NULL, &set_result, &set_error);
}

plim_err set_apply_one(const char *name, const char *before, const char *after) {
  plim_file_change change = set_change_of(name, before, after);
  return set_apply(&change, 1);
}

plim_err set_undo(bool force) {
  plim_changeset_result_clear(&set_result);
  set_error = (plim_error){0};
  return plim_changeset_undo(set_path_of("."), &(plim_changeset_options){.force = force},
                             &set_result, &set_error);
}

plim_err set_recover(bool force) {
  plim_changeset_result_clear(&set_result);
  set_error = (plim_error){0};
  return plim_changeset_recover(set_path_of("."), &(plim_changeset_options){.force = force},
                                &set_result, &set_error);
}

const char *set_content(const char *name) {
  static char text[4][256];
  static int turn;
  char *data;
  size_t size;
  if (plim_disk_read_file(folder_path(name), &data, &size)) return "(nothing)";
  char *to = text[turn = (turn + 1) % 4];
  snprintf(to, sizeof text[0], "%s", data);
  free(data);
  return to;
}

bool set_is_there(const char *name) { return access(folder_path(name), F_OK) == 0; }

void set_begin(void) {
  umask(022);
  folder_make();
}

void set_end(void) {
  plim_changeset_result_clear(&set_result);
  folder_remove();
}

// ---- interrupted ------------------------------------------------------------------------------

static plim_err change_both(const plim_disk *disk) {
  plim_file_change changes[] = {set_change_of("a", "a", "A"), set_change_of("b", "b", "B")};
  plim_changeset_options options = {.disk = disk};
  plim_changeset_result_clear(&set_result);
  return plim_changeset_apply(set_path_of("."), changes, 2, &options, &set_result, &set_error);
}

static plim_err undo_both(const plim_disk *disk) {
  plim_changeset_options options = {.disk = disk};
  plim_changeset_result_clear(&set_result);
  return plim_changeset_undo(set_path_of("."), &options, &set_result, &set_error);
}

static void die_at(int n, plim_err (*act)(const plim_disk *)) {
  pid_t child = fork();
  if (child == 0) {
    fault_set((fault){.kind = FAULT_DIE_BEFORE, .at = n}, NULL);
    act(&fault_disk);
    _exit(1);
  }
  waitpid(child, NULL, 0);
}

static void begin_anew(void) {
  folder_remove();
  folder_make();
  folder_write_text("a", "a");
  folder_write_text("b", "b");
}

static bool are(const char *a, const char *b) {
  return !strcmp(set_content("a"), a) && !strcmp(set_content("b"), b);
}

bool set_interrupt(void) {
  for (int n = 0; n < 200; n++) {
    begin_anew();
    die_at(n, change_both);
    if (are("A", "b")) return true;
  }
  return false;
}

bool set_interrupt_undo(void) {
  for (int n = 0; n < 200; n++) {
    begin_anew();
    if (change_both(NULL)) return false;
    die_at(n, undo_both);
    if (are("a", "B")) return true;
  }
  return false;
}
