// Rewrites errors about options that were not typed, so that they name the file that set the value.
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "project_job.h"

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
  plim_error_at(error, value ? (uint64_t)(value - f->text) + error->byte : span.begin);
  return plim_error_file(error, err, f->path);
}

plim_err project_job_blame(const project_job *p, const job_args *a, const char **source,
                           plim_err err, plim_error *error) {
  const plim_project_knob *conf = &p->project.knobs[PLIM_KNOB_ALLOC_CONF];
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
