#include "lenient_reads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tree.h"

static void note(plim_lenient_read *out, size_t byte) {
  if (out->is_there && out->byte <= byte) return;
  out->is_there = true;
  out->byte = byte;
}

// Whether a mapping has the same key twice. 1 and "1" are different keys.
static bool is_again(const plim_tree *t, const plim_named *a, const plim_named *b) {
  const plim_node *x = &t->at.at[t->at.at[a->id].key], *y = &t->at.at[t->at.at[b->id].key];
  return a->parent == b->parent && strcmp(a->text, b->text) == 0 && x->value.kind == y->value.kind;
}

static plim_err find_twice(const plim_tree *t, plim_lenient_read *out, plim_error *error) {
  size_t count;
  plim_named *names = plim_tree_named(t, &count);
  if (!names) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  for (size_t i = 1; i < count; i++) {
    const plim_node *key = &t->at.at[t->at.at[names[i].id].key];
    bool is_earlier = !out->is_there || key->span.begin < out->byte;
    if (!is_again(t, &names[i - 1], &names[i]) || !is_earlier) continue;
    note(out, key->span.begin);
    snprintf(out->key, sizeof out->key, "%s", names[i].text);
  }
  free(names);
  return PLIM_OK;
}

static void find_json(const plim_tree *t, plim_lenient_read out[PLIM_LOOSE_KINDS]) {
  if (t->comma != SIZE_MAX) note(&out[PLIM_LOOSE_COMMA], t->comma);
  if (t->comment != SIZE_MAX) note(&out[PLIM_LOOSE_COMMENT], t->comment);
}

static void find_documents(const plim_tree *t, plim_lenient_read *out) {
  if (t->roots.len > 1) note(out, t->at.at[t->roots.at[1]].span.begin);
}

// The part of a scalar in which tabs are text: in quotes, and in a block after its first line.
static plim_span text_of(const plim_tree *t, const plim_node *n) {
  if (n->kind != PLIM_NODE_SCALAR || n->style == PLIM_STYLE_PLAIN) return (plim_span){0};
  if (n->style != PLIM_STYLE_BLOCK) return n->span;
  return (plim_span){plim_line_end(t->text, n->span.end, n->span.begin),
                     plim_line_end(t->text, t->size, n->span.end)};
}

static bool begins_comment(const char *text, size_t at) {
  return text[at] == '#' && (at == 0 || strchr(" \t\r\n", text[at - 1]));
}

// libyaml accepts a tab as a blank between tokens and in plain text. PyYAML's own scanner, which yaml.safe_load and
// OmegaConf use, fails with "found character '\t' that cannot start any token" (scanner.py: scan_to_next_token and
// scan_plain accept spaces only).
static void find_tab(const plim_tree *t, plim_lenient_read *out) {
  size_t node = 0, at = 0;
  while (at < t->size) {
    while (node < t->at.len && text_of(t, &t->at.at[node]).end <= at) node++;
    plim_span text = node < t->at.len ? text_of(t, &t->at.at[node]) : (plim_span){0};
    if (text.end && at >= text.begin) at = text.end;
    else if (begins_comment(t->text, at)) at = plim_line_end(t->text, t->size, at);
    else if (t->text[at] == '\t') {
      note(out, at);
      return;
    } else at++;
  }
}

plim_err plim_lenient_reads_find(plim_format format, const char *text, size_t size,
                                 plim_lenient_read out[PLIM_LOOSE_KINDS], plim_error *error) {
  plim_tree tree = {0};
  bool is_json = format == PLIM_FORMAT_JSON;
  memset(out, 0, PLIM_LOOSE_KINDS * sizeof *out);
  if (!is_json && format != PLIM_FORMAT_YAML) return PLIM_OK;
  plim_err err = (is_json ? plim_json_parse : plim_yaml_parse)(text, size, &tree, error);
  if (!err) err = find_twice(&tree, &out[PLIM_LOOSE_TWICE], error);
  if (!err && is_json) find_json(&tree, out);
  if (!err && !is_json) find_documents(&tree, &out[PLIM_LOOSE_DOCUMENTS]);
  if (!err && !is_json) find_tab(&tree, &out[PLIM_LOOSE_TAB]);
  plim_tree_clear(&tree);
  return err;
}
