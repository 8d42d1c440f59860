// Checks for unknown keys that look like misspelled known keys, and for values that a known key cannot have.
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "suggest.h"
#include "text.h"

// ---- keys -------------------------------------------------------------------------------------------

void check_typos(check *c) {
  plim_project *p = &c->files.project;
  size_t had = p->notes.list.len;
  plim_project_note_typos(p);
  for (size_t i = had; i < p->notes.list.len; i++) {
    const plim_note *note = &p->notes.list.at[i];
    check_finding *f = check_add(c, "keys.unknown", CHECK_WARNING, "%s", note->message);
    check_at_note(f, note);
    check_why(f, "the setting has no effect, or the run refuses the key");
    check_fix(f, "correct the key, or remove it");
  }
}

// ---- values -----------------------------------------------------------------------------------------

enum { MOST_WORDS = 32, SHOWN = 6 }; // the longest list of value_aliases.c has 21

// The words that the key takes, without patterns; the number of them.
static size_t words_of(const plim_key *key, const char *names[MOST_WORDS]) {
  size_t count = 0;
  for (const plim_word *w = key->words; w && w->file && count < MOST_WORDS; w++)
    if (!strpbrk(w->file, "*?") && *w->file && strcmp(w->file, "null") != 0)
      names[count++] = w->file;
  return count;
}

static void suggest_value(check_finding *f, const plim_key *key, const char *value) {
  const char *names[MOST_WORDS];
  char list[160];
  size_t count = words_of(key, names);
  const char *close = plim_suggest(value, names, count);
  plim_suggest_list(names, count, SHOWN, list, sizeof list);
  if (key->how == PLIM_AS_NUMBER) check_fix(f, "write a number");
  else if (close) check_fix(f, "write %s", close);
  else if (count) check_fix(f, "write %s", list);
}

// Whether the line has been reported already, with a fix that is more exact.
static bool has_finding_at(const check *c, const plim_project_file *file, int line) {
  for (size_t i = 0; i < c->findings.len; i++) {
    const check_finding *f = &c->findings.at[i];
    bool is_of_value = strncmp(f->id, "yaml.", 5) == 0 || strncmp(f->id, "batch.invalid", 13) == 0;
    if (is_of_value && f->line == line && strcmp(f->file, file->path) == 0) return true;
  }
  return false;
}

static void report_value(check *c, const plim_project_file *file, const plim_reading *r) {
  char value[96];
  if (!*c->unread) {
    snprintf(c->unread, sizeof c->unread,
             "plimsoll does not understand the value of %.80s (%.100s:%d)", r->setting->key,
             file->path, r->setting->line);
    plim_text_disarm(c->unread);
  }
  if (has_finding_at(c, file, r->setting->line)) return;
  plim_value_print(&r->setting->value, value, sizeof value);
  check_finding *f =
      check_add(c, "values.unreadable", CHECK_WARNING,
                "%.80s: plimsoll does not understand the value %.80s", r->setting->key, value);
  check_at(f, &(check_place){file, r->setting, r->setting->value});
  check_why(f, "the run may refuse it or read it differently, so it is unknown whether it fits");
  suggest_value(f, r->key, value);
}

// One of the row's words, misspelled: mixed_precision: bf61. Words that are near none may be newer than plimsoll.
static bool is_misspelled(const plim_reading *r) {
  const char *names[MOST_WORDS];
  bool is_word = r->origin == PLIM_EXPLICIT && r->key && r->key->how == PLIM_AS_WORDS &&
                 r->setting->value.kind == PLIM_VALUE_TEXT;
  if (!is_word || plim_key_knows(r->key, r->setting->value.text)) return false;
  return plim_suggest(r->setting->value.text, names, words_of(r->key, names)) != NULL;
}

static bool is_wrong(const plim_reading *r) {
  return r->setting && (r->is_ill_typed || is_misspelled(r));
}

// Whether another knob of the file was read from the same setting: bf16 decides precision and dtype.
static bool was_reported(const plim_project_file *file, int knob) {
  const plim_reading *all = file->recipe.knobs;
  for (int i = 0; i < knob; i++)
    if (all[i].setting == all[knob].setting && is_wrong(&all[i])) return true;
  return false;
}

// A value that another file overrides has no effect.
void check_values(check *c) {
  const plim_project *p = &c->files.project;
  for (size_t i = 0; c->trains && i < p->files.len; i++)
    for (int k = 0; k < PLIM_KNOBS; k++) {
      const plim_reading *r = &p->files.at[i]->recipe.knobs[k];
      bool is_in_force = p->knobs[k].place_count && p->knobs[k].places[0].setting == r->setting;
      if (is_in_force && is_wrong(r) && !was_reported(p->files.at[i], k))
        report_value(c, p->files.at[i], r);
    }
}
