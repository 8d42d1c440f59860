#include "toml_reader.h"

#include <stdio.h>
#include <string.h>

#include "toml_scalar.h"

enum {
  MAX_BYTES = 16 << 20,
  MAX_KEY = 512,   // settings with longer keys are left out
  MAX_DEPTH = 128, // the most nested arrays and inline tables
  MAX_PARTS = 128, // the most parts of a dotted key
  MAX_SETTINGS = 1 << 18
};

// The kinds of nodes.
enum {
  IMPLICIT, // a table that only occurs in longer headers: a in [a.b]
  EXPLICIT, // [table]
  DOTTED,   // a table that dotted keys create: a in a.b = 1
  ARRAY,    // [[table]]
  CLOSED    // a value or an inline table, to which no other line may add
};

static void fail(plim_toml_reader *r, size_t byte, const char *why) {
  if (r->err) return;
  r->err = plim_fail(r->error, PLIM_ERR_PARSE, "%s", why);
  plim_error_at(r->error, byte < r->size ? byte : r->size);
}

static void no_memory(plim_toml_reader *r) {
  if (!r->err) r->err = plim_fail(r->error, PLIM_ERR_NOMEM, "out of memory");
}

// ---- characters -------------------------------------------------------------------------------------

static char peek(const plim_toml_reader *r, size_t ahead) {
  return r->size - r->at > ahead ? r->text[r->at + ahead] : 0;
}

static size_t line_end(const plim_toml_reader *r) {
  if (peek(r, 0) == '\r' && peek(r, 1) == '\n') return 2;
  return peek(r, 0) == '\n';
}

static void skip_blanks(plim_toml_reader *r) {
  while (peek(r, 0) == ' ' || peek(r, 0) == '\t') r->at++;
}

static bool take(plim_toml_reader *r, char c) {
  if (r->at >= r->size || peek(r, 0) != c) return false;
  r->line_has_token = true;
  r->at++;
  return true;
}

static void expect(plim_toml_reader *r, char c, const char *why) {
  if (!take(r, c)) fail(r, r->at, why);
}

static void skip_comment(plim_toml_reader *r) {
  if (peek(r, 0) != '#') return;
  plim_comment comment = {(uint32_t)r->at, 0, r->line, !r->line_has_token, NULL, NULL};
  while (r->at < r->size && !line_end(r)) {
    char c = peek(r, 0);
    if ((c >= 0 && c < 0x20 && c != '\t') || c == 0x7f)
      fail(r, r->at, "this comment contains a control character");
    if (r->err) return;
    r->at++;
  }
  comment.end = (uint32_t)r->at;
  if (!vec_push(&r->comments, comment)) no_memory(r);
}

static bool skip_line_end(plim_toml_reader *r) {
  size_t bytes = line_end(r);
  r->at += bytes;
  r->line += bytes > 0;
  if (bytes) r->line_has_token = false;
  return bytes > 0;
}

// Skips blanks, comments and line ends, as between the elements of an array.
static void skip_space(plim_toml_reader *r) {
  do {
    skip_blanks(r);
    skip_comment(r);
  } while (!r->err && skip_line_end(r));
}

// ---- names ------------------------------------------------------------------------------------------

static uint32_t add_node(plim_toml_reader *r, uint8_t kind) {
  if (!vec_push(&r->nodes, (plim_toml_node){.kind = kind, .section = r->section})) no_memory(r);
  return r->nodes.len ? (uint32_t)r->nodes.len - 1 : 0;
}

static uint32_t *child_of(const plim_toml_reader *r, uint32_t parent) {
  return plim_hash_find(&r->children, plim_text_hash(parent, r->key.at, r->key.len));
}

static uint32_t add_child(plim_toml_reader *r, uint32_t parent, uint8_t kind) {
  uint32_t child = add_node(r, kind);
  if (!plim_hash_put(&r->children, plim_text_hash(parent, r->key.at, r->key.len), child))
    no_memory(r);
  return child;
}

static size_t push(plim_toml_reader *r, const char *text, size_t size) {
  size_t before = r->path.len;
  bool ok = vec_push(&r->path, '.');
  for (size_t i = 0; ok && i < size; i++) {
    if (text[i] == '.' || text[i] == '\\') ok = vec_push(&r->path, '\\');
    ok = ok && vec_push(&r->path, text[i]);
  }
  if (!ok) no_memory(r);
  return before;
}

static size_t push_index(plim_toml_reader *r, size_t index) {
  char digits[24];
  snprintf(digits, sizeof digits, "%zu", index);
  return push(r, digits, strlen(digits));
}

// ---- keys -------------------------------------------------------------------------------------------

static bool is_bare(char c) {
  return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' || c == '-';
}

// Reads one part of a key into r->key.
static void read_part(plim_toml_reader *r) {
  size_t begin = r->at;
  bool is_text = true;
  r->key.len = 0;
  if (peek(r, 0) == '"' || peek(r, 0) == '\'') {
    const char *wrong = plim_toml_string(r->text, r->size, begin, false, &r->key, &r->at, &is_text);
    if (wrong) fail(r, r->at, wrong);
    if (!is_text) fail(r, begin, "this key contains a zero character");
  } else {
    while (is_bare(peek(r, 0))) r->at++;
    if (r->at == begin) fail(r, begin, "a key is missing here");
    if (!plim_chars_add(&r->key, r->text + begin, r->at - begin)) no_memory(r);
  }
  r->line_has_token = true;
}

// Whether a dot and another part follow; if so, moves after the dot.
static bool has_more_parts(plim_toml_reader *r, int *parts) {
  size_t end = r->at;
  skip_blanks(r);
  if (r->err || !take(r, '.')) {
    r->at = end;
    return false;
  }
  if (++*parts > MAX_PARTS) fail(r, r->at, "this key has too many parts");
  skip_blanks(r);
  return !r->err;
}

// ---- settings ---------------------------------------------------------------------------------------

static void add_setting(plim_toml_reader *r, plim_value value, plim_span span, uint32_t line) {
  if (r->err || r->path.len > MAX_KEY) return;
  if (r->s->at.len == MAX_SETTINGS) {
    r->err = plim_fail(r->error, PLIM_ERR_UNSUPPORTED, "the file has more than %d settings",
                       MAX_SETTINGS);
    return;
  }
  plim_setting setting = {.key = plim_settings_keep(r->s, r->path.at + 1, r->path.len - 1),
                          .value = value,
                          .span = span,
                          .line = (int)line,
                          .comment = ""};
  if (!plim_settings_add(r->s, setting) || !vec_push(&r->lines, (plim_span){line, r->line}))
    no_memory(r);
}

static void add_text(plim_toml_reader *r, plim_value_kind kind, const char *text, size_t size,
                     plim_span span, uint32_t line) {
  const char *kept = plim_settings_keep(r->s, text ? text : "", size);
  if (kept) add_setting(r, (plim_value){.kind = kind, .text = kept}, span, line);
  else no_memory(r);
}

// ---- values -----------------------------------------------------------------------------------------

static void read_value(plim_toml_reader *r);

static void read_string(plim_toml_reader *r) {
  plim_chars text = {0};
  size_t begin = r->at;
  uint32_t line = r->line;
  bool is_text;
  const char *wrong = plim_toml_string(r->text, r->size, begin, true, &text, &r->at, &is_text);
  if (wrong) fail(r, r->at, wrong);
  for (size_t i = begin; !r->err && i < r->at; i++) r->line += r->text[i] == '\n';
  plim_span span = {begin, r->at};
  if (!r->err && is_text) add_text(r, PLIM_VALUE_TEXT, text.at, text.len, span, line);
  else if (!r->err) add_text(r, PLIM_VALUE_DERIVED, r->text + begin, r->at - begin, span, line);
  vec_free(&text);
}

static bool is_in_bare(char c) { return is_bare(c) || c == '+' || c == '.' || c == ':'; }

static void read_bare(plim_toml_reader *r) {
  size_t begin = r->at;
  while (is_in_bare(peek(r, 0))) r->at++;
  bool is_day = r->at - begin == 10 && r->text[begin + 4] == '-';
  if (is_day && peek(r, 0) == ' ' && peek(r, 1) >= '0' && peek(r, 1) <= '9') {
    r->at++;
    while (is_in_bare(peek(r, 0))) r->at++;
  }
  plim_value value;
  plim_span span = {begin, r->at};
  const char *text = r->text + begin;
  size_t size = r->at - begin;
  switch (plim_toml_bare(text, size, &value)) {
  case PLIM_TOML_SCALAR: add_setting(r, value, span, r->line); break;
  case PLIM_TOML_DATE: add_text(r, PLIM_VALUE_TEXT, text, size, span, r->line); break;
  case PLIM_TOML_LARGE: add_text(r, PLIM_VALUE_DERIVED, text, size, span, r->line); break;
  default: fail(r, begin, "this is not a TOML value");
  }
}

static void read_array(plim_toml_reader *r) {
  expect(r, '[', "");
  skip_space(r);
  for (size_t index = 0; !r->err && !take(r, ']'); index++) {
    size_t before = push_index(r, index);
    read_value(r);
    r->path.len = before;
    skip_space(r);
    if (r->err || take(r, ',')) skip_space(r);
    else if (peek(r, 0) != ']') fail(r, r->at, "a comma or ] is missing here");
  }
}

static void read_entry(plim_toml_reader *r, uint32_t table, bool is_inline);

static bool is_wanted(const plim_toml_reader *r) {
  return r->wanted && strlen(r->wanted) == r->path.len &&
         (!r->path.len || memcmp(r->wanted, r->path.at, r->path.len) == 0);
}

static void read_inline(plim_toml_reader *r) {
  uint32_t table = add_node(r, EXPLICIT), section = r->section;
  r->section = table; // dotted keys in it belong to this table
  expect(r, '{', "");
  if (is_wanted(r))
    r->place = (plim_toml_place){.kind = PLIM_TOML_INLINE, .end = r->at, .is_empty = true};
  skip_blanks(r);
  bool is_done = take(r, '}');
  while (!r->err && !is_done) {
    skip_blanks(r);
    read_entry(r, table, true);
    skip_blanks(r);
    is_done = take(r, '}');
    if (!r->err && !is_done) expect(r, ',', "a comma or } is missing here");
  }
  r->section = section;
}

static void read_value(plim_toml_reader *r) {
  char c = peek(r, 0);
  r->line_has_token = true;
  if (r->depth == MAX_DEPTH) fail(r, r->at, "values are nested too deeply");
  if (r->err) return;
  r->depth++;
  if (c == '"' || c == '\'') read_string(r);
  else if (c == '[') read_array(r);
  else if (c == '{') read_inline(r);
  else read_bare(r);
  r->depth--;
}

// ---- entries ----------------------------------------------------------------------------------------

// The table for a part of a dotted key. It must be new, or have been created by keys of this section or longer headers.
static uint32_t enter_dotted(plim_toml_reader *r, uint32_t table, size_t byte) {
  uint32_t *found = child_of(r, table);
  if (!found) return add_child(r, table, DOTTED);
  plim_toml_node *node = &r->nodes.at[*found];
  bool is_open = node->kind == IMPLICIT || (node->kind == DOTTED && node->section == r->section);
  if (!is_open) fail(r, byte, "this table is already complete");
  node->kind = DOTTED;
  node->section = r->section;
  return *found;
}

static void note_entry(plim_toml_reader *r, plim_toml_place place, bool is_inline) {
  place.kind = is_inline ? PLIM_TOML_INLINE : PLIM_TOML_BEHIND_ENTRY;
  place.end = r->at;
  r->place = place;
}

static void read_entry(plim_toml_reader *r, uint32_t table, bool is_inline) {
  size_t before = r->path.len, part = r->at;
  int parts = 1;
  plim_toml_place place = {.begin = r->at};
  read_part(r);
  while (!r->err && has_more_parts(r, &parts)) {
    table = enter_dotted(r, table, part);
    push(r, r->key.at, r->key.len);
    part = r->at;
    read_part(r);
  }
  if (!r->err && child_of(r, table)) fail(r, part, "this key is set twice");
  if (!r->err) add_child(r, table, CLOSED);
  bool is_place = is_wanted(r);
  place.prefix = (plim_span){place.begin, part};
  push(r, r->key.at, r->key.len);
  place.spaced_before = peek(r, 0) != '=';
  skip_blanks(r);
  expect(r, '=', "an = is missing here");
  place.spaced_behind = peek(r, 0) == ' ' || peek(r, 0) == '\t';
  skip_blanks(r);
  read_value(r);
  if (is_place) note_entry(r, place, is_inline);
  r->path.len = before;
}

// ---- tables -----------------------------------------------------------------------------------------

// The table for a part of a header, except the last part.
static uint32_t enter_header(plim_toml_reader *r, uint32_t table, size_t byte) {
  uint32_t *found = child_of(r, table), child = found ? *found : add_child(r, table, IMPLICIT);
  push(r, r->key.at, r->key.len);
  if (r->err) return 0;
  plim_toml_node *node = &r->nodes.at[child];
  if (node->kind == CLOSED) fail(r, byte, "this is a value, not a table");
  if (node->kind != ARRAY) return child;
  push_index(r, node->count - 1);
  return node->element;
}

static uint32_t open_table(plim_toml_reader *r, uint32_t parent, size_t byte) {
  uint32_t *found = child_of(r, parent), child = found ? *found : add_child(r, parent, IMPLICIT);
  push(r, r->key.at, r->key.len);
  if (r->err) return 0;
  if (r->nodes.at[child].kind != IMPLICIT) fail(r, byte, "this table is defined twice");
  r->nodes.at[child].kind = EXPLICIT;
  return child;
}

static uint32_t open_element(plim_toml_reader *r, uint32_t parent, size_t byte) {
  uint32_t *found = child_of(r, parent), child = found ? *found : add_child(r, parent, ARRAY);
  uint32_t element = add_node(r, EXPLICIT);
  push(r, r->key.at, r->key.len);
  if (r->err) return 0;
  plim_toml_node *node = &r->nodes.at[child];
  if (node->kind != ARRAY) fail(r, byte, "this is not an array of tables");
  push_index(r, node->count++);
  return node->element = element;
}

static void read_header(plim_toml_reader *r) {
  size_t begin = r->at, part;
  int parts = 1;
  uint32_t table = 0;
  take(r, '[');
  bool is_array = take(r, '[');
  r->path.len = 0;
  r->section = (uint32_t)r->nodes.len;
  skip_blanks(r);
  part = r->at;
  read_part(r);
  while (!r->err && has_more_parts(r, &parts)) {
    table = enter_header(r, table, part);
    part = r->at;
    read_part(r);
  }
  if (!r->err) r->table = is_array ? open_element(r, table, part) : open_table(r, table, part);
  skip_blanks(r);
  expect(r, ']', "a ] is missing here");
  if (is_array) expect(r, ']', "a ] is missing here");
  if (is_wanted(r))
    r->place = (plim_toml_place){.kind = PLIM_TOML_BEHIND_HEADER, .begin = begin, .end = r->at};
}

// ---- the text ---------------------------------------------------------------------------------------

static void check_bytes(plim_toml_reader *r) {
  if (r->size > MAX_BYTES) {
    r->err = plim_fail(r->error, PLIM_ERR_UNSUPPORTED,
                       "the file has %zu bytes; at most %d are read", r->size, MAX_BYTES);
    return;
  }
  const char *zero = r->size ? memchr(r->text, 0, r->size) : NULL;
  size_t wrong = zero ? (size_t)(zero - r->text) : plim_utf8_check(r->text, r->size);
  if (wrong < r->size)
    fail(r, wrong, zero ? "the file contains a zero byte" : "the file is not valid UTF-8");
}

static void read_line(plim_toml_reader *r) {
  skip_blanks(r);
  if (peek(r, 0) == '[') read_header(r);
  else if (r->at < r->size && peek(r, 0) != '#' && !line_end(r)) read_entry(r, r->table, false);
  skip_blanks(r);
  if (!r->err) skip_comment(r);
  if (!r->err && r->at < r->size && !skip_line_end(r)) fail(r, r->at, "the line should end here");
}

static void attach_comments(plim_toml_reader *r) {
  for (size_t i = 0; !r->err && i < r->lines.len; i++) {
    plim_span lines = r->lines.at[i];
    const char *text =
        plim_comment_of(&r->comments, r->s, (uint32_t)lines.begin, (uint32_t)lines.end);
    if (!text) no_memory(r);
    r->s->at.at[i].comment = text;
  }
}

plim_err plim_toml_read(plim_toml_reader *r, plim_settings *s, const char *wanted,
                        plim_error *error) {
  *r = (plim_toml_reader){
      .s = s, .error = error, .text = s->text, .size = s->size, .line = 1, .wanted = wanted};
  check_bytes(r);
  add_node(r, EXPLICIT);
  if (r->size >= 3 && memcmp(r->text, "\xef\xbb\xbf", 3) == 0) r->at = 3;
  while (!r->err && r->at < r->size) read_line(r);
  attach_comments(r);
  return r->err;
}

void plim_toml_reader_free(plim_toml_reader *r) {
  vec_free(&r->comments);
  vec_free(&r->lines);
  vec_free(&r->nodes);
  vec_free(&r->path);
  vec_free(&r->key);
  plim_hash_free(&r->children);
}
