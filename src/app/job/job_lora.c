// Adapters: their rank, and the layers that get them.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "family.h"
#include "job_options.h"
#include "suggest.h"

static plim_err unknown_target(const char *name, plim_error *error) {
  const char *close = plim_suggest(name, plim_projection_names, PLIM_PROJECTIONS);
  plim_err err =
      plim_fail(error, PLIM_ERR_ARGUMENT, "no layer for adapters is called \"%.64s\"", name);
  if (close) plim_error_hint(error, "did you mean %s?", close);
  else plim_error_hint(error, "--lora-targets q_proj,v_proj, or all-linear");
  return err;
}

static plim_err understand_targets(const char *list, uint64_t *bits, plim_error *error) {
  if (strcmp(list, "all-linear") == 0) {
    *bits = (1ull << PLIM_PROJECTIONS) - 1;
    return PLIM_OK;
  }
  while (*list) {
    char name[64];
    list += strspn(list, " ");
    size_t length = strcspn(list, ","), end = length;
    while (end && list[end - 1] == ' ') end--;
    snprintf(name, sizeof name, "%.*s", (int)(end < 63 ? end : 63), list);
    int k = 0;
    while (k < PLIM_PROJECTIONS && strcmp(name, plim_projection_names[k]) != 0) k++;
    if (k == PLIM_PROJECTIONS) return unknown_target(name, error);
    *bits |= 1ull << k;
    list += length + (list[length] == ',');
  }
  return PLIM_OK;
}

// The layers that peft chooses without target_modules; it refuses other architectures.
const char *job_lora_targets(const job_args *args, const job_request *r) {
  const char *own = r->job.model.family->lora_targets;
  if (!args->lora_targets) return "all-linear";
  if (strcmp(args->lora_targets, JOB_PEFT_TARGETS) != 0) return args->lora_targets;
  return own ? own : "all-linear";
}

__attribute__((format(printf, 3, 4))) static plim_err
refuse_number(plim_error *error, const char *example, const char *format, ...) {
  char message[96];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "%s", message);
  plim_error_hint(error, "%s", example);
  return err;
}

plim_err job_understand_lora(const job_args *args, job_request *r, plim_error *error) {
  if (!args->lora_rank) return PLIM_OK;
  if (args->lora_rank > 65536)
    return refuse_number(error, "--lora-rank 16", "--lora-rank %g is larger than any layer",
                         (double)args->lora_rank);
  if (!(args->lora_dropout >= 0 && args->lora_dropout < 1))
    return refuse_number(error, "--lora-dropout 0.05", "--lora-dropout %g is not between 0 and 1",
                         args->lora_dropout);
  uint64_t bits = 0;
  plim_err err = understand_targets(job_lora_targets(args, r), &bits, error);
  r->job.lora = (plim_lora){.rank = (int64_t)args->lora_rank,
                            .dropout = args->lora_dropout,
                            .targets = (uint32_t)bits,
                            .keeps_dtype = args->lora_dtype == 1};
  return err;
}
