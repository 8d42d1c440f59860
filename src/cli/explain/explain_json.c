#include <stdio.h>

#include "explain_show.h"
#include "json_writer.h"
#include "notes_json.h"

static void print_frame(json_writer *j, const char *key, const plim_oom_frame *f) {
  if (!*f->file) {
    jsonw_null(j, key);
    return;
  }
  jsonw_object(j, key);
  jsonw_string(j, "file", f->file);
  jsonw_u64(j, "line", f->line);
  jsonw_string_or_null(j, "function", f->function);
  jsonw_string_or_null(j, "code", f->code);
  jsonw_end(j);
}

static void print_numbers(json_writer *j, const plim_oom_message *m) {
  char key[48];
  jsonw_object(j, "numbers");
  for (int i = 0; i < PLIM_OOM_FIELDS; i++) {
    snprintf(key, sizeof key, "%s_bytes", plim_oom_field_name((plim_oom_field)i));
    jsonw_bytes(j, key, m->bytes[i]);
  }
  jsonw_array(j, "impossible");
  for (int i = 0; i < PLIM_OOM_FIELDS; i++)
    if (m->is_impossible[i]) jsonw_string(j, NULL, plim_oom_field_name((plim_oom_field)i));
  jsonw_end(j);
  jsonw_end(j);
}

static void print_processes(json_writer *j, const plim_oom_message *m) {
  jsonw_array(j, "processes");
  for (size_t i = 0; i < m->process_count; i++) {
    jsonw_object(j, NULL);
    jsonw_u64(j, "pid", m->processes[i].pid);
    jsonw_bytes(j, "used_bytes", m->processes[i].bytes);
    jsonw_end(j);
  }
  jsonw_end(j);
}

static void print_message(json_writer *j, const plim_oom_message *m) {
  if (m->kind == PLIM_OOM_NONE) {
    jsonw_null(j, "message");
    return;
  }
  jsonw_object(j, "message");
  jsonw_string(j, "kind", plim_oom_kind_name(m->kind));
  jsonw_string(j, "device", plim_oom_device_name(m->device));
  jsonw_bytes(j, "device_index", m->index);
  jsonw_bytes(j, "line", m->line);
  jsonw_bytes(j, "rank", m->rank);
  jsonw_string(j, "text", m->text);
  print_numbers(j, m);
  print_processes(j, m);
  print_frame(j, "own_frame", &m->stack.own);
  print_frame(j, "phase_frame", &m->stack.sign);
  jsonw_end(j);
}

static void print_cures(json_writer *j, const explanation *e) {
  jsonw_array(j, "fixes");
  for (size_t i = 0; i < e->cures.len; i++) {
    jsonw_object(j, NULL);
    jsonw_string(j, "kind", explain_cure_name(e->cures.at[i].kind));
    jsonw_string(j, "text", e->cures.at[i].text);
    jsonw_string(j, "command", e->cures.at[i].command);
    jsonw_end(j);
  }
  jsonw_end(j);
}

void explain_print_json(const char *name, const plim_oom_log *log, const explanation *e) {
  json_writer j = jsonw_begin(stdout);
  jsonw_object(&j, NULL);
  jsonw_u64(&j, "format_version", 1);
  jsonw_string(&j, "log", name);
  jsonw_u64(&j, "lines", log->lines);
  jsonw_string(&j, "verdict", explain_verdict_name(e->verdict));
  jsonw_string(&j, "sure", explain_surety_name(e->surety));
  jsonw_string(&j, "why_not_sure", e->why_not_sure);
  jsonw_string(&j, "summary", e->summary);
  print_message(&j, &log->message);
  jsonw_bytes(&j, "library_bytes", e->library_bytes);
  jsonw_bytes(&j, "other_process_bytes", e->other_bytes);
  jsonw_string(&j, "phase", plim_run_phase_name(e->phase));
  jsonw_string(&j, "moment", plim_run_moment_name(e->moment));
  jsonw_bytes(&j, "steps_completed", e->step);
  jsonw_array(&j, "evidence");
  notes_write(&j, &e->evidence);
  jsonw_end(&j);
  print_cures(&j, e);
  jsonw_end(&j);
  jsonw_finish(&j);
}
