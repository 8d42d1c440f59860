// The parts of the sandbox's file tree that are made new (/proc, /sys, /dev, /run), the folders that stay writable, and the
// change of the root.
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "sandbox_tree.h"

static bool make_tmpfs(const char *path, const char *options) {
  return mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, options) == 0;
}

static bool make_folder(const char *path) { return mkdir(path, 0755) == 0 || errno == EEXIST; }

// Makes a folder of the new tree and those above it.
static bool make_folders(const plim_sandbox_tree *t, char *path) {
  for (char *slash = path + strlen(t->root); (slash = strchr(slash, '/')); slash++) {
    *slash = '\0';
    bool ok = make_folder(path) || errno == EROFS;
    *slash = '/';
    if (!ok) return false;
  }
  return make_folder(path) || errno == EROFS;
}

// ---- /proc ----------------------------------------------------------------------------------------

// Real root owns /proc/sys and /proc/sysrq-trigger in any namespace and could write to them. The processes' own folders
// stay as they are.
static plim_err protect_proc(plim_sandbox_tree *t, const char *proc, DIR *entries) {
  plim_err err = PLIM_OK;
  for (struct dirent *entry; !err && (entry = readdir(entries));) {
    char path[PATH_MAX];
    struct stat found;
    if (entry->d_name[0] == '.' || isdigit((unsigned char)entry->d_name[0])) continue;
    if (snprintf(path, sizeof path, "%s/%s", proc, entry->d_name) >= (int)sizeof path) continue;
    if (lstat(path, &found) != 0 || S_ISLNK(found.st_mode)) continue;
    if (!S_ISDIR(found.st_mode) && access(path, W_OK) != 0) continue;
    if (mount(path, path, NULL, MS_BIND | MS_REC, NULL) != 0 ||
        !plim_sandbox_tree_restrict(path, MOUNT_ATTR_RDONLY))
      err = plim_sandbox_tree_cannot(t, "write-protect", path + strlen(t->root));
  }
  return err;
}

static plim_err cannot_make_proc(plim_sandbox_tree *t) {
  bool is_hidden = errno == EPERM;
  plim_err err = plim_sandbox_tree_cannot(t, "mount its own", "/proc");
  if (is_hidden)
    plim_error_hint(&t->report->error, "a container that hides parts of /proc forbids this: start "
                                       "it with --security-opt systempaths=unconfined, or add "
                                       "--unsandboxed if its files may be changed");
  return err;
}

static plim_err make_proc(plim_sandbox_tree *t, const char *path) {
  if (mount("proc", path, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
    return cannot_make_proc(t);
  DIR *entries = opendir(path);
  if (!entries) return plim_sandbox_tree_cannot(t, "read", "/proc");
  plim_err err = protect_proc(t, path, entries);
  return closedir(entries), err;
}

// ---- /sys -----------------------------------------------------------------------------------------

static plim_err make_sys(plim_sandbox_tree *t, const char *path) {
  if (mount("/sys", path, NULL, MS_BIND | MS_REC, NULL) == 0 &&
      plim_sandbox_tree_restrict(path, MOUNT_ATTR_RDONLY))
    return PLIM_OK;
  return plim_sandbox_tree_cannot(t, "write-protect", "/sys");
}

// ---- /dev -----------------------------------------------------------------------------------------

static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};
static const char *const links[][2] = {{"/proc/self/fd", "fd"},
                                       {"/proc/self/fd/0", "stdin"},
                                       {"/proc/self/fd/1", "stdout"},
                                       {"/proc/self/fd/2", "stderr"},
                                       {"pts/ptmx", "ptmx"}};

// Binds a device of the real /dev; the current folder is the new one.
static bool show_device(const char *name) {
  char from[32];
  snprintf(from, sizeof from, "/dev/%s", name);
  if (access(from, F_OK) != 0) return true;
  int place = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (place < 0) return false;
  close(place);
  return mount(from, name, NULL, MS_BIND, NULL) == 0;
}

static bool fill_dev(void) {
  bool ok = true;
  for (size_t i = 0; ok && i < sizeof devices / sizeof *devices; i++) ok = show_device(devices[i]);
  for (size_t i = 0; ok && i < sizeof links / sizeof *links; i++)
    ok = symlink(links[i][0], links[i][1]) == 0;
  return ok && make_folder("pts") && make_folder("shm") && make_tmpfs("shm", "mode=1777") &&
         mount("devpts", "pts", "devpts", MS_NOSUID | MS_NOEXEC,
               "newinstance,ptmxmode=0666,mode=620") == 0;
}

static plim_err make_dev(plim_sandbox_tree *t, const char *path) {
  if (make_tmpfs(path, "mode=755") && chdir(path) == 0 && fill_dev()) return PLIM_OK;
  return plim_sandbox_tree_cannot(t, "make its own", "/dev");
}

// ---- /run -----------------------------------------------------------------------------------------

// Where /etc/resolv.conf is a link to a file of /run, names could not be looked up without that file.
static void show_resolver(const plim_sandbox_tree *t) {
  char to[PATH_MAX], *from = realpath("/etc/resolv.conf", NULL);
  if (from && plim_path_is_below(from, "/run") && plim_sandbox_tree_inside(t, from, to)) {
    char *name = strrchr(to, '/');
    *name = '\0';
    bool ok = make_folders(t, to);
    *name = '/';
    if (ok) plim_sandbox_tree_copy_file(from, to);
  }
  free(from);
}

// The sockets of services (docker, dbus, ssh agents) are left out with everything else, except links at the top: on some
// systems they lead to the installed programs.
static plim_err make_run(plim_sandbox_tree *t, const char *path) {
  if (!make_tmpfs(path, "mode=755")) return plim_sandbox_tree_cannot(t, "make its own", "/run");
  DIR *entries = opendir("/run");
  plim_err err = PLIM_OK;
  for (struct dirent *entry; !err && entries && (entry = readdir(entries));) {
    char from[sizeof "/run/" + NAME_MAX], to[PATH_MAX];
    snprintf(from, sizeof from, "/run/%s", entry->d_name);
    if (entry->d_type == DT_LNK && plim_sandbox_tree_inside(t, from, to))
      err = plim_sandbox_tree_copy_link(t, from, to);
  }
  if (entries) closedir(entries);
  show_resolver(t);
  return err;
}

// ---- /etc/hosts -----------------------------------------------------------------------------------

static bool write_hosts(const char *path) {
  char line[512];
  struct utsname machine = {0};
  FILE *in = fopen("/etc/hosts", "re"), *out = fopen(path, "we");
  uname(&machine);
  if (out) fprintf(out, "127.0.0.1 localhost %s\n", machine.nodename);
  while (in && out && fgets(line, sizeof line, in)) fputs(line, out);
  if (in) fclose(in);
  return out && fclose(out) == 0 && chmod(path, 0644) == 0;
}

// The processes of a distributed training find each other by the machine's name, whose address exists outside only.
static plim_err name_loopback(plim_sandbox_tree *t, const plim_sandbox_places *places) {
  char to[PATH_MAX];
  if (!plim_sandbox_tree_inside(t, "/etc/hosts", to) || access(to, F_OK) != 0) return PLIM_OK;
  if (chdir(places->run) == 0 && write_hosts("hosts") &&
      mount("hosts", to, NULL, MS_BIND, NULL) == 0 &&
      plim_sandbox_tree_restrict(to, MOUNT_ATTR_RDONLY))
    return PLIM_OK;
  return plim_sandbox_tree_cannot(t, "make its own", "/etc/hosts");
}

// ---- all of it ------------------------------------------------------------------------------------

static const struct {
  const char *path;
  plim_err (*make)(plim_sandbox_tree *t, const char *path);
} specials[] = {{"/proc", make_proc}, {"/sys", make_sys}, {"/dev", make_dev}, {"/run", make_run}};
#define SPECIALS (sizeof specials / sizeof *specials)

bool plim_sandbox_tree_is_special(const char *path) {
  for (size_t i = 0; i < SPECIALS; i++)
    if (strcmp(path, specials[i].path) == 0) return true;
  return false;
}

static plim_err make_specials(plim_sandbox_tree *t) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < SPECIALS && !err; i++) {
    char path[PATH_MAX];
    if (!plim_sandbox_tree_inside(t, specials[i].path, path) || !make_folder(path))
      return plim_sandbox_tree_cannot(t, "make", specials[i].path);
    err = specials[i].make(t, path);
  }
  return err;
}

static plim_err bind_writable(plim_sandbox_tree *t, const char *folder) {
  char path[PATH_MAX];
  if (plim_sandbox_tree_inside(t, folder, path) && make_folders(t, path) &&
      mount(folder, path, NULL, MS_BIND | MS_REC, NULL) == 0 && plim_sandbox_tree_restrict(path, 0))
    return PLIM_OK;
  return plim_sandbox_tree_cannot(t, "give write access to", folder);
}

// Whether a path is in a folder in which changes are kept.
static bool is_kept(const plim_sandbox *box, const plim_sandbox_places *places, const char *path) {
  for (size_t i = 0; i < box->writable_count; i++)
    if (plim_path_is_below(path, places->writable[i])) return true;
  return false;
}

// Into an overlay, whose changes the program alone sees.
static plim_err add_file(plim_sandbox_tree *t, const char *path, const char *to, const char *with) {
  char folder[PATH_MAX];
  snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(to, '/') - to), to);
  if (make_folders(t, folder) && plim_sandbox_tree_copy_file(with, to)) return PLIM_OK;
  return plim_sandbox_tree_cannot(t, "show a new file at", path);
}

static plim_err show_file(plim_sandbox_tree *t, const plim_sandbox *box,
                          const plim_sandbox_places *places, const char *path, const char *with) {
  char to[PATH_MAX];
  bool ok = plim_sandbox_tree_inside(t, path, to);
  if (ok && access(to, F_OK) != 0 && errno == ENOENT) {
    if (!is_kept(box, places, path)) return add_file(t, path, to, with);
    return plim_fail(&t->report->error, PLIM_ERR_UNSUPPORTED,
                     "the program needs a new file, %.200s, in a folder in which changes are kept: "
                     "it would stay there",
                     path);
  }
  if (ok && mount(with, to, NULL, MS_BIND, NULL) == 0 &&
      plim_sandbox_tree_restrict(to, MOUNT_ATTR_RDONLY))
    return PLIM_OK;
  return plim_sandbox_tree_cannot(t, "replace the file", path);
}

// A program may start in a folder of /run or /dev, such as a disk in /run/media, which is not there otherwise.
static plim_err show_start(plim_sandbox_tree *t, const plim_sandbox_places *places) {
  char path[PATH_MAX];
  bool ok = plim_sandbox_tree_inside(t, places->start, path);
  if (ok && access(path, F_OK) == 0) return PLIM_OK;
  if (!ok || !make_folders(t, path) || chdir(places->run) != 0)
    return plim_sandbox_tree_cannot(t, "start in", places->start);
  if (plim_sandbox_tree_overlay(t, places->start, path)) return PLIM_OK;
  return plim_sandbox_tree_bind_read_only(t, places->start, path);
}

// The layers are not for the program. They are not visible if the scratch folder is in /run.
static plim_err hide(plim_sandbox_tree *t, const char *folder) {
  char path[PATH_MAX];
  if (plim_sandbox_tree_inside(t, folder, path) &&
      (mount("tmpfs", path, "tmpfs", MS_RDONLY, "mode=700") == 0 || errno == ENOENT))
    return PLIM_OK;
  return plim_sandbox_tree_cannot(t, "hide its folder", folder);
}

// Whether the current folder's file system takes the changes of an overlay; overlays and NFS do not.
static bool can_hold_layers(plim_sandbox_tree *t, const char *trial) {
  return make_folder(trial) && plim_sandbox_tree_overlay(t, trial, trial) &&
         umount2(trial, MNT_DETACH) == 0;
}

static plim_err find_layers(plim_sandbox_tree *t, const char *folder) {
  if (chdir(folder) != 0) return plim_sandbox_tree_cannot(t, "use the folder", folder);
  if (can_hold_layers(t, "trial")) return PLIM_OK;
  if (make_tmpfs(folder, "mode=700") && chdir(folder) == 0 && can_hold_layers(t, "trial"))
    return PLIM_OK;
  struct utsname kernel = {0};
  int why = errno;
  uname(&kernel);
  plim_err err = plim_fail(&t->report->error, PLIM_ERR_UNSUPPORTED,
                           "this kernel does not allow overlay file systems without privileges "
                           "(mount: %s); that needs Linux 5.12, and this is %s",
                           strerror(why), kernel.release);
  return plim_sandbox_advise(&t->report->error), err;
}

static plim_err read_mounts(plim_sandbox_tree *t) {
  FILE *in = fopen("/proc/self/mountinfo", "re");
  if (!in) return plim_sandbox_tree_cannot(t, "read", "/proc/self/mountinfo");
  bool ok = plim_mount_points_read(in, &t->mounts);
  fclose(in);
  return ok ? PLIM_OK : plim_fail(&t->report->error, PLIM_ERR_NOMEM, "out of memory");
}

static plim_err change_root(plim_sandbox_tree *t) {
  if (chdir(t->root) == 0 && syscall(SYS_pivot_root, ".", ".") == 0 &&
      umount2(".", MNT_DETACH) == 0 && chdir("/") == 0)
    return PLIM_OK;
  return plim_sandbox_tree_cannot(t, "change its root to", t->root);
}

plim_err plim_sandbox_enter(const plim_sandbox *box, const plim_sandbox_places *places,
                            plim_sandbox_report *report) {
  plim_sandbox_tree t = {.report = report};
  if (snprintf(t.root, sizeof t.root, "%s/root", places->run) >= (int)sizeof t.root)
    return plim_fail(&report->error, PLIM_ERR_IO, "the path %s is too long", places->run);
  if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
    return plim_sandbox_tree_cannot(&t, "have its own mounts in", "/");
  plim_err err = read_mounts(&t);
  if (!err) err = find_layers(&t, places->run);
  if (!err) err = plim_sandbox_tree_put_root(&t);
  if (!err) plim_sandbox_tree_own(&t, "/var/tmp", 0), plim_sandbox_tree_own(&t, places->start, 4);
  if (!err) err = make_specials(&t);
  if (!err && !box->has_network) err = name_loopback(&t, places);
  if (!err) err = show_start(&t, places);
  for (size_t i = 0; i < box->writable_count && !err; i++)
    err = bind_writable(&t, places->writable[i]);
  for (size_t i = 0; i < box->replaced_count && !err; i++)
    err = show_file(&t, box, places, places->replaced[2 * i], places->replaced[2 * i + 1]);
  if (!err) err = hide(&t, places->run);
  if (!err) err = change_root(&t);
  plim_mount_points_free(&t.mounts);
  return err;
}
