#include "show_settings.h"

#include <string.h>

#include "report.h"
#include "term.h"
#include "text_result.h"
#include "trainer_settings.h"

static void say(const char *what, const char *text) {
  fprintf(stderr, "%s: ", what);
  term_say(stderr, text, strlen(what) + 2, strlen(what) + 2);
}

static void print_beside(const settings_result *s) {
  char text[600];
  for (size_t i = 0; i < s->notes.list.len; i++) say("note", s->notes.list.at[i].message);
  for (size_t i = 0; !s->is_read && i < s->left_out_count; i++) {
    snprintf(text, sizeof text, "%s has no setting for --%s", s->dialect->title,
             s->left_out[i]->name);
    say("note", text);
  }
  for (size_t i = 0; i < s->files.files.len; i++) {
    snprintf(text, sizeof text, "it names %.300s, whose text is in --json",
             s->files.files.at[i].path);
    say("note", text);
  }
  if (s->command) say("start", s->command);
}

static void print_text(const settings_result *s) {
  size_t n = strlen(s->text);
  fputs(s->text, stdout);
  if (n && s->text[n - 1] != '\n') fputc('\n', stdout);
  fflush(stdout);
  print_beside(s);
}

int show_settings(const job_args *args, const char *dialect, bool as_json) {
  settings_result s = {.args = args};
  plim_error error = {0};
  const char *source = NULL;
  plim_err err = settings_dialect_named(dialect, &s.dialect, &error);
  if (!err) err = settings_make(&s, &source, &error);
  if (!err && as_json) cli_print_json(settings_write, &s);
  else if (!err) print_text(&s);
  int status = err ? cli_report(&error, source) : CLI_OK;
  settings_clear(&s);
  return status;
}
