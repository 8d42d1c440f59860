// Manual loops that accumulate gradients under an unknown name: assuming 1 step would be a guess, so the knob is unclear.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "hash.h"
#include "literals.h"
#include "project_impl.h"
#include "python_lexer.h"

enum { NAME_BYTES = 96 };

static bool is_sign(const plim_py_lexer *x, size_t i, const char *sign) {
  if (i >= x->tokens.len || x->tokens.at[i].kind != PLIM_PY_OPERATOR) return false;
  size_t size = x->tokens.at[i].end - x->tokens.at[i].begin;
  return size == strlen(sign) && memcmp(x->text + x->tokens.at[i].begin, sign, size) == 0;
}

static bool is_name(const plim_py_lexer *x, size_t i) {
  return i < x->tokens.len && x->tokens.at[i].kind == PLIM_PY_NAME;
}

static bool is_named(const plim_py_lexer *x, size_t i, const char *end) {
  size_t n = strlen(end), size = is_name(x, i) ? x->tokens.at[i].end - x->tokens.at[i].begin : 0;
  return size >= n && memcmp(x->text + x->tokens.at[i].end - n, end, n) == 0;
}

// Reads the name with its attributes that begins here; false if there is none or it is called.
static bool read_name(const plim_py_lexer *x, size_t i, char out[NAME_BYTES]) {
  size_t last = i;
  if (!is_name(x, i)) return false;
  while (is_sign(x, last + 1, ".") && is_name(x, last + 2)) last += 2;
  size_t size = x->tokens.at[last].end - x->tokens.at[i].begin;
  if (size >= NAME_BYTES || is_sign(x, last + 1, "(")) return false;
  snprintf(out, NAME_BYTES, "%.*s", (int)size, x->text + x->tokens.at[i].begin);
  return true;
}

// Notes names that count passes: `% NAME` or `range(NAME)`.
static bool note_counters(const plim_py_lexer *x, plim_hash *counters) {
  char name[NAME_BYTES];
  bool ok = true;
  for (size_t i = 0; i < x->tokens.len && ok; i++) {
    bool is_range = is_sign(x, i, "(") && i && is_named(x, i - 1, "range");
    if (!is_range && !is_sign(x, i, "%")) continue;
    if (read_name(x, i + 1, name))
      ok = plim_hash_put(counters, plim_text_hash(0, name, strlen(name)), 1);
  }
  return ok;
}

// `loss / NAME` or `loss /= NAME` with a name that counts passes: the loss is divided for accumulation.
static bool divides_loss(const plim_py_lexer *x, const plim_hash *counters, char name[NAME_BYTES]) {
  for (size_t i = 0; i < x->tokens.len; i++) {
    size_t sign = i + 1;
    if (!is_named(x, i, "loss")) continue;
    while (is_sign(x, sign, ")")) sign++;
    if (!is_sign(x, sign, "/") && !is_sign(x, sign, "/=")) continue;
    if (!read_name(x, sign + 1, name)) continue;
    if (plim_hash_find(counters, plim_text_hash(0, name, strlen(name)))) return true;
  }
  return false;
}

// If memory runs out, nothing is found.
static bool find_divisor(const plim_project_file *f, char name[NAME_BYTES]) {
  plim_hash counters = {0};
  bool is_found = false, ok = true;
  for (int pass = 0; pass < 2 && ok; pass++) {
    plim_py_lexer x;
    ok = !plim_py_lexer_open(&x, f->text, f->size, NULL);
    while (ok && !is_found && plim_py_next_line(&x))
      if (pass == 0) ok = note_counters(&x, &counters);
      else is_found = divides_loss(&x, &counters, name);
    plim_py_lexer_close(&x);
  }
  plim_hash_free(&counters);
  return is_found;
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
  if (named) snprintf(why, size, "%.80s has %.80s, which may set it", f->path, named->key);
  if (named || f->settings.format != PLIM_FORMAT_PYTHON) return named;
  if (!find_divisor(f, name)) return false;
  snprintf(why, size, "%.80s divides its loss by %.80s, which may be the number of steps", f->path,
           name);
  return true;
}

void plim_project_doubt_loops(plim_project *p) {
  plim_project_knob *k = &p->knobs[PLIM_KNOB_ACCUMULATE];
  if (p->dialect != PLIM_DIALECT_HOME || k->origin != PLIM_ABSENT) return;
  for (size_t i = 0; i < p->files.len && k->origin == PLIM_ABSENT; i++)
    if (find_doubt(p->files.at[i], k->why, sizeof k->why))
      k->origin = PLIM_UNCLEAR, k->is_fixed = true;
}
