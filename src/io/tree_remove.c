// A key and its value taken out of their mapping.
#include "removal.h"
#include "tree.h"

// From the key to the end of the value, or to the colon if there is none.
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
  if (id == PLIM_NO_NODE) return plim_removal_refuse(setting, "it is not one value", error);
  const plim_node *node = &t->at.at[id];
  if (node->key == PLIM_NO_NODE || node->parent == PLIM_NO_NODE)
    return plim_removal_refuse(setting, "it is an item of a list", error);
  bool is_block = !t->at.at[node->parent].has_brackets;
  return plim_entry_remove(s, setting, entry_of(t, id), is_block, out, error);
}

plim_err plim_tree_remove(const plim_dialect *d, const plim_settings *s,
                          const plim_setting *setting, plim_edit *out, plim_error *error) {
  plim_tree tree = {0};
  plim_err err = d->parse(s->text, s->size, &tree, error);
  if (!err) err = remove_node(s, setting, &tree, out, error);
  plim_tree_clear(&tree);
  return err;
}
