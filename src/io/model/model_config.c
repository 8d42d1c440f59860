#include "model_config.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "catalogue.h"
#include "families.h"
#include "hub_cache.h"
#include "model_names.h"
#include "suggest.h"
#include "text.h"

enum { SHAPE_WORD_BYTES = 128 }; // as in catalogue.c
enum { KEY_BYTES = 96 };
enum { LISTED = 8 };                 // candidates that a refusal names
enum { MAX_CONFIG_BYTES = 4 << 20 }; // the largest have a label for each of 20,000 classes: 1 MiB

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

// ---- the head ---------------------------------------------------------------------------------------

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

// Endings of class names, in the order in which they are tried.
static const struct {
  const char *end;
  plim_head head;
  bool is_exact; // false: the class has another head, which is left out and noted
} heads[] = {
    {"ForCausalLM", PLIM_HEAD_CAUSAL, true},
    {"ForConditionalGeneration", PLIM_HEAD_CAUSAL, true},
    {"LMHeadModel", PLIM_HEAD_CAUSAL, true},
    {"ForMaskedLM", PLIM_HEAD_MASKED, true},
    {"ForPreTraining", PLIM_HEAD_MASKED, false},
    {"ForSequenceClassification", PLIM_HEAD_TEXTS, true},
    {"ForTokenClassification", PLIM_HEAD_TOKENS, true},
    {"ForQuestionAnswering", PLIM_HEAD_ANSWERS, true},
    {"ForMultipleChoice", PLIM_HEAD_CHOICES, true},
    {"Model", PLIM_HEAD_NONE, true},
    {"", PLIM_HEAD_NONE, false}, // ForNextSentencePrediction and the like
};

static plim_err refuse_head(const plim_config *c, const char *name, plim_error *error) {
  plim_err err =
      plim_fail(error, PLIM_ERR_UNSUPPORTED,
                "architectures names %.64s, and that model head is not supported yet", name);
  plim_error_hint(error, "supported for %s: %s", c->family->model_type,
                  c->family->is_encoder ? "...ForMaskedLM, ...Model, ...ForSequenceClassification, "
                                          "...ForTokenClassification, ...ForQuestionAnswering"
                  : c->family->is_encoder_decoder
                      ? "...ForConditionalGeneration"
                      : "...ForCausalLM, ...ForSequenceClassification, "
                        "...ForTokenClassification, ...ForQuestionAnswering");
  return err;
}

// Checkpoints of a classifier name their labels.
static void read_labels(const json_t *root, plim_config *c) {
  size_t names = json_object_size(json_object_get(root, "id2label"));
  if (names) c->labels = (int64_t)names;
}

// A model has the head that its class names. A bare decoder is trained with its language-modelling head.
static plim_err read_head(const json_t *root, plim_model_source *out, plim_error *error) {
  plim_config *c = &out->config;
  const char *name = json_string_value(json_array_get(json_object_get(root, "architectures"), 0));
  if (c->family->is_encoder && c->head == PLIM_HEAD_CAUSAL) c->head = PLIM_HEAD_NONE;
  read_labels(root, c);
  if (!name) return PLIM_OK;
  size_t i = 0;
  while (!ends_with(name, heads[i].end)) i++;
  bool is_bare = ends_with(name, "Model") && !ends_with(name, "EncoderModel");
  bool fits = plim_config_set_head(c, heads[i].head, NULL) == PLIM_OK;
  if (!fits && !is_bare) return refuse_head(c, name, error);
  if (fits && heads[i].is_exact) return PLIM_OK;
  const char *taken_for = c->head == PLIM_HEAD_CAUSAL
                              ? "language model with a language-modelling head"
                          : c->head == PLIM_HEAD_MASKED ? "masked language model"
                                                        : "bare encoder";
  snprintf(out->note, sizeof out->note, "%.64s is treated as a %s", name, taken_for);
  return PLIM_OK;
}

// ---- the rest of the file ---------------------------------------------------------------------------

static const struct {
  const char *name;
  plim_dtype dtype;
} dtypes[] = {{"bfloat16", PLIM_BF16}, {"float16", PLIM_FP16}, {"float32", PLIM_FP32}};

static plim_dtype read_dtype(const json_t *root) {
  static const char prefix[] = "torch.";
  const char *name = text_of(root, json_object_get(root, "dtype") ? "dtype" : "torch_dtype");
  if (strncmp(name, prefix, sizeof prefix - 1) == 0) name += sizeof prefix - 1;
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    if (strcmp(name, dtypes[i].name) == 0) return dtypes[i].dtype;
  return PLIM_DTYPE_COUNT;
}

static int bits_of(const json_t *quantization) {
  if (json_is_true(json_object_get(quantization, "load_in_4bit"))) return 4;
  if (json_is_true(json_object_get(quantization, "load_in_8bit"))) return 8;
  double bits = json_number_value(json_object_get(quantization, "bits"));
  if (bits >= 1 && bits <= 16) return (int)bits;
  return strstr(text_of(quantization, "quant_method"), "fp8") ? 8 : 0;
}

static void read_quantization(const json_t *root, plim_model_source *out) {
  const json_t *quantization = json_object_get(root, "quantization_config");
  if (!json_is_object(quantization)) return;
  const char *method = text_of(quantization, "quant_method");
  snprintf(out->quantization, sizeof out->quantization, "%s", *method ? method : "unnamed");
  plim_text_disarm(out->quantization);
  out->quantized_bits = bits_of(quantization);
  out->is_quantized_twice =
      json_is_true(json_object_get(quantization, "bnb_4bit_use_double_quant"));
}

// Multimodal models have the keys of the language model one level down; those of families that are not supported have
// it under several names.
static plim_err refuse_nested(const json_t *root, plim_error *error) {
  static const char *const parts[] = {"text_config",   "llm_config",     "language_config",
                                      "vision_config", "thinker_config", "audio_config"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (!json_is_object(json_object_get(root, parts[i]))) continue;
    plim_err err = plim_fail(
        error, PLIM_ERR_UNSUPPORTED,
        "model_type \"%.64s\" is a multimodal model (it has %s), which is not supported yet",
        text_of(root, "model_type"), parts[i]);
    plim_error_hint(error, "give the config.json of a text-only language model");
    return err;
  }
  return PLIM_OK;
}

static void read_list(plim_config *c, const char *key, const json_t *list) {
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *item = json_array_get(list, i);
    if (json_is_string(item)) plim_config_item(c, key, json_string_value(item));
    else plim_config_number_item(c, key, i, json_is_true(item) ? 1 : json_number_value(item));
  }
}

static plim_err read_key(plim_config *c, const char *key, const json_t *value, plim_error *error) {
  if (json_is_boolean(value) && plim_config_is_count(key))
    return plim_fail(error, PLIM_ERR_ARGUMENT, "%s is %s: it must be a whole number", key,
                     json_is_true(value) ? "true" : "false");
  plim_err err = json_is_number(value)
                     ? plim_config_check_number(key, json_number_value(value), error)
                     : PLIM_OK;
  if (err) return err;
  bool is_number = json_is_number(value) || json_is_boolean(value);
  if (json_is_null(value)) plim_config_null(c, key);
  else if (is_number)
    plim_config_number(c, key, json_is_true(value) ? 1 : json_number_value(value));
  else if (plim_config_is_number(key) && !(json_is_array(value) && plim_config_may_be_pair(key)))
    return plim_fail(error, PLIM_ERR_ARGUMENT, "%s is not a number", key);
  else if (json_is_array(value)) read_list(c, key, value);
  else if (json_is_string(value)) plim_config_text(c, key, json_string_value(value));
  return PLIM_OK;
}

static plim_err read_object(plim_config *c, json_t *object, plim_error *error) {
  const char *key;
  json_t *value;
  plim_err err = PLIM_OK;
  json_object_foreach(object, key, value) {
    if (!err) err = read_key(c, key, value, error);
  }
  return err;
}

static plim_err read_tower(plim_config *c, const char *name, json_t *object, plim_error *error) {
  const char *key;
  json_t *value;
  plim_err err = PLIM_OK;
  json_object_foreach(object, key, value) {
    char path[KEY_BYTES];
    int length = snprintf(path, sizeof path, "%s.%s", name, key);
    if (!err && length < KEY_BYTES) err = read_key(c, path, value, error);
  }
  return err;
}

// The parameters of rotary positions are in a nested object; its keys are read like those of the root. Models with two
// kinds of layers have an object for each kind. MosaicML's models have such an object for attention, too.
static plim_err read_language_model(json_t *root, plim_model_source *out, plim_error *error) {
  static const char *const rotations[] = {"rope_scaling", "rope_parameters", "attn_config"};
  plim_err err = read_object(&out->config, root, error);
  for (size_t i = 0; !err && i < sizeof rotations / sizeof *rotations; i++) {
    json_t *rotation = json_object_get(root, rotations[i]);
    json_t *of_full = json_object_get(rotation, "full_attention");
    if (json_is_object(of_full)) rotation = of_full;
    if (json_is_object(rotation)) err = read_object(&out->config, rotation, error);
  }
  return err;
}

// A tower that the file sets to null, or that it leaves out where the family may lack it, does not exist.
static plim_err read_towers(plim_config *c, json_t *root, plim_error *error) {
  json_t *vision = json_object_get(root, "vision_config");
  json_t *audio = json_object_get(root, "audio_config");
  bool may_lack = c->outer->may_lack_towers;
  if (may_lack && !json_is_object(vision)) c->vision = (plim_tower_config){0};
  if (may_lack && !json_is_object(audio)) c->audio = (plim_tower_config){0};
  plim_err err = read_tower(c, "vision_config", vision, error);
  return err ? err : read_tower(c, "audio_config", audio, error);
}

// In a multimodal model, keys of the root are those of the whole, such as a tied head. Older files have those of the
// language model there, too.
static plim_err read_keys(json_t *root, plim_model_source *out, plim_error *error) {
  if (!out->config.outer) return read_language_model(root, out, error);
  json_t *text = json_object_get(root, "text_config");
  const char *text_type = text_of(text, "model_type");
  plim_err err = *text_type ? plim_config_init_text(&out->config, text_type, error) : PLIM_OK;
  if (!err) err = read_language_model(json_is_object(text) ? text : root, out, error);
  if (!err) err = read_towers(&out->config, root, error);
  return err || !json_is_object(text) ? err : read_object(&out->config, root, error);
}

static plim_err read_root(json_t *root, plim_model_source *out, plim_error *error) {
  const char *model_type = text_of(root, "model_type");
  plim_err err;
  if (!*model_type) {
    err = plim_fail(error, PLIM_ERR_PARSE, "the configuration has no model_type");
    plim_error_hint(error,
                    "a config.json of transformers sets it, for example \"model_type\": \"llama\"");
    return err;
  }
  err = plim_config_init(&out->config, model_type, error);
  if (err || !out->config.outer) {
    plim_err nested = refuse_nested(root, error);
    if (nested) return nested;
  }
  if (!err) err = read_keys(root, out, error);
  if (!err) err = read_head(root, out, error);
  if (!err) err = plim_config_finish(&out->config, error);
  if (err) return err;
  out->dtype = read_dtype(root);
  if (out->dtype == PLIM_DTYPE_COUNT) out->dtype = read_dtype(json_object_get(root, "text_config"));
  read_quantization(root, out);
  return PLIM_OK;
}

// Python's json module reads and writes these words, but they are not valid JSON.
static bool is_near_nan(const char *text, size_t size, int position) {
  static const char *const words[] = {"NaN", "Infinity"};
  enum { NEAR = 12 };
  size_t at = position > 0 ? (size_t)position : 0, from = at > NEAR ? at - NEAR : 0;
  size_t length = from < size ? size - from : 0;
  if (length > 2 * NEAR) length = 2 * NEAR;
  for (size_t i = 0; length && i < sizeof words / sizeof *words; i++)
    if (memmem(text + from, length, words[i], strlen(words[i]))) return true;
  return false;
}

static bool is_blank(const char *text, size_t size) {
  size_t i = 0;
  while (i < size && strchr(" \t\r\n", text[i]) && text[i]) i++;
  return i == size;
}

plim_err plim_model_config_parse(const char *text, size_t size, plim_model_source *out,
                                 plim_error *error) {
  *out = (plim_model_source){.dtype = PLIM_DTYPE_COUNT};
  json_error_t why;
  // Integers are read as reals: one that exceeds 64 bits is then reported as too large, not as invalid JSON.
  json_t *root = json_loadb(text, size, JSON_DECODE_INT_AS_REAL, &why);
  plim_err err;
  if (!root && is_near_nan(text, size, why.position)) {
    err = plim_fail(error, PLIM_ERR_PARSE,
                    "line %d contains NaN or Infinity, which Python writes but JSON does not allow",
                    why.line);
    plim_error_hint(error, "replace it with a number or null");
    plim_error_at(error, why.position > 0 ? (uint64_t)why.position : 0);
  } else if (!root && is_blank(text, size)) {
    err = plim_fail(error, PLIM_ERR_PARSE, "the file is empty");
  } else if (!root) {
    err = plim_fail(error, PLIM_ERR_PARSE, "this is not valid JSON: line %d, %.160s", why.line,
                    why.text);
    plim_error_at(error, why.position > 0 ? (uint64_t)why.position : 0);
  } else if (!json_is_object(root)) {
    err = plim_fail(error, PLIM_ERR_PARSE,
                    "this is not a model configuration: it must be a JSON object");
  } else {
    err = read_root(root, out, error);
  }
  json_decref(root);
  if (error) plim_text_disarm(error->message);
  plim_text_disarm(out->note);
  return err;
}

// ---- places -----------------------------------------------------------------------------------------

static void folder_of(char folder[PLIM_PATH_BYTES], const char *path) {
  const char *slash = strrchr(path, '/');
  if (!slash) snprintf(folder, PLIM_PATH_BYTES, ".");
  else if (slash == path) snprintf(folder, PLIM_PATH_BYTES, "/");
  else snprintf(folder, PLIM_PATH_BYTES, "%.*s", (int)(slash - path), path);
}

plim_err plim_model_config_read(const char *path, plim_model_source *out, plim_error *error) {
  char joined[PLIM_PATH_BYTES], *text;
  size_t size;
  if (plim_is_folder(path)) {
    if (!plim_path_join(joined, path, "config.json"))
      return plim_fail(error, PLIM_ERR_ARGUMENT, "the path is too long");
    path = joined;
  }
  plim_err err = plim_text_file_read(path, MAX_CONFIG_BYTES, &text, &size, error);
  if (err) {
    plim_error_hint(error,
                    "give the path of a model's config.json, or of the folder that contains it");
    return err;
  }
  err = plim_model_config_parse(text, size, out, error);
  free(text);
  if (err) return plim_error_file(error, err, path);
  folder_of(out->folder, path);
  return PLIM_OK;
}

static bool ends_in(const char *text, const char *end) {
  size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcasecmp(text + length - tail, end) == 0;
}

// `what` may be another name of the model: that of a fine-tuned one.
static plim_err from_catalogue(const char *what, const plim_catalogue_model *model,
                               plim_model_source *out, plim_error *error) {
  *out = (plim_model_source){
      .origin = PLIM_ORIGIN_CATALOGUE, .dtype = model->dtype, .parameters = model->parameters};
  if (model->is_unconfirmed)
    snprintf(out->note, sizeof out->note,
             "not every size of %.64s is confirmed: give its config.json to be sure",
             strchr(what, '/') ? what : model->id);
  if (ends_in(what, "-lora") || ends_in(what, "-qlora"))
    snprintf(
        out->note, sizeof out->note,
        "%.80s is a checkpoint of adapters for %.64s; they are loaded too, but not counted, so "
        "the run needs a little more memory than predicted",
        what, model->id);
  if (model->stored) {
    snprintf(out->quantization, sizeof out->quantization, "%s", model->stored);
    out->quantized_bits = 8;
  }
  return plim_catalogue_config(model, &out->config, error);
}

bool plim_model_is_shape(const char *what) {
  static const char start[] = "model_type=";
  return strncmp(what, start, sizeof start - 1) == 0;
}

// Refuses a number with an unknown key, which is a typing error.
static plim_err check_pair(const char *at, size_t size, plim_error *error) {
  char key[SHAPE_WORD_BYTES];
  size_t name = strcspn(at, "= ");
  bool is_pair = size < sizeof key && name && name < size;
  snprintf(key, sizeof key, "%.*s", (int)(name < sizeof key ? name : sizeof key - 1), at);
  bool is_number = is_pair && at[name + 1] >= '0' && at[name + 1] <= '9';
  if (is_pair && (!is_number || plim_config_is_number(key))) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           is_pair ? "%s is not a key of any model configuration"
                                   : "\"%s\" is not of the form KEY=VALUE",
                           key);
  plim_error_hint(error, "separate keys of config.json by spaces: --model \"model_type=llama "
                         "hidden_size=2048\"");
  return err;
}

static plim_err from_shape(const char *keys, plim_model_source *out, plim_error *error) {
  const plim_catalogue_model model = {.keys = keys, .head = PLIM_HEAD_CAUSAL};
  *out = (plim_model_source){.origin = PLIM_ORIGIN_SHAPE, .dtype = PLIM_DTYPE_COUNT};
  plim_err err = PLIM_OK;
  for (const char *at = keys; *at && !err; at += strcspn(at, " "), at += *at == ' ')
    err = check_pair(at, strcspn(at, " "), error);
  if (!err) err = plim_catalogue_config(&model, &out->config, error);
  if (error) plim_text_disarm(error->message);
  return err;
}

static plim_err refuse_several(const char *what, const plim_catalogue_model *const *found,
                               size_t count, plim_error *error) {
  const char *names[LISTED];
  bool has_owner = strchr(what, '/') != NULL;
  for (size_t i = 0; i < count && i < LISTED; i++)
    names[i] = has_owner ? found[i]->id : found[i]->name;
  char list[192];
  plim_suggest_list(names, count, LISTED, list, sizeof list);
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "\"%.64s\" could be %s", what, list);
  plim_error_hint(error, "plimsoll help models lists the names; or give the path of a config.json");
  return err;
}

// A mirror, or a folder that does not exist here: recognised by its name alone.
static plim_err from_namesake(const char *what, const plim_catalogue_model *model,
                              plim_model_source *out, plim_error *error) {
  plim_err err = from_catalogue(what, model, out, error);
  snprintf(out->note, sizeof out->note, "assuming %.80s has the shape of %.64s, by its name%s%s%s",
           what, model->id, plim_model_is_path(what) ? " (path not found)" : "",
           model->is_unconfirmed ? ", of which not every size is confirmed" : "",
           strcasestr(what, "-unsloth-bnb-4bit") ? "; Unsloth's dynamic versions keep some layers "
                                                   "in 16 bits, which needs more memory"
                                                 : "");
  const char *quantization = plim_model_quantization(what, &out->quantized_bits);
  snprintf(out->quantization, sizeof out->quantization, "%s", quantization ? quantization : "");
  out->is_quantized_twice = quantization; // as Unsloth and Axolotl store theirs
  plim_text_disarm(out->note);
  return err;
}

// What to do about a name that is not known. A fine-tune often has its base in its name, but may have other layers or
// words than that, so it is a question.
static void hint_unknown(const char *what, plim_error *error) {
  const plim_catalogue_model *base = plim_catalogue_within(what);
  bool is_hub_id = strchr(what, '/') && !plim_model_is_path(what);
  if (base)
    plim_error_hint(
        error, "same shape as %.64s? then add --model %.48s; if not, %s", base->id, base->name,
        is_hub_id ? "add --fetch to download its config.json" : "give the path of its config.json");
  else if (is_hub_id)
    plim_error_hint(
        error,
        "add --fetch to download it from the hub, or give the path of a config.json; if it is a "
        "fine-tune of a known model (plimsoll help models), give that one: --model NAME");
  else if (plim_model_is_path(what))
    plim_error_hint(error,
                    "give the folder that contains the model's config.json, or --model NAME");
  else
    plim_error_hint(error, "give the path of a config.json or of the folder that contains it; "
                           "plimsoll help models lists the names");
}

static plim_err refuse_unknown(const char *what, plim_error *error) {
  const char *close = plim_catalogue_suggest(what);
  if (close && !plim_model_has_digits(close, what))
    close = NULL; // another model, not a typing error
  plim_err err =
      plim_model_is_path(what) ? plim_fail(error, PLIM_ERR_ARGUMENT, "%.128s does not exist", what)
      : strchr(what, '/') && !close
          ? plim_fail(error, PLIM_ERR_ARGUMENT,
                      "the config.json of %.96s is not in the local Hugging Face cache", what)
          : plim_fail(error, PLIM_ERR_ARGUMENT, "no model is called \"%.96s\"%s%s%s", what,
                      close ? "; did you mean \"" : "", close ? close : "", close ? "\"?" : "");
  hint_unknown(what, error);
  return err;
}

static plim_err refuse_family(const char *what, const char *family, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                           "the architecture of %.96s is not supported yet: %s", what, family);
  plim_error_hint(error, "plimsoll help models lists the supported ones; for any other, run your "
                         "own program on a simulated GPU: plimsoll simulate -- python train.py");
  return err;
}

static plim_err refuse_name(const char *what, plim_error *error) {
  const plim_catalogue_model *found[PLIM_MAX_MODELS];
  const char *family = plim_catalogue_unfollowed(what);
  size_t count = plim_catalogue_candidates(what, found);
  plim_err err = family      ? refuse_family(what, family, error)
                 : count > 1 ? refuse_several(what, found, count, error)
                             : refuse_unknown(what, error);
  if (error) plim_text_disarm(error->message), plim_text_disarm(error->hint);
  return err;
}

static bool could_be_several(const char *what) {
  const plim_catalogue_model *found[PLIM_MAX_MODELS];
  return plim_catalogue_candidates(what, found) > 1;
}

// A snapshot of the cache may contain only some files; without config.json it is not usable.
static bool in_cache(const char *id, char path[PLIM_PATH_BYTES]) {
  char folder[PLIM_PATH_BYTES];
  return plim_hub_snapshot(id, folder) && plim_path_join(path, folder, "config.json") &&
         plim_is_file(path);
}

static bool is_kept(const char *id, char path[PLIM_PATH_BYTES]) {
  return plim_hub_kept(id, path) && plim_is_file(path);
}

bool plim_model_is_open(const char *what) {
  char path[PLIM_PATH_BYTES];
  bool is_here =
      plim_is_file(what) || plim_is_folder(what) || in_cache(what, path) || is_kept(what, path);
  bool is_name = !strchr(what, '/') && could_be_several(what); // "qwen2.5": a question
  return plim_hub_is_id(what) && !plim_model_is_path(what) && !is_here && !is_name &&
         !plim_catalogue_named(what);
}

plim_err plim_model_find(const char *what, plim_model_source *out, plim_error *error) {
  char cached[PLIM_PATH_BYTES];
  if (*what == '{') return plim_model_config_parse(what, strlen(what), out, error);
  if (plim_model_is_shape(what)) return from_shape(what, out, error);
  if (plim_is_file(what) || plim_is_folder(what)) return plim_model_config_read(what, out, error);
  bool is_of_hub = in_cache(what, cached);
  if (is_of_hub || is_kept(what, cached)) {
    plim_err err = plim_model_config_read(cached, out, error);
    out->origin = is_of_hub ? PLIM_ORIGIN_CACHE : PLIM_ORIGIN_FETCHED;
    return err;
  }
  const plim_catalogue_model *model = plim_catalogue_named(what);
  if (model) return from_catalogue(what, model, out, error);
  model = could_be_several(what) ? NULL : plim_model_called(what);
  return model ? from_namesake(what, model, out, error) : refuse_name(what, error);
}
