#include "help_lists.h"

#include <string.h>

#include "catalogue.h"
#include "families.h"
#include "gpu.h"
#include "help.h"
#include "plan.h"
#include "term.h"
#include "units.h"

// ---- models -----------------------------------------------------------------------------------

static const char *dtype_name(plim_dtype dtype) {
  return dtype == PLIM_BF16 ? "bf16" : dtype == PLIM_FP16 ? "fp16" : "fp32";
}

// Whether the model is listed. A row with an invalid configuration is not; a test builds all of them.
static bool is_listed(const plim_catalogue_model *model, plim_config *c) {
  return plim_catalogue_is_public(model) && !plim_catalogue_config(model, c, NULL);
}

static int64_t longest(const plim_config *c) { return c->positions - c->family->position_offset; }

// As people name sizes; the JSON has the exact number.
static void show_parameters(term_table *t, uint64_t parameters) {
  bool is_large = parameters >= 1000000000;
  term_table_cell(t, TERM_PLAIN, is_large ? "%.2f B" : "%.0f M",
                  (double)parameters / (is_large ? 1e9 : 1e6));
}

static void print_models(FILE *out) {
  static const term_column columns[] = {
      {"model"}, {"parameters", .right = true}, {"type"}, {"tokens", .right = true}, {"family"}};
  term_table *t = term_table_new(columns, 5);
  plim_config c;
  for (size_t i = 0; i < plim_catalogue_count; i++) {
    const plim_catalogue_model *m = &plim_catalogue[i];
    if (!is_listed(m, &c)) continue;
    term_table_cell(t, TERM_CYAN, "%s", m->name);
    show_parameters(t, m->parameters);
    term_table_cell(t, TERM_PLAIN, "%s", dtype_name(m->dtype));
    if (c.positions) term_table_cell(t, TERM_PLAIN, "%s", units_count((uint64_t)longest(&c)).text);
    else term_table_cell(t, TERM_PLAIN, "any");
    term_table_cell(t, TERM_PLAIN, "%s", plim_config_whole(&c)->model_type);
  }
  term_table_print(t, out);
  term_table_free(t);
  help_paragraph(out,
                 "--model takes one of these names, a Hugging Face id whose config.json is in your "
                 "local cache, or the path of a config.json. Separators between the words and a "
                 "trailing -Instruct do not "
                 "matter. type: the dtype in which transformers 5 loads the model. tokens: the "
                 "maximum sequence length.");
}

static void write_models(json_writer *j) {
  plim_config c;
  for (size_t i = 0; i < plim_catalogue_count; i++) {
    const plim_catalogue_model *m = &plim_catalogue[i];
    if (!is_listed(m, &c)) continue;
    jsonw_object(j, NULL);
    jsonw_string(j, "name", m->name);
    jsonw_string(j, "id", m->id);
    jsonw_u64(j, "parameters", m->parameters);
    jsonw_string(j, "dtype", dtype_name(m->dtype));
    jsonw_string(j, "family", plim_config_whole(&c)->model_type);
    if (c.positions) jsonw_i64(j, "max_tokens", longest(&c));
    else jsonw_null(j, "max_tokens");
    jsonw_end(j);
  }
}

// ---- families ---------------------------------------------------------------------------------

static const struct {
  unsigned bit; // PLIM_RECORDED_...
  const char *name;
} recordings[] = {
    {PLIM_RECORDED_TRAINING, "one GPU"},        {PLIM_RECORDED_QUANTISED, "4-bit"},
    {PLIM_RECORDED_FUSED_LOSS, "Liger's loss"}, {PLIM_RECORDED_LIGER, "all Liger kernels"},
    {PLIM_RECORDED_SHARDED, "DDP and FSDP2"},   {PLIM_RECORDED_DEEPSPEED, "ZeRO"}};

enum { RECORDINGS = sizeof recordings / sizeof *recordings };

static void print_families(FILE *out) {
  static const term_column columns[] = {{"family"}, {"verified on", .wraps = true}};
  term_table *t = term_table_new(columns, 2);
  for (size_t i = 0; i < plim_family_count; i++) {
    char text[128] = "";
    for (size_t k = 0; k < RECORDINGS; k++) {
      if (!(plim_families[i]->recorded & recordings[k].bit)) continue;
      if (*text) strcat(text, ", ");
      strcat(text, recordings[k].name);
    }
    term_table_cell(t, TERM_CYAN, "%s", plim_families[i]->model_type);
    term_table_cell(t, TERM_PLAIN, "%s", *text ? text : "nothing yet");
  }
  term_table_print(t, out);
  term_table_free(t);
  help_paragraph(out,
                 "family: \"model_type\" in config.json. verified on: predictions were checked "
                 "against PyTorch's memory recordings of such runs; predictions of any other "
                 "combination are marked unverified.");
}

static void write_families(json_writer *j) {
  for (size_t i = 0; i < plim_family_count; i++) {
    const plim_family *f = plim_families[i];
    jsonw_object(j, NULL);
    jsonw_string(j, "family", f->model_type);
    jsonw_array(j, "recorded");
    for (size_t k = 0; k < RECORDINGS; k++)
      if (f->recorded & recordings[k].bit) jsonw_string(j, NULL, recordings[k].name);
    jsonw_end(j);
    if (f->lora_targets) jsonw_string(j, "peft_target_modules", f->lora_targets);
    else jsonw_null(j, "peft_target_modules");
    jsonw_bool(j, "liger", f->has_liger);
    jsonw_end(j);
  }
}

// ---- cards ------------------------------------------------------------------------------------

static void rate(term_table *t, double tflops) {
  if (tflops > 0) term_table_cell(t, TERM_PLAIN, "%.*f", tflops < 1000, tflops);
  else term_table_cell(t, TERM_PLAIN, "-");
}

static const struct {
  uint8_t bit;
  const char *letter, *key;
} figures[] = {{PLIM_SEEN_MEMORY, "m", "memory"},
               {PLIM_SEEN_SHAPE, "s", "shape"},
               {PLIM_SEEN_RATES, "r", "rates"}};

static void unconfirmed(term_table *t, const plim_gpu *gpu) {
  char letters[8] = "";
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
    if (!(gpu->seen & figures[i].bit)) strcat(letters, figures[i].letter);
  term_table_cell(t, TERM_DIM, "%s", letters);
}

static void print_gpus(FILE *out) {
  static const term_column columns[] = {{"GPU"},
                                        {"MiB", .right = true},
                                        {"usable", .right = true},
                                        {"GB/s", .right = true},
                                        {"bf16", .right = true},
                                        {"fp16", .right = true},
                                        {"fp32", .right = true},
                                        {"cc", .right = true},
                                        {"unsure"}};
  term_table *t = term_table_new(columns, 9);
  for (size_t i = 0; i < plim_gpu_count; i++) {
    const plim_gpu *gpu = &plim_gpus[i];
    term_table_cell(t, TERM_CYAN, "%s", gpu->name);
    term_table_cell(t, TERM_PLAIN, "%u", gpu->memory_mib);
    if (gpu->cuda_mib) term_table_cell(t, TERM_PLAIN, "%u", gpu->cuda_mib);
    else term_table_cell(t, TERM_PLAIN, "-");
    term_table_cell(t, TERM_PLAIN, "%.0f", gpu->bandwidth_gbs);
    rate(t, gpu->bf16_tflops);
    rate(t, gpu->fp16_tflops);
    rate(t, gpu->fp32_tflops);
    term_table_cell(t, TERM_PLAIN, "%d.%d", gpu->capability / 10, gpu->capability % 10);
    unconfirmed(t, gpu);
  }
  term_table_print(t, out);
  term_table_free(t);
  help_paragraph(out,
                 "--gpu takes one of these names, with or without RTX and spaces, or a size such "
                 "as 24GiB; plimsoll plan takes several, separated by commas. MiB: memory that the "
                 "driver reports; usable: MiB that CUDA programs can allocate (-: not known). "
                 "GB/s: memory bandwidth. bf16, fp16, fp32: dense TFLOP/s with float32 "
                 "accumulation. cc: compute capability. unsure: figures "
                 "without a public source (m: memory; s: bandwidth, fp32 and compute capability; "
                 "r: bf16 and fp16 rates).");
}

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
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
    if (!(gpu->seen & figures[i].bit)) jsonw_string(j, NULL, figures[i].key);
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

static bool is_planned(plim_knob knob) {
  for (size_t i = 0; i < plim_plan_knob_count; i++)
    if (plim_plan_knobs[i] == knob) return true;
  return false;
}

// The values of a free knob that need the user's consent.
static const char *only_with(plim_knob knob) {
  if (knob == PLIM_KNOB_OPTIMIZER)
    return "its implementation is changed freely, 8-bit states only with --allow, another "
           "algorithm only with --fix";
  if (knob == PLIM_KNOB_MICRO_BATCH)
    return "with a contrastive loss or batch norm, changed only with --allow";
  return "";
}

// Prints a knob. Its named values come from the planner and follow a colon.
static void print_knob(FILE *out, plim_knob knob) {
  const plim_knob_info *k = &plim_knob_table[knob];
  char text[1024], values[640];
  const char *only = only_with(knob);
  plim_knob_values_text(knob, values, sizeof values);
  if (plim_knob_value_name(knob, 0))
    snprintf(text, sizeof text, "%.*s: %s%s%s", (int)strcspn(k->what, ":"), k->what, values,
             *only ? "; " : "", only);
  else snprintf(text, sizeof text, "%s (%s)%s%s", k->what, values, *only ? "; " : "", only);
  help_entry(out, k->name, text);
}

static void print_planned(FILE *out, plim_knob_kind kind, const char *heading) {
  help_heading(out, heading);
  for (size_t i = 0; i < plim_plan_knob_count; i++)
    if (plim_knob_table[plim_plan_knobs[i]].kind == kind) print_knob(out, plim_plan_knobs[i]);
}

static void print_knobs(FILE *out) {
  fputs("The settings that plimsoll plan can change, and those it reads from your files.\n", out);
  print_planned(out, PLIM_KNOB_FREE,
                "Changed freely, without affecting what the model learns (--fix, --try)");
  print_planned(out, PLIM_KNOB_QUALITY,
                "Changed only with --allow, because they affect what the model learns");
  help_heading(out, "Read from your files, not changed by a plan (for --set and plimsoll.yaml)");
  for (int k = 0; k < PLIM_KNOBS; k++)
    if (!is_planned((plim_knob)k))
      help_entry(out, plim_knob_table[k].name, plim_knob_table[k].what);
}

static void write_knob(json_writer *j, plim_knob knob) {
  static const char *const kinds[] = {"free", "quality", "fact"};
  const char *value;
  jsonw_string(j, "name", plim_knob_table[knob].name);
  jsonw_string(j, "what", plim_knob_table[knob].what);
  jsonw_string(j, "kind", kinds[plim_knob_table[knob].kind]);
  jsonw_bool(j, "planned", is_planned(knob));
  jsonw_array(j, "values");
  for (int64_t v = 0; is_planned(knob) && (value = plim_knob_value_name(knob, v)); v++)
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

const help_list help_lists[] = {
    {"models", "the models you can give by name", print_models, write_models},
    {"families", "the supported architectures, and which runs of each were verified",
     print_families, write_families},
    {"gpus", "the GPUs you can give by name", print_gpus, write_gpus},
    {"knobs", "the settings a plan can change, and their values", print_knobs, write_knobs},
    {"chunked_loss", "a module with a chunked loss, to save beside your script",
     help_print_chunked_loss, help_write_chunked_loss},
    {0},
};

const help_list *help_list_named(const char *name) {
  for (const help_list *list = help_lists; list->name; list++)
    if (strcmp(list->name, name) == 0) return list;
  return NULL;
}

void help_list_print(FILE *out, const help_list *list) { list->print(out); }

void help_list_print_json(FILE *out, const help_list *list) {
  json_writer j = jsonw_begin(out);
  jsonw_object(&j, NULL);
  jsonw_u64(&j, "format_version", 1);
  jsonw_array(&j, list->name);
  list->write(&j);
  jsonw_end(&j);
  jsonw_end(&j);
  jsonw_finish(&j);
}
