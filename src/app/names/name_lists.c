#include "name_lists.h"

#include <string.h>

#include "catalogue.h"
#include "families.h"
#include "gpu.h"

// ---- models -----------------------------------------------------------------------------------

const char *name_of_dtype(plim_dtype dtype) {
  return dtype == PLIM_BF16 ? "bf16" : dtype == PLIM_FP16 ? "fp16" : "fp32";
}

bool name_is_listed(const plim_catalogue_model *model, plim_config *c) {
  return plim_catalogue_is_public(model) && !plim_catalogue_config(model, c, NULL);
}

int64_t name_longest(const plim_config *c) { return c->positions - c->family->position_offset; }

static void write_models(json_writer *j) {
  plim_config c;
  for (size_t i = 0; i < plim_catalogue_count; i++) {
    const plim_catalogue_model *m = &plim_catalogue[i];
    if (!name_is_listed(m, &c)) continue;
    jsonw_object(j, NULL);
    jsonw_string(j, "name", m->name);
    jsonw_string(j, "id", m->id);
    jsonw_u64(j, "parameters", m->parameters);
    jsonw_string(j, "dtype", name_of_dtype(m->dtype));
    jsonw_string(j, "family", plim_config_whole(&c)->model_type);
    if (c.positions) jsonw_i64(j, "max_tokens", name_longest(&c));
    else jsonw_null(j, "max_tokens");
    jsonw_end(j);
  }
}

// ---- families ---------------------------------------------------------------------------------

const name_bit name_recordings[] = {{PLIM_RECORDED_TRAINING, "one GPU"},
                                    {PLIM_RECORDED_QUANTISED, "4-bit"},
                                    {PLIM_RECORDED_FUSED_LOSS, "Liger's loss"},
                                    {PLIM_RECORDED_LIGER, "all Liger kernels"},
                                    {PLIM_RECORDED_SHARDED, "DDP and FSDP2"},
                                    {PLIM_RECORDED_DEEPSPEED, "ZeRO"},
                                    {0}};

static void write_families(json_writer *j) {
  for (size_t i = 0; i < plim_family_count; i++) {
    const plim_family *f = plim_families[i];
    jsonw_object(j, NULL);
    jsonw_string(j, "family", f->model_type);
    jsonw_array(j, "recorded");
    for (const name_bit *b = name_recordings; b->name; b++)
      if (f->recorded & b->bit) jsonw_string(j, NULL, b->name);
    jsonw_end(j);
    if (f->lora_targets) jsonw_string(j, "peft_target_modules", f->lora_targets);
    else jsonw_null(j, "peft_target_modules");
    jsonw_bool(j, "liger", f->has_liger);
    jsonw_end(j);
  }
}

// ---- GPUs -------------------------------------------------------------------------------------

const name_bit name_figures[] = {
    {PLIM_SEEN_MEMORY, "memory"}, {PLIM_SEEN_SHAPE, "shape"}, {PLIM_SEEN_RATES, "rates"}, {0}};

static void write_rate(json_writer *j, const char *key, double value) {
  if (value > 0) jsonw_number(j, key, value);
  else jsonw_null(j, key);
}

static void write_gpu(json_writer *j, const plim_gpu *gpu) {
  jsonw_string(j, "name", gpu->name);
  jsonw_u64(j, "memory_bytes", gpu->memory_mib * PLIM_MIB);
  jsonw_bytes(j, "cuda_bytes", gpu->cuda_mib ? gpu->cuda_mib * PLIM_MIB : PLIM_UNKNOWN);
  jsonw_number(j, "bandwidth_gb_per_second", gpu->bandwidth_gbs);
  write_rate(j, "bf16_tflops", gpu->bf16_tflops);
  write_rate(j, "fp16_tflops", gpu->fp16_tflops);
  write_rate(j, "fp32_tflops", gpu->fp32_tflops);
  jsonw_number(j, "compute_capability", gpu->capability / 10.0);
  jsonw_u64(j, "multiprocessors", gpu->multiprocessors);
  jsonw_array(j, "unconfirmed");
  for (const name_bit *b = name_figures; b->name; b++)
    if (!(gpu->seen & b->bit)) jsonw_string(j, NULL, b->name);
  jsonw_end(j);
}

static void write_gpus(json_writer *j) {
  for (size_t i = 0; i < plim_gpu_count; i++) {
    jsonw_object(j, NULL);
    write_gpu(j, &plim_gpus[i]);
    jsonw_end(j);
  }
}

// ---- knobs ------------------------------------------------------------------------------------

bool name_is_planned(plim_knob knob) {
  for (size_t i = 0; i < plim_plan_knob_count; i++)
    if (plim_plan_knobs[i] == knob) return true;
  return false;
}

static void write_knob(json_writer *j, plim_knob knob) {
  static const char *const kinds[] = {"free", "quality", "fact"};
  const char *value;
  jsonw_string(j, "name", plim_knob_table[knob].name);
  jsonw_string(j, "what", plim_knob_table[knob].what);
  jsonw_string(j, "kind", kinds[plim_knob_table[knob].kind]);
  jsonw_bool(j, "planned", name_is_planned(knob));
  jsonw_array(j, "values");
  for (int64_t v = 0; name_is_planned(knob) && (value = plim_knob_value_name(knob, v)); v++)
    jsonw_string(j, NULL, value);
  jsonw_end(j);
}

static void write_knobs(json_writer *j) {
  for (int k = 0; k < PLIM_KNOBS; k++) {
    jsonw_object(j, NULL);
    write_knob(j, (plim_knob)k);
    jsonw_end(j);
  }
}

// ---- the lists --------------------------------------------------------------------------------

const name_list name_lists[] = {
    {"models", write_models},
    {"families", write_families},
    {"gpus", write_gpus},
    {"knobs", write_knobs},
    {0},
};

const name_list *name_list_named(const char *name) {
  for (const name_list *list = name_lists; list->name; list++)
    if (strcmp(list->name, name) == 0) return list;
  return NULL;
}

void name_list_write(json_writer *j, const void *context) {
  const name_list *list = context;
  jsonw_object(j, NULL);
  jsonw_u64(j, "format_version", 1);
  jsonw_array(j, list->name);
  list->write(j);
  jsonw_end(j);
  jsonw_end(j);
}
