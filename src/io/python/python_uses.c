// Decides when the settings in a function, or in a configuration of adapters, take effect: under the conditions of the
// code that uses them.
#include <stdlib.h>
#include <string.h>

#include "key_names.h"
#include "python_reader.h"
#include "sort.h"

#define BEING_ASKED UINT32_MAX // not an enumerator, because those must fit into int

enum { MAX_SITES = 64, MAX_CALLS = 16, UNKNOWN_YET = 0 };

// ---- while reading ------------------------------------------------------------------------------------------

void plim_py_note_site(plim_py_reader *r, size_t name, bool is_whole) {
  plim_py_site site = {.name = plim_py_text(r, name),
                       .size = (uint32_t)plim_py_size(r, name),
                       .scope = r->block->scope,
                       .function = r->block->function,
                       .condition = r->condition ? r->condition : r->block->condition,
                       .is_given = is_whole && r->is_given};
  if (!vec_push(&r->names.sites, site)) plim_py_no_memory(r);
}

bool plim_py_only_looks(const plim_py_reader *r, size_t last) {
  static const char *const names[] = {"print", "str", "repr",  "asdict", "vars", "info",
                                      "debug", "log", "dumps", "pprint", "type", "isinstance"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (plim_py_is_text(r, last, names[i])) return true;
  return false;
}

void plim_py_note_function(plim_py_reader *r, size_t name, uint32_t scope) {
  plim_py_holder function = {plim_py_text(r, name), (uint32_t)plim_py_size(r, name), scope, NULL};
  if (!vec_push(&r->names.functions, function)) plim_py_no_memory(r);
}

void plim_py_note_adapter(plim_py_reader *r, size_t name, size_t last, const char *call) {
  plim_py_holder adapter = {plim_py_text(r, name), (uint32_t)plim_py_size(r, name), r->block->scope,
                            call};
  bool is_adapter = plim_is_configuration(plim_py_text(r, last), plim_py_size(r, last));
  if (is_adapter && call && !vec_push(&r->names.adapters, adapter)) plim_py_no_memory(r);
}

// ---- at the end ---------------------------------------------------------------------------------------------

static int by_name(const void *x, const void *y) {
  const plim_py_site *a = x, *b = y;
  if (a->size != b->size) return a->size < b->size ? -1 : 1;
  int order = memcmp(a->name, b->name, a->size);
  return order ? order : (a->name > b->name) - (a->name < b->name); // in the order of the text
}

// The index of the first site of a name; `*count` is their number, at most MAX_SITES + 1.
static size_t sites_of(const plim_py_names *n, const plim_py_holder *h, size_t *count) {
  plim_py_site wanted = {.name = h->name, .size = h->size};
  size_t low = 0, high = n->sites.len, end;
  while (low < high) {
    size_t middle = (low + high) / 2;
    const plim_py_site *s = &n->sites.at[middle];
    bool is_before =
        s->size != h->size ? s->size < h->size : memcmp(s->name, wanted.name, h->size) < 0;
    if (is_before) low = middle + 1;
    else high = middle;
  }
  for (end = low; end < n->sites.len && end <= low + MAX_SITES &&
                  n->sites.at[end].size == h->size &&
                  memcmp(n->sites.at[end].name, h->name, h->size) == 0;)
    end++;
  *count = end - low;
  return low;
}

typedef struct {
  plim_py_reader *r;
  uint32_t *of_scope; // by scope of a function: its condition plus 1; 0: not computed yet
  int depth;
} settling;

static uint32_t condition_of(settling *s, uint32_t function);

// The condition under which one of the sites is reached; 0: always, or no site is known.
static uint32_t reach(settling *s, const plim_py_holder *h) {
  const plim_py_names *n = &s->r->names;
  size_t count, first = sites_of(n, h, &count);
  uint32_t any = 0;
  bool is_first = true;
  size_t looked_at = count > MAX_SITES ? MAX_SITES : count;
  for (size_t i = first; i < first + looked_at; i++) {
    const plim_py_site *site = &n->sites.at[i];
    bool is_other =
        h->call ? !site->is_given || plim_py_scope_of(n, site->scope, h->name, h->size) != h->scope
                : site->function == h->scope;
    if (is_other) continue;
    uint32_t mine = plim_py_both(s->r, site->condition, condition_of(s, site->function));
    if (!mine) return 0;
    any = is_first ? mine : plim_py_either(s->r, any, mine);
    is_first = false;
  }
  return count > looked_at ? plim_py_unknown(s->r, "how it is called") : any;
}

const plim_py_holder *plim_py_function_at(const plim_py_names *n, uint32_t scope) {
  size_t low = 0, high = n->functions.len; // sorted by scope
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (n->functions.at[middle].scope < scope) low = middle + 1;
    else high = middle;
  }
  bool is_there = scope && low < n->functions.len && n->functions.at[low].scope == scope;
  return is_there ? &n->functions.at[low] : NULL;
}

static uint32_t condition_of(settling *s, uint32_t function) {
  if (!function || s->of_scope[function] == BEING_ASKED) return 0;
  if (s->depth > MAX_CALLS) return plim_py_unknown(s->r, "how it is called");
  if (s->of_scope[function] != UNKNOWN_YET) return s->of_scope[function] - 1;
  const plim_py_holder *h = plim_py_function_at(&s->r->names, function);
  s->of_scope[function] = BEING_ASKED;
  s->depth++;
  uint32_t condition = h ? reach(s, h) : 0;
  s->depth--;
  s->of_scope[function] = condition + 1;
  return condition;
}

static void settle_functions(settling *s) {
  plim_settings *all = s->r->s;
  for (size_t i = 0; i < all->at.len && !s->r->err; i++) {
    uint32_t mine = condition_of(s, s->r->names.owners.at[i]);
    if (mine) all->at.at[i].condition = plim_py_both(s->r, all->at.at[i].condition, mine);
  }
}

static void settle_adapter(settling *s, const plim_py_holder *adapter) {
  uint32_t applied = reach(s, adapter);
  size_t size = strlen(adapter->call);
  plim_settings *all = s->r->s;
  for (size_t i = 0; applied && i < all->at.len; i++) {
    plim_setting *x = &all->at.at[i];
    bool is_its = strncmp(x->key, adapter->call, size) == 0 && x->key[size] == '.';
    if (is_its) x->condition = plim_py_both(s->r, x->condition, applied);
  }
}

void plim_py_settle_uses(plim_py_reader *r) {
  settling s = {r, calloc(r->names.paths.len + 1, sizeof *s.of_scope), 0};
  if (!s.of_scope) {
    plim_py_no_memory(r);
    return;
  }
  if (r->names.sites.len)
    plim_sort(r->names.sites.at, r->names.sites.len, sizeof *r->names.sites.at, by_name);
  settle_functions(&s);
  for (size_t i = 0; i < r->names.adapters.len && !r->err; i++)
    settle_adapter(&s, &r->names.adapters.at[i]);
  free(s.of_scope);
}

// ---- literals that only these use ---------------------------------------------------------------------------

typedef struct {
  uint32_t any; // the condition under which one of its uses takes effect; 0: always
  bool is_used, is_of_configuration;
} uses;

// If LoraConfig(r=args.lora_r) is under `if args.use_lora`, args.lora_r is a rank only if that condition holds.
void plim_py_settle_roots(plim_py_reader *r) {
  plim_settings *s = r->s;
  uses *of = calloc(s->at.len + 1, sizeof *of);
  if (!of) plim_py_no_memory(r);
  for (size_t i = 0; of && i < s->at.len; i++) {
    const plim_setting *x = &s->at.at[i], *root = x->root ? plim_settings_find(s, x->root) : NULL;
    if (!root || root == x) continue;
    uses *u = &of[root - s->at.at];
    u->any = u->is_used ? plim_py_either(r, u->any, x->condition) : x->condition;
    u->is_used = true;
    u->is_of_configuration |= plim_key_is_of_configuration(x->key);
  }
  for (size_t i = 0; of && i < s->at.len; i++)
    if (of[i].is_of_configuration)
      s->at.at[i].condition = plim_py_both(r, s->at.at[i].condition, of[i].any);
  free(of);
}
