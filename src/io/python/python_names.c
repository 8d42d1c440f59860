#include "python_names.h"

#include <stdio.h>
#include <string.h>

#include "conditions.h"

enum { MAX_HOPS = 16, MAX_KEY = 1024 };

// Facts are stored under a hash of the name, of their kind and of the scope or line where they hold. A collision is
// harmless: the key of the setting that is found is compared before use, so at worst a root is missed.
typedef enum {
  ASSIGNED,    // number of assignments in a scope
  BOUND,       // bound in a scope other than by plain assignment
  IN_LINE,     // bound in one logical line, by a comprehension or a lambda
  GLOBAL,      // declared global in a scope
  CLASS,       // a class that the file defines
  CALLS,       // number of calls of this name
  ALIAS,       // a name in a scope that holds the result of a call: index of the call
  ARGUMENTS,   // a name that holds parsed arguments
  DESTINATION, // the attribute that stores an argument: its setting
  FIELD,       // a field of a class, without the class: its setting
  KEY,         // the last setting of this key
  REFERENCE,   // the reference that a setting is, by the setting's number
  USED,        // number of assignments in the module before the first use
  NEEDED,      // used by code that does more than print it
  UNPACKED,    // a dict in a scope whose entries are used as arguments
  MUTATED,     // index of the first mutation in the file
  PARAMETER,   // a parameter of the function with this scope
  TOUCHED,     // its elements are assigned
  CHANGER,     // a function that changes its arguments
  KINDS
} fact;

#define SEVERAL UINT32_MAX

static uint64_t file_under(fact kind, uint64_t where, const char *name, size_t size) {
  return plim_text_hash(where * KINDS + kind, name, size);
}

static void put(plim_py_names *n, uint64_t hash, uint32_t value) {
  if (!plim_hash_put(&n->facts, hash, value)) n->is_out_of_memory = true;
}

static uint32_t *find(const plim_py_names *n, fact kind, uint64_t where, const char *name,
                      size_t size) {
  return plim_hash_find(&n->facts, file_under(kind, where, name, size));
}

static void count(plim_py_names *n, fact kind, uint64_t where, const char *name, size_t size) {
  uint32_t *before = find(n, kind, where, name, size), now = before ? *before + 1 : 1;
  put(n, file_under(kind, where, name, size), now);
}

// ---- collecting -------------------------------------------------------------------------------------

uint32_t plim_py_scope_new(plim_py_names *n, uint32_t parent, const char *path) {
  if (!vec_push(&n->parents, parent) || !vec_push(&n->paths, path)) n->is_out_of_memory = true;
  return n->paths.len ? (uint32_t)n->paths.len - 1 : 0;
}

void plim_py_names_free(plim_py_names *n) {
  vec_free(&n->parents);
  vec_free(&n->paths);
  vec_free(&n->locals);
  vec_free(&n->aliases);
  vec_free(&n->arguments);
  vec_free(&n->mutations);
  vec_free(&n->defaults);
  vec_free(&n->handings);
  vec_free(&n->links);
  vec_free(&n->replacements);
  vec_free(&n->unpackings);
  vec_free(&n->changed);
  vec_free(&n->references);
  vec_free(&n->expressions);
  vec_free(&n->tests);
  vec_free(&n->loads);
  vec_free(&n->sites);
  vec_free(&n->functions);
  vec_free(&n->adapters);
  vec_free(&n->owners);
  vec_free(&n->dicts);
  plim_hash_free(&n->facts);
}

bool plim_py_is_global(const plim_py_names *n, uint32_t scope, const char *name, size_t size) {
  return scope && find(n, GLOBAL, scope, name, size);
}

static uint32_t scope_of(const plim_py_names *n, uint32_t scope, const char *name, size_t size) {
  return plim_py_is_global(n, scope, name, size) ? 0 : scope;
}

void plim_py_assign(plim_py_names *n, uint32_t scope, const char *name, size_t size) {
  count(n, ASSIGNED, scope_of(n, scope, name, size), name, size);
}

void plim_py_bind(plim_py_names *n, uint32_t scope, const char *name, size_t size) {
  count(n, BOUND, scope_of(n, scope, name, size), name, size);
}

void plim_py_bind_around(plim_py_names *n, uint32_t scope, const char *name, size_t size) {
  for (scope = n->parents.at[scope]; scope; scope = n->parents.at[scope])
    count(n, BOUND, scope, name, size);
}

void plim_py_bind_in_line(plim_py_names *n, uint64_t line, const char *name, size_t size) {
  count(n, IN_LINE, line, name, size);
}

uint32_t plim_py_scope_of(const plim_py_names *n, uint32_t scope, const char *name, size_t size) {
  while (scope && !find(n, ASSIGNED, scope, name, size) && !find(n, BOUND, scope, name, size))
    scope = n->parents.at[scope];
  return scope;
}

void plim_py_use(plim_py_names *n, uint32_t scope, const char *name, size_t size) {
  scope = plim_py_scope_of(n, scope, name, size);
  if (scope || find(n, USED, 0, name, size)) return;
  uint32_t *assigned = find(n, ASSIGNED, 0, name, size);
  put(n, file_under(USED, 0, name, size), assigned ? *assigned : 0);
}

void plim_py_need(plim_py_names *n, const char *name, size_t size) {
  if (!find(n, NEEDED, 0, name, size)) put(n, file_under(NEEDED, 0, name, size), 1);
}

bool plim_py_is_needed(const plim_py_names *n, const char *name, size_t size) {
  return find(n, NEEDED, 0, name, size) != NULL;
}

void plim_py_unpack(plim_py_names *n, uint32_t scope, const char *name, size_t size) {
  put(n, file_under(UNPACKED, scope, name, size), 1);
}

bool plim_py_is_unpacked(const plim_py_names *n, uint32_t scope, const char *name, size_t size) {
  return find(n, UNPACKED, scope, name, size) != NULL;
}

bool plim_py_is_mutated(const plim_py_names *n, const char *name, size_t size) {
  return find(n, MUTATED, 0, name, size) != NULL;
}

void plim_py_mutate(plim_py_names *n, const char *name, size_t size, uint32_t line) {
  bool is_first = !find(n, MUTATED, 0, name, size);
  plim_py_mutation mutation = {name, (uint32_t)size, line};
  if (!is_first) return;
  if (!vec_push(&n->mutations, mutation)) n->is_out_of_memory = true;
  else put(n, file_under(MUTATED, 0, name, size), (uint32_t)n->mutations.len - 1);
}

uint32_t plim_py_mutation_line(const plim_py_names *n, const char *name, size_t size) {
  uint32_t *found = find(n, MUTATED, 0, name, size);
  return found ? n->mutations.at[*found].line : 1;
}

void plim_py_touch(plim_py_names *n, const char *name, size_t size) {
  put(n, file_under(TOUCHED, 0, name, size), 1);
}

bool plim_py_is_touched(const plim_py_names *n, const char *name, size_t size) {
  return find(n, TOUCHED, 0, name, size) || find(n, MUTATED, 0, name, size);
}

void plim_py_add_parameter(plim_py_names *n, uint32_t scope, const char *name, size_t size) {
  count(n, PARAMETER, scope, name, size);
}

bool plim_py_is_parameter(const plim_py_names *n, uint32_t scope, const char *name, size_t size) {
  return find(n, PARAMETER, scope, name, size) != NULL;
}

void plim_py_add_changer(plim_py_names *n, const char *name, size_t size) {
  count(n, CHANGER, 0, name, size);
}

bool plim_py_is_changer(const plim_py_names *n, const char *name, size_t size) {
  return find(n, CHANGER, 0, name, size) != NULL;
}

bool plim_py_is_assigned_again(const plim_py_names *n, uint32_t scope, const char *name,
                               size_t size) {
  uint32_t *assigned = find(n, ASSIGNED, scope, name, size);
  return assigned && *assigned > 1;
}

bool plim_py_is_arguments(const plim_py_names *n, const char *name, size_t size) {
  return find(n, ARGUMENTS, 0, name, size) != NULL;
}

uint32_t plim_py_destination(const plim_py_names *n, const char *name, size_t size) {
  uint32_t *found = find(n, DESTINATION, 0, name, size);
  return found ? *found : SEVERAL;
}

bool plim_py_is_field(const plim_py_names *n, const char *key) {
  const char *dot = strchr(key, '.');
  return dot && !strchr(dot + 1, '.') && plim_py_is_class(n, key, (size_t)(dot - key));
}

void plim_py_declare_global(plim_py_names *n, uint32_t scope, const char *name, size_t size) {
  count(n, GLOBAL, scope, name, size);
}

void plim_py_add_class(plim_py_names *n, const char *path, size_t size) {
  count(n, CLASS, 0, path, size);
}

bool plim_py_is_class(const plim_py_names *n, const char *path, size_t size) {
  return find(n, CLASS, 0, path, size) != NULL;
}

uint32_t plim_py_calls(const plim_py_names *n, const char *name, size_t size) {
  uint32_t *found = find(n, CALLS, 0, name, size);
  return found ? *found : 0;
}

void plim_py_count_call(plim_py_names *n, const char *name, size_t size) {
  count(n, CALLS, 0, name, size);
}

void plim_py_add_alias(plim_py_names *n, plim_py_holder alias) {
  if (!vec_push(&n->aliases, alias)) n->is_out_of_memory = true;
  else put(n, file_under(ALIAS, alias.scope, alias.name, alias.size), (uint32_t)n->aliases.len - 1);
}

const char *plim_py_alias(const plim_py_names *n, uint32_t scope, const char *name, size_t size) {
  uint32_t *alias = find(n, ALIAS, scope, name, size);
  return alias ? n->aliases.at[*alias].call : NULL;
}

void plim_py_add_arguments(plim_py_names *n, const char *name, size_t size) {
  count(n, ARGUMENTS, 0, name, size);
}

void plim_py_add_destination(plim_py_names *n, const char *name, size_t size, uint32_t setting) {
  bool is_second = find(n, DESTINATION, 0, name, size);
  if (!vec_push(&n->arguments, setting)) n->is_out_of_memory = true;
  put(n, file_under(DESTINATION, 0, name, size), is_second ? SEVERAL : setting);
}

// Adds Class.name, which HfArgumentParser turns into an argument.
static void add_field(plim_py_names *n, const char *key, uint32_t setting) {
  const char *dot = strchr(key, '.');
  if (!plim_py_is_field(n, key)) return;
  bool is_second = find(n, FIELD, 0, dot + 1, strlen(dot + 1));
  put(n, file_under(FIELD, 0, dot + 1, strlen(dot + 1)), is_second ? SEVERAL : setting);
}

void plim_py_add_local(plim_py_names *n, plim_py_local_name local) {
  if (!vec_push(&n->locals, local)) n->is_out_of_memory = true;
}

bool plim_py_is_only(const plim_py_names *n, const plim_py_local_name *local) {
  uint32_t *assigned = find(n, ASSIGNED, local->scope, local->name, local->size);
  return assigned && *assigned == 1 && !find(n, BOUND, local->scope, local->name, local->size);
}

void plim_py_add_reference(plim_py_names *n, plim_py_reference reference) {
  if (!vec_push(&n->references, reference)) n->is_out_of_memory = true;
  else put(n, file_under(REFERENCE, reference.setting, "", 0), (uint32_t)n->references.len - 1);
}

// ---- resolving --------------------------------------------------------------------------------------

#define NOTHING UINT32_MAX

static uint32_t setting_of(const plim_py_names *n, const plim_settings *s, const char *key) {
  uint32_t *found = find(n, KEY, 0, key, strlen(key));
  return found && strcmp(s->at.at[*found].key, key) == 0 ? *found : NOTHING;
}

// Whether the value of the name depends on where it is used.
static bool is_in_doubt(const plim_py_names *n, const char *name, size_t size) {
  uint32_t *assigned = find(n, ASSIGNED, 0, name, size), *used = find(n, USED, 0, name, size);
  if (find(n, MUTATED, 0, name, size) || (n->is_rewritten && assigned)) return true;
  return assigned && used && *assigned > 1 && *used < *assigned;
}

// The setting behind args.batch_size: that of add_argument("--batch-size"), or the field of a dataclass. NOTHING if
// args.batch_size itself is assigned.
static uint32_t argument_of(const plim_py_names *n, const plim_settings *s,
                            const plim_py_reference *r) {
  const char *name = r->key + r->base_size;
  if (is_in_doubt(n, r->key, r->base_size)) return NOTHING;
  bool is_arguments = find(n, ARGUMENTS, 0, r->key, r->base_size) ||
                      (r->base_size == 4 && memcmp(r->key, "args", 4) == 0);
  if (!is_arguments || *name != '.' || setting_of(n, s, r->key) != NOTHING) return NOTHING;
  uint32_t *found = find(n, DESTINATION, 0, name + 1, strlen(name + 1));
  if (!found) found = find(n, FIELD, 0, name + 1, strlen(name + 1));
  return found && *found != SEVERAL ? *found : NOTHING;
}

// The setting behind config.batch_size with config = Config(...).
static uint32_t alias_of(const plim_py_names *n, const plim_settings *s, uint32_t scope,
                         const plim_py_reference *r) {
  uint32_t *alias = find(n, ALIAS, scope, r->key, r->base_size);
  uint32_t *assigned = find(n, ASSIGNED, scope, r->key, r->base_size);
  bool is_only = assigned && *assigned == 1 && !find(n, BOUND, scope, r->key, r->base_size) &&
                 !is_in_doubt(n, r->key, r->base_size);
  if (!alias || !is_only || r->key[r->base_size] != '.') return NOTHING;
  char key[MAX_KEY];
  int length = snprintf(key, sizeof key, "%s%s", n->aliases.at[*alias].call, r->key + r->base_size);
  return length < (int)sizeof key ? setting_of(n, s, key) : NOTHING;
}

// The setting of a local variable in the function that assigns it.
static uint32_t local_of(const plim_py_names *n, const plim_settings *s, uint32_t scope,
                         const plim_py_reference *r) {
  char key[MAX_KEY];
  const char *path = scope < n->paths.len ? n->paths.at[scope] : NULL;
  if (!path || r->key[r->base_size]) return NOTHING;
  int length = snprintf(key, sizeof key, "%s.%s", path, r->key);
  return length < (int)sizeof key ? setting_of(n, s, key) : NOTHING;
}

// The setting that a reference refers to, by Python's scope rules.
static uint32_t target_of(const plim_py_names *n, const plim_settings *s,
                          const plim_py_reference *r) {
  uint32_t found = r->class_key ? setting_of(n, s, r->class_key) : NOTHING;
  if (found != NOTHING) return found;
  if (find(n, IN_LINE, r->line, r->key, r->base_size)) return NOTHING;
  uint32_t scope = plim_py_scope_of(n, r->scope, r->key, r->base_size);
  bool is_fixed = !find(n, BOUND, 0, r->key, r->base_size) && !is_in_doubt(n, r->key, r->base_size);
  if (!scope && is_fixed) found = setting_of(n, s, r->key);
  bool is_later = found != NOTHING && found > r->setting;
  if (is_later && !r->scope) return NOTHING; // in a function it may be set before the call
  if (scope) found = local_of(n, s, scope, r);
  if (found == NOTHING) found = alias_of(n, s, scope, r);
  return found == NOTHING ? argument_of(n, s, r) : found;
}

// Whether the value can be the end of a chain of references: a literal, torch.bfloat16, or a choice between two values.
static bool is_final(const plim_setting *setting) {
  const char *text = setting->value.text;
  if (setting->value.kind != PLIM_VALUE_DERIVED || setting->chooses) return true;
  return strncmp(text, "torch.", 6) == 0 &&
         !text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_.")];
}

static const char *root_of(const plim_py_names *n, const plim_settings *s,
                           const plim_py_reference *r) {
  for (int hops = 0; hops < MAX_HOPS; hops++) {
    uint32_t found = r->is_void ? NOTHING : target_of(n, s, r);
    if (found == NOTHING) return NULL;
    if (is_final(&s->at.at[found])) return s->at.at[found].key;
    uint32_t *next = find(n, REFERENCE, found, "", 0);
    if (!next) return NULL;
    r = &n->references.at[*next];
  }
  return NULL;
}

bool plim_py_doubt(plim_settings *s, plim_setting *setting) {
  char text[MAX_KEY];
  size_t size = setting->span.end - setting->span.begin;
  int length = snprintf(text, sizeof text, "%.*s, but it is changed later",
                        (int)(size < 256 ? size : 256), s->text + setting->span.begin);
  const char *kept = plim_settings_keep(s, text, length > 0 ? (size_t)length : 0);
  setting->value = (plim_value){.kind = PLIM_VALUE_DERIVED, .text = kept ? kept : ""};
  return kept;
}

static void doubt_names(plim_py_names *n, plim_settings *s) {
  for (uint32_t i = 0; i < s->at.len; i++) {
    plim_setting *setting = &s->at.at[i];
    bool is_literal = setting->value.kind != PLIM_VALUE_DERIVED;
    bool doubts = is_literal && is_in_doubt(n, setting->key, strcspn(setting->key, "."));
    if (doubts && !plim_py_doubt(s, setting)) n->is_out_of_memory = true;
  }
}

const plim_setting *plim_py_target(const plim_py_names *n, const plim_settings *s,
                                   const plim_py_reference *r) {
  uint32_t found = target_of(n, s, r);
  return found == NOTHING ? NULL : &s->at.at[found];
}

bool plim_py_resolve(plim_py_names *n, plim_settings *s) {
  doubt_names(n, s);
  for (uint32_t i = 0; i < s->at.len; i++) {
    put(n, file_under(KEY, 0, s->at.at[i].key, strlen(s->at.at[i].key)), i);
    add_field(n, s->at.at[i].key, i);
  }
  for (size_t i = 0; i < n->references.len; i++) {
    plim_py_reference *r = &n->references.at[i];
    s->at.at[r->setting].root = root_of(n, s, r);
    bool is_changed = r->is_void || is_in_doubt(n, r->key, r->base_size);
    if (!s->at.at[r->setting].root && !is_changed) s->at.at[r->setting].reference = r->key;
  }
  for (size_t i = 0; i < n->loads.len; i++)
    s->loads.at[n->loads.at[i].condition].root = root_of(n, s, &n->loads.at[i].of);
  for (size_t i = 0; i < n->tests.len; i++) {
    plim_condition *c = &s->conditions.at[n->tests.at[i].condition - 1];
    c->root = root_of(n, s, &n->tests.at[i].of);
    if (is_in_doubt(n, n->tests.at[i].of.key, n->tests.at[i].of.base_size)) c->name = NULL;
  }
  if (!plim_settings_sort(s)) n->is_out_of_memory = true;
  return !n->is_out_of_memory;
}
