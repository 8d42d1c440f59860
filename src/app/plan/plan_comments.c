// Finds comments that mention the old value of a number that changes. They belong to the user and are not edited.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_edits.h"
#include "text.h"

static bool is_of_number(char c) { return isalnum((unsigned char)c) || c == '.' || c == '_'; }

// Whether the text contains this separate number: 8 in "8*8*4 = 256", not in "2048" or "v8".
static bool has_number(const char *text, const char *number) {
  size_t n = strlen(number);
  for (const char *at = text; (at = strstr(at, number)); at++)
    if (!(at > text && is_of_number(at[-1])) && !is_of_number(at[n])) return true;
  return false;
}

static const plim_setting *setting_at(const plim_project_file *f, plim_span span) {
  for (size_t i = 0; i < f->settings.at.len; i++) {
    plim_span s = f->settings.at.at[i].span;
    if (s.begin == span.begin && s.end == span.end) return &f->settings.at.at[i];
  }
  return NULL;
}

static bool is_stale(const plim_setting *setting) {
  char number[32];
  if (setting->value.kind != PLIM_VALUE_INTEGER || !setting->comment) return false;
  snprintf(number, sizeof number, "%lld", (long long)setting->value.integer);
  return has_number(setting->comment, number);
}

static void explain(FILE *out, const plim_project_file *f, const plim_setting *setting) {
  char line[PLIM_PATH_BYTES + 320];
  size_t first = strcspn(setting->comment, "\r\n");
  snprintf(line, sizeof line,
           "%s:%d: after this change, update the comment next to %.80s: \"%.*s\"", f->path,
           setting->line, setting->key, (int)(first < 160 ? first : 160), setting->comment);
  plim_text_disarm(line);
  fprintf(out, "%s\n", line);
}

plim_err plan_comments(const plim_project *p, const plim_knob_change *changes, size_t count,
                       char **text, plim_error *error) {
  plim_edit_set edits = {0};
  size_t size;
  *text = NULL;
  plim_err err = count ? plim_project_set(p, changes, count, &edits, error) : PLIM_OK;
  FILE *out = err ? NULL : open_memstream(text, &size);
  for (size_t i = 0; out && i < edits.at.len; i++) {
    const plim_project_file *f = p->files.at[edits.at.at[i].file];
    const plim_setting *setting = setting_at(f, edits.at.at[i].edit.span);
    if (setting && is_stale(setting)) explain(out, f, setting);
  }
  bool is_whole = out && plim_stream_end(out, text);
  plim_edit_set_clear(&edits);
  return err || is_whole ? err : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}
