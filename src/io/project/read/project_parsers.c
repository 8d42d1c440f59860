// Finds the flags that a script accepts: if it has its own parser, its command line cannot have others.
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

static char *flags_of(const plim_project *p) {
  char *flags = NULL;
  size_t size;
  FILE *out = open_memstream(&flags, &size);
  if (!out) return NULL;
  fputc(' ', out);
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    if (is_script(f)) plim_python_strings(&f->code, (plim_span){0, f->size}, write_flag, out);
  }
  return plim_stream_end(out, &flags) ? flags : NULL;
}

plim_err plim_project_find_flags(plim_project *p, plim_error *error) {
  bool is_own = has_own_parser(p);
  for (size_t i = 0; i < p->files.len; i++) {
    plim_project_file *f = p->files.at[i];
    if (!is_own || !plim_is_command(f) || f->flags) continue;
    f->flags = flags_of(p);
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
