// Finds the script with its arguments, as in the user's launch command.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command_words.h"
#include "literals.h"
#include "plan_edits.h"
#include "quoting.h"

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
  plim_chars text;         // ends in no 0
  size_t head;             // of the script, or of -m MODULE
  bool is_out;             // memory has run out
} finding;

static void put(finding *f, const char *word, size_t size) {
  bool is_first = !f->text.len;
  if ((!is_first && !vec_push(&f->text, ' ')) || !plim_chars_add(&f->text, word, size))
    f->is_out = true;
}

static bool is_plain(const char *word, size_t size) {
  static const char special[] = " \t\n$`'\"()\\;&|<>#";
  for (size_t i = 0; i < size; i++)
    if (strchr(special, word[i])) return false;
  return size > 0;
}

static void begin(finding *f, const char *word, size_t size) {
  if (f->is_before_module) put(f, "-m", 2);
  put(f, word, size);
  f->head = f->text.len;
  f->is_found = f->is_whole = true;
}

// A variable or quoted text, which only the shell knows, becomes "...".
static void add(finding *f, const char *word, size_t size) {
  f->is_whole = f->is_whole && is_plain(word, size);
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

// *out is the script with its arguments, to be freed; NULL if there is none. What cannot be read has none.
static plim_err find_in_text(plim_format format, const char *file, size_t size, char **out) {
  finding f = {0};
  plim_err err = plim_command_words(format, file, size, look_at, &f);
  if (f.is_found && !f.is_whole) {
    f.text.len = f.head;
    put(&f, "...", 3);
  }
  if (!vec_push(&f.text, 0) || f.is_out) err = PLIM_ERR_NOMEM;
  *out = !err && f.is_found ? f.text.at : NULL;
  if (!*out) vec_free(&f.text);
  return err == PLIM_ERR_NOMEM ? err : PLIM_OK;
}

static plim_err find_in_command(const plim_project *p, const plim_edit_set *edits, char **out) {
  plim_err err = PLIM_OK;
  *out = NULL;
  for (size_t i = 0; i < p->files.len && !*out && err != PLIM_ERR_NOMEM; i++) {
    char *file = NULL;
    size_t size;
    if (!is_command(p->files.at[i])) continue;
    err = plim_project_text(p, i, edits, &file, &size, NULL);
    if (!err) err = find_in_text(p->files.at[i]->settings.format, file, size, out);
    free(file);
  }
  return err == PLIM_ERR_NOMEM ? err : PLIM_OK;
}

plim_err plan_command_file(const plim_project *p, const char **path, plim_error *error) {
  *path = NULL;
  for (size_t i = 0; i < p->files.len && !*path; i++) {
    const plim_project_file *f = p->files.at[i];
    char *text;
    if (find_in_text(f->settings.format, f->text, f->size, &text)) return plim_no_memory(error);
    if (text) *path = f->path;
    free(text);
  }
  return PLIM_OK;
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

// False: none of them trains.
static bool write_trainer(const plim_project *p, FILE *out) {
  for (size_t i = 0; i < sizeof trainers / sizeof *trainers; i++) {
    const char *file = plan_file_of(p, trainers[i].dialect);
    if (p->dialect != trainers[i].dialect || !file) continue;
    fprintf(out, "-m %s ", trainers[i].module);
    plim_shell_quote(out, file);
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
    if (plim_python_imports(&f->code, modules[i])) return true;
  for (size_t i = 0; i < sizeof code / sizeof *code; i++)
    if (plim_python_has(&f->code, code[i])) return true;
  return false;
}

static void write_script(const plim_project *p, FILE *out) {
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    bool trains = f->settings.format == PLIM_FORMAT_PYTHON && f->is.dialect != PLIM_DIALECTS;
    if (!trains) continue;
    plim_shell_quote(out, f->path);
    if (takes_arguments(f)) fputs(" ...", out);
    return;
  }
  fputs("train.py ...", out);
}

// In a command of the user's, with the values that are written there.
static plim_err own_script(const plim_project *p, const plan_edits *edits, char **out) {
  plim_edit_set written = {0};
  plim_err err = PLIM_OK;
  if (edits->write_count)
    err = plim_project_set(p, edits->writes, edits->write_count, &written, NULL);
  if (err != PLIM_ERR_NOMEM) err = find_in_command(p, &written, out);
  plim_edit_set_clear(&written);
  return err;
}

plim_err plan_script(const plim_project *p, const plan_edits *edits, char **text,
                     plim_error *error) {
  size_t size;
  *text = NULL;
  if (p && own_script(p, edits, text)) return plim_no_memory(error);
  if (*text) return PLIM_OK;
  FILE *out = open_memstream(text, &size);
  if (!out) return plim_no_memory(error);
  if (!p) fputs("train.py ...", out);
  else if (!write_trainer(p, out)) write_script(p, out);
  return plim_stream_end(out, text) ? PLIM_OK : plim_no_memory(error);
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
