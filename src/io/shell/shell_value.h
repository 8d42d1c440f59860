// What a shell script or a Dockerfile says, before it is made into settings: every value with how it is
// written, which command it belongs to and what it copies.
#ifndef PLIM_IO_SHELL_VALUE_H
#define PLIM_IO_SHELL_VALUE_H

#include "quoting.h"
#include "settings.h"
#include "shell_script.h"

typedef enum { PLIM_FOUND_FLAG, PLIM_FOUND_OVERRIDE, PLIM_FOUND_VARIABLE } plim_shell_value_kind;

typedef struct {
  plim_shell_value_kind kind;
  const char *name; // the key, without the number of its group
  plim_value value;
  plim_span span;
  plim_word_context place;
  const char *reference; // of a DERIVED: the variable it is a copy of, such as "$BATCH"; or NULL
  bool has_default;      // of a reference: something else if the variable is empty
  bool is_doubted;       // its text says why
  size_t scope;          // of f->scopes, in which it stands
  size_t from;           // of a variable: it holds from this byte on
  bool is_build_only;    // of a variable: not there when a container starts
  bool is_late;          // read when a container starts, whatever stands after it in the file
  size_t group;          // flags of one command are one group, and the last of them counts
  size_t order;          // of the words within the group, as the program sees them
  size_t gap;            // where the word before the flag ends; 0: there is none
  plim_span word;        // the flag itself
  bool is_bare;          // a flag without a value
  bool is_joined;        // --name=value, in one word
  bool is_several;       // a flag with several words after it
  bool is_aside;         // of a command that does not train
  plim_value computed;   // of a DERIVED, once it was looked for: its number; NULL: it has none
  bool is_computed;
} plim_shell_value;

typedef vec(const char *) plim_names;

// A word of a command that stands for any number of words, flags among them.
typedef struct {
  const char *name; // "$NAME" of the variable; NULL: something else is computed
  bool is_flag;     // --$NAME
  size_t group, order;
  size_t at, scope;
} plim_expansion;

typedef vec(plim_expansion) plim_expansions;
typedef vec(plim_span) plim_spans;

typedef struct {
  plim_settings *s; // keeps the texts
  vec(plim_shell_value) at;
  plim_names set;             // "$NAME" once for each assignment; twice for what no root may be
  plim_names lists;           // "$NAME" of variables that hold arguments
  plim_expansions expansions; // of commands' words
  plim_shell_scopes scopes;
  size_t scope;        // of the current command
  bool in_function;    // where it stands
  plim_spans comments; // from # to the end of the line, in order
  plim_bytes scratch;
  bool has_opaque;        // something here may set any variable: source, eval
  bool has_own_positions; // `set -- ...`: $1 is not what the caller gives
  bool has_own_ifs;       // words are split in another way than at blanks
  bool is_out;            // of memory
} plim_shell_scanner;

void plim_scanner_clear(plim_shell_scanner *f);

// Texts kept; "" when out of memory, with is_out set.
const char *plim_scanner_keep(plim_shell_scanner *f, const char *text, size_t size);
const char *plim_scanner_keep_span(plim_shell_scanner *f, const char *text, plim_span span,
                                   const char *prefix);
void plim_scanner_add(plim_shell_scanner *f, plim_shell_value found);
void plim_scanner_name(plim_shell_scanner *f, plim_names *names, const char *name);

// For lookups by name, once all are there.
void plim_names_sort(plim_names *names);
size_t plim_names_count(const plim_names *names, const char *name);

// Puts what was found into the settings: in order, numbered (--lr, --lr#2), with roots and comments.
plim_err plim_scanner_finish(plim_shell_scanner *f, plim_error *error);

// What a value means that is written at `span` of `text`: the literal, the default of a variable that
// is set nowhere, or what it is computed from. `self` is the variable it is assigned to, or NULL. Only
// value, span, place and reference are filled in.
plim_shell_value plim_scanner_read(plim_shell_scanner *f, const char *text, plim_span span,
                                   plim_word_context place, const char *self);

// What was found from `from` on holds only under a condition, or not for long: it is no literal.
void plim_scanner_doubt_one(plim_shell_scanner *f, plim_shell_value *found, const char *text,
                            const char *why);
void plim_scanner_doubt(plim_shell_scanner *f, size_t from, const char *text, const char *why);

// The same for the flags of commands that come before one of these words, which may be the same flags.
void plim_scanner_doubt_before(plim_shell_scanner *f, plim_expansion *at, size_t count);

// The variable that `span` is no more than a copy of: its name's span; empty if there is none.
plim_span plim_reference_at(const char *text, plim_span span);

// ---- changes ----------------------------------------------------------------------------------------

// Reads s->text into a finder, without finishing it.
typedef plim_err (*plim_find)(plim_shell_scanner *f, plim_error *error);

plim_err plim_shell_value_read(plim_settings *s, plim_find find, plim_error *error);
plim_err plim_shell_value_change(const plim_settings *s, const plim_setting *setting,
                                 plim_find find, const plim_value *value, plim_edit *out,
                                 plim_error *error);

// Flags with their values, overrides, and variables on lines of their own that nothing else reads.
plim_err plim_shell_value_remove(const plim_settings *s, const plim_setting *setting,
                                 plim_find find, plim_edit *out, plim_error *error);
const plim_shell_value *plim_shell_value_again(const plim_shell_scanner *f,
                                               const plim_setting *setting);

// `value` in the way overrides are written after their "=": quoted for Hydra if it must be.
bool plim_override_text(const plim_value *value, const char *old, plim_bytes *out, bool *is_out);

// Refuses an edit, and frees it, unless reading the changed text gives `value` for the key and leaves
// all other settings as they are. `key` is new, or the setting at `changed`; false without a value
// may be read back as no setting.
plim_err plim_edit_check(const plim_settings *s, const char *key, const plim_setting *changed,
                         const plim_value *value, plim_edit *edit, plim_error *error);

#endif
