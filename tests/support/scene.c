#include "scene.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"

#define BIG 5000

typedef struct {
  const char *name, *path; // its path in the folder, and its path in the change
  const char *old, *new;   // NULL: does not exist
  mode_t mode;
} scene_file;

static char big_old[BIG], big_new[BIG];

static const scene_file files[SCENE_FILES] = {
    {"p/conf/a.yaml", "p/conf/a.yaml", "batch: 8\n", "batch: 4\r\n", 0640},
    {"p/b c.sh", "p/conf/../b c.sh", big_old, big_new, 0755},
    {"real/c.toml", "p/link.toml", "old = 1", "", 0600},
    {"p/new.txt", "p/new.txt", NULL, "new\n", 0644},
    {"p/old.txt", "p/old.txt", "old\n", NULL, 0444 | 0200},
};

static void fill(void) {
  memset(big_old, 'o', BIG - 1);
  memset(big_new, 'n', BIG - 1);
}

static void write_files(void) {
  for (int i = 0; i < SCENE_FILES; i++) {
    if (!files[i].old) continue;
    folder_write_text(files[i].name, files[i].old);
    if (chmod(folder_path(files[i].name), files[i].mode)) abort();
  }
  folder_write_text("shadow/keep", "");
  if (symlink("../real/c.toml", folder_path("p/link.toml"))) abort();
}

void scene_make(void) {
  fill();
  umask(022);
  folder_make_in_memory();
  write_files();
}

void scene_remove(void) { folder_remove(); }

void scene_reset(void) {
  scene_remove();
  scene_make();
}

const char *scene_root(void) { return folder_path("p"); }
const char *scene_shadow(void) {
  static char path[512];
  snprintf(path, sizeof path, "%s", folder_path("shadow"));
  return path;
}

plim_err scene_apply(const plim_disk *disk, plim_error *error) {
  plim_file_change changes[SCENE_FILES];
  char paths[SCENE_FILES][512];
  for (int i = 0; i < SCENE_FILES; i++) {
    const scene_file *f = &files[i];
    snprintf(paths[i], sizeof paths[i], "%s", folder_path(f->path));
    changes[i] = (plim_file_change){paths[i], plim_content_of(f->old, f->old ? strlen(f->old) : 0),
                                    f->new, f->new ? strlen(f->new) : 0};
  }
  plim_changeset_result result;
  plim_err err = plim_changeset_apply(scene_root(), changes, SCENE_FILES,
                                      &(plim_changeset_options){.disk = disk, .outside = true},
                                      &result, error);
  plim_changeset_result_clear(&result);
  return err;
}

plim_err scene_undo(const plim_disk *disk, plim_error *error) {
  plim_changeset_result result;
  plim_err err = plim_changeset_undo(
      scene_root(), &(plim_changeset_options){.disk = disk, .outside = true}, &result, error);
  plim_changeset_result_clear(&result);
  return err;
}

plim_err scene_recover(const plim_disk *disk, plim_error *error) {
  plim_changeset_result result;
  plim_err err = plim_changeset_recover(
      scene_root(), &(plim_changeset_options){.disk = disk, .outside = true}, &result, error);
  plim_changeset_result_clear(&result);
  return err;
}

// ---- what is there ----------------------------------------------------------------------------

static bool holds(const char *name, const char *text, mode_t mode) {
  static char data[BIG + 1];
  struct stat found;
  FILE *in = fopen(folder_path(name), "rb");
  if (!in || !text) {
    if (in) fclose(in);
    return !in && !text;
  }
  size_t size = fread(data, 1, sizeof data, in);
  bool ok = fstat(fileno(in), &found) == 0 && (found.st_mode & 07777) == mode;
  fclose(in);
  return ok && size == strlen(text) && memcmp(data, text, size) == 0;
}

const char *scene_sides(void) {
  static char sides[SCENE_FILES + 1];
  for (int i = 0; i < SCENE_FILES; i++) {
    const scene_file *f = &files[i];
    sides[i] = holds(f->name, f->old, f->mode) ? 'o' : holds(f->name, f->new, f->mode) ? 'n' : 'x';
  }
  return sides;
}

static char litter[512];

static int look_for_litter(const char *path, const struct stat *found, int kind, struct FTW *walk) {
  (void)found, (void)kind;
  const char *name = path + walk->base;
  bool is_litter =
      strstr(name, ".plimsoll-") || strstr(name, "journal") || strcmp(name, "lock") == 0;
  if (is_litter) snprintf(litter, sizeof litter, "%s is left", path);
  return is_litter;
}

static bool has_backup(const scene_file *f) {
  char name[128];
  snprintf(name, sizeof name, "%s.backup", f->name);
  return f->old && holds(name, f->old, f->mode);
}

static bool is_there(const char *name) { return access(folder_path(name), F_OK) == 0; }

const char *scene_fault(void) {
  bool is_new = strcmp(scene_sides(), "nnnnn") == 0;
  struct stat found;
  litter[0] = '\0';
  if (!is_new && strcmp(scene_sides(), "ooooo") != 0) return "the files are mixed or broken";
  if (lstat(folder_path("p/link.toml"), &found) || !S_ISLNK(found.st_mode))
    return "the link is gone";
  nftw(folder_path("."), look_for_litter, 16, FTW_PHYS);
  for (int i = 0; i < SCENE_FILES; i++)
    if (has_backup(&files[i]) != (is_new && files[i].old)) return files[i].name;
  if (is_there("p/.plimsoll") != is_new) return ".plimsoll is there or not";
  if (is_there("p/.plimsoll/applied.1") != is_new) return "the record is there or not";
  return litter;
}
