// Settings that a later release no longer has: they say which versions the files were written for.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "key_names.h"
#include "project_job.h"

// From the classes in the wheels of TRL 0.19 to 1.16 and of transformers 4.57 to 5.23: the first release whose class lacks
// the field, or the value. check_conflicts.c has the fields that only newer releases than those predicted by default lack.
static const struct {
  const char *key, *value; // value NULL: any
  const char *class;
  plim_method method; // PLIM_METHODS: any
  plim_library library;
  uint16_t without;
} removed[] = {
#define TRL PLIM_LIBRARY_TRL
#define TRANSFORMERS PLIM_LIBRARY_TRANSFORMERS
    {"packing_strategy", "ffd", "sftconfig", PLIM_METHOD_TEXTS, TRL, PLIM_RELEASE(0, 20)},
    {"max_seq_length", NULL, "sftconfig", PLIM_METHOD_TEXTS, TRL, PLIM_RELEASE(0, 20)},
    {"torch_dtype", NULL, "modelconfig", PLIM_METHODS, TRL, PLIM_RELEASE(0, 27)},
    {"max_prompt_length", NULL, "dpoconfig", PLIM_METHOD_DPO, TRL, PLIM_RELEASE(0, 29)},
    {"max_completion_length", NULL, "dpoconfig", PLIM_METHOD_DPO, TRL, PLIM_RELEASE(0, 29)},
    {"generate_during_eval", NULL, "dpoconfig", PLIM_METHOD_DPO, TRL, PLIM_RELEASE(0, 29)},
    {"rpo_alpha", NULL, "dpoconfig", PLIM_METHOD_DPO, TRL, PLIM_RELEASE(0, 29)},
    {"reference_free", NULL, "dpoconfig", PLIM_METHOD_DPO, TRL, PLIM_RELEASE(0, 29)},
    {"base_model_attribute_name", NULL, "dpoconfig", PLIM_METHOD_DPO, TRL, PLIM_RELEASE(0, 29)},
    {"force_use_ref_model", NULL, "dpoconfig", PLIM_METHOD_DPO, TRL, PLIM_RELEASE(0, 29)},
    {"label_pad_token_id", NULL, "dpoconfig", PLIM_METHOD_DPO, TRL, PLIM_RELEASE(0, 29)},
    {"model_adapter_name", NULL, "dpoconfig", PLIM_METHOD_DPO, TRL, PLIM_RELEASE(0, 29)},
    {"ref_adapter_name", NULL, "dpoconfig", PLIM_METHOD_DPO, TRL, PLIM_RELEASE(0, 29)},
    {"ref_model_init_kwargs", NULL, "dpoconfig", PLIM_METHOD_DPO, TRL, PLIM_RELEASE(0, 29)},
    {"use_logits_to_keep", NULL, "dpoconfig", PLIM_METHOD_DPO, TRL, PLIM_RELEASE(0, 29)},
    {"use_liger_loss", NULL, "dpoconfig", PLIM_METHOD_DPO, TRL, PLIM_RELEASE(0, 28)},
    {"padding_value", NULL, "dpoconfig", PLIM_METHOD_DPO, TRL, PLIM_RELEASE(0, 26)},
    {"max_prompt_length", NULL, "ktoconfig", PLIM_METHOD_KTO, TRL, PLIM_RELEASE(0, 27)},
    {"max_completion_length", NULL, "ktoconfig", PLIM_METHOD_KTO, TRL, PLIM_RELEASE(0, 27)},
    {"truncation_mode", NULL, "ktoconfig", PLIM_METHOD_KTO, TRL, PLIM_RELEASE(0, 27)},
    {"label_pad_token_id", NULL, "ktoconfig", PLIM_METHOD_KTO, TRL, PLIM_RELEASE(0, 28)},
    {"padding_value", NULL, "ktoconfig", PLIM_METHOD_KTO, TRL, PLIM_RELEASE(0, 28)},
    {"ref_model_init_kwargs", NULL, "ktoconfig", PLIM_METHOD_KTO, TRL, PLIM_RELEASE(0, 28)},
    {"use_liger_loss", NULL, "ktoconfig", PLIM_METHOD_KTO, TRL, PLIM_RELEASE(0, 28)},
    {"max_prompt_length", NULL, "orpoconfig", PLIM_METHOD_ORPO, TRL, PLIM_RELEASE(0, 28)},
    {"label_pad_token_id", NULL, "orpoconfig", PLIM_METHOD_ORPO, TRL, PLIM_RELEASE(0, 28)},
    {"gradient_checkpointing_use_reentrant", NULL, "scriptarguments", PLIM_METHODS, TRL,
     PLIM_RELEASE(0, 27)},
    {"overwrite_output_dir", NULL, "trainingarguments", PLIM_METHODS, TRANSFORMERS,
     PLIM_RELEASE(5, 0)},
    {"warmup_ratio", NULL, "trainingarguments", PLIM_METHODS, TRANSFORMERS, PLIM_RELEASE(5, 15)},
    {"save_safetensors", NULL, "trainingarguments", PLIM_METHODS, TRANSFORMERS, PLIM_RELEASE(5, 0)},
    {"half_precision_backend", NULL, "trainingarguments", PLIM_METHODS, TRANSFORMERS,
     PLIM_RELEASE(5, 0)},
#define OF_TRAINER(key)                                                                            \
  { key, NULL, "trainingarguments", PLIM_METHODS, TRANSFORMERS, PLIM_RELEASE(5, 0) }
    OF_TRAINER("no_cuda"),
    OF_TRAINER("adafactor"),
    OF_TRAINER("fp16_backend"),
    OF_TRAINER("fp16_opt_level"),
    OF_TRAINER("fsdp_min_num_params"),
    OF_TRAINER("fsdp_transformer_layer_cls_to_wrap"),
    OF_TRAINER("include_inputs_for_metrics"),
    OF_TRAINER("include_tokens_per_second"),
    OF_TRAINER("jit_mode_eval"),
    OF_TRAINER("past_index"),
    OF_TRAINER("per_gpu_train_batch_size"),
    OF_TRAINER("push_to_hub_model_id"),
    OF_TRAINER("push_to_hub_token"),
    OF_TRAINER("ray_scope"),
    OF_TRAINER("torchdynamo"),
    OF_TRAINER("use_mps_device"),
    {"group_by_length", NULL, "trainingarguments", PLIM_METHODS, TRANSFORMERS, PLIM_RELEASE(5, 2)},
#undef OF_TRAINER
#undef TRL
#undef TRANSFORMERS
};

// An argument of the class, or a key of a file whose keys are the fields of the class.
static bool is_field(const plim_project_file *f, const plim_setting *s, const char *key,
                     const char *class, bool has_script) {
  char name[PLIM_KEY_BYTES], called[96];
  if (s->is_aside || s->is_faint) return false;
  plim_key_name(s->key, name);
  snprintf(called, sizeof called, "%s.%s", class, key);
  if (f->settings.format == PLIM_FORMAT_PYTHON) return plim_key_fits(name, called, true);
  return !has_script && strcmp(name, key) == 0;
}

static const plim_setting *find_field(const project_job *p, const char *key, const char *class,
                                      const char **file) {
  bool has_script = plim_project_has_script(&p->project);
  for (size_t i = 0; i < p->project.files.len; i++) {
    const plim_project_file *f = p->project.files.at[i];
    for (size_t k = 0; k < f->settings.at.len; k++)
      if (is_field(f, &f->settings.at.at[k], key, class, has_script)) {
        *file = f->path;
        return &f->settings.at.at[k];
      }
  }
  return NULL;
}

static bool has_value(const plim_setting *s, const char *value) {
  return !value || (s->value.kind == PLIM_VALUE_TEXT && strcmp(s->value.text, value) == 0);
}

// The newest release before `without`, of those that the project allows; 0: it allows none.
static uint16_t newest_before(const plim_pin *pin, plim_library library, uint16_t without) {
  char text[96];
  bool is_known;
  snprintf(text, sizeof text, "%s%s<%s", pin->asked, *pin->asked ? "," : "",
           plim_release_words(without).text);
  uint16_t release = plim_release_allowed(library, text, strlen(text), &is_known);
  return is_known ? release : 0;
}

// The release that is predicted because newer ones are excluded; 0: they are not, or nothing is open.
static uint16_t narrow(job_args *a, plim_library library, uint16_t without, const char *file,
                       int line) {
  plim_pin *pin = &a->pins.of[library];
  uint16_t release = newest_before(pin, library, without);
  bool is_open = !pin->release || pin->oldest < pin->release;
  if (pin->release && pin->release < without) return 0;
  if (!is_open || !release || job_release_is_typed(a, library)) return 0;
  if (!pin->release) {
    *pin = (plim_pin){.line = line};
    snprintf(pin->file, sizeof pin->file, "%.255s", file);
  }
  pin->is_known = pin->is_narrowed = true;
  pin->release = release;
  if (!pin->oldest) pin->oldest = release;
  return release;
}

static const char *name_of(plim_library library) {
  return library == PLIM_LIBRARY_TRL ? "TRL" : plim_library_names[library];
}

// LLaMA-Factory (hparams/parser.py) lets HfArgumentParser refuse what no class has.
static void note_refused_key(project_job *p, const job_args *a, size_t row, const char *file,
                             int line) {
  plim_library library = removed[row].library;
  uint16_t release = job_release(a, library);
  if (p->project.dialect != PLIM_DIALECT_LLAMA_FACTORY || release < removed[row].without) return;
  plim_note_add(&p->notes, "stops.removed", NULL,
                "%s has no %s since %s, and LLaMA-Factory refuses keys that it does not have, so "
                "the run will not start with %s %s; remove it, or install an older version",
                name_of(library), removed[row].key, plim_release_words(removed[row].without).text,
                name_of(library), plim_release_words(release).text);
  plim_note_at(&p->notes, file, line);
}

static void narrow_by_key(project_job *p, job_args *a, size_t row) {
  const char *file = NULL, *key = removed[row].key, *value = removed[row].value;
  plim_library library = removed[row].library;
  const plim_setting *s = find_field(p, key, removed[row].class, &file);
  if (!s || !has_value(s, value)) return;
  uint16_t release = narrow(a, library, removed[row].without, file, s->line);
  if (!release) {
    note_refused_key(p, a, row, file, s->line);
    return;
  }
  plim_note_add(&p->notes, library == PLIM_LIBRARY_TRL ? "assumed.trl" : "assumed.transformers",
                NULL,
                "%s has no %s%s%s since %s: predicted as %s %s, the newest version that has it",
                name_of(library), key, value ? ": " : "", value ? value : "",
                plim_release_words(removed[row].without).text, name_of(library),
                plim_release_words(release).text);
  plim_note_at(&p->notes, file, s->line);
}

// Names that `import trl` no longer has, from the __init__.py of the wheels of TRL 0.12 to 1.9: those of the trainers that moved to
// trl.experimental, which their own folder there still has, and functions that were removed.
static const struct {
  const char *name;
  uint16_t without;
} gone[] = {
    {"DataCollatorForCompletionOnlyLM", PLIM_RELEASE(0, 20)},
    {"setup_chat_format", PLIM_RELEASE(0, 26)},
    {"ORPOConfig", PLIM_RELEASE(0, 29)},
    {"ORPOTrainer", PLIM_RELEASE(0, 29)},
    {"CPOConfig", PLIM_RELEASE(0, 29)},
    {"CPOTrainer", PLIM_RELEASE(0, 29)},
    {"PRMConfig", PLIM_RELEASE(0, 29)},
    {"PRMTrainer", PLIM_RELEASE(0, 29)},
    {"PPOConfig", PLIM_RELEASE(0, 29)},
    {"BCOConfig", PLIM_RELEASE(0, 29)},
    {"OnlineDPOConfig", PLIM_RELEASE(0, 29)},
    {"XPOConfig", PLIM_RELEASE(0, 29)},
    {"NashMDConfig", PLIM_RELEASE(0, 29)},
};

typedef struct {
  const plim_project_file *file;
  size_t row, byte; // of gone; its length: none is imported
} import_search;

// The one that went first. An import within a block may be a try, with another way for newer releases.
static void take_import(void *context, const plim_python_module *module) {
  import_search *s = context;
  bool is_in_block = module->byte && s->file->code.text[module->byte - 1] != '\n';
  for (size_t i = 0; i < s->row && !is_in_block; i++) {
    char name[64];
    int size = snprintf(name, sizeof name, "trl.%s", gone[i].name);
    if (module->dots || module->size != (size_t)size || memcmp(module->name, name, (size_t)size))
      continue;
    s->row = i, s->byte = module->byte;
  }
}

static void narrow_by_import(project_job *p, job_args *a, const plim_project_file *f) {
  enum { GONE = sizeof gone / sizeof *gone };
  import_search s = {f, GONE, 0};
  if (f->settings.format != PLIM_FORMAT_PYTHON) return;
  if (plim_python_modules(&f->code, take_import, &s)) p->notes.has_no_memory = true;
  if (s.row == GONE) return;
  plim_line_counter lines = {0};
  int line = plim_line_at(&lines, f->code.text, s.byte);
  uint16_t release = narrow(a, PLIM_LIBRARY_TRL, gone[s.row].without, f->path, line);
  if (!release) return;
  plim_note_add(&p->notes, "assumed.trl", NULL,
                "`from trl import %s` fails with TRL %s and newer; assuming TRL %s, the newest "
                "version that has it",
                gone[s.row].name, plim_release_words(gone[s.row].without).text,
                plim_release_words(release).text);
  plim_note_at(&p->notes, f->path, line);
}

// Packages that a library requires from one of its releases on, from the metadata of its wheels: transformers 4.57 requires
// huggingface-hub <1.0, and 5.0 requires >=1.3.
static void narrow_by_companion(project_job *p, job_args *a) {
  const plim_companion_pin *hub = &a->pins.hub;
  uint16_t release = hub->is_below_1 ? narrow(a, PLIM_LIBRARY_TRANSFORMERS, PLIM_RELEASE(5, 0),
                                              hub->file, hub->line)
                                     : 0;
  if (!release) return;
  plim_note_add(
      &p->notes, "assumed.transformers", NULL,
      "the project asks for huggingface-hub %s, and transformers 5 requires 1.3 or newer: "
      "predicted as transformers %s",
      hub->asked, plim_release_words(release).text);
  plim_note_at(&p->notes, hub->file, hub->line);
}

void project_job_narrow_releases(project_job *p, job_args *a) {
  plim_dialect dialect = p->project.dialect;
  plim_method method = plim_project_trains(&p->project).method;
  bool is_factory = dialect == PLIM_DIALECT_LLAMA_FACTORY;
  bool is_trainer = is_factory || dialect == PLIM_DIALECT_TRL || dialect == PLIM_DIALECT_HF;
  bool is_of_trl = dialect == PLIM_DIALECT_TRL || (!is_factory && method != PLIM_METHOD_TEXTS);
  narrow_by_companion(p, a);
  for (size_t i = 0; is_trainer && i < p->project.files.len; i++)
    narrow_by_import(p, a, p->project.files.at[i]);
  for (size_t i = 0; is_trainer && i < sizeof removed / sizeof *removed; i++) {
    bool is_its = removed[i].method == PLIM_METHODS || removed[i].method == method;
    // hparams/training_args.py has this one itself.
    bool is_own = is_factory && strcmp(removed[i].key, "overwrite_output_dir") == 0;
    if (is_its && !is_own && (is_of_trl || removed[i].library != PLIM_LIBRARY_TRL))
      narrow_by_key(p, a, i);
  }
}
