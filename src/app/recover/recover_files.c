// Edited copies of the user's files take their place, and give it back.
#include <stdlib.h>

#include "changeset.h"
#include "recover.h"

static plim_err read_pair(const plim_sandbox_replaced *pair, plim_file_change *out, char **texts,
                          plim_error *error) {
  size_t old_size, new_size;
  int why = plim_disk_read_file(pair->path, &texts[0], &old_size);
  if (why) return plim_disk_fail(error, "read", pair->path, why);
  why = plim_disk_read_file(pair->with, &texts[1], &new_size);
  if (why) return plim_disk_fail(error, "read", pair->with, why);
  *out = (plim_file_change){pair->path, plim_content_of(texts[0], old_size), texts[1], new_size};
  return PLIM_OK;
}

bool recovery_has_files(const recovery *v) { return v->has_with && v->with.version.replaced.len; }

plim_err recovery_put(void *context, plim_error *error) {
  const recovery *v = context;
  size_t count = recovery_has_files(v) ? v->with.version.replaced.len : 0;
  if (!count) return PLIM_OK;
  plim_file_change *changes = calloc(count, sizeof *changes);
  char **texts = calloc(2 * count, sizeof *texts);
  plim_changeset_result result = {0};
  plim_err err = changes && texts ? PLIM_OK : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  for (size_t i = 0; !err && i < count; i++)
    err = read_pair(&v->with.version.replaced.at[i], &changes[i], &texts[2 * i], error);
  if (!err) err = plim_changeset_apply(".", changes, count, NULL, &result, error);
  plim_changeset_result_clear(&result);
  for (size_t i = 0; texts && i < 2 * count; i++) free(texts[i]);
  free(texts);
  free(changes);
  return err;
}

// Whether the files still have what we wrote. If not, somebody has changed them since, and they are left alone.
static bool is_ours(const recovery *v) {
  const plim_sandbox_replaced *first = &v->with.version.replaced.at[0];
  size_t size;
  char *text = NULL;
  if (plim_disk_read_file(first->path, &text, &size)) return false;
  plim_content now = plim_content_of(text, size);
  free(text);
  return plim_changeset_made(".", first->path, &now);
}

plim_err recovery_restore(void *context, plim_error *error) {
  const recovery *v = context;
  if (!recovery_has_files(v)) return PLIM_OK;
  if (!is_ours(v))
    return plim_fail(
        error, PLIM_ERR_UNSUPPORTED,
        "%.200s was changed during the run, so it keeps the settings of the last start",
        v->with.version.replaced.at[0].path);
  plim_changeset_result result = {0};
  plim_changeset_options options = {.outside = true};
  plim_err err = plim_changeset_undo(".", &options, &result, error);
  plim_changeset_result_clear(&result);
  return err;
}
