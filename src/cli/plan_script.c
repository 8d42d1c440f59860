// What a project starts: the script with its arguments, as the user's own command has it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_edits.h"

static bool is_command(const plim_project_file *f) {
  return f->settings.format == PLIM_FORMAT_SHELL || f->settings.format == PLIM_FORMAT_DOCKERFILE;
}

// The next word of a command; its size is 0 where the command ends.
static const char *next_word(const char *at, size_t *size) {
  for (;; at += 2) {
    at += strspn(at, " \t");
    if (at[0] != '\\' || at[1] != '\n') break;
  }
  *size = strcspn(at, " \t\n;&|#");
  return at;
}

static bool is_script(const char *word, size_t size) {
  return size > 3 && memcmp(word + size - 3, ".py", 3) == 0;
}

// From the script to the end of its command, on one line. What only the script's shell knows, a variable
// or a quoted text, is left to the reader.
static bool copy_command(const char *at, char *text, size_t room) {
  size_t size, used = 0;
  *text = 0;
  for (at = next_word(at, &size); size; at = next_word(at + size, &size)) {
    if (used + size + 2 > room || strcspn(at, "$`'\"()\\") < size) return false;
    used += (size_t)snprintf(text + used, room - used, "%s%.*s", used ? " " : "", (int)size, at);
  }
  return used > 0;
}

static const char *script_in(const char *text, size_t *size) {
  while (*text) {
    if (*text == '#') text += strcspn(text, "\n");
    text += strspn(text, " \t\n;&|\\");
    *size = strcspn(text, " \t\n;&|#");
    if (is_script(text, *size)) return text;
    text += *size;
  }
  return NULL;
}

static bool find_in_file(const char *file, char *text, size_t room) {
  size_t size;
  const char *script = script_in(file, &size);
  if (!script) return false;
  if (!copy_command(script, text, room)) snprintf(text, room, "%.*s ...", (int)size, script);
  return true;
}

static bool find_in_command(const plim_project *p, const plim_edit_set *edits, char *text,
                            size_t room) {
  bool is_found = false;
  for (size_t i = 0; i < p->files.len && !is_found; i++) {
    char *file = NULL;
    size_t size;
    if (p->files.at[i]->settings.format != PLIM_FORMAT_SHELL) continue;
    if (!plim_project_text(p, i, edits, &file, &size, NULL))
      is_found = find_in_file(file, text, room);
    free(file);
  }
  return is_found;
}

void plan_script(const plim_project *p, const plan_edits *edits, char *text, size_t room) {
  plim_edit_set written = {0};
  snprintf(text, room, "train.py ...");
  if (!p) return;
  if (edits->write_count) plim_project_set(p, edits->writes, edits->write_count, &written, NULL);
  bool is_found = find_in_command(p, &written, text, room);
  plim_edit_set_clear(&written);
  if (is_found) return;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    bool trains = f->settings.format == PLIM_FORMAT_PYTHON && f->is.dialect != PLIM_DIALECTS;
    if (!trains) continue;
    snprintf(text, room, "%s ...", f->path);
    return;
  }
}

bool plan_is_started(const plim_project *p, int world) {
  const plim_project_knob *k = &p->knobs[PLIM_KNOB_WORLD];
  bool is_same = k->said == PLIM_SAID && k->place_count && k->value.integer == world;
  return is_same && is_command(p->files.at[k->places[0].file]);
}
