// Removes a key and its value from their mapping.
#include <string.h>

#include "removal.h"
#include "tree.h"

// The span from the key to the end of the value, or to the colon if there is no value.
static plim_span entry_of(const plim_tree *t, uint32_t id) {
  const plim_node *node = &t->at.at[id];
  plim_span key = t->at.at[node->key].span, value = node->span;
  size_t end = value.end > key.end ? value.end : key.end;
  while (value.begin == value.end && end < t->size && (t->text[end] == ' ' || t->text[end] == ':'))
    end++;
  return (plim_span){key.begin, end};
}

static plim_err remove_node(const plim_settings *s, const plim_setting *setting, const plim_tree *t,
                            plim_edit *out, plim_error *error) {
  uint32_t id = plim_tree_node_of(t, setting);
  if (id == PLIM_NO_NODE) return plim_removal_refuse(setting, "it is not a single value", error);
  const plim_node *node = &t->at.at[id];
  if (node->key == PLIM_NO_NODE || node->parent == PLIM_NO_NODE)
    return plim_removal_refuse(setting, "it is an item of a list", error);
  bool is_block = !t->at.at[node->parent].has_brackets;
  return plim_entry_remove(s, setting, entry_of(t, id), is_block, out, error);
}

plim_err plim_tree_remove(const plim_tree_format *d, const plim_settings *s,
                          const plim_setting *setting, plim_edit *out, plim_error *error) {
  plim_tree tree = {0};
  plim_err err = d->parse(s->text, s->size, &tree, error);
  if (!err) err = remove_node(s, setting, &tree, out, error);
  plim_tree_clear(&tree);
  return err;
}

// ---- whole collections ------------------------------------------------------------------------------

static uint32_t roof_node(const plim_tree *t, uint32_t id, const char *roof) {
  char key[PLIM_KEY_BYTES];
  while (id != PLIM_NO_NODE && !(plim_tree_key(t, id, key) && strcmp(key, roof) == 0))
    id = t->at.at[id].parent;
  return id;
}

// The end of the last value in a collection. A collection without brackets has no end of its own.
static size_t end_of_all(const plim_tree *t, uint32_t id) {
  size_t end = t->at.at[t->at.at[id].key].span.end;
  for (uint32_t i = id; i < plim_tree_after(t, id); i++) {
    const plim_node *node = &t->at.at[i];
    bool is_collection = node->kind == PLIM_NODE_MAPPING || node->kind == PLIM_NODE_SEQUENCE;
    if ((!is_collection || node->has_brackets) && node->span.end > end) end = node->span.end;
  }
  return end;
}

static plim_err remove_roof(const plim_settings *s, const plim_setting *first, const char *roof,
                            const plim_tree *t, plim_edit *out, plim_error *error) {
  uint32_t leaf = plim_tree_node_of(t, first);
  uint32_t id = leaf == PLIM_NO_NODE ? PLIM_NO_NODE : roof_node(t, leaf, roof);
  if (id == PLIM_NO_NODE || t->at.at[id].key == PLIM_NO_NODE || t->at.at[id].parent == PLIM_NO_NODE)
    return plim_removal_refuse(first, "the collection that contains it has no key of its own",
                               error);
  plim_span entry = {t->at.at[t->at.at[id].key].span.begin, end_of_all(t, id)};
  bool is_block = !t->at.at[t->at.at[id].parent].has_brackets;
  return plim_roof_remove(s, first, roof, entry, is_block, out, error);
}

plim_err plim_tree_remove_all(const plim_tree_format *d, const plim_settings *s,
                              const plim_setting *first, const char *roof, plim_edit *out,
                              plim_error *error) {
  plim_tree tree = {0};
  plim_err err = d->parse(s->text, s->size, &tree, error);
  if (!err) err = remove_roof(s, first, roof, &tree, out, error);
  plim_tree_clear(&tree);
  return err;
}
