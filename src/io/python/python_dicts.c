// Decides which dict literals contain settings and which only happen to have the same keys.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "conditions.h"
#include "python_reader.h"

void plim_py_note_dict(plim_py_reader *r, size_t name, size_t from, bool is_local) {
  plim_py_dict dict = {.name = plim_py_text(r, name),
                       .size = (uint32_t)plim_py_size(r, name),
                       .scope = r->block->scope,
                       .from = (uint32_t)from,
                       .to = (uint32_t)r->s->at.len,
                       .is_local = is_local};
  if (!vec_push(&r->names.dicts, dict)) plim_py_no_memory(r);
}

bool plim_py_assign_local_dict(plim_py_reader *r, size_t name, size_t i, size_t end) {
  const char *path = r->names.paths.at[r->block->scope];
  if (!path || !plim_py_is_mapping(r, i, end)) return false;
  size_t from = r->s->at.len, before = plim_py_push(r, path, strlen(path));
  plim_py_push(r, plim_py_text(r, name), plim_py_size(r, name));
  r->is_uncertain = r->block->is_uncertain;
  plim_py_value(r, name, i, end);
  r->is_uncertain = false;
  plim_py_pop(r, before);
  plim_py_note_dict(r, name, from, true);
  return true;
}

// ---- uses -------------------------------------------------------------------------------------------

// Arguments whose value is a whole configuration.
static bool takes_mapping(const plim_py_reader *r, size_t keyword) {
  static const char *const names[] = {"config", "config_params", "deepspeed", "fsdp_config",
                                      "model_kwargs"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (plim_py_is_text(r, keyword, names[i])) return true;
  return false;
}

void plim_py_note_unpacked(plim_py_reader *r, size_t keyword, size_t i, size_t end) {
  bool is_name = end == i + 1 && plim_py_is_name(r, i, end);
  bool is_unpacking = plim_py_is(r, keyword, end, PLIM_PY_POWER);
  if (is_name && (is_unpacking ? r->is_built : takes_mapping(r, keyword)))
    plim_py_unpack(&r->names, r->block->scope, plim_py_text(r, i), plim_py_size(r, i));
}

// ---- at the end -------------------------------------------------------------------------------------

// Whether the name suggests that another file uses the dict for a training.
static bool sounds_like_settings(const plim_py_dict *d) {
  static const char *const words[] = {"conf",  "cfg",     "arg",    "param", "setting",   "train",
                                      "model", "optim",   "lora",   "peft",  "deepspeed", "ds_",
                                      "fsdp",  "default", "option", "hyper"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    for (size_t at = 0; at + strlen(words[i]) <= d->size; at++)
      if (strncasecmp(d->name + at, words[i], strlen(words[i])) == 0) return true;
  return false;
}

static uint32_t add_unused(plim_py_reader *r, const plim_py_dict *d) {
  char text[96];
  int size =
      snprintf(text, sizeof text, "what uses %.*s", d->size < 64 ? (int)d->size : 64, d->name);
  plim_condition c = {.kind = PLIM_IF_TRUE,
                      .text = plim_settings_keep(r->s, text, (size_t)size),
                      .elsewhere = plim_settings_keep(r->s, d->name, d->size),
                      .is_given = true,
                      .given = {.kind = PLIM_VALUE_BOOL}};
  if (sounds_like_settings(d)) c.given = (plim_value){.kind = PLIM_VALUE_DERIVED, .text = ""};
  uint32_t number = plim_condition_add(r->s, c);
  if (!c.text || !c.elsewhere || !number) plim_py_no_memory(r);
  return number;
}

static void put_under(plim_py_reader *r, plim_setting *x, uint32_t condition) {
  if (condition) x->condition = plim_py_both(r, x->condition, condition);
}

// A local dict contains settings only if its entries are used as arguments, and literals only if it is never changed.
static void settle_local(plim_py_reader *r, const plim_py_dict *d) {
  plim_py_local_name local = {.scope = d->scope, .name = d->name, .size = d->size};
  bool is_unpacked = plim_py_is_unpacked(&r->names, d->scope, d->name, d->size);
  bool is_sure =
      plim_py_is_only(&r->names, &local) && !plim_py_is_mutated(&r->names, d->name, d->size);
  uint32_t never = is_unpacked ? 0 : add_unused(r, d);
  if (never) r->s->conditions.at[never - 1].given = (plim_value){.kind = PLIM_VALUE_BOOL};
  if (never) r->s->conditions.at[never - 1].elsewhere = NULL;
  for (uint32_t i = d->from; i < d->to; i++) {
    plim_setting *x = &r->s->at.at[i];
    put_under(r, x, never);
    bool doubts = !is_sure && x->value.kind != PLIM_VALUE_DERIVED;
    if (doubts && !plim_py_doubt(r->s, x)) plim_py_no_memory(r);
  }
}

// Puts the settings of unused dicts under their condition, also entries added by CONFIG["lr"] = 1.
static void settle_module(plim_py_reader *r, const plim_hash *unused) {
  for (size_t i = 0; i < r->s->at.len; i++) {
    plim_setting *x = &r->s->at.at[i];
    const uint32_t *found = plim_hash_find(unused, plim_text_hash(0, x->key, strcspn(x->key, ".")));
    if (found) put_under(r, x, *found);
  }
}

// Dicts that a file does not use have no effect, unless the file creates no objects: then other files use them.
void plim_py_settle_dicts(plim_py_reader *r) {
  plim_hash unused = {0};
  for (size_t i = 0; i < r->names.dicts.len && !r->err; i++) {
    const plim_py_dict *d = &r->names.dicts.at[i];
    uint64_t hash = plim_text_hash(0, d->name, d->size);
    bool is_unused = !d->is_local && r->builds && !plim_py_is_needed(&r->names, d->name, d->size);
    if (d->is_local) settle_local(r, d);
    else if (is_unused && !plim_hash_find(&unused, hash) &&
             !plim_hash_put(&unused, hash, add_unused(r, d)))
      plim_py_no_memory(r);
  }
  if (unused.len) settle_module(r, &unused);
  plim_hash_free(&unused);
}

// ---- unpacked arguments -----------------------------------------------------------------------------

enum { MAX_UNPACKING = 8 }; // dicts unpacked into dicts

#define SEVERAL UINT32_MAX

typedef struct {
  plim_py_reader *r;
  plim_hash dicts;   // by name and scope: its number, or SEVERAL
  plim_hash places;  // by setting: the number of its unpacking
  plim_hash classes; // with unknown arguments: the first setting of the last such call
} unpackings;

static uint64_t dict_hash(const char *name, size_t size, uint32_t scope) {
  return plim_text_hash(scope, name, size);
}

static bool is_closed(const unpackings *u, const plim_py_unpacking *x, int depth);

// Whether all entries are known: the dict and all dicts unpacked into it are assigned once and never changed.
static bool is_known_dict(const unpackings *u, const plim_py_dict *d, int depth) {
  const plim_py_names *n = &u->r->names;
  plim_py_local_name name = {.scope = d->scope, .name = d->name, .size = d->size};
  if (!plim_py_is_only(n, &name) || plim_py_is_mutated(n, d->name, d->size)) return false;
  for (uint32_t i = d->from; i < d->to; i++) {
    const uint32_t *inner = plim_hash_find(&u->places, i);
    if (inner && !is_closed(u, &n->unpackings.at[*inner], depth + 1)) return false;
  }
  return true;
}

static bool is_closed(const unpackings *u, const plim_py_unpacking *x, int depth) {
  const plim_py_names *n = &u->r->names;
  if (!x->name || depth > MAX_UNPACKING) return false;
  if (x->is_shown)
    return plim_py_is_arguments(n, x->name, x->size) && !plim_py_is_mutated(n, x->name, x->size);
  uint32_t scope = plim_py_scope_of(n, x->scope, x->name, x->size);
  const uint32_t *found = plim_hash_find(&u->dicts, dict_hash(x->name, x->size, scope));
  return found && *found != SEVERAL && is_known_dict(u, &n->dicts.at[*found], depth);
}

// Notes Config(**x) for a class of this file: x may set any of its fields.
static void note_class(unpackings *u, const plim_py_unpacking *x) {
  const char *key = u->r->s->at.at[x->setting].key;
  size_t size = strlen(key) - 3, number = strcspn(key, "#"); // without ".**" and "#2"
  if (size > number) size = number;
  if (!plim_py_is_class(&u->r->names, key, size)) return;
  if (!plim_hash_put(&u->classes, plim_text_hash(0, key, size), x->call_from))
    plim_py_no_memory(u->r);
}

// Only settings before the call are affected, not its own arguments.
static void doubt_fields(const unpackings *u) {
  plim_settings *s = u->r->s;
  for (uint32_t i = 0; i < s->at.len && u->classes.len; i++) {
    plim_setting *x = &s->at.at[i];
    if (x->value.kind == PLIM_VALUE_DERIVED || !plim_py_is_field(&u->r->names, x->key)) continue;
    uint64_t hash = plim_text_hash(0, x->key, strcspn(x->key, "."));
    const uint32_t *from = plim_hash_find(&u->classes, hash);
    if (from && i < *from && !plim_py_doubt(s, x)) plim_py_no_memory(u->r);
  }
}

void plim_py_settle_unpackings(plim_py_reader *r) {
  unpackings u = {.r = r};
  plim_py_names *n = &r->names;
  bool ok = true;
  for (uint32_t i = 0; i < n->dicts.len && n->unpackings.len && ok; i++) {
    const plim_py_dict *d = &n->dicts.at[i];
    uint64_t hash = dict_hash(d->name, d->size, d->scope);
    ok = plim_hash_put(&u.dicts, hash, plim_hash_find(&u.dicts, hash) ? SEVERAL : i);
  }
  for (uint32_t i = 0; i < n->unpackings.len && ok; i++)
    ok = plim_hash_put(&u.places, n->unpackings.at[i].setting, i);
  for (size_t i = 0; i < n->unpackings.len && ok && !r->err; i++) {
    const plim_py_unpacking *x = &n->unpackings.at[i];
    r->s->at.at[x->setting].is_rest = !is_closed(&u, x, 0);
    if (r->s->at.at[x->setting].is_rest) note_class(&u, x);
  }
  doubt_fields(&u);
  if (!ok) plim_py_no_memory(r);
  plim_hash_free(&u.dicts);
  plim_hash_free(&u.places);
  plim_hash_free(&u.classes);
}
