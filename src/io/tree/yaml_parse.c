// Parses YAML into a tree with libyaml, which has the same grammar as PyYAML (its C loader is libyaml). The events of
// libyaml give the end of a scalar, and its beginning including anchor and tag, in characters.
#include <string.h>
#include <yaml.h>

#include "tree.h"
#include "utf8.h"
#include "yaml_scalar.h"

enum { MAX_ANCHORS = 1024, STRIDE = 64 };

typedef struct {
  const char *name;
  uint32_t node;
} anchor;

typedef struct {
  yaml_parser_t yaml;
  plim_tree *tree;
  plim_builder builder;
  size_t skip;           // the length of the byte order mark
  vec(uint32_t) offsets; // the byte offset of every 64th character
  vec(anchor) anchors;   // the anchors of this document
  plim_error *error;
} parser;

static plim_err out_of_memory(parser *p) {
  return plim_fail(p->error, PLIM_ERR_NOMEM, "out of memory");
}

// ---- characters to bytes ----------------------------------------------------------------------------

static size_t next_character(const plim_tree *t, size_t at) {
  bool is_ascii = (unsigned char)t->text[at] < 0x80; // nearly always
  return at + (is_ascii ? 1 : plim_utf8_length(t->text + at, t->size - at, NULL));
}

static plim_err index_text(parser *p) {
  const plim_tree *t = p->tree;
  size_t at = p->skip;
  for (size_t count = 0; at < t->size; count++) {
    if (count % STRIDE == 0 && !vec_push(&p->offsets, (uint32_t)at)) return out_of_memory(p);
    at = next_character(t, at);
  }
  return PLIM_OK;
}

static size_t byte_of(const parser *p, size_t character) {
  const plim_tree *t = p->tree;
  if (character / STRIDE >= p->offsets.len) return t->size;
  size_t at = p->offsets.at[character / STRIDE];
  for (size_t i = character % STRIDE; i > 0 && at < t->size; i--) at = next_character(t, at);
  return at;
}

// ---- anchors and tags -------------------------------------------------------------------------------

static plim_err add_anchor(parser *p, const yaml_char_t *name) {
  if (!name) return PLIM_OK;
  if (p->anchors.len == MAX_ANCHORS)
    return plim_fail(p->error, PLIM_ERR_UNSUPPORTED, "the file has more than %d anchors",
                     MAX_ANCHORS);
  const char *kept = plim_tree_keep(p->tree, (const char *)name, strlen((const char *)name));
  anchor found = {kept, (uint32_t)p->tree->at.len}; // the next node
  return kept && vec_push(&p->anchors, found) ? PLIM_OK : out_of_memory(p);
}

static uint32_t anchored(const parser *p, const char *name) {
  for (size_t i = p->anchors.len; i-- > 0;)
    if (strcmp(p->anchors.at[i].name, name) == 0) return p->anchors.at[i].node;
  return PLIM_NO_NODE;
}

static bool in_brackets(const parser *p) {
  for (int i = 0; i < p->builder.depth; i++)
    if (p->tree->at.at[p->builder.open[i]].has_brackets) return true;
  return false;
}

static size_t skip_property(const parser *p, size_t at, size_t end) {
  const char *text = p->tree->text;
  bool is_anchor = text[at] == '&', stops_at_comma = is_anchor || in_brackets(p);
  for (at++; at < end && (unsigned char)text[at] > ' '; at++)
    if (stops_at_comma && strchr(",]}", text[at])) break;
  return at;
}

// An anchor and a tag may precede a value, with blanks, comments and line breaks between them.
static size_t skip_properties(const parser *p, size_t at, size_t end) {
  const char *text = p->tree->text;
  while (at < end) {
    if (text[at] == '&' || text[at] == '!') at = skip_property(p, at, end);
    else if (text[at] == '#') at = plim_line_end(text, end, at);
    else if (strchr(" \t\r\n", text[at]) && text[at]) at++;
    else break;
  }
  return at;
}

// ---- nodes ------------------------------------------------------------------------------------------

static const plim_style styles[] = {
    [YAML_PLAIN_SCALAR_STYLE] = PLIM_STYLE_PLAIN,
    [YAML_SINGLE_QUOTED_SCALAR_STYLE] = PLIM_STYLE_SINGLE,
    [YAML_DOUBLE_QUOTED_SCALAR_STYLE] = PLIM_STYLE_DOUBLE,
    [YAML_LITERAL_SCALAR_STYLE] = PLIM_STYLE_BLOCK,
    [YAML_FOLDED_SCALAR_STYLE] = PLIM_STYLE_BLOCK,
};

// A block ends where the next thing begins. Its last line break, and blank lines that are not part of
// the value, are left outside.
static size_t block_end(const char *text, size_t begin, size_t end) {
  size_t header = plim_line_end(text, end, begin);
  bool keeps_blank_lines = false;
  for (size_t i = begin; i < header && text[i] > ' '; i++) keeps_blank_lines |= text[i] == '+';
  while (end > header && strchr(" \t\r\n", text[end - 1]) && text[end - 1]) {
    bool is_break = text[--end] == '\n' || text[end] == '\r';
    if (is_break && end > header && text[end] == '\n' && text[end - 1] == '\r') end--;
    if (is_break && keeps_blank_lines) break;
  }
  return end;
}

static plim_span span_of(const parser *p, const yaml_event_t *e, plim_style style) {
  size_t end = byte_of(p, e->end_mark.index);
  size_t begin = byte_of(p, e->start_mark.index);
  bool has_properties = begin < end && strchr("&!", p->tree->text[begin]);
  if (has_properties) begin = skip_properties(p, begin, end);
  if (style == PLIM_STYLE_BLOCK) end = block_end(p->tree->text, begin, end);
  return (plim_span){begin, end};
}

static bool is_interpolated(const char *text) {
  const char *open = strstr(text, "${");
  return open && strchr(open, '}');
}

static bool is_key_next(const parser *p) {
  const plim_builder *b = &p->builder;
  if (!b->depth || p->tree->at.at[b->open[b->depth - 1]].kind != PLIM_NODE_MAPPING) return false;
  return b->key[b->depth - 1] == PLIM_NO_NODE;
}

// A value that plim_value cannot represent becomes DERIVED, with its source as text.
static bool resolve(parser *p, const yaml_event_t *e, plim_node *node) {
  const char *quoted = e->data.scalar.quoted_implicit ? "" : (const char *)e->data.scalar.tag;
  const char *tag = e->data.scalar.plain_implicit ? NULL : quoted;
  bool is_value = node->text && plim_yaml_resolve(node->text, tag, &node->value);
  bool is_text = is_value && node->value.kind == PLIM_VALUE_TEXT;
  node->is_merge = node->text && !tag && strcmp(node->text, "<<") == 0;
  if (is_value && !(is_text && !is_key_next(p) && is_interpolated(node->text))) return true;
  size_t size = node->span.end - node->span.begin;
  const char *source = plim_tree_keep(p->tree, p->tree->text + node->span.begin, size);
  node->value = (plim_value){.kind = PLIM_VALUE_DERIVED, .text = source};
  return source;
}

static plim_err add_scalar(parser *p, const yaml_event_t *e) {
  const char *text = (const char *)e->data.scalar.value;
  plim_style style = styles[e->data.scalar.style];
  plim_node node = {.kind = PLIM_NODE_SCALAR, .style = style, .span = span_of(p, e, style)};
  node.line = (int)e->end_mark.line + 1;
  for (size_t i = node.span.begin; i < byte_of(p, e->end_mark.index); i++)
    node.line -= p->tree->text[i] == '\n';
  bool is_whole = strlen(text) == e->data.scalar.length;
  if (is_whole && !(node.text = plim_tree_keep(p->tree, text, e->data.scalar.length)))
    return out_of_memory(p);
  plim_err err = add_anchor(p, e->data.scalar.anchor);
  if (!err && !resolve(p, e, &node)) return out_of_memory(p);
  return err ? err : plim_tree_add(&p->builder, node, p->error);
}

static plim_err add_alias(parser *p, const yaml_event_t *e) {
  const char *name = (const char *)e->data.alias.anchor;
  plim_node node = {.kind = PLIM_NODE_ALIAS, .span = span_of(p, e, PLIM_STYLE_PLAIN)};
  size_t size = node.span.end - node.span.begin;
  node.line = (int)e->start_mark.line + 1;
  node.target = anchored(p, name);
  if (node.target == PLIM_NO_NODE) {
    plim_err err = plim_fail(p->error, PLIM_ERR_PARSE,
                             "line %d: no anchor &%.96s is defined before this", node.line, name);
    plim_error_at(p->error, node.span.begin);
    return err;
  }
  node.value.kind = PLIM_VALUE_DERIVED;
  node.value.text = plim_tree_keep(p->tree, p->tree->text + node.span.begin, size);
  return node.value.text ? plim_tree_add(&p->builder, node, p->error) : out_of_memory(p);
}

// Adds a collection. The event ends after its bracket, if it has one; a pair in a list, [a: b], has none.
static plim_err open_collection(parser *p, const yaml_event_t *e, plim_node_kind kind,
                                const yaml_char_t *name) {
  size_t end = byte_of(p, e->end_mark.index);
  plim_node node = {.kind = kind, .line = (int)e->end_mark.line + 1, .span = {end, end}};
  char bracket = kind == PLIM_NODE_MAPPING ? '{' : '[';
  node.has_brackets = e->end_mark.index > e->start_mark.index && p->tree->text[end - 1] == bracket;
  node.span.begin -= node.has_brackets;
  plim_err err = add_anchor(p, name);
  return err ? err : plim_tree_open(&p->builder, node, p->error);
}

static plim_err take(parser *p, const yaml_event_t *e) {
  switch (e->type) {
  case YAML_DOCUMENT_START_EVENT: p->anchors.len = 0; return PLIM_OK;
  case YAML_SCALAR_EVENT: return add_scalar(p, e);
  case YAML_ALIAS_EVENT: return add_alias(p, e);
  case YAML_MAPPING_START_EVENT:
    return open_collection(p, e, PLIM_NODE_MAPPING, e->data.mapping_start.anchor);
  case YAML_SEQUENCE_START_EVENT:
    return open_collection(p, e, PLIM_NODE_SEQUENCE, e->data.sequence_start.anchor);
  case YAML_MAPPING_END_EVENT:
  case YAML_SEQUENCE_END_EVENT:
    plim_tree_close(&p->builder, byte_of(p, e->end_mark.index));
    return PLIM_OK;
  default: return PLIM_OK;
  }
}

// ---- the text ---------------------------------------------------------------------------------------

static plim_err refuse(parser *p) {
  const yaml_parser_t *y = &p->yaml;
  if (y->error == YAML_MEMORY_ERROR) return out_of_memory(p);
  bool is_read = y->error != YAML_READER_ERROR;
  const char *problem = y->problem ? y->problem : "this is not valid YAML";
  plim_err err = is_read ? plim_fail(p->error, PLIM_ERR_PARSE, "line %d: %s",
                                     (int)y->problem_mark.line + 1, problem)
                         : plim_fail(p->error, PLIM_ERR_PARSE, "%s", problem);
  size_t at = is_read ? byte_of(p, y->problem_mark.index) : p->skip + y->problem_offset;
  plim_error_at(p->error, at < p->tree->size ? at : p->tree->size);
  return err;
}

static plim_err parse_events(parser *p) {
  plim_err err = PLIM_OK;
  for (bool is_over = false; !err && !is_over;) {
    yaml_event_t event;
    if (!yaml_parser_parse(&p->yaml, &event)) return refuse(p);
    is_over = event.type == YAML_STREAM_END_EVENT;
    err = take(p, &event);
    yaml_event_delete(&event);
  }
  return err;
}

plim_err plim_yaml_parse(const char *text, size_t size, plim_tree *out, plim_error *error) {
  *out = (plim_tree){.text = text, .size = size};
  parser p = {.tree = out, .builder.tree = out, .error = error};
  plim_err err = plim_tree_too_long(size, error);
  if (!err) err = plim_utf8_open(text, size, &p.skip, error);
  if (!err) err = index_text(&p);
  if (!err && !yaml_parser_initialize(&p.yaml)) err = out_of_memory(&p);
  if (err) goto out;
  yaml_parser_set_encoding(&p.yaml, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&p.yaml, (const unsigned char *)text + p.skip, size - p.skip);
  err = parse_events(&p);
  yaml_parser_delete(&p.yaml);
out:
  vec_free(&p.offsets);
  vec_free(&p.anchors);
  return err;
}
