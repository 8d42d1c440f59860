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
  // modules/peft/lora.py asks for a FakeQuantizeConfig; the quantizers of torchao 0.14 to 0.18 make an IntxFakeQuantizeConfig.
  if (a->qat && a->lora_rank)
    note(p, "stops.qat", NULL,
         "torchtune's adapters with a quantizer refuse what torchao makes since 0.14 "
         "(AssertionError), so the run will not start; train without a quantizer, or all "
         "parameters with the recipe qat_distributed");
}

// ---- Axolotl ----------------------------------------------------------------------------------------

// get_quantization_config and _make_qat_config of utils/quantization.py, with torchao 0.17. `kind`: of plim_qat_table;
// NULL: the run does not start if `stops` says why, otherwise it is not modelled.
static const struct {
  const char *input, *weight, *kind, *stops;
} pairs[] = {
    {"int8", "int4", "axolotl-int8-int4", NULL},
    {"", "int8", NULL, "Axolotl refuses 8-bit weights without an activation_dtype"},
    {"int8", "int8", NULL, "Axolotl refuses weights and activations in 8 bits"},
    {"int4", "int4", NULL, "Axolotl refuses weights and activations in 4 bits"},
    {"*", "nvfp4", NULL,
     "torchao 0.17 refuses what Axolotl makes of nvfp4 (\"Unexpected base config: "
     "NVFP4WeightOnlyConfig\")"},
    {"*", "mxfp4", "axolotl-mxfp4", NULL},
    {"*", "*", NULL, NULL},
};

static void note_pair(project_job *p, size_t i) {
  if (pairs[i].stops)
    note(p, "stops.qat", NULL,
         "%s, so the run will not start (predicted without qat); "
         "set activation_dtype: int8 with weight_dtype: int4, or remove qat",
         pairs[i].stops);
  else if (!pairs[i].kind)
    note(p, "unmodelled.qat", NULL,
         "quantisation-aware training of this kind is not modelled; the run needs more memory and "
         "time than predicted");
}

// QATConfig of utils/schemas/quantization.py: weights of 8 bits and groups of 32 are its defaults.
static void fill_axolotl(project_job *p, job_args *a) {
  if (!project_job_setting(p, "qat.", "")) return;
  const char *input = text_of(project_job_setting(p, "qat.activation_dtype", ""));
  const char *weight = text_of(project_job_setting(p, "qat.weight_dtype", ""));
  int64_t group = count_of(project_job_setting(p, "qat.group_size", ""));
  size_t i = 0;
  if (!*weight) weight = "int8";
  while (fnmatch(pairs[i].input, input, 0) != 0 || fnmatch(pairs[i].weight, weight, 0) != 0) i++;
  if (pairs[i].kind) take(p, a, pairs[i].kind, group);
  note_pair(p, i);
  const plim_setting *embeds = project_job_setting(p, "qat.quantize_embedding", "");
  if (a->qat && embeds && embeds->value.kind == PLIM_VALUE_BOOL && embeds->value.flag)
    note(p, "unmodelled.qat_embedding", NULL,
         "rounding the embedding (qat.quantize_embedding) is not modelled; the run needs more "
         "memory and time than predicted");
}

void project_job_fill_qat(project_job *p, job_args *a) {
  if (a->qat || job_is_typed(a, &a->qat)) return;
  if (p->project.dialect == PLIM_DIALECT_TORCHTUNE) fill_torchtune(p, a);
  if (p->project.dialect == PLIM_DIALECT_AXOLOTL) fill_axolotl(p, a);
  if (a->qat) note_start(p);
}
