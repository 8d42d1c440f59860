#include "manual_steps.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "family.h"
#include "plan_launch.h"
#include "project_refusals.h"
#include "units.h"

enum { LINES_BYTES = 1024 };

plim_err manual_step_add(manual_steps *steps, const char *kind, plim_knob knob, const char *lines,
                         plim_error *error, const char *format, ...) {
  manual_step step = {.kind = kind, .knob = knob};
  va_list args;
  va_start(args, format);
  bool ok = vasprintf(&step.text, format, args) >= 0;
  va_end(args);
  if (!ok) step.text = NULL;
  if (lines) step.lines = strdup(lines);
  if (ok && !step.lines == !lines && vec_push(steps, step)) return PLIM_OK;
  free(step.text);
  free(step.lines);
  return plim_no_memory(error);
}

plim_err manual_step_why(manual_steps *steps, const char *why, plim_error *error) {
  manual_step *last = &steps->at[steps->len - 1];
  last->why = strdup(why);
  return last->why ? PLIM_OK : plim_no_memory(error);
}

void manual_steps_clear(manual_steps *steps) {
  for (size_t i = 0; i < steps->len; i++) {
    free(steps->at[i].text);
    free(steps->at[i].lines);
    free(steps->at[i].why);
  }
  vec_free(steps);
}

// The plan for one rung, as the steps see it.
typedef struct {
  const plan_result *r;
  const plan_for_card *c; // the rung is its first one
  const plan_edits *edits;
  manual_steps *out;
  plim_error *error;
} maker;

static const plim_choice *planned(const maker *m) { return &m->c->plan.rungs.at[0].choice; }
static const plim_choice *present(const maker *m) { return &m->c->plan.before_choice; }

static bool is_written(const maker *m, plim_knob knob) {
  for (size_t i = 0; m->edits && i < m->edits->write_count; i++)
    if (m->edits->writes[i].knob == knob) return true;
  return false;
}

static bool changes(const maker *m, plim_knob knob) {
  return planned(m)->at[knob] != present(m)->at[knob];
}

// ---- packages ---------------------------------------------------------------------------------------

bool plan_takes_bitsandbytes(const plim_choice *x) {
  const char *optimizer = plim_knob_value_name(PLIM_KNOB_OPTIMIZER, x->at[PLIM_KNOB_OPTIMIZER]);
  bool is_theirs = optimizer && (strstr(optimizer, "8bit") || strstr(optimizer, "paged"));
  return is_theirs || x->at[PLIM_KNOB_QUANTISATION] != PLIM_WEIGHTS_PLAIN;
}

bool plan_takes_deepspeed(const plim_choice *x) {
  return x->at[PLIM_KNOB_STRATEGY] >= PLIM_SHARD_ZERO1;
}

static bool takes_flash(const plim_choice *x) {
  return x->at[PLIM_KNOB_ATTENTION] == PLIM_ATTENTION_FLASH;
}

static bool takes_liger(const plim_choice *x) { return x->at[PLIM_KNOB_LIGER]; }

static const struct {
  const char *name;
  bool (*is_taken)(const plim_choice *x);
  bool is_of_axolotl; // Axolotl 0.18 requires it (pyproject.toml)
} packages[] = {{"bitsandbytes", plan_takes_bitsandbytes, true},
                {"deepspeed", plan_takes_deepspeed, false},
                {"flash-attn", takes_flash, false},
                {"liger-kernel", takes_liger, true}};

static bool is_axolotl(const maker *m) {
  return m->r->files && m->r->files->project.dialect == PLIM_DIALECT_AXOLOTL;
}

// The framework's own file sets everything, and its code is not the user's.
static bool is_tune(const maker *m) {
  const plim_project *p = m->r->files ? &m->r->files->project : NULL;
  bool is = p && p->dialect == PLIM_DIALECT_TORCHTUNE;
  for (size_t i = 0; is && i < p->files.len; i++)
    is = p->files.at[i]->settings.format != PLIM_FORMAT_PYTHON;
  return is;
}

// torchtune's 4-bit weights are torchao's, without which torchtune does not start.
static plim_choice as_installed(const maker *m, const plim_choice *x) {
  plim_choice out = *x;
  if (is_tune(m)) out.at[PLIM_KNOB_QUANTISATION] = PLIM_WEIGHTS_PLAIN;
  return out;
}

// Releases that a framework asks for: LLaMA-Factory 0.9, requirements/deepspeed.txt; Axolotl 0.19, pyproject.toml.
static const struct {
  plim_dialect dialect;
  const char *name, *asked;
} bounds[] = {{PLIM_DIALECT_LLAMA_FACTORY, "deepspeed", "deepspeed>=0.10.0,<=0.18.4"},
              {PLIM_DIALECT_LLAMA_FACTORY_V1, "deepspeed", "deepspeed>=0.10.0,<=0.18.4"},
              {PLIM_DIALECT_AXOLOTL, "deepspeed", "deepspeed>=0.18.6,<0.19.0"}};

// The package as pip takes it in a shell: 'deepspeed>=0.18.6,<0.19.0'.
static void add_package(const maker *m, const char *name, char *line, size_t size) {
  size_t used = strlen(line);
  for (size_t i = 0; m->r->files && i < sizeof bounds / sizeof *bounds; i++)
    if (bounds[i].dialect == m->r->files->project.dialect && strcmp(bounds[i].name, name) == 0) {
      snprintf(line + used, size - used, " '%s'", bounds[i].asked);
      return;
    }
  snprintf(line + used, size - used, " %s", name);
}

// Packages that the plan needs and the present run does not. Megatron shards on its own.
static plim_err add_packages(const maker *m) {
  bool shards_itself = m->r->files && m->r->files->is_megatron;
  plim_choice now = as_installed(m, present(m)), next = as_installed(m, planned(m));
  char line[128] = "pip install";
  size_t bare = strlen(line);
  for (size_t i = 0; i < sizeof packages / sizeof *packages; i++) {
    if (shards_itself && packages[i].is_taken == plan_takes_deepspeed) continue;
    if (packages[i].is_of_axolotl && is_axolotl(m)) continue;
    if (plim_pins_install(&m->r->args->pins, packages[i].name)) continue;
    if (packages[i].is_taken(&next) && !packages[i].is_taken(&now))
      add_package(m, packages[i].name, line, sizeof line);
  }
  if (strlen(line) == bare) return PLIM_OK;
  strcat(line, "\n");
  return manual_step_add(m->out, "install", PLIM_KNOBS, line, m->error,
                         "install what the plan uses");
}

// ---- the environment --------------------------------------------------------------------------------

// A variable that the files set, or will set when the plan is applied, need not be exported.
static plim_err add_environment(const maker *m) {
  bool is_left =
      !m->edits || (changes(m, PLIM_KNOB_ALLOC_CONF) && !is_written(m, PLIM_KNOB_ALLOC_CONF));
  if (m->r->files && plan_launcher_sets_conf(&m->r->files->project, m->c, planned(m)))
    return PLIM_OK;
  const char *conf = is_left ? plim_choice_conf(&m->c->asked, planned(m)) : "";
  char line[320];
  if (!*conf) return PLIM_OK;
  snprintf(line, sizeof line, "export PYTORCH_CUDA_ALLOC_CONF=%s\n", conf);
  return manual_step_add(m->out, "environment", PLIM_KNOB_ALLOC_CONF, line, m->error,
                         "in the shell that starts the training");
}

// ---- settings that the files have no place for ------------------------------------------------------

static const char axolotl_liger[] = "plugins:\n"
                                    "  - axolotl.integrations.liger.LigerPlugin\n"
                                    "liger_rope: true\n"
                                    "liger_rms_norm: true\n"
                                    "liger_glu_activation: true\n"
                                    "liger_fused_linear_cross_entropy: true\n";

// Axolotl loads the model itself, so there is no place for a loss of one's own; its plugin never has all logits, nor
// chunks of them, so it needs no more than predicted.
static const char axolotl_cut[] = "plugins:\n"
                                  "  - axolotl.integrations.cut_cross_entropy."
                                  "CutCrossEntropyPlugin\n";

// PATCH_FNS of cut-cross-entropy lacks the model (integrations/cut_cross_entropy/__init__.py, patch_llama_like).
static const char generic_cut[] =
    ", though Axolotl has only a generic patch for this model and says "
    "that it may not work as expected";

// The lines that add adapters to a file of the framework. lora_alpha does not affect memory.
static const struct {
  plim_dialect dialect;
  const char *file;
  const char *kinds[2]; // without 4-bit weights, and with them
  const char *bits[2];  // lines for 4 and 8 bits
  const char *rank;     // lines for the rank, which is in them twice
} adapter_lines[] = {
    {PLIM_DIALECT_AXOLOTL,
     "your Axolotl file",
     {"adapter: lora\n", "adapter: qlora\n"},
     {"load_in_4bit: true\n", "load_in_8bit: true\n"},
     "lora_r: %d\nlora_alpha: %d\nlora_target_linear: true\n"},
    // trl/trainer/model_config.py; without use_peft, get_peft_config returns None.
    {PLIM_DIALECT_TRL,
     "your TRL file",
     {"use_peft: true\n", "use_peft: true\n"},
     {"load_in_4bit: true\n", "load_in_8bit: true\n"},
     "lora_r: %d\nlora_alpha: %d\nlora_target_modules: all-linear\n"},
    // v1/plugins/model_plugins/peft.py and quantization.py; the packed weights have compute_dtype, which FSDP2 must not cast.
    {PLIM_DIALECT_LLAMA_FACTORY_V1,
     "your LLaMA-Factory file",
     {"", ""},
     {"quant_config:\n  name: bnb\n  quantization_bit: 4\n  compute_dtype: bfloat16\n",
      "quant_config:\n  name: bnb\n  quantization_bit: 8\n"},
     "peft_config:\n  name: lora\n  r: %d\n  lora_alpha: %d\n"},
};
enum { ADAPTER_LINES = sizeof adapter_lines / sizeof *adapter_lines };

// The row of the framework; ADAPTER_LINES: it has none.
static size_t adapter_row(const maker *m) {
  size_t i = 0;
  while (i < ADAPTER_LINES &&
         (!m->r->files || m->r->files->project.dialect != adapter_lines[i].dialect))
    i++;
  return i;
}

// For adapters, and for 4 bits, but not for 8.
bool plan_adds_kernels(const plan_result *r, const plan_for_card *c, const plim_choice *x) {
  plim_job now = plim_choice_job(&c->asked, &c->plan.before_choice),
           next = plim_choice_job(&c->asked, x);
  return job_kernels_run(r->args, &next) && !job_kernels_run(r->args, &now);
}

static const char *kernels_beside(const maker *m, plim_knob knob) {
  bool is_theirs = knob == PLIM_KNOB_QUANTISATION || knob == PLIM_KNOB_LORA_RANK;
  return is_theirs && plan_adds_kernels(m->r, m->c, planned(m))
             ? "Axolotl then turns on its LoRA kernels, with which the run needs less memory and "
               "usually less time than predicted; "
             : "";
}

// Adapters of a file that has none, with the weights below them.
static bool adds_adapters(const maker *m) {
  bool has_lines = adapter_row(m) < ADAPTER_LINES || is_tune(m);
  return has_lines && planned(m)->at[PLIM_KNOB_LORA_RANK] && !present(m)->at[PLIM_KNOB_LORA_RANK] &&
         !is_written(m, PLIM_KNOB_LORA_RANK);
}

// torchtune's functions for adapters are named after the others; recipes for them have lora in their names.
static plim_err add_tune_adapters(const maker *m) {
  const plim_setting *s = project_job_setting(m->r->files, "model._component_", "._component_");
  const char *builder = s && s->value.kind == PLIM_VALUE_TEXT ? s->value.text : "";
  const char *dot = strrchr(builder, '.');
  size_t before = dot ? (size_t)(dot + 1 - builder) : 0;
  int rank = (int)planned(m)->at[PLIM_KNOB_LORA_RANK];
  bool is_new = changes(m, PLIM_KNOB_QUANTISATION) && !is_written(m, PLIM_KNOB_QUANTISATION);
  bool is_shared = m->c->asked.world > 1;
  plim_job job = plim_choice_job(&m->c->asked, planned(m));
  char lines[LINES_BYTES], recipe[64];
  plan_tune_recipe(&m->r->files->project, &job, is_shared, recipe, sizeof recipe);
  snprintf(lines, sizeof lines,
           "model:\n"
           "  _component_: %.*slora_%s\n"
           "%s"
           "  lora_attn_modules: ['q_proj', 'k_proj', 'v_proj', 'output_proj']\n"
           "  apply_lora_to_mlp: True\n"
           "  lora_rank: %d\n"
           "  lora_alpha: %d\n",
           (int)before, builder, builder + before, is_new ? "  quantize_base: True\n" : "", rank,
           2 * rank);
  return manual_step_add(m->out, "setting", PLIM_KNOB_LORA_RANK, lines, m->error,
                         "lora_rank %d: the recipe %s trains adapters; in torchtune's file, set",
                         rank, recipe);
}

static plim_err add_adapters(const maker *m) {
  if (is_tune(m)) return add_tune_adapters(m);
  int64_t kind = planned(m)->at[PLIM_KNOB_QUANTISATION];
  int rank = (int)planned(m)->at[PLIM_KNOB_LORA_RANK];
  bool is_new = changes(m, PLIM_KNOB_QUANTISATION) && !is_written(m, PLIM_KNOB_QUANTISATION);
  bool is_8_bit = kind == PLIM_WEIGHTS_INT8, is_4_bit = kind != PLIM_WEIGHTS_PLAIN && !is_8_bit;
  size_t row = adapter_row(m);
  char lines[192];
  int used = snprintf(lines, sizeof lines, "%s%s", adapter_lines[row].kinds[is_4_bit],
                      is_new ? adapter_lines[row].bits[is_8_bit] : "");
  snprintf(lines + used, sizeof lines - (size_t)used, adapter_lines[row].rank, rank, rank);
  return manual_step_add(m->out, "setting", PLIM_KNOB_LORA_RANK, lines, m->error,
                         "lora_rank %d: %sadd to %s", rank, kernels_beside(m, PLIM_KNOB_LORA_RANK),
                         adapter_lines[row].file);
}

// Lines of the framework's own file; NULL: there are none.
static const char *own_lines(const maker *m, plim_knob knob, const plim_value *value) {
  const plim_project *p = m->r->files ? &m->r->files->project : NULL;
  bool is_own = p && (p->dialect != PLIM_DIALECT_TORCHTUNE || is_tune(m));
  return is_own ? file_lines_for(p->dialect, knob, value) : NULL;
}

// Lines to paste for a setting: into a file of the framework, or into a script.
static bool lines_for(const maker *m, plim_knob knob, const plim_value *value, const char **where,
                      char *lines, size_t size) {
  const char *own = own_lines(m, knob, value);
  bool is_v1 = m->r->files && m->r->files->project.dialect == PLIM_DIALECT_LLAMA_FACTORY_V1;
  if (!own && !is_tune(m)) return code_lines_for(knob, value, where, lines, size);
  *where = is_tune(m) ? "in torchtune's file, set"
           : is_v1    ? "in your LLaMA-Factory file, set"
                      : "in your Axolotl file, set";
  snprintf(lines, size, "%s", own ? own : "");
  return own != NULL;
}

// The dialect's key at the top of a YAML file for a knob; NULL: it has none there.
static const char *top_key(const maker *m, plim_knob knob) {
  const plim_project *p = &m->r->files->project;
  const plim_project_knob *micro = &p->knobs[PLIM_KNOB_MICRO_BATCH];
  size_t file = micro->place_count ? micro->places[0].file : 0;
  const plim_key *key = plim_dialect_table[p->dialect].keys;
  while (key->key && key->knob != knob) key++;
  bool is_yaml = p->files.len && p->files.at[file]->settings.format == PLIM_FORMAT_YAML;
  return is_yaml && key->key && !strchr(key->key, '.') ? key->key : NULL;
}

// Whether accumulation is to be set by hand, and the framework computes it from a key for the global batch.
static bool sets_global_batch(const maker *m) {
  plim_dialect dialect = m->r->files ? m->r->files->project.dialect : PLIM_DIALECTS;
  return dialect != PLIM_DIALECTS && plim_dialect_table[dialect].divides_batch &&
         changes(m, PLIM_KNOB_ACCUMULATE) && !is_written(m, PLIM_KNOB_ACCUMULATE) &&
         top_key(m, PLIM_KNOB_GLOBAL_BATCH) && top_key(m, PLIM_KNOB_MICRO_BATCH);
}

static bool is_of_batch(plim_knob knob) {
  return knob == PLIM_KNOB_MICRO_BATCH || knob == PLIM_KNOB_ACCUMULATE;
}

static plim_err add_global_batch(const maker *m) {
  const plim_project *p = &m->r->files->project;
  int64_t micro = planned(m)->at[PLIM_KNOB_MICRO_BATCH];
  int64_t steps = planned(m)->at[PLIM_KNOB_ACCUMULATE];
  int64_t ranks = plim_project_ranks(p, m->c->asked.world);
  char lines[160];
  snprintf(lines, sizeof lines, "%s: %lld\n%s: %lld\n", top_key(m, PLIM_KNOB_MICRO_BATCH),
           (long long)micro, top_key(m, PLIM_KNOB_GLOBAL_BATCH),
           (long long)(micro * steps * (ranks ? ranks : 1)));
  return manual_step_add(m->out, "setting", PLIM_KNOB_ACCUMULATE, lines, m->error,
                         "micro_batch %lld, accumulate %lld: in your %s file, set",
                         (long long)micro, (long long)steps, plim_dialect_table[p->dialect].name);
}

// Strategy and offload are part of the launch steps.
static bool is_of_launch(plim_knob knob) {
  return knob == PLIM_KNOB_STRATEGY || knob == PLIM_KNOB_OFFLOAD;
}

static plim_err add_setting(const maker *m, plim_knob knob, const plim_value *value,
                            const char *reason) {
  char text[96], lines[LINES_BYTES];
  const char *where = NULL, *name = plim_knob_table[knob].name;
  plim_value_print(value, text, sizeof text);
  if (knob == PLIM_KNOB_CHECKPOINT && plan_launch_checkpoints(m->r, m->c, m->edits))
    return manual_step_add(m->out, "setting", knob, NULL, m->error,
                           "%s %s: the accelerate.yaml below turns it on", name, text);
  plim_err err = PLIM_OK;
  bool is_plugin = knob == PLIM_KNOB_LIGER && is_axolotl(m);
  bool is_generic =
      plim_config_whole(&m->c->asked.job.model)->axolotl_loss == PLIM_AXOLOTL_LOSS_GENERIC;
  if (knob == PLIM_KNOB_LORA_RANK && adds_adapters(m)) return add_adapters(m);
  if (knob == PLIM_KNOB_QUANTISATION && adds_adapters(m)) return PLIM_OK; // they are one step
  if (is_of_batch(knob) && sets_global_batch(m))                          // and so are these
    return knob == PLIM_KNOB_ACCUMULATE ? add_global_batch(m) : PLIM_OK;
  if (knob == PLIM_KNOB_CHUNKED_LOSS && is_axolotl(m))
    return manual_step_add(m->out, "setting", knob, axolotl_cut, m->error,
                           "for %s %s, turn on Cut Cross Entropy, which needs no more memory%s: "
                           "install Axolotl's fork of cut-cross-entropy (Axolotl says how when it "
                           "is missing) and add to your Axolotl file",
                           name, text, is_generic ? generic_cut : "");
  if (is_plugin)
    err = manual_step_add(m->out, "setting", knob, axolotl_liger, m->error,
                          "%s %s: add to your Axolotl file", name, text);
  else if (lines_for(m, knob, value, &where, lines, sizeof lines))
    err = manual_step_add(m->out, "setting", knob, lines, m->error, "%s %s: %s%s", name, text,
                          kernels_beside(m, knob), where);
  else return PLIM_OK; // without code, it is joined with settings of the same reason
  return err || !reason || is_tune(m) || own_lines(m, knob, value)
             ? err
             : manual_step_why(m->out, reason, m->error);
}

// Settings that cannot be written for the same reason become one step: "micro_batch 20, accumulate 2". Returns the index
// after the last of them.
static size_t join_alike(const plan_edits *edits, size_t first, char *text, size_t size) {
  size_t i = first, used = 0;
  for (; i < edits->by_hand_count && used < size &&
         strcmp(edits->by_hand[i].reason, edits->by_hand[first].reason) == 0;
       i++) {
    char value[96];
    plim_value_print(&edits->by_hand[i].value, value, sizeof value);
    used += (size_t)snprintf(text + used, size - used, "%s%s %s", i > first ? ", " : "",
                             plim_knob_table[edits->by_hand[i].knob].name, value);
  }
  return i;
}

static bool has_code(const maker *m, size_t i) {
  const char *where;
  char lines[LINES_BYTES];
  plim_knob knob = m->edits->by_hand[i].knob;
  bool is_of_adapters = knob == PLIM_KNOB_LORA_RANK || knob == PLIM_KNOB_QUANTISATION;
  return (knob == PLIM_KNOB_LIGER && is_axolotl(m)) || (is_of_adapters && adds_adapters(m)) ||
         (is_of_batch(knob) && sets_global_batch(m)) ||
         lines_for(m, knob, &m->edits->by_hand[i].value, &where, lines, sizeof lines);
}

static plim_err add_settings(const maker *m) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; !err && m->edits && i < m->edits->by_hand_count; i++) {
    plim_knob knob = m->edits->by_hand[i].knob;
    const char *reason = m->edits->by_hand[i].reason;
    char alike[320];
    if (knob == PLIM_KNOB_ALLOC_CONF ||
        (is_of_launch(knob) && plan_has_launch(m->r, m->c, m->edits)))
      continue;
    if (has_code(m, i)) {
      err = add_setting(m, knob, &m->edits->by_hand[i].value, reason);
      continue;
    }
    i = join_alike(m->edits, i, alike, sizeof alike) - 1;
    err = manual_step_add(m->out, "setting", knob, NULL, m->error, "set %s yourself: %s", alike,
                          reason);
  }
  int64_t chunk = planned(m)->at[PLIM_KNOB_CHUNKED_LOSS];
  plim_value tokens = {.kind = PLIM_VALUE_INTEGER, .integer = chunk};
  if (!err && !m->edits && chunk && changes(m, PLIM_KNOB_CHUNKED_LOSS))
    err = add_setting(m, PLIM_KNOB_CHUNKED_LOSS, &tokens, NULL);
  return err;
}

// Axolotl turns them on by itself, also for adapters that only the plan has.
static plim_err add_kernels(const maker *m) {
  plim_job job = plim_choice_job(&m->c->asked, planned(m));
  const char *why = job_kernels_stop(m->r->args, &job);
  if (!why) return PLIM_OK;
  return manual_step_add(m->out, "setting", PLIM_KNOBS, JOB_KERNELS_OFF, m->error,
                         "set in your Axolotl file, because its LoRA kernels %s", why);
}

// ---- what stops the run -----------------------------------------------------------------------------

// What the framework refuses in the files as the plan leaves them.
static plim_err refusals_left(const maker *m, plim_notes *out) {
  const plim_project *p = &m->r->files->project;
  plim_project edited = {0};
  plim_edit_set edits = {0};
  plim_err err = plim_project_set(p, m->edits->writes, m->edits->write_count, &edits, m->error);
  if (!err) err = plim_project_edited(p, &edits, &edited, m->error);
  if (!err) plim_project_note_refusals(&edited, out);
  plim_project_clear(&edited);
  plim_edit_set_clear(&edits);
  return !err && out->has_no_memory ? plim_no_memory(m->error) : err;
}

static bool has_note(const plim_notes *notes, const plim_note *note) {
  for (size_t i = 0; i < notes->list.len; i++)
    if (strcmp(notes->list.at[i].message, note->message) == 0) return true;
  return false;
}

// Whether the plan leaves what a note says as it is.
static bool still_stops(const maker *m, const plim_note *note, const plim_notes *refused) {
  plim_knob knob = note->knob ? plim_knob_named(note->knob) : PLIM_KNOBS;
  bool is_of_table = strcmp(note->code, PLIM_NOTE_REFUSED) == 0;
  if (is_of_table && m->edits && m->edits->write_count) return has_note(refused, note);
  return knob == PLIM_KNOBS || !changes(m, knob);
}

static plim_err add_stop(const maker *m, const plim_note *note) {
  char place[160] = "";
  if (note->file) snprintf(place, sizeof place, "%.120s:%d: ", note->file, note->line);
  return manual_step_add(m->out, "setting", PLIM_KNOBS, NULL, m->error, "%s%s", place,
                         note->message);
}

static plim_err add_stops(const maker *m, const plim_notes *notes, const plim_notes *refused) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; !err && i < notes->list.len; i++) {
    const plim_note *note = &notes->list.at[i];
    if (plim_note_stops(note) && still_stops(m, note, refused)) err = add_stop(m, note);
  }
  return err;
}

static plim_err add_all_stops(const maker *m) {
  plim_notes refused = {0};
  bool writes = m->r->files && m->edits && m->edits->write_count;
  plim_err err = writes ? refusals_left(m, &refused) : PLIM_OK;
  if (!err) err = add_stops(m, &m->c->request.notes, &refused);
  if (!err && m->r->files) err = add_stops(m, &m->r->files->notes, &refused);
  plim_notes_clear(&refused);
  return err;
}

// ---- evaluation -------------------------------------------------------------------------------------

// A run that trains and then stops in its first evaluation is no plan. The batch of evaluation may follow the micro batch
// that the plan changes.
static plim_err add_evaluation(const maker *m) {
  const plim_estimate *e = &m->c->plan.rungs.at[0].e;
  plim_job job = plim_choice_job(&m->c->asked, planned(m));
  if (!m->r->files) return PLIM_OK;
  job_evaluation v = project_job_evaluation(m->r->files, &job);
  bool matters = job_evaluation_matters(&v, &job) && v.logits_bytes && e->has_verdict;
  if (!matters || job_evaluation_bytes(&v, e) <= e->budget_bytes) return PLIM_OK;
  char place[160] = "";
  if (v.line) snprintf(place, sizeof place, "%.120s:%d: ", v.file, v.line);
  return manual_step_add(m->out, "setting", PLIM_KNOBS, NULL, m->error,
                         "%s%s: with the planned settings, evaluation (a batch of %lld x %lld "
                         "tokens) needs at least %s, more than the GPU has",
                         place, job_evaluation_cure(&v, e).text, (long long)v.batch,
                         (long long)v.length, units_bytes(job_evaluation_bytes(&v, e)).text);
}

// ---- versions ---------------------------------------------------------------------------------------

static bool has_accelerate_file(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++)
    if (p->files.at[i]->is.dialect == PLIM_DIALECT_ACCELERATE) return true;
  return false;
}

// transformers 4 does not read the version in these keys, and runs FSDP 1; Axolotl takes care of it itself.
static plim_err add_version(const maker *m) {
  const plim_project *p = m->r->files ? &m->r->files->project : NULL;
  int64_t strategy = planned(m)->at[PLIM_KNOB_STRATEGY];
  bool is_new = strategy == PLIM_SHARD_FSDP2 && changes(m, PLIM_KNOB_STRATEGY);
  bool is_trainer = p && p->dialect < PLIM_DIALECTS && p->dialect != PLIM_DIALECT_AXOLOTL &&
                    plim_dialect_table[p->dialect].has_trainer;
  bool can = false;
  if (!is_new || !is_trainer || has_accelerate_file(p)) return PLIM_OK;
  plim_err err = plan_can_share(p, strategy, planned(m)->at[PLIM_KNOB_OFFLOAD], &can, m->error);
  if (err || !can) return err;
  return manual_step_add(m->out, "version", PLIM_KNOB_STRATEGY, NULL, m->error,
                         "use transformers 5 or newer: with these keys, version 4 runs FSDP 1");
}

// ---- all of them ------------------------------------------------------------------------------------

plim_err manual_steps_of(const plan_result *r, const plan_for_card *c, size_t rung,
                         const plan_edits *edits, manual_steps *out, plim_error *error) {
  plan_for_card from_rung = *c; // as if this rung were the first; it owns nothing
  from_rung.plan.rungs.at += rung;
  from_rung.plan.rungs.len -= rung;
  maker m = {r, &from_rung, edits, out, error};
  *out = (manual_steps){0};
  plim_err err = add_packages(&m);
  if (!err) err = add_environment(&m);
  if (!err) err = add_settings(&m);
  if (!err) err = add_kernels(&m);
  if (!err) err = add_all_stops(&m);
  if (!err) err = add_evaluation(&m);
  if (!err) err = add_version(&m);
  if (!err) err = plan_launch_steps(r, &from_rung, edits, out, error);
  if (err) manual_steps_clear(out);
  return err;
}
