// Notes what a prediction assumes because of the model's family.
#include <string.h>

#include "family.h"
#include "job_options.h"

void job_note_family(job_request *r) {
  const plim_family *f = r->job.model.family;
  if (f->faster_packages)
    plim_note_add(&r->notes, "assumes.kernels", NULL,
                  "%s not installed (with %s, training needs less memory and time)",
                  f->faster_packages, strstr(f->faster_packages, " and ") ? "them" : "it");
  if (f->left_out && !r->job.model.outer)
    plim_note_add(&r->notes, "assumes.class", NULL, "%s is not loaded", f->left_out);
}
