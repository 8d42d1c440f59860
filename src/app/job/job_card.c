// Finds the card for a job: by name, by size, or the one in this machine.
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "job_options.h"
#include "nvml.h"
#include "suggest.h"
#include "units.h"

#define MAX_CARD (1ull << 50) // a pebibyte

static plim_err size_too_odd(uint64_t bytes, plim_error *error) {
  plim_err err =
      plim_fail(error, PLIM_ERR_ARGUMENT, "no GPU has %s of memory", units_bytes(bytes).text);
  plim_error_hint(error, "--gpu 24GiB, or a name: --gpu \"RTX 4090\"");
  return err;
}

static plim_err limit_too_odd(uint64_t bytes, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "--limit: %s is not between 2 MiB and 1 PiB%s",
                           units_bytes(bytes).text, bytes < 1024 ? "; give a unit" : "");
  plim_error_hint(error, "--limit %lluGiB", bytes && bytes < 1024 ? (unsigned long long)bytes : 20);
  return err;
}

// "3080" is a part of several names; "24" lacks its unit.
static plim_err refuse_number(const char *text, plim_error *error) {
  const plim_gpu *gpu;
  char name[64];
  snprintf(name, sizeof name, "RTX %.20s", text);
  if (!plim_gpu_find(name, &gpu, error)) return plim_gpu_find(text, &gpu, error);
  if (strstr(error->message, "could be")) return PLIM_ERR_ARGUMENT;
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           "--gpu %.20s is neither a GPU nor a size with a unit", text);
  plim_error_hint(error, "--gpu %.10sGiB, or a name: --gpu \"RTX 4090\"",
                  strlen(text) < 4 ? text : "24");
  return err;
}

__attribute__((format(printf, 2, 3))) static void note_card(job_request *r, const char *format,
                                                            ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(r->card_note, sizeof r->card_note, format, args);
  va_end(args);
  plim_note_add(&r->notes, "assumed.card", NULL, "%s", r->card_note);
}

// "24GB" often means a card sold as 24 GB, which has 24 GiB.
static void note_size(const char *text, uint64_t bytes, job_request *r) {
  char unit = text[strlen(text) - 1];
  bool is_decimal = (unit == 'B' || unit == 'b') && !strpbrk(text, "iI");
  for (size_t i = 0; is_decimal && i < plim_gpu_count; i++) {
    unsigned sold = plim_gpu_size_gb(&plim_gpus[i]);
    if (bytes != sold * 1000000000ull) continue;
    note_card(r, "%.16s means %s; a GPU sold as %u GB has %u GiB: --gpu %uGiB, or give its name",
              text, units_bytes(bytes).text, sold, sold, sold);
    return;
  }
}

static void note_others(const char *text, const plim_gpu *gpu, job_request *r) {
  const plim_gpu *others[PLIM_MAX_GPUS];
  const char *names[PLIM_MAX_GPUS];
  size_t count = plim_gpu_others(text, gpu, others);
  char list[128];
  for (size_t i = 0; i < count; i++) names[i] = others[i]->name;
  if (!count) return;
  plim_suggest_list(names, count, 4, list, sizeof list);
  note_card(r, "%.40s is read as %s; it could also be %s", text, gpu->name, list);
}

static plim_err refuse_list(const char *text, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           "--gpu %.64s names several GPUs, but only one can be given here", text);
  plim_error_hint(error, "--gpu \"%.*s\"; plimsoll plan compares several GPUs",
                  (int)strcspn(text, ","), text);
  return err;
}

static plim_err understand_card(const char *text, job_request *r, plim_error *error) {
  uint64_t bytes;
  const plim_gpu *gpu = plim_gpu_named(text);
  if (gpu) {
    r->target = plim_target_gpu(gpu);
    snprintf(r->card, sizeof r->card, "%s", gpu->name);
    note_others(text, gpu, r);
    return PLIM_OK;
  }
  bool is_size = isdigit((unsigned char)*text) && !units_parse_bytes(text, &bytes, NULL);
  if (strchr(text, ',')) return refuse_list(text, error);
  if (!is_size) return plim_gpu_find(text, &gpu, error);
  if (!text[strspn(text, "0123456789")] && bytes < 2 * PLIM_GIB) return refuse_number(text, error);
  if (bytes < 2 * PLIM_GIB || bytes > MAX_CARD) return size_too_odd(bytes, error);
  r->target = plim_target_size(bytes);
  r->is_known_by_size = true;
  note_size(text, bytes, r);
  snprintf(r->card, sizeof r->card, "%s", units_bytes(bytes).text);
  return PLIM_OK;
}

// The first card of this machine, if there is one.
static void look_for_card(job_request *r) {
  plim_card cards[PLIM_MAX_CARDS];
  if (!plim_nvml_cards(cards, NULL) || cards[0].total_bytes == PLIM_UNKNOWN) return;
  const plim_gpu *gpu = plim_gpu_present(cards[0].name, cards[0].total_bytes / PLIM_MIB);
  r->target = gpu ? plim_target_gpu(gpu) : plim_target_size(cards[0].total_bytes);
  snprintf(r->card, sizeof r->card, "%s", cards[0].name);
  plim_note_add(&r->notes, "environment.card", NULL,
                "no GPU is given: using the one in this machine");
}

static plim_err understand_conf(const job_args *args, job_request *r, const char **source,
                                plim_error *error) {
  r->job.sdpa = r->target.gpu ? plim_sdpa_preferred(r->target.gpu) : PLIM_SDPA_CUDNN;
  *source = args->alloc_conf;
  plim_err err = plim_alloc_conf_parse(args->alloc_conf ? args->alloc_conf : "", &r->conf, error);
  r->target.conf = &r->conf;
  return err;
}

plim_err job_understand_target(const job_args *args, job_request *r, const char **source,
                               plim_error *error) {
  r->target = plim_target_any();
  plim_err err = PLIM_OK;
  if (args->gpu) err = understand_card(args->gpu, r, error);
  else if (args->limit_bytes == PLIM_UNKNOWN && !args->is_elsewhere) look_for_card(r);
  if (err) return err;
  if (args->limit_bytes != PLIM_UNKNOWN) {
    if (args->limit_bytes < 2 * PLIM_MIB || args->limit_bytes > MAX_CARD)
      return limit_too_odd(args->limit_bytes, error);
    bool is_smaller = args->limit_bytes < r->target.limit_bytes;
    if (!is_smaller) {
      plim_note_add(&r->notes, "no_effect", NULL,
                    "--limit %s has no effect: only %s are available to PyTorch",
                    units_bytes(args->limit_bytes).text, units_bytes(r->target.limit_bytes).text);
      return understand_conf(args, r, source, error);
    }
    r->target.limit_bytes = args->limit_bytes;
    r->target.limit_is_card = false;
    r->target.budget_bytes = args->limit_bytes + PLIM_CONTEXT_MIB * PLIM_MIB;
    size_t used = strlen(r->card);
    if (used)
      snprintf(r->card + used, sizeof r->card - used, ", limited to %s",
               units_bytes(args->limit_bytes).text);
  }
  return understand_conf(args, r, source, error);
}

// A card known only by its size is not assumed to be an SXM card.
plim_err job_understand_link(const job_args *args, job_request *r, plim_error *error) {
  if (args->link == PLIM_LINK_OF_CARD && r->is_known_by_size) r->job.sharding.link = PLIM_LINK_PCIE;
  if (args->link != PLIM_LINK_NVLINK || !r->target.gpu || plim_gpu_nvlink_gbs(r->target.gpu) > 0)
    return PLIM_OK;
  plim_err err =
      plim_fail(error, PLIM_ERR_ARGUMENT, "%s has NVLink to at most one other GPU", r->card);
  plim_error_hint(error, "--link pcie");
  return err;
}
