// Settings in other people's files: where each stands, what it says, and how to change it without
// touching another byte. One editor per format (the table in io/formats); all share this interface.
//
//   plim_settings s;
//   plim_err err = plim_settings_read(PLIM_FORMAT_YAML, text, size, &s, &error);
//   const plim_setting *batch = plim_settings_find(&s, "training.batch_size");
//   plim_edit edit;
//   if (batch) err = plim_settings_change(&s, batch, &(plim_value){.kind = PLIM_VALUE_INTEGER,
//                                                                  .integer = 4}, &edit, &error);
//   err = plim_edits_apply(text, size, &edit, 1, &changed, &changed_size, &error);
#ifndef PLIM_IO_SETTINGS_H
#define PLIM_IO_SETTINGS_H

#include "value.h"
#include "vec.h"

typedef enum {
  PLIM_FORMAT_YAML,
  PLIM_FORMAT_JSON,
  PLIM_FORMAT_TOML,
  PLIM_FORMAT_PYTHON,
  PLIM_FORMAT_SHELL,
  PLIM_FORMAT_DOCKERFILE,
  PLIM_FORMATS
} plim_format;

extern const char *const plim_format_names[PLIM_FORMATS]; // "YAML", ...

// Keys are paths with dots ("lora.r", "layers.0.name"). By format:
//   YAML, JSON, TOML  the path of mapping keys and list indices; a dot inside a key is "\."
//   Python            MAX_LENGTH (module or class constant: Config.batch_size), CONFIG.learning_rate
//                     (dict literal), TrainingArguments.bf16 (keyword argument of a call, by the name
//                     it is called with), parser.--batch-size (default= of add_argument),
//                     main.batch_size (local variable of a function),
//                     AutoModel.from_pretrained.pretrained_model_name_or_path (its first argument)
//   shell             --batch-size (flag of a command), $BATCH (variable, exported or not, with or
//                     without a default), a.b.c (Hydra override, its + or ++ left out)
//   Dockerfile        $NAME (ENV, ARG), --flag (of CMD, ENTRYPOINT, RUN)
typedef struct {
  const char *key;
  plim_value value;
  plim_span span; // of the value as it is written, quotes included; empty: a flag without a value
  int line;       // of the value, counted from 1
  const char *comment; // after it on its line, or on lines of their own right above; "" if none
  const char *root; // of a DERIVED: the key of the literal in this file it comes from; NULL: none
  plim_value computed;     // of a DERIVED: what this file makes of it; NULL: unknown
  const char *environment; // of a computed one: the variable whose default was taken; NULL: none
  bool is_of_evaluation;   // it stands where an evaluation is set up: a val_dataloader's batch
  bool is_faint; // Python: local to a function, or an unknown model; counts where nothing else does
  size_t group;  // of a command's words: which command; 0: it is of none
  bool is_aside; // of a command that does something else than train: eval.py, convert.py
  uint32_t condition;    // Python: it counts where this holds, see conditions.h; 0: always
  const char *alias;     // of an argument in Python: its other flag, "-b"; NULL: none
  bool is_open;          // of an argument in Python: it has no default, only commands give it,
  bool is_required;      // and they must
  const char *reference; // of a DERIVED in Python: the name it is, if nothing in this file has it
  bool
      is_rest; // Python: f(**x), and what is in x is unknown: any key beside this one may be given
  uint32_t chooses;      // of a DERIVED in Python: the condition between two values; 0: none does
  plim_value choices[2]; // without it, and with it
} plim_setting;

typedef enum { PLIM_NO, PLIM_MAYBE, PLIM_YES } plim_truth;

typedef enum {
  PLIM_IF_UNKNOWN,
  PLIM_IF_ALWAYS,
  PLIM_IF_TRUE,  // a value is not 0, False, None or empty
  PLIM_IF_EQUAL, // it is `literal`
  PLIM_IF_NOT,   // of a
  PLIM_IF_BOTH,  // a and b
  PLIM_IF_EITHER,
  PLIM_IF_LIKELY // of a: unless it surely does not hold
} plim_condition_kind;

// A condition under which code runs. Those it is made of, `a` and `b`, have smaller numbers.
typedef struct {
  plim_condition_kind kind;
  uint32_t a, b;
  const char *text;   // of one that tests something: as it is written
  const char *name;   // that is tested: "args.lora"; NULL: none
  const char *root;   // the key of the literal that it stands for in this file; NULL: none
  plim_value literal; // that it is compared with
  plim_value given;   // what is in force instead of the literal in this file
  bool is_given;
  plim_value otherwise; // cfg.get("lora", False): where the key is not there
  bool has_otherwise;
  bool is_of_other_file; // another file put it on a setting of this one; these come last
  const char *elsewhere; // it holds if another script uses this name; NULL: none
  plim_truth truth;
} plim_condition;

// A Python name that holds what a file says.
typedef struct {
  const char *name;
  const char *path;   // as it is written; NULL: it is not
  const char *from;   // the name of the path, such as "args.config"; NULL: none
  const char *root;   // the key of the literal that this stands for in this file; NULL: none
  const char *prefix; // of the keys below it: "train."
  bool is_changed;    // after the loading: what the file says is not all
} plim_loaded;

typedef struct {
  plim_format format;
  const struct plim_editor *editor; // of the format
  const char *text;                 // borrowed
  size_t size;
  vec(plim_setting) at;           // in the order of the text
  vec(char *) strings;            // owned; what the settings point to
  vec(plim_condition) conditions; // number 1 comes first
  vec(plim_loaded) loads;
  vec(uint32_t) by_key; // once all are read: their order by key, and by place for equal keys
  bool has_failed;      // memory was out once, and something is missing
} plim_settings;

// Reads text as the editor's format; text that is not of it is refused with error->byte. plim_settings_read (formats.h)
// knows the editors.
plim_err plim_settings_read_by(const struct plim_editor *editor, plim_format format,
                               const char *text, size_t size, plim_settings *out,
                               plim_error *error);
// The same for another text of the same format: the file as an edit leaves it.
plim_err plim_settings_read_like(const plim_settings *like, const char *text, size_t size,
                                 plim_settings *out, plim_error *error);
void plim_settings_clear(plim_settings *s);

// The setting that is in force: the last of several. NULL if there is none.
const plim_setting *plim_settings_find(const plim_settings *s, const char *key);
// Where, in by_key, those begin whose key begins so; they stand one after the other.
size_t plim_settings_below(const plim_settings *s, const char *prefix, size_t size);
// Whether some key begins so: "hydra.main.".
bool plim_settings_has_below(const plim_settings *s, const char *prefix);

// One change of a text: the span becomes `text`.
typedef struct {
  plim_span span;
  char *text; // owned: free it
} plim_edit;

// A new value in the style of the old one: its quotes, its spelling of true, its form of numbers; read
// back by the format's own readers (PyYAML, json) as exactly this value. A DERIVED is refused.
plim_err plim_settings_change(const plim_settings *s, const plim_setting *setting,
                              const plim_value *value, plim_edit *out, plim_error *error);

// A key that is not there, in the style and the indentation of its neighbours. Where there is no
// place that is surely right, it is refused.
plim_err plim_settings_insert(const plim_settings *s, const char *key, const plim_value *value,
                              plim_edit *out, plim_error *error);

// A setting removed: its line, or its entry with a comma; comments on lines of their own stay. Where
// something else would go with it, others are computed from it, or code may use it, it is refused.
plim_err plim_settings_remove(const plim_settings *s, const plim_setting *setting, plim_edit *out,
                              plim_error *error);

// A key removed with all that is below it: a mapping, a list, a dict. Only YAML, JSON and Python have such.
plim_err plim_settings_remove_all(const plim_settings *s, const char *roof, plim_edit *out,
                                  plim_error *error);
// Whether a key is below another: "a.b" and "a.b.c" below "a".
bool plim_key_is_below(const char *key, const char *roof);

// The text with all edits made, which must not overlap; `*out` is the caller's, followed by a 0 byte.
plim_err plim_edits_apply(const char *text, size_t size, const plim_edit *edits, size_t count,
                          char **out, size_t *out_size, plim_error *error);

// ---- for editors ------------------------------------------------------------------------------------

typedef struct plim_editor {
  plim_err (*read)(plim_settings *s, plim_error *error);
  plim_err (*change)(const plim_settings *s, const plim_setting *setting, const plim_value *value,
                     plim_edit *out, plim_error *error);
  plim_err (*insert)(const plim_settings *s, const char *key, const plim_value *value,
                     plim_edit *out, plim_error *error);
  plim_err (*remove)(const plim_settings *s, const plim_setting *setting, plim_edit *out,
                     plim_error *error);
  // Of the key `roof`, below which `first` is the first; NULL: the format has no such.
  plim_err (*remove_all)(const plim_settings *s, const plim_setting *first, const char *roof,
                         plim_edit *out, plim_error *error);
} plim_editor;

// Copies into the settings' own memory; NULL when out of memory.
const char *plim_settings_keep(plim_settings *s, const char *text, size_t size);
// Adds a setting; `key`, texts and comment must be kept already. False when out of memory.
bool plim_settings_add(plim_settings *s, plim_setting setting);
// Makes finding fast where that is needed before all is read; false when out of memory.
bool plim_settings_sort(plim_settings *s);
// An edit of a copy of `text`.
plim_err plim_edit_make(plim_span span, const char *text, plim_edit *out, plim_error *error);

#endif
