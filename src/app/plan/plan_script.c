// Finds the script with its arguments, as in the user's launch command.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command_words.h"
#include "plan_edits.h"
#include "python_code.h"

static bool is_command(const plim_project_file *f) {
  return f->settings.format == PLIM_FORMAT_SHELL || f->settings.format == PLIM_FORMAT_DOCKERFILE;
}

const char *plan_file_of(const plim_project *p, plim_dialect dialect) {
  for (size_t i = 0; p && i < p->files.len; i++)
    if (p->files.at[i]->is.dialect == dialect && !is_command(p->files.at[i]))
      return p->files.at[i]->path;
  return NULL;
}

// ---- in a command -----------------------------------------------------------------------------------

static bool is_word(const char *word, size_t size, const char *of) {
  return strlen(of) == size && memcmp(word, of, size) == 0;
}

static bool is_script(const char *word, size_t size) {
  return size > 3 && memcmp(word + size - 3, ".py", 3) == 0;
}

// Programs that accept `-m MODULE`.
static bool is_launcher(const char *word, size_t size) {
  static const char *const names[] = {"python", "python3", "torchrun", "accelerate", "deepspeed"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (is_word(word, size, names[i])) return true;
  return false;
}

// A module of the user; torch.distributed.run and similar modules start what follows them.
static bool is_module(const char *word, size_t size) {
  return size > 1 && *word != '-' && !(size > 6 && memcmp(word, "torch.", 6) == 0);
}

// The first command that starts a script, from the script on.
typedef struct {
  size_t command; // the command of the last word
  bool is_launched, is_before_module;
  bool is_found, is_whole; // is_whole: nothing was left out
  char *text;
  size_t room, used, head; // head: of the script, or of -m MODULE
} finding;

static bool can_put(const finding *f, size_t size) { return f->used + size + 6 < f->room; }

static void put(finding *f, const char *word, size_t size) {
  f->used += (size_t)snprintf(f->text + f->used, f->room - f->used, "%s%.*s", f->used ? " " : "",
                              (int)size, word);
}

static bool is_plain(const char *word, size_t size) {
  static const char special[] = " \t\n$`'\"()\\;&|<>#";
  for (size_t i = 0; i < size; i++)
    if (strchr(special, word[i])) return false;
  return size > 0;
}

static void begin(finding *f, const char *word, size_t size) {
  if (!can_put(f, size + 3)) return;
  if (f->is_before_module) put(f, "-m", 2);
  put(f, word, size);
  f->head = f->used;
  f->is_found = f->is_whole = true;
}

// A variable or quoted text, which only the shell knows, becomes "...".
static void add(finding *f, const char *word, size_t size) {
  f->is_whole = f->is_whole && is_plain(word, size) && can_put(f, size);
  if (f->is_whole) put(f, word, size);
}

static void look_at(void *to, size_t command, const char *word, size_t size) {
  finding *f = to;
  bool is_same = command == f->command;
  if (f->is_found && is_same) add(f, word, size);
  if (f->is_found) return;
  f->is_launched = f->is_launched && is_same;
  f->is_before_module = f->is_before_module && is_same;
  f->command = command;
  if (f->is_before_module ? is_module(word, size) : is_script(word, size)) begin(f, word, size);
  f->is_before_module = f->is_launched && is_word(word, size, "-m");
  f->is_launched |= is_launcher(word, size);
}

static bool find_in_text(plim_format format, const char *file, size_t size, char *text,
                         size_t room) {
  finding f = {.text = text, .room = room};
  *text = 0;
  if (plim_command_words(format, file, size, look_at, &f) || !f.is_found) return false;
  if (!f.is_whole) snprintf(text + f.head, room - f.head, " ...");
  return true;
}

static bool find_in_command(const plim_project *p, const plim_edit_set *edits, char *text,
                            size_t room) {
  bool is_found = false;
  for (size_t i = 0; i < p->files.len && !is_found; i++) {
    char *file = NULL;
    size_t size;
    if (!is_command(p->files.at[i])) continue;
    if (!plim_project_text(p, i, edits, &file, &size, NULL))
      is_found = find_in_text(p->files.at[i]->settings.format, file, size, text, room);
    free(file);
  }
  return is_found;
}

const char *plan_command_file(const plim_project *p) {
  char text[512];
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    if (find_in_text(f->settings.format, f->text, f->size, text, sizeof text)) return f->path;
  }
  return NULL;
}

// ---- in a project -----------------------------------------------------------------------------------

// Ecosystems that train from a configuration file, with a module that any launcher can start.
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

// Whether the script takes arguments, which only the user knows.
static bool takes_arguments(const plim_project_file *f) {
  static const char *const modules[] = {"argparse", "hydra", "click", "typer", "absl"};
  static const char *const code[] = {"*ArgumentParser", "sys.argv", "LightningCLI", "fire.Fire",
                                     "TrlParser"};
  for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
    if (plim_python_imports(f->text, f->size, modules[i])) return true;
  for (size_t i = 0; i < sizeof code / sizeof *code; i++)
    if (plim_python_has(f->text, f->size, code[i])) return true;
  return false;
}

void plan_script(const plim_project *p, const plan_edits *edits, char *text, size_t room) {
  plim_edit_set written = {0};
  if (!p) {
    snprintf(text, room, "train.py ...");
    return;
  }
  if (edits->write_count) plim_project_set(p, edits->writes, edits->write_count, &written, NULL);
  bool is_found = find_in_command(p, &written, text, room);
  plim_edit_set_clear(&written);
  if (is_found || find_trainer(p, text, room)) return;
  snprintf(text, room, "train.py ...");
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
  bool is_same = k->origin == PLIM_EXPLICIT && k->place_count && k->value.integer == world;
  if (!is_same) return false;
  const plim_project_file *f = p->files.at[k->places[0].file];
  return is_command(f) || (f->is.dialect == PLIM_DIALECT_ACCELERATE && has_command(p));
}
