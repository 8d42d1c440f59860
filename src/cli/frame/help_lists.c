#include "help_lists.h"

#include <string.h>

#include "families.h"
#include "gpu.h"
#include "help.h"
#include "name_lists.h"
#include "term.h"
#include "text_result.h"
#include "units.h"

// ---- models -----------------------------------------------------------------------------------

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
    if (!name_is_listed(m, &c)) continue;
    term_table_cell(t, TERM_CYAN, "%s", m->name);
    show_parameters(t, m->parameters);
    term_table_cell(t, TERM_PLAIN, "%s", name_of_dtype(m->dtype));
    if (c.positions)
      term_table_cell(t, TERM_PLAIN, "%s", units_count((uint64_t)name_longest(&c)).text);
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

// ---- families ---------------------------------------------------------------------------------

static void print_families(FILE *out) {
  static const term_column columns[] = {{"family"}, {"verified on", .wraps = true}};
  term_table *t = term_table_new(columns, 2);
  for (size_t i = 0; i < plim_family_count; i++) {
    char text[128] = "";
    for (const name_bit *b = name_recordings; b->name; b++) {
      if (!(plim_families[i]->recorded & b->bit)) continue;
      if (*text) strcat(text, ", ");
      strcat(text, b->name);
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

// ---- cards ------------------------------------------------------------------------------------

static void rate(term_table *t, double tflops) {
  if (tflops > 0) term_table_cell(t, TERM_PLAIN, "%.*f", tflops < 1000, tflops);
  else term_table_cell(t, TERM_PLAIN, "-");
}

static void unconfirmed(term_table *t, const plim_gpu *gpu) {
  char letters[8] = ""; // the first of each name
  for (const name_bit *b = name_figures; b->name; b++)
    if (!(gpu->seen & b->bit)) strncat(letters, b->name, 1);
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

// ---- knobs ------------------------------------------------------------------------------------

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
    if (!name_is_planned((plim_knob)k))
      help_entry(out, plim_knob_table[k].name, plim_knob_table[k].what);
}

// ---- the lists --------------------------------------------------------------------------------

const help_list help_lists[] = {
    {"models", "the models you can give by name", print_models},
    {"families", "the supported architectures, and which runs of each were verified",
     print_families},
    {"gpus", "the GPUs you can give by name", print_gpus},
    {"knobs", "the settings a plan can change, and their values", print_knobs},
    {"chunked_loss", "a module with a chunked loss, to save beside your script",
     help_print_chunked_loss},
    {0},
};

const help_list *help_list_named(const char *name) {
  for (const help_list *list = help_lists; list->name; list++)
    if (strcmp(list->name, name) == 0) return list;
  return NULL;
}

void help_list_print(FILE *out, const help_list *list) { list->print(out); }

void help_list_print_json(const help_list *list) {
  const name_list *names = name_list_named(list->name);
  cli_print_json(names ? name_list_write : help_write_chunked_loss, names);
}
