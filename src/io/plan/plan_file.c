#include "plan_file.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "plan_file_check.h"
#include "text.h"

enum { FORMAT_VERSION = 1 };

static plim_err is_no_plan(plim_error *error, const char *what) {
  plim_err err = plim_fail(error, PLIM_ERR_PARSE, "this is not a saved plan: %s", what);
  plim_error_hint(error, "to write one: plimsoll plan FILES --gpu GPU --out plan.json");
  return err;
}

static plim_err is_without_files(plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_PARSE,
                           "this plan was made without files, so there is nothing to write");
  plim_error_hint(error, "plan with files: plimsoll plan FILES --gpu GPU --out plan.json");
  return err;
}

static plim_err out_of_memory(plim_error *error) {
  return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

static int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_digest(const char *hex, uint8_t out[PLIM_SHA256_BYTES]) {
  if (!hex || strlen(hex) != 2 * PLIM_SHA256_BYTES) return false;
  for (size_t i = 0; i < PLIM_SHA256_BYTES; i++) {
    int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = (uint8_t)(16 * high + low);
  }
  return true;
}

static plim_err read_files(const json_t *root, plim_plan_file *out, plim_error *error) {
  const json_t *files = json_object_get(root, "files");
  if (!json_is_array(files) || !json_array_size(files)) return is_without_files(error);
  for (size_t i = 0; i < json_array_size(files); i++) {
    const json_t *f = json_array_get(files, i);
    const char *path = json_string_value(json_object_get(f, "path"));
    plim_plan_source source = {.size = (uint64_t)json_integer_value(json_object_get(f, "bytes"))};
    if (!path || json_integer_value(json_object_get(f, "bytes")) < 0 ||
        !read_digest(json_string_value(json_object_get(f, "sha256")), source.sha256))
      return is_no_plan(error, "an entry of files has no path, size or digest");
    const char *text = json_string_value(json_object_get(f, "text"));
    const char *target = json_string_value(json_object_get(f, "target"));
    source.path = strdup(path);
    if (text) source.text = strdup(text);
    if (target) source.target = strdup(target);
    bool has_all = source.path && !source.text == !text && !source.target == !target;
    if (has_all && vec_push(&out->files, source)) continue;
    free(source.path);
    free(source.text);
    free(source.target);
    return out_of_memory(error);
  }
  return PLIM_OK;
}

static plim_err read_places(const json_t *root, plim_plan_file *out, plim_error *error) {
  const json_t *places = json_object_get(root, "set");
  for (size_t i = 0; i < json_array_size(places); i++) {
    const json_t *p = json_array_get(places, i);
    const char *knob = json_string_value(json_object_get(p, "knob"));
    const char *path = json_string_value(json_object_get(p, "file"));
    const char *key = json_string_value(json_object_get(p, "key"));
    if (!knob || !path || !key || plim_knob_named(knob) == PLIM_KNOBS)
      return is_no_plan(error, "an entry of set has no known knob, file or key");
    plim_plan_place place = {plim_knob_named(knob), strdup(path), strdup(key)};
    if (place.path && place.key && vec_push(&out->places, place)) continue;
    free(place.path);
    free(place.key);
    return out_of_memory(error);
  }
  return PLIM_OK;
}

static const char *keep_text(const json_t *value, plim_plan_file *out) {
  const char *text = json_string_value(value);
  char *copy = text ? strdup(text) : NULL;
  if (copy && vec_push(&out->texts, copy)) return copy;
  free(copy);
  return NULL;
}

// Removes control characters: the text is shown on a terminal and may come from someone else.
static const char *keep_words(const json_t *value, plim_plan_file *out) {
  const char *kept = keep_text(value, out);
  if (kept) plim_text_disarm(out->texts.at[out->texts.len - 1]);
  return kept;
}

// The same for several lines; line ends are kept.
static const char *keep_lines(const json_t *value, plim_plan_file *out) {
  const char *kept = keep_text(value, out);
  char *line = kept ? out->texts.at[out->texts.len - 1] : NULL;
  while (line && *line) {
    char *end = line + strcspn(line, "\n"), was = *end;
    *end = 0;
    plim_text_disarm(line);
    line = end;
    if (was) *line++ = was;
  }
  return kept;
}

static bool read_value(const json_t *value, plim_plan_file *out, plim_value *v) {
  if (json_is_integer(value)) {
    *v = (plim_value){.kind = PLIM_VALUE_INTEGER, .integer = json_integer_value(value)};
    return true;
  }
  *v = (plim_value){.kind = PLIM_VALUE_TEXT, .text = keep_text(value, out)};
  return v->text;
}

static plim_err read_writes(const json_t *writes, plim_plan_file *out, plim_error *error) {
  for (size_t i = 0; i < json_array_size(writes); i++) {
    const json_t *w = json_array_get(writes, i);
    const char *knob = json_string_value(json_object_get(w, "knob"));
    plim_knob_change change = {knob ? plim_knob_named(knob) : PLIM_KNOBS};
    if (change.knob == PLIM_KNOBS || !read_value(json_object_get(w, "value"), out, &change.value))
      return is_no_plan(error, "an entry of writes has no known knob or value");
    if (!vec_push(&out->changes, change)) return out_of_memory(error);
  }
  return PLIM_OK;
}

// The manual steps, which are only shown.
static plim_err read_steps(const json_t *rung, plim_plan_file *out, plim_error *error) {
  const json_t *steps = json_object_get(rung, "steps");
  out->replan = keep_words(json_object_get(rung, "replan"), out);
  for (size_t i = 0; i < json_array_size(steps); i++) {
    const json_t *x = json_array_get(steps, i);
    const char *knob = json_string_value(json_object_get(x, "knob"));
    plim_plan_step step = {.knob = knob ? plim_knob_named(knob) : PLIM_KNOBS,
                           .text = keep_words(json_object_get(x, "text"), out),
                           .lines = keep_lines(json_object_get(x, "lines"), out),
                           .why = keep_words(json_object_get(x, "why"), out)};
    if (!step.text) return is_no_plan(error, "an entry of steps has no text");
    if (!vec_push(&out->steps, step)) return out_of_memory(error);
  }
  return PLIM_OK;
}

static plim_err read_by_hand(const json_t *rung, plim_plan_file *out, plim_error *error) {
  const json_t *left = json_object_get(rung, "by_hand");
  const json_t *written = json_object_get(rung, "as_written");
  for (size_t i = 0; i < json_array_size(left); i++) {
    const json_t *x = json_array_get(left, i);
    const char *knob = json_string_value(json_object_get(x, "knob"));
    plim_plan_left item = {.knob = knob ? plim_knob_named(knob) : PLIM_KNOBS,
                           .reason = keep_words(json_object_get(x, "reason"), out)};
    if (item.knob == PLIM_KNOBS || !item.reason ||
        !read_value(json_object_get(x, "value"), out, &item.value))
      return is_no_plan(error, "an entry of by_hand has no known knob, value or reason");
    if (!vec_push(&out->by_hand, item)) return out_of_memory(error);
  }
  out->fits_as_written = !out->by_hand.len || json_is_true(json_object_get(written, "fits"));
  json_int_t bytes = json_integer_value(json_object_get(written, "device_bytes"));
  if (bytes < 0) return is_no_plan(error, "as_written.device_bytes is negative");
  out->as_written_bytes = (uint64_t)bytes;
  return PLIM_OK;
}

static plim_err check_version(const json_t *root, plim_error *error) {
  const json_t *version = json_object_get(root, "format_version");
  if (!json_is_integer(version)) return is_no_plan(error, "it has no format_version");
  if (json_integer_value(version) == FORMAT_VERSION) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                           "the plan has format_version %lld; this version of plimsoll reads %d",
                           (long long)json_integer_value(version), FORMAT_VERSION);
  plim_error_hint(error, "apply it with the version of plimsoll that made it, or plan again");
  return err;
}

static plim_err check_cards(const json_t *root, plim_error *error) {
  if (json_array_size(json_object_get(root, "cards")) < 2) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "this plan is for several GPUs");
  plim_error_hint(error, "plan for one of them: plimsoll plan FILES --gpu GPU --out plan.json");
  return err;
}

static plim_err check_parts(const json_t *root, plim_error *error) {
  if (!json_is_array(json_object_get(root, "ladder"))) return is_no_plan(error, "it has no ladder");
  if (!json_object_get(root, "files")) return is_without_files(error);
  if (!json_is_array(json_object_get(root, "rungs"))) return is_no_plan(error, "it has no rungs");
  return PLIM_OK;
}

static plim_err check_rung(size_t count, uint64_t rung, plim_error *error) {
  if (rung >= 1 && rung <= count) return PLIM_OK;
  plim_err err = count
                     ? plim_fail(error, PLIM_ERR_ARGUMENT, "--rung %llu: the plan has no such row",
                                 (unsigned long long)rung)
                     : plim_fail(error, PLIM_ERR_ARGUMENT,
                                 "the plan found nothing that fits, so there is nothing to write");
  if (count == 1) plim_error_hint(error, "it has only row 1, the plan itself");
  else if (count)
    plim_error_hint(error,
                    "it has rows 1 %s %zu; row 1 is the plan itself, the others are fallbacks",
                    count == 2 ? "and" : "to", count);
  else
    plim_error_hint(
        error, "allow more changes with plimsoll plan --allow; the plan's output lists what helps");
  return err;
}

static plim_err check_root(const json_t *root, uint64_t rung, plim_error *error) {
  plim_err err = check_version(root, error);
  if (!err) err = check_cards(root, error);
  if (!err) err = check_parts(root, error);
  if (!err) err = plim_plan_file_check_digest(root, error);
  return err ? err : check_rung(json_array_size(json_object_get(root, "rungs")), rung, error);
}

static plim_err read_root(const json_t *root, uint64_t rung, plim_plan_file *out,
                          plim_error *error) {
  plim_err err = check_root(root, rung, error);
  if (!err) err = read_files(root, out, error);
  if (!err) err = read_places(root, out, error);
  const json_t *chosen = json_array_get(json_object_get(root, "rungs"), (size_t)rung - 1);
  if (!err && !json_is_object(chosen)) err = is_no_plan(error, "a rung is not an object");
  if (!err) err = read_writes(json_object_get(chosen, "writes"), out, error);
  if (!err) err = read_by_hand(chosen, out, error);
  if (!err) err = read_steps(chosen, out, error);
  return err ? err : plim_plan_file_check_values(out, error);
}

static plim_err is_no_json(const json_error_t *why, plim_error *error) {
  char what[sizeof why->text + 64];
  if (json_error_code(why) == json_error_premature_end_of_input && why->position == 0)
    return is_no_plan(error, "the file is empty");
  snprintf(what, sizeof what, "its JSON is invalid at line %d: %s", why->line, why->text);
  plim_text_disarm(what);
  return is_no_plan(error, what);
}

plim_err plim_plan_file_parse(const char *text, size_t size, uint64_t rung, plim_plan_file *out,
                              plim_error *error) {
  json_error_t why;
  *out = (plim_plan_file){0};
  json_t *root = json_loadb(text, size, 0, &why);
  plim_err err = root ? read_root(root, rung, out, error) : is_no_json(&why, error);
  json_decref(root);
  if (err) plim_plan_file_clear(out);
  return err;
}

void plim_plan_file_clear(plim_plan_file *plan) {
  for (size_t i = 0; i < plan->files.len; i++) {
    free(plan->files.at[i].path);
    free(plan->files.at[i].text);
    free(plan->files.at[i].target);
  }
  for (size_t i = 0; i < plan->places.len; i++) {
    free(plan->places.at[i].path);
    free(plan->places.at[i].key);
  }
  for (size_t i = 0; i < plan->texts.len; i++) free(plan->texts.at[i]);
  vec_free(&plan->files);
  vec_free(&plan->places);
  vec_free(&plan->changes);
  vec_free(&plan->by_hand);
  vec_free(&plan->steps);
  vec_free(&plan->texts);
}
