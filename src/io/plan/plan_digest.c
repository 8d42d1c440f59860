#include "plan_digest.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Parts of a plan that `apply` uses; the digest covers them as they are.
static const char *const covered[] = {"files", "set", "rungs"};

static bool is_setting(const json_t *value) {
  return json_is_integer(value) || json_is_string(value) || json_is_boolean(value);
}

// The settings of the ladder without their estimates, which are only shown and contain fractions that other
// programs format differently. Owned by the caller.
static json_t *settings_of(const json_t *ladder) {
  json_t *copy = json_deep_copy(ladder), *value;
  const char *key;
  void *next;
  for (size_t i = 0; i < json_array_size(copy); i++) {
    json_object_foreach_safe(json_array_get(copy, i), next, key, value) {
      if (!is_setting(value)) json_object_del(json_array_get(copy, i), key);
    }
  }
  return copy;
}

static int write_part(FILE *out, const char *name, const json_t *value) {
  fprintf(out, "\n%s ", name);
  return value ? json_dumpf(value, out, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY) : 0;
}

// The covered parts as text, one per line; NULL if memory runs out.
static char *what_applies(const json_t *plan) {
  char *text = NULL;
  size_t size = 0;
  const json_t *ladder = json_object_get(plan, "ladder");
  json_t *settings = settings_of(ladder);
  FILE *out = open_memstream(&text, &size);
  int failed = !out || (ladder && !settings);
  for (size_t i = 0; !failed && i < sizeof covered / sizeof *covered; i++)
    failed = write_part(out, covered[i], json_object_get(plan, covered[i]));
  if (!failed) failed = write_part(out, "ladder", settings);
  if (out) failed |= ferror(out), failed |= fclose(out);
  json_decref(settings);
  if (!failed) return text;
  free(text);
  return NULL;
}

static void write_hex(const uint8_t digest[PLIM_SHA256_BYTES], plim_plan_digest *out) {
  for (size_t i = 0; i < PLIM_SHA256_BYTES; i++) snprintf(out->hex + 2 * i, 3, "%02x", digest[i]);
}

plim_err plim_plan_digest_of(const json_t *plan, plim_plan_digest *out, plim_error *error) {
  uint8_t digest[PLIM_SHA256_BYTES];
  char *text = what_applies(plan);
  if (!text) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  plim_sha256(text, strlen(text), digest);
  write_hex(digest, out);
  free(text);
  return PLIM_OK;
}

plim_err plim_plan_digest_of_text(const char *text, size_t size, plim_plan_digest *out,
                                  plim_error *error) {
  json_error_t why;
  json_t *plan = json_loadb(text, size, 0, &why);
  if (!plan) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory: %s", why.text);
  plim_err err = plim_plan_digest_of(plan, out, error);
  json_decref(plan);
  return err;
}
