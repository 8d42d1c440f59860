// How the settings of a script are found: first what sets variables, then which command gets which
// list of arguments, then the settings themselves.
#ifndef PLIM_IO_SHELL_READER_H
#define PLIM_IO_SHELL_READER_H

#include "shell_settings.h"

// `local NAME`, which hides what was set before.
typedef struct {
  const char *name;
  size_t begin;
} shell_local;

// A variable gets arguments: ARGS=( ... ), ARGS="--lr 1", ARGS+=...; or it is made empty.
typedef struct {
  const char *name;
  size_t command, begin;
  bool is_array, is_empty;
  bool adds;      // to what it holds already
  bool is_odd;    // what it holds is unknown
  bool is_glued;  // to the word before it: ARGS+="--lr 1"
  bool has_texts; // an array with "--lr 1" in it, which quotes keep together
  size_t count;   // of its entries in f->set
} shell_list_set;

// All that one variable gets.
typedef struct {
  const char *name;
  size_t first, end; // of the sets, by name and place
  size_t count;      // of its entries in f->set that these are
  bool is_whole;     // one assignment, and what is added to it
  bool is_command;   // no set of it is empty
  bool has_arrays, has_strings, has_texts;
} shell_list;

// A list is passed on, to a command or into another list.
typedef struct {
  const char *name, *into;
  size_t command, word;
  bool is_array, is_quoted;
  bool is_joined; // "${ARGS[*]}": one word
} shell_list_use;

typedef struct {
  plim_shell_scanner *f;
  const char *text;
  size_t first_group;
  bool is_instruction, only_trainings;
  plim_shell_view *view;
  plim_arguments words; // of the current command
  size_t command;       // its number
  size_t first_found;   // of f->at, by this reader
  bool doubts_eval;     // of a list: it may hold more than a command
  size_t last_opaque;   // one more than the number of the last command that may set any variable
  vec(shell_local) locals;
  vec(shell_list_set) list_sets;
  vec(shell_list) lists; // by name
  vec(shell_list_use) uses;
  plim_names changed;            // variables that are set in other ways than by assignments
  plim_names evaluated;          // lists that eval runs
  vec(size_t) assigned_defaults; // where the names of `: ${NAME:=...}` stand
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
// Assignments in front: words 0 to the result. `env` and what it sets count as such.
size_t shell_count_assignments(const char *text, const plim_arguments *words);
const char *shell_variable_key(shell_reader *r, plim_span name);
// The command that does nothing but expand its words.
bool shell_is_colon(const char *text, const plim_argument *a);
bool shell_has_list(const char *text, const plim_argument *a);
// A value that only callers of the script give, who are taken to give none.
bool shell_is_callers(const shell_reader *r, const plim_argument *a);
// [ -z "$NAME" ] && NAME=value: as good as NAME=${NAME:-value}.
bool shell_is_guarded(shell_reader *r, plim_span name);

// Notes everything that sets variables.
void shell_note_variables(shell_reader *r);
bool shell_is_before_opaque(const shell_reader *r);

// ---- lists ------------------------------------------------------------------------------------------

// Sorts what lists get; once all of it is noted.
void shell_join_list_sets(shell_reader *r);
// NULL: it is no list.
const shell_list *shell_find_list(const shell_reader *r, const char *name);
// Notes where lists are passed on.
void shell_note_uses(shell_reader *r);
// The command that the words of list `name` end up in, and where; false: what it gets is not sure.
bool shell_follow_list(shell_reader *r, const char *name, size_t *command, size_t *order);
// Of the words that stand for many, only those stay that may hold anything.
void shell_drop_known_expansions(shell_reader *r);

#endif
