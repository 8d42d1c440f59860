// Experts as a list of modules, before transformers 5.0 (listed_experts.c). `e->listed` has the router, then the three
// matrices of each expert.
#ifndef PLIM_CORE_LISTED_EXPERTS_H
#define PLIM_CORE_LISTED_EXPERTS_H

#include "experts.h"

void plim_listed_experts_new(plim_tape *t, plim_model *m, plim_experts *e, plim_dtype dtype);
void plim_listed_experts_visit(const plim_experts *e, plim_visit *visit, void *context);
void plim_listed_experts_add_lora(plim_tape *t, plim_model *m, const plim_lora *lora,
                                  const plim_experts *e, const char *place, int64_t layer);
plim_tensor *plim_listed_experts_forward(plim_tape *t, const plim_experts *e, plim_tensor *x);

#endif
