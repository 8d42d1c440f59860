#include "dialect.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "comment_locks.h"
#include "conditions.h"
#include "dialect_values.h"
#include "hash.h"
#include "key_index.h"
#include "literals.h"
#include "rest_arguments.h"

enum { ROOTS = 8, BRANCH_SETTINGS = 256 };

// The file being read, with its keys in the spelling of the tables.
typedef struct {
  plim_settings *s;
  plim_key_index names;
  bool has_faint,
      accepts_faint; // some settings are faint; nothing else sets the knob, so they are used
  bool has_rest;     // some call gets arguments that are unknown
} reader;

// A quick check before the whole names are compared.
static bool may_fit(const plim_key *key, const plim_setting *setting) {
  size_t n = strlen(setting->key), m = strlen(key->key);
  if (setting->group || key->how == PLIM_AS_LIST || !n || !m || strpbrk(key->key, "*?["))
    return true;
  int last = tolower((unsigned char)setting->key[n - 1]);
  return (last == '-' ? '_' : last) == key->key[m - 1];
}

bool plim_key_is_of(const plim_key *key, const plim_setting *setting, bool is_nested) {
  char name[PLIM_KEY_BYTES];
  if (!may_fit(key, setting)) return false;
  plim_key_name(setting->key, name);
  if (setting->group) name[strcspn(name, "#")] = 0;
  bool is_of_evaluation = setting->is_of_evaluation || plim_key_is_of_evaluation(name);
  if (setting->is_aside || (is_nested && is_of_evaluation)) return false;
  return plim_key_fits(name, key->key, is_nested) ||
         (key->how == PLIM_AS_LIST && plim_key_is_item(name, key->key, is_nested));
}

// ---- computed values --------------------------------------------------------------------------------

static const plim_setting *root_of(const plim_settings *s, const plim_setting *setting) {
  for (int i = 0; i < ROOTS && setting->value.kind == PLIM_VALUE_DERIVED && setting->root; i++) {
    const plim_setting *root = plim_settings_find(s, setting->root);
    if (!root || root == setting) break;
    setting = root;
  }
  return setting;
}

static void explain_computed(const plim_setting *setting, plim_reading *out) {
  char key[96];
  plim_setting_label(setting, key, sizeof key);
  int used =
      snprintf(out->why, sizeof out->why, "%s is %.60s in line %d, which plimsoll cannot evaluate",
               key, setting->value.text, setting->line);
  if (setting->root && used > 0 && (size_t)used < sizeof out->why)
    snprintf(out->why + used, sizeof out->why - (size_t)used, " (from %.40s)", setting->root);
}

static void explain_unreadable(const plim_settings *s, const plim_setting *setting,
                               const plim_key *key, plim_reading *out) {
  char text[96];
  *out = (plim_reading){.origin = PLIM_UNCLEAR, .setting = setting, .key = key, .is_fixed = true};
  if (plim_setting_counts(s, setting) == PLIM_MAYBE) {
    snprintf(out->why, sizeof out->why, "%.60s (line %d) depends on %.80s, whose value is unknown",
             setting->key, setting->line, plim_setting_doubt(s, setting));
  } else if (setting->is_open) {
    const char *flag = strstr(setting->key, "--");
    snprintf(out->why, sizeof out->why,
             "%.60s has no default, and none of the commands found here sets it",
             flag ? flag : setting->key);
  } else if (setting->value.kind == PLIM_VALUE_DERIVED) {
    explain_computed(setting, out);
  } else {
    plim_value_print(&setting->value, text, sizeof text);
    snprintf(out->why, sizeof out->why,
             "%.60s has a value that plimsoll does not understand: %.80s", setting->key, text);
    bool is_left_open = strcmp(text, "auto") == 0 || strcmp(text, "-1") == 0; // all GPUs, any batch
    out->is_ill_typed = !is_left_open;
  }
}

// ---- one row ----------------------------------------------------------------------------------------

typedef struct {
  plim_reading reading;
  plim_force force;
  const plim_setting *unreadable; // the last unreadable setting, or the first that may not run
  const plim_key *unreadable_key;
  bool is_open; // it depends on an unknown condition, and nothing else decides it
} decision;

static bool is_direct(const plim_key *key) { return key && key->how != PLIM_AS_WORDS; }

// CUDA_VISIBLE_DEVICES is a list; its value here is the number of GPUs in it.
static bool is_of_visible_gpus(const plim_setting *s) {
  return strcasestr(s->key, "visible_devices") != NULL;
}

static void explain_contradiction(decision *d, const plim_setting *setting,
                                  const plim_value *value) {
  char first[48], second[48];
  const plim_setting *before = d->reading.setting;
  if (d->reading.origin == PLIM_UNCLEAR) return; // it is already reported
  plim_value_print(&d->reading.value, first, sizeof first);
  plim_value_print(value, second, sizeof second);
  bool shows_first = is_of_visible_gpus(before), shows_second = is_of_visible_gpus(setting);
  if (shows_first != shows_second)
    snprintf(d->reading.why, sizeof d->reading.why,
             "line %d makes %.40s GPU%s visible, but line %d starts %.40s process%s",
             shows_first ? before->line : setting->line, shows_first ? first : second,
             strcmp(shows_first ? first : second, "1") == 0 ? "" : "s",
             shows_first ? setting->line : before->line, shows_first ? second : first,
             strcmp(shows_first ? second : first, "1") == 0 ? "" : "es");
  else
    plim_settings_explain_two(before, first, setting, second, d->reading.why,
                              sizeof d->reading.why);
  d->reading.origin = PLIM_UNCLEAR;
  d->reading.is_fixed = true;
  d->reading.value = (plim_value){0};
  d->reading.rival = setting;
}

// Two functions have a variable of that name, and it is unknown which of them is meant.
static void explain_ambiguity(decision *d, const plim_setting *setting) {
  snprintf(d->reading.why, sizeof d->reading.why, "it could come from %.80s or %.80s",
           d->reading.setting->key, setting->key);
  d->reading.is_fixed = true;
}

static void join(reader *r, decision *d, const plim_value *value) {
  plim_chars text = {0};
  const char *by = d->reading.key->knob == PLIM_KNOB_LORA_TARGETS ? "," : "+";
  bool ok = plim_chars_add_text(&text, d->reading.value.text) && plim_chars_add_text(&text, by) &&
            plim_chars_add_text(&text, value->text);
  const char *kept = ok ? plim_settings_keep(r->s, text.at, text.len) : NULL;
  if (kept) d->reading.value.text = kept;
  if (!ok) r->s->has_failed = true;
  vec_free(&text);
}

static void take(decision *d, const plim_key *key, const plim_setting *setting, plim_token t) {
  d->force = t.force;
  d->reading =
      (plim_reading){.origin = PLIM_EXPLICIT, .value = t.value, .setting = setting, .key = key};
}

// gradient_checkpointing=True, and False further down in a script: it is unknown which of them is meant.
static bool is_turned_off(const reader *r, const decision *d, const plim_key *key,
                          const plim_setting *setting) {
  const plim_setting *before = d->reading.setting;
  return r->s->format == PLIM_FORMAT_PYTHON && d->force == PLIM_STRONG && d->reading.key == key &&
         before && before < setting && !key->applies_to;
}

static bool is_argument(const plim_setting *setting) { return strstr(setting->key, ".--") != NULL; }

// The default of a script's argument equals another setting: if a command sets the argument, the knob becomes unclear.
// Returns the setting that was read before; NULL if it is not such a pair.
static const plim_setting *replaced_default(const reader *r, const decision *d,
                                            const plim_setting *setting, const plim_value *value) {
  const plim_reading *now = &d->reading;
  bool is_other = r->s->format == PLIM_FORMAT_PYTHON && now->origin == PLIM_EXPLICIT &&
                  now->setting && now->setting != setting;
  if (!is_other || is_argument(now->setting) == is_argument(setting)) return NULL;
  return plim_value_same(&now->value, value) ? now->setting : NULL;
}

static void resolve(reader *r, decision *d, const plim_key *key, const plim_setting *setting,
                    plim_token t) {
  plim_reading *now = &d->reading;
  if (t.force == PLIM_NOTHING) return;
  const plim_setting *default_of = replaced_default(r, d, setting, &t.value);
  if (t.force == PLIM_UNREADABLE) {
    if (!d->is_open) d->unreadable = setting, d->unreadable_key = key;
    return;
  }
  if (key->applies_to) {
    plim_value wanted = plim_token_of(key->applies_to).value;
    if (now->value.kind == PLIM_VALUE_NULL || !plim_value_same(&now->value, &wanted)) return;
    // A rank of 0 that the file sets is a mistake, which doubt_rank reports.
    if (key->knob == PLIM_KNOB_LORA_RANK && now->origin != PLIM_DEFAULTED) return;
    if (now->origin == PLIM_DEFAULTED || !plim_value_same(&now->value, &t.value))
      take(d, key, setting, t);
    return;
  }
  if (t.force == PLIM_WEAK && d->force != PLIM_NOTHING) {
    if (is_turned_off(r, d, key, setting)) explain_contradiction(d, setting, &t.value);
    if (default_of) now->rival = setting;
    return;
  }
  bool is_rival = d->force == PLIM_STRONG && t.force == PLIM_STRONG && now->setting != setting;
  bool is_same = now->origin == PLIM_EXPLICIT && plim_value_same(&now->value, &t.value);
  bool is_last = key->flags & PLIM_KEY_LAST;
  bool is_settled = now->is_fixed && (now->origin == PLIM_UNCLEAR || now->setting == setting);
  if (is_settled && is_direct(key) && !is_last) return; // one more does not resolve the conflict
  bool is_of_other_command =
      is_rival && setting->group && now->setting && now->setting->group != setting->group;
  if (is_rival && key->flags & PLIM_KEY_ADDS && now->value.kind == PLIM_VALUE_TEXT)
    join(r, d, &t.value);
  else if (is_of_other_command && now->key == key && !is_same)
    explain_contradiction(d, setting, &t.value);
  else if (is_rival && is_direct(key) && is_direct(now->key) && !is_same && !is_last &&
           !(key->flags & PLIM_KEY_OLD))
    explain_contradiction(d, setting, &t.value);
  else if (is_rival && is_same && setting->is_faint && now->setting->is_faint)
    explain_ambiguity(d, setting);
  else take(d, key, setting, t);
  if (default_of && now->setting == setting) now->rival = default_of;
}

// Appends an item to a list with commas, unless the list has it. Returns false when out of memory.
static bool add_item(plim_chars *list, plim_hash *items, const char *item) {
  uint64_t hash = plim_text_hash(0, item, strlen(item));
  if (plim_hash_find(items, hash)) return true;
  return plim_hash_put(items, hash, 1) && (!list->len || vec_push(list, ',')) &&
         plim_chars_add_text(list, item);
}

// Reads the items of a list, each translated by the row's words, without duplicates.
static bool resolve_items(reader *r, decision *d, const plim_key *key, bool is_nested) {
  plim_chars text = {0};
  plim_hash items = {0};
  const plim_setting *first = NULL;
  bool ok = true;
  for (size_t i = 0; ok && i < r->s->at.len; i++) {
    const plim_setting *item = &r->s->at.at[i];
    if (!plim_key_is_item(r->names.names[i], key->key, is_nested)) continue;
    if (plim_setting_counts(r->s, item) == PLIM_NO) continue;
    if (!first) first = item;
    plim_token t = plim_key_read(key, r->s, item);
    bool is_item = t.force != PLIM_NOTHING && t.value.kind == PLIM_VALUE_TEXT && *t.value.text;
    if (is_item) ok = add_item(&text, &items, t.value.text);
  }
  const char *kept = ok && text.len ? plim_settings_keep(r->s, text.at, text.len) : NULL;
  plim_token all = {PLIM_STRONG, {.kind = PLIM_VALUE_TEXT, .text = kept}};
  if (kept) resolve(r, d, key, first, all);
  if (!ok) r->s->has_failed = true;
  plim_hash_free(&items);
  vec_free(&text);
  return first != NULL;
}

// Whether the same command has the flag again, in another spelling. `search` is positioned after the flag.
static bool is_given_again(const plim_settings *s, const plim_setting *flag,
                           plim_key_search search) {
  size_t i = flag->group && flag->key[0] == '-' ? plim_key_search_next(&search) : SIZE_MAX;
  for (; i != SIZE_MAX && s->at.at[i].group == flag->group; i = plim_key_search_next(&search))
    if (!plim_setting_is_passed_over(s, &s->at.at[i])) return true;
  return false;
}

// A setting next to an evaluation is ignored if the same key also occurs elsewhere.
static bool has_training_row(const reader *r, const plim_key *key, bool is_nested) {
  plim_key_search search = plim_key_index_search(&r->names, key->key, is_nested);
  for (size_t i; (i = plim_key_search_next(&search)) != SIZE_MAX;) {
    bool is_of_evaluation = is_nested && plim_key_is_of_evaluation(r->names.names[i]);
    if (!r->s->at.at[i].is_of_evaluation && !is_of_evaluation) return true;
  }
  return false;
}

// Whether the other branch sets the same value. Only nearby settings are searched.
static bool has_parallel(reader *r, const plim_key *key, bool is_nested,
                         const plim_setting *setting, const plim_token *t) {
  size_t at = (size_t)(setting - r->s->at.at);
  size_t begin = at > BRANCH_SETTINGS ? at - BRANCH_SETTINGS : 0;
  for (size_t i = begin; i < r->s->at.len && i < at + BRANCH_SETTINGS; i++) {
    const plim_setting *other = &r->s->at.at[i];
    if (!plim_settings_alternate(r->s, setting, other)) continue;
    if (!plim_key_fits(r->names.names[i], key->key, is_nested)) continue;
    plim_token same = plim_key_read(key, r->s, root_of(r->s, other));
    if (same.force == t->force && plim_value_same(&same.value, &t->value)) return true;
  }
  return false;
}

// A setting that may not run leaves the knob undecided, except for the model, which is always loaded.
static void resolve_setting(reader *r, decision *d, const plim_key *key, bool is_nested,
                            const plim_setting *setting) {
  bool is_by_name = key->key[strlen(key->key) - 1] == '*'; // the row matches whatever the value is
  const plim_setting *root = is_by_name ? setting : root_of(r->s, setting);
  plim_token t = plim_key_read(key, r->s, root);
  bool may_be_open = plim_setting_counts(r->s, setting) == PLIM_MAYBE && t.force != PLIM_NOTHING &&
                     key->knob != PLIM_KNOB_MODEL;
  bool is_open = may_be_open && (d->is_open || !has_parallel(r, key, is_nested, setting, &t));
  if (!is_open) resolve(r, d, key, root, t);
  else if (!d->is_open) d->is_open = true, d->unreadable = setting, d->unreadable_key = key;
}

// Reads all settings with the row's key: the last of equal keys takes effect, and different keys must agree. False if
// there is none.
static bool resolve_row(reader *r, decision *d, const plim_key *key, bool is_nested) {
  bool is_there = false, has_training = has_training_row(r, key, is_nested);
  plim_key_search search = plim_key_index_search(&r->names, key->key, is_nested);
  for (size_t i; (i = plim_key_search_next(&search)) != SIZE_MAX;) {
    const plim_setting *setting = &r->s->at.at[i];
    if (is_nested && plim_key_is_of_evaluation(r->names.names[i])) continue;
    if (setting->is_aside || plim_setting_is_passed_over(r->s, setting)) continue;
    if (setting->is_unexported && key->key[0] == '$') continue;
    if (plim_setting_counts(r->s, setting) == PLIM_NO) continue;
    if (is_given_again(r->s, setting, search)) continue;
    if (setting->is_of_evaluation && has_training) continue;
    if (setting->is_faint && !r->accepts_faint) continue;
    is_there = true;
    resolve_setting(r, d, key, is_nested, setting);
  }
  if (key->how == PLIM_AS_LIST && resolve_items(r, d, key, is_nested)) is_there = true;
  return is_there;
}

// ---- one knob ---------------------------------------------------------------------------------------

static bool is_late(const plim_key *key) { return key->applies_to || key->flags & PLIM_KEY_LAST; }

static void assume(decision *d, const plim_key *key) {
  if (d->reading.origin != PLIM_ABSENT) return;
  d->reading =
      (plim_reading){.origin = PLIM_DEFAULTED, .value = plim_token_of(key->otherwise).value};
}

// Applies the default of a PLIM_KEY_LAST row whose key is absent: it changes the value, but not the deciding setting.
static void assume_late(decision *d, const plim_key *key) {
  plim_value value = plim_token_of(key->otherwise).value;
  if (!key->applies_to) {
    d->reading = (plim_reading){.origin = PLIM_DEFAULTED, .value = value};
    snprintf(d->reading.why, sizeof d->reading.why, "%s is not set", key->key);
    return;
  }
  plim_value wanted = plim_token_of(key->applies_to).value;
  if (plim_value_same(&d->reading.value, &wanted)) d->reading.value = value;
}

static bool is_about(const plim_key *key, plim_knob knob, plim_format format) {
  return key->knob == knob && (!key->formats || key->formats & 1u << format);
}

// Whether the table has a row for the knob.
static bool resolve_table(reader *r, const plim_key *keys, bool is_nested, plim_knob knob,
                          decision *d) {
  bool is_there = false, is_vaguely_there = false;
  plim_format format = r->s->format;
  for (const plim_key *key = keys; key->key; key++)
    if (is_about(key, knob, format) && !is_late(key) && !(key->flags & PLIM_KEY_VAGUE))
      is_there |= resolve_row(r, d, key, is_nested);
  for (const plim_key *key = keys; !is_there && key->key; key++)
    if (is_about(key, knob, format) && key->flags & PLIM_KEY_VAGUE)
      is_vaguely_there |= resolve_row(r, d, key, is_nested);
  for (const plim_key *key = keys; key->key; key++)
    if (is_about(key, knob, format) && key->otherwise && !is_late(key))
      is_there = true, assume(d, key);
  for (const plim_key *key = keys; key->key; key++) {
    if (!is_about(key, knob, format) || !is_late(key)) continue;
    if (resolve_row(r, d, key, is_nested)) is_there = true;
    else if (key->otherwise) assume_late(d, key);
  }
  return is_there || is_vaguely_there;
}

// The last part of a key; for an item of a list, the name of the list: target_modules of "lora.target_modules.0".
static void last_part(const char *key, char out[PLIM_KEY_BYTES]) {
  snprintf(out, PLIM_KEY_BYTES, "%s", key);
  char *dot = strrchr(out, '.');
  if (dot && isdigit((unsigned char)dot[1])) *dot = 0, dot = strrchr(out, '.');
  if (dot) memmove(out, dot + 1, strlen(dot));
}

static bool is_in_name(char c) { return isalnum((unsigned char)c) || c == '_' || c == '-'; }

static bool is_conversion(const char *text, const char *open) {
  static const char *const calls[] = {"int", "float", "str", "bool", "get"};
  const char *name = open;
  while (name > text && is_in_name(name[-1])) name--;
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    if (strlen(calls[i]) == (size_t)(open - name) &&
        memcmp(name, calls[i], (size_t)(open - name)) == 0)
      return true;
  return false;
}

// cfg.train.batch_size, cfg["batch_size"], int(cfg.get("batch_size", 8)), ${batch_size}: the end of the name whose value
// the expression passes on; NULL if it is not such an expression.
static const char *end_of_reference(const char *text) {
  const char *at = text;
  int calls = 0;
  for (; *at && !(calls > 0 && *at == ','); at++) {
    if (!is_in_name(*at) && !strchr(".[]\"'()${}:", *at)) return NULL;
    if (*at == '(' && !is_conversion(text, at)) return NULL;
    calls += (*at == '(') - (*at == ')');
  }
  while (at > text && !is_in_name(at[-1])) at--;
  return at;
}

// Whether a call unpacks (**LORA) the dict whose entry LORA.r was read.
static bool is_unpacked_in(const char *text, const char *key) {
  const char *end = strrchr(key, '.'), *begin = end;
  while (begin && begin > key && begin[-1] != '.') begin--;
  size_t size = begin ? (size_t)(end - begin) : 0;
  for (const char *at = text; size && (at = strstr(at, "**")); at += 2)
    if (strncmp(at + 2, begin, size) == 0 && !is_in_name(at[2 + size])) return true;
  return false;
}

bool plim_reading_explains(const plim_reading *reading, const plim_setting *computed) {
  char key[PLIM_KEY_BYTES], name[PLIM_KEY_BYTES];
  if (!reading->setting || computed->value.kind != PLIM_VALUE_DERIVED) return false;
  if (is_unpacked_in(computed->value.text, reading->setting->key)) return true;
  last_part(reading->setting->key, key);
  plim_key_name(key, name);
  const char *text = computed->value.text, *end = end_of_reference(text);
  size_t size = strlen(name);
  if (!end || (size_t)(end - text) < size) return false;
  bool is_whole = end == text + size || !is_in_name(end[-(ptrdiff_t)size - 1]);
  return is_whole && strncasecmp(end - size, name, size) == 0;
}

// A computed value takes effect unless it is computed from the one that was read.
static plim_reading decide(const reader *r, decision *d) {
  bool is_read = d->reading.origin == PLIM_EXPLICIT && d->reading.setting;
  bool is_explained = is_read && d->unreadable && plim_reading_explains(&d->reading, d->unreadable);
  if (d->is_open || (d->unreadable && !is_explained))
    explain_unreadable(r->s, d->unreadable, d->unreadable_key, &d->reading);
  return d->reading;
}

static void resolve_tables(reader *r, plim_dialect dialect, plim_knob knob, decision *d) {
  for (plim_dialect at = dialect; at != PLIM_DIALECTS; at = plim_dialect_table[at].base) {
    const plim_dialect_info *info = &plim_dialect_table[at];
    if (resolve_table(r, info->keys, info->is_nested, knob, d)) break;
  }
}

static bool is_silent(const decision *d) {
  return d->reading.origin <= PLIM_DEFAULTED && !d->unreadable;
}

static void resolve_knob(reader *r, plim_dialect dialect, plim_knob knob, plim_reading *out) {
  decision d = {0}, faint = {0};
  resolve_tables(r, dialect, knob, &d);
  r->accepts_faint = r->has_faint && is_silent(&d);
  if (r->accepts_faint) resolve_tables(r, dialect, knob, &faint);
  r->accepts_faint = false;
  if (!is_silent(&faint)) d = faint;
  decision launch = {0};
  bool is_launched = r->s->format == PLIM_FORMAT_SHELL || r->s->format == PLIM_FORMAT_DOCKERFILE ||
                     r->s->format == PLIM_FORMAT_PYTHON;
  if (is_launched && d.reading.origin <= PLIM_DEFAULTED)
    resolve_table(r, plim_launch_keys, false, knob, &launch);
  *out = decide(r, &d);
  plim_reading launched = decide(r, &launch);
  if (launched.origin > PLIM_DEFAULTED) *out = launched;
}

// ---- unknown arguments --------------------------------------------------------------------------------

static bool is_row_of(const reader *r, plim_dialect dialect, plim_knob knob,
                      const plim_setting *setting) {
  for (plim_dialect at = dialect; at != PLIM_DIALECTS; at = plim_dialect_table[at].base)
    for (const plim_key *key = plim_dialect_table[at].keys; key->key; key++)
      if (is_about(key, knob, r->s->format) &&
          plim_key_is_of(key, setting, plim_dialect_table[at].is_nested))
        return true;
  return false;
}

// Whether the call also sets the knob with a keyword argument: then it cannot be among the unpacked arguments.
static bool is_given_beside(const reader *r, plim_dialect dialect, plim_knob knob,
                            const plim_setting *rest) {
  size_t size = strlen(rest->key) - 2; // with its dot, without the two stars
  for (size_t i = plim_settings_below(r->s, rest->key, size); i < r->s->by_key.len; i++) {
    const plim_setting *x = &r->s->at.at[r->s->by_key.at[i]];
    if (strncmp(x->key, rest->key, size) != 0) return false;
    if (!x->is_rest && is_row_of(r, dialect, knob, x)) return true;
  }
  return false;
}

// TrainingArguments(**config): `config` may set the knob.
static void doubt_rest(const reader *r, plim_dialect dialect, plim_knob knob, plim_reading *out) {
  for (size_t i = 0; r->has_rest && i < r->s->at.len; i++) {
    const plim_setting *rest = &r->s->at.at[i];
    if (!rest->is_rest || rest->is_of_evaluation || plim_setting_counts(r->s, rest) == PLIM_NO)
      continue;
    if (!plim_rest_gives(rest, dialect, knob) || is_given_beside(r, dialect, knob, rest)) continue;
    *out = (plim_reading){
        .origin = PLIM_UNCLEAR, .setting = rest, .key = &plim_natural_keys[knob], .is_fixed = true};
    snprintf(out->why, sizeof out->why,
             "%.*s (line %d) may get it from %.80s, whose content is unknown",
             (int)(strlen(rest->key) - 3), rest->key, rest->line, rest->value.text);
    return;
  }
}

// ---- what must not change ---------------------------------------------------------------------------

static void fix(plim_reading *reading, const char *reason, const char *source) {
  if (reading->is_fixed || reading->origin == PLIM_ABSENT) return;
  reading->is_fixed = true;
  snprintf(reading->why, sizeof reading->why, "%.100s (%.110s)", reason, source);
}

static void apply_locks(const plim_settings *s, plim_recipe_file *out) {
  for (int i = 0; i < PLIM_KNOBS; i++) {
    plim_reading *reading = &out->knobs[i];
    if (!reading->setting || reading->is_fixed) continue;
    const char *ban = plim_lock_of(s, reading->setting);
    if (ban) fix(reading, "a comment forbids it", ban);
  }
}

// ---- the file ---------------------------------------------------------------------------------------

plim_err plim_recipe_file_read(plim_settings *s, plim_dialect dialect, plim_recipe_file *out,
                               plim_error *error) {
  *out = (plim_recipe_file){.dialect = dialect};
  reader r = {.s = s};
  for (size_t i = 0; i < s->at.len; i++) {
    r.has_faint |= s->at.at[i].is_faint;
    r.has_rest |= s->at.at[i].is_rest;
  }
  plim_err err = plim_key_index_make(s, &r.names)
                     ? PLIM_OK
                     : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  for (int i = 0; i < PLIM_KNOBS && !err; i++) {
    resolve_knob(&r, dialect, (plim_knob)i, &out->knobs[i]);
    doubt_rest(&r, dialect, (plim_knob)i, &out->knobs[i]);
  }
  apply_locks(s, out);
  plim_key_index_free(&r.names);
  return !err && s->has_failed ? plim_fail(error, PLIM_ERR_NOMEM, "out of memory") : err;
}

plim_err plim_reading_of(plim_settings *s, const plim_setting *setting, const plim_key *key,
                         plim_reading *out, plim_error *error) {
  decision d = {0};
  reader r = {.s = s};
  const plim_setting *root = root_of(s, setting);
  resolve(&r, &d, key, root, plim_key_read(key, s, root));
  *out = decide(&r, &d);
  if (out->origin == PLIM_ABSENT) *out = (plim_reading){.setting = root, .key = key};
  const char *ban = out->setting ? plim_lock_beside(out->setting) : NULL;
  if (ban) fix(out, "a comment forbids it", ban);
  return s->has_failed ? plim_fail(error, PLIM_ERR_NOMEM, "out of memory") : PLIM_OK;
}

// Whether a flag is set: do_train: true, --do_predict.
static bool has_flag(const plim_settings *s, const char *name) {
  for (size_t i = 0; i < s->at.len; i++) {
    const plim_value *v = &s->at.at[i].value;
    bool is_true = v->kind == PLIM_VALUE_BOOL
                       ? v->flag
                       : v->kind == PLIM_VALUE_TEXT && strcasecmp(v->text, "true") == 0;
    if (is_true && plim_key_is_called(s->at.at[i].key, name)) return true;
  }
  return false;
}

// What files of LLaMA-Factory do that do not train, and the command that does it (cli.py, v1/launcher.py).
static const char predicts[] = "it only predicts: do_predict is set, and do_train is not";
static const char evaluates[] = "it only evaluates: do_eval is set, and do_train is not";
static const char exports[] =
    "it merges and exports a model: export_dir is set, and do_train is not";
static const char answers[] = "it configures inference: infer_backend is set, and do_train is not";
static const char merges[] =
    "it merges and exports a model: export_dir is set, and train_dataset is not";
static const char exports_at_home[] = "it exports a model and does not train";
static const char answers_at_home[] = "it generates with a model and does not train";

static const struct {
  const char *why, *command;
} idle_commands[] = {
    {predicts, "llamafactory-cli train"},
    {evaluates, "llamafactory-cli train"},
    {exports, "llamafactory-cli export"},
    {answers, "llamafactory-cli chat"},
    {merges, "env USE_V1=1 llamafactory-cli merge"},
};

// The scripts of transformers and LLaMA-Factory train only if do_train is set.
static const char *only_predicts(const plim_settings *s, plim_dialect dialect) {
  bool is_asked = dialect == PLIM_DIALECT_HF || dialect == PLIM_DIALECT_LLAMA_FACTORY;
  if (!is_asked || s->format == PLIM_FORMAT_PYTHON || has_flag(s, "do_train")) return NULL;
  if (has_flag(s, "do_predict")) return predicts;
  bool is_factory = dialect == PLIM_DIALECT_LLAMA_FACTORY;
  if (is_factory && has_flag(s, "do_eval")) return evaluates;
  if (is_factory && plim_settings_find(s, "export_dir")) return exports;
  if (is_factory && plim_settings_find(s, "infer_backend")) return answers;
  return NULL;
}

// LLaMA-Factory v1 exports an adapter that was trained before.
static const char *only_exports(const plim_settings *s, plim_dialect dialect) {
  bool is_export = dialect == PLIM_DIALECT_LLAMA_FACTORY_V1 &&
                   plim_settings_find(s, "peft_config.export_dir") &&
                   !plim_settings_find(s, "train_dataset");
  return is_export ? merges : NULL;
}

// A file of torchtune without an optimizer. That of asynchronous GRPO has it below "training", and is refused by its keys.
static const char *task_of_tune(const plim_settings *s) {
  if (plim_settings_has_below(s, "orchestration.")) return NULL;
  if (plim_settings_has_below(s, "tasks."))
    return "it only evaluates a model: it configures no optimizer";
  if (plim_settings_find(s, "max_new_tokens"))
    return "it only generates text: it configures no optimizer";
  return "it configures no optimizer, so it does not train";
}

const char *plim_recipe_file_refusal(const plim_settings *s, const plim_recipe_file *recipe) {
  if (plim_dialect_table[recipe->dialect].is_part)
    return "it configures how a run is launched, not what is trained";
  bool is_home = recipe->dialect == PLIM_DIALECT_HOME;
  if (is_home &&
      (plim_settings_find(s, "export_dir") || plim_settings_find(s, "peft_config.export_dir")))
    return exports_at_home; // LLaMA-Factory's, as the next
  if (is_home &&
      (plim_settings_find(s, "infer_backend") || plim_settings_find(s, "sample_backend")))
    return answers_at_home;
  if (is_home && recipe->knobs[PLIM_KNOB_MICRO_BATCH].origin == PLIM_ABSENT)
    return "it sets no batch size that plimsoll recognises";
  bool is_tune = recipe->dialect == PLIM_DIALECT_TORCHTUNE;
  if (is_tune && !plim_settings_find(s, "optimizer._component_")) return task_of_tune(s);
  const char *other = only_exports(s, recipe->dialect);
  return other ? other : only_predicts(s, recipe->dialect);
}

const char *plim_recipe_file_command(const plim_settings *s, const plim_recipe_file *recipe) {
  const char *why = plim_recipe_file_refusal(s, recipe);
  if (why == exports_at_home)
    return plim_settings_find(s, "export_dir") ? "llamafactory-cli export"
                                               : "env USE_V1=1 llamafactory-cli merge";
  if (why == answers_at_home)
    return plim_settings_find(s, "infer_backend") ? "llamafactory-cli chat"
                                                  : "env USE_V1=1 llamafactory-cli chat";
  bool is_factory = recipe->dialect == PLIM_DIALECT_LLAMA_FACTORY ||
                    recipe->dialect == PLIM_DIALECT_LLAMA_FACTORY_V1;
  for (size_t i = 0; is_factory && i < sizeof idle_commands / sizeof *idle_commands; i++)
    if (idle_commands[i].why == why) return idle_commands[i].command;
  return NULL;
}
