// Adds notes on what the files leave open and on what is not modelled.
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "project_job.h"
#include "project_keys.h"
#include "project_refusals.h"

#define note(p, ...) plim_note_add(&(p)->notes, __VA_ARGS__)

enum { LEFT_OUT = 3 }; // settings; from this number on there is a note

static bool is_on(plim_known_text value) {
  bool is_known = value.origin == PLIM_EXPLICIT || value.origin == PLIM_DEFAULTED;
  return is_known && strcmp(value.text, "on") == 0;
}

static void note_upcast(project_job *p, const job_args *a) {
  bool is_mixed = a->through_accelerate && a->strategy == PLIM_SHARD_FSDP2 && a->amp;
  if (a->is_patched && !a->weights) return; // Axolotl's own function, which casts nothing
  if (is_mixed && !a->lora_rank)
    note(
        p, "assumed.upcast", "dtype",
        "accelerate's FSDP keeps trained parameters in float32, whatever dtype they are loaded in");
  else if (is_mixed && !a->is_fsdp_1 &&
           job_release(a, PLIM_LIBRARY_ACCELERATE) < PLIM_RELEASE(1, 13))
    note(p, "assumed.accelerate_version", NULL,
         "assuming accelerate 1.13 or newer; older versions also convert frozen parameters to "
         "float32 under FSDP2");
}

static void note_version_1(project_job *p, const job_args *a) {
  if (!a->is_fsdp_1 || a->strategy != PLIM_SHARD_FSDP2 || a->world < 2) return;
  note(p, "unmodelled.fsdp_1", "strategy",
       "FSDP 1 is predicted as FSDP2; accelerate runs it under autocast and converts the logits "
       "to float32, which needs more memory and time than predicted");
  plim_note_errs_low(&p->notes);
}

// Units of FSDP that are a part of a layer leave the rest of each layer to the root, which is gathered as a whole.
static void note_units(project_job *p, const job_args *a) {
  static const char *const parts[] = {"MoeBlock", "MLP", "Mlp", "Attention", "Expert"};
  const plim_setting *s = project_job_setting(p, "cls_to_wrap", "cls_to_wrap");
  if (!s) s = project_job_setting(p, "cls_names_to_wrap", "cls_names_to_wrap");
  bool is_sharded = a->strategy == PLIM_SHARD_FSDP2 && a->world > 1;
  if (!is_sharded || !s || s->value.kind != PLIM_VALUE_TEXT || strchr(s->value.text, ',')) return;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (strstr(s->value.text, parts[i])) {
      note(
          p, "unmodelled.units", "strategy",
          "FSDP wraps only %s, a part of each layer, so it gathers the rest of all layers at once; "
          "predicted with whole layers wrapped: the run needs more memory than predicted",
          s->value.text);
      plim_note_errs_low(&p->notes);
      return;
    }
}

static void note_world(project_job *p, const job_args *a) {
  const plim_project_knob *world = &p->project.knobs[PLIM_KNOB_WORLD];
  bool is_inferred = world->origin == PLIM_DEFAULTED && *world->why && a->world > 1;
  if (is_inferred && (int64_t)a->world == p->run.world.count)
    note(p, "assumed.gpus", "world", "assuming %llu GPUs: %s (--world N to change)",
         (unsigned long long)a->world, world->why);
}

static void note_loading(project_job *p, const job_args *a, const plim_setting *loads) {
  uint16_t release = job_release(a, PLIM_LIBRARY_TRANSFORMERS);
  if (release)
    note(p, "assumed.dtype", "dtype", "%s dtype: transformers %s %s",
         loads ? "from_pretrained sets no" : "the files set no", plim_release_words(release).text,
         release < PLIM_RELEASE(5, 0) ? "loads float32" : "uses the checkpoint's dtype");
  else
    note(p, "assumed.dtype", "dtype",
         "%s dtype: assuming transformers 5, which uses the checkpoint's dtype (version 4 loads "
         "float32)",
         loads ? "from_pretrained sets no" : "the files set no");
  for (size_t i = 0; loads && i < p->project.files.len; i++) {
    const plim_settings *s = &p->project.files.at[i]->settings;
    if (s->at.len && loads >= s->at.at && loads < s->at.at + s->at.len)
      plim_note_at(&p->notes, p->project.files.at[i]->path, loads->line);
  }
}

// Without a dtype, transformers 4 loads float32 and version 5 the checkpoint's dtype.
static void note_type(project_job *p, const job_args *a) {
  bool is_open = p->run.dtype.origin <= PLIM_DEFAULTED && !job_is_typed(a, &a->dtype);
  const plim_setting *loads = project_job_setting(p, "Model", ".pretrained_model_name_or_path");
  if (is_open && project_job_leaves_dtype(p, a)) note_loading(p, a, loads);
}

// Notes settings that are unclear; the prediction uses their defaults.
static void note_unclear(project_job *p, const job_args *a) {
  static const struct {
    plim_knob knob;
    const char *what, *taken;
    size_t at; // of job_args
  } words[] = {
      {PLIM_KNOB_CHECKPOINT, "checkpointing", "off", offsetof(job_args, checkpoint)},
      {PLIM_KNOB_PRECISION, "the precision", "none", offsetof(job_args, amp)},
      {PLIM_KNOB_DTYPE, "the dtype of the parameters", "bf16", offsetof(job_args, dtype)},
      {PLIM_KNOB_QUANTISATION, "the quantisation", "plain", offsetof(job_args, weights)},
      {PLIM_KNOB_LORA_TARGETS, "which layers have adapters", "all-linear",
       offsetof(job_args, lora_targets)},
  };
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    const plim_project_knob *k = &p->project.knobs[words[i].knob];
    bool has_no_adapters = words[i].knob == PLIM_KNOB_LORA_TARGETS && !a->lora_rank;
    if (k->origin != PLIM_UNCLEAR || has_no_adapters) continue;
    if (job_is_typed(a, (const char *)a + words[i].at)) continue;
    note(p, "unclear.value", plim_knob_table[words[i].knob].name,
         "%s is not clear: %s; assuming %s", words[i].what, k->why, words[i].taken);
    if (k->place_count)
      plim_note_at(&p->notes, p->project.files.at[k->places[0].file]->path,
                   k->places[0].setting->line);
  }
}

static void note_stage(project_job *p) {
  for (int i = 0; i < PLIM_KNOBS; i++) {
    const plim_project_knob *k = &p->project.knobs[i];
    if (!k->differs || k->origin != PLIM_EXPLICIT) continue;
    const char *file = p->project.files.at[k->places[0].file]->path;
    note(p, "assumed.stage", plim_knob_table[i].name,
         "the files are stages of one training with different settings: predicted for the stage "
         "that needs most memory, %s",
         file);
    plim_note_at(&p->notes, file, k->places[0].setting->line);
    return;
  }
}

// With adapters, Axolotl compares unfrozen_parameters with names that begin with base_model.model (utils/freeze.py, which
// train.py calls last).
static void note_nothing_trained(project_job *p, const char *file) {
  note(p, "reads.unfrozen_parameters", NULL,
       "unfrozen_parameters: with adapters, the names of all parameters begin with "
       "base_model.model, which none of these expressions fits, so Axolotl freezes the adapters "
       "too and trains nothing; predicted as if the adapters were trained. Remove "
       "unfrozen_parameters");
  plim_note_at(&p->notes, file, 0);
}

// Notes what changes memory or time but is not modelled.
static void note_unmodelled(project_job *p, const job_args *a) {
  plim_project_note_refusals(&p->project, &p->notes);
  plim_project_note_keys(&p->project, a->world <= 1, &p->notes);
  const char *freezes = plim_project_freezes(&p->project);
  bool is_known = project_job_knows_trained(p, a);
  if (freezes && is_known && a->lora_rank) note_nothing_trained(p, freezes);
  bool adapts = plim_project_adapts(&p->project);
  if (freezes && !is_known)
    note(p, "unmodelled.freeze", NULL,
         adapts
             ? "%s freezes parameters by name, beside adapters, which is not modelled: predicted "
               "with the adapters alone; the run may need more or less memory and time"
             : "%s freezes parameters; predicted as if all of them were trained, which needs more "
               "memory and time than the run",
         freezes),
        plim_note_at(&p->notes, freezes, 0);
  if (freezes && !is_known && !adapts) plim_note_errs_high(&p->notes);
  if (freezes && !is_known && adapts) plim_note_errs_either(&p->notes);
  if (is_on(p->run.compile))
    note(p, "unmodelled.compile", "compile",
         "torch.compile is not modelled: predicted without it; the run takes less time and mostly "
         "needs less memory than predicted");
  bool empties =
      p->run.empty_cache.origin == PLIM_EXPLICIT || p->run.empty_cache.origin == PLIM_DEFAULTED;
  if (empties && p->run.empty_cache.count > 0)
    note(p, "unmodelled.empty_cache", "empty_cache",
         "emptying the cache every %lld steps is not modelled: predicted without it",
         (long long)p->run.empty_cache.count);
}

// ---- missing settings -------------------------------------------------------------------------------

static void batch_words(const job_args *a, char *text, size_t size) {
  snprintf(text, size, "micro batch (%llu)", (unsigned long long)a->batch);
}

static void precision_words(const job_args *a, char *text, size_t size) {
  snprintf(text, size, "precision (%s)", a->amp ? job_amps[a->amp] : "no autocast");
}

static void adapter_words(const job_args *a, char *text, size_t size) {
  if (a->lora_rank) snprintf(text, size, "adapters (rank %llu)", (unsigned long long)a->lora_rank);
  else snprintf(text, size, "adapters (none%s)", a->trained ? "" : ": all parameters are trained");
}

static void checkpoint_words(const job_args *a, char *text, size_t size) {
  bool is_on = a->checkpoint || a->reentrant;
  snprintf(text, size, "checkpointing (%s)", is_on ? "on" : "off");
}

// Notes settings that the files do not set. One missing setting is normal; several suggest a truncated or wrong file.
static void note_absent(project_job *p, const job_args *a) {
  static const struct {
    plim_knob knob;
    size_t at; // of job_args
    void (*words)(const job_args *a, char *text, size_t size);
  } usual[] = {
      {PLIM_KNOB_MICRO_BATCH, offsetof(job_args, batch), batch_words},
      {PLIM_KNOB_PRECISION, offsetof(job_args, amp), precision_words},
      {PLIM_KNOB_LORA_RANK, offsetof(job_args, lora_rank), adapter_words},
      {PLIM_KNOB_CHECKPOINT, offsetof(job_args, checkpoint), checkpoint_words},
  };
  char list[200] = "";
  int count = 0, open = 0; // open: the framework has no default
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
    plim_origin origin = p->project.knobs[usual[i].knob].origin;
    bool is_typed = job_is_typed(a, (const char *)a + usual[i].at);
    size_t used = strlen(list);
    if (origin >= PLIM_UNCLEAR || is_typed) continue;
    open += origin == PLIM_ABSENT;
    char words[48];
    usual[i].words(a, words, sizeof words);
    snprintf(list + used, sizeof list - used, "%s%s", count++ ? ", " : "", words);
  }
  if (count < LEFT_OUT) return;
  if (open || p->project.dialect == PLIM_DIALECTS)
    note(p, "assumed.defaults", NULL, "not set in the files, so assumed: %s", list);
  else
    note(p, "assumed.defaults", NULL, "not set in the files, so the defaults of %s count: %s",
         plim_dialect_table[p->project.dialect].name, list);
}

// The trainer's default counts unless a flag on the command line sets it.
static void note_command(project_job *p, const job_args *a) {
  char command[200];
  bool is_set = p->project.knobs[PLIM_KNOB_MICRO_BATCH].origin >= PLIM_UNCLEAR;
  if (is_set || job_is_typed(a, &a->batch)) return;
  if (!plim_project_ask_command(&p->project, PLIM_KNOB_MICRO_BATCH, command, sizeof command))
    return;
  note(p, "assumed.command", "micro_batch",
       "%.160s reads flags from its command line, which the files do not show; assuming its "
       "defaults. Give the launch command: %s",
       plim_project_script_with_flags(&p->project), command);
}

void project_job_place_notes(const project_job *p, plim_notes *notes) {
  for (size_t i = 0; i < notes->list.len; i++) {
    plim_note *n = &notes->list.at[i];
    bool is_of_files = strcmp(n->code, "no_effect") == 0 && n->knob && !n->file;
    const plim_project_knob *k = is_of_files ? &p->project.knobs[plim_knob_named(n->knob)] : NULL;
    if (!k || !k->place_count || !k->places[0].setting) continue;
    n->file = strdup(p->project.files.at[k->places[0].file]->path);
    n->line = k->places[0].setting->line;
    if (!n->file) notes->has_no_memory = true;
  }
}

void project_job_note_open(project_job *p, const job_args *a) {
  note_stage(p);
  note_unclear(p, a);
  note_unmodelled(p, a);
  project_job_note_code(p, a);
  note_type(p, a);
  note_world(p, a);
  project_job_note_ecosystem(p, a);
  note_upcast(p, a);
  note_version_1(p, a);
  note_units(p, a);
  note_absent(p, a);
  note_command(p, a);
  project_job_note_eval_batch(p);
}
