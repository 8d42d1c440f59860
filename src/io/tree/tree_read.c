// Reads the settings of a tree: keys, comments and references (aliases, merges, ${...}).
#include <string.h>

#include "tree.h"

enum {
  MAX_SETTINGS = 1 << 18,
  MAX_KEPT_BYTES = 64 << 20,
  MAX_WORK = 1 << 20 // limit of visits: a few bytes of aliases can expand to terabytes
};

typedef struct {
  const plim_tree *tree;
  plim_settings *out;
  char key[PLIM_KEY_BYTES];
  int depth;
  size_t kept_bytes, work;
  const char *comment; // the comment of comment_id
  uint32_t comment_id;
  // By node: a later value of the same key replaces it, and one of the two is a collection.
  bool *is_replaced;
  plim_error *error;
} reader;

static plim_err out_of_memory(reader *r) {
  return plim_fail(r->error, PLIM_ERR_NOMEM, "out of memory");
}

static const char *keep(reader *r, const char *text, size_t size) {
  r->kept_bytes += size + 1;
  return plim_settings_keep(r->out, text, size);
}

// ---- comments ---------------------------------------------------------------------------------------

static size_t skip_blanks(const plim_tree *t, size_t at) {
  while (at < t->size && (t->text[at] == ' ' || t->text[at] == '\t')) at++;
  return at;
}

static bool starts_comment(const plim_tree *t, size_t at) {
  if (at >= t->size) return false;
  bool has_slashes = at + 1 < t->size && memcmp(t->text + at, "//", 2) == 0;
  return t->text[at] == '#' || (t->has_slash_comments && has_slashes);
}

static size_t comment_end(const plim_tree *t, size_t at) {
  size_t end = plim_line_end(t->text, t->size, at);
  while (end > at && (t->text[end - 1] == ' ' || t->text[end - 1] == '\t')) end--;
  return end;
}

// The position after which a comment of the value may follow. A block may have one on its first line.
static size_t behind(const plim_tree *t, const plim_node *node) {
  if (node->style != PLIM_STYLE_BLOCK) return node->span.end;
  size_t at = node->span.begin;
  while (at < t->size && t->text[at] > ' ') at++;
  return at;
}

plim_span plim_tree_comment(const plim_tree *t, uint32_t id) {
  size_t at = skip_blanks(t, behind(t, &t->at.at[id]));
  while (at < t->size && strchr(",]}", t->text[at]) && t->text[at]) at = skip_blanks(t, at + 1);
  if (!starts_comment(t, at)) return (plim_span){0};
  return (plim_span){at, comment_end(t, at)};
}

// The position of the key or, in a list, of the value.
static size_t front(const plim_tree *t, uint32_t id) {
  uint32_t key = t->at.at[id].key;
  return t->at.at[key == PLIM_NO_NODE ? id : key].span.begin;
}

static bool is_first_on_its_line(const plim_tree *t, uint32_t id) {
  size_t at = front(t, id);
  while (at > 0 && strchr(" \t-", t->text[at - 1]) && t->text[at - 1]) at--;
  return at == 0 || t->text[at - 1] == '\n' || t->text[at - 1] == '\r';
}

// The earliest position for a comment of this value: text before it may contain a #.
static size_t earliest_comment(const plim_tree *t, uint32_t id) {
  uint32_t key = t->at.at[id].key, at = key == PLIM_NO_NODE ? id : key;
  while (at-- > 0) {
    const plim_node *before = &t->at.at[at];
    if (before->has_brackets) return before->span.begin;
    if (before->first == PLIM_NO_NODE) return before->span.end;
  }
  return 0;
}

static void write_comment(const plim_tree *t, plim_span span, FILE *out) {
  while (span.begin < span.end && strchr("#/ \t", t->text[span.begin])) span.begin++;
  fwrite(t->text + span.begin, 1, span.end - span.begin, out);
}

static size_t line_above(const char *text, size_t line) {
  size_t end = line - 1;
  if (end > 0 && text[end] == '\n' && text[end - 1] == '\r') end--;
  return plim_line_begin(text, end);
}

static void write_comments_above(const plim_tree *t, uint32_t id, FILE *out) {
  size_t earliest = earliest_comment(t, id), line = plim_line_begin(t->text, front(t, id));
  size_t last = line;
  while (line > 0) {
    size_t above = line_above(t->text, line);
    if (above < earliest || !starts_comment(t, skip_blanks(t, above))) break;
    line = above;
  }
  for (const char *between = ""; line < last; between = " ") {
    size_t at = skip_blanks(t, line);
    fputs(between, out);
    write_comment(t, (plim_span){at, comment_end(t, at)}, out);
    line = plim_line_end(t->text, t->size, line) + 1;
    if (line < last && t->text[line - 1] == '\r' && t->text[line] == '\n') line++;
  }
}

static const char *find_comment(reader *r, uint32_t id) {
  plim_span span = plim_tree_comment(r->tree, id);
  bool is_above = span.end == 0;
  if (is_above && !is_first_on_its_line(r->tree, id)) return keep(r, "", 0);
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return NULL;
  if (is_above) write_comments_above(r->tree, id, out);
  else write_comment(r->tree, span, out);
  const char *kept = plim_stream_end(out, &text) ? keep(r, text, strlen(text)) : NULL;
  free(text);
  return kept;
}

// The comment of a node. It is kept for the next call, because an alias may expand to many settings.
static const char *comment_of(reader *r, uint32_t id) {
  if (!r->comment || r->comment_id != id) r->comment = find_comment(r, id);
  r->comment_id = id;
  return r->comment;
}

// ---- ${...} of OmegaConf ----------------------------------------------------------------------------

// Removes the last parts of a key; false if it has fewer.
static bool climb(char *key, size_t parts) {
  while (parts--) {
    if (!*key) return false;
    char *dot = key + strlen(key);
    do
      while (dot > key && *--dot != '.') {}
    while (dot > key && dot[-1] == '\\');
    *dot = 0;
  }
  return true;
}

// The key that a value of the form ${a.b[0]} or ${.sibling} refers to; false for any other value.
static bool reference(reader *r, const char *text, char out[PLIM_KEY_BYTES]) {
  size_t size = strlen(text), ups = 0, used;
  if (size < 4 || strncmp(text, "${", 2) != 0 || strcspn(text, "}") != size - 1) return false;
  text += 2;
  while (text[ups] == '.') ups++;
  *out = 0;
  if (ups) strcpy(out, r->key);
  if (!climb(out, ups)) return false;
  used = strlen(out);
  if (used + size + 2 > PLIM_KEY_BYTES || strpbrk(text, ":${\\ ")) return false;
  if (used) out[used++] = '.';
  for (text += ups; *text != '}'; text++)
    if (*text == '[') out[used++] = '.';
    else if (*text != ']') out[used++] = *text;
  out[used] = 0;
  return true;
}

// ---- one setting ------------------------------------------------------------------------------------

static plim_err check_limits(reader *r) {
  if (r->out->at.len < MAX_SETTINGS && r->kept_bytes < MAX_KEPT_BYTES && r->work < MAX_WORK)
    return PLIM_OK;
  return plim_fail(r->error, PLIM_ERR_UNSUPPORTED,
                   "the file expands to more settings than plimsoll reads");
}

static const char *root_of(reader *r, const plim_node *node, uint32_t literal, bool *is_out) {
  char key[PLIM_KEY_BYTES];
  bool has_root = literal != PLIM_NO_NODE ? plim_tree_key(r->tree, literal, key)
                                          : node->text && reference(r, node->text, key);
  const char *kept = has_root ? keep(r, key, strlen(key)) : NULL;
  *is_out = has_root && !kept;
  return kept;
}

// Adds the value at `id`. If `id` is an alias, `literal` is the node of the value in its target.
static plim_err add(reader *r, uint32_t id, uint32_t literal) {
  const plim_node *node = &r->tree->at.at[id];
  plim_setting s = {.value = node->value, .span = node->span, .line = node->line};
  plim_err err = check_limits(r);
  bool is_out = false;
  if (err || !*r->key) return err;
  s.key = keep(r, r->key, strlen(r->key));
  s.comment = comment_of(r, id);
  if (s.value.text) is_out = !(s.value.text = keep(r, s.value.text, strlen(s.value.text)));
  if (s.value.kind == PLIM_VALUE_DERIVED && !is_out) s.root = root_of(r, node, literal, &is_out);
  return !is_out && plim_settings_add(r->out, s) ? PLIM_OK : out_of_memory(r);
}

// ---- duplicate keys ---------------------------------------------------------------------------------

static int by_parent_and_text(const void *x, const void *y) {
  const plim_named *a = x, *b = y;
  if (a->parent != b->parent) return a->parent < b->parent ? -1 : 1;
  int order = strcmp(a->text, b->text);
  return order ? order : (a->id > b->id) - (a->id < b->id);
}

plim_named *plim_tree_named(const plim_tree *t, size_t *count) {
  plim_named *names = malloc((t->at.len + 1) * sizeof *names);
  *count = 0;
  for (uint32_t id = 0; names && id < t->at.len; id++) {
    const plim_node *node = &t->at.at[id];
    const plim_node *key = node->key == PLIM_NO_NODE ? NULL : &t->at.at[node->key];
    if (key && key->text && !key->is_merge)
      names[(*count)++] = (plim_named){key->text, node->parent, id};
  }
  if (names) qsort(names, *count, sizeof *names, by_parent_and_text);
  return names;
}

static bool has_keys(const plim_tree *t, uint32_t id) {
  if (t->at.at[id].kind == PLIM_NODE_ALIAS) id = t->at.at[id].target;
  return t->at.at[id].kind != PLIM_NODE_SCALAR;
}

static void mark_replaced(reader *r, const plim_named *names, size_t count) {
  for (size_t i = count; i-- > 1;) {
    const plim_named *a = &names[i - 1], *b = &names[i];
    bool is_same = a->parent == b->parent && strcmp(a->text, b->text) == 0;
    bool are_scalars = !has_keys(r->tree, a->id) && !has_keys(r->tree, b->id);
    if (is_same) r->is_replaced[a->id] = !are_scalars || r->is_replaced[b->id];
  }
}

// Finds values of duplicate keys that have no effect: if one of the values is a collection, only the last one is read.
// Of several scalars, all become settings, and look-ups return the last.
static plim_err find_replaced(reader *r) {
  size_t count;
  plim_named *names = plim_tree_named(r->tree, &count);
  r->is_replaced = calloc(r->tree->at.len + 1, sizeof *r->is_replaced);
  if (names && r->is_replaced) mark_replaced(r, names, count);
  bool is_out = !names || !r->is_replaced;
  free(names);
  return is_out ? out_of_memory(r) : PLIM_OK;
}

// ---- the walk ---------------------------------------------------------------------------------------

// A list of mappings whose own keys take precedence over merged ones.
typedef struct winner {
  uint32_t mapping;
  const struct winner *next;
} winner;

static plim_err walk(reader *r, uint32_t id, uint32_t via);
static plim_err walk_mapping(reader *r, uint32_t id, const winner *winners, uint32_t via);

static bool has_key(reader *r, uint32_t mapping, const char *text) {
  const plim_node *at = r->tree->at.at;
  for (uint32_t i = at[mapping].first; i != PLIM_NO_NODE; i = at[i].next, r->work++)
    if (at[at[i].key].text && strcmp(at[at[i].key].text, text) == 0) return true;
  return false;
}

static bool is_overridden(reader *r, const winner *winners, const char *text) {
  for (; winners; winners = winners->next)
    if (has_key(r, winners->mapping, text)) return true;
  return false;
}

// An alias inside its own target would expand forever.
static bool is_inside(const plim_tree *t, uint32_t id, uint32_t outer) {
  while (id != outer && id != PLIM_NO_NODE) id = t->at.at[id].parent;
  return id == outer;
}

static plim_err walk_source(reader *r, uint32_t id, const winner *winners, uint32_t via,
                            uint32_t *mapping) {
  const plim_tree *t = r->tree;
  *mapping = t->at.at[id].kind == PLIM_NODE_ALIAS ? t->at.at[id].target : id;
  if (via == PLIM_NO_NODE && *mapping != id) via = id;
  if (t->at.at[*mapping].kind != PLIM_NODE_MAPPING ||
      (*mapping != id && is_inside(t, id, *mapping)))
    return PLIM_OK;
  return walk_mapping(r, *mapping, winners, via);
}

// `winners` contains the mapping that has the <<; of several sources the first one wins.
static plim_err walk_merge(reader *r, uint32_t id, const winner *winners, uint32_t via) {
  const plim_tree *t = r->tree;
  uint32_t mapping;
  if (t->at.at[id].kind != PLIM_NODE_SEQUENCE) return walk_source(r, id, winners, via, &mapping);
  winner sources[PLIM_TREE_MAX_DEPTH];
  size_t count = 0;
  plim_err err = PLIM_OK;
  for (uint32_t at = t->at.at[id].first; !err && at != PLIM_NO_NODE; at = t->at.at[at].next) {
    if (count == PLIM_TREE_MAX_DEPTH) r->work = MAX_WORK;
    if ((err = check_limits(r))) break;
    err = walk_source(r, at, winners, via, &mapping);
    sources[count] = (winner){mapping, winners};
    winners = &sources[count++];
  }
  return err;
}

static plim_err walk_child(reader *r, uint32_t id, const char *name, uint32_t via) {
  size_t used = strlen(r->key);
  if (!name || (!*name && !used)) return PLIM_OK; // it has no key
  if (!plim_key_push(r->key, name))
    return plim_fail(r->error, PLIM_ERR_UNSUPPORTED, "line %d has a key of more than %d bytes",
                     r->tree->at.at[id].line, PLIM_KEY_BYTES);
  plim_err err = walk(r, id, via);
  r->key[used] = 0;
  return err;
}

static plim_err walk_mapping(reader *r, uint32_t id, const winner *winners, uint32_t via) {
  const plim_node *nodes = r->tree->at.at;
  winner self = {id, winners};
  plim_err err = check_limits(r);
  if (!err && r->depth == 2 * PLIM_TREE_MAX_DEPTH) r->work = MAX_WORK, err = check_limits(r);
  r->depth++;
  for (uint32_t at = nodes[id].first; !err && at != PLIM_NO_NODE; at = nodes[at].next) {
    const plim_node *key = &nodes[nodes[at].key];
    r->work += via != PLIM_NO_NODE;
    if (key->is_merge) err = walk_merge(r, at, &self, via);
    else if (r->is_replaced[at]) continue;
    else if (!key->text || !is_overridden(r, winners, key->text))
      err = walk_child(r, at, key->text, via);
  }
  r->depth--;
  return err;
}

static plim_err walk_sequence(reader *r, uint32_t id, uint32_t via) {
  const plim_node *nodes = r->tree->at.at;
  unsigned index = 0;
  char name[16];
  plim_err err = PLIM_OK;
  r->depth++;
  for (uint32_t at = nodes[id].first; !err && at != PLIM_NO_NODE; at = nodes[at].next) {
    snprintf(name, sizeof name, "%u", index++);
    r->work += via != PLIM_NO_NODE;
    err = walk_child(r, at, name, via);
  }
  r->depth--;
  return err;
}

static plim_err walk_alias(reader *r, uint32_t id, uint32_t via) {
  uint32_t target = r->tree->at.at[id].target, from = via == PLIM_NO_NODE ? id : via;
  if (is_inside(r->tree, id, target)) return add(r, from, PLIM_NO_NODE);
  return walk(r, target, from);
}

// `via` is the alias whose target contains this node, if any.
static plim_err walk(reader *r, uint32_t id, uint32_t via) {
  const plim_node *node = &r->tree->at.at[id];
  if (r->depth >= 2 * PLIM_TREE_MAX_DEPTH) r->work = MAX_WORK;
  plim_err err = check_limits(r);
  if (err) return err;
  switch (node->kind) {
  case PLIM_NODE_MAPPING: return walk_mapping(r, id, NULL, via);
  case PLIM_NODE_SEQUENCE: return walk_sequence(r, id, via);
  case PLIM_NODE_ALIAS: return walk_alias(r, id, via);
  default: return via == PLIM_NO_NODE ? add(r, id, PLIM_NO_NODE) : add(r, via, id);
  }
}

plim_err plim_tree_read(const plim_tree_format *d, plim_settings *s, plim_error *error) {
  plim_tree tree = {0};
  reader *r = calloc(1, sizeof *r);
  plim_err err = r ? d->parse(s->text, s->size, &tree, error)
                   : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  if (r) *r = (reader){.tree = &tree, .out = s, .error = error};
  if (!err) err = find_replaced(r);
  for (size_t i = 0; !err && i < tree.roots.len; i++) err = walk(r, tree.roots.at[i], PLIM_NO_NODE);
  if (!err) err = plim_tree_resolve(s, error);
  plim_tree_clear(&tree);
  if (r) free(r->is_replaced);
  free(r);
  return err;
}
