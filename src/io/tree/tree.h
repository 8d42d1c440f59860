// The tree of a YAML or JSON text, with the position of every node. Parsers build the tree, and settings are read from
// it. Every edit is first tried on a copy, which is parsed again: its tree must be the same except for the intended
// change.
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
  plim_span span;             // includes quotes and brackets, but not anchor and tag
  int line;                   // counted from 1
  int depth;                  // 0: the root of a document
  bool is_key;                // a key of a mapping; the next node is its value
  bool is_merge;              // the key <<
  bool has_brackets;          // a collection in { } or [ ]
  plim_style style;           // of a scalar
  plim_value value;           // of a scalar; an alias is DERIVED
  const char *text;           // of a scalar, decoded; NULL if no C string can hold it
  uint32_t parent;            // PLIM_NO_NODE: the root of a document
  uint32_t key;               // the key of a mapping's value
  uint32_t first, last, next; // values of a mapping, items of a sequence
  uint32_t index;             // its position in the parent
  uint32_t target;            // of an alias: the node it refers to
} plim_node;

typedef struct {
  const char *text; // borrowed
  size_t size;
  vec(plim_node) at; // in the order of the text, each collection before its content
  vec(uint32_t) roots;
  vec(char *) strings;
  bool has_slash_comments; // JSON: // begins a comment, as # does
  size_t comma,
      comment; // JSON: offsets of the first trailing comma and of the first comment; SIZE_MAX: none
} plim_tree;

// The parser and the writer of a format.
typedef struct {
  bool is_json;
  plim_err (*parse)(const char *text, size_t size, plim_tree *out, plim_error *error);
  // Writes the value in the n-th possible form, the best one first; false if there are no more forms. `like` is the node
  // that it replaces, or PLIM_NO_NODE.
  bool (*spell)(const plim_tree *t, uint32_t like, const plim_value *value, int way, FILE *out);
} plim_tree_format;

plim_err plim_yaml_parse(const char *text, size_t size, plim_tree *out, plim_error *error);
plim_err plim_json_parse(const char *text, size_t size, plim_tree *out, plim_error *error);

void plim_tree_clear(plim_tree *t);

// ---- building: open and close collections, add scalars and aliases in the order of the text ---------

typedef struct {
  plim_tree *tree;
  uint32_t open[PLIM_TREE_MAX_DEPTH];
  uint32_t key[PLIM_TREE_MAX_DEPTH]; // the key whose value comes next
  int depth;
} plim_builder;

plim_err plim_tree_add(plim_builder *b, plim_node node, plim_error *error);
plim_err plim_tree_open(plim_builder *b, plim_node node, plim_error *error);
void plim_tree_close(plim_builder *b,
                     size_t end); // `end` is used only if the collection has brackets
const char *plim_tree_keep(plim_tree *t, const char *text, size_t size); // NULL: out of memory

plim_err plim_tree_too_long(size_t size, plim_error *error); // PLIM_OK if it is not too long

// ---- reading ----------------------------------------------------------------------------------------

// The key of a value, in the form of plim_setting.key. False if it has none.
bool plim_tree_key(const plim_tree *t, uint32_t id, char out[PLIM_KEY_BYTES]);
// Adds a part to a key and escapes its dots. False if it does not fit.
bool plim_key_push(char key[PLIM_KEY_BYTES], const char *part);
// The last value with this key in a mapping, or PLIM_NO_NODE.
uint32_t plim_tree_child(const plim_tree *t, uint32_t id, const char *name);
// All values that have a key, sorted by parent, key and place; values of << are left out. The caller frees the array;
// NULL when out of memory.
typedef struct {
  const char *text; // the name
  uint32_t parent, id;
} plim_named;
plim_named *plim_tree_named(const plim_tree *t, size_t *count);
// The first node after this node and its content.
uint32_t plim_tree_after(const plim_tree *t, uint32_t id);
plim_span plim_tree_comment(const plim_tree *t,
                            uint32_t id); // the comment after a value, with its # or //
bool plim_value_equal(const plim_value *a, const plim_value *b);

// ---- places in a text -------------------------------------------------------------------------------

size_t plim_line_begin(const char *text, size_t at);
size_t plim_line_end(const char *text, size_t size, size_t at); // before its line break
const char *plim_line_break(const char *text, size_t size); // the line break that this text uses

// ---- an editor over a dialect -----------------------------------------------------------------------

// Sets `root` and `computed` of the DERIVED settings, after all settings are read.
plim_err plim_tree_resolve(plim_settings *s, plim_error *error);
plim_err plim_tree_read(const plim_tree_format *d, plim_settings *s, plim_error *error);
plim_err plim_tree_change(const plim_tree_format *d, const plim_settings *s,
                          const plim_setting *setting, const plim_value *value, plim_edit *out,
                          plim_error *error);
plim_err plim_tree_insert(const plim_tree_format *d, const plim_settings *s, const char *key,
                          const plim_value *value, plim_edit *out, plim_error *error);

plim_err plim_tree_remove(const plim_tree_format *d, const plim_settings *s,
                          const plim_setting *setting, plim_edit *out, plim_error *error);
plim_err plim_tree_remove_all(const plim_tree_format *d, const plim_settings *s,
                              const plim_setting *first, const char *roof, plim_edit *out,
                              plim_error *error);
uint32_t plim_tree_node_of(const plim_tree *t, const plim_setting *setting); // PLIM_NO_NODE: none

// Checks that the edited text parses to the same tree except for the `removed` nodes from `at` on, which are replaced,
// and that the value at `key` (or at node `at` if `key` is NULL) is `wanted`. PLIM_ERR_NOMEM if memory ran out.
plim_err plim_tree_edit_holds(const plim_tree_format *d, const plim_tree *t, const plim_edit *edit,
                              uint32_t at, uint32_t removed, const char *key,
                              const plim_value *wanted);

#endif
