#include "other_keys.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "key_names.h"

// ---- lists of patterns ------------------------------------------------------------------------------

typedef bool fits_one(const void *text, const char *pattern);

// Whether one of the words in `list`, which are separated by spaces, fits. The word is copied to `found`.
static bool fits_any(const char *list, fits_one *fits, const void *text,
                     char found[PLIM_KEY_BYTES]) {
  for (const char *at = list; at && *(at += strspn(at, " "));) {
    size_t size = strcspn(at, " ");
    snprintf(found, PLIM_KEY_BYTES, "%.*s", (int)size, at);
    if (fits(text, found)) return true;
    at += size;
  }
  return false;
}

static bool fits_value(const void *text, const char *pattern) {
  return fnmatch(pattern, text, FNM_CASEFOLD) == 0;
}

// "qat.*" is also the section itself, if it is empty: "qat:".
static bool fits_key(const void *name, const char *pattern) {
  size_t size = strlen(pattern);
  bool is_section = size > 2 && strcmp(pattern + size - 2, ".*") == 0;
  if (is_section && strlen(name) == size - 2 && memcmp(name, pattern, size - 2) == 0) return true;
  return strpbrk(pattern, "*?") ? fnmatch(pattern, name, 0) == 0 : strcmp(pattern, name) == 0;
}

// The pattern may fit the end of a key, from a dot on: training.optim_args.
static bool fits_end(const void *name, const char *pattern) {
  for (const char *at = name; at; at = strchr(at, '.')) {
    at += *at == '.';
    if (fits_key(at, pattern)) return true;
  }
  return false;
}

// ---- values -----------------------------------------------------------------------------------------

static bool turns_nothing_on(const plim_value *value) {
  static const char words[] = "false none null no off [] {} 0.0";
  char found[PLIM_KEY_BYTES];
  switch (value->kind) {
  case PLIM_VALUE_NULL: return true;
  case PLIM_VALUE_BOOL: return !value->flag;
  case PLIM_VALUE_INTEGER: return value->integer == 0;
  case PLIM_VALUE_REAL: return value->real == 0;
  case PLIM_VALUE_TEXT: return !*value->text || fits_any(words, fits_value, value->text, found);
  default: return false; // computed: it may turn something on
  }
}

static const plim_value *value_of(const plim_setting *setting) {
  bool is_computed =
      setting->value.kind == PLIM_VALUE_DERIVED && setting->computed.kind != PLIM_VALUE_NULL;
  return is_computed ? &setting->computed : &setting->value;
}

// Whether the row says something about the value; a row without effect is about all values unless it names some.
static bool is_about(const plim_other_key *row, const plim_setting *setting) {
  char text[256], found[PLIM_KEY_BYTES];
  const plim_value *value = value_of(setting);
  if (row->effect <= PLIM_EFFECT_READ && !row->only) return true;
  plim_value_print(value, text, sizeof text);
  if (row->only) return fits_any(row->only, fits_value, text, found);
  return !turns_nothing_on(value) && !fits_any(row->off, fits_value, text, found);
}

// ---- one key ----------------------------------------------------------------------------------------

// The row for a key with this value. *is_known: some row has the key, even if its value turns nothing on.
static const plim_other_key *find(const plim_other_key *const *tables, const char *name,
                                  const plim_setting *setting, bool is_nested, bool *is_known) {
  char found[PLIM_KEY_BYTES];
  for (int i = 0; i < PLIM_KEY_TABLES && tables[i]; i++)
    for (const plim_other_key *row = tables[i]; row->keys; row++) {
      if (!fits_any(row->keys, is_nested ? fits_end : fits_key, name, found)) continue;
      if (!row->only) *is_known = true;
      if (is_about(row, setting)) return row;
      if (!row->only) return NULL;
    }
  return NULL;
}

static bool is_for(const plim_key *key, plim_format format) {
  return !key->formats || key->formats & 1u << format;
}

// `hidden` are the knobs that the table does not set, because a dialect that is based on it has a default of its own.
static bool is_knob_of(const plim_key *keys, const plim_setting *setting, plim_format format,
                       bool is_nested, const bool hidden[PLIM_KNOBS]) {
  for (const plim_key *key = keys; key->key; key++)
    if (!(key->flags & PLIM_KEY_ANY_OF) && is_for(key, format) && !hidden[key->knob] &&
        plim_key_is_of(key, setting, is_nested))
      return true;
  return false;
}

static bool is_knob(const plim_setting *setting, plim_dialect dialect, plim_format format) {
  bool hidden[PLIM_KNOBS] = {false};
  static const bool none[PLIM_KNOBS];
  for (; dialect != PLIM_DIALECTS; dialect = plim_dialect_table[dialect].base) {
    const plim_dialect_info *info = &plim_dialect_table[dialect];
    if (is_knob_of(info->keys, setting, format, info->is_nested, hidden)) return true;
    for (const plim_key *key = info->keys; key->key; key++)
      hidden[key->knob] |= key->otherwise && is_for(key, format);
  }
  return format > PLIM_FORMAT_TOML && is_knob_of(plim_launch_keys, setting, format, false, none);
}

// The part of a Python key behind a known call: "bf16" of Config.TrainingArguments.bf16. NULL if there is none.
static const plim_known_call *call_of(const char *key, const char *name, const char **argument) {
  char part[PLIM_KEY_BYTES], owner[PLIM_KEY_BYTES] = "", found[PLIM_KEY_BYTES];
  bool is_alike = strlen(key) >= strlen(name); // but for upper case, the name is the key
  for (const char *at = name, *dot; (dot = strchr(at, '.')); at = dot + 1) {
    snprintf(part, sizeof part, "%.*s", (int)(dot - at), at);
    // A variable: trainer.train(...) is no call of Trainer(...).
    bool is_function = strcmp(part, "from_pretrained") == 0 || strcmp(part, "get_peft_model") == 0;
    if (!is_function && is_alike && islower((unsigned char)key[at - name])) {
      memcpy(owner, part, sizeof owner);
      continue;
    }
    for (size_t i = 0; i < plim_known_call_count; i++) {
      const plim_known_call *call = &plim_known_calls[i];
      bool is_owner = !call->owners || !*owner || fits_any(call->owners, fits_value, owner, found);
      if (!is_owner || !fits_any(call->names, fits_value, part, found)) continue;
      *argument = dot + 1;
      return call;
    }
    memcpy(owner, part, sizeof owner);
  }
  return NULL;
}

static plim_key_kind kind_of(const plim_other_key *row, bool is_known) {
  if (!row) return is_known ? PLIM_KEY_FREE : PLIM_KEY_UNKNOWN;
  if (row->effect == PLIM_EFFECT_READ) return PLIM_KEY_KNOB;
  return row->effect == PLIM_EFFECT_NONE ? PLIM_KEY_FREE : PLIM_KEY_MISSING;
}

// A row that names values has priority over a knob, because the knob does not have that value.
static plim_key_kind decide(const plim_other_key *const *tables, const char *name,
                            const plim_setting *setting, bool is_nested, bool is_a_knob,
                            const plim_other_key **row) {
  bool is_known = false;
  *row = find(tables, name, setting, is_nested, &is_known);
  if (is_a_knob && !(*row && (*row)->only)) {
    *row = NULL;
    return PLIM_KEY_KNOB;
  }
  return kind_of(*row, is_known);
}

// Variables ($GPUS) and the options of a batch system (#SBATCH.--gpus) are no flags of the program.
static bool is_flag(const plim_setting *setting) {
  return setting->group && !setting->is_aside && !strchr("$#", *setting->key);
}

// Whether the file has KEY=VALUE.
static bool has_pair(const plim_settings *s, const char *pair, size_t size) {
  char key[PLIM_KEY_BYTES], pattern[128], value[128];
  size_t n = strcspn(pair, "=");
  snprintf(key, sizeof key, "%.*s", (int)n, pair);
  snprintf(pattern, sizeof pattern, "%.*s", (int)(size - n - 1), pair + n + 1);
  const plim_setting *other = plim_settings_find(s, key);
  if (!other) return false;
  plim_value_print(&other->value, value, sizeof value);
  return fnmatch(pattern, value, FNM_CASEFOLD) == 0;
}

static bool has_pairs(const plim_settings *s, const char *pairs) {
  for (const char *at = pairs; *at; at += strspn(at, " ")) {
    size_t size = strcspn(at, " ");
    if (!has_pair(s, at, size)) return false;
    at += size;
  }
  return true;
}

// Whether other keys of the file make the row not apply.
static bool is_lifted(const plim_settings *s, const plim_other_key *row) {
  if (!row) return false;
  return (row->unless && has_pairs(s, row->unless)) || (row->with && !has_pairs(s, row->with));
}

plim_key_kind plim_key_kind_of(const plim_settings *s, const plim_setting *setting,
                               plim_dialect dialect, const plim_other_key **row) {
  char name[PLIM_KEY_BYTES];
  const char *argument = name;
  *row = NULL;
  plim_key_name(setting->key, name);
  if (setting->group) name[strcspn(name, "#")] = 0;
  if (s->format == PLIM_FORMAT_PYTHON) {
    const plim_known_call *call = call_of(setting->key, name, &argument);
    if (!call || setting->is_rest) return PLIM_KEY_NOT_ASKED;
    return decide(call->tables, argument, setting, false, is_knob(setting, dialect, s->format),
                  row);
  }
  bool has_keys = dialect != PLIM_DIALECTS && plim_tables_of_dialect[dialect][0];
  if (!has_keys || (s->format > PLIM_FORMAT_TOML && !is_flag(setting))) return PLIM_KEY_NOT_ASKED;
  plim_key_kind kind =
      decide(plim_tables_of_dialect[dialect], name, setting, plim_dialect_table[dialect].is_nested,
             is_knob(setting, dialect, s->format), row);
  if (kind == PLIM_KEY_MISSING && is_lifted(s, *row)) return PLIM_KEY_FREE;
  if (kind != PLIM_KEY_UNKNOWN || s->format <= PLIM_FORMAT_TOML) return kind;
  const plim_other_key *const launchers[PLIM_KEY_TABLES] = {plim_launcher_keys};
  return decide(launchers, name, setting, false, false, row);
}

void plim_other_key_label(const plim_other_key *row, const plim_setting *setting, char *out,
                          size_t size) {
  char name[PLIM_KEY_BYTES], found[PLIM_KEY_BYTES];
  plim_setting_label(setting, out, size);
  plim_key_name(setting->key, name);
  if (!fits_any(row->keys, fits_end, name, found)) return;
  size_t n = strlen(found);
  bool is_roof = n > 2 && strcmp(found + n - 2, ".*") == 0 && !memchr(found, '*', n - 2);
  if (is_roof) snprintf(out, size, "%.*s", (int)(n - 2), found);
}
