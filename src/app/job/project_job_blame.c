// Rewrites errors about options that were not typed, so that they name the file that set the value, and hints to simulate
// a program, so that they name the program.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "project_job.h"
#include "quoting.h"

static const struct {
  const char *option;
  plim_knob knob;
  size_t at; // of job_args
} sources[] = {
    {"--batch ", PLIM_KNOB_MICRO_BATCH, offsetof(job_args, batch)},
    {"--accumulate ", PLIM_KNOB_ACCUMULATE, offsetof(job_args, accumulate)},
    {"--seq ", PLIM_KNOB_SEQUENCE, offsetof(job_args, seq)},
    {"--world ", PLIM_KNOB_WORLD, offsetof(job_args, world)},
    {"--lora-rank ", PLIM_KNOB_LORA_RANK, offsetof(job_args, lora_rank)},
};

static plim_err blame(const project_job *p, const plim_knob_place *place, const char *rest,
                      plim_err err, plim_error *error) {
  char message[sizeof error->message];
  snprintf(message, sizeof message, "%.96s %.220s", place->setting->key, rest);
  snprintf(error->message, sizeof error->message, "%s", message);
  return plim_error_file(error, err, p->project.files.at[place->file]->path);
}

// The error's byte counts from the start of the allocator's settings, which the file has as they are or spells
// differently.
static plim_err blame_conf(const project_job *p, const plim_knob_place *place, const char *conf,
                           plim_err err, plim_error *error) {
  const plim_project_file *f = p->project.files.at[place->file];
  plim_span span = place->setting->span;
  const char *value = memmem(f->text + span.begin, span.end - span.begin, conf, strlen(conf));
  uint64_t byte = value ? (uint64_t)(value - f->text) + error->byte : span.begin;
  plim_error_at(error, plim_source_byte(f, byte));
  return plim_error_file(error, err, f->path);
}

// ---- the program to simulate ------------------------------------------------------------------------

// Commands that start a training from a file, as they follow "plimsoll simulate".
static const struct {
  plim_dialect dialect; // PLIM_DIALECTS: any
  const char *ending, *command;
  const char *key; // that must be on; NULL: none
} programs[] = {
    // docs/en/advanced/ktransformers.md
    {PLIM_DIALECT_LLAMA_FACTORY, ".yaml",
     "-- accelerate launch --config_file ACCELERATE.yaml src/train.py", "use_kt"},
    {PLIM_DIALECT_AXOLOTL, ".yml", "-- axolotl train"},
    {PLIM_DIALECT_AXOLOTL, ".yaml", "-- axolotl train"},
    {PLIM_DIALECT_LLAMA_FACTORY, ".yaml", "-- llamafactory-cli train"},
    {PLIM_DIALECT_LLAMA_FACTORY_V1, ".yaml", "-- env USE_V1=1 llamafactory-cli train"},
    {PLIM_DIALECT_TORCHTUNE, ".yaml", "-- tune run RECIPE --config"},
    {PLIM_DIALECTS, ".py", "-- python"},
    {PLIM_DIALECTS, ".sh", "-- bash"},
};

static bool is_on(const plim_setting *s) {
  return s && s->value.kind == PLIM_VALUE_BOOL && s->value.flag;
}

static bool ends_with(const char *text, const char *ending) {
  size_t size = strlen(text), n = strlen(ending);
  return size > n && strcmp(text + size - n, ending) == 0;
}

enum { COMMAND_BYTES = 200 };

// A comment in torchtune's file says which recipe reads it.
static const char *with_recipe(const plim_project_file *f, const char *command,
                               char own[COMMAND_BYTES]) {
  bool is_tune = f->is.dialect == PLIM_DIALECT_TORCHTUNE;
  return is_tune && plim_project_simulate_tune(f, own, COMMAND_BYTES) ? own : command;
}

// The command for the first file that has one, or NULL. `own` has room for a command.
static const char *program_of(const plim_project *p, const char **path, char own[COMMAND_BYTES]) {
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    for (size_t k = 0; k < sizeof programs / sizeof *programs; k++) {
      bool is_its = programs[k].dialect == PLIM_DIALECTS || programs[k].dialect == f->is.dialect;
      if (!is_its || !ends_with(f->path, programs[k].ending)) continue;
      if (programs[k].key && !is_on(plim_project_setting(f, programs[k].key))) continue;
      *path = f->path;
      return with_recipe(f, programs[k].command, own);
    }
  }
  return NULL;
}

plim_err project_job_name_program(const project_job *p, plim_err err, plim_error *error) {
  static const char usual[] = "-- python train.py";
  char own[COMMAND_BYTES];
  const char *path = NULL, *command = err && error ? program_of(&p->project, &path, own) : NULL;
  char *at = command ? strstr(error->hint, usual) : NULL, hint[sizeof error->hint];
  char *quoted = NULL;
  size_t size = 0;
  FILE *out = at ? open_memstream(&quoted, &size) : NULL;
  if (!out) return err;
  plim_shell_quote(out, path);
  fclose(out);
  int n = snprintf(hint, sizeof hint, "%.*s%s %s%s", (int)(at - error->hint), error->hint, command,
                   quoted ? quoted : path, at + sizeof usual - 1);
  if (n < (int)sizeof hint) memcpy(error->hint, hint, sizeof hint);
  free(quoted);
  return err;
}

// ---- options ----------------------------------------------------------------------------------------

plim_err project_job_blame(const project_job *p, const job_args *a, const char **source,
                           plim_err err, plim_error *error) {
  const plim_project_knob *conf = &p->project.knobs[PLIM_KNOB_ALLOC_CONF];
  project_job_name_program(p, err, error);
  bool is_conf = err && error && *source && *source == a->alloc_conf;
  if (is_conf && !job_is_typed(a, &a->alloc_conf) && conf->place_count && conf->places[0].setting &&
      error->byte != PLIM_UNKNOWN) {
    err = blame_conf(p, &conf->places[0], *source, err, error);
    *source = NULL; // the file is shown instead
    return err;
  }
  for (size_t i = 0; err && error && i < sizeof sources / sizeof *sources; i++) {
    const plim_project_knob *k = &p->project.knobs[sources[i].knob];
    size_t n = strlen(sources[i].option);
    bool is_typed = job_is_typed(a, (const char *)a + sources[i].at);
    if (is_typed || !k->place_count || !k->places[0].setting) continue;
    if (strncmp(error->message, sources[i].option, n) == 0)
      return blame(p, &k->places[0], error->message + n, err, error);
  }
  return err;
}
