// Edits YAML: writes values so that PyYAML reads them back as intended.
#include "edit_yaml.h"

#include <math.h>
#include <string.h>

#include "spell.h"
#include "tree.h"
#include "yaml_scalar.h"

// ---- numbers and words ------------------------------------------------------------------------------

// The word for true or false in the spelling of the old value, or else of the first bool in the file.
static const char *bool_word(const plim_tree *t, uint32_t like, bool flag) {
  for (uint32_t id = like == PLIM_NO_NODE ? 0 : like; id < t->at.len; id++) {
    const plim_node *node = &t->at.at[id];
    if (node->value.kind == PLIM_VALUE_BOOL && !node->is_key && node->kind == PLIM_NODE_SCALAR) {
      size_t size = node->span.end - node->span.begin;
      const char *word = plim_yaml_bool(t->text + node->span.begin, size, flag);
      if (word) return word;
    }
    if (id == like) return bool_word(t, PLIM_NO_NODE, flag);
  }
  return flag ? "true" : "false";
}

static void spell_real(double value, const char *like, size_t like_size, FILE *out) {
  if (isnan(value)) fputs(".nan", out);
  else if (isinf(value)) fputs(value < 0 ? "-.inf" : ".inf", out);
  else plim_spell_real(value, like, like_size, true, out);
}

static void spell_word(const plim_tree *t, uint32_t like, const plim_value *value, FILE *out) {
  plim_span span = like == PLIM_NO_NODE ? (plim_span){0} : t->at.at[like].span;
  const char *old = t->text + span.begin;
  size_t size = span.end - span.begin;
  if (value->kind == PLIM_VALUE_NULL) fputs("null", out);
  if (value->kind == PLIM_VALUE_BOOL) fputs(bool_word(t, like, value->flag), out);
  if (value->kind == PLIM_VALUE_INTEGER) plim_spell_integer(value->integer, old, size, out);
  if (value->kind == PLIM_VALUE_REAL) spell_real(value->real, old, size, out);
}

// ---- text -------------------------------------------------------------------------------------------

static bool spell_plain(const char *text, FILE *out) {
  return *text && !strpbrk(text, "\r\n") && fputs(text, out) >= 0;
}

static bool spell_single(const char *text, FILE *out) {
  if (strpbrk(text, "\r\n")) return false;
  fputc('\'', out);
  for (; *text; text++) fputs(*text == '\'' ? "''" : (char[]){*text, 0}, out);
  fputc('\'', out);
  return true;
}

static bool spell_double(const char *text, FILE *out) {
  plim_spell_quoted(text, out);
  return true;
}

static size_t block_indent(const plim_tree *t, plim_span span) {
  size_t at = plim_line_end(t->text, span.end, span.begin);
  while (at < span.end && strchr("\r\n", t->text[at])) at++;
  size_t begin = at;
  while (at < span.end && t->text[at] == ' ') at++;
  return at - begin;
}

// Writes a block: the old first line (its marks and comment), then the lines of the text with the old indentation.
static bool spell_block(const plim_tree *t, uint32_t like, const char *text, FILE *out) {
  plim_span span = t->at.at[like].span;
  size_t header = plim_line_end(t->text, span.end, span.begin) - span.begin;
  int indent = (int)block_indent(t, span);
  if (!indent || strchr(text, '\r')) return false;
  fwrite(t->text + span.begin, 1, header, out);
  for (const char *end; *text; text = *end ? end + 1 : end) {
    end = text + strcspn(text, "\n");
    fputs(plim_line_break(t->text, t->size), out);
    if (end > text) fprintf(out, "%*s%.*s", indent, "", (int)(end - text), text);
  }
  return true;
}

// If a block is replaced by text on one line, the comment of its first line is kept.
static void write_comment_of_block(const plim_tree *t, uint32_t like, FILE *out) {
  plim_span comment = plim_tree_comment(t, like);
  if (!comment.end) return;
  fputc(' ', out);
  fwrite(t->text + comment.begin, 1, comment.end - comment.begin, out);
}

enum { WAYS = 4 };
typedef enum { END, PLAIN, SINGLE, DOUBLE, BLOCK } way_of_text;

static const way_of_text ways[][WAYS] = {
    [PLIM_STYLE_PLAIN] = {PLAIN, DOUBLE, SINGLE},
    [PLIM_STYLE_SINGLE] = {SINGLE, DOUBLE},
    [PLIM_STYLE_DOUBLE] = {DOUBLE, SINGLE},
    [PLIM_STYLE_BLOCK] = {BLOCK, DOUBLE},
};

static bool spell_text(const plim_tree *t, uint32_t like, const char *text, way_of_text way,
                       FILE *out) {
  switch (way) {
  case PLAIN: return spell_plain(text, out);
  case SINGLE: return spell_single(text, out);
  case DOUBLE: return spell_double(text, out);
  case BLOCK: return spell_block(t, like, text, out);
  default: return false;
  }
}

// ---- the editor -------------------------------------------------------------------------------------

// Writes the value in one of several ways; false if there are no more ways. If a way is not possible for the value, the
// text does not read back as intended, and the caller tries the next way.
static bool spell(const plim_tree *t, uint32_t like, const plim_value *value, int way, FILE *out) {
  plim_style style = like == PLIM_NO_NODE ? PLIM_STYLE_PLAIN : t->at.at[like].style;
  bool is_text = value->kind == PLIM_VALUE_TEXT;
  if (way >= (is_text ? WAYS : 1) || ways[style][way] == END) return false;
  if (is_text) spell_text(t, like, value->text, ways[style][way], out);
  else spell_word(t, like, value, out);
  bool is_block = is_text && ways[style][way] == BLOCK;
  if (style == PLIM_STYLE_BLOCK && !is_block) write_comment_of_block(t, like, out);
  return true;
}

static const plim_tree_format yaml = {.parse = plim_yaml_parse, .spell = spell};

static plim_err read(plim_settings *s, plim_error *error) {
  return plim_tree_read(&yaml, s, error);
}

static plim_err change(const plim_settings *s, const plim_setting *setting, const plim_value *value,
                       plim_edit *out, plim_error *error) {
  return plim_tree_change(&yaml, s, setting, value, out, error);
}

static plim_err insert(const plim_settings *s, const char *key, const plim_value *value,
                       plim_edit *out, plim_error *error) {
  return plim_tree_insert(&yaml, s, key, value, out, error);
}

static plim_err remove_entry(const plim_settings *s, const plim_setting *setting, plim_edit *out,
                             plim_error *error) {
  return plim_tree_remove(&yaml, s, setting, out, error);
}

static plim_err remove_all(const plim_settings *s, const plim_setting *first, const char *roof,
                           plim_edit *out, plim_error *error) {
  return plim_tree_remove_all(&yaml, s, first, roof, out, error);
}

const plim_editor plim_yaml_editor = {read, change, insert, remove_entry, remove_all};
