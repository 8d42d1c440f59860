// What a prediction assumes because of the model's family: packages of kernels, and what is not loaded.
#include <stdio.h>
#include <string.h>

#include "family.h"
#include "job_options.h"

// ---- packages ---------------------------------------------------------------------------------------

static plim_packages packages_of_files(const job_args *args) {
  plim_packages found = args->required;
  for (int i = 0; i < PLIM_PACKAGES; i++)
    if (args->pins.packages[i].is_there) found |= (plim_packages)(1u << i);
  return found;
}

static plim_err asked_packages(const job_args *args, plim_packages *out, plim_error *error) {
  *out = packages_of_files(args);
  return args->packages ? plim_packages_parse(args->packages, out, error) : PLIM_OK;
}

plim_err job_understand_packages(const job_args *args, job_request *r, plim_error *error) {
  plim_err err = asked_packages(args, &r->job.packages, error);
  if (!args->packages) r->job.packages &= r->job.model.family->packages;
  return err;
}

// "--packages", "requirements.txt:3", "installed in venv/lib".
static const char *origin_of(const job_args *args, int package, char *text, size_t size) {
  const plim_package_pin *pin = &args->pins.packages[package];
  if (args->packages) return "--packages";
  if (args->required >> package & 1) return "Axolotl depends on it";
  if (pin->line) snprintf(text, size, "%s:%d", pin->file, pin->line);
  else snprintf(text, size, "installed in %s", pin->file);
  return text;
}

static const char *const full_names[PLIM_PACKAGES] = {
    [PLIM_PACKAGE_FLA] = "flash-linear-attention",
    [PLIM_PACKAGE_CAUSAL_CONV1D] = "causal-conv1d",
};

static void list_packages(const job_args *args, const job_request *r, char *text, size_t size) {
  size_t used = 0;
  for (int i = 0; i < PLIM_PACKAGES && used < size; i++) {
    char place[300];
    if (!full_names[i] || !PLIM_HAS_PACKAGE(r->job.packages, i)) continue;
    used += (size_t)snprintf(text + used, size - used, "%s%s (%s)", used ? ", " : "", full_names[i],
                             origin_of(args, i, place, sizeof place));
  }
}

// Triton keeps on the disk what it has found out (autotune_cache_kwargs in fla/utils.py); do_bench of triton/testing.py
// allocates 256 MiB.
static void note_those_installed(const job_args *args, job_request *r) {
  char text[700] = "";
  bool is_tuned = PLIM_HAS_PACKAGE(r->job.packages, PLIM_PACKAGE_FLA);
  list_packages(args, r, text, sizeof text);
  plim_note_add(&r->notes, "assumes.kernels", NULL, "with the kernels of %s%s", text,
                is_tuned ? ", tuned by an earlier run (a model's first run on a machine tunes them "
                           "in its first step, which needs up to 256 MiB more)"
                         : "");
  if (PLIM_HAS_PACKAGE(r->job.packages, PLIM_PACKAGE_FLA_CONV1D))
    plim_note_add(&r->notes, "assumes.pieces", NULL,
                  "packed samples of many tokens each (each sample begins a piece of 64 tokens of "
                  "its own in FLA's kernels; short samples need a little more memory)");
}

static const char *pronoun_of(const plim_family *f) {
  return strstr(f->faster_packages, " and ") ? "them" : "it";
}

// lazy_load_kernel of transformers 5, integrations/hub_kernels.py; what the Hub has is not known here.
static void note_those_fetched(const job_args *args, job_request *r) {
  char place[300];
  const char *packages = r->job.model.family->faster_packages;
  plim_note_add(
      &r->notes, "assumed.kernels", NULL,
      "assuming that transformers fetches the kernels of %s from the Hugging Face Hub, as "
      "it does with the package kernels (%s); the run needs more memory if it is offline "
      "or the Hub has none for its version of torch (--packages none)",
      packages, origin_of(args, PLIM_PACKAGE_KERNELS, place, sizeof place));
}

static void note_those_missing(job_request *r) {
  const plim_family *f = r->job.model.family;
  plim_packages known = (plim_packages)(f->packages & ~(1u << PLIM_PACKAGE_FLA_CONV1D));
  plim_note_add(&r->notes, "assumes.kernels", NULL,
                "%s not installed (with %s, training needs less memory and time%s%s)",
                f->faster_packages, pronoun_of(f), known ? ": --packages " : "",
                known ? plim_packages_words(known).text : "");
}

// Axolotl looks for them before it loads the model.
static void note_those_refused(const job_args *args, job_request *r) {
  char place[300];
  plim_packages refused = r->job.model.family->axolotl_refuses, asked = 0;
  asked_packages(args, &asked, NULL);
  for (int i = 0; i < PLIM_PACKAGES; i++) {
    const char *name = plim_package_names[i];
    if (PLIM_HAS_PACKAGE(refused & asked, i))
      plim_note_add(
          &r->notes, "stops.packages", NULL,
          "Axolotl stops with an ImportError if %s is installed (%s); pip uninstall -y %s", name,
          origin_of(args, i, place, sizeof place), name);
    else if (PLIM_HAS_PACKAGE(refused, i))
      plim_note_add(&r->notes, "assumes.kernels", NULL,
                    "%s not installed (with it, Axolotl stops with an ImportError)", name);
  }
}

void job_note_family(const job_args *args, job_request *r) {
  const plim_family *f = r->job.model.family;
  bool are_fetched = PLIM_HAS_PACKAGE(r->job.packages, PLIM_PACKAGE_KERNELS);
  if (args->is_axolotl && f->axolotl_refuses) note_those_refused(args, r);
  else if (are_fetched) note_those_fetched(args, r);
  else if (r->job.packages) note_those_installed(args, r);
  else if (f->faster_packages) note_those_missing(r);
  bool has_own_code = f->ships_code && args->trusts_code;
  if (f->lists_attention && args->attention_word && !has_own_code)
    plim_note_add(&r->notes, "stops.attention", "attention",
                  "transformers' code of this architecture does not know the attention %s, so the "
                  "run stops with a KeyError; set attn_implementation: %s",
                  args->attention_word, f->lacks_sdpa ? "eager" : "sdpa");
  if (f->axolotl_fuses_mlp && args->fuses_mlp)
    plim_note_add(
        &r->notes, "unmodelled.fused_mlp", NULL,
        "flash_attn_fuse_mlp: xformers' SwiGLU, which takes the place of the MLPs where "
        "xformers has it, is not modelled; the run may need more or less memory and time than "
        "predicted"),
        plim_note_errs_either(&r->notes);
  if (f->left_out && !r->job.model.outer)
    plim_note_add(&r->notes, "assumes.class", NULL, "%s is not loaded", f->left_out);
}
