// Replaces a value. Several forms of the new value are tried, the best one first, until one reads back as intended and
// everything else is unchanged.
#include <string.h>

#include "tree.h"
#include "utf8.h"

typedef struct {
  const plim_tree_format *dialect;
  const plim_tree *tree;
  uint32_t id;
  const plim_value *value;
} change;

static plim_err holds(const change *c, const plim_edit *edit) {
  return plim_tree_edit_holds(c->dialect, c->tree, edit, c->id, 1, NULL, c->value);
}

// ---- ways to write it -------------------------------------------------------------------------------

// Texts around the value; ": " turns {a} into {a: 1}.
static const struct {
  const char *before, *after;
} fringes[] = {{"", ""}, {" ", ""}, {"", " "}, {" ", " "}, {": ", ""}};
enum { FRINGES = sizeof fringes / sizeof *fringes };

// Writes the value in one way. Returns PLIM_ERR_UNSUPPORTED if there is no such way.
static plim_err write_way(const change *c, int way, int fringe, char **text) {
  size_t size;
  FILE *out = open_memstream(text, &size);
  if (!out) return PLIM_ERR_NOMEM;
  fputs(fringes[fringe].before, out);
  bool is_way = c->dialect->spell(c->tree, c->id, c->value, way, out);
  fputs(fringes[fringe].after, out);
  if (!plim_stream_end(out, text)) return PLIM_ERR_NOMEM;
  return is_way ? PLIM_OK : PLIM_ERR_UNSUPPORTED;
}

static plim_err find_way(const change *c, plim_edit *out) {
  for (int way = 0;; way++)
    for (int fringe = 0; fringe < FRINGES; fringe++) {
      plim_err no_way = write_way(c, way, fringe, &out->text), err = no_way;
      if (!err) err = holds(c, out);
      if (!err) return PLIM_OK;
      free(out->text);
      out->text = NULL;
      if (no_way || err == PLIM_ERR_NOMEM) return err;
    }
}

// ---- comments in a column ---------------------------------------------------------------------------

static size_t column(const char *text, size_t at) { return at - plim_line_begin(text, at); }

static bool has_comment_in_column(const plim_tree *t, size_t line, size_t wanted) {
  size_t end = plim_line_end(t->text, t->size, line), at = line + wanted;
  return at > line && at < end && t->text[at] == '#' && t->text[at - 1] == ' ';
}

// Whether the line above or below has a comment in the same column, so that the alignment is intended.
static bool is_in_line(const plim_tree *t, size_t comment) {
  size_t wanted = column(t->text, comment), line = comment - wanted;
  size_t below = plim_line_end(t->text, t->size, comment);
  while (below < t->size && t->text[below] == '\r') below++;
  if (below < t->size && has_comment_in_column(t, below + 1, wanted)) return true;
  size_t above = line;
  while (above > 0 && strchr("\r\n", t->text[above - 1]) && line - above < 2) above--;
  return above < line && has_comment_in_column(t, plim_line_begin(t->text, above), wanted);
}

static bool are_blanks(const char *text, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (text[i] != ' ') return false;
  return true;
}

// Keeps an aligned comment in its column by adding or removing blanks before it.
static plim_err keep_column(const change *c, plim_edit *edit) {
  const plim_tree *t = c->tree;
  size_t comment = plim_tree_comment(t, c->id).begin, end = edit->span.end;
  if (comment <= end || !are_blanks(t->text + end, comment - end) || !is_in_line(t, comment))
    return PLIM_OK;
  size_t used = strlen(edit->text), room = comment - edit->span.begin;
  if (used >= room || column(t->text, comment) < room) return PLIM_OK;
  plim_edit padded = {{edit->span.begin, comment}, malloc(room + 1)};
  if (!padded.text) return PLIM_ERR_NOMEM;
  snprintf(padded.text, room + 1, "%-*s", (int)room, edit->text);
  plim_err err = holds(c, &padded);
  free(err ? padded.text : edit->text);
  if (!err) *edit = padded;
  return err == PLIM_ERR_NOMEM ? err : PLIM_OK;
}

// ---- the change -------------------------------------------------------------------------------------

uint32_t plim_tree_node_of(const plim_tree *t, const plim_setting *setting) {
  char key[PLIM_KEY_BYTES];
  for (uint32_t id = 0; id < t->at.len; id++) {
    const plim_node *node = &t->at.at[id];
    bool is_there = node->kind == PLIM_NODE_SCALAR && !node->is_key &&
                    node->span.begin == setting->span.begin && node->span.end == setting->span.end;
    if (is_there && plim_tree_key(t, id, key) && strcmp(key, setting->key) == 0) return id;
  }
  return PLIM_NO_NODE;
}

static plim_err check_value(const plim_setting *setting, const plim_value *value,
                            plim_error *error) {
  if (value->kind == PLIM_VALUE_DERIVED)
    return plim_fail(error, PLIM_ERR_ARGUMENT, "%.96s cannot be set to an expression",
                     setting->key);
  if (value->kind == PLIM_VALUE_TEXT &&
      plim_utf8_check(value->text, strlen(value->text)) < strlen(value->text))
    return plim_fail(error, PLIM_ERR_ARGUMENT, "the new text of %.96s is not valid UTF-8",
                     setting->key);
  return PLIM_OK;
}

static plim_err change_node(const change *c, const plim_setting *setting, plim_edit *out,
                            plim_error *error) {
  const plim_node *node = &c->tree->at.at[c->id];
  out->span = node->span;
  if (plim_value_equal(&node->value, c->value)) {
    out->text = plim_copy_of(c->tree->text + node->span.begin, node->span.end - node->span.begin);
    return out->text ? PLIM_OK : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  }
  plim_err err = find_way(c, out);
  if (!err) err = keep_column(c, out);
  if (err == PLIM_ERR_NOMEM) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  if (err) {
    plim_fail(error, PLIM_ERR_UNSUPPORTED, "the new value of %.96s cannot be written at its place",
              setting->key);
    plim_error_at(error, node->span.begin);
    return PLIM_ERR_UNSUPPORTED;
  }
  return PLIM_OK;
}

plim_err plim_tree_change(const plim_tree_format *d, const plim_settings *s,
                          const plim_setting *setting, const plim_value *value, plim_edit *out,
                          plim_error *error) {
  plim_tree tree = {0};
  plim_err err = check_value(setting, value, error);
  if (!err) err = d->parse(s->text, s->size, &tree, error);
  change c = {d, &tree, err ? PLIM_NO_NODE : plim_tree_node_of(&tree, setting), value};
  if (!err && c.id == PLIM_NO_NODE)
    err = plim_fail(error, PLIM_ERR_ARGUMENT, "%.96s is no longer where it was read", setting->key);
  if (!err) err = change_node(&c, setting, out, error);
  plim_tree_clear(&tree);
  return err;
}
