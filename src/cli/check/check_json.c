#include "check_show.h"
#include "estimate_result.h"
#include "json.h"

static const char *const severities[CHECK_SEVERITIES] = {"ok", "note", "warning", "would_fail"};

static const char *const verdicts[CHECK_VERDICTS] = {"ready", "not_ready", "may_not_fit",
                                                     "not_checked"};

static void print_processes(json_writer *j, const check *c, size_t card) {
  json_array(j, "processes");
  for (size_t i = 0; i < c->processes.len; i++) {
    const check_process *p = &c->processes.at[i];
    if (p->card != card) continue;
    json_object(j, NULL);
    json_u64(j, "pid", p->process.pid);
    json_string_or_null(j, "name", p->name);
    json_bytes(j, "used_bytes", p->process.used_bytes);
    json_end(j);
  }
  json_end(j);
}

static void print_cards(json_writer *j, const check *c) {
  json_array(j, "cards");
  for (size_t i = 0; i < c->card_count; i++) {
    const plim_card *card = &c->cards[i];
    json_object(j, NULL);
    json_u64(j, "index", card->index);
    json_string_or_null(j, "name", card->name);
    json_bytes(j, "total_bytes", card->total_bytes);
    json_bytes(j, "free_bytes", card->free_bytes);
    print_processes(j, c, i);
    json_end(j);
  }
  json_end(j);
}

static void print_host(json_writer *j, const plim_machine *m) {
  json_object(j, "host");
  json_bytes(j, "total_bytes", m->total_bytes);
  json_bytes(j, "available_bytes", m->available_bytes);
  json_bytes(j, "swap_bytes", m->swap_total_bytes);
  json_bytes(j, "limit_bytes", m->limit_bytes);
  json_bytes(j, "limit_used_bytes", m->limit_used_bytes);
  json_bytes(j, "shm_bytes", m->shm_total_bytes);
  json_end(j);
}

static void print_files(json_writer *j, const plim_project *p) {
  json_array(j, "files");
  for (size_t i = 0; i < p->files.len; i++) {
    plim_dialect d = p->files.at[i]->is.dialect;
    json_object(j, NULL);
    json_string(j, "path", p->files.at[i]->path);
    json_string(j, "dialect", d == PLIM_DIALECTS ? NULL : plim_dialect_table[d].name);
    json_end(j);
  }
  json_end(j);
}

static void print_known(json_writer *j, const char *key, int64_t value) {
  if (value) json_i64(j, key, value);
  else json_null(j, key);
}

static void print_batch(json_writer *j, const check *c) {
  json_object(j, "batch");
  print_known(j, "micro_batch", c->micro_batch);
  print_known(j, "accumulate", c->accumulate);
  print_known(j, "ranks", c->ranks);
  print_known(j, "effective_batch", c->effective_batch);
  json_end(j);
}

static void print_finding(json_writer *j, const check_finding *f) {
  json_object(j, NULL);
  json_string(j, "id", f->id);
  json_string(j, "severity", severities[f->severity]);
  json_string(j, "what", f->what);
  json_string_or_null(j, "why", f->why);
  json_string_or_null(j, "fix", f->fix);
  json_string_or_null(j, "file", f->file);
  print_known(j, "line", f->line);
  json_end(j);
}

void check_print_json(const check *c) {
  json_writer j = json_begin(stdout);
  json_object(&j, NULL);
  json_u64(&j, "format_version", 1);
  const char *why_not;
  check_verdict verdict = check_decide(c, &why_not);
  json_bool(&j, "ready", verdict == CHECK_READY);
  json_string(&j, "verdict", verdicts[verdict]);
  json_string(&j, "why_not_checked", why_not);
  print_files(&j, &c->files.project);
  print_cards(&j, c);
  print_host(&j, &c->machine);
  print_batch(&j, c);
  if (c->has_estimate) {
    json_object(&j, "estimate");
    estimate_json_members(&j, &c->estimate);
    json_end(&j);
  } else json_null(&j, "estimate");
  json_array(&j, "findings");
  for (size_t i = 0; i < c->findings.len; i++) print_finding(&j, &c->findings.at[i]);
  json_end(&j);
  json_end(&j);
  json_finish(&j);
}
