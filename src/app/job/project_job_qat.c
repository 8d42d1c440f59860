// Quantisation-aware training in the user's files: torchtune's quantizer and Axolotl's qat.
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "project_job.h"

#define note(p, ...) plim_note_add(&(p)->notes, __VA_ARGS__)

static const char *text_of(const plim_setting *s) {
  return s && s->value.kind == PLIM_VALUE_TEXT ? s->value.text : "";
}

static int64_t count_of(const plim_setting *s) {
  bool is_count = s && s->value.kind == PLIM_VALUE_INTEGER && s->value.integer > 0;
  return is_count ? s->value.integer : 0;
}

static void take(project_job *p, job_args *a, const char *kind, int64_t group) {
  int used = snprintf(p->qat, sizeof p->qat, "%s", kind);
  if (group) snprintf(p->qat + used, sizeof p->qat - (size_t)used, ":%d", (int)group);
  a->qat = p->qat;
}

// Before that step, nothing is rounded, and the run needs less (qat_single_device.py; Axolotl's utils/callbacks/qat.py).
static void note_start(project_job *p) {
  int64_t steps = count_of(project_job_setting(p, "fake_quant_after_n_steps", ""));
  if (steps)
    note(p, "assumed.qat_start", NULL,
         "layers round from step %d on (fake_quant_after_n_steps); predicted for the steps after "
         "it, which need more memory",
         (int)steps);
}

// ---- torchtune --------------------------------------------------------------------------------------

// torchtune/training/quantization.py; *ModuleSwap are the same classes since torchao 0.7.
static const struct {
  const char *component, *kind;
} quantizers[] = {
    {"*Int8DynActInt4WeightQATQuantizer*", "int8-int4"},
    {"*Int4WeightOnlyQATQuantizer*", "int4"},
};

static void fill_torchtune(project_job *p, job_args *a) {
  const char *component = text_of(project_job_setting(p, "quantizer._component_", ""));
  for (size_t i = 0; i < sizeof quantizers / sizeof *quantizers; i++)
    if (fnmatch(quantizers[i].component, component, 0) == 0)
      take(p, a, quantizers[i].kind, count_of(project_job_setting(p, "quantizer.groupsize", "")));
}

void project_job_fill_qat(project_job *p, job_args *a) {
  if (a->qat || job_is_typed(a, &a->qat)) return;
  if (p->project.dialect == PLIM_DIALECT_TORCHTUNE) fill_torchtune(p, a);
  if (a->qat) note_start(p);
}
