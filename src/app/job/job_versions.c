// Versions of libraries: which a prediction uses, and where they come from.
#include <stdio.h>
#include <string.h>

#include "family.h"
#include "job_options.h"
#include "units.h"

// A library that the job uses, in the order in which they are named.
static bool is_used(const job_request *r, plim_library library) {
  switch (library) {
  case PLIM_LIBRARY_PEFT: return r->job.lora.rank != 0;
  case PLIM_LIBRARY_TRL: {
    bool is_newest =
        r->job.recipe.method != PLIM_METHOD_TEXTS && r->job.recipe.loss != PLIM_LOSS_FULL;
    return r->job.versions.trl != 0 || is_newest;
  }
  case PLIM_LIBRARY_ACCELERATE: return r->job.versions.accelerate != 0;
  default: return true;
  }
}

static bool is_named(const char *list, plim_library library) {
  plim_versions typed = {0};
  return list && !plim_versions_parse(list, &typed, NULL) && plim_versions_get(&typed, library);
}

static void fit_to_factory(const job_args *args, job_request *r) {
  const plim_family *family = r->job.model.family;
  if (args->leaves_attention && family->factory_is_eager) {
    r->job.recipe.attention = PLIM_ATTENTION_EAGER;
    plim_note_add(
        &r->notes, "assumed.attention", "attention",
        "LLaMA-Factory runs %s with flash-attn if it is installed, otherwise with eager "
        "attention; predicted with eager: with flash-attn, the run needs less memory and time",
        family->model_type);
  }
  if (args->is_factory && family->factory_has_kernel)
    plim_note_add(
        &r->notes, "unmodelled.attention", "attention",
        "LLaMA-Factory runs %s with a FlashAttention-3 kernel, which is not modelled; the "
        "run needs less memory and time than predicted",
        family->model_type);
}

plim_err job_fit_attention(const job_args *args, job_request *r, plim_error *error) {
  const plim_family *family = r->job.model.family;
  uint16_t release = plim_versions_used(&r->job.versions, PLIM_LIBRARY_TRANSFORMERS);
  fit_to_factory(args, r);
  if (release >= family->sdpa_from || r->job.recipe.attention != PLIM_ATTENTION_SDPA)
    return PLIM_OK;
  if (job_is_typed(args, &args->attention)) {
    plim_err err =
        plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s has no sdpa attention in transformers %s",
                  family->model_type, plim_release_words(release).text);
    plim_error_hint(error, "--attention eager, or --versions transformers=%s",
                    plim_release_words(family->sdpa_from).text);
    return err;
  }
  r->job.recipe.attention = PLIM_ATTENTION_EAGER;
  plim_note_add(&r->notes, "assumed.attention", "attention",
                "%s has only eager attention in transformers %s", family->model_type,
                plim_release_words(release).text);
  return PLIM_OK;
}

bool job_release_is_typed(const job_args *args, plim_library library) {
  return is_named(args->versions, library);
}

uint16_t job_release(const job_args *args, plim_library library) {
  plim_versions typed = {0};
  if (args->versions && !plim_versions_parse(args->versions, &typed, NULL) &&
      plim_versions_get(&typed, library))
    return plim_versions_get(&typed, library);
  return args->pins.of[library].release;
}

plim_err job_check_release(const job_request *r, plim_error *error) {
  const plim_family *family = r->job.model.family;
  uint16_t release = plim_versions_used(&r->job.versions, PLIM_LIBRARY_TRANSFORMERS);
  if (release >= family->first_release) return PLIM_OK;
  plim_err err =
      plim_fail(error, PLIM_ERR_UNSUPPORTED, "transformers %s does not have %s models yet",
                plim_release_words(release).text, family->model_type);
  plim_error_hint(error, "they were added in %s: --versions transformers=%s, or a newer one",
                  plim_release_words(family->first_release).text,
                  plim_release_words(family->first_release).text);
  return err;
}

const char *job_version_origin(const job_args *args, plim_library library, char *text,
                               size_t size) {
  const plim_pin *pin = &args->pins.of[library];
  if (is_named(args->versions, library)) return "--versions";
  if (!pin->release) return NULL;
  if (pin->line) snprintf(text, size, "%s:%d", pin->file, pin->line);
  else snprintf(text, size, "installed in %s", pin->file);
  return text;
}

// Without any version that is known, the sentence is the short one, with what is said about others.
// torchtune has models and adapters of its own. The names of the releases that were read.
static void describe_torchtune(const job_request *r, char *text, size_t size) {
  snprintf(text, size, "torch %s, torchtune 0.7%s (other versions may differ)",
           plim_release_words(plim_versions_used(&r->job.versions, PLIM_LIBRARY_TORCH)).text,
           r->job.weights != PLIM_WEIGHTS_PLAIN || r->job.qat.kind ? " with torchao 0.18" : "");
}

static void describe_versions(const job_args *args, const job_request *r, const char *others,
                              char *text, size_t size) {
  static const plim_library order[] = {PLIM_LIBRARY_TORCH, PLIM_LIBRARY_TRANSFORMERS,
                                       PLIM_LIBRARY_PEFT, PLIM_LIBRARY_TRL,
                                       PLIM_LIBRARY_ACCELERATE};
  size_t used = 0;
  bool is_any_known = false;
  char unused[300];
  for (int i = 0; i < PLIM_LIBRARIES; i++)
    is_any_known |= job_version_origin(args, (plim_library)i, unused, sizeof unused) != NULL;
  if (args->is_torchtune && !is_any_known) {
    describe_torchtune(r, text, size);
    return;
  }
  for (size_t i = 0; i < sizeof order / sizeof *order && used < size; i++) {
    char place[300];
    if (!is_used(r, order[i])) continue;
    const char *origin = job_version_origin(args, order[i], place, sizeof place);
    used += (size_t)snprintf(
        text + used, size - used, "%s%s %s", used ? ", " : "", plim_library_names[order[i]],
        plim_release_words(plim_versions_used(&r->job.versions, order[i])).text);
    if (is_any_known && used < size)
      used += (size_t)snprintf(text + used, size - used, " (%s)", origin ? origin : "not pinned");
  }
  if (r->job.sharding.strategy >= PLIM_SHARD_ZERO1 && !args->is_megatron && used < size)
    used += (size_t)snprintf(text + used, size - used, ", DeepSpeed 0.19");
  if (!is_any_known && used < size) snprintf(text + used, size - used, " (%s)", others);
}

void job_describe_versions(const job_args *args, const job_request *r, char *text, size_t size) {
  describe_versions(args, r, "other versions may differ", text, size);
}

static uint64_t version_most(const plim_version_need *all, size_t count, size_t *at) {
  uint64_t most = 0;
  for (size_t i = 0; i < count; i++)
    if (all[i].device_bytes > most) most = all[ *at = i].device_bytes;
  return most;
}

static void note_most(job_request *r, const plim_version_need *most) {
  plim_release_name transformers = plim_release_words(most->versions.transformers),
                    torch = plim_release_words(most->versions.torch);
  plim_note_add(&r->notes, "versions.others", NULL,
                "transformers %s with torch %s needs %s; if you use them: --versions "
                "transformers=%s,torch=%s",
                transformers.text, torch.text, units_bytes(most->device_bytes).text,
                transformers.text, torch.text);
}

enum { TELLING = 100 }; // 1 / TELLING more memory than predicted is worth a note

void job_note_other_versions(const job_args *args, job_request *r, const plim_estimate *e,
                             const plim_version_need *all, size_t count) {
  char text[400], others[160];
  size_t at = 0;
  if (!count || args->is_torchtune) return;
  snprintf(others, sizeof others,
           "not pinned: the newest that were measured; the range holds transformers %s to %s",
           plim_release_words(all[0].versions.transformers).text,
           plim_release_words(all[count - 1].versions.transformers).text);
  describe_versions(args, r, others, text, sizeof text);
  plim_note_reword(&r->notes, "assumes.versions", "%s", text);
  uint64_t most = version_most(all, count, &at);
  if (most > e->device_bytes + e->device_bytes / TELLING) note_most(r, &all[at]);
}

// A requirement that allows no known release: the nearest is used.
static void note_unknown(const plim_pin *pin, plim_library library, job_request *r) {
  plim_note_add(&r->notes, "unmodelled.version", NULL,
                "the project asks for %s %s, which is not modelled; predicted as %s, so the "
                "estimate may be too low or too high",
                plim_library_names[library], pin->asked, plim_release_words(pin->release).text);
  if (pin->line) plim_note_at(&r->notes, pin->file, pin->line);
}

// A range that leaves a choice: the newest is used.
static void note_range(const plim_pin *pin, plim_library library, job_request *r) {
  plim_note_add(&r->notes, "assumed.version", NULL,
                "the project asks for %s %s, which %s %s to %s; predicted as the newest "
                "(--versions %s=%s to change)",
                plim_library_names[library], pin->asked,
                pin->is_narrowed ? "with its settings leaves" : "allows",
                plim_release_words(pin->oldest).text, plim_release_words(pin->release).text,
                plim_library_names[library], plim_release_words(pin->oldest).text);
  if (pin->line) plim_note_at(&r->notes, pin->file, pin->line);
}

// Libraries of which one release is predicted differently from another: for TRL, only where it trains.
static bool decides(const job_args *args, plim_library library) {
  bool is_trl = library == PLIM_LIBRARY_TRL && (args->is_of_trl || args->method);
  return library == PLIM_LIBRARY_TRANSFORMERS || library == PLIM_LIBRARY_TORCH || is_trl;
}

plim_err job_understand_versions(const job_args *args, job_request *r, plim_error *error) {
  if (args->holds_logits)
    r->job.versions.trl = PLIM_RELEASE(1, 9); // unless a pin or --versions says more
  for (int i = 0; i < PLIM_LIBRARIES; i++) {
    const plim_pin *pin = &args->pins.of[i];
    if (!pin->release || is_named(args->versions, (plim_library)i)) continue;
    plim_versions_set(&r->job.versions, (plim_library)i, pin->release);
    if (!pin->is_known) note_unknown(pin, (plim_library)i, r);
    else if (pin->oldest < pin->release && decides(args, (plim_library)i))
      note_range(pin, (plim_library)i, r);
  }
  return args->versions ? plim_versions_parse(args->versions, &r->job.versions, error) : PLIM_OK;
}
