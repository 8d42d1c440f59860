#include "dialect_values.h"

#include <ctype.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model_names.h"
#include "optimizer.h"

enum { TEXT_BYTES = 512 };

// ---- texts and numbers ------------------------------------------------------------------------------

static bool is_number(const plim_value *value) {
  return value->kind == PLIM_VALUE_INTEGER || value->kind == PLIM_VALUE_REAL;
}

// Reads one factor; moves *at after it and the spaces that follow.
static bool read_factor(const char **at, double *out) {
  char digits[48];
  size_t used = 0;
  const char *from = *at;
  for (; isalnum((unsigned char)*from) || (*from && strchr("+-._", *from)); from++)
    if (*from != '_' && used + 1 < sizeof digits) digits[used++] = *from;
  digits[used] = 0;
  char *end;
  *out = strtod(digits, &end);
  bool is_plain = used && !*end && isfinite(*out) && !strpbrk(digits, "xXpPnN");
  while (*from == ' ') from++;
  *at = from;
  return is_plain;
}

bool plim_number_of(const char *text, plim_value *out) {
  double product = 1, factor;
  const char *at = text;
  while (*at == ' ') at++;
  bool is_whole = !strpbrk(text, ".eE");
  for (bool more = true; more; at += more + (more && at[1] == ' ')) {
    if (!read_factor(&at, &factor)) return false;
    product *= factor;
    more = *at == '*' && at[1] != '*';
  }
  if (*at || fabs(product) > 1e15) return false;
  *out = is_whole ? (plim_value){.kind = PLIM_VALUE_INTEGER, .integer = (int64_t)product}
                  : (plim_value){.kind = PLIM_VALUE_REAL, .real = product};
  return true;
}

// ---- words ------------------------------------------------------------------------------------------

plim_token plim_token_of(const char *word) {
  plim_token t = {PLIM_STRONG, {0}};
  if (strcmp(word, "-") == 0) return (plim_token){PLIM_NOTHING, {0}};
  if (*word == '?') t.force = PLIM_WEAK, word++;
  if (!plim_number_of(word, &t.value))
    t.value = (plim_value){.kind = PLIM_VALUE_TEXT, .text = word};
  return t;
}

static const plim_word *word_of(const plim_word *words, const char *text) {
  for (; words && words->file; words++)
    if (fnmatch(words->file, text, FNM_CASEFOLD | FNM_NOESCAPE) == 0) return words;
  return NULL;
}

bool plim_key_knows(const plim_key *key, const char *value) {
  return word_of(key->words, value) != NULL;
}

static bool is_switch(const plim_key *key) {
  return word_of(key->words, "true") && word_of(key->words, "false");
}

// The word of a switch in another spelling: 1 and 0, and on a command line what argparse accepts for transformers
// (HfArgumentParser's string_to_bool).
static const plim_word *switch_word(const plim_key *key, plim_format format, const char *text) {
  static const char *const spellings[2][4] = {{"0", "no", "f", "n"}, {"1", "yes", "t", "y"}};
  bool is_typed = format == PLIM_FORMAT_SHELL || format == PLIM_FORMAT_DOCKERFILE;
  for (int on = 0; on < 2 && is_switch(key); on++)
    for (int i = 0; i < (is_typed ? 4 : 1); i++)
      if (strcasecmp(text, spellings[on][i]) == 0)
        return word_of(key->words, on ? "true" : "false");
  return NULL;
}

static plim_token kept(plim_settings *s, const char *text) {
  plim_token t = {PLIM_STRONG, {.kind = PLIM_VALUE_TEXT}};
  t.value.text = plim_settings_keep(s, text, strlen(text));
  return t.value.text ? t : (plim_token){0};
}

// ---- by how the row reads ---------------------------------------------------------------------------

// Whether the value means all GPUs of the machine, whose number no file contains.
static bool is_all_gpus(const plim_key *key, const plim_setting *setting, const char *text) {
  bool is_all = strcmp(text, "auto") == 0 || strcmp(text, "-1") == 0;
  return key->knob == PLIM_KNOB_WORLD && is_all && setting->value.kind != PLIM_VALUE_NULL;
}

static plim_token read_number(const plim_key *key, const plim_setting *setting, const char *text) {
  plim_token t = {PLIM_STRONG, setting->value};
  if (is_all_gpus(key, setting, text)) return (plim_token){PLIM_UNREADABLE, {0}};
  if (is_number(&setting->value)) return t;
  if (is_number(&setting->computed)) return (plim_token){PLIM_STRONG, setting->computed};
  if (plim_number_of(text, &t.value)) return t;
  bool is_found = key->knob == PLIM_KNOB_MICRO_BATCH && !(key->flags & PLIM_KEY_AGREES);
  // "auto" leaves it to other files; for a batch it means a search at run time.
  bool is_auto = strcmp(text, "auto") == 0 && !is_found;
  bool is_open = setting->value.kind == PLIM_VALUE_NULL || is_auto;
  return (plim_token){is_open ? PLIM_NOTHING : PLIM_UNREADABLE, {0}};
}

// Joins the texts of a Python list such as ["q_proj", "v_proj"] with commas. False if it contains anything else.
static bool list_literal(const char *text, char *out, size_t size) {
  size_t used = 0;
  for (text += *text == '[' || *text == '('; *text && *text != ']' && *text != ')'; text++) {
    if (strchr(" ,\r\n\t", *text)) continue;
    const char *end = *text == '"' || *text == '\'' ? strchr(text + 1, *text) : NULL;
    if (!end) return false;
    int n = snprintf(out + used, size - used, "%s%.*s", used ? "," : "", (int)(end - text - 1),
                     text + 1);
    if (n < 0 || (size_t)n >= size - used) return false;
    used += (size_t)n;
    text = end;
  }
  return used > 0;
}

static plim_token read_text(plim_settings *s, const plim_setting *setting, const char *text) {
  if (setting->value.kind == PLIM_VALUE_NULL) return (plim_token){0};
  if (setting->value.kind == PLIM_VALUE_DERIVED) return (plim_token){PLIM_UNREADABLE, {0}};
  return kept(s, text);
}

static plim_token read_list(plim_settings *s, const plim_setting *setting, const char *text) {
  char items[TEXT_BYTES];
  bool is_literal = setting->value.kind == PLIM_VALUE_DERIVED && (*text == '[' || *text == '(');
  if (is_literal && list_literal(text, items, sizeof items)) return kept(s, items);
  return read_text(s, setting, text);
}

static plim_token read_optimizer(plim_settings *s, const plim_setting *setting, const char *text) {
  const char *own = plim_optimizer_own_name(text);
  if (own) return (plim_token){PLIM_STRONG, {.kind = PLIM_VALUE_TEXT, .text = own}};
  return read_text(s, setting, text);
}

static plim_token read_builder(plim_settings *s, const char *text) {
  char name[TEXT_BYTES];
  return plim_model_of_builder(text, name, sizeof name) ? kept(s, name) : (plim_token){0};
}

// Whether a word begins at `at`: "ref" in "ref_model" and "policyRef", but not in "Preference".
static bool begins_word(const char *key, const char *at) {
  return at == key || !isalpha((unsigned char)at[-1]) ||
         (isupper((unsigned char)*at) && islower((unsigned char)at[-1]));
}

// Whether a key such as "model" is about something else: a choice of a Hydra group, a tokenizer, a judge. A RewardTrainer's
// model is what it trains.
static bool is_of_another(const char *key) {
  static const char *const parts[] = {"defaults.", "tokenizer", "judge",   "reward", "teacher",
                                      "draft",     "critic",    "ref",     "wandb",  "logger",
                                      "dataset",   "retriev",   "generat", "embed"};
  const char *dot = strrchr(key, '.');
  for (size_t i = 0; dot && i < sizeof parts / sizeof *parts; i++) {
    for (const char *at = key; (at = strcasestr(at, parts[i])) && at < dot; at++)
      if (begins_word(key, at) && strncasecmp(at, "RewardTrainer.", 14) != 0) return true;
  }
  return false;
}

static plim_token read_model(plim_settings *s, const plim_setting *setting, const char *text) {
  bool is_text = setting->value.kind == PLIM_VALUE_TEXT && !is_of_another(setting->key);
  return is_text && plim_model_is_meant(text) ? kept(s, text) : (plim_token){0};
}

static plim_token read_count(const plim_setting *setting, const char *text) {
  bool is_unreadable = setting->value.kind == PLIM_VALUE_DERIVED;
  if (is_unreadable) return (plim_token){PLIM_UNREADABLE, {0}};
  if (!*text || setting->value.kind == PLIM_VALUE_NULL) return (plim_token){0};
  int64_t n = 1;
  for (; *text; text++) n += *text == ',';
  return (plim_token){PLIM_STRONG, {.kind = PLIM_VALUE_INTEGER, .integer = n}};
}

// optimizer = build(model): the variable holds an optimizer, but it is unknown which one.
static bool is_object(const plim_settings *s, const plim_setting *setting, const plim_key *key) {
  return s->format == PLIM_FORMAT_PYTHON && key->knob == PLIM_KNOB_OPTIMIZER &&
         setting->value.kind == PLIM_VALUE_DERIVED && strchr(setting->value.text, '(');
}

// Whether a choice between two values is decided, or the value from another file is known.
static bool is_chosen(const plim_setting *setting) {
  return (setting->chooses || setting->reference) && setting->computed.kind != PLIM_VALUE_NULL;
}

// Whether a command must set the argument: None is not a valid batch, so without a command it is unknown.
static bool must_be_given(const plim_key *key, const plim_setting *setting) {
  return setting->is_open &&
         (key->knob == PLIM_KNOB_MICRO_BATCH || key->knob == PLIM_KNOB_ACCUMULATE ||
          key->knob == PLIM_KNOB_LORA_RANK);
}

// Whether the call returns a number; other calls return data for a loop.
static bool makes_number(const char *callee, size_t size) {
  static const char *const names[] = {"int", "float", "max",  "min",  "round",  "len",    "sum",
                                      "get", "pop",   "ceil", "prod", "getenv", "getattr"};
  size_t from = size;
  while (from && callee[from - 1] != '.') from--;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strlen(names[i]) == size - from && memcmp(callee + from, names[i], size - from) == 0)
      return true;
  return false;
}

// batch = {k: v.cuda() for k, v in batch.items()} and batch = batch.to("cuda") are data, not a count.
static bool is_data(const plim_key *key, const plim_settings *s, const plim_setting *setting) {
  bool is_batch = key->knob == PLIM_KNOB_MICRO_BATCH && strcmp(key->key, "batch") == 0;
  bool is_open = setting->value.kind == PLIM_VALUE_DERIVED && !is_chosen(setting);
  if (!is_batch || !is_open || s->format != PLIM_FORMAT_PYTHON) return false;
  // The source of a variable that is assigned again begins with its name.
  const char *text = setting->value.text, *names_again = "batch = ";
  if (strncmp(text, names_again, strlen(names_again)) == 0) text += strlen(names_again);
  size_t size = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789.");
  if (*text && strchr("{[(", *text)) return true;
  return size && text[size] == '(' && !makes_number(text, size);
}

// sentence-transformers trains on a DataLoader only if it is passed to model.fit; otherwise it is for evaluation.
static bool is_unfit(const plim_key *key, const plim_settings *s) {
  if (strcmp(key->key, "dataloader.batch_size") != 0) return false;
  for (size_t i = 0; i < s->at.len; i++)
    if (strstr(s->at.at[i].key, ".fit.train_objectives")) return false;
  return true;
}

plim_token plim_key_read(const plim_key *key, plim_settings *s, const plim_setting *setting) {
  char text[TEXT_BYTES];
  if (is_unfit(key, s)) return (plim_token){0};
  if (is_data(key, s, setting)) return (plim_token){0};
  if (must_be_given(key, setting)) return (plim_token){PLIM_UNREADABLE, {0}};
  bool is_bare = setting->span.begin == setting->span.end; // a flag without a value
  bool is_flag = is_bare && setting->value.kind == PLIM_VALUE_NULL && setting->key[0] == '-';
  if (is_flag) snprintf(text, sizeof text, "true");
  else
    plim_value_word(is_chosen(setting) ? &setting->computed : &setting->value, text, sizeof text);
  const plim_word *word = word_of(key->words, text);
  if (!word) word = switch_word(key, s->format, text);
  if (word) return plim_token_of(word->knob);
  bool is_none = is_chosen(setting) && strcmp(text, "null") == 0;
  if (is_none) return (plim_token){0};
  bool is_said = is_chosen(setting) || setting->value.kind != PLIM_VALUE_DERIVED;
  bool is_open = strcmp(text, "auto") == 0 || setting->value.kind == PLIM_VALUE_NULL;
  if (key->how == PLIM_AS_WORDS && is_switch(key) && is_said && !is_open)
    return (plim_token){PLIM_UNREADABLE, {0}}; // neither on nor off
  if (is_chosen(setting) && setting->computed.kind == PLIM_VALUE_TEXT && key->how != PLIM_AS_NUMBER)
    return kept(s, text);
  switch (key->how) {
  case PLIM_AS_NUMBER: return read_number(key, setting, text);
  case PLIM_AS_TEXT: return read_text(s, setting, text);
  case PLIM_AS_LIST: return read_list(s, setting, text);
  case PLIM_AS_COUNT: return read_count(setting, text);
  case PLIM_AS_OPTIMIZER: return read_optimizer(s, setting, text);
  case PLIM_AS_BUILDER: return read_builder(s, text);
  case PLIM_AS_MODEL: return read_model(s, setting, text);
  case PLIM_AS_WORDS: break;
  }
  if (is_open) return (plim_token){0};
  if (key->applies_to) return (plim_token){PLIM_UNREADABLE, {0}};
  if (is_object(s, setting, key)) return (plim_token){0};
  return key->knob == PLIM_KNOB_OPTIMIZER ? read_optimizer(s, setting, text)
                                          : read_text(s, setting, text);
}

// ---- writing ----------------------------------------------------------------------------------------

static bool is_wild(const char *word) { return strpbrk(word, "*?") != NULL; }

static plim_value value_of_word(const char *word) {
  plim_value v = {.kind = PLIM_VALUE_TEXT, .text = word};
  if (strcmp(word, "true") == 0) v = (plim_value){.kind = PLIM_VALUE_BOOL, .flag = true};
  if (strcmp(word, "false") == 0) v = (plim_value){.kind = PLIM_VALUE_BOOL, .flag = false};
  if (strcmp(word, "null") == 0) v = (plim_value){.kind = PLIM_VALUE_NULL};
  if (isdigit((unsigned char)*word)) plim_number_of(word, &v);
  return v;
}

static bool inverse_word(const plim_key *key, const plim_value *value, plim_value *out) {
  for (const plim_word *w = key->words; w && w->file; w++) {
    plim_token t = plim_token_of(w->knob);
    if (t.force == PLIM_NOTHING || is_wild(w->file) || !plim_value_same(&t.value, value)) continue;
    *out = value_of_word(w->file);
    return true;
  }
  return false;
}

bool plim_key_silence(const plim_key *key, plim_value *out) {
  for (const plim_word *w = key->words; w && w->file; w++) {
    plim_force force = plim_token_of(w->knob).force;
    if (is_wild(w->file) || (force != PLIM_NOTHING && force != PLIM_WEAK)) continue;
    *out = value_of_word(w->file);
    return true;
  }
  return false;
}

static bool inverse_optimizer(const plim_value *value, plim_value *out) {
  if (value->kind != PLIM_VALUE_TEXT) return false;
  const char *own = plim_optimizer_own_name(value->text);
  const char *name = own ? plim_optimizer_trainer_name(own) : NULL;
  *out = (plim_value){.kind = PLIM_VALUE_TEXT, .text = name};
  return name != NULL;
}

bool plim_key_inverse(const plim_key *key, const plim_value *value, plim_value *out) {
  *out = *value;
  switch (key->how) {
  case PLIM_AS_NUMBER: return is_number(value);
  case PLIM_AS_TEXT: return value->kind == PLIM_VALUE_TEXT;
  case PLIM_AS_OPTIMIZER: return inverse_optimizer(value, out);
  case PLIM_AS_WORDS: return inverse_word(key, value, out);
  case PLIM_AS_LIST:
  case PLIM_AS_BUILDER:
  case PLIM_AS_MODEL:
  case PLIM_AS_COUNT: break;
  }
  return false;
}
