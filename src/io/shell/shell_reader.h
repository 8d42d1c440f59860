// Finds the settings of a script in three steps: the commands that set variables, then the command that receives each
// list of arguments, then the settings themselves.
#ifndef PLIM_IO_SHELL_READER_H
#define PLIM_IO_SHELL_READER_H

#include "shell_settings.h"

// `local NAME`, which hides earlier assignments.
typedef struct {
  const char *name;
  size_t begin;
} shell_local;

// An assignment of arguments to a variable: ARGS=( ... ), ARGS="--lr 1", ARGS+=...; or of nothing.
typedef struct {
  const char *name;
  size_t command, begin;
  bool is_array, is_empty;
  bool adds;      // it appends to the present content
  bool is_odd;    // the content is unknown
  bool is_glued;  // it is appended without a space: ARGS+="--lr 1"
  bool has_texts; // an array with a quoted "--lr 1", which stays one word
  size_t count;   // number of its entries in f->set
} shell_list_set;

// All assignments of one variable.
typedef struct {
  const char *name;
  size_t first, end; // range in list_sets, which is sorted by name and place
  size_t count;      // number of its entries in f->set
  bool is_whole;     // one assignment and what is appended to it
  bool is_command;   // no assignment is empty
  bool has_arrays, has_strings, has_texts;
} shell_list;

// A list that is passed to a command or added to another list.
typedef struct {
  const char *name, *into;
  size_t command, word;
  bool is_array, is_quoted;
  bool is_joined; // "${ARGS[*]}": one word
} shell_list_use;

typedef enum { SHELL_NEVER, SHELL_ON, SHELL_OFF } shell_switch;

typedef struct {
  plim_shell_scanner *f;
  const char *text;
  size_t size;
  size_t first_group;
  bool is_instruction, only_trainings;
  plim_shell_view *view;
  plim_arguments words; // of the current command
  size_t command;       // the number of the current command
  size_t first_found;   // index in f->at of the first setting that this reader found
  bool doubts_eval;     // a list may contain more than one command
  size_t last_opaque;   // the number of the last command that may set any variable, plus one
  vec(shell_local) locals;
  vec(shell_list_set) list_sets;
  vec(shell_list) lists; // by name
  vec(shell_list_use) uses;
  plim_names changed;            // variables that are set by other means than assignments
  plim_names exported;           // variables that some command exports
  shell_switch export_of_all;    // set -a, up to the current command
  size_t off_scope;              // of the last set +a
  plim_names evaluated;          // lists that eval runs
  vec(size_t) assigned_defaults; // offsets of the names of `: ${NAME:=...}`
} shell_reader;

void shell_for_each_command(shell_reader *r, void (*visit)(shell_reader *r));

static inline const plim_shell_command *shell_command(const shell_reader *r) {
  return &r->view->script.commands.at[r->command];
}
static inline bool shell_is_list(const plim_shell_command *c) { return c->list.end > 0; }

// ---- assignments ------------------------------------------------------------------------------------

typedef struct {
  plim_span name;
  bool is_appended, is_element; // NAME+=..., NAME[i]=...
} shell_assignment;

bool shell_is_assignment(const char *text, const plim_argument *a, shell_assignment *out);
// The number of assignments at the beginning of a command. `env` and the variables that it sets are included.
size_t shell_count_assignments(const char *text, const plim_arguments *words);
const char *shell_variable_key(shell_reader *r, plim_span name);
// Whether the word is the command `:`, which only expands its words.
bool shell_is_colon(const char *text, const plim_argument *a);
bool shell_has_list(const char *text, const plim_argument *a);
// Whether only a caller of the script could give the value; callers are assumed to give none.
bool shell_is_callers(const shell_reader *r, const plim_argument *a);
// Whether this is [ -z "$NAME" ] && NAME=value, which is equivalent to NAME=${NAME:-value}.
bool shell_is_guarded(shell_reader *r, plim_span name);

// Whether the declaration exports what it names: export, declare -x. `program` is its index in r->words.
bool shell_is_export(const shell_reader *r, size_t program);
// Whether programs see the variable: it is exported, or its value is passed on as NAME=$NAME.
bool shell_is_exported(const shell_reader *r, const char *key);

// Records everything that sets variables.
void shell_note_variables(shell_reader *r);
bool shell_is_before_opaque(const shell_reader *r);

// ---- lists ------------------------------------------------------------------------------------------

// Sorts the assignments of lists, after all of them are recorded.
void shell_join_list_sets(shell_reader *r);
// Finds a list by name; NULL if the variable is not a list.
const shell_list *shell_find_list(const shell_reader *r, const char *name);
// Records where lists are used.
void shell_note_uses(shell_reader *r);
// The command that receives the words of the list `name`, and their position in it. False if that is uncertain.
bool shell_follow_list(shell_reader *r, const char *name, size_t *command, size_t *order);
// Drops the expansions with known content and keeps those that may contain anything.
void shell_drop_known_expansions(shell_reader *r);

#endif
