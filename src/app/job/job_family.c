// Notes what a prediction assumes because of the model's family.
#include <string.h>

#include "family.h"
#include "job_options.h"

void job_note_family(const job_args *args, job_request *r) {
  const plim_family *f = r->job.model.family;
  if (f->faster_packages)
    plim_note_add(&r->notes, "assumes.kernels", NULL,
                  "%s not installed (with %s, training needs less memory and time)",
                  f->faster_packages, strstr(f->faster_packages, " and ") ? "them" : "it");
  bool has_own_code = f->ships_code && args->trusts_code;
  if (f->lists_attention && args->attention_word && !has_own_code)
    plim_note_add(&r->notes, "reads.attention_word", "attention",
                  "transformers' code of this architecture does not know the attention %s, so the "
                  "run stops with a KeyError; set attn_implementation: %s",
                  args->attention_word, f->lacks_sdpa ? "eager" : "sdpa");
  if (f->left_out && !r->job.model.outer)
    plim_note_add(&r->notes, "assumes.class", NULL, "%s is not loaded", f->left_out);
}
