#include "truth.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_text(const char *path) {
  static char text[16384];
  FILE *file = fopen(path, "r");
  if (!file) return NULL;
  size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[length] = '\0';
  return text;
}

const char *truth_json(const char *name) {
  char path[512];
  snprintf(path, sizeof path, TEST_ROOT "/truth/%s.json", name);
  return read_text(path);
}

double truth_number(const char *json, const char *key) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  const char *at = strstr(json, quoted);
  if (!at) return NAN;
  at += strlen(quoted);
  char *end;
  double value = strtod(at, &end);
  return end == at ? NAN : value;
}

static uint64_t number_or_unknown(const char *json, const char *key, const char *other) {
  double value = truth_number(json, key);
  if (isnan(value) && other) value = truth_number(json, other);
  return isnan(value) ? PLIM_UNKNOWN : (uint64_t)value;
}

// set_per_process_memory_fraction(cap / total): the driver's limit is cap, up to rounding.
static uint64_t limit_of(const char *json) {
  double gib = truth_number(json, "cap_gb"), bytes = truth_number(json, "cap_bytes");
  if (!isnan(bytes)) return (uint64_t)bytes; // PyTorch truncates (recorded: trunc)
  return isnan(gib) ? PLIM_UNKNOWN : (uint64_t)llround(gib * (double)PLIM_GIB);
}

static bool add_file(truth_files *files, const char *folder, const char *name) {
  const char *suffix = strstr(name, ".pickle.xz");
  if (!suffix) return true;
  truth_file file = {0};
  int stem = (int)(suffix - name);
  snprintf(file.name, sizeof file.name, "%s/%.*s", folder, stem, name);
  snprintf(file.path, sizeof file.path, TEST_ROOT "/truth/%s.json", file.name);
  const char *json = read_text(file.path);
  if (!json) return false;
  file.limit_bytes = limit_of(json);
  file.peak_allocated_bytes = number_or_unknown(json, "allocated_bytes.all.peak", "peak_alloc");
  file.peak_reserved_bytes = number_or_unknown(json, "reserved_bytes.all.peak", "peak_reserved");
  file.retries = number_or_unknown(json, "num_alloc_retries", NULL);
  file.ooms = number_or_unknown(json, "num_ooms", NULL);
  snprintf(file.path, sizeof file.path, TEST_ROOT "/truth/%s.pickle.xz", file.name);
  return vec_push(files, file);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const truth_file *)a)->name, ((const truth_file *)b)->name);
}

truth_files truth_list(const char *const *folders, size_t count) {
  truth_files files = {0};
  for (size_t i = 0; i < count; i++) {
    char path[512];
    snprintf(path, sizeof path, TEST_ROOT "/truth/%s", folders[i]);
    DIR *folder = opendir(path);
    if (!folder) {
      printf("cannot open %s\n", path);
      exit(1);
    }
    for (struct dirent *entry; (entry = readdir(folder));)
      if (!add_file(&files, folders[i], entry->d_name)) exit(1);
    closedir(folder);
  }
  qsort(files.at, files.len, sizeof *files.at, by_name);
  return files;
}

bool truth_load(const truth_file *file, plim_trace *trace) {
  plim_error error;
  if (plim_snapshot_read(file->path, -1, trace, NULL, &error) == PLIM_OK && plim_trace_link(trace))
    return true;
  printf("%s: %s (byte %" PRIu64 ")\n", file->path, error.message, error.byte);
  return false;
}
