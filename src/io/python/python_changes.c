// Finds values that may change after their assignment in ways that are not analysed; they must not be read as literals.
#include <stdlib.h>
#include <string.h>

#include "python_reader.h"

enum { MAX_PASSES = 64 }; // through functions that pass their arguments on

// Functions that return a dict of all names of the module, of the function or of an object.
static bool is_namespace(const plim_py_reader *r, size_t name) {
  return plim_py_is_text(r, name, "globals") || plim_py_is_text(r, name, "locals") ||
         plim_py_is_text(r, name, "vars");
}

static bool is_environment(const plim_py_reader *r, size_t name) {
  return plim_py_is_text(r, name, "os") || plim_py_is_text(r, name, "environ");
}

// ---- while reading ----------------------------------------------------------------------------------

static void note_key(plim_py_reader *r, const char *key, size_t size) {
  if (!vec_push(&r->names.changed, plim_text_hash(0, key, size))) plim_py_no_memory(r);
}

// Notes the key that consists of these parts.
static void note_joined(plim_py_reader *r, const char *head, size_t head_size, const char *middle,
                        const char *tail, size_t tail_size) {
  plim_chars key = {0};
  if (plim_chars_add(&key, head, head_size) && plim_chars_add_text(&key, middle) &&
      plim_chars_add(&key, tail, tail_size))
    note_key(r, key.at, key.len);
  else plim_py_no_memory(r);
  vec_free(&key);
}

// Notes a changed key: of the module, of the current function, and of the call that created it: config = Config(...).
static void note_both_keys(plim_py_reader *r, const plim_chars *key) {
  const char *path = r->names.paths.at[r->block->scope];
  const char *dot = memchr(key->at, '.', key->len);
  size_t size = dot ? (size_t)(dot - key->at) : key->len;
  const char *call = plim_py_alias(&r->names, r->block->scope, key->at, size);
  note_key(r, key->at, key->len);
  if (path) note_joined(r, path, strlen(path), ".", key->at, key->len);
  if (call) note_joined(r, call, strlen(call), "", key->at + size, key->len - size);
}

void plim_py_note_parameter_change(plim_py_reader *r, size_t name) {
  const char *text = plim_py_text(r, name);
  size_t size = plim_py_size(r, name);
  if (plim_py_is_own(r, name) || !plim_py_is_parameter(&r->names, r->block->scope, text, size))
    return;
  const plim_py_holder *function = plim_py_function_at(&r->names, r->block->scope);
  if (function) plim_py_add_changer(&r->names, function->name, function->size);
}

void plim_py_note_touch(plim_py_reader *r, size_t name) {
  plim_py_touch(&r->names, plim_py_text(r, name), plim_py_size(r, name));
}

void plim_py_note_link(plim_py_reader *r, size_t name, size_t i, size_t end) {
  r->scratch.len = 0;
  if (i >= end || !plim_py_reference_key(r, i, end, &r->scratch)) return;
  plim_py_link link = {plim_py_text(r, name), plim_py_text(r, i), (uint32_t)plim_py_size(r, name),
                       (uint32_t)plim_py_size(r, i), plim_py_at(r, i)->line};
  if (!vec_push(&r->names.links, link)) plim_py_no_memory(r);
}

void plim_py_note_local_change(plim_py_reader *r) { note_both_keys(r, &r->scratch); }

void plim_py_note_overridden(plim_py_reader *r, size_t name, size_t key, size_t end) {
  r->scratch.len = 0;
  if (!plim_chars_add(&r->scratch, plim_py_text(r, name), plim_py_size(r, name)) ||
      !vec_push(&r->scratch, '.'))
    plim_py_no_memory(r);
  bool is_keyword = plim_py_is_name(r, key, end) && end == key + 1;
  bool is_known = is_keyword
                      ? plim_chars_add(&r->scratch, plim_py_text(r, key), plim_py_size(r, key))
                      : plim_py_entry_key(r, key, end, &r->scratch);
  if (is_known) note_both_keys(r, &r->scratch);
}

void plim_py_note_own_change(plim_py_reader *r) {
  const char *dot = memchr(r->scratch.at, '.', r->scratch.len);
  if (!dot || !r->class_path.len) return;
  size_t skipped = (size_t)(dot - r->scratch.at);
  note_joined(r, r->class_path.at, r->class_path.len, "", dot, r->scratch.len - skipped);
}

void plim_py_note_mutation(plim_py_reader *r, size_t name) {
  bool is_any_field = plim_py_is_own(r, name) && r->class_path.len; // self.__dict__.update(...)
  if (is_any_field) note_key(r, r->class_path.at, r->class_path.len);
  if (is_namespace(r, name)) r->names.is_rewritten = true;
  plim_py_note_parameter_change(r, name);
  plim_py_mutate(&r->names, plim_py_text(r, name), plim_py_size(r, name),
                 plim_py_at(r, name)->line);
}

// Notes an assignment to vars(args)["lr"] or globals()["LR"]; `name` is the token of vars or globals.
static void note_namespace(plim_py_reader *r, size_t name, size_t end) {
  size_t close = plim_py_at(r, name + 1)->match, open = close + 1;
  if (!is_namespace(r, name)) return;
  if (plim_py_is_name(r, name + 2, close)) {
    plim_py_note_mutation(r, name + 2);
    return;
  }
  r->scratch.len = 0;
  bool is_known = plim_py_is(r, open, end, '[') &&
                  plim_py_entry_key(r, open + 1, plim_py_at(r, open)->match, &r->scratch);
  const char *kept = is_known ? plim_settings_keep(r->s, r->scratch.at, r->scratch.len) : NULL;
  if (!kept) r->names.is_rewritten = true;
  else plim_py_mutate(&r->names, kept, r->scratch.len, plim_py_at(r, name)->line);
}

void plim_py_note_targets(plim_py_reader *r, size_t i, size_t end) {
  for (size_t first = i; i < end; i = plim_py_skip(r, i)) {
    bool is_base = plim_py_is_name(r, i, end) && !(i > first && plim_py_is(r, i - 1, end, '.'));
    if (!is_base || is_environment(r, i)) continue;
    r->scratch.len = 0;
    size_t stop = plim_py_find(r, i, end, ',');
    bool is_element = plim_py_is(r, i + 1, end, '[') || plim_py_is(r, i + 1, end, '.');
    if (plim_py_is(r, i + 1, end, '(')) note_namespace(r, i, end);
    else if (is_element && plim_py_reference_key(r, i, stop, &r->scratch)) {
      plim_py_note_parameter_change(r, i);
      if (plim_py_is_own(r, i)) plim_py_note_own_change(r);
      else note_both_keys(r, &r->scratch);
    } else if (is_element) plim_py_note_mutation(r, i);
  }
}

bool plim_py_changes_object(const plim_py_reader *r, size_t method) {
  static const char *const methods[] = {
      "update",      "pop",         "popitem",         "clear",
      "setdefault",  "__setitem__", "__setattr__",     "__delitem__",
      "_replace",    "merge_with",  "merge_from_file", "merge_update",
      "__delattr__", "__ior__",     "set_values",      "merge_from_list"};
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    if (plim_py_is_text(r, method, methods[i])) return true;
  return false;
}

// ---- calls ------------------------------------------------------------------------------------------

// Reads setattr(args, "lr", 1) as args.lr = 1. False if the name of the attribute is computed.
static bool set_attribute(plim_py_reader *r, size_t open) {
  size_t close = plim_py_at(r, open)->match, object = plim_py_find(r, open + 1, close, ',');
  size_t name = object < close ? plim_py_find(r, object + 1, close, ',') : close;
  plim_chars text = {0};
  if (name >= close) return false;
  r->scratch.len = 0;
  bool is_known = plim_py_reference_key(r, open + 1, object, &r->scratch) &&
                  plim_py_strings(r, object + 1, name, &text) && vec_push(&r->scratch, '.') &&
                  plim_chars_add(&r->scratch, text.at, text.len);
  vec_free(&text);
  if (!is_known) return false;
  size_t base = r->path_base, stop = plim_py_find(r, name + 1, close, ',');
  r->path_base = r->path.len;
  plim_py_assign_element(r, open + 1, name + 1, stop);
  r->path_base = base;
  return true;
}

// Notes CONFIG.pop("lr"), which changes this key only. False for any other call.
static bool takes_one(plim_py_reader *r, size_t first, size_t last) {
  size_t open = last + 1, close = plim_py_at(r, open)->match;
  r->scratch.len = 0;
  if (!plim_py_is_text(r, last, "pop") || !plim_py_reference_key(r, first, last - 1, &r->scratch))
    return false;
  size_t stop = plim_py_find(r, open + 1, close, ',');
  if (!vec_push(&r->scratch, '.')) plim_py_no_memory(r);
  if (!plim_py_entry_key(r, open + 1, stop, &r->scratch)) return false;
  plim_py_note_parameter_change(r, first);
  note_both_keys(r, &r->scratch);
  return true;
}

// Notes parser.parse_args([...]), whose arguments replace those of the command line.
static void note_parsing(plim_py_reader *r, size_t last) {
  size_t open = last + 1, close = plim_py_at(r, open)->match, i = open + 1;
  if (plim_py_is_name(r, i, close) && plim_py_is(r, i + 1, close, '=')) i += 2;
  bool is_of_command = i >= close || plim_py_is_word(r, i, close, PY_None) ||
                       plim_py_is_text(r, i, "sys") || plim_py_is_text(r, i, "argv");
  bool is_handed_on =
      plim_py_is_name(r, i, close) &&
      plim_py_is_parameter(&r->names, r->block->scope, plim_py_text(r, i), plim_py_size(r, i));
  if (!is_of_command && !is_handed_on) r->names.changes_arguments = true;
}

// Notes parser.set_defaults(lr=1), which changes the defaults of arguments.
static void note_defaults(plim_py_reader *r, size_t last) {
  size_t open = last + 1, close = plim_py_at(r, open)->match;
  for (size_t i = open + 1, stop; i < close; i = stop + 1) {
    stop = plim_py_find(r, i, close, ',');
    plim_py_mutation changed = {plim_py_text(r, i), (uint32_t)plim_py_size(r, i), 0};
    if (!plim_py_is_name(r, i, stop)) r->names.changes_arguments = true;
    else if (!vec_push(&r->names.defaults, changed)) plim_py_no_memory(r);
  }
}

// OmegaConf.merge(a, b) creates a new configuration. Merging only from_cli() does not count: commands are read anyway.
bool plim_py_merges(const plim_py_reader *r, size_t last) {
  size_t open = last + 1, close = plim_py_at(r, open)->match;
  size_t stop = plim_py_find(r, open + 1, close, ',');
  bool merges = plim_py_is_text(r, last, "merge") || plim_py_is_text(r, last, "unsafe_merge");
  for (size_t i = stop + 1; merges && i < close; i = stop + 1) {
    stop = plim_py_find(r, i, close, ',');
    size_t name = plim_py_dotted(r, i, stop);
    if (name == stop || !plim_py_is_text(r, name, "from_cli")) return true;
  }
  return false;
}

static void mutate_arguments(plim_py_reader *r, size_t open) {
  size_t close = plim_py_at(r, open)->match;
  for (size_t i = open + 1, stop; i < close; i = stop + 1) {
    stop = plim_py_find(r, i, close, ',');
    if (plim_py_is_name(r, i, stop) && stop == i + 1) plim_py_note_mutation(r, i);
  }
}

// Notes f(config), f(config=config) and f(config["train"]). Whether f changes it is known at the end of the file.
static void note_handings(plim_py_reader *r, size_t last) {
  size_t open = last + 1, close = plim_py_at(r, open)->match;
  bool is_class = *plim_py_text(r, last) >= 'A' && *plim_py_text(r, last) <= 'Z';
  for (size_t i = open + 1, stop; i < close && !is_class; i = stop + 1) {
    stop = plim_py_find(r, i, close, ',');
    if (plim_py_is_name(r, i, stop) && plim_py_is(r, i + 1, stop, '=')) i += 2;
    r->scratch.len = 0;
    if (i >= stop || !plim_py_reference_key(r, i, stop, &r->scratch)) continue;
    plim_py_handing handing = {
        plim_py_text(r, last),        plim_py_text(r, i), (uint32_t)plim_py_size(r, last),
        (uint32_t)plim_py_size(r, i), r->block->scope,    plim_py_at(r, i)->line};
    if (!vec_push(&r->names.handings, handing)) plim_py_no_memory(r);
  }
}

// nanoGPT's scripts run configurator.py, which sets names from the command line. This is supported.
static bool runs_configurator(const plim_py_reader *r, size_t open) {
  static const char name[] = "configurator.py";
  for (size_t i = open; i < plim_py_at(r, open)->match; i++)
    if (plim_py_at(r, i)->kind == PLIM_PY_STRING && plim_py_size(r, i) > sizeof name &&
        memcmp(plim_py_text(r, i) + plim_py_size(r, i) - sizeof name, name, sizeof name - 1) == 0)
      return true;
  return false;
}

static void note_function(plim_py_reader *r, size_t name, size_t end) {
  size_t open = name + 1, object = name + 2;
  if (plim_py_is_text(r, name, "exec") && !runs_configurator(r, open)) r->names.is_rewritten = true;
  bool is_setattr = plim_py_is_text(r, name, "setattr") || plim_py_is_text(r, name, "delattr");
  bool is_vars = plim_py_is_text(r, name, "vars") && plim_py_is(r, name + 3, end, ')') &&
                 plim_py_is(r, name + 4, end, '.') && name + 5 < end &&
                 plim_py_changes_object(r, name + 5);
  if (is_setattr && set_attribute(r, open)) return;
  if ((is_setattr || is_vars) && plim_py_is_name(r, object, end)) plim_py_note_mutation(r, object);
}

void plim_py_note_change(plim_py_reader *r, size_t first, size_t last, size_t end) {
  bool is_function = first == last;
  note_handings(r, last);
  if (is_function) note_function(r, last, end);
  bool is_replace = plim_py_is_text(r, last, "replace") &&
                    (is_function || plim_py_is_text(r, first, "dataclasses"));
  bool is_of_omegaconf =
      plim_py_is_text(r, first, "OmegaConf") && plim_py_is_text(r, last, "update");
  if (is_replace || is_of_omegaconf || plim_py_merges(r, last)) mutate_arguments(r, last + 1);
  if (is_function) return;
  if (plim_py_size(r, last) >= 10 && memcmp(plim_py_text(r, last), "parse_args", 10) == 0)
    note_parsing(r, last);
  if (plim_py_is_text(r, last, "parse_known_args")) note_parsing(r, last);
  if (plim_py_is_text(r, last, "set_defaults")) note_defaults(r, last);
  bool is_setattr = plim_py_is_text(r, first, "object") && plim_py_is_text(r, last, "__setattr__");
  if (is_setattr) {
    if (!set_attribute(r, last + 1) && plim_py_is_name(r, last + 2, end))
      plim_py_note_mutation(r, last + 2);
  } else if (!is_environment(r, first) && plim_py_changes_object(r, last) &&
             !takes_one(r, first, last))
    plim_py_note_mutation(r, first);
}

// ---- at the end -------------------------------------------------------------------------------------

// A change through one name of an object changes the object under its other names too. True if a change was new.
static bool follow_links(plim_py_names *n) {
  bool is_new = false;
  for (size_t i = 0; i < n->links.len; i++) {
    const plim_py_link *link = &n->links.at[i];
    if (!plim_py_is_touched(n, link->name, link->size)) continue;
    if (plim_py_is_mutated(n, link->of, link->of_size)) continue;
    plim_py_mutate(n, link->of, link->of_size, link->line);
    is_new = true;
  }
  return is_new;
}

// Finds the names that functions change because they change their arguments or pass them on to such functions.
static void settle_handings(plim_py_reader *r) {
  plim_py_names *n = &r->names;
  bool goes_on = n->handings.len + n->links.len > 0;
  for (int pass = 0; goes_on; pass++) {
    goes_on = follow_links(n);
    for (size_t i = 0; i < n->handings.len; i++) {
      const plim_py_handing *h = &n->handings.at[i];
      if (!plim_py_is_changer(n, h->function, h->function_size)) continue;
      if (!plim_py_is_mutated(n, h->name, h->size)) plim_py_mutate(n, h->name, h->size, h->line);
      if (!plim_py_is_parameter(n, h->scope, h->name, h->size)) continue;
      const plim_py_holder *function = plim_py_function_at(n, h->scope);
      if (!function || plim_py_is_changer(n, function->name, function->size)) continue;
      plim_py_add_changer(n, function->name, function->size);
      goes_on = true;
    }
    if (goes_on && pass == MAX_PASSES) n->is_rewritten = true, goes_on = false;
  }
}

// After a change of the object, the call that created it may as well have had any other argument.
static void add_rest(plim_py_reader *r, const plim_py_holder *alias) {
  plim_chars key = {0}, text = {0};
  bool ok = plim_chars_add_text(&key, alias->call) && plim_chars_add_text(&key, ".**") &&
            plim_chars_add_text(&text, "a change of ") &&
            plim_chars_add(&text, alias->name, alias->size);
  plim_setting rest = {.key = ok ? plim_settings_keep(r->s, key.at, key.len) : NULL,
                       .value = {.kind = PLIM_VALUE_DERIVED},
                       .span = {r->s->size, r->s->size},
                       .line = (int)plim_py_mutation_line(&r->names, alias->name, alias->size),
                       .comment = "",
                       .is_rest = true};
  rest.value.text = rest.key ? plim_settings_keep(r->s, text.at, text.len) : NULL;
  ok = rest.value.text && vec_push(&r->names.owners, 0) && plim_settings_add(r->s, rest);
  if (!ok) plim_py_no_memory(r);
  vec_free(&key);
  vec_free(&text);
}

static bool changes_arguments(const plim_py_names *n) {
  if (n->changes_arguments) return true;
  for (size_t i = 0; i < n->mutations.len; i++) {
    const plim_py_mutation *m = &n->mutations.at[i];
    bool is_args = m->size == 4 && memcmp(m->name, "args", 4) == 0;
    if (is_args || plim_py_is_arguments(n, m->name, m->size)) return true;
  }
  return false;
}

static void note_changed_names(plim_py_reader *r) {
  plim_py_names *n = &r->names;
  for (size_t i = 0; i < n->aliases.len; i++) {
    const plim_py_holder *alias = &n->aliases.at[i];
    if (!plim_py_is_mutated(n, alias->name, alias->size)) continue;
    note_key(r, alias->call, strlen(alias->call));
    add_rest(r, alias);
  }
  for (size_t i = 0; i < n->mutations.len; i++)
    note_key(r, n->mutations.at[i].name, n->mutations.at[i].size);
  for (size_t i = 0; i < r->s->loads.len; i++) {
    plim_loaded *load = &r->s->loads.at[i];
    load->is_changed |= plim_py_is_mutated(n, load->name, strlen(load->name));
  }
}

typedef struct {
  plim_hash keys;     // that may change
  plim_hash replaced; // by key: the first setting after the new assignment
} changes;

// Whether the key is a changed key or below one, or below one that is assigned again later.
static bool is_changed(const changes *c, const char *key, uint32_t setting) {
  for (const char *dot = key;; dot++) {
    dot += strcspn(dot, ".");
    uint64_t hash = plim_text_hash(0, key, (size_t)(dot - key));
    const uint32_t *from = *dot ? plim_hash_find(&c->replaced, hash) : NULL;
    if (plim_hash_find(&c->keys, hash) || (from && setting < *from)) return true;
    if (!*dot) return false;
  }
}

// Marks values that are not known: they are not literals, and their references and expressions are not followed.
static void forget_values(plim_py_reader *r, const bool *is_void) {
  plim_py_names *n = &r->names;
  for (size_t i = 0; i < r->s->at.len; i++) {
    plim_setting *x = &r->s->at.at[i];
    if (!is_void[i]) continue;
    x->chooses = 0;
    bool is_written = x->value.kind != PLIM_VALUE_DERIVED || x->span.end > x->span.begin;
    if (is_written && !plim_py_doubt(r->s, x)) plim_py_no_memory(r);
  }
  for (size_t i = 0; i < n->references.len; i++)
    n->references.at[i].is_void |= is_void[n->references.at[i].setting];
  for (size_t i = 0; i < n->expressions.len; i++)
    n->expressions.at[i].is_void |= is_void[n->expressions.at[i].setting];
}

static void mark_arguments(const plim_py_reader *r, bool *is_void) {
  const plim_py_names *n = &r->names;
  for (size_t i = 0; i < n->defaults.len; i++) {
    uint32_t found = plim_py_destination(n, n->defaults.at[i].name, n->defaults.at[i].size);
    if (found < r->s->at.len) is_void[found] = true;
  }
  if (!changes_arguments(n)) return;
  for (size_t i = 0; i < n->arguments.len; i++) is_void[n->arguments.at[i]] = true;
  for (size_t i = 0; i < r->s->at.len; i++)
    if (plim_py_is_field(n, r->s->at.at[i].key)) is_void[i] = true;
}

void plim_py_settle_changes(plim_py_reader *r) {
  changes c = {0};
  const plim_py_names *n = &r->names;
  settle_handings(r);
  note_changed_names(r);
  bool *is_void = calloc(r->s->at.len + 1, sizeof *is_void);
  bool ok = is_void != NULL;
  for (size_t i = 0; i < n->changed.len && ok; i++)
    ok = plim_hash_put(&c.keys, n->changed.at[i], 1);
  for (size_t i = 0; i < n->replacements.len && ok; i++)
    ok = plim_hash_put(&c.replaced, n->replacements.at[i].key, n->replacements.at[i].from);
  if (!ok) plim_py_no_memory(r);
  for (uint32_t i = 0; is_void && i < r->s->at.len; i++)
    is_void[i] = is_changed(&c, r->s->at.at[i].key, i);
  if (is_void) mark_arguments(r, is_void);
  if (is_void) forget_values(r, is_void);
  free(is_void);
  plim_hash_free(&c.keys);
  plim_hash_free(&c.replaced);
}
