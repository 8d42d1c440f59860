// The flags that a script knows: a command that starts one with a parser of its own takes no others.
#include <stdlib.h>
#include <string.h>

#include "project_impl.h"

// Those that take whatever an ecosystem's arguments are called.
static const char *const open_parsers[] = {
    "HfArgumentParser", "H4ArgumentParser", "TrlParser",       "make_parser(",
    "LightningCLI",     "from megatron",    "import megatron", "from llamafactory",
    "from axolotl",     "from swift",       "from llmtuner",   "from transformers.commands",
};
static const char *const own_parsers[] = {
    "argparse.ArgumentParser(",
    " ArgumentParser(",
    "=ArgumentParser(",
    ".add_argument(",
    "click.option(",
    "typer.Option(",
    "typer.run(",
    "fire.Fire(",
};

static bool has_one(const char *text, const char *const *signs, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (strstr(text, signs[i])) return true;
  return false;
}

#define HAS(f, signs) has_one((f)->text, signs, sizeof signs / sizeof *signs)

static bool is_script(const plim_project_file *f) {
  return f->settings.format == PLIM_FORMAT_PYTHON;
}

static bool has_own_parser(const plim_project *p) {
  bool has = false;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    if (is_script(f) && HAS(f, open_parsers)) return false;
    has = has || (is_script(f) && HAS(f, own_parsers));
  }
  return has;
}

// Texts in quotes that begin with dashes: "--batch-size" is written as "batch_size ".
static void write_flags(const char *text, FILE *out) {
  char name[PLIM_KEY_BYTES], flag[PLIM_KEY_BYTES];
  while ((text = strstr(text, "--"))) {
    size_t size = strcspn(text, "\"'\n ");
    char quote = text[-1];
    bool is_quoted = (quote == '"' || quote == '\'') && text[size] == quote;
    if (is_quoted && size < sizeof flag) {
      snprintf(flag, sizeof flag, "%.*s", (int)size, text);
      plim_key_name(flag, name);
      fprintf(out, "%s ", name);
    }
    text += size;
  }
}

static char *flags_of(const plim_project *p) {
  char *flags = NULL;
  size_t size;
  FILE *out = open_memstream(&flags, &size);
  if (!out) return NULL;
  fputc(' ', out);
  for (size_t i = 0; i < p->files.len; i++)
    if (is_script(p->files.at[i]) && p->files.at[i]->size)
      write_flags(p->files.at[i]->text + 1, out);
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
