// Refuses runs that are not supported yet: preference and reward training, heads without a vocabulary, layers
// and sequences split over GPUs. Also finds frozen parameters.
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "project_impl.h"
#include "python_code.h"

// ---- ways to train ----------------------------------------------------------------------------------

#define PAIRS "both answers of a pair run through the model"
#define REFERENCE ", and through a frozen reference model"
#define GENERATES "answers are generated and scored between the steps"
#define SCORES "the head returns a score instead of logits over the vocabulary"
#define TEACHER "a second model is the teacher"

// Names as in trl's NAMETrainer, `trl NAME`, NAME.py, `rl: NAME` and `stage: NAME`.
static const struct {
  const char *name, *why;
} methods[] = {
    {"dpo", PAIRS REFERENCE}, {"ipo", PAIRS REFERENCE}, {"kto", PAIRS REFERENCE},
    {"bco", PAIRS REFERENCE}, {"orpo", PAIRS},          {"cpo", PAIRS},
    {"simpo", PAIRS},         {"grpo", GENERATES},      {"gspo", GENERATES},
    {"rloo", GENERATES},      {"ppo", GENERATES},       {"reinforce", GENERATES},
    {"onlinedpo", GENERATES}, {"nashmd", GENERATES},    {"xpo", GENERATES},
    {"reward", SCORES},       {"rm", SCORES},           {"prm", SCORES},
    {"gkd", TEACHER},         {"minillm", TEACHER},
};
enum { METHODS = sizeof methods / sizeof *methods };

typedef struct {
  size_t file; // SIZE_MAX: none
  size_t method;
  char word[96]; // as the file has it
} finding;

// The method for a word such as "DPO" or "online_dpo"; METHODS if there is none.
static size_t method_named(const char *word, size_t size) {
  char plain[32];
  size_t n = 0;
  for (size_t i = 0; i < size && n + 1 < sizeof plain; i++)
    if (word[i] != '_' && word[i] != '-') plain[n++] = (char)tolower((unsigned char)word[i]);
  plain[n] = 0;
  size_t i = 0;
  while (i < METHODS && strcmp(methods[i].name, plain) != 0) i++;
  return i;
}

static void keep(finding *f, size_t file, size_t method, const char *word, size_t size) {
  *f = (finding){file, method, ""};
  snprintf(f->word, sizeof f->word, "%.*s", (int)size, word);
}

// ---- Python -----------------------------------------------------------------------------------------

static bool ends_with(const char *name, size_t size, const char *ending) {
  size_t n = strlen(ending);
  return size >= n && memcmp(name + size - n, ending, n) == 0;
}

// Whether a class is called or inherited from, not only imported.
static bool is_used(const plim_python_name *name) { return name->is_called || name->is_base; }

static void each_name(const plim_project_file *f, plim_python_each *each, void *context) {
  plim_python_names(&f->code, each, context);
}

static bool take_trainer(void *context, const plim_python_name *name) {
  static const char *const endings[] = {"Trainer", "Config"};
  finding *out = context;
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    if (!is_used(name) || !ends_with(name->text, name->size, endings[i])) continue;
    size_t method = method_named(name->text, name->size - strlen(endings[i]));
    if (method == METHODS) continue;
    keep(out, out->file, method, name->text, name->size);
    return false;
  }
  return true;
}

static bool find_trainer(const plim_project *p, size_t file, finding *out) {
  *out = (finding){.file = file};
  each_name(p->files.at[file], take_trainer, out);
  return *out->word;
}

typedef struct {
  const char *class;
  bool is_found;
} class_search;

static bool take_class(void *context, const plim_python_name *name) {
  class_search *s = context;
  bool is_it = name->size == strlen(s->class) && memcmp(name->text, s->class, name->size) == 0;
  s->is_found = is_it && is_used(name);
  return !s->is_found;
}

static bool uses(const plim_project_file *f, const char *class) {
  class_search search = {class, false};
  each_name(f, take_class, &search);
  return search.is_found;
}

// ---- command lines ----------------------------------------------------------------------------------

// The name of a file without its folders.
static const char *base_of(const char *path, size_t size) {
  const char *at = path + size;
  while (at > path && at[-1] != '/') at--;
  return at;
}

static bool is_read(const plim_project *p, const char *script, size_t size) {
  const char *base = base_of(script, size);
  size_t n = (size_t)(script + size - base);
  for (size_t i = 0; i < p->files.len; i++) {
    const char *path = p->files.at[i]->path, *other = base_of(path, strlen(path));
    if (strlen(other) == n && memcmp(other, base, n) == 0) return true;
  }
  return false;
}

// The method of a script that is missing, by its name: examples/scripts/dpo.py, run_orpo.py.
static size_t method_of_script(const char *word, size_t size) {
  static const char module[] = "trl.scripts."; // python -m trl.scripts.dpo
  size_t skip = sizeof module - 1;
  if (size > skip && memcmp(word, module, skip) == 0) return method_named(word + skip, size - skip);
  if (!ends_with(word, size, ".py")) return METHODS;
  const char *end = word + size - 3, *at = base_of(word, size);
  size_t whole = method_named(at, (size_t)(end - at));
  while (whole == METHODS && at < end) {
    size_t n = 0;
    while (at + n < end && at[n] != '_' && at[n] != '-') n++;
    whole = method_named(at, n);
    at += n + (at + n < end);
  }
  return whole;
}

static bool find_command(const plim_project *p, size_t file, finding *out) {
  static const char *const blanks = " \t\r\n\"'\\,[]";
  bool is_behind_trl = false;
  for (const char *at = p->files.at[file]->text; *at;) {
    at += strspn(at, blanks);
    size_t size = strcspn(at, blanks);
    if (*at == '#') size = strcspn(at, "\n");
    size_t method = is_behind_trl ? method_named(at, size) : method_of_script(at, size);
    if (size && *at != '#' && method < METHODS && (is_behind_trl || !is_read(p, at, size))) {
      keep(out, file, method, at, size);
      return true;
    }
    is_behind_trl = size == 3 && memcmp(at, "trl", 3) == 0;
    at += size;
  }
  return false;
}

// ---- settings ---------------------------------------------------------------------------------------

// Finds a method in settings such as `rl: dpo` and `stage: rm`.
static bool find_setting(const plim_project *p, finding *out) {
  const plim_project_knob *k = &p->knobs[PLIM_KNOB_LOSS_KIND];
  bool is_known = k->origin == PLIM_EXPLICIT && k->value.kind == PLIM_VALUE_TEXT && k->place_count;
  if (!is_known) return false;
  bool is_other = strcmp(k->value.text, "preference") == 0 || strcmp(k->value.text, "other") == 0;
  if (!is_other) return false;
  const plim_setting *setting = k->places[0].setting;
  char text[64];
  plim_value_print(&setting->value, text, sizeof text);
  *out = (finding){k->places[0].file, method_named(text, strlen(text)), ""};
  snprintf(out->word, sizeof out->word, "%.40s %.40s", setting->key, text);
  return true;
}

static bool find_method(const plim_project *p, finding *out) {
  *out = (finding){.file = SIZE_MAX};
  if (find_setting(p, out)) return true;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    bool is_code = f->settings.format == PLIM_FORMAT_PYTHON;
    if (is_code && !uses(f, "SFTTrainer") && !uses(f, "Trainer") && find_trainer(p, i, out))
      return true;
    if (plim_is_command(f) && find_command(p, i, out)) return true;
  }
  return false;
}

static plim_err refuse_method(const plim_project *p, const finding *f, plim_error *error) {
  const char *why =
      f->method < METHODS ? methods[f->method].why : "it is not supervised fine-tuning";
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                           "this kind of training is not supported yet (%s): %s", f->word, why);
  plim_error_hint(error, "to run your own program on a simulated GPU instead: plimsoll simulate "
                         "--gpu GPU -- python train.py");
  return plim_error_file_of(p, f->file, err, error);
}

// ---- heads ------------------------------------------------------------------------------------------

static const char *const heads[] = {
    "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering",
    "ForMultipleChoice",         "ForImageClassification", "ForAudioClassification",
    "ForImageTextToText",        "ForVision2Seq",          "ForSpeechSeq2Seq",
    "ForCausalLMWithValueHead",  "ForObjectDetection",     "ForSemanticSegmentation",
};
static const char *const modelled[] = {"ForCausalLM", "ForMaskedLM", "ForSeq2SeqLM",
                                       "ForConditionalGeneration"};

static bool is_among(const char *name, size_t size, const char *const *endings, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (ends_with(name, size, endings[i])) return true;
  return false;
}

typedef struct {
  finding *out;
  bool has_other, is_found;
} head_search;

static bool take_head(void *context, const plim_python_name *name) {
  head_search *s = context;
  if (!name->is_called && !name->has_attribute) return true;
  if (is_among(name->text, name->size, modelled, sizeof modelled / sizeof *modelled))
    s->has_other = true;
  if (!is_among(name->text, name->size, heads, sizeof heads / sizeof *heads)) return true;
  if (!s->is_found) keep(s->out, s->out->file, METHODS, name->text, name->size);
  s->is_found = true;
  return true;
}

// Finds AutoModelForSequenceClassification.from_pretrained(...), or another use of such a class.
static bool find_head(const plim_project *p, size_t file, finding *out) {
  *out = (finding){.file = file};
  head_search search = {.out = out};
  each_name(p->files.at[file], take_head, &search);
  return search.is_found && !search.has_other;
}

// Example scripts of transformers: the name of a missing script tells which head it trains.
static const struct {
  const char *name, *class; // name: as in run_NAME.py, also as a prefix: run_qa_beam_search.py
} examples[] = {
    {"glue", "AutoModelForSequenceClassification"},
    {"classification", "AutoModelForSequenceClassification"},
    {"xnli", "AutoModelForSequenceClassification"},
    {"ner", "AutoModelForTokenClassification"},
    {"qa", "AutoModelForQuestionAnswering"},
    {"squad", "AutoModelForQuestionAnswering"},
    {"swag", "AutoModelForMultipleChoice"},
    {"image_classification", "AutoModelForImageClassification"},
    {"mae", "ViTMAEForPreTraining"},
    {"mim", "AutoModelForMaskedImageModeling"},
    {"audio_classification", "AutoModelForAudioClassification"},
    {"speech_recognition", "AutoModelForCTC or AutoModelForSpeechSeq2Seq"},
    {"wav2vec2", "Wav2Vec2ForPreTraining"},
    {"semantic_segmentation", "AutoModelForSemanticSegmentation"},
    {"instance_segmentation", "AutoModelForUniversalSegmentation"},
    {"object_detection", "AutoModelForObjectDetection"},
    {"clip", "VisionTextDualEncoderModel"},
};

static const char *head_of_example(const char *word, size_t size) {
  const char *base = base_of(word, size), *end = word + size;
  if (!ends_with(word, size, ".py") || end - base < 7 || memcmp(base, "run_", 4) != 0) return NULL;
  const char *name = base + 4;
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
    size_t n = strlen(examples[i].name);
    bool fits = (size_t)(end - name) > n && memcmp(name, examples[i].name, n) == 0;
    if (fits && (name[n] == '.' || name[n] == '_')) return examples[i].class;
  }
  return NULL;
}

static bool find_example(const plim_project *p, size_t file, finding *out) {
  static const char *const blanks = " \t\r\n\"'\\,[]";
  for (const char *at = p->files.at[file]->text; *at;) {
    at += strspn(at, blanks);
    size_t size = *at == '#' ? strcspn(at, "\n") : strcspn(at, blanks);
    const char *class = *at == '#' || is_read(p, at, size) ? NULL : head_of_example(at, size);
    if (class) keep(out, file, METHODS, class, strlen(class));
    if (class) return true;
    at += size;
  }
  return false;
}

static plim_err refuse_head(const plim_project *p, const finding *f, plim_error *error) {
  plim_err err =
      plim_fail(error, PLIM_ERR_UNSUPPORTED, "the head of %s is not supported yet", f->word);
  plim_error_hint(error, "run your own program on a simulated GPU: plimsoll simulate --gpu GPU "
                         "-- python train.py; or predict the same layers with a language-modelling "
                         "head, which needs more memory: plimsoll estimate --model MODEL");
  return plim_error_file_of(p, f->file, err, error);
}

// ---- other kinds of parallelism ---------------------------------------------------------------------

static const struct {
  const char *key, *what;
} parallel[] = {
    {"pipeline_model_parallel_size", "pipeline parallelism"},
    {"pipeline_parallel_degree", "pipeline parallelism"},
    {"expert_model_parallel_size", "expert parallelism"},
    {"expert_parallel_degree", "expert parallelism"},
    {"sequence_parallel_degree", "sequence parallelism"},
    {"sequence_parallel_size", "sequence parallelism"},
    {"parallelism_config_sp_size", "sequence parallelism"},
    {"dp_replicate_size", "hybrid sharding (shards replicated between groups of GPUs)"},
    {"parallelism_config_dp_replicate_size",
     "hybrid sharding (shards replicated between groups of GPUs)"},
    {"data_parallel_replicate_degree",
     "hybrid sharding (shards replicated between groups of GPUs)"},
};

static plim_err refuse_parallel(const plim_project *p, size_t file, const plim_setting *setting,
                                const char *what, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s is not supported yet (%s)", what,
                           setting ? setting->key : "set in the files");
  plim_error_hint(error,
                  "remove it there; or, to plan with FSDP instead: plimsoll plan --model MODEL "
                  "--batch N --strategy fsdp2 --world N --gpu GPU");
  return plim_error_file_of(p, file, err, error);
}

static plim_err check_knob(const plim_project *p, plim_knob knob, const char *what,
                           plim_error *error) {
  const plim_project_knob *k = &p->knobs[knob];
  bool is_shared =
      k->origin == PLIM_UNCLEAR || (k->value.kind == PLIM_VALUE_INTEGER && k->value.integer > 1);
  if (!is_shared) return PLIM_OK;
  size_t file = k->place_count ? k->places[0].file : SIZE_MAX;
  return refuse_parallel(p, file, k->place_count ? k->places[0].setting : NULL, what, error);
}

static plim_err check_settings(const plim_project *p, size_t file, plim_error *error) {
  char name[PLIM_KEY_BYTES];
  const plim_settings *s = &p->files.at[file]->settings;
  for (size_t i = 0; i < s->at.len; i++) {
    const plim_setting *setting = &s->at.at[i];
    bool is_shared = setting->value.kind == PLIM_VALUE_INTEGER && setting->value.integer > 1;
    plim_key_name(setting->key, name);
    for (size_t k = 0; is_shared && k < sizeof parallel / sizeof *parallel; k++)
      if (plim_key_fits(name, parallel[k].key, true))
        return refuse_parallel(p, file, setting, parallel[k].what, error);
  }
  return PLIM_OK;
}

static plim_err check_parallel(const plim_project *p, plim_error *error) {
  plim_err err = check_knob(p, PLIM_KNOB_TENSOR_PARALLEL, "tensor parallelism", error);
  if (!err) err = check_knob(p, PLIM_KNOB_CONTEXT_PARALLEL, "context parallelism", error);
  for (size_t i = 0; !err && i < p->files.len; i++) err = check_settings(p, i, error);
  return err;
}

// ---- frozen parameters ------------------------------------------------------------------------------

static bool is_frozen_here(const plim_project_file *f) {
  return plim_python_has(&f->code, ".requires_grad=False") ||
         plim_python_has(&f->code, ".requires_grad_(False");
}

static const struct {
  const char *key, *value; // NULL: any
} freezes[] = {{"finetuning_type", "freeze"}, {"unfrozen_parameters.*", NULL}};

static bool is_frozen_by_key(const plim_settings *s) {
  char name[PLIM_KEY_BYTES];
  for (size_t i = 0; i < s->at.len; i++)
    for (size_t k = 0; k < sizeof freezes / sizeof *freezes; k++) {
      const plim_value *value = &s->at.at[i].value;
      plim_key_name(s->at.at[i].key, name);
      bool is_value = !freezes[k].value || (value->kind == PLIM_VALUE_TEXT &&
                                            strcmp(value->text, freezes[k].value) == 0);
      if (is_value && plim_key_fits(name, freezes[k].key, true)) return true;
    }
  return false;
}

const char *plim_project_freezes(const plim_project *p) {
  const plim_project_knob *rank = &p->knobs[PLIM_KNOB_LORA_RANK];
  if (rank->value.kind == PLIM_VALUE_INTEGER && rank->value.integer > 0) return NULL;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    bool is_code = f->settings.format == PLIM_FORMAT_PYTHON;
    bool is_frozen =
        is_code ? is_frozen_here(f) && !uses(f, "get_peft_model") : is_frozen_by_key(&f->settings);
    if (is_frozen) return f->path;
  }
  return NULL;
}

// ---- all of it --------------------------------------------------------------------------------------

plim_err plim_project_refuse_unmodelled(const plim_project *p, plim_error *error) {
  finding f;
  if (find_method(p, &f)) return refuse_method(p, &f, error);
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *at = p->files.at[i];
    bool is_other = at->settings.format == PLIM_FORMAT_PYTHON
                        ? find_head(p, i, &f)
                        : plim_is_command(at) && find_example(p, i, &f);
    if (is_other) return refuse_head(p, &f, error);
  }
  return check_parallel(p, error);
}
