// Reads what estimate, simulate, profile and replay print with --json.
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"

const char *const compare_kind_names[COMPARE_KINDS] = {
    "parameters", "gradients", "optimizer state", "activations and temporaries",
    "workspaces", "other",     "leaked"};
enum { PARAMETERS, GRADIENTS, OPTIMIZER, ACTIVATIONS, WORKSPACES, OTHER, LEAKED };

// The names of replay's kinds and of estimate's components. An estimate does not distinguish temporaries from activations.
static const struct {
  const char *name;
  int kind;
} kinds[] = {
    {"parameters", PARAMETERS},   {"weights", PARAMETERS},        {"adapters", PARAMETERS},
    {"gradients", GRADIENTS},     {"optimizer state", OPTIMIZER}, {"optimizer", OPTIMIZER},
    {"activations", ACTIVATIONS}, {"logits", ACTIVATIONS},        {"temporaries", ACTIVATIONS},
    {"workspaces", WORKSPACES},   {"workspace", WORKSPACES},      {"other", OTHER},
    {"leaked", LEAKED},
};

// ---- values -----------------------------------------------------------------------------------------

static uint64_t number(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  json_int_t n = json_integer_value(value);
  return json_is_integer(value) && n >= 0 ? (uint64_t)n : PLIM_UNKNOWN;
}

static const char *text(const json_t *object, const char *key) {
  return json_string_value(json_object_get(object, key));
}

// What was not seen is null or 0.
static bool is_unknown(const json_t *value) {
  return !value || json_is_null(value) || (json_is_integer(value) && !json_integer_value(value));
}

// "2 x 1024" for an array; NULL when out of memory.
static char *value_of(const json_t *value) {
  char *out = NULL, *more;
  size_t i;
  const json_t *item;
  if (json_is_string(value)) return strdup(json_string_value(value));
  if (json_is_boolean(value)) return strdup(json_is_true(value) ? "yes" : "no");
  if (!json_is_array(value)) return json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
  json_array_foreach(value, i, item) {
    char *one = json_dumps(item, JSON_ENCODE_ANY | JSON_COMPACT);
    bool ok = one && asprintf(&more, "%s%s%s", out ? out : "", out ? " x " : "", one) >= 0;
    free(one);
    free(out);
    if (!ok) return NULL;
    out = more;
  }
  return out;
}

static bool add_fact(compare_facts *facts, const char *name, const json_t *value) {
  if (is_unknown(value)) return true;
  compare_fact fact = {strdup(name), value_of(value)};
  for (char *c = fact.name; c && *c; c++)
    if (*c == '_') *c = ' ';
  if (fact.name && fact.value && vec_push(facts, fact)) return true;
  free(fact.name);
  free(fact.value);
  return false;
}

static bool add_facts(compare_facts *facts, json_t *object) {
  const char *name;
  json_t *value;
  json_object_foreach(object, name, value) {
    bool is_count = strcmp(name, "batch_shapes") == 0; // which depends on the number of steps
    if (!is_count && !add_fact(facts, name, value)) return false;
  }
  return true;
}

// ---- parts of a result ------------------------------------------------------------------------------

static int kind_named(const char *name) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i].name, name) == 0) return kinds[i].kind;
  return -1;
}

static void add_kinds(compare_side *side, json_t *object) {
  const char *name;
  json_t *value;
  side->has_kinds = json_is_object(object);
  json_object_foreach(object, name, value) {
    int kind = kind_named(name);
    if (kind >= 0) side->kind_bytes[kind] += (uint64_t)json_integer_value(value);
  }
}

static bool add_lines(compare_side *side, const json_t *holders) {
  size_t i;
  const json_t *holder;
  side->has_lines = json_is_array(holders);
  json_array_foreach(holders, i, holder) {
    const char *module = text(holder, "module"), *function = text(holder, "function");
    compare_line line = {module ? strdup(module) : NULL, function ? strdup(function) : NULL,
                         number(holder, "line"), number(holder, "bytes")};
    bool ok = (line.module || !module) && (line.function || !function);
    if (line.bytes == PLIM_UNKNOWN) line.bytes = 0;
    if (ok && vec_push(&side->lines, line)) continue;
    free(line.module);
    free(line.function);
    return false;
  }
  return true;
}

static bool take_replay(compare_side *side, const json_t *replay) {
  const json_t *peak = json_object_get(replay, "peak");
  const char *module = text(peak, "module"), *function = text(peak, "function");
  add_kinds(side, json_object_get(replay, "holders_by_kind_bytes"));
  if (json_is_object(peak)) {
    uint64_t step = number(peak, "step"), line = number(peak, "line");
    int used = module
                   ? asprintf(&side->peak_at, "step %lld, in %s:%lld (%s)", (long long)step, module,
                              (long long)line, function ? function : "?")
                   : asprintf(&side->peak_at, "step %lld, in the backward pass", (long long)step);
    if (used < 0) return side->peak_at = NULL, false;
  }
  return add_lines(side, json_object_get(replay, "holders"));
}

// ---- results ----------------------------------------------------------------------------------------

static const json_t *fullest_of(const json_t *processes) {
  const json_t *fullest = NULL, *process;
  size_t i;
  json_array_foreach(processes, i, process) {
    uint64_t reserved = number(process, "peak_reserved_bytes");
    if (reserved == PLIM_UNKNOWN || !reserved) continue;
    if (!fullest || reserved > number(fullest, "peak_reserved_bytes")) fullest = process;
  }
  return fullest;
}

// Of simulate and profile.
static bool take_run(compare_side *side, const json_t *result) {
  const json_t *large = json_object_get(result, "large_enough");
  const json_t *run = json_is_object(large) ? large : json_object_get(result, "run");
  const json_t *process = fullest_of(json_object_get(run, "processes"));
  const char *by = text(result, "made_by");
  bool is_measured = by && strcmp(by, "profile") == 0;
  uint64_t needs = number(run, "needs_bytes");
  side->made = is_measured ? "measured" : "simulated";
  side->allocated_bytes = number(process, "peak_allocated_bytes");
  side->reserved_bytes = number(process, "peak_reserved_bytes");
  side->retries = number(process, "retries");
  side->steps = number(process, "steps") == PLIM_UNKNOWN ? 0 : number(process, "steps");
  if (is_measured) side->outside_bytes = number(result, "outside_peak_bytes");
  else if (needs != PLIM_UNKNOWN && needs >= side->reserved_bytes)
    side->outside_bytes = needs - side->reserved_bytes;
  if (json_is_number(json_object_get(result, "seconds_per_step")))
    side->step_seconds = json_number_value(json_object_get(result, "seconds_per_step"));
  const json_t *triton = json_object_get(process, "has_triton");
  return add_facts(&side->versions, json_object_get(process, "versions")) &&
         add_facts(&side->observed, json_object_get(process, "observed")) &&
         (!triton || add_fact(&side->observed, "Triton installed", triton)) &&
         take_replay(side, json_object_get(run, "replay"));
}

static bool take_estimate(compare_side *side, const json_t *result) {
  const json_t *at = json_object_get(result, "peak_at");
  const char *phase = text(at, "phase"), *what = text(at, "what");
  side->made = "estimated";
  side->allocated_bytes = number(result, "peak_allocated_bytes");
  side->reserved_bytes = number(result, "peak_reserved_bytes");
  side->outside_bytes = number(result, "context_bytes");
  side->retries = number(result, "retries");
  if (json_is_number(json_object_get(result, "step_seconds")))
    side->step_seconds = json_number_value(json_object_get(result, "step_seconds"));
  add_kinds(side, json_object_get(result, "components"));
  if (phase && asprintf(&side->peak_at, "step %lld, in %s%s%s", (long long)number(at, "step"),
                        phase, what ? ": " : "", what ? what : "") < 0)
    return side->peak_at = NULL, false;
  return add_fact(&side->observed, "parameters", json_object_get(result, "params")) &&
         add_fact(&side->observed, "trained", json_object_get(result, "trainable"));
}

// Of replay: what PyTorch recorded, whatever else was tried on the recording.
static bool take_recording(compare_side *side, const json_t *result) {
  const json_t *recorded = json_object_get(result, "recorded");
  side->made = "recorded";
  side->allocated_bytes = number(recorded, "peak_allocated_bytes");
  side->reserved_bytes = number(recorded, "peak_reserved_bytes");
  side->retries = number(recorded, "retries");
  side->steps = number(result, "steps") == PLIM_UNKNOWN ? 0 : number(result, "steps");
  return take_replay(side, result);
}

static plim_err take(json_t *result, compare_side *side, plim_error *error) {
  bool ok = true;
  *side = (compare_side){.outside_bytes = PLIM_UNKNOWN, .step_seconds = NAN};
  if (json_is_object(json_object_get(result, "run"))) ok = take_run(side, result);
  else if (json_is_object(json_object_get(result, "components"))) ok = take_estimate(side, result);
  else if (json_is_object(json_object_get(result, "recorded"))) ok = take_recording(side, result);
  else side->allocated_bytes = PLIM_UNKNOWN;
  json_decref(result);
  if (ok && side->allocated_bytes != PLIM_UNKNOWN && side->reserved_bytes != PLIM_UNKNOWN)
    return PLIM_OK;
  compare_side_clear(side);
  if (!ok) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  return plim_fail(error, PLIM_ERR_PARSE, "it has no peak of memory to compare with");
}

static void advise(plim_error *error) {
  plim_error_hint(error, "write such a file with: plimsoll simulate --json -- COMMAND > "
                         "simulated.json (or with estimate, replay or profile)");
}

plim_err compare_read_text(const char *words, size_t size, compare_side *side, plim_error *error) {
  json_error_t why;
  json_t *result = json_loadb(words, size, 0, &why);
  *side = (compare_side){0};
  return result ? take(result, side, error)
                : plim_fail(error, PLIM_ERR_PARSE, "this is not JSON: %s", why.text);
}

plim_err compare_read_file(const char *path, compare_side *side, plim_error *error) {
  json_error_t why;
  plim_error inner = {0};
  *side = (compare_side){0};
  json_t *result = json_load_file(path, 0, &why);
  bool is_missing = !result && json_error_code(&why) == json_error_cannot_open_file;
  if (is_missing) return plim_fail(error, PLIM_ERR_IO, "cannot read %.200s", path);
  plim_err err = result ? take(result, side, &inner)
                        : plim_fail(&inner, PLIM_ERR_PARSE, "it is not JSON: %.160s", why.text);
  if (!err) return PLIM_OK;
  plim_fail(error, err, "%.120s is not a result of plimsoll: %.180s", path, inner.message);
  advise(error);
  return err;
}

static void clear_facts(compare_facts *facts) {
  for (size_t i = 0; i < facts->len; i++) free(facts->at[i].name), free(facts->at[i].value);
  vec_free(facts);
}

void compare_side_clear(compare_side *side) {
  for (size_t i = 0; i < side->lines.len; i++)
    free(side->lines.at[i].module), free(side->lines.at[i].function);
  vec_free(&side->lines);
  clear_facts(&side->versions);
  clear_facts(&side->observed);
  free(side->peak_at);
  *side = (compare_side){0};
}
