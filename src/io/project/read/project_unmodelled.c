// Refuses runs that are not supported yet: preference and reward training, heads without a vocabulary, layers
// and sequences split over GPUs. Also finds frozen parameters.
#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "project_impl.h"
#include "project_keys.h"
#include "python_code.h"

// ---- ways to train ----------------------------------------------------------------------------------

#define PAIRS "both answers of a pair run through the model"
#define REFERENCE ", and through a frozen reference model"
#define GENERATES "answers are generated and scored between the steps"
#define SCORES "the head returns a score instead of logits over the vocabulary"
#define VALUES                                                                                     \
  "LLaMA-Factory's value head returns all logits and all hidden states beside the scores"
#define STEPS "the head returns a score for every token"
#define GROUPS "it generates several answers to each prompt, like GRPO, and scores them"
#define FEATURES "it generates answers and compares their features with those of the data"
#define TEACHER "a second model is the teacher"

// Names as in trl's NAMETrainer, `trl NAME`, NAME.py, `rl: NAME` and `stage: NAME`.
static const struct {
  const char *name, *why;
  plim_method method; // PLIM_METHOD_TEXTS: not supported yet
} methods[] = {
    {"dpo", PAIRS REFERENCE, PLIM_METHOD_DPO},
    {"ipo", PAIRS REFERENCE, PLIM_METHOD_DPO},
    {"kto", "each answer runs through the model" REFERENCE, PLIM_METHOD_KTO},
    {"bco", PAIRS REFERENCE},
    {"orpo", PAIRS, PLIM_METHOD_ORPO},
    {"cpo", PAIRS, PLIM_METHOD_CPO},
    {"simpo", PAIRS, PLIM_METHOD_SIMPO},
    {"grpo", GENERATES},
    {"gdpo", GROUPS},
    {"ebft", FEATURES},
    {"gspo", GENERATES},
    {"rloo", GENERATES},
    {"ppo", GENERATES},
    {"reinforce", GENERATES},
    {"onlinedpo", GENERATES},
    {"nashmd", GENERATES},
    {"xpo", GENERATES},
    {"reward", SCORES, PLIM_METHOD_REWARD},
    {"rm", VALUES},
    {"prm", STEPS, PLIM_METHOD_PRM},
    {"gkd", TEACHER},
    {"minillm", TEACHER},
    {"tpo", PAIRS},
    {"a2po", GENERATES},
    {"asyncgrpo", GENERATES},
    {"gmpo", GENERATES},
    {"sdpo", GENERATES},
    {"ssd", GENERATES},
    {"gold", TEACHER},
    {"sdft", TEACHER},
    {"iwopd", TEACHER},
    {"distillation", TEACHER},
    {"asyncdistillation", TEACHER},
    {"serverdistillation", TEACHER},
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

// A call of another trainer counts even if the script also uses SFTTrainer: it trains twice.
static bool trains_otherwise(const plim_project *p, size_t file, finding *out) {
  const plim_project_file *f = p->files.at[file];
  if (uses(f, "Trainer") || !find_trainer(p, file, out)) return false;
  bool is_called_trainer = ends_with(out->word, strlen(out->word), "Trainer");
  return is_called_trainer || !uses(f, "SFTTrainer");
}

// ---- scripts that do not train ----------------------------------------------------------------------

typedef struct {
  bool trains, evaluates;
} calls_made;

static bool take_call(void *context, const plim_python_name *name) {
  static const char *const training[] = {"train",    "train_*",    "*_train",     "fit",
                                         "backward", "training_*", "run_training"};
  static const char *const evaluation[] = {"evaluate", "predict"};
  calls_made *calls = context;
  char text[64];
  if (!name->is_called) return true;
  snprintf(text, sizeof text, "%.*s", (int)name->size, name->text);
  for (size_t i = 0; i < sizeof training / sizeof *training; i++)
    calls->trains |= fnmatch(training[i], text, 0) == 0;
  for (size_t i = 0; i < sizeof evaluation / sizeof *evaluation; i++)
    calls->evaluates |= strcmp(evaluation[i], text) == 0;
  return true;
}

// A script with TrainingArguments that calls evaluate() or predict(), and nothing that trains.
static plim_err refuse_evaluation(const plim_project *p, plim_error *error) {
  calls_made calls = {0};
  size_t script = SIZE_MAX;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    if (f->settings.format != PLIM_FORMAT_PYTHON) continue;
    each_name(f, take_call, &calls);
    script = i;
  }
  bool has_trainer = p->dialect != PLIM_DIALECTS && plim_dialect_table[p->dialect].has_trainer;
  if (!has_trainer || calls.trains || !calls.evaluates) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                           "the script only evaluates: it calls evaluate() or predict(), but not "
                           "train()");
  plim_error_hint(error, "give the script that trains");
  return plim_error_file_of(p, script, err, error);
}

// ---- adapters other than LoRA -----------------------------------------------------------------------

// The configurations of peft 0.21 whose adapters are not on the tape.
static const char *const adapters[] = {
    "AdaLoraConfig",
    "AdamssConfig",
    "AdaptionPromptConfig",
    "BOFTConfig",
    "BeftConfig",
    "C3AConfig",
    "CPTConfig",
    "CartridgeConfig",
    "DeftConfig",
    "DeloraConfig",
    "FourierFTConfig",
    "FrodConfig",
    "GloraConfig",
    "GraloraConfig",
    "HRAConfig",
    "HiraConfig",
    "IA3Config",
    "LNTuningConfig",
    "LilyConfig",
    "LoHaConfig",
    "LoKrConfig",
    "MissConfig",
    "MultitaskPromptTuningConfig",
    "OFTConfig",
    "OSFConfig",
    "PeanutConfig",
    "PolyConfig",
    "PrefixTuningConfig",
    "PromptTuningConfig",
    "PromptEncoderConfig",
    "PsoftConfig",
    "PveraConfig",
    "RandLoraConfig",
    "RoadConfig",
    "ShadowConfig",
    "ShiraConfig",
    "SupertuningConfig",
    "TinyLoraConfig",
    "TrainableTokensConfig",
    "UniLoraConfig",
    "VBLoRAConfig",
    "VeraConfig",
    "WaveFTConfig",
    "XLoraConfig",
    "BoneConfig",
};

// A script that also has a LoraConfig chooses between them.
static plim_err refuse_adapters(const plim_project *p, size_t file, plim_error *error) {
  const plim_project_file *f = p->files.at[file];
  if (f->settings.format != PLIM_FORMAT_PYTHON || uses(f, "LoraConfig")) return PLIM_OK;
  for (size_t i = 0; i < sizeof adapters / sizeof *adapters; i++) {
    if (!uses(f, adapters[i])) continue;
    plim_err err =
        plim_fail(error, PLIM_ERR_UNSUPPORTED, "adapters of %s are not supported yet", adapters[i]);
    plim_error_hint(error, "to run your own program on a simulated GPU instead: plimsoll simulate "
                           "--gpu GPU -- python train.py");
    return plim_error_file_of(p, file, err, error);
  }
  return PLIM_OK;
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
  const char *name = strcmp(setting->key, "reward_model") == 0           ? "reward"
                     : strcmp(setting->key, "process_reward_model") == 0 ? "prm"
                                                                         : text;
  *out = (finding){k->places[0].file, method_named(name, strlen(name)), ""};
  snprintf(out->word, sizeof out->word, "%.40s %.40s", setting->key, text);
  return true;
}

static const plim_setting *setting_named(const plim_project *p, const char *key) {
  char name[PLIM_KEY_BYTES];
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_settings *s = &p->files.at[i]->settings;
    for (size_t k = 0; k < s->at.len; k++) {
      plim_key_name(s->at.at[k].key, name);
      if (plim_key_fits(name, key, true)) return &s->at.at[k];
    }
  }
  return NULL;
}

// A loss that compares answers; *method becomes its method. Those of DPO differ only in a few numbers for each pair.
static const plim_setting *loss_of_pairs(const plim_project *p, size_t *method) {
  static const struct {
    const char *loss, *method;
  } losses[] = {
      {"sigmoid", "dpo"},           {"hinge", "dpo"},        {"ipo", "dpo"},
      {"exo_pair", "dpo"},          {"nca_pair", "dpo"},     {"robust", "dpo"},
      {"bco_pair", "dpo"},          {"aot", "dpo"},          {"aot_unpaired", "dpo"},
      {"apo_zero", "dpo"},          {"apo_down", "dpo"},     {"sppo_hard", "dpo"},
      {"discopop", "dpo"},          {"sigmoid_norm", "dpo"}, {"kto", "kto"},
      {"apo_zero_unpaired", "kto"}, {"simpo", "simpo"},
  };
  const plim_setting *loss = setting_named(p, "loss_type");
  for (size_t i = 0; loss && i < sizeof losses / sizeof *losses; i++) {
    if (loss->value.kind != PLIM_VALUE_TEXT || strcmp(loss->value.text, losses[i].loss) != 0)
      continue;
    *method = method_named(losses[i].method, strlen(losses[i].method));
    return loss;
  }
  return NULL;
}

// A recipe that a script reads, such as alignment-handbook's: its keys show that pairs are compared, and its names how.
static bool find_pairs(const plim_project *p, finding *out) {
  static const char *const keys[] = {
      "beta",      "max_prompt_length", "reference_free",     "precompute_ref_log_probs",
      "rpo_alpha", "desirable_weight",  "undesirable_weight", "ref_model_name_or_path"};
  static const char *const names[] = {"output_dir", "hub_model_id", "run_name"};
  if (p->dialect != PLIM_DIALECT_HF && p->dialect != PLIM_DIALECT_TRL) return false;
  const plim_setting *key = NULL;
  for (size_t i = 0; !key && i < sizeof keys / sizeof *keys; i++) key = setting_named(p, keys[i]);
  size_t method =
      setting_named(p, "desirable_weight") ? method_named("kto", 3) : method_named("dpo", 3);
  const plim_setting *loss = loss_of_pairs(p, &method);
  if (!key) key = loss;
  if (!key) key = setting_named(p, "center_rewards_coefficient");
  if (!key) return false;
  if (setting_named(p, "center_rewards_coefficient")) method = method_named("reward", 6);
  if (setting_named(p, "num_generations")) method = method_named("grpo", 4);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const plim_setting *name = setting_named(p, names[i]);
    for (size_t k = 0; name && name->value.kind == PLIM_VALUE_TEXT && k < METHODS; k++)
      if (strlen(methods[k].name) > 2 && strcasestr(name->value.text, methods[k].name)) method = k;
  }
  *out = (finding){.file = 0, .method = method};
  snprintf(out->word, sizeof out->word, "%.60s", key->key);
  return true;
}

static bool find_method(const plim_project *p, finding *out) {
  *out = (finding){.file = SIZE_MAX};
  if (find_setting(p, out)) return true;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    bool is_code = f->settings.format == PLIM_FORMAT_PYTHON;
    if (is_code && trains_otherwise(p, i, out)) return true;
    if (plim_is_command(f) && find_command(p, i, out)) return true;
  }
  return find_pairs(p, out);
}

// ---- methods that are modelled ----------------------------------------------------------------------

// Settings of DPOConfig that TRL 1.0 no longer has.
static bool is_of_older_trl(const plim_project *p) {
  static const char *const keys[] = {"max_prompt_length", "max_completion_length",
                                     "max_target_length", "reference_free", "rpo_alpha"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (setting_named(p, keys[i])) return true;
  return false;
}

// LLaMA-Factory's stage dpo also has losses without a reference.
static plim_method method_of_factory(const plim_project *p, plim_method method) {
  const plim_setting *loss = setting_named(p, "pref_loss");
  if (method != PLIM_METHOD_DPO) return PLIM_METHOD_TEXTS;
  if (!loss) return PLIM_METHOD_DPO_FACTORY;
  if (loss->value.kind != PLIM_VALUE_TEXT) return PLIM_METHOD_TEXTS;
  return strcmp(loss->value.text, "orpo") == 0    ? PLIM_METHOD_ORPO_FACTORY
         : strcmp(loss->value.text, "simpo") == 0 ? PLIM_METHOD_SIMPO_FACTORY
                                                  : PLIM_METHOD_DPO_FACTORY;
}

plim_project_method plim_project_trains(const plim_project *p) {
  finding f;
  if (!find_method(p, &f) || f.method == METHODS) return (plim_project_method){0};
  plim_method method = methods[f.method].method;
  bool is_factory = p->dialect == PLIM_DIALECT_LLAMA_FACTORY;
  // Axolotl 0.19 requires TRL 1.9.
  bool is_older = p->dialect == PLIM_DIALECT_AXOLOTL || is_of_older_trl(p);
  if (is_factory) method = method_of_factory(p, method);
  bool is_known = p->dialect == PLIM_DIALECT_TRL || p->dialect == PLIM_DIALECT_HF ||
                  p->dialect == PLIM_DIALECT_AXOLOTL || is_factory;
  const plim_setting *precomputes = setting_named(p, "precompute_ref_log_probs");
  const plim_setting *centres = setting_named(p, "center_rewards_coefficient");
  const plim_setting *loss = setting_named(p, "loss_type");
  const char *kind = loss && loss->value.kind == PLIM_VALUE_TEXT ? loss->value.text : NULL;
  bool skips = kind && strcmp(kind, "apo_zero_unpaired") == 0;
  bool is_usual = !kind || skips || strcmp(kind, "sigmoid") == 0 || strcmp(kind, "kto") == 0 ||
                  strcmp(kind, "simpo") == 0;
  return (plim_project_method){.method = is_known ? method : PLIM_METHOD_TEXTS,
                               .holds_logits = is_older,
                               .centres_rewards = centres && centres->value.kind != PLIM_VALUE_NULL,
                               .skips_divergence = skips,
                               .loss = is_usual ? NULL : kind,
                               .is_precomputed = precomputes &&
                                                 precomputes->value.kind == PLIM_VALUE_BOOL &&
                                                 precomputes->value.flag};
}

static plim_err refuse_method(const plim_project *p, const finding *f, plim_error *error) {
  const char *why =
      f->method < METHODS ? methods[f->method].why : "it is not supervised fine-tuning";
  if (p->dialect == PLIM_DIALECT_LLAMA_FACTORY && f->method < METHODS &&
      methods[f->method].method != PLIM_METHOD_TEXTS)
    why = "LLaMA-Factory has its own trainer for it, which needs more memory than TRL's";
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                           "this kind of training is not supported yet (%s): %s", f->word, why);
  plim_error_hint(error, "to run your own program on a simulated GPU instead: plimsoll simulate "
                         "--gpu GPU -- python train.py");
  return plim_error_file_of(p, f->file, err, error);
}

// ---- heads ------------------------------------------------------------------------------------------

// Endings of transformers' classes. PLIM_HEADS: the head is not modelled.
static const struct {
  const char *ending;
  plim_head head;
} heads[] = {
    {"ForCausalLM", PLIM_HEAD_CAUSAL},
    {"ForSeq2SeqLM", PLIM_HEAD_CAUSAL},
    {"ForConditionalGeneration", PLIM_HEAD_CAUSAL},
    {"ForMaskedLM", PLIM_HEAD_MASKED},
    {"ForSequenceClassification", PLIM_HEAD_TEXTS},
    {"ForTokenClassification", PLIM_HEAD_TOKENS},
    {"ForQuestionAnswering", PLIM_HEAD_ANSWERS},
    {"ForMultipleChoice", PLIM_HEAD_CHOICES},
    {"ForImageClassification", PLIM_HEADS},
    {"ForAudioClassification", PLIM_HEADS},
    {"ForImageTextToText", PLIM_HEADS},
    {"ForVision2Seq", PLIM_HEADS},
    {"ForSpeechSeq2Seq", PLIM_HEADS},
    {"ForCausalLMWithValueHead", PLIM_HEADS},
    {"ForObjectDetection", PLIM_HEADS},
    {"ForSemanticSegmentation", PLIM_HEADS},
};
enum { HEADS = sizeof heads / sizeof *heads };

// The row of heads; HEADS: there is none.
static size_t head_of_class(const char *name, size_t size) {
  size_t i = 0;
  while (i < HEADS && !ends_with(name, size, heads[i].ending)) i++;
  return i;
}

// The classes of a script. Where it loads several, a language model comes first, then a head that is modelled.
typedef struct {
  finding *out;
  size_t row; // of heads
} head_search;

static bool take_head(void *context, const plim_python_name *name) {
  head_search *s = context;
  if (!name->is_called && !name->has_attribute) return true;
  size_t row = head_of_class(name->text, name->size);
  if (row >= s->row) return true;
  s->row = row;
  keep(s->out, s->out->file, METHODS, name->text, name->size);
  return true;
}

// Finds AutoModelForSequenceClassification.from_pretrained(...), or another use of such a class.
static size_t find_head(const plim_project *p, size_t file, finding *out) {
  *out = (finding){.file = file};
  head_search search = {out, HEADS};
  each_name(p->files.at[file], take_head, &search);
  return search.row;
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
    {"speech_recognition", "AutoModelForSpeechSeq2Seq or AutoModelForCTC"},
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

static size_t find_example(const plim_project *p, size_t file, finding *out) {
  static const char *const blanks = " \t\r\n\"'\\,[]";
  for (const char *at = p->files.at[file]->text; *at;) {
    at += strspn(at, blanks);
    size_t size = *at == '#' ? strcspn(at, "\n") : strcspn(at, blanks);
    const char *class = *at == '#' || is_read(p, at, size) ? NULL : head_of_example(at, size);
    if (class) {
      keep(out, file, METHODS, class, strlen(class));
      size_t row = head_of_class(class, strlen(class));
      return row < HEADS ? row : HEADS - 1;
    }
    at += size;
  }
  return HEADS;
}

// The head of the model that the files train: its row in heads, HEADS if they do not say.
static size_t head_in_files(const plim_project *p, finding *out) {
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *at = p->files.at[i];
    size_t row = at->settings.format == PLIM_FORMAT_PYTHON ? find_head(p, i, out)
                 : plim_is_command(at)                     ? find_example(p, i, out)
                                                           : HEADS;
    if (row < HEADS) return row;
  }
  return HEADS;
}

plim_head plim_project_head(const plim_project *p) {
  finding f;
  size_t row = head_in_files(p, &f);
  return row < HEADS ? heads[row].head : PLIM_HEADS;
}

int64_t plim_project_labels(const plim_project *p) {
  char name[PLIM_KEY_BYTES];
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_settings *s = &p->files.at[i]->settings;
    for (size_t k = 0; k < s->at.len; k++) {
      const plim_value *value = &s->at.at[k].value;
      plim_key_name(s->at.at[k].key, name);
      bool is_count = value->kind == PLIM_VALUE_INTEGER && value->integer > 0;
      if (is_count && plim_key_fits(name, "num_labels", true)) return value->integer;
    }
  }
  return 0;
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
    {"expert_parallel_size", "expert parallelism"},
    {"sequence_parallel_degree", "sequence parallelism"},
    {"sequence_parallel_size", "sequence parallelism"},
    {"parallelism_config_sp_size", "sequence parallelism"},
    {"dp_replicate_size", "hybrid sharding (shards replicated between groups of GPUs)"},
    {"parallelism_config_dp_replicate_size",
     "hybrid sharding (shards replicated between groups of GPUs)"},
    {"data_parallel_replicate_degree",
     "hybrid sharding (shards replicated between groups of GPUs)"},
};

// torchtune's distributed recipes shard over all GPUs that are left.
static void hint_tune(const plim_project *p, size_t file, const plim_setting *setting,
                      plim_error *error) {
  const plim_project_knob *world = &p->knobs[PLIM_KNOB_WORLD];
  char count[24] = "N";
  if (world->value.kind == PLIM_VALUE_INTEGER && world->value.integer > 0)
    snprintf(count, sizeof count, "%lld", (long long)world->value.integer);
  plim_error_hint(error,
                  "set %.40s: 1 there; torchtune then shards with FSDP2 over all GPUs: plimsoll "
                  "plan %.120s --world %s --gpu GPU",
                  setting->key, p->files.at[file]->path, count);
}

// LLaMA-Factory splits a model only with Megatron-core (USE_MCA=1), which trains a model of its own.
static plim_err refuse_parallel(const plim_project *p, size_t file, const plim_setting *setting,
                                const char *what, plim_error *error) {
  bool is_factory = p->dialect == PLIM_DIALECT_LLAMA_FACTORY;
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s is not supported yet (%s)",
                           is_factory ? "training with Megatron-core" : what,
                           setting ? setting->key : "set in the files");
  if (setting && p->dialect == PLIM_DIALECT_TORCHTUNE) {
    plim_error_at(error, plim_source_byte(p->files.at[file], setting->span.begin));
    hint_tune(p, file, setting, error);
    return plim_error_file_of(p, file, err, error);
  }
  if (is_factory) {
    plim_error_hint(error, "to plan the same training with Trainer, remove Megatron's keys "
                           "(*_parallel*, recompute_*, use_distributed_optimizer and so on)");
    return plim_error_file_of(p, file, err, error);
  }
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

bool plim_project_adapts(const plim_project *p) {
  const plim_value *rank = &p->knobs[PLIM_KNOB_LORA_RANK].value;
  return rank->kind == PLIM_VALUE_INTEGER && rank->integer > 0;
}

const char *plim_project_freezes(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    bool is_code = f->settings.format == PLIM_FORMAT_PYTHON;
    bool is_frozen =
        is_code ? !plim_project_adapts(p) && is_frozen_here(f) && !uses(f, "get_peft_model")
                : is_frozen_by_key(&f->settings);
    if (is_frozen) return f->path;
  }
  return NULL;
}

// ---- all of it --------------------------------------------------------------------------------------

plim_err plim_project_refuse_unmodelled(const plim_project *p, plim_error *error) {
  finding f;
  if (find_method(p, &f) && plim_project_trains(p).method == PLIM_METHOD_TEXTS)
    return refuse_method(p, &f, error);
  plim_err err = plim_project_refuse_keys(p, error);
  if (!err) err = refuse_evaluation(p, error);
  for (size_t i = 0; !err && i < p->files.len; i++) err = refuse_adapters(p, i, error);
  if (err) return err;
  size_t row = head_in_files(p, &f);
  if (row < HEADS && heads[row].head == PLIM_HEADS) return refuse_head(p, &f, error);
  return check_parallel(p, error);
}
