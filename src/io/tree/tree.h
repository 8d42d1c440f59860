// A text of nested keys (YAML, JSON) with the place of everything in it. Parsers build a tree, settings
// are read from it, and every edit is tried on a copy and parsed again before it is handed out: the
// tree must then be the same, but for what was meant.
#ifndef PLIM_IO_TREE_H
#define PLIM_IO_TREE_H

#include <stdio.h>

#include "settings.h"

#define PLIM_NO_NODE UINT32_MAX

enum {
  PLIM_TREE_MAX_BYTES = 16 << 20,
  PLIM_TREE_MAX_DEPTH = 64,
  PLIM_TREE_MAX_NODES = 1 << 19,
  PLIM_KEY_BYTES = 4096
};

typedef enum {
  PLIM_NODE_SCALAR,
  PLIM_NODE_MAPPING,
  PLIM_NODE_SEQUENCE,
  PLIM_NODE_ALIAS
} plim_node_kind;

typedef enum {
  PLIM_STYLE_PLAIN,
  PLIM_STYLE_SINGLE,
  PLIM_STYLE_DOUBLE,
  PLIM_STYLE_BLOCK
} plim_style;

typedef struct {
  plim_node_kind kind;
  plim_span span;             // as written: quotes and brackets included, anchor and tag not
  int line;                   // counted from 1
  int depth;                  // 0: the root of a document
  bool is_key;                // of a mapping; what follows is its value
  bool is_merge;              // the key <<
  bool has_brackets;          // a collection in { } or [ ]
  plim_style style;           // of a scalar
  plim_value value;           // of a scalar; an alias is DERIVED
  const char *text;           // of a scalar, decoded; NULL if no C string can hold it
  uint32_t parent;            // PLIM_NO_NODE: the root of a document
  uint32_t key;               // the key of a mapping's value
  uint32_t first, last, next; // values of a mapping, items of a sequence
  uint32_t index;             // among its parent's
  uint32_t target;            // of an alias
} plim_node;

typedef struct {
  const char *text; // borrowed
  size_t size;
  vec(plim_node) at; // in the order of the text, each collection before what is in it
  vec(uint32_t) roots;
  vec(char *) strings;
  size_t comma,
      comment; // of JSON: the first comma after a last value, the first comment; SIZE_MAX: none
} plim_tree;

// How a format is parsed and spelled.
typedef struct {
  bool is_json;
  plim_err (*parse)(const char *text, size_t size, plim_tree *out, plim_error *error);
  // Writes the value in the n-th way, the most fitting first; false if there are no more.
  // `like` is the value it replaces, or PLIM_NO_NODE.
  bool (*spell)(const plim_tree *t, uint32_t like, const plim_value *value, int way, FILE *out);
} plim_dialect;

plim_err plim_yaml_parse(const char *text, size_t size, plim_tree *out, plim_error *error);
plim_err plim_json_parse(const char *text, size_t size, plim_tree *out, plim_error *error);

void plim_tree_clear(plim_tree *t);

// ---- building: open and close collections, add scalars and aliases in the order of the text ---------

typedef struct {
  plim_tree *tree;
  uint32_t open[PLIM_TREE_MAX_DEPTH];
  uint32_t key[PLIM_TREE_MAX_DEPTH]; // the key that waits for its value
  int depth;
} plim_builder;

plim_err plim_tree_add(plim_builder *b, plim_node node, plim_error *error);
plim_err plim_tree_open(plim_builder *b, plim_node node, plim_error *error);
void plim_tree_close(plim_builder *b, size_t end); // `end` counts only if it has brackets
const char *plim_tree_keep(plim_tree *t, const char *text, size_t size); // NULL: out of memory

plim_err plim_tree_too_long(size_t size, plim_error *error); // PLIM_OK if it is not

// ---- reading ----------------------------------------------------------------------------------------

// The key of a value in the sense of plim_setting; false if it has none.
bool plim_tree_key(const plim_tree *t, uint32_t id, char out[PLIM_KEY_BYTES]);
// Adds a part to a key, dots escaped; false if it does not fit.
bool plim_key_push(char key[PLIM_KEY_BYTES], const char *part);
// The last value under this name, or PLIM_NO_NODE.
uint32_t plim_tree_child(const plim_tree *t, uint32_t id, const char *name);
// All values that have a name, by their parent, name and place; those of << have none. The caller frees
// it; NULL when out of memory.
typedef struct {
  const char *text; // the name
  uint32_t parent, id;
} plim_named;
plim_named *plim_tree_named(const plim_tree *t, size_t *count);
// The node after all that is in this one.
uint32_t plim_tree_after(const plim_tree *t, uint32_t id);
plim_span plim_tree_comment(const plim_tree *t, uint32_t id); // after a value, its mark included
bool plim_value_equal(const plim_value *a, const plim_value *b);

// ---- places in a text -------------------------------------------------------------------------------

size_t plim_line_begin(const char *text, size_t at);
size_t plim_line_end(const char *text, size_t size, size_t at); // before its line break
const char *plim_line_break(const char *text, size_t size);     // the one this text uses

// ---- an editor over a dialect -----------------------------------------------------------------------

// Fills in the roots and numbers of what is derived, once all settings are there.
plim_err plim_tree_resolve(plim_settings *s, plim_error *error);
plim_err plim_tree_read(const plim_dialect *d, plim_settings *s, plim_error *error);
plim_err plim_tree_change(const plim_dialect *d, const plim_settings *s,
                          const plim_setting *setting, const plim_value *value, plim_edit *out,
                          plim_error *error);
plim_err plim_tree_insert(const plim_dialect *d, const plim_settings *s, const char *key,
                          const plim_value *value, plim_edit *out, plim_error *error);

plim_err plim_tree_remove(const plim_dialect *d, const plim_settings *s,
                          const plim_setting *setting, plim_edit *out, plim_error *error);
plim_err plim_tree_remove_all(const plim_dialect *d, const plim_settings *s,
                              const plim_setting *first, const char *roof, plim_edit *out,
                              plim_error *error);
uint32_t plim_tree_node_of(const plim_tree *t, const plim_setting *setting); // PLIM_NO_NODE: none

// Whether the text with this edit parses to the same tree, but for `removed` nodes from `at` on, in
// whose place there are now others, and the value at `key` (or, if NULL, at node `at`) is as wanted.
// PLIM_ERR_NOMEM: it is unknown.
plim_err plim_tree_edit_holds(const plim_dialect *d, const plim_tree *t, const plim_edit *edit,
                              uint32_t at, uint32_t removed, const char *key,
                              const plim_value *wanted);

#endif
