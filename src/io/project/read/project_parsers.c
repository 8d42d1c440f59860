// Finds the flags that a script accepts: if it has its own parser, its command line cannot have others.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "project_impl.h"
#include "python_code.h"

// Parsers that accept all arguments of an ecosystem.
static const char *const open_parsers[] = {"HfArgumentParser", "H4ArgumentParser", "TrlParser",
                                           "make_parser(", "LightningCLI"};
static const char *const open_modules[] = {"megatron", "llamafactory", "axolotl",
                                           "swift",    "llmtuner",     "transformers.commands"};
static const char *const own_parsers[] = {"ArgumentParser(", ".add_argument(", "click.option(",
                                          "typer.Option(",   "typer.run(",     "fire.Fire("};

typedef bool finder(const plim_python_code *code, const char *sign);

static bool has_one(const plim_project_file *f, finder *has, const char *const *signs,
                    size_t count) {
  for (size_t i = 0; i < count; i++)
    if (has(&f->code, signs[i])) return true;
  return false;
}

#define HAS(f, how, signs) has_one(f, how, signs, sizeof signs / sizeof *signs)

static bool is_script(const plim_project_file *f) {
  return f->settings.format == PLIM_FORMAT_PYTHON;
}

static bool has_own_parser(const plim_project *p) {
  bool has = false;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    if (!is_script(f)) continue;
    if (HAS(f, plim_python_has, open_parsers)) return false;
    if (HAS(f, plim_python_imports, open_modules)) return false;
    has = has || HAS(f, plim_python_has, own_parsers);
  }
  return has;
}

// Strings that begin with dashes: "--batch-size" is written as "batch_size ".
static void write_flag(void *context, const char *text, size_t size) {
  char name[PLIM_KEY_BYTES], flag[PLIM_KEY_BYTES];
  if (size < 3 || size >= sizeof flag || memcmp(text, "--", 2) != 0) return;
  if (memchr(text, ' ', size)) return;
  snprintf(flag, sizeof flag, "%.*s", (int)size, text);
  plim_key_name(flag, name);
  fprintf(context, "%s ", name);
}

// The same as written: "--batch-size " as it is.
static void write_spelling(void *context, const char *text, size_t size) {
  bool is_flag = size >= 3 && memcmp(text, "--", 2) == 0 && !memchr(text, ' ', size);
  if (is_flag) fprintf(context, "%.*s ", (int)size, text);
}

static char *flags_of(const plim_project *p, bool as_written) {
  char *flags = NULL;
  size_t size;
  FILE *out = open_memstream(&flags, &size);
  if (!out) return NULL;
  fputc(' ', out);
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    if (is_script(f))
      plim_python_strings(&f->code, (plim_span){0, f->size},
                          as_written ? write_spelling : write_flag, out);
  }
  return plim_stream_end(out, &flags) ? flags : NULL;
}

bool plim_project_has_parameters(const plim_project_file *f) {
  static const char *const parsers[] = {"click.option(", "click.command(", "typer.Option(",
                                        "typer.run(",    "typer.Typer(",   "fire.Fire("};
  return is_script(f) && HAS(f, plim_python_has, parsers);
}

const char *plim_project_script_with_flags(const plim_project *p) {
  const char *script = NULL;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    if (plim_is_command(f)) return NULL;
    bool has = is_script(f) &&
               (HAS(f, plim_python_has, open_parsers) || HAS(f, plim_python_has, own_parsers));
    if (has && !script) script = f->path;
  }
  return script;
}

// ---- the command to give ----------------------------------------------------------------------------

// The first flag of the script's own parser that has one of these words in its name; false: none.
static bool find_flag(const char *flags, const char *const *words, char *out, size_t size) {
  for (; *words; words++)
    for (const char *at = flags; (at = strcasestr(at, *words)); at++) {
      const char *begin = at;
      while (begin > flags && begin[-1] != ' ') begin--;
      snprintf(out, size, "%.*s", (int)strcspn(begin, " "), begin);
      bool is_other = strstr(out, "eval") || strstr(out, "dir") || strstr(out, "save");
      if (!is_other) return true;
    }
  *out = 0;
  return false;
}

static void name_flag(const plim_project *p, plim_knob knob, char *out, size_t size) {
  static const char *const models[] = {"--model", "model", "checkpoint", NULL};
  static const char *const batches[] = {"train-batch", "train_batch", "batch", "--bs ", NULL};
  bool is_model = knob == PLIM_KNOB_MODEL, is_own = has_own_parser(p);
  char *flags = is_own ? flags_of(p, true) : NULL;
  if (flags) find_flag(flags, is_model ? models : batches, out, size);
  else
    snprintf(out, size, "%s",
             is_own     ? ""
             : is_model ? "--model_name_or_path"
                        : "--per_device_train_batch_size");
  free(flags);
}

bool plim_project_ask_command(const plim_project *p, plim_knob knob, char *out, size_t size) {
  const char *script = plim_project_script_with_flags(p);
  char flag[64];
  if (!script) return false;
  name_flag(p, knob, flag, sizeof flag);
  snprintf(out, size, "--command \"python %.80s %s%s...\"", script, flag,
           !*flag                    ? ""
           : knob == PLIM_KNOB_MODEL ? " MODEL "
                                     : " 8 ");
  return true;
}

plim_err plim_project_find_flags(plim_project *p, plim_error *error) {
  bool is_own = has_own_parser(p);
  for (size_t i = 0; i < p->files.len; i++) {
    plim_project_file *f = p->files.at[i];
    if (!is_own || !plim_is_command(f) || f->flags) continue;
    f->flags = flags_of(p, false);
    if (!f->flags) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  }
  return PLIM_OK;
}

bool plim_project_knows_flag(const plim_project_file *f, const char *key) {
  char name[PLIM_KEY_BYTES], word[PLIM_KEY_BYTES + 2];
  if (!f->flags || strncmp(key, "--", 2) != 0) return true;
  plim_key_name(key, name);
  snprintf(word, sizeof word, " %s ", name);
  return strstr(f->flags, word);
}
