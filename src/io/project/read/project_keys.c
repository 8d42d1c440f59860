#include "project_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conditions.h"
#include "project_impl.h"

plim_key_kind plim_project_key_kind(const plim_project_file *f, const plim_setting *setting,
                                    const plim_other_key **row) {
  *row = NULL;
  if (setting->is_aside && !setting->group) return PLIM_KEY_FREE; // tune_recipes.c
  bool is_own_flag = plim_is_command(f) && f->flags;
  if (is_own_flag || plim_setting_counts(&f->settings, setting) == PLIM_NO)
    return PLIM_KEY_NOT_ASKED;
  return plim_key_kind_of(&f->settings, setting, f->recipe.dialect, row);
}

// ---- each key that is not modelled or unknown -------------------------------------------------------

typedef struct {
  const plim_other_key *row; // NULL: unknown
  const plim_project_file *file;
  const plim_setting *setting;
  char label[PLIM_KEY_BYTES];
} odd_key;

enum { MOST_UNKNOWN = 64, MOST_KEYS = 1024 }; // keys that are listed; unknown ones are counted

typedef struct {
  vec(odd_key) list;
  size_t unknown, unlisted;
} odd_keys;

static bool has(const odd_keys *keys, const odd_key *key) {
  for (size_t i = 0; i < keys->list.len; i++) {
    const odd_key *x = &keys->list.at[i];
    if (x->row == key->row && strcmp(x->label, key->label) == 0) return true;
  }
  return false;
}

// Whether the file has no known key below the section, whose name has `size` letters.
static bool is_all_unknown(const plim_project_file *f, const char *section, size_t size) {
  const plim_other_key *row;
  for (size_t i = 0; i < f->settings.at.len; i++) {
    const plim_setting *s = &f->settings.at.at[i];
    bool is_below = strncmp(s->key, section, size) == 0 && s->key[size] == '.';
    if (is_below && plim_project_key_kind(f, s, &row) != PLIM_KEY_UNKNOWN) return false;
  }
  return true;
}

// The keys of a section or a list that is unknown as a whole count as one: "hub.token" as "hub.*".
static void label_unknown(const plim_project_file *f, odd_key *key) {
  plim_setting_label(key->setting, key->label, sizeof key->label);
  key->label[strcspn(key->label, "#")] = 0;
  char *dot = f->settings.format <= PLIM_FORMAT_TOML ? strchr(key->label, '.') : NULL;
  while (dot && !is_all_unknown(f, key->label, (size_t)(dot - key->label)))
    dot = strchr(dot + 1, '.');
  if (dot && (size_t)(dot - key->label) + 3 < sizeof key->label) strcpy(dot, ".*");
}

// Whether the method of the training settles what the key does: reward models have the head of a classifier, and TRL
// ignores DPO's padding_free since 1.0.
static bool is_settled(const plim_project *p, const odd_key *key) {
  static const struct {
    const char *key, *value; // NULL: any
    plim_method method;
  } settled[] = {
      {"model_type", "ForSequenceClassification", PLIM_METHOD_REWARD},
      {"model_type", "ForTokenClassification", PLIM_METHOD_PRM},
      {"num_labels", NULL, PLIM_METHOD_REWARD},
      {"num_labels", NULL, PLIM_METHOD_PRM},
      {"lora_task_type", "SEQ_CLS", PLIM_METHOD_REWARD},
      {"lora_task_type", "TOKEN_CLS", PLIM_METHOD_PRM},
      {"padding_free", NULL, PLIM_METHOD_DPO},
  };
  const plim_value *value = &key->setting->value;
  const char *text = value->kind == PLIM_VALUE_TEXT ? value->text : "";
  char name[PLIM_KEY_BYTES];
  plim_key_name(key->setting->key, name);
  for (size_t i = 0; i < sizeof settled / sizeof *settled; i++) {
    const char *wanted = settled[i].value;
    if (plim_key_fits(name, settled[i].key, true) && (!wanted || strstr(text, wanted)) &&
        plim_project_trains(p).method == settled[i].method)
      return true;
  }
  return false;
}

// Collects every key once. Returns false if memory runs out.
static bool collect(const plim_project *p, odd_keys *out) {
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    for (size_t k = 0; k < f->settings.at.len; k++) {
      odd_key key = {.file = f, .setting = &f->settings.at.at[k]};
      plim_key_kind kind = plim_project_key_kind(f, key.setting, &key.row);
      if (kind != PLIM_KEY_MISSING && kind != PLIM_KEY_UNKNOWN) continue;
      bool is_unset = key.setting->value.kind == PLIM_VALUE_NULL;
      char meant[PLIM_KEY_BYTES];
      if (kind == PLIM_KEY_UNKNOWN && (is_unset || plim_project_meant_key(f, key.setting, meant)))
        continue;
      if (kind == PLIM_KEY_MISSING)
        plim_other_key_label(key.row, key.setting, key.label, sizeof key.label);
      else label_unknown(f, &key);
      if (has(out, &key) || (key.row && is_settled(p, &key))) continue;
      if (!key.row && out->unknown++ >= MOST_UNKNOWN) out->unlisted++;
      else if (out->list.len < MOST_KEYS && !vec_push(&out->list, key)) return false;
    }
  }
  return true;
}

// ---- refusals ---------------------------------------------------------------------------------------

static plim_err refuse(const plim_project *p, const odd_key *key, plim_error *error) {
  char value[64];
  plim_value_print(&key->setting->value, value, sizeof value);
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s is not supported yet (%s: %s)",
                           key->row->what, key->label, value);
  plim_error_at(error, plim_source_byte(key->file, key->setting->span.begin));
  plim_error_hint(error, "to run your own program on a simulated GPU instead: plimsoll simulate "
                         "--gpu GPU -- python train.py");
  size_t file = 0;
  while (file < p->files.len && p->files.at[file] != key->file) file++;
  return plim_error_file_of(p, file, err, error);
}

plim_err plim_project_refuse_keys(const plim_project *p, plim_error *error) {
  odd_keys keys = {0};
  plim_err err = collect(p, &keys) ? PLIM_OK : plim_no_memory(error);
  for (size_t i = 0; !err && i < keys.list.len; i++)
    if (keys.list.at[i].row && keys.list.at[i].row->effect == PLIM_EFFECT_REFUSED)
      err = refuse(p, &keys.list.at[i], error);
  vec_free(&keys.list);
  return err;
}

// ---- notes ------------------------------------------------------------------------------------------

static const struct {
  plim_effect effect;
  const char *code, *result;
  bool is_of_memory; // " and time than predicted" follows, or the like
} effects[] = {
    {PLIM_EFFECT_MORE, "unmodelled.key", "the run needs more memory", true},
    {PLIM_EFFECT_LITTLE, "unmodelled.key", "the run needs a little more memory", true},
    {PLIM_EFFECT_CACHED, "unmodelled.key",
     "PyTorch may reserve that much more than predicted, and gives it back where it is needed",
     false},
    {PLIM_EFFECT_EITHER, "unmodelled.key", "the run may need more or less memory", true},
    {PLIM_EFFECT_LESS, "unmodelled.key", "the run needs less memory", true},
    {PLIM_EFFECT_START, "unmodelled.start",
     "it needs memory of its own for a short time before the first step", false},
    {PLIM_EFFECT_TIME, "unmodelled.time", "a step may take longer than predicted", false},
};

static const char *time_of(const plim_other_key *row) {
  bool is_less = row->effect == PLIM_EFFECT_LESS, is_either = row->effect == PLIM_EFFECT_EITHER;
  switch (row->pace) {
  case PLIM_PACE_SLOWER: return is_less || is_either ? " and more time" : " and time";
  case PLIM_PACE_FASTER: return is_less ? " and time" : " and less time";
  case PLIM_PACE_EITHER: return is_either ? " and time" : " and more or less time";
  default: return is_either ? " and time" : "";
  }
}

// The labels of a row's keys, or of all unknown keys (row NULL), separated by commas; the caller frees the text.
static char *labels_of(const odd_keys *keys, const plim_other_key *row) {
  char *text = NULL;
  size_t size;
  int count = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return NULL;
  for (size_t i = 0; i < keys->list.len; i++)
    if (keys->list.at[i].row == row)
      fprintf(out, "%s%s", count++ ? ", " : "", keys->list.at[i].label);
  if (!row && keys->unlisted) fprintf(out, " and %zu more", keys->unlisted);
  return plim_stream_end(out, &text) ? text : NULL;
}

static bool is_first_of_row(const odd_keys *keys, size_t at) {
  for (size_t i = 0; i < at; i++)
    if (keys->list.at[i].row == keys->list.at[at].row) return false;
  return true;
}

static void note_row(const odd_keys *keys, size_t at, size_t effect, plim_notes *notes) {
  const odd_key *key = &keys->list.at[at];
  char *labels = labels_of(keys, key->row);
  if (!labels) {
    notes->has_no_memory = true;
    return;
  }
  bool is_of_memory = effects[effect].is_of_memory;
  plim_note_add(notes, effects[effect].code, NULL, "%s: %s is not modelled; %s%s%s", labels,
                key->row->what, effects[effect].result, is_of_memory ? time_of(key->row) : "",
                is_of_memory ? " than predicted" : "");
  plim_note_at(notes, key->file->path, key->setting->line);
  if (key->row->effect == PLIM_EFFECT_MORE) plim_note_errs_low(notes);
  if (key->row->effect == PLIM_EFFECT_LESS) plim_note_errs_high(notes);
  if (key->row->effect == PLIM_EFFECT_EITHER) plim_note_errs_either(notes);
  free(labels);
}

// Frameworks that give a file to HfArgumentParser.parse_dict, which stops at what no class has: LLaMA-Factory 0.9.5
// (hparams/parser.py; v1/config/arg_parser.py); and DeepSpeed 0.19, whose models of sections forbid other fields
// (runtime/config_utils.py). Otherwise "".
static const char *refuser_of(const odd_keys *keys) {
  static const struct {
    plim_dialect dialect;
    const char *section, *words;
  } refusers[] = {
      {PLIM_DIALECT_DEEPSPEED, "zero_optimization.",
       "; DeepSpeed refuses keys of zero_optimization that it does not have"},
      {PLIM_DIALECT_LLAMA_FACTORY, "",
       "; LLaMA-Factory refuses keys that it does not have, unless ALLOW_EXTRA_ARGS=1 is set"},
      {PLIM_DIALECT_LLAMA_FACTORY_V1, "",
       "; LLaMA-Factory refuses keys that it does not have, unless ALLOW_EXTRA_KEYS=1 is set"},
  };
  for (size_t i = 0; i < keys->list.len; i++)
    for (size_t k = 0; k < sizeof refusers / sizeof *refusers && !keys->list.at[i].row; k++)
      if (keys->list.at[i].file->recipe.dialect == refusers[k].dialect &&
          strncmp(keys->list.at[i].label, refusers[k].section, strlen(refusers[k].section)) == 0)
        return refusers[k].words;
  return "";
}

static void note_unknown(const odd_keys *keys, plim_notes *notes) {
  char *labels = labels_of(keys, NULL);
  if (!labels) notes->has_no_memory = true;
  else if (*labels)
    plim_note_add(notes, "unknown.keys", NULL,
                  "not understood, so not counted: %s. If %s changes what is trained or kept in "
                  "memory, the run differs from the prediction%s",
                  labels, keys->unknown > 1 ? "one of them" : "it", refuser_of(keys));
  free(labels);
}

void plim_project_note_keys(const plim_project *p, bool is_alone, plim_notes *notes) {
  odd_keys keys = {0};
  if (!collect(p, &keys)) notes->has_no_memory = true;
  for (size_t e = 0; e < sizeof effects / sizeof *effects; e++)
    for (size_t i = 0; i < keys.list.len; i++) {
      const plim_other_key *row = keys.list.at[i].row;
      if (!row || (is_alone && row->is_of_several)) continue;
      if (row->effect == effects[e].effect && is_first_of_row(&keys, i))
        note_row(&keys, i, e, notes);
    }
  note_unknown(&keys, notes);
  vec_free(&keys.list);
}
