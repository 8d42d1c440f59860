// Adds a new key after the last one of its mapping, in the style of its neighbours.
#include <string.h>

#include "spell.h"
#include "tree.h"
#include "utf8.h"

typedef struct {
  const plim_tree_format *dialect;
  const plim_tree *tree;
  const char *key;
  const plim_value *value;
  vec(char *) parts; // the parts of the key
  size_t found;      // number of parts that already exist
  uint32_t at;       // the node of the last existing part
  int way;           // the way in which the value is written
  const char *newline;
} insertion;

// ---- the parts of a key -----------------------------------------------------------------------------

// Splits the key into its parts; the reverse of plim_key_push.
static bool split_key(insertion *in) {
  const char *at = in->key;
  do {
    size_t used = 0;
    char *part = malloc(strlen(at) + 1);
    if (!part || !vec_push(&in->parts, part)) return free(part), false;
    for (; *at && *at != '.'; at++) {
      if (*at == '\\' && at[1]) at++;
      part[used++] = *at;
    }
    part[used] = 0;
  } while (*at++);
  return true;
}

static size_t follow(const insertion *in, uint32_t *at) {
  size_t found = 0;
  while (found + 1 < in->parts.len) {
    uint32_t child = plim_tree_child(in->tree, *at, in->parts.at[found]);
    if (child == PLIM_NO_NODE) break;
    *at = child;
    found++;
  }
  return found;
}

// Finds the mapping for the new key. In a file with several documents, exactly one must have that mapping.
static plim_err find_place(insertion *in, plim_error *error) {
  const plim_tree *t = in->tree;
  size_t candidates = 0;
  for (size_t i = 0; i < t->roots.len; i++) {
    uint32_t at = t->roots.at[i];
    size_t found = follow(in, &at);
    bool is_whole = found + 1 == in->parts.len && t->at.at[at].kind == PLIM_NODE_MAPPING;
    if (t->roots.len > 1 && !is_whole) continue;
    in->found = found;
    in->at = at;
    candidates++;
  }
  if (candidates == 1 || !t->roots.len) return PLIM_OK;
  return plim_fail(error, PLIM_ERR_UNSUPPORTED,
                   "the file has %zu documents, and %.96s could be added to %zu of them",
                   t->roots.len, in->key, candidates);
}

// ---- how the neighbours are written -----------------------------------------------------------------

static plim_span indentation(const plim_tree *t, size_t at) {
  size_t begin = plim_line_begin(t->text, at), end = begin;
  while (end < t->size && (t->text[end] == ' ' || t->text[end] == '\t')) end++;
  return (plim_span){begin, end};
}

static bool is_first_on_its_line(const plim_tree *t, size_t at) {
  return indentation(t, at).end == at;
}

static void write_span(const plim_tree *t, plim_span span, FILE *out) {
  fwrite(t->text + span.begin, 1, span.end - span.begin, out);
}

static size_t column_of(const plim_tree *t, uint32_t id) {
  size_t begin = t->at.at[id].span.begin, column = 0;
  size_t at = plim_line_begin(t->text, begin);
  if (at == 0 && t->size >= 3 && memcmp(t->text, "\xef\xbb\xbf", 3) == 0) at = 3;
  for (size_t length; at < begin; at += length, column++)
    length = plim_utf8_length(t->text + at, t->size - at, NULL);
  return column;
}

static bool is_block(const plim_tree *t, uint32_t id) {
  const plim_node *node = &t->at.at[id];
  return node->kind == PLIM_NODE_MAPPING && !node->has_brackets && node->first != PLIM_NO_NODE;
}

// The indentation of a mapping in a mapping, as the file has it; 2 if there is none.
static size_t block_step(const plim_tree *t) {
  for (uint32_t id = 0; id < t->at.len; id++) {
    uint32_t parent = t->at.at[id].parent;
    if (!is_block(t, id) || parent == PLIM_NO_NODE || !is_block(t, parent)) continue;
    size_t inner = column_of(t, id), outer = column_of(t, parent);
    if (inner > outer) return inner - outer;
  }
  return 2;
}

// Writes the indentation of the first line of an outermost collection; two blanks if there is none.
static void write_flow_step(const plim_tree *t, FILE *out) {
  for (uint32_t id = 0; id < t->at.len; id++) {
    size_t begin = t->at.at[id].span.begin;
    plim_span blanks = indentation(t, begin);
    if (blanks.end != begin || blanks.begin == begin || t->at.at[id].depth != 1) continue;
    write_span(t, blanks, out);
    return;
  }
  fputs("  ", out);
}

static void write_key(const insertion *in, const char *text, uint32_t neighbour, FILE *out) {
  const plim_node *nodes = in->tree->at.at;
  plim_style style = neighbour == PLIM_NO_NODE ? PLIM_STYLE_PLAIN : nodes[neighbour].style;
  bool is_plain = !in->dialect->is_json && style == PLIM_STYLE_PLAIN && *text &&
                  !strpbrk(text, ":#{}[],&*!|>'\"%@`\r\n\t") && text[0] != '-' && text[0] != '?' &&
                  text[0] != ' ' && text[strlen(text) - 1] != ' ';
  if (is_plain) fputs(text, out);
  else if (style == PLIM_STYLE_SINGLE && !strpbrk(text, "'\r\n\t")) fprintf(out, "'%s'", text);
  else plim_spell_quoted(text, out);
}

static void write_value(const insertion *in, FILE *out) {
  in->dialect->spell(in->tree, PLIM_NO_NODE, in->value, in->way, out);
}

// ---- without brackets -------------------------------------------------------------------------------

static void write_lines(const insertion *in, size_t indent, uint32_t neighbour, FILE *out) {
  size_t step = block_step(in->tree);
  for (size_t i = in->found; i < in->parts.len; i++, indent += step) {
    if (i > in->found) fputs(in->newline, out);
    fprintf(out, "%*s", (int)indent, "");
    write_key(in, in->parts.at[i], neighbour, out);
    fputc(':', out);
  }
  fputc(' ', out);
  write_value(in, out);
}

// Writes the entry on its own lines after the line that contains `last`.
static plim_span write_behind_line(const insertion *in, size_t last, size_t indent,
                                   uint32_t neighbour, FILE *out) {
  const plim_tree *t = in->tree;
  size_t at = plim_line_end(t->text, t->size, last);
  bool has_break = at < t->size;
  if (has_break) at += 1 + (at + 1 < t->size && memcmp(t->text + at, "\r\n", 2) == 0);
  else if (plim_line_begin(t->text, at) < at) fputs(in->newline, out);
  write_lines(in, indent, neighbour, out);
  if (has_break) fputs(in->newline, out);
  return (plim_span){at, at};
}

static plim_span write_block(const insertion *in, FILE *out) {
  const plim_node *node = &in->tree->at.at[in->at];
  uint32_t neighbour = in->tree->at.at[node->first].key;
  return write_behind_line(in, node->span.end, column_of(in->tree, in->at), neighbour, out);
}

// Turns "key:" without a value into a mapping.
static plim_span write_into_blank(const insertion *in, FILE *out) {
  const plim_tree *t = in->tree;
  const plim_node *node = &t->at.at[in->at];
  size_t indent = column_of(t, node->key) + block_step(t);
  return write_behind_line(in, node->span.end, indent, node->key, out);
}

// Writes the first entry of a file that is empty or has only comments.
static plim_span write_first(const insertion *in, FILE *out) {
  const plim_tree *t = in->tree;
  bool has_line = t->size && plim_line_begin(t->text, t->size) < t->size;
  bool is_bom = t->size == 3 && memcmp(t->text, "\xef\xbb\xbf", 3) == 0;
  if (has_line && !is_bom) fputs(in->newline, out);
  write_lines(in, 0, PLIM_NO_NODE, out);
  fputs(has_line && !is_bom ? "" : in->newline, out);
  return (plim_span){t->size, t->size};
}

// ---- in brackets ------------------------------------------------------------------------------------

static bool is_colon_and_blanks(const char *text, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (!memchr(": \t", text[i], 3)) return false;
  return memchr(text, ':', size) != NULL;
}

// The text between key and value.
static void write_colon(const insertion *in, FILE *out) {
  const plim_tree *t = in->tree;
  const plim_node *node = &t->at.at[in->at];
  if (node->last != PLIM_NO_NODE) {
    plim_span gap = {t->at.at[t->at.at[node->last].key].span.end, t->at.at[node->last].span.begin};
    size_t size = gap.end - gap.begin;
    if (size && size <= 3 && is_colon_and_blanks(t->text + gap.begin, size)) {
      write_span(t, gap, out);
      return;
    }
  }
  fputs(": ", out);
}

static void write_break(const insertion *in, plim_span indent, FILE *out) {
  fputs(in->newline, out);
  write_span(in->tree, indent, out);
}

// Writes the entry on one line, with the new mappings around it.
static void write_entry(const insertion *in, FILE *out) {
  const plim_node *node = &in->tree->at.at[in->at];
  uint32_t neighbour = node->last == PLIM_NO_NODE ? PLIM_NO_NODE : in->tree->at.at[node->last].key;
  for (size_t i = in->found; i < in->parts.len; i++) {
    write_key(in, in->parts.at[i], neighbour, out);
    write_colon(in, out);
    if (i + 1 < in->parts.len) fputc('{', out);
  }
  write_value(in, out);
  for (size_t i = in->found + 1; i < in->parts.len; i++) fputc('}', out);
}

static plim_span write_into_empty(const insertion *in, FILE *out) {
  const plim_tree *t = in->tree;
  plim_span span = t->at.at[in->at].span;
  size_t closing = span.end - 1, line = plim_line_begin(t->text, closing);
  if (line <= span.begin) {
    write_entry(in, out);
    return (plim_span){span.begin + 1, span.begin + 1};
  }
  plim_span indent = {line, closing};
  if (indentation(t, closing).end != closing) indent = indentation(t, span.begin);
  write_span(t, indent, out);
  write_flow_step(t, out);
  write_entry(in, out);
  fputs(in->newline, out);
  return (plim_span){line, line};
}

static size_t skip_comment(const plim_tree *t, size_t at) {
  if (t->text[at] == '#' || strncmp(t->text + at, "//", 2) == 0)
    return plim_line_end(t->text, t->size, at);
  if (strncmp(t->text + at, "/*", 2) != 0) return at;
  const char *end = memmem(t->text + at + 2, t->size - at - 2, "*/", 2);
  return end ? (size_t)(end - t->text) + 2 : t->size;
}

// The position of the comma after the last value; `closing` if there is none.
static size_t find_comma(const plim_tree *t, size_t at, size_t closing) {
  while (at < closing && t->text[at] != ',') {
    size_t behind = skip_comment(t, at);
    at = behind > at ? behind : at + 1;
  }
  return at < closing ? at : closing;
}

static bool has_tight_commas(const plim_tree *t, const plim_node *node) {
  if (node->first == node->last) return false;
  size_t before = t->at.at[t->at.at[node->last].key].span.begin;
  return before > 0 && t->text[before - 1] == ',';
}

static plim_span write_on_same_line(const insertion *in, size_t end, bool has_comma, FILE *out) {
  const plim_tree *t = in->tree;
  bool is_tight = has_tight_commas(t, &t->at.at[in->at]);
  fputs(has_comma ? (is_tight ? "" : " ") : (is_tight ? "," : ", "), out);
  write_entry(in, out);
  return (plim_span){end, end};
}

// Writes the entry on the next line. `end` is after the last value or its comma; the rest of that line stays.
static plim_span write_on_next_line(const insertion *in, size_t end, bool has_comma,
                                    plim_span indent, FILE *out) {
  const plim_tree *t = in->tree;
  size_t closing = t->at.at[in->at].span.end - 1, line_end = plim_line_end(t->text, t->size, end);
  plim_span rest = {end, closing < line_end ? end : line_end};
  if (!has_comma) fputc(',', out);
  write_span(t, rest, out);
  write_break(in, indent, out);
  write_entry(in, out);
  if (has_comma) fputc(',', out);
  return rest;
}

// Whether the text before the line ends with , or {, so that there is no comment about the last entry in between.
static bool is_bare_above(const plim_tree *t, size_t line) {
  while (line && memchr(" \t\r\n", t->text[line - 1], 4)) line--;
  return line && memchr(",{", t->text[line - 1], 2);
}

// Whether to insert before the last entry. In JSON it has no comma, so inserting after it would change its line too.
static bool goes_above_last(const insertion *in) {
  const plim_tree *t = in->tree;
  const plim_node *node = &t->at.at[in->at];
  if (!in->dialect->is_json || node->last == PLIM_NO_NODE) return false;
  size_t key = t->at.at[t->at.at[node->last].key].span.begin, closing = node->span.end - 1;
  bool has_comma = find_comma(t, t->at.at[node->last].span.end, closing) < closing;
  return !has_comma && is_first_on_its_line(t, key) &&
         is_bare_above(t, plim_line_begin(t->text, key));
}

static plim_span write_above_last(const insertion *in, FILE *out) {
  const plim_tree *t = in->tree;
  size_t key = t->at.at[t->at.at[t->at.at[in->at].last].key].span.begin;
  write_entry(in, out);
  fputc(',', out);
  write_break(in, indentation(t, key), out);
  return (plim_span){key, key};
}

static plim_span write_in_brackets(const insertion *in, FILE *out) {
  const plim_tree *t = in->tree;
  const plim_node *node = &t->at.at[in->at];
  if (node->last == PLIM_NO_NODE) return write_into_empty(in, out);
  size_t end = t->at.at[node->last].span.end, closing = node->span.end - 1;
  size_t key = t->at.at[t->at.at[node->last].key].span.begin;
  size_t comma = find_comma(t, end, closing);
  bool has_comma = comma < closing;
  if (has_comma) end = comma + 1;
  if (!is_first_on_its_line(t, key)) return write_on_same_line(in, end, has_comma, out);
  return write_on_next_line(in, end, has_comma, indentation(t, key), out);
}

// ---- the insertion ----------------------------------------------------------------------------------

typedef plim_span writer(const insertion *in, FILE *out);

static writer *writer_for(const insertion *in) {
  const plim_tree *t = in->tree;
  if (!t->roots.len) return in->dialect->is_json ? NULL : write_first;
  const plim_node *node = &t->at.at[in->at];
  bool is_blank = node->kind == PLIM_NODE_SCALAR && node->value.kind == PLIM_VALUE_NULL &&
                  node->span.begin == node->span.end && node->style == PLIM_STYLE_PLAIN;
  if (is_blank && node->key != PLIM_NO_NODE) return write_into_blank;
  if (is_blank && node->parent == PLIM_NO_NODE) return write_first;
  if (node->kind != PLIM_NODE_MAPPING) return NULL;
  if (goes_above_last(in)) return write_above_last;
  return node->has_brackets ? write_in_brackets : write_block;
}

static plim_err write_edit(const insertion *in, writer *write, plim_edit *out, plim_error *error) {
  size_t size;
  FILE *stream = open_memstream(&out->text, &size);
  if (stream) out->span = write(in, stream);
  if (stream && plim_stream_end(stream, &out->text)) return PLIM_OK;
  return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

static bool is_way(const insertion *in) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  bool is_one = out && in->dialect->spell(in->tree, PLIM_NO_NODE, in->value, in->way, out);
  if (out) fclose(out);
  free(text);
  return is_one;
}

static plim_err try_ways(insertion *in, writer *write, plim_edit *out, plim_error *error) {
  const plim_tree *t = in->tree;
  bool is_above = write == write_above_last;
  bool is_new = is_above || write == write_block || write == write_in_brackets;
  uint32_t at = !t->roots.len ? 0 : is_new ? plim_tree_after(t, in->at) : in->at;
  if (is_above) at = t->at.at[t->at.at[in->at].last].key;
  uint32_t removed = t->roots.len && !is_new;
  for (in->way = 0; is_way(in); in->way++) {
    plim_err err = write_edit(in, write, out, error);
    if (!err) err = plim_tree_edit_holds(in->dialect, t, out, at, removed, in->key, in->value);
    if (!err) return PLIM_OK;
    free(out->text);
    *out = (plim_edit){0};
    if (err == PLIM_ERR_NOMEM) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  }
  return plim_fail(error, PLIM_ERR_UNSUPPORTED, "there is no safe place to add %.96s", in->key);
}

static plim_err insert(insertion *in, plim_edit *out, plim_error *error) {
  const plim_tree *t = in->tree;
  if (!split_key(in)) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  plim_err err = find_place(in, error);
  if (err) return err;
  const char *last = in->parts.at[in->parts.len - 1];
  bool is_parent = t->roots.len && in->found + 1 == in->parts.len;
  if (is_parent && plim_tree_child(t, in->at, last) != PLIM_NO_NODE)
    return plim_fail(error, PLIM_ERR_ARGUMENT, "%.96s is already set", in->key);
  writer *write = writer_for(in);
  if (write) return try_ways(in, write, out, error);
  err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                  "%.96s cannot be added: there is no mapping that could contain it", in->key);
  if (t->roots.len) plim_error_at(error, t->at.at[in->at].span.begin);
  return err;
}

static bool is_good_text(const char *text) {
  return !text || plim_utf8_check(text, strlen(text)) == strlen(text);
}

plim_err plim_tree_insert(const plim_tree_format *d, const plim_settings *s, const char *key,
                          const plim_value *value, plim_edit *out, plim_error *error) {
  plim_tree tree = {0};
  insertion in = {.dialect = d, .tree = &tree, .key = key, .value = value};
  in.newline = plim_line_break(s->text, s->size);
  if (value->kind == PLIM_VALUE_DERIVED || !*key || strlen(key) >= PLIM_KEY_BYTES / 2)
    return plim_fail(error, PLIM_ERR_ARGUMENT, "%.96s cannot be added", key);
  if (!is_good_text(key) || (value->kind == PLIM_VALUE_TEXT && !is_good_text(value->text)))
    return plim_fail(error, PLIM_ERR_ARGUMENT, "a new key or text is not valid UTF-8");
  plim_err err = d->parse(s->text, s->size, &tree, error);
  if (!err) err = insert(&in, out, error);
  for (size_t i = 0; i < in.parts.len; i++) free(in.parts.at[i]);
  vec_free(&in.parts);
  plim_tree_clear(&tree);
  return err;
}
