// The values of a shell script or a Dockerfile before they become settings: how each is written, which command it belongs
// to and which variable it copies.
#ifndef PLIM_IO_SHELL_VALUE_H
#define PLIM_IO_SHELL_VALUE_H

#include "quoting.h"
#include "settings.h"
#include "shell_script.h"

typedef enum { PLIM_FOUND_FLAG, PLIM_FOUND_OVERRIDE, PLIM_FOUND_VARIABLE } plim_shell_value_kind;

typedef struct {
  plim_shell_value_kind kind;
  const char *name; // the key without the number of its group
  plim_value value;
  plim_span span;
  plim_word_context place;
  const char *reference; // of a DERIVED: the variable it is a copy of, such as "$BATCH"; or NULL
  bool has_default;      // of a reference: it has another value if the variable is empty
  bool is_doubted;       // the value is uncertain; its text explains why
  size_t scope;          // its scope, an index in f->scopes
  size_t from;           // of a variable: it takes effect from this byte on
  bool is_unexported;    // of a variable: programs do not see it
  bool is_build_only;    // of a variable: not set when a container starts
  bool is_late;          // read when a container starts, after the whole file was processed
  size_t group;    // the flags of one command are one group; the last of equal flags takes effect
  size_t order;    // position within the group, as the program sees it
  size_t gap;      // the end of the word before the flag; 0: there is none
  plim_span word;  // the flag itself
  bool is_bare;    // a flag without a value
  bool is_joined;  // --name=value, in one word
  bool is_several; // a flag with several values
  bool is_aside;   // its command does not train
  plim_value computed; // of a DERIVED, if is_computed: its number; NULL: unknown
  bool is_computed;
} plim_shell_value;

typedef vec(const char *) plim_names;

// A word of a command that expands to any number of words, including flags.
typedef struct {
  const char *name; // "$NAME" of the variable; NULL if it is not a variable
  bool is_flag;     // --$NAME
  size_t group, order;
  size_t at, scope;
} plim_expansion;

typedef vec(plim_expansion) plim_expansions;
typedef vec(plim_span) plim_spans;

typedef struct {
  plim_settings *s; // owns the texts
  vec(plim_shell_value) at;
  plim_names set;   // "$NAME" once per assignment; twice if the variable must not be a root
  plim_names lists; // "$NAME" of variables that hold arguments
  plim_expansions expansions; // of commands' words
  plim_shell_scopes scopes;
  size_t scope;        // of the current command
  bool in_function;    // the current command is in a function
  plim_spans comments; // from # to the end of the line, in order
  plim_bytes scratch;
  bool has_opaque;        // a command may set any variable: source, eval
  bool has_own_positions; // `set -- ...`: $1 does not come from the caller
  bool has_own_ifs;       // IFS is set: words are not split at blanks
  bool is_out;            // out of memory
} plim_shell_scanner;

void plim_scanner_clear(plim_shell_scanner *f);

// Copies a text into the settings; returns "" and sets is_out when out of memory.
const char *plim_scanner_keep(plim_shell_scanner *f, const char *text, size_t size);
const char *plim_scanner_keep_span(plim_shell_scanner *f, const char *text, plim_span span,
                                   const char *prefix);
void plim_scanner_add(plim_shell_scanner *f, plim_shell_value found);
void plim_scanner_name(plim_shell_scanner *f, plim_names *names, const char *name);

// For lookups by name: sort after adding all names.
void plim_names_sort(plim_names *names);
size_t plim_names_count(const plim_names *names, const char *name);

// Adds the values to the settings: in order, numbered (--lr, --lr#2), with roots and comments.
plim_err plim_scanner_finish(plim_shell_scanner *f, plim_error *error);

// Reads the value at `span` of `text`: a literal, the default of a variable that is never set, or a DERIVED. `self` is the
// variable that it is assigned to, or NULL. Only value, span, place and reference are set.
plim_shell_value plim_scanner_read(plim_shell_scanner *f, const char *text, plim_span span,
                                   plim_word_context place, const char *self);

// Marks values as uncertain because they apply only under a condition or may be changed: they become DERIVED. The second
// function marks all values from index `from` on.
void plim_scanner_doubt_one(plim_shell_scanner *f, plim_shell_value *found, const char *text,
                            const char *why);
void plim_scanner_doubt(plim_shell_scanner *f, size_t from, const char *text, const char *why);

// Marks flags as uncertain that come before one of these words, because the words may contain the same flags.
void plim_scanner_doubt_before(plim_shell_scanner *f, plim_expansion *at, size_t count);

// If the text at `span` is only a copy of a variable, the span of the variable's name; empty otherwise.
plim_span plim_reference_at(const char *text, plim_span span);

// ---- changes ----------------------------------------------------------------------------------------

// Reads s->text into a scanner, without plim_scanner_finish.
typedef plim_err (*plim_find)(plim_shell_scanner *f, plim_error *error);

plim_err plim_shell_value_read(plim_settings *s, plim_find find, plim_error *error);
plim_err plim_shell_value_change(const plim_settings *s, const plim_setting *setting,
                                 plim_find find, const plim_value *value, plim_edit *out,
                                 plim_error *error);

// The flag and its value, if it has one, with the separator before them.
plim_span plim_shell_value_words(const plim_settings *s, const plim_shell_value *found);

// Removes a flag with its value, an override, or a variable on a line of its own that nothing else reads.
plim_err plim_shell_value_remove(const plim_settings *s, const plim_setting *setting,
                                 plim_find find, plim_edit *out, plim_error *error);
const plim_shell_value *plim_shell_value_again(const plim_shell_scanner *f,
                                               const plim_setting *setting);

// Writes `value` as it must appear after the "=" of an override: quoted for Hydra if necessary.
bool plim_override_text(const plim_value *value, const char *old, plim_bytes *out, bool *is_out);

// Refuses and frees an edit unless the edited text has `value` for the key and all other settings are unchanged. `key` is
// new, or it is the key of `changed`. If `value` is false, the flag may be missing from the edited text.
plim_err plim_edit_check(const plim_settings *s, const char *key, const plim_setting *changed,
                         const plim_value *value, plim_edit *edit, plim_error *error);

#endif
