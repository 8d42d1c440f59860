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

plim_err job_understand_packages(const job_args *args, job_request *r, plim_error *error) {
  plim_packages *out = &r->job.packages;
  plim_err err = PLIM_OK;
  if (args->packages) err = plim_packages_parse(args->packages, out, error);
  else *out = packages_of_files(args) & r->job.model.family->packages;
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

static void note_those_missing(job_request *r) {
  const plim_family *f = r->job.model.family;
  plim_note_add(&r->notes, "assumes.kernels", NULL,
                "%s not installed (with %s, training needs less memory and time%s)",
                f->faster_packages, strstr(f->faster_packages, " and ") ? "them" : "it",
                f->packages ? ": --packages fla,causal-conv1d" : "");
}

void job_note_family(const job_args *args, job_request *r) {
  const plim_family *f = r->job.model.family;
  if (r->job.packages) note_those_installed(args, r);
  else if (f->faster_packages) note_those_missing(r);
  bool has_own_code = f->ships_code && args->trusts_code;
  if (f->lists_attention && args->attention_word && !has_own_code)
    plim_note_add(&r->notes, "stops.attention", "attention",
                  "transformers' code of this architecture does not know the attention %s, so the "
                  "run stops with a KeyError; set attn_implementation: %s",
                  args->attention_word, f->lacks_sdpa ? "eager" : "sdpa");
  if (f->axolotl_fuses_mlp && args->fuses_mlp)
    plim_note_add(&r->notes, "unmodelled.fused_mlp", NULL,
                  "flash_attn_fuse_mlp: xformers' SwiGLU, which takes the place of the MLPs where "
                  "xformers has it, is not modelled; the run may need more or less memory than "
                  "predicted");
  if (f->left_out && !r->job.model.outer)
    plim_note_add(&r->notes, "assumes.class", NULL, "%s is not loaded", f->left_out);
}
