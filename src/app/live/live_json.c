#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "live.h"
#include "text.h"

const char *const live_phase_names[LIVE_PHASES] = {"unknown",   "loading",    "training",
                                                   "optimizer", "evaluation", "saving"};

// JSON that is not text, such as a 0 or invalid UTF-8, is refused by the library; the depth of nesting is limited.
static json_t *load_object(const char *text, size_t size) {
  json_t *object = json_loadb(text, size, 0, NULL);
  if (json_is_object(object)) return object;
  json_decref(object);
  return NULL;
}

static double number_in(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  double number = json_is_number(value) ? json_number_value(value) : -1;
  return isfinite(number) && number >= 0 ? number : -1;
}

// A count or a size. Fractions and negative numbers are not.
static uint64_t count_in(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  if (json_is_integer(value) && json_integer_value(value) >= 0)
    return (uint64_t)json_integer_value(value);
  double number = number_in(object, key);
  bool is_count = json_is_real(value) && number >= 0 && number < 9e15 && number == floor(number);
  return is_count ? (uint64_t)number : PLIM_UNKNOWN;
}

static void text_in(const json_t *object, const char *key, char *out, size_t size) {
  const char *text = json_string_value(json_object_get(object, key));
  snprintf(out, size, "%s", text ? text : "");
  plim_text_disarm(out); // also a character that was cut
}

static live_phase phase_in(const json_t *object) {
  const char *name = json_string_value(json_object_get(object, "phase"));
  for (int i = 1; name && i < LIVE_PHASES; i++)
    if (strcmp(name, live_phase_names[i]) == 0) return (live_phase)i;
  return LIVE_PHASE_UNKNOWN;
}

bool live_parse(const char *line, size_t size, live_sample *out) {
  json_t *o = load_object(line, size);
  if (!o) return false;
  *out = (live_sample){.seconds = number_in(o, "t"),
                       .step = count_in(o, "step"),
                       .rank = count_in(o, "rank"),
                       .local_rank = count_in(o, "local_rank"),
                       .world = count_in(o, "world"),
                       .local_world = count_in(o, "local_world"),
                       .device = count_in(o, "device"),
                       .phase = phase_in(o),
                       .allocated_bytes = count_in(o, "allocated"),
                       .reserved_bytes = count_in(o, "reserved"),
                       .peak_allocated_bytes = count_in(o, "peak_allocated"),
                       .peak_reserved_bytes = count_in(o, "peak_reserved"),
                       .free_bytes = count_in(o, "free"),
                       .total_bytes = count_in(o, "total"),
                       .oom_bytes = count_in(o, "oom_bytes"),
                       .sample_tokens = count_in(o, "sample_tokens"),
                       .longest_tokens = count_in(o, "longest_tokens")};
  text_in(o, "uuid", out->uuid, sizeof out->uuid);
  text_in(o, "card", out->card, sizeof out->card);
  json_decref(o);
  return true;
}

bool live_parse_run(const char *text, size_t size, live_run *out) {
  json_t *o = load_object(text, size);
  uint64_t pid = count_in(o, "pid");
  bool is_run = o && pid > 0 && pid <= INT_MAX;
  *out = (live_run){0};
  if (is_run) {
    *out = (live_run){.pid = (unsigned)pid,
                      .started_seconds = number_in(o, "started"),
                      .limit_bytes = count_in(o, "limit_bytes"),
                      .steps = count_in(o, "steps")};
    text_in(o, "command", out->command, sizeof out->command);
  }
  json_decref(o);
  return is_run;
}
