// What a project starts: the script with its arguments, as the user's own command has it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_edits.h"

static bool is_command(const plim_project_file *f) {
  return f->settings.format == PLIM_FORMAT_SHELL || f->settings.format == PLIM_FORMAT_DOCKERFILE;
}

const char *plan_file_of(const plim_project *p, plim_dialect dialect) {
  for (size_t i = 0; p && i < p->files.len; i++)
    if (p->files.at[i]->is.dialect == dialect && !is_command(p->files.at[i]))
      return p->files.at[i]->path;
  return NULL;
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
    if (strcspn(at, "<>") < size) break; // where the output goes is the script's
    if (used + size + 2 > room || strcspn(at, "$`'\"()\\") < size) return false;
    used += (size_t)snprintf(text + used, room - used, "%s%.*s", used ? " " : "", (int)size, at);
  }
  return used > 0;
}

static bool is_word(const char *word, size_t size, const char *of) {
  return strlen(of) == size && memcmp(word, of, size) == 0;
}

// What takes `-m MODULE`.
static bool is_launcher(const char *word, size_t size) {
  static const char *const names[] = {"python", "python3", "torchrun", "accelerate", "deepspeed"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (is_word(word, size, names[i])) return true;
  return false;
}

// A module of one's own; torch.distributed.run and the like start what comes behind them.
static bool is_module(const char *at) {
  size_t size;
  const char *name = next_word(at, &size);
  bool is_torch = size > 6 && memcmp(name, "torch.", 6) == 0;
  return size > 1 && *name != '-' && !is_torch;
}

// A file of Python's, or the -m before a module.
static const char *script_in(const char *text, size_t *size) {
  for (bool is_launched = false; *text; text += *size) {
    if (*text == '#') text += strcspn(text, "\n");
    size_t blanks = strspn(text, " \t\n;&|\\");
    bool is_same = blanks == strspn(text, " \t") || memchr(text, '\\', blanks);
    text += blanks;
    *size = strcspn(text, " \t\n;&|#");
    is_launched = (is_launched && is_same) || is_launcher(text, *size);
    if (is_script(text, *size)) return text;
    if (is_launched && is_word(text, *size, "-m") && is_module(text + *size)) return text;
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

const char *plan_command_file(const plim_project *p) {
  size_t size;
  for (size_t i = 0; i < p->files.len; i++)
    if (p->files.at[i]->settings.format == PLIM_FORMAT_SHELL &&
        script_in(p->files.at[i]->text, &size))
      return p->files.at[i]->path;
  return NULL;
}

// Ecosystems that train what a file of theirs says, by a module that any launcher takes.
static const struct {
  plim_dialect dialect;
  const char *module;
} trainers[] = {
    {PLIM_DIALECT_AXOLOTL, "axolotl.cli.train"},
    {PLIM_DIALECT_LLAMA_FACTORY, "llamafactory.launcher"},
};

static bool find_trainer(const plim_project *p, char *text, size_t room) {
  for (size_t i = 0; i < sizeof trainers / sizeof *trainers; i++) {
    const char *file = plan_file_of(p, trainers[i].dialect);
    if (p->dialect != trainers[i].dialect || !file) continue;
    snprintf(text, room, "-m %s %s", trainers[i].module, file);
    return true;
  }
  return false;
}

// Nobody can say its arguments but the user.
static bool takes_arguments(const plim_project_file *f) {
  static const char *const words[] = {
      "argparse",     "ArgumentParser", "sys.argv",  "hydra", "click",
      "LightningCLI", "fire.Fire",      "TrlParser", "typer", "absl"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (memmem(f->text, f->size, words[i], strlen(words[i]))) return true;
  return false;
}

void plan_script(const plim_project *p, const plan_edits *edits, char *text, size_t room) {
  plim_edit_set written = {0};
  snprintf(text, room, "train.py ...");
  if (!p) return;
  if (edits->write_count) plim_project_set(p, edits->writes, edits->write_count, &written, NULL);
  bool is_found = find_in_command(p, &written, text, room);
  plim_edit_set_clear(&written);
  if (is_found || find_trainer(p, text, room)) return;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    bool trains = f->settings.format == PLIM_FORMAT_PYTHON && f->is.dialect != PLIM_DIALECTS;
    if (!trains) continue;
    snprintf(text, room, "%s%s", f->path, takes_arguments(f) ? " ..." : "");
    return;
  }
}

static bool has_command(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++)
    if (is_command(p->files.at[i])) return true;
  return false;
}

bool plan_is_started(const plim_project *p, int world) {
  const plim_project_knob *k = &p->knobs[PLIM_KNOB_WORLD];
  bool is_same = k->said == PLIM_SAID && k->place_count && k->value.integer == world;
  if (!is_same) return false;
  const plim_project_file *f = p->files.at[k->places[0].file];
  return is_command(f) || (f->is.dialect == PLIM_DIALECT_ACCELERATE && has_command(p));
}
