#include "check_show.h"
#include "estimate_result.h"
#include "json_writer.h"

static const char *const severities[CHECK_SEVERITIES] = {"ok", "note", "warning", "would_fail"};

static const char *const verdicts[CHECK_VERDICTS] = {"ready", "not_ready", "may_not_fit",
                                                     "not_checked"};

static void print_processes(json_writer *j, const check *c, size_t card) {
  jsonw_array(j, "processes");
  for (size_t i = 0; i < c->processes.len; i++) {
    const check_process *p = &c->processes.at[i];
    if (p->card != card) continue;
    jsonw_object(j, NULL);
    jsonw_u64(j, "pid", p->process.pid);
    jsonw_string_or_null(j, "name", p->name);
    jsonw_bytes(j, "used_bytes", p->process.used_bytes);
    jsonw_end(j);
  }
  jsonw_end(j);
}

static void print_cards(json_writer *j, const check *c) {
  if (!c->card_count && c->driver == PLIM_NVML_SILENT) {
    jsonw_null(j, "cards");
    return;
  }
  jsonw_array(j, "cards");
  for (size_t i = 0; i < c->card_count; i++) {
    const plim_card *card = &c->cards[i];
    jsonw_object(j, NULL);
    jsonw_u64(j, "index", card->index);
    jsonw_string_or_null(j, "name", card->name);
    jsonw_bytes(j, "total_bytes", card->total_bytes);
    jsonw_bytes(j, "free_bytes", card->free_bytes);
    print_processes(j, c, i);
    jsonw_end(j);
  }
  jsonw_end(j);
}

static void print_host(json_writer *j, const plim_machine *m) {
  jsonw_object(j, "host");
  jsonw_bytes(j, "total_bytes", m->total_bytes);
  jsonw_bytes(j, "available_bytes", m->available_bytes);
  jsonw_bytes(j, "swap_bytes", m->swap_total_bytes);
  jsonw_bytes(j, "limit_bytes", m->limit_bytes);
  jsonw_bytes(j, "limit_used_bytes", m->limit_used_bytes);
  jsonw_bytes(j, "shm_bytes", m->shm_total_bytes);
  jsonw_end(j);
}

static void print_files(json_writer *j, const plim_project *p) {
  jsonw_array(j, "files");
  for (size_t i = 0; i < p->files.len; i++) {
    plim_dialect d = p->files.at[i]->is.dialect;
    jsonw_object(j, NULL);
    jsonw_string(j, "path", p->files.at[i]->path);
    if (p->files.at[i]->target) jsonw_string(j, "target", p->files.at[i]->target);
    jsonw_string(j, "dialect", d == PLIM_DIALECTS ? NULL : plim_dialect_table[d].name);
    jsonw_end(j);
  }
  jsonw_end(j);
}

static void print_known(json_writer *j, const char *key, int64_t value) {
  if (value) jsonw_i64(j, key, value);
  else jsonw_null(j, key);
}

static void print_batch(json_writer *j, const check *c) {
  jsonw_object(j, "batch");
  print_known(j, "micro_batch", c->micro_batch);
  print_known(j, "accumulate", c->accumulate);
  print_known(j, "ranks", c->ranks);
  print_known(j, "effective_batch", c->effective_batch);
  jsonw_end(j);
}

static void print_finding(json_writer *j, const check_finding *f) {
  jsonw_object(j, NULL);
  jsonw_string(j, "id", f->id);
  jsonw_string(j, "severity", severities[f->severity]);
  jsonw_string(j, "what", f->what);
  jsonw_string_or_null(j, "why", f->why);
  jsonw_string_or_null(j, "fix", f->fix);
  jsonw_string_or_null(j, "file", f->file);
  print_known(j, "line", f->line);
  jsonw_end(j);
}

static void print_members(json_writer *j, const check *c) {
  const char *why_not;
  check_verdict verdict = check_decide(c, &why_not);
  jsonw_bool(j, "ready", verdict == CHECK_READY);
  jsonw_string(j, "verdict", verdicts[verdict]);
  jsonw_string(j, "why_not_checked", why_not);
  print_files(j, &c->files.project);
  print_cards(j, c);
  print_host(j, &c->machine);
  print_batch(j, c);
  if (c->has_estimate) {
    estimate_json_versions(j, &c->job, &c->request.job.versions);
    jsonw_object(j, "estimate");
    estimate_json_members(j, &c->estimate);
    jsonw_end(j);
  } else jsonw_null(j, "estimate");
  jsonw_array(j, "findings");
  for (size_t i = 0; i < c->findings.len; i++) print_finding(j, &c->findings.at[i]);
  jsonw_end(j);
}

void check_print_json(const check *c) {
  json_writer j = jsonw_begin(stdout);
  jsonw_object(&j, NULL);
  jsonw_u64(&j, "format_version", 1);
  print_members(&j, c);
  jsonw_end(&j);
  jsonw_finish(&j);
}

static void print_error(json_writer *j, const plim_error *e) {
  jsonw_object(j, "error");
  jsonw_string(j, "message", e->message);
  jsonw_string_or_null(j, "hint", e->hint);
  jsonw_end(j);
}

void check_print_each_json(const checked *all, size_t count) {
  json_writer j = jsonw_begin(stdout);
  jsonw_object(&j, NULL);
  jsonw_u64(&j, "format_version", 1);
  jsonw_array(&j, "checks");
  for (size_t i = 0; i < count; i++) {
    jsonw_object(&j, NULL);
    jsonw_string(&j, "named", all[i].named);
    jsonw_bool(&j, "is_recognised", !all[i].is_passed_over && !all[i].has_failed);
    if (*all[i].error.message) print_error(&j, &all[i].error);
    else jsonw_null(&j, "error");
    if (!all[i].has_failed && !all[i].is_passed_over) print_members(&j, &all[i].of);
    jsonw_end(&j);
  }
  jsonw_end(&j);
  jsonw_end(&j);
  jsonw_finish(&j);
}
