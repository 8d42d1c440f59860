// Loops of one's own that accumulate gradients under a name that is not known: 1 would be a guess.
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "project_impl.h"

enum { NAME_BYTES = 96 };

static bool is_in_name(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }

static size_t read_name(const char *text, char out[NAME_BYTES]) {
  size_t size = 0;
  text += strspn(text, " ");
  if (isdigit((unsigned char)*text)) return 0;
  while (is_in_name(text[size])) size++;
  bool is_call = text[size] == '(';
  if (!size || size >= NAME_BYTES || is_call) return 0;
  snprintf(out, NAME_BYTES, "%.*s", (int)size, text);
  return size;
}

// `% NAME` or `range(NAME)` somewhere: what counts the passes.
static bool counts_by(const char *text, const char *name) {
  static const char *const before[] = {"%", "range("};
  char found[NAME_BYTES];
  for (size_t i = 0; i < sizeof before / sizeof *before; i++)
    for (const char *at = text; (at = strstr(at, before[i]));) {
      at += strlen(before[i]);
      if (read_name(at, found) && strcmp(found, name) == 0) return true;
    }
  return false;
}

// `loss / NAME`: a loss that is a part of the batch's.
static bool find_divisor(const char *text, char name[NAME_BYTES]) {
  for (const char *at = text; (at = strstr(at, "loss"));) {
    at += 4;
    const char *sign = at + strspn(at, " )");
    if (*sign != '/' || sign[1] == '/') continue;
    if (read_name(sign + 1 + (sign[1] == '='), name) && counts_by(text, name)) return true;
  }
  return false;
}

static const plim_setting *find_named(const plim_settings *s) {
  for (size_t i = 0; i < s->at.len; i++) {
    const plim_setting *setting = &s->at.at[i];
    bool is_count =
        setting->value.kind == PLIM_VALUE_INTEGER || setting->value.kind == PLIM_VALUE_TEXT;
    if (is_count && !setting->is_aside && strcasestr(setting->key, "accum")) return setting;
  }
  return NULL;
}

static bool find_doubt(const plim_project_file *f, char *why, size_t size) {
  char name[NAME_BYTES];
  const plim_setting *named = find_named(&f->settings);
  if (named) snprintf(why, size, "%.80s has %.80s, which may be it", f->path, named->key);
  if (named || f->settings.format != PLIM_FORMAT_PYTHON) return named;
  if (!find_divisor(f->text, name)) return false;
  snprintf(why, size, "%.80s divides its loss by %.80s, which may be it", f->path, name);
  return true;
}

void plim_project_doubt_loops(plim_project *p) {
  plim_project_knob *k = &p->knobs[PLIM_KNOB_ACCUMULATE];
  if (p->dialect != PLIM_DIALECT_HOME || k->origin != PLIM_ABSENT) return;
  for (size_t i = 0; i < p->files.len && k->origin == PLIM_ABSENT; i++)
    if (find_doubt(p->files.at[i], k->why, sizeof k->why))
      k->origin = PLIM_UNCLEAR, k->is_fixed = true;
}
