#include "tree.h"

#include <math.h>
#include <string.h>

void plim_tree_clear(plim_tree *t) {
  for (size_t i = 0; i < t->strings.len; i++) free(t->strings.at[i]);
  vec_free(&t->strings);
  vec_free(&t->roots);
  vec_free(&t->at);
}

const char *plim_tree_keep(plim_tree *t, const char *text, size_t size) {
  char *copy = malloc(size + 1);
  if (!copy) return NULL;
  memcpy(copy, text, size);
  copy[size] = 0;
  if (vec_push(&t->strings, copy)) return copy;
  free(copy);
  return NULL;
}

plim_err plim_tree_too_long(size_t size, plim_error *error) {
  if (size <= PLIM_TREE_MAX_BYTES) return PLIM_OK;
  return plim_fail(error, PLIM_ERR_UNSUPPORTED, "the file has %zu bytes; at most %d are read", size,
                   PLIM_TREE_MAX_BYTES);
}

// ---- building ---------------------------------------------------------------------------------------

static void link_child(plim_tree *t, uint32_t parent, uint32_t child) {
  plim_node *p = &t->at.at[parent];
  if (p->first == PLIM_NO_NODE) p->first = child;
  else t->at.at[p->last].next = child, t->at.at[child].index = t->at.at[p->last].index + 1;
  p->last = child;
}

// Links a node to its parent. The nodes of a mapping are alternately keys and values.
static void place(plim_builder *b, plim_node *node, uint32_t id) {
  node->depth = b->depth;
  node->parent = node->key = node->first = node->last = node->next = PLIM_NO_NODE;
  if (!b->depth) return;
  uint32_t *key = &b->key[b->depth - 1];
  node->parent = b->open[b->depth - 1];
  bool in_mapping = b->tree->at.at[node->parent].kind == PLIM_NODE_MAPPING;
  node->is_key = in_mapping && *key == PLIM_NO_NODE;
  if (in_mapping && !node->is_key) node->key = *key;
  *key = node->is_key ? id : PLIM_NO_NODE;
}

plim_err plim_tree_add(plim_builder *b, plim_node node, plim_error *error) {
  plim_tree *t = b->tree;
  uint32_t id = (uint32_t)t->at.len;
  if (id >= PLIM_TREE_MAX_NODES)
    return plim_fail(error, PLIM_ERR_UNSUPPORTED, "the file has more than %d values",
                     PLIM_TREE_MAX_NODES);
  place(b, &node, id);
  if (!node.is_key) node.is_merge = false;
  if (!vec_push(&t->at, node) || (!b->depth && !vec_push(&t->roots, id)))
    return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  if (b->depth && !node.is_key) link_child(t, node.parent, id);
  return PLIM_OK;
}

plim_err plim_tree_open(plim_builder *b, plim_node node, plim_error *error) {
  if (b->depth == PLIM_TREE_MAX_DEPTH) {
    plim_err err =
        plim_fail(error, PLIM_ERR_UNSUPPORTED, "line %d is nested more than %d levels deep",
                  node.line, PLIM_TREE_MAX_DEPTH);
    plim_error_at(error, node.span.begin);
    return err;
  }
  plim_err err = plim_tree_add(b, node, error);
  if (err) return err;
  b->open[b->depth] = (uint32_t)b->tree->at.len - 1;
  b->key[b->depth++] = PLIM_NO_NODE;
  return PLIM_OK;
}

// Closes a collection. Without brackets, it extends from its first key or item to the end of its last value.
void plim_tree_close(plim_builder *b, size_t end) {
  plim_tree *t = b->tree;
  uint32_t id = b->open[--b->depth];
  plim_node *node = &t->at.at[id];
  if (node->has_brackets || node->last == PLIM_NO_NODE) {
    node->span.end = node->has_brackets ? end : node->span.begin;
    return;
  }
  node->span = (plim_span){t->at.at[id + 1].span.begin, t->at.at[node->last].span.end};
}

// ---- keys -------------------------------------------------------------------------------------------

bool plim_key_push(char key[PLIM_KEY_BYTES], const char *part) {
  size_t used = strlen(key);
  if (used + 2 * strlen(part) + 2 > PLIM_KEY_BYTES) return false;
  if (used) key[used++] = '.';
  for (; *part; part++) {
    if (*part == '.' || *part == '\\') key[used++] = '\\';
    key[used++] = *part;
  }
  key[used] = 0;
  return true;
}

static bool is_merged(const plim_tree *t, uint32_t id) {
  const plim_node *node = &t->at.at[id];
  if (node->key != PLIM_NO_NODE) return t->at.at[node->key].is_merge;
  const plim_node *parent = &t->at.at[node->parent];
  return parent->key != PLIM_NO_NODE && t->at.at[parent->key].is_merge;
}

static bool push_part(const plim_tree *t, uint32_t id, char out[PLIM_KEY_BYTES]) {
  const plim_node *node = &t->at.at[id];
  char number[16];
  if (is_merged(t, id)) return true; // a merged mapping has the key of the mapping around it
  if (t->at.at[node->parent].kind == PLIM_NODE_SEQUENCE) {
    snprintf(number, sizeof number, "%u", (unsigned)node->index);
    return plim_key_push(out, number);
  }
  const char *text = node->key == PLIM_NO_NODE ? NULL : t->at.at[node->key].text;
  return text && (*text || *out) && plim_key_push(out, text);
}

bool plim_tree_key(const plim_tree *t, uint32_t id, char out[PLIM_KEY_BYTES]) {
  uint32_t path[PLIM_TREE_MAX_DEPTH + 1];
  int depth = 0;
  for (; t->at.at[id].parent != PLIM_NO_NODE; id = t->at.at[id].parent) path[depth++] = id;
  *out = 0;
  while (depth-- > 0)
    if (!push_part(t, path[depth], out)) return false;
  return *out;
}

static uint32_t item_named(const plim_tree *t, uint32_t id, const char *name) {
  char *end;
  unsigned long wanted = strtoul(name, &end, 10);
  if (*name < '0' || *name > '9' || *end) return PLIM_NO_NODE;
  uint32_t at = t->at.at[id].first;
  while (at != PLIM_NO_NODE && wanted--) at = t->at.at[at].next;
  return at;
}

uint32_t plim_tree_child(const plim_tree *t, uint32_t id, const char *name) {
  uint32_t found = PLIM_NO_NODE;
  if (t->at.at[id].kind == PLIM_NODE_SEQUENCE) return item_named(t, id, name);
  if (t->at.at[id].kind != PLIM_NODE_MAPPING) return PLIM_NO_NODE;
  for (uint32_t at = t->at.at[id].first; at != PLIM_NO_NODE; at = t->at.at[at].next) {
    const char *text = t->at.at[t->at.at[at].key].text;
    if (text && strcmp(text, name) == 0) found = at;
  }
  return found;
}

uint32_t plim_tree_after(const plim_tree *t, uint32_t id) {
  uint32_t after = id + 1;
  while (after < t->at.len && t->at.at[after].depth > t->at.at[id].depth) after++;
  return after;
}

// ---- places -----------------------------------------------------------------------------------------

size_t plim_line_begin(const char *text, size_t at) {
  while (at > 0 && text[at - 1] != '\n' && text[at - 1] != '\r') at--;
  return at;
}

size_t plim_line_end(const char *text, size_t size, size_t at) {
  while (at < size && text[at] != '\n' && text[at] != '\r') at++;
  return at;
}

const char *plim_line_break(const char *text, size_t size) {
  size_t end = plim_line_end(text, size, 0);
  if (end == size || text[end] == '\n') return "\n";
  return end + 1 < size && text[end + 1] == '\n' ? "\r\n" : "\r";
}

// ---- equality ---------------------------------------------------------------------------------------

static bool are_equal_reals(double a, double b) {
  return isnan(a) || isnan(b) ? isnan(a) && isnan(b) : a == b && !signbit(a) == !signbit(b);
}

bool plim_value_equal(const plim_value *a, const plim_value *b) {
  if (a->kind != b->kind) return false;
  if (a->kind == PLIM_VALUE_BOOL) return a->flag == b->flag;
  if (a->kind == PLIM_VALUE_INTEGER) return a->integer == b->integer;
  if (a->kind == PLIM_VALUE_REAL) return are_equal_reals(a->real, b->real);
  return a->kind == PLIM_VALUE_NULL || strcmp(a->text, b->text) == 0;
}

// Compares one node. Trees are equal if their nodes, in the order of the text, are equal and have equal depths.
static bool are_equal_nodes(const plim_node *a, const plim_node *b, uint32_t at, uint32_t shift) {
  if (a->kind != b->kind || a->depth != b->depth || a->is_key != b->is_key) return false;
  if (a->is_merge != b->is_merge) return false;
  if (a->kind == PLIM_NODE_ALIAS) return b->target == a->target + (a->target < at ? 0 : shift);
  return a->kind != PLIM_NODE_SCALAR || plim_value_equal(&a->value, &b->value);
}

static bool are_equal_around(const plim_tree *a, const plim_tree *b, uint32_t at,
                             uint32_t removed) {
  if (b->at.len + removed < a->at.len) return false;
  uint32_t shift = (uint32_t)(b->at.len - a->at.len);
  for (uint32_t i = 0; i < a->at.len; i++) {
    if (i >= at && i < at + removed) continue;
    uint32_t there = i < at ? i : i + shift;
    if (there >= b->at.len) return false;
    if (!are_equal_nodes(&a->at.at[i], &b->at.at[there], at, shift)) return false;
  }
  return true;
}

static bool is_value_at(const plim_tree *t, uint32_t at, const char *key,
                        const plim_value *wanted) {
  char found[PLIM_KEY_BYTES];
  for (; at < t->at.len; at++) {
    const plim_node *node = &t->at.at[at];
    bool is_there = !node->is_key && node->kind == PLIM_NODE_SCALAR;
    if (is_there && key) is_there = plim_tree_key(t, at, found) && strcmp(found, key) == 0;
    if (is_there || !key) return is_there && plim_value_equal(&node->value, wanted);
  }
  return false;
}

plim_err plim_tree_edit_holds(const plim_tree_format *d, const plim_tree *t, const plim_edit *edit,
                              uint32_t at, uint32_t removed, const char *key,
                              const plim_value *wanted) {
  char *text;
  size_t size;
  plim_tree changed = {0};
  plim_err err = plim_edits_apply(t->text, t->size, edit, 1, &text, &size, NULL);
  if (err) return err;
  err = d->parse(text, size, &changed, NULL);
  bool holds =
      !err && are_equal_around(t, &changed, at, removed) && is_value_at(&changed, at, key, wanted);
  plim_tree_clear(&changed);
  free(text);
  return holds ? PLIM_OK : err ? err : PLIM_ERR_UNSUPPORTED;
}
