// Edited copies of the user's files take their place, and give it back.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "changeset.h"
#include "recover.h"

static plim_err read_pair(const plim_sandbox_replaced *pair, plim_file_change *out, char **texts,
                          plim_error *error) {
  size_t old_size, new_size;
  int why = plim_disk_read_file(pair->path, &texts[0], &old_size);
  if (why == ENOENT) texts[0] = NULL, old_size = 0; // a new file
  else if (why) return plim_disk_fail(error, "read", pair->path, why);
  why = plim_disk_read_file(pair->with, &texts[1], &new_size);
  if (why) return plim_disk_fail(error, "read", pair->with, why);
  *out = (plim_file_change){pair->path, plim_content_of(texts[0], old_size), texts[1], new_size};
  return PLIM_OK;
}

bool recovery_has_files(const recovery *v) { return v->has_with && v->with.version.replaced.len; }

static plim_err put(const recovery *v, int *lent, plim_error *error) {
  size_t count = recovery_has_files(v) ? v->with.version.replaced.len : 0;
  if (!count) return PLIM_OK;
  plim_file_change *changes = calloc(count, sizeof *changes);
  char **texts = calloc(2 * count, sizeof *texts);
  plim_changeset_options options = {.waits = true, .lent = lent};
  plim_changeset_result result = {0};
  plim_err err = changes && texts ? PLIM_OK : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  for (size_t i = 0; !err && i < count; i++)
    err = read_pair(&v->with.version.replaced.at[i], &changes[i], &texts[2 * i], error);
  if (!err) err = plim_changeset_apply(".", changes, count, &options, &result, error);
  plim_changeset_result_clear(&result);
  for (size_t i = 0; texts && i < 2 * count; i++) free(texts[i]);
  free(texts);
  free(changes);
  return err;
}

plim_err recovery_put(void *context, plim_error *error) {
  recovery *v = context;
  return put(v, &v->lent, error);
}

plim_err recovery_keep(const recovery *v, plim_error *error) { return put(v, NULL, error); }

plim_err recovery_restore(void *context, plim_error *error) {
  recovery *v = context;
  bool has_lent = v->lent >= 0;
  if (!recovery_has_files(v)) return PLIM_OK;
  if (has_lent) close(v->lent);
  v->lent = -1;
  plim_changeset_result result = {0};
  plim_changeset_options options = {.outside = true, .waits = true};
  plim_err err = plim_changeset_recover(".", &options, &result, error);
  if (!err && has_lent && !result.earlier.count)
    err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                    "%.200s was changed during the run, so it is left as it is now",
                    v->with.version.replaced.at[0].path);
  plim_changeset_result_clear(&result);
  return err;
}

plim_err recovery_clean_up(char *files, size_t size, plim_error *error) {
  plim_changeset_result result = {0};
  plim_changeset_options options = {.waits = true};
  plim_err err = plim_changeset_recover(".", &options, &result, error);
  *files = 0;
  for (size_t i = 0; !err && i < result.earlier.count; i++) {
    size_t used = strlen(files);
    snprintf(files + used, size - used, "%s%s", i ? ", " : "", result.earlier.files[i].path);
  }
  plim_changeset_result_clear(&result);
  return err;
}
