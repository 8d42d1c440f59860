// Checks for YAML values that PyYAML reads as a type that was not intended.
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "check.h"
#include "key_names.h"
#include "python_code.h"

// A value as written in the file.
typedef struct {
  const plim_project_file *file;
  const plim_setting *setting;
  char raw[64];  // unquoted; empty: quoted, or longer than any number
  char last[64]; // part of the key, as key_names.h spells it
  check_severity severity;
} written;

static const char *own_name(const char *key) {
  const char *dot = strrchr(key, '.');
  return dot ? dot + 1 : key;
}

static void add(check *c, const written *w, const char *reads_as, const char *why,
                const char *fix) {
  check_finding *f = check_add(c, "yaml.type", w->severity, "%.60s: %.40s is read as %s",
                               w->setting->key, w->raw, reads_as);
  check_at(f, &(check_place){w->file, w->setting, w->setting->value});
  check_why(f, "%s", why);
  check_fix(f, "%.60s: %s", own_name(w->setting->key), fix);
}

// ---- numbers that are text --------------------------------------------------------------------------

// 1e-5, 2E4, 1.5e3: a number everywhere except in YAML 1.1, which requires a point and a sign.
static bool is_exponential(const char *text) {
  text += *text == '-' || *text == '+';
  size_t digits = strspn(text, "0123456789");
  const char *at = text + digits;
  if (*at == '.') at += 1 + strspn(at + 1, "0123456789");
  if (!digits || (*at != 'e' && *at != 'E')) return false;
  at += 1 + (at[1] == '-' || at[1] == '+');
  return *at && !at[strspn(at, "0123456789")];
}

// The spelling that PyYAML reads as a number: 1.0e-5, 2.0e+4.
static void proper(const char *text, char *out, size_t size) {
  size_t digits = strcspn(text, "eE");
  const char *exponent = text + digits + 1;
  bool has_point = memchr(text, '.', digits), has_sign = *exponent == '-' || *exponent == '+';
  snprintf(out, size, "%.*s%se%s%s", (int)digits, text, has_point ? "" : ".0", has_sign ? "" : "+",
           exponent);
}

// Names that may look like a number: a commit, a run.
static bool is_name(const char *last) {
  static const char *const parts[] = {"name",    "revision", "commit", "hash", "sha",
                                      "version", "tag",      "path",   "dir",  "_id"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (strstr(last, parts[i])) return true;
  return false;
}

// Ecosystems that turn such text into numbers themselves: OmegaConf, pydantic, argparse, jsonargparse.
static bool reads_numbers(plim_dialect d) {
  static const plim_dialect all[] = {PLIM_DIALECT_TRL,
                                     PLIM_DIALECT_AXOLOTL,
                                     PLIM_DIALECT_TORCHTUNE,
                                     PLIM_DIALECT_LITGPT,
                                     PLIM_DIALECT_NEMO,
                                     PLIM_DIALECT_LIGHTNING,
                                     PLIM_DIALECT_MEGATRON_BRIDGE,
                                     PLIM_DIALECT_LLM_FOUNDRY,
                                     PLIM_DIALECT_LLAMA_FACTORY_V1};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (d == all[i]) return true;
  return false;
}

// Hydra and OmegaConf read 1e-4 as the number it looks like.
static bool is_read_by_omegaconf(const check *c) {
  static const char *const words[] = {"omegaconf", "hydra"};
  for (size_t i = 0; i < c->files.project.files.len; i++) {
    const plim_project_file *f = c->files.project.files.at[i];
    for (size_t k = 0; f->settings.format == PLIM_FORMAT_PYTHON && k < 2; k++)
      if (plim_python_imports(&f->code, words[k])) return true;
  }
  return false;
}

static bool check_exponent(check *c, const written *w) {
  char better[80];
  bool is_text = w->setting->value.kind == PLIM_VALUE_TEXT;
  if (!is_text || !is_exponential(w->raw) || is_name(w->last)) return false;
  if (reads_numbers(w->file->is.dialect) || is_read_by_omegaconf(c)) return false;
  proper(w->raw, better, sizeof better);
  add(c, w, "text",
      "PyYAML reads exponents only with a decimal point and a signed exponent (1.0e-5); unless the "
      "text is converted, the optimizer fails with TypeError: '<=' not supported between 'float' "
      "and 'str'",
      better);
  return true;
}

// LLaMA-Factory reads numbers with OmegaConf since July 2025 (its #8505).
static bool check_exponent_of_factory(check *c, const written *w) {
  written older = *w;
  older.severity = CHECK_NOTE;
  return w->file->is.dialect == PLIM_DIALECT_LLAMA_FACTORY && check_exponent(c, &older);
}

// Whether it is a number with thousands separators: 1,000 and 12,345,678.
static bool is_grouped(const char *text) {
  size_t digits = strspn(text, "0123456789");
  for (text += digits; digits && digits <= 3 && *text == ','; text += 4)
    if (strspn(text + 1, "0123456789") != 3) return false;
  return digits && digits <= 3 && !*text;
}

// 08 is neither an octal nor a decimal number in YAML 1.1.
static bool is_padded(const char *text) {
  return text[0] == '0' && text[1] && !text[strspn(text, "0123456789")];
}

static bool check_odd_digits(check *c, const written *w) {
  char better[64];
  size_t used = 0;
  bool is_odd = is_padded(w->raw) || (strchr(w->raw, ',') && is_grouped(w->raw));
  if (w->setting->value.kind != PLIM_VALUE_TEXT || !is_odd || is_name(w->last)) return false;
  for (const char *at = w->raw + strspn(w->raw, "0"); *at; at++)
    if (*at != ',') better[used++] = *at;
  better[used] = 0;
  add(c, w, "text", "PyYAML does not read this as a number", better);
  return true;
}

// ---- numbers that are read as other numbers ---------------------------------------------------------

static bool check_octal(check *c, const written *w) {
  char reads[48], better[48];
  const char *digits = w->raw + strspn(w->raw, "0");
  bool is_octal = w->setting->value.kind == PLIM_VALUE_INTEGER && *w->raw == '0' && *digits &&
                  !digits[strspn(digits, "01234567")] && strlen(digits) > 1;
  if (!is_octal) return false;
  snprintf(reads, sizeof reads, "%lld", (long long)w->setting->value.integer);
  snprintf(better, sizeof better, "%s", digits);
  add(c, w, reads, "PyYAML reads a number with a leading 0 as octal", better);
  return true;
}

static bool check_sixties(check *c, const written *w) {
  char reads[48], better[72];
  bool is_number = w->setting->value.kind == PLIM_VALUE_INTEGER;
  if (!is_number || !strchr(w->raw, ':')) return false;
  snprintf(reads, sizeof reads, "%lld", (long long)w->setting->value.integer);
  snprintf(better, sizeof better, "\"%s\"", w->raw);
  add(c, w, reads, "PyYAML reads digits with colons as a number in base 60", better);
  return true;
}

// ---- names that look like something else ------------------------------------------------------------

static bool is_text_key(const char *last) {
  static const char *const keys[] = {"revision",   "model_revision", "run_name",
                                     "wandb_name", "name",           "tag",
                                     "commit",     "hub_model_id"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (strcmp(last, keys[i]) == 0) return true;
  return false;
}

static void add_quoted(check *c, const written *w, const char *reads_as, const char *why) {
  char better[72];
  snprintf(better, sizeof better, "\"%s\"", w->raw);
  add(c, w, reads_as, why, better);
}

// 2024-05-01, with a time or without.
static bool check_date(check *c, const written *w) {
  bool is_date = w->setting->value.kind == PLIM_VALUE_DERIVED &&
                 strspn(w->raw, "0123456789") == 4 && w->raw[4] == '-';
  if (!is_date) return false;
  add_quoted(c, w, "a date",
             "PyYAML reads it as a datetime, not as text: joining it to a path or writing it as "
             "JSON fails with TypeError");
  return true;
}

// 1.10 is read as 1.1, and 2.0 as a number, so neither is the intended version.
static bool check_version(check *c, const written *w) {
  char reads[48];
  bool is_real = w->setting->value.kind == PLIM_VALUE_REAL;
  bool is_version = strstr(w->last, "version") && w->raw[strlen(w->raw) - 1] == '0';
  if (!is_real || !*w->raw || !(is_version || is_text_key(w->last))) return false;
  snprintf(reads, sizeof reads, "the number %g", w->setting->value.real);
  add_quoted(c, w, reads, "text is expected: the part after the point is read as a fraction");
  return true;
}

// revision: 1234567, run_name: on
static bool check_name(check *c, const written *w) {
  char reads[48];
  const plim_value *v = &w->setting->value;
  bool is_commit = strcmp(w->last, "revision") == 0 || strcmp(w->last, "model_revision") == 0;
  bool is_number = v->kind == PLIM_VALUE_INTEGER && is_commit;
  bool is_flag = v->kind == PLIM_VALUE_BOOL && is_text_key(w->last);
  if (!*w->raw || !(is_number || is_flag)) return false;
  if (is_number) snprintf(reads, sizeof reads, "the number %lld", (long long)v->integer);
  else snprintf(reads, sizeof reads, "%s", v->flag ? "true" : "false");
  add_quoted(c, w, reads, "text is expected here, and code that needs text refuses a number");
  return true;
}

// ---- words ------------------------------------------------------------------------------------------

// Keys with a word as value, which may be "no". accelerate corrects mixed_precision itself.
static bool is_word_key(const written *w) {
  static const char *const keys[] = {"distributed_type", "downcast_bf16", "dynamo_backend",
                                     "save_strategy",    "eval_strategy", "evaluation_strategy",
                                     "logging_strategy", "report_to"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (strcmp(w->last, keys[i]) == 0) return true;
  return strcmp(w->last, "mixed_precision") == 0 && w->file->is.dialect != PLIM_DIALECT_ACCELERATE;
}

static bool check_norway(check *c, const written *w) {
  char better[72];
  bool is_bool = w->setting->value.kind == PLIM_VALUE_BOOL;
  bool is_plain = !strcasecmp(w->raw, "true") || !strcasecmp(w->raw, "false");
  if (!is_bool || is_plain || !*w->raw || !is_word_key(w)) return false;
  snprintf(better, sizeof better, "\"%s\"", w->raw);
  add(c, w, w->setting->value.flag ? "true" : "false",
      "without quotes PyYAML reads the word as a boolean, and the intended text is lost", better);
  return true;
}

static bool check_none(check *c, const written *w) {
  bool is_text = w->setting->value.kind == PLIM_VALUE_TEXT;
  if (!is_text || strcmp(w->raw, "None") != 0 || is_word_key(w)) return false;
  add(c, w, "the text \"None\"",
      "YAML writes \"no value\" as null; the text \"None\" counts as set", "null");
  return true;
}

// Keys that are on or off; for others the text may be intended.
static bool is_flag_key(const char *last) {
  static const char *const keys[] = {
      "gradient_checkpointing", "bf16",         "fp16",    "tf32",
      "load_in_4bit",           "load_in_8bit", "packing", "torch_compile",
      "auto_find_batch_size",   "do_train",     "do_eval", "sample_packing"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (strcmp(last, keys[i]) == 0) return true;
  return false;
}

static bool check_quoted_flag(check *c, const written *w) {
  const plim_value *v = &w->setting->value;
  bool is_quoted = v->kind == PLIM_VALUE_TEXT && !*w->raw;
  if (!is_quoted || !is_flag_key(w->last) || strcasecmp(v->text, "false") != 0) return false;
  if (reads_numbers(w->file->is.dialect)) return false;
  check_finding *f = check_add(c, "yaml.type", CHECK_WARNING, "%.60s: \"%s\" is read as text",
                               w->setting->key, v->text);
  check_at(f, &(check_place){w->file, w->setting, *v});
  check_why(f, "non-empty text counts as true in Python");
  check_fix(f, "%.60s: false", own_name(w->setting->key));
  return true;
}

// y and n are text for PyYAML, unlike yes and no.
static bool check_letter(check *c, const written *w) {
  bool is_text = w->setting->value.kind == PLIM_VALUE_TEXT && strlen(w->raw) == 1;
  if (!is_text || !is_flag_key(w->last) || !strchr("yYnN", *w->raw)) return false;
  add(c, w, "text",
      "PyYAML reads yes and no as booleans, but not y and n; non-empty text counts as true "
      "in Python",
      strchr("yY", *w->raw) ? "true" : "false");
  return true;
}

// Numbers of TrainingArguments that are used without conversion.
static bool is_number_key(const char *last) {
  static const char *const keys[] = {
      "learning_rate",    "weight_decay", "max_grad_norm", "per_device_train_batch_size",
      "num_train_epochs", "max_steps",    "warmup_steps",  "gradient_accumulation_steps"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (strcmp(last, keys[i]) == 0) return true;
  return false;
}

static bool check_quoted_number(check *c, const written *w) {
  const plim_value *v = &w->setting->value;
  bool is_quoted = v->kind == PLIM_VALUE_TEXT && !*w->raw && *v->text;
  if (!is_quoted || !is_number_key(w->last) || v->text[strspn(v->text, "0123456789.eE+-")])
    return false;
  if (reads_numbers(w->file->is.dialect)) return false;
  check_finding *f = check_add(c, "yaml.type", CHECK_WARNING, "%.60s: \"%.40s\" is read as text",
                               w->setting->key, v->text);
  check_at(f, &(check_place){w->file, w->setting, *v});
  check_why(f, "a value in quotes is not a number: computing with it fails with TypeError");
  check_fix(f, "%.60s: %.40s", own_name(w->setting->key), v->text);
  return true;
}

// ---- all of them ------------------------------------------------------------------------------------

static bool (*const kinds[])(check *, const written *) = {
    check_exponent_of_factory,
    check_exponent,
    check_odd_digits,
    check_octal,
    check_sixties,
    check_date,
    check_version,
    check_name,
    check_norway,
    check_none,
    check_letter,
    check_quoted_flag,
    check_quoted_number,
};

static written written_as(const plim_project_file *f, const plim_setting *s) {
  written w = {.file = f, .setting = s, .severity = CHECK_WARNING};
  char name[PLIM_KEY_BYTES];
  size_t size = s->span.end - s->span.begin;
  const char *raw = f->text + s->span.begin;
  plim_key_name(s->key, name);
  const char *dot = strrchr(name, '.');
  snprintf(w.last, sizeof w.last, "%.63s", dot ? dot + 1 : name);
  bool is_plain = size && size < sizeof w.raw && !strchr("\"'|>&*!", *raw);
  if (is_plain) snprintf(w.raw, sizeof w.raw, "%.*s", (int)size, raw);
  return w;
}

static void check_file(check *c, const plim_project_file *f) {
  for (size_t i = 0; i < f->settings.at.len; i++) {
    written w = written_as(f, &f->settings.at.at[i]);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
      if (kinds[k](c, &w)) break;
  }
}

void check_yaml(check *c) {
  size_t before = c->findings.len, files = 0;
  for (size_t i = 0; i < c->files.project.files.len; i++) {
    const plim_project_file *f = c->files.project.files.at[i];
    if (f->settings.format != PLIM_FORMAT_YAML) continue;
    check_file(c, f);
    files++;
  }
  if (files && c->findings.len == before)
    check_add(c, "yaml", CHECK_OK, "YAML: every value has the intended type");
}
