// Reads the settings of a Python file: a light parser over the tokens of one logical line at a time.
// python_statements.c reads blocks and assignments, python_values.c dicts and calls, python_calls.c calls with a special
// meaning, and python_place.c finds the place for a new entry.
//
// What is a setting:
//   NAME, Class.name        assigned in the module or a class body; a dataclass's or Pydantic's field
//                           by its default
//   NAME.key, NAME.0        entries of a dict literal or of dict(key=...), at any depth; also
//                           NAME["key"] = ... and name.attribute = ...
//   callee.keyword          of every call of a dotted name, wherever it stands; callee#2.keyword for the
//                           second call of that name
//   parser.--flag           add_argument's default. Without one it is None, or a bool for store_true and
//                           store_false, with an empty span: a change writes default=...
//   os.environ.NAME         set by subscript, setdefault or update, wherever it stands
//   function.name           a local variable, assigned once and surely, to a literal; of two functions of
//                           one name the second is function#2
//   ....from_pretrained.pretrained_model_name_or_path  the first argument of what loads a model, if it has
//                           no name; likewise SentenceTransformer's, and model.fit.train_objectives
//   gradient_checkpointing_enable  and a few like it: a call that is a setting by its name; no change
//
// What is DERIVED, though it looks like a literal (span and text are then the whole entry): assignments
// under if, for, while, try and match (not under with and `if __name__ == "__main__"`) and to globals in
// functions; several targets at once; augmented assignments; entries of a dict in front of **other, and of
// one that is assigned again. Literals that plim_value cannot hold are DERIVED too: integers of more than
// 64 bits, complex numbers, bytes, texts with a 0, a lone surrogate or \N{...}.
//
// What is left out: other local variables and parameters of functions, attributes of self, keyword arguments of calls
// without a dotted name (f().g(x=1)), entries with a computed key, elements of lists.
#ifndef PLIM_IO_PYTHON_READER_H
#define PLIM_IO_PYTHON_READER_H

#include "literals.h"
#include "python_lexer.h"
#include "python_names.h"

enum {
  PLIM_PY_MAX_KEY = 512,    // settings with longer keys are left out
  PLIM_PY_MAX_SOURCE = 1024 // longer source code of a computed value is truncated
};

typedef enum { PLIM_PY_IN_MODULE, PLIM_PY_IN_CLASS, PLIM_PY_IN_FUNCTION } plim_py_where;

typedef struct {
  plim_py_where where;
  bool is_uncertain;     // it may not run, or it may run more than once
  bool is_match;         // its lines are cases of a match
  bool is_of_evaluation; // its name shows that it is for evaluation: def val_dataloader
  uint32_t scope;        // of the names that it binds
  uint32_t function;     // the scope that functions in it can see
  size_t class_size;     // length of the path of the enclosing classes
  uint32_t condition;    // the condition under which it runs; 0: always
  uint32_t otherwise;    // the condition under which the else of its last if runs
} plim_py_block;

// A call or a dict literal as a place for one more entry. Offsets are bytes.
typedef struct {
  bool is_found, is_call, is_uncertain;
  bool unpacks_mapping, is_generator;
  size_t open_end;             // after the opening bracket
  size_t items;                // how many there are
  size_t last_begin, last_end; // of the last item
  size_t comma_end;   // the byte after the comma that follows the last item; 0: there is none
  char quote;         // the quote of its strings; 0: there are none
  bool has_part;      // the new entry already exists
  bool has_text_keys; // a dict with at least one text key
  bool spaced_before, spaced_behind; // whether there are spaces around the = or : of the last entry
} plim_py_place;

typedef struct {
  plim_settings *s;
  plim_error *error;
  plim_err err;
  plim_py_lexer x;
  plim_py_names names;
  plim_py_block blocks[PLIM_PY_MAX_INDENTS + 1], next;
  int depth; // of the line before
  bool expects_block;
  uint64_t line; // logical lines so far
  plim_chars class_path;
  plim_chars path; // of the value being read: path.at from path_base on
  size_t path_base;
  const plim_py_block *block; // of the statement being read
  bool is_uncertain;          // of the value being read
  bool is_of_evaluation;      // it is assigned or passed to something for evaluation
  bool is_given;              // the value being read is an argument of a call
  bool is_shown;              // of a call that only prints it
  bool is_built;              // of a call of a class, whose arguments are settings
  bool builds;                // such a call of a class was read
  uint32_t call_from;         // the first setting of the call being read
  uint32_t condition;         // of the part of an expression being read; 0: that of its block
  int nesting;                // of values within values
  plim_chars scratch;
  uint32_t last_token, last_line; // where a setting ended, and its line
  const char *wanted;             // the path of the place to find; NULL: none
  const char *part;               // the name of the entry to add there
  plim_py_place place;
} plim_py_reader;

// Reads the file. With `wanted` it also finds r->place, the place to add `part`.
plim_err plim_py_read(plim_py_reader *r, plim_settings *s, const char *wanted, const char *part,
                      plim_error *error);
void plim_py_reader_free(plim_py_reader *r);

// ---- for its parts ----------------------------------------------------------------------------------

static inline const plim_py_token *plim_py_at(const plim_py_reader *r, size_t i) {
  return &r->x.tokens.at[i];
}

static inline const char *plim_py_text(const plim_py_reader *r, size_t i) {
  return r->x.text + r->x.tokens.at[i].begin;
}

static inline size_t plim_py_size(const plim_py_reader *r, size_t i) {
  return r->x.tokens.at[i].end - r->x.tokens.at[i].begin;
}

bool plim_py_is(const plim_py_reader *r, size_t i, size_t end, uint8_t operator_);
bool plim_py_is_word(const plim_py_reader *r, size_t i, size_t end, uint8_t word);
bool plim_py_is_name(const plim_py_reader *r, size_t i, size_t end); // a name, not a keyword
bool plim_py_is_text(const plim_py_reader *r, size_t i, const char *name);
// Whether it is self or cls.
static inline bool plim_py_is_own(const plim_py_reader *r, size_t i) {
  return plim_py_is_text(r, i, "self") || plim_py_is_text(r, i, "cls");
}
// The token after this one or, if it opens a bracket, after the bracket.
size_t plim_py_skip(const plim_py_reader *r, size_t i);
// The first such operator outside of brackets and of lambdas' parameters; `end` if there is none.
size_t plim_py_find(const plim_py_reader *r, size_t i, size_t end, uint8_t operator_);
bool plim_py_has_word(const plim_py_reader *r, size_t i, size_t end, uint8_t word);

void plim_py_fail_at(plim_py_reader *r, size_t byte, const char *why);
void plim_py_no_memory(plim_py_reader *r);

// Paths. Push returns the size to pass to pop.
size_t plim_py_push(plim_py_reader *r, const char *text, size_t size);
void plim_py_pop(plim_py_reader *r, size_t size);

// Adds the key of an entry, {"lr": 1} or {0: 1}. False if it is anything else.
bool plim_py_entry_key(plim_py_reader *r, size_t i, size_t end, plim_chars *out);
// Adds the text of adjacent strings. False if the tokens are not text.
bool plim_py_strings(plim_py_reader *r, size_t i, size_t end, plim_chars *out);
// Adds the key of a name with attributes and subscripts: CONFIG["lr"], args.lr, os.environ["X"],
// CONFIG.get("lr"). False if the tokens are something else.
bool plim_py_reference_key(plim_py_reader *r, size_t i, size_t end, plim_chars *out);

// Reads the value of the current path. `first` is the beginning of its entry: a key, a keyword or a target.
void plim_py_value(plim_py_reader *r, size_t first, size_t i, size_t end);
// Adds a DERIVED setting of the current path with the text of the tokens. `kept` is that text if it is already kept,
// otherwise NULL. Returns the kept text.
const char *plim_py_add_derived(plim_py_reader *r, size_t i, size_t end, const char *kept);
// Adds a setting whose value is not written in the text.
void plim_py_add_flag(plim_py_reader *r, size_t byte, size_t first, size_t last, plim_value value);
// Adds a literal that is local to a function. False if the tokens are not a literal.
bool plim_py_local(plim_py_reader *r, size_t first, size_t i, size_t end);
// Reads the calls in any expression.
void plim_py_walk(plim_py_reader *r, size_t i, size_t end);
// Reads the arguments of the call with the opening bracket `open` as entries of the current path.
void plim_py_arguments(plim_py_reader *r, size_t open);

enum { PLIM_PY_MAX_NAME = 256 };
// The last token of the dotted name that begins here; `end` if there is none.
size_t plim_py_dotted(const plim_py_reader *r, size_t i, size_t end);
// The key of a call: its name, with "#2" for the second call of that name. With is_counted the call is also counted.
// Returns the size, 0 if the name is too long.
size_t plim_py_call_name(plim_py_reader *r, size_t first, size_t last, char out[PLIM_PY_MAX_NAME],
                         bool is_counted);
// Reads a call that is a setting by its name alone: model.gradient_checkpointing_enable().
void plim_py_method_flag(plim_py_reader *r, size_t last);
// The same for a method of an expression that has no name.
void plim_py_flag_method(plim_py_reader *r, size_t last);
// Whether names or texts among the tokens refer to evaluation and none to training.
bool plim_py_names_evaluation(const plim_py_reader *r, size_t i, size_t end);
// Whether the first argument of the call is for evaluation: DataLoader(val_data, ...).
bool plim_py_takes_evaluation(const plim_py_reader *r, size_t open);
// The name of the first argument of a call if it is the model to load or the data to train on; NULL otherwise.
const char *plim_py_first_argument(const plim_py_reader *r, size_t first, size_t last);
// True if the call is of a special kind and was read: add_argument, os.environ.setdefault, dict.
bool plim_py_special_call(plim_py_reader *r, size_t first, size_t last, size_t open);
// Reads field(default=...) of a dataclass as the value of the current path. False if it is anything else.
bool plim_py_field(plim_py_reader *r, size_t first, size_t i, size_t end);

// Records the place of the last added DERIVED, for looking up its names.
void plim_py_note_expression(plim_py_reader *r, uint32_t setting);

// Variables of functions (python_locals.c): what a function's are filed under, kept by the settings; a
// literal that is assigned surely; and at the end, which of them are bound again, and which models are
// known by another name.
const char *plim_py_function_path(plim_py_reader *r, size_t name, const plim_py_block *inner);
bool plim_py_assign_local(plim_py_reader *r, size_t name, size_t i, size_t end);
void plim_py_settle_locals(plim_py_reader *r);
void plim_py_bind_variables(plim_py_reader *r, size_t i, size_t end);
void plim_py_declare_globals(plim_py_reader *r, size_t i, size_t end);
void plim_py_bind_nonlocals(plim_py_reader *r, size_t i, size_t end);
void plim_py_settle_models(plim_settings *s);

// An element whose key is in r->scratch gets a value: CONFIG["lr"] = 1, setattr(args, "lr", 1).
void plim_py_assign_element(plim_py_reader *r, size_t target, size_t i, size_t end);

// Changes after the assignment that are not analysed (python_changes.c): the name at this token no longer has the value
// that was assigned.
void plim_py_note_mutation(plim_py_reader *r, size_t name);
// The same for a parameter: a name that is passed to the function is changed.
void plim_py_note_parameter_change(plim_py_reader *r, size_t name);
// args.lr in r->scratch becomes TrainingArguments.lr, where args = TrainingArguments(...) and `name` is args.
void plim_py_name_by_call(plim_py_reader *r, size_t name);
// Records that an element of the name is assigned; and name = other, name = other["train"]: two names of one object.
void plim_py_note_touch(plim_py_reader *r, size_t name);
void plim_py_note_link(plim_py_reader *r, size_t name, size_t i, size_t end);
// Records config["lr"] = 1 for a local name of a function, with the key in r->scratch.
void plim_py_note_local_change(plim_py_reader *r);
// {**name, "lr": 1}, dict(name, lr=1): the entry of `name` with the key in the tokens `key` to `end` is overridden.
void plim_py_note_overridden(plim_py_reader *r, size_t name, size_t key, size_t end);
// Records self.lr = 1 in a method, with the key in r->scratch.
void plim_py_note_own_change(plim_py_reader *r);
// Records assignments to targets without a known key: CONFIG[key], vars(args)["lr"], globals()["LR"].
void plim_py_note_targets(plim_py_reader *r, size_t i, size_t end);
// Whether the method changes its object: update, pop and the like.
bool plim_py_changes_object(const plim_py_reader *r, size_t method);
// Records changes by a call of a dotted name: CONFIG.update(...), setattr(args, ...), vars(args).update(...),
// parse_args([...]).
void plim_py_note_change(plim_py_reader *r, size_t first, size_t last, size_t end);
bool plim_py_merges(const plim_py_reader *r, size_t last);
// At the end: settings that are changed, directly or through another name, become DERIVED.
void plim_py_settle_changes(plim_py_reader *r);

void plim_py_note_place(plim_py_reader *r, size_t open, bool is_call);

// Whether the tokens are {...} or dict(...).
bool plim_py_is_mapping(const plim_py_reader *r, size_t i, size_t end);
// Dicts that are assigned to names (python_dicts.c): entries of an unused dict are not settings, and entries of a local
// dict are settings only if a call unpacks it. False if the tokens are not a dict, or have no path.
void plim_py_note_dict(plim_py_reader *r, size_t name, size_t from, bool is_local);
bool plim_py_assign_local_dict(plim_py_reader *r, size_t name, size_t i, size_t end);
// Records f(**name) and f(config=name) for the call being read.
void plim_py_note_unpacked(plim_py_reader *r, size_t keyword, size_t i, size_t end);
void plim_py_settle_dicts(plim_py_reader *r);
// **name among arguments or entries: adds a setting that represents its entries until they are known at the end.
void plim_py_note_rest(plim_py_reader *r, size_t i, size_t end);
void plim_py_settle_unpackings(plim_py_reader *r);

// Names that hold the result of a call (python_aliases.c): config = Config(...); and the names that receive parsed
// arguments. The tokens from `value` to `end` are the assigned expression.
void plim_py_note_alias(plim_py_reader *r, size_t name, size_t value, size_t end);
void plim_py_note_parsed(plim_py_reader *r, size_t i, size_t target_end, size_t value, size_t end);

// Records a name that is assigned the content of a file, or a part of it (python_loads.c).
void plim_py_note_load(plim_py_reader *r, size_t name, size_t i, size_t end);

// Reads torch.autocast (python_defaults.c): its dtype becomes a setting under the condition that enables it. False if it
// is another call.
bool plim_py_autocast(plim_py_reader *r, size_t first, size_t last, size_t open);
// Adds the defaults of omitted arguments of some calls as settings without a place.
void plim_py_add_defaults(plim_py_reader *r, size_t last, size_t open);

// Uses of names (python_uses.c) are recorded while reading; the name of a call shows whether it may apply its arguments.
// At the end, settings in a function take effect if the function is used, and an adapter's configuration takes effect if
// it is passed to something.
void plim_py_note_site(plim_py_reader *r, size_t name, bool is_whole);
bool plim_py_only_looks(const plim_py_reader *r, size_t last);
void plim_py_note_function(plim_py_reader *r, size_t name, uint32_t scope);
void plim_py_note_adapter(plim_py_reader *r, size_t name, size_t last, const char *call);
void plim_py_settle_uses(plim_py_reader *r);
// After plim_py_resolve: a literal that only such configurations use takes effect if one of them does.
void plim_py_settle_roots(plim_py_reader *r);

// Combines conditions (python_conditions.c); 0 is the condition that always holds.
uint32_t plim_py_both(plim_py_reader *r, uint32_t a, uint32_t b);
uint32_t plim_py_either(plim_py_reader *r, uint32_t a, uint32_t b);
// Adds a condition whose truth is unknown; `text` is static.
uint32_t plim_py_unknown(plim_py_reader *r, const char *text);
// `return` under an if: the code after the if runs only if the condition is false.
void plim_py_leave_early(plim_py_reader *r, bool has_value);
// Reads the condition of the block that these tokens open, from `if` to its colon. The second function reads an expression
// that chooses one of two values, each under its condition; false if it is not such an expression.
void plim_py_open_condition(plim_py_reader *r, size_t i, size_t colon, plim_py_block *inner);
bool plim_py_walk_choice(plim_py_reader *r, size_t i, size_t end);
// Records that the value of the last added setting is one of two values, or the truth of a condition.
void plim_py_note_choice(plim_py_reader *r, size_t i, size_t end);
// Whether the expression is one of two values, or a type such as torch.bfloat16.
bool plim_py_is_choice(plim_py_reader *r, size_t i, size_t end);
// The condition that the tokens are; 0: it always holds.
uint32_t plim_py_condition(plim_py_reader *r, size_t i, size_t end);

#endif
