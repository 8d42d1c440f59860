// Reads what the processes of a run left behind (src/card/python/plimsoll_hook.py writes it).
#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulate_impl.h"

#include "sort.h"

static uint64_t count_of(const json_t *object, const char *key) {
  json_int_t value = json_integer_value(json_object_get(object, key));
  return value > 0 ? (uint64_t)value : 0;
}

static char *text_of(const json_t *value) {
  char *text = json_is_string(value) ? strdup(json_string_value(value))
                                     : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
  return text ? text : strdup("?");
}

static bool take_looks(simulate_process *p, const json_t *list) {
  size_t i;
  const json_t *look;
  json_array_foreach(list, i, look) {
    simulate_look one = {.file = text_of(json_object_get(look, "file")),
                         .line = (int)count_of(look, "line"),
                         .times = count_of(look, "times"),
                         .type = text_of(json_object_get(look, "type")),
                         .told = text_of(json_object_get(look, "told"))};
    if (!one.file || !one.type || !one.told || !vec_push(&p->looks, one)) return false;
  }
  return true;
}

static bool take_routes(simulate_process *p, const json_t *list) {
  size_t i;
  const json_t *route;
  json_array_foreach(list, i, route) {
    simulate_route one = {.file = text_of(json_object_get(route, "file")),
                          .line = (int)count_of(route, "line"),
                          .times = count_of(route, "times"),
                          .choices = count_of(route, "choices"),
                          .chosen = count_of(route, "chosen")};
    if (!one.file || !vec_push(&p->routes, one)) return false;
  }
  return true;
}

static char *own_text(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  return json_is_string(value) ? strdup(json_string_value(value)) : NULL;
}

static void take_observed(simulate_observed *o, const json_t *seen) {
  const json_t *model = json_object_get(seen, "model"), *batch = json_object_get(seen, "batch");
  const json_t *adapters = json_object_get(seen, "adapters");
  o->model = own_text(model, "class");
  o->type = own_text(model, "model_type");
  o->attention = own_text(model, "attention");
  o->parameters = count_of(model, "parameters");
  o->trained = count_of(model, "trained");
  o->frozen_dtype = own_text(model, "frozen_dtype");
  o->trained_dtype = own_text(model, "trained_dtype");
  o->adapters = own_text(adapters, "type");
  o->rank = count_of(adapters, "rank");
  o->dropout = json_number_value(json_object_get(adapters, "dropout"));
  o->targets = own_text(adapters, "targets");
  o->autocast = own_text(seen, "autocast");
  o->optimizer = own_text(json_object_get(seen, "optimizer"), "class");
  o->optimizer_name = own_text(json_object_get(seen, "optimizer"), "name");
  o->strategy = own_text(seen, "strategy");
  o->checkpoints = json_is_true(json_object_get(seen, "checkpointing"));
  o->is_reentrant = json_is_true(json_object_get(seen, "reentrant"));
  o->has_mask = json_is_true(json_object_get(seen, "mask"));
  o->clips = json_is_true(json_object_get(seen, "clips"));
  o->scales = json_is_true(json_object_get(seen, "scaler"));
  o->accumulation = count_of(seen, "accumulation");
  o->shapes = count_of(seen, "batches");
  o->has_tokens = json_is_true(json_object_get(seen, "has_tokens"));
  for (size_t i = 0; i < 2; i++)
    o->batch[i] = (uint64_t)json_integer_value(json_array_get(batch, i));
}

static void clear_observed(simulate_observed *o) {
  free(o->model);
  free(o->type);
  free(o->attention);
  free(o->frozen_dtype);
  free(o->trained_dtype);
  free(o->adapters);
  free(o->targets);
  free(o->autocast);
  free(o->optimizer);
  free(o->optimizer_name);
  free(o->strategy);
}

static void take_failure(simulate_failure *f, const json_t *failure) {
  f->text = own_text(failure, "text");
  f->file = own_text(failure, "file");
  f->line = (int)count_of(failure, "line");
  f->time_us = count_of(failure, "time_us");
}

static bool take_phases(simulate_process *p, const json_t *list) {
  size_t i;
  const json_t *phase;
  json_array_foreach(list, i, phase) {
    simulate_phase one = {(uint64_t)json_integer_value(json_array_get(phase, 0)),
                          text_of(json_array_get(phase, 1))};
    if (!one.name || !vec_push(&p->phases, one)) return false;
  }
  return true;
}

static bool take_versions(simulate_process *p, json_t *versions) {
  const char *name;
  json_t *version;
  json_object_foreach(versions, name, version) {
    simulate_version one = {strdup(name), text_of(version)};
    if (!one.name || !one.version || !vec_push(&p->versions, one)) return false;
  }
  return true;
}

// The counters of the card on which the process reserved the most. Returns its index.
static size_t take_counters(simulate_process *p, const json_t *devices) {
  size_t i, fullest = 0;
  const json_t *device;
  json_array_foreach(devices, i, device) {
    p->ooms += count_of(device, "num_ooms");
    p->retries += count_of(device, "num_alloc_retries");
    uint64_t reserved = count_of(device, "reserved_bytes.all.peak");
    if (reserved < p->peak_reserved_bytes) continue;
    p->peak_reserved_bytes = reserved;
    p->peak_allocated_bytes = count_of(device, "allocated_bytes.all.peak");
    fullest = i;
  }
  return fullest;
}

static uint64_t count_if_known(const json_t *object, const char *key) {
  return json_is_integer(json_object_get(object, key)) ? count_of(object, key) : PLIM_UNKNOWN;
}

static bool take_measured(simulate_process *p, const json_t *seen, size_t device) {
  const json_t *measured = json_object_get(seen, "measured"), *seconds;
  const json_t *card = json_array_get(json_object_get(measured, "devices"), device);
  simulate_measured *m = &p->measured;
  size_t i;
  m->card = own_text(card, "name");
  m->uuid = own_text(card, "uuid");
  m->total_bytes = count_if_known(card, "total_bytes");
  m->outside_first_bytes = count_if_known(card, "outside_first_bytes");
  m->outside_peak_bytes = count_if_known(card, "outside_peak_bytes");
  json_array_foreach(
      json_object_get(measured, "step_seconds"), i,
      seconds) if (!vec_push(&m->step_seconds, json_number_value(seconds))) return false;
  return true;
}

static bool take_savers(savers_done *done, const json_t *seen) {
  const json_t *chunks = json_object_get(seen, "chunked_loss"), *look;
  size_t i;
  done->emptied = count_if_known(seen, "empty_cache");
  done->collected = count_if_known(seen, "gc");
  done->wants_chunks = json_is_object(chunks);
  done->chunk_tokens = count_of(chunks, "tokens");
  done->losses = count_of(chunks, "losses");
  done->most_tokens = count_of(chunks, "most_tokens");
  done->logits_bytes = count_of(chunks, "float32_logits_bytes");
  done->why_off = own_text(chunks, "off");
  json_array_foreach(json_object_get(chunks, "looked_at"), i, look) {
    savers_look one = {.file = text_of(json_object_get(look, "file")),
                       .line = (int)count_of(look, "line"),
                       .times = count_of(look, "times")};
    if (!one.file || !vec_push(&done->looks, one)) return false;
  }
  return true;
}

static plim_err take_process(const char *path, simulate_process *p, plim_error *error) {
  json_error_t why;
  json_t *seen = json_load_file(path, 0, &why);
  if (!seen)
    return plim_fail(error, PLIM_ERR_PARSE, "cannot read what a process observed (%.200s): %s",
                     path, why.text);
  p->rank = (int64_t)count_of(seen, "rank");
  p->world = (int64_t)count_of(seen, "world");
  p->local_rank = (int64_t)count_of(seen, "local_rank");
  take_failure(&p->failure, json_object_get(seen, "failure"));
  p->steps = count_of(seen, "steps");
  p->is_grouped = json_is_true(json_object_get(seen, "is_grouped"));
  p->host_bytes = count_of(seen, "host_bytes");
  p->has_values = json_is_true(json_object_get(seen, "values"));
  p->is_without_cuda = json_is_null(json_object_get(seen, "cuda"));
  p->uses_card = json_array_size(json_object_get(seen, "devices")) > 0;
  p->was_ended = json_is_true(json_object_get(seen, "was_ended"));
  size_t fullest = take_counters(p, json_object_get(seen, "devices"));
  take_observed(&p->observed, json_object_get(seen, "observed"));
  p->has_liger = json_is_true(json_object_get(seen, "liger_kernel"));
  p->has_bitsandbytes = json_is_true(json_object_get(seen, "bitsandbytes"));
  p->has_deepspeed = json_is_true(json_object_get(seen, "deepspeed"));
  p->is_without_triton = json_is_false(json_object_get(seen, "triton"));
  bool ok = take_savers(&p->savers, json_object_get(seen, "savers")) &&
            take_measured(p, seen, fullest) && take_looks(p, json_object_get(seen, "looked_at")) &&
            take_routes(p, json_object_get(seen, "routed")) &&
            take_phases(p, json_object_get(seen, "phases")) &&
            take_versions(p, json_object_get(seen, "versions"));
  json_decref(seen);
  return ok ? PLIM_OK : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

void simulate_process_clear(simulate_process *p) {
  for (size_t i = 0; i < p->looks.len; i++) {
    free(p->looks.at[i].file);
    free(p->looks.at[i].type);
    free(p->looks.at[i].told);
  }
  for (size_t i = 0; i < p->versions.len; i++) {
    free(p->versions.at[i].name);
    free(p->versions.at[i].version);
  }
  for (size_t i = 0; i < p->phases.len; i++) free(p->phases.at[i].name);
  for (size_t i = 0; i < p->routes.len; i++) free(p->routes.at[i].file);
  vec_free(&p->routes);
  clear_observed(&p->observed);
  savers_done_clear(&p->savers);
  free(p->failure.text);
  free(p->failure.file);
  vec_free(&p->phases);
  vec_free(&p->looks);
  vec_free(&p->versions);
  free(p->measured.card);
  free(p->measured.uuid);
  vec_free(&p->measured.step_seconds);
  free(p->snapshot);
  free(p->config);
}

static int by_rank(const void *a, const void *b) {
  const simulate_process *x = a, *y = b;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  return x->pid < y->pid ? -1 : x->pid > y->pid;
}

// The path of a file that process `pid` may have left: 123.pickle. NULL: it did not.
static char *left_behind(const char *out, int64_t pid, const char *end) {
  char path[PLIM_PATH_BYTES], name[48];
  snprintf(name, sizeof name, "%lld%s", (long long)pid, end);
  return plim_path_join(path, out, name) && plim_is_file(path) ? strdup(path) : NULL;
}

// "123.json" is of process 123.
static plim_err read_one(const char *out, const char *name, simulate_result *result,
                         plim_error *error) {
  char path[PLIM_PATH_BYTES], *end;
  simulate_process process = {.pid = strtoll(name, &end, 10)};
  if (end == name || strcmp(end, ".json") != 0 || !plim_path_join(path, out, name)) return PLIM_OK;
  plim_err err = take_process(path, &process, error);
  process.snapshot = left_behind(out, process.pid, ".pickle");
  process.config = left_behind(out, process.pid, ".config.json");
  if (!err && !vec_push(&result->processes, process))
    err = plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  if (err) simulate_process_clear(&process);
  return err;
}

plim_err simulate_read_processes(const char *out, simulate_result *result, plim_error *error) {
  DIR *folder = opendir(out);
  plim_err err = PLIM_OK;
  if (!folder) return plim_fail(error, PLIM_ERR_IO, "cannot read %.200s", out);
  for (struct dirent *entry; !err && (entry = readdir(folder));)
    err = read_one(out, entry->d_name, result, error);
  closedir(folder);
  if (result->processes.len)
    plim_sort(result->processes.at, result->processes.len, sizeof *result->processes.at, by_rank);
  return err;
}
