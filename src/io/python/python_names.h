// Records where the names of a Python file are bound, and finds the literal that a name refers to.
//
// Scopes are functions, numbered in the order of the text; 0 is the module. Bindings are collected while reading and
// looked up at the end, because a function may use names that are assigned below it. In doubt a name refers to nothing:
// one binding too many loses a root, one too few would give a wrong root.
#ifndef PLIM_IO_PYTHON_NAMES_H
#define PLIM_IO_PYTHON_NAMES_H

#include "hash.h"
#include "literals.h"
#include "settings.h"

typedef struct {
  uint32_t setting;
  uint32_t scope;
  uint64_t line;         // the number of its logical line
  uint32_t base_size;    // length of the first name of the key
  const char *key;       // kept by the settings
  const char *class_key; // the key within the enclosing class; NULL: not in a class
  bool is_void;          // its setting is changed later, so it refers to nothing
} plim_py_reference;

// A name that a condition tests.
typedef struct {
  uint32_t condition;
  plim_py_reference of;
} plim_py_test;

// The place of the expression of a DERIVED, for looking up its names.
typedef struct {
  uint32_t setting;
  uint32_t scope;
  uint64_t line;
  const char *class_path;    // of the enclosing class, kept by the settings; NULL: not in a class
  bool is_known, is_unknown; // it was computed, or could not be computed
  bool is_void;              // its setting is changed later
} plim_py_expression;

// A literal that is local to a function, until it is known whether its name is bound only once.
typedef struct {
  uint32_t setting, scope;
  const char *name; // in the text
  size_t size;
} plim_py_local_name;

// A name that is used, and where.
typedef struct {
  const char *name; // in the text
  uint32_t size, scope, function;
  uint32_t condition; // under which; 0: always
  bool is_given;      // it is passed to a call that may apply it
} plim_py_site;

// A function; or a variable that holds the configuration of adapters.
typedef struct {
  const char *name; // in the text
  uint32_t size, scope;
  const char *call; // of a variable: what it is filed under, kept by the settings
} plim_py_holder;

// f(**name), {**name}: the name, and the setting that represents its unknown entries.
typedef struct {
  const char *name; // in the text; NULL if it is not a name
  uint32_t size, scope, setting;
  uint32_t call_from; // the first setting of the enclosing call
  bool is_shown;      // vars(name), asdict(name): the attributes of the name
} plim_py_unpacking;

// A name that changes after its assignment.
typedef struct {
  const char *name; // in the text
  uint32_t size, line;
} plim_py_mutation;

// A key that is assigned again: settings below it with a number less than `from` no longer apply.
typedef struct {
  uint64_t key; // its hash
  uint32_t from;
} plim_py_replacement;

// A name that refers to the same object as another name.
typedef struct {
  const char *name, *of; // in the text
  uint32_t size, of_size, line;
} plim_py_link;

// A name that is passed to a function unchanged.
typedef struct {
  const char *function, *name; // in the text
  uint32_t function_size, size, scope, line;
} plim_py_handing;

// A dict literal that is assigned to a name.
typedef struct {
  const char *name; // in the text
  uint32_t size, scope;
  uint32_t from, to; // its settings
  bool is_local;     // to a function
} plim_py_dict;

typedef struct {
  vec(uint32_t) parents;   // of each scope
  vec(const char *) paths; // of each function, kept by the settings; NULL: it has none
  vec(plim_py_local_name) locals;
  plim_hash facts; // what is known about a name in a scope: see python_names.c
  vec(plim_py_holder) aliases;
  vec(uint32_t) arguments;                   // settings of a parser's arguments
  vec(plim_py_mutation) mutations, defaults; // of a parser, by set_defaults
  vec(plim_py_handing) handings;
  vec(plim_py_link) links;
  vec(plim_py_replacement) replacements;
  vec(plim_py_unpacking) unpackings;
  vec(uint64_t) changed; // keys that change with all that is below them, by their hash
  bool
      changes_arguments; // the script changes a parser's arguments, so that their defaults do not apply
  bool is_rewritten;     // exec and globals() may have changed any name of the module
  vec(plim_py_reference) references;
  vec(plim_py_expression) expressions; // by their settings
  vec(plim_py_test) tests, loads;      // in loads, `condition` is the number of the load
  vec(plim_py_site) sites;             // python_uses.c
  vec(plim_py_holder) functions, adapters;
  vec(plim_py_dict) dicts; // python_dicts.c
  vec(uint32_t) owners;    // of each setting: the function it stands in
  bool is_out_of_memory;
} plim_py_names;

uint32_t plim_py_scope_new(plim_py_names *n, uint32_t parent, const char *path);
void plim_py_names_free(plim_py_names *n);

// Records a plain assignment, and any other binding of a name (import, loop, parameter, ...).
void plim_py_assign(plim_py_names *n, uint32_t scope, const char *name, size_t size);
void plim_py_bind(plim_py_names *n, uint32_t scope, const char *name, size_t size);
// Records the variables of comprehensions and lambdas, which exist only within a logical line.
void plim_py_bind_in_line(plim_py_names *n, uint64_t line, const char *name, size_t size);
// nonlocal: the name belongs to an enclosing function.
void plim_py_bind_around(plim_py_names *n, uint32_t scope, const char *name, size_t size);
void plim_py_declare_global(plim_py_names *n, uint32_t scope, const char *name, size_t size);
bool plim_py_is_global(const plim_py_names *n, uint32_t scope, const char *name, size_t size);

void plim_py_add_class(plim_py_names *n, const char *path, size_t size);
bool plim_py_is_class(const plim_py_names *n, const char *path, size_t size);

// How many calls of this name were counted.
uint32_t plim_py_calls(const plim_py_names *n, const char *name, size_t size);
void plim_py_count_call(plim_py_names *n, const char *name, size_t size);

// Records the use of a name; the assignments so far apply to it.
void plim_py_use(plim_py_names *n, uint32_t scope, const char *name, size_t size);
// Records that a name is used by more than printing, and that a call unpacks its entries as settings.
void plim_py_need(plim_py_names *n, const char *name, size_t size);
bool plim_py_is_needed(const plim_py_names *n, const char *name, size_t size);
void plim_py_unpack(plim_py_names *n, uint32_t scope, const char *name, size_t size);
bool plim_py_is_unpacked(const plim_py_names *n, uint32_t scope, const char *name, size_t size);
bool plim_py_is_mutated(const plim_py_names *n, const char *name, size_t size);
// Records that a name's content changes: name.update(...), setattr(name, ...), del name[...].
void plim_py_mutate(plim_py_names *n, const char *name, size_t size, uint32_t line);
// The line of the first recorded change of the name; 1 if there is none.
uint32_t plim_py_mutation_line(const plim_py_names *n, const char *name, size_t size);
// Records that elements of a name are assigned.
void plim_py_touch(plim_py_names *n, const char *name, size_t size);
bool plim_py_is_touched(const plim_py_names *n, const char *name, size_t size);
// Records a parameter of the function with this scope.
void plim_py_add_parameter(plim_py_names *n, uint32_t scope, const char *name, size_t size);
bool plim_py_is_parameter(const plim_py_names *n, uint32_t scope, const char *name, size_t size);
// Records a function that changes one of its arguments.
void plim_py_add_changer(plim_py_names *n, const char *name, size_t size);
bool plim_py_is_changer(const plim_py_names *n, const char *name, size_t size);
// Whether the name was assigned more than once so far.
bool plim_py_is_assigned_again(const plim_py_names *n, uint32_t scope, const char *name,
                               size_t size);
bool plim_py_is_arguments(const plim_py_names *n, const char *name, size_t size);
// The setting of the argument that is stored under this name; UINT32_MAX: none, or several.
uint32_t plim_py_destination(const plim_py_names *n, const char *name, size_t size);
// Whether a setting is a field of a class: Class.name.
bool plim_py_is_field(const plim_py_names *n, const char *key);

// Records name = Call(...): attributes of the name are the arguments of the call. `call` is kept by the settings.
void plim_py_add_alias(plim_py_names *n, plim_py_holder alias);
// That call; NULL if there is none.
const char *plim_py_alias(const plim_py_names *n, uint32_t scope, const char *name, size_t size);
// Records name = parser.parse_args(): attributes of the name are command-line arguments.
void plim_py_add_arguments(plim_py_names *n, const char *name, size_t size);
// The setting of an argument by the attribute it is stored in.
void plim_py_add_destination(plim_py_names *n, const char *name, size_t size, uint32_t setting);

void plim_py_add_local(plim_py_names *n, plim_py_local_name local);
// Whether the name is bound nowhere else in its function.
bool plim_py_is_only(const plim_py_names *n, const plim_py_local_name *local);

// The function of a scope; NULL if there is none.
const plim_py_holder *plim_py_function_at(const plim_py_names *n, uint32_t scope);

// The scope that the name belongs to, by Python's rules; 0: the module, or unknown.
uint32_t plim_py_scope_of(const plim_py_names *n, uint32_t scope, const char *name, size_t size);

void plim_py_add_reference(plim_py_names *n, plim_py_reference reference);

// Makes a literal DERIVED because it is changed later; false when out of memory.
bool plim_py_doubt(plim_settings *s, plim_setting *setting);

// Fills the roots of all settings that refer to a literal. A name of the module that is assigned again after
// a use, or changed by a method, stands for no literal: its settings become DERIVED.
bool plim_py_resolve(plim_py_names *n, plim_settings *s);
// The setting that a reference refers to, by Python's scope rules; NULL: none, or unknown. Call it after plim_py_resolve.
const plim_setting *plim_py_target(const plim_py_names *n, const plim_settings *s,
                                   const plim_py_reference *r);

// Computes the numbers of expressions (python_expressions.c). Call it after plim_py_resolve; false when out of memory.
bool plim_py_compute(plim_py_names *n, plim_settings *s);

#endif
