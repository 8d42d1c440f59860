#include "check.h"

#include "quoting.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

// ---- the list ---------------------------------------------------------------------------------------

// In the order in which findings are shown. A check may use what earlier ones filled in.
static void (*const checks[])(check *) = {
    check_visible,       check_cards,       check_card_count, check_environment, check_memory,
    check_allocator,     check_interrupted, check_recognised, check_batch,       check_agreement,
    check_auto_batch,    check_files,       check_launcher,   check_idle,        check_loading,
    check_shell,         check_yaml,        check_values,     check_typos,       check_readers,
    check_precision,     check_fit,         check_conflicts,  check_offload,     check_locked,
    check_shared_memory, check_folder,
};

plim_err check_all(check *c, plim_error *error) {
  for (size_t i = 0; i < sizeof checks / sizeof *checks && !c->has_no_memory; i++) checks[i](c);
  return c->has_no_memory ? plim_no_memory(error) : PLIM_OK;
}

size_t check_count(const check *c, check_severity severity) {
  size_t count = 0;
  for (size_t i = 0; i < c->findings.len; i++) count += c->findings.at[i].severity == severity;
  return count;
}

bool check_has(const check *c, const char *id, check_severity severity) {
  for (size_t i = 0; i < c->findings.len; i++)
    if (strcmp(c->findings.at[i].id, id) == 0 && c->findings.at[i].severity == severity)
      return true;
  return false;
}

check_verdict check_decide(const check *c, const char **why_not) {
  *why_not = NULL;
  if (check_count(c, CHECK_FAILS)) return CHECK_NOT_READY;
  if (check_has(c, "fit", CHECK_WARNING)) return CHECK_MAY_NOT_FIT;
  if (!c->files.project.files.len)
    *why_not = "no files were given, so only the machine and the environment were checked";
  else if (!c->trains) *why_not = "these files contain no training configuration";
  else if (!c->has_estimate) *why_not = c->no_estimate.message;
  else if (!c->estimate.has_verdict)
    *why_not =
        c->is_elsewhere ? "no --gpu was given" : "no --gpu was given and this machine has no GPU";
  else if (*c->unread) *why_not = c->unread;
  return *why_not ? CHECK_NOT_CHECKED : CHECK_READY;
}

// ---- where to look ----------------------------------------------------------------------------------

static void look_at_processes(check *c, size_t card) {
  plim_card_process found[PLIM_MAX_PROCESSES];
  size_t count = plim_nvml_processes(&c->cards[card], found, &c->driver);
  for (size_t i = 0; i < count; i++) {
    check_process p = {.card = card, .process = found[i]};
    if (!plim_process_name(c->root, found[i].pid, p.name, sizeof p.name)) p.name[0] = 0;
    if (!vec_push(&c->processes, p)) c->has_no_memory = true;
  }
}

static char *nothing_set(const char *name) {
  (void)name;
  return NULL;
}

void check_look(check *c) {
  if (c->is_elsewhere) {
    c->environment = nothing_set;
    c->driver = PLIM_NVML_SILENT;
    c->machine = (plim_machine){PLIM_UNKNOWN, PLIM_UNKNOWN, PLIM_UNKNOWN, PLIM_UNKNOWN,
                                PLIM_UNKNOWN, PLIM_UNKNOWN, PLIM_UNKNOWN, PLIM_UNKNOWN,
                                PLIM_UNKNOWN, PLIM_UNKNOWN, false,        false};
    return;
  }
  plim_machine_read(c->root, &c->machine);
  c->card_count = plim_nvml_cards(c->cards, &c->driver);
  for (size_t i = 0; i < c->card_count && c->driver != PLIM_NVML_SILENT; i++)
    look_at_processes(c, i);
}

static plim_err understand(check *c, const cli_strings *sets, plim_error *error) {
  plim_error why = {0};
  c->sets = sets;
  c->trains = !plim_run_settings_of(&c->files.project, &c->files.run, &why);
  if (why.code != PLIM_ERR_NOMEM) return PLIM_OK;
  project_job_clear(&c->files);
  return plim_fail(error, PLIM_ERR_NOMEM, "%s", why.message);
}

plim_err check_read(check *c, const project_input *in, plim_error *error) {
  plim_err err = project_job_open(&c->files, in, error);
  c->command = in->command;
  return err ? err : understand(c, in->sets, error);
}

plim_err check_read_command(check *c, const char *const *words, const cli_strings *sets,
                            plim_error *error) {
  char *script = plim_script_of_words(words);
  if (!script) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  plim_err err = project_job_open_command(&c->files, script, sets, error);
  free(script);
  return err ? err : understand(c, sets, error);
}

void check_clear(check *c) {
  project_job_clear(&c->files);
  job_request_clear(&c->request);
  vec_free(&c->processes);
  vec_free(&c->findings);
  for (size_t i = 0; i < c->texts.len; i++) free(c->texts.at[i]);
  vec_free(&c->texts);
}

// ---- findings ---------------------------------------------------------------------------------------

const char *check_keep(check *c, char *text) {
  if (text && vec_push(&c->texts, text)) {
    plim_text_disarm(text);
    return text;
  }
  free(text);
  c->has_no_memory = true;
  return "";
}

static char *print(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

static char *print(const char *format, va_list args) {
  char *text;
  return vasprintf(&text, format, args) < 0 ? NULL : text;
}

check_finding *check_add(check *c, const char *id, check_severity severity, const char *format,
                         ...) {
  check_finding finding = {.id = id, .severity = severity, .caret = -1, .owner = c};
  va_list args;
  va_start(args, format);
  finding.what = check_keep(c, print(format, args));
  va_end(args);
  finding.why = finding.fix = finding.file = "";
  if (vec_push(&c->findings, finding)) return &c->findings.at[c->findings.len - 1];
  c->has_no_memory = true;
  c->lost = finding;
  return &c->lost;
}

void check_why(check_finding *f, const char *format, ...) {
  va_list args;
  va_start(args, format);
  f->why = check_keep(f->owner, print(format, args));
  va_end(args);
}

void check_fix(check_finding *f, const char *format, ...) {
  va_list args;
  va_start(args, format);
  f->fix = check_keep(f->owner, print(format, args));
  va_end(args);
}

static bool is_inside(char c) { return ((unsigned char)c & 0xC0) == 0x80; } // of a UTF-8 character

void check_show(check_finding *f, const char *text, size_t byte) {
  enum {
    BEFORE = 56,
    SHOWN = 72,
    INSIDE = 3
  }; // INSIDE: bytes of a UTF-8 character after its first
  size_t start = byte;
  while (start > 0 && text[start - 1] != '\n') start--;
  if (byte - start > BEFORE && strcspn(text + start, "\n") > SHOWN) start = byte - BEFORE;
  for (int i = 0; i < INSIDE && start < byte && is_inside(text[start]); i++) start++;
  size_t size = strcspn(text + start, "\n");
  if (size > SHOWN) size = SHOWN;
  for (int i = 0; i < INSIDE && size > 0 && is_inside(text[start + size]); i++) size--;
  snprintf(f->excerpt, sizeof f->excerpt, "%.*s", (int)size, text + start);
  for (char *at = f->excerpt; *at; at++)
    if (*at == '\t') *at = ' ';
  plim_text_disarm(f->excerpt);
  f->caret = (int)(byte - start);
}

void check_at_line(check_finding *f, const char *file, int line) {
  f->file = check_keep(f->owner, strdup(file));
  f->line = line;
}

static int count_characters(const char *text, size_t size) {
  int count = 0;
  for (size_t i = 0; i < size; i++) count += !is_inside(text[i]);
  return count;
}

// The text of some files is only a part of what is on the disk, in which bytes count differently.
static void mark(check_finding *f, const plim_project_file *file, plim_span span) {
  bool is_part = file->is_typed || file->is_notebook || file->target || file->shipped_by;
  if (is_part || span.begin > file->size || span.end > file->size) return;
  const char *text = file->text;
  size_t start = span.begin;
  while (start > 0 && text[start - 1] != '\n') start--;
  bool is_in_line =
      span.end > span.begin && !memchr(text + span.begin, '\n', span.end - span.begin);
  f->column = 1 + count_characters(text + start, span.begin - start);
  if (is_in_line)
    f->end_column = f->column + count_characters(text + span.begin, span.end - span.begin);
  f->byte = span.begin;
  f->byte_count = span.end > span.begin ? span.end - span.begin : 0;
}

void check_at(check_finding *f, const check_place *place) {
  const plim_setting *s = place->setting;
  check_at_line(f, place->file->path, s->line);
  if (plim_line_at(&f->owner->lines, place->file->text, s->span.begin) == s->line)
    mark(f, place->file, s->span);
}

void check_at_byte(check_finding *f, const plim_project_file *file, size_t byte) {
  check_at_line(f, file->path, plim_line_at(&f->owner->lines, file->text, byte));
  mark(f, file, (plim_span){byte, byte});
}

void check_at_note(check_finding *f, const plim_note *note) {
  if (note->file) check_at_line(f, note->file, note->line);
}

void check_print_place(const check_place *place, const char *otherwise, char *text, size_t size) {
  if (place->file) snprintf(text, size, "%.80s:%d", place->file->path, place->setting->line);
  else snprintf(text, size, "%s", otherwise);
}
