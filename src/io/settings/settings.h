// The settings in a user's files: where each is, its value, and how to change it without touching any other byte. There
// is one editor per format (the table in io/formats); all share this interface.
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
//                     (dict literal), TrainingArguments.bf16 (keyword argument of a call, with the name
//                     that the call uses), parser.--batch-size (default= of add_argument),
//                     main.batch_size (local variable of a function),
//                     AutoModel.from_pretrained.pretrained_model_name_or_path (its first argument)
//   shell             --batch-size (flag of a command), $BATCH (variable, exported or not, with or
//                     without a default), a.b.c (Hydra override, its + or ++ left out)
//   Dockerfile        $NAME (ENV, ARG), --flag (of CMD, ENTRYPOINT, RUN)
typedef struct {
  const char *key;
  plim_value value;
  plim_span span; // of the value in the text, quotes included; empty for a flag without a value
  int line;       // of the value, counted from 1
  const char *comment; // after it on its line, or on comment lines directly above; "" if none
  const char *
      root; // of a DERIVED: the key of the literal in this file that it is computed from; NULL: none
  plim_value computed; // of a DERIVED: its value according to this file; NULL: unknown
  const char
      *environment; // of a computed value: the variable that fell back to its default; NULL: none
  bool is_of_evaluation; // it configures an evaluation: the batch size of a val_dataloader
  bool
      is_faint; // Python: local to a function, or an unknown model; used only if nothing else sets the knob
  size_t group; // the number of the command that it is a word of; 0: not part of a command
  bool
      is_aside; // its command does not train: eval.py, convert.py; or torchtune's recipe does not read it
  bool is_unexported; // of a variable in a shell script: no export, so the programs do not see it
  uint32_t
      condition;     // Python: it takes effect if this condition holds, see conditions.h; 0: always
  const char *alias; // of an argument in Python: its other flag, "-b"; NULL: none
  bool is_open;      // of an argument in Python: it has no default, only a command can set it
  bool is_required;  // of an argument in Python: a command must set it
  const char *
      reference; // of a DERIVED in Python: the name that it refers to, if this file does not define it
  bool is_rest; // Python: f(**x) with unknown content of x, which may set any other key of the call
  uint32_t
      chooses; // of a DERIVED in Python: the condition that chooses between two values; 0: none
  plim_value choices[2]; // the value if the condition is false, and if it is true
} plim_setting;

typedef enum { PLIM_NO, PLIM_MAYBE, PLIM_YES } plim_truth;

typedef enum {
  PLIM_IF_UNKNOWN,
  PLIM_IF_ALWAYS,
  PLIM_IF_TRUE,   // the tested value is not 0, False, None or empty
  PLIM_IF_EQUAL,  // the tested value equals `literal`
  PLIM_IF_NOT,    // not a
  PLIM_IF_BOTH,   // a and b
  PLIM_IF_EITHER, // a or b
  PLIM_IF_LIKELY  // true unless a is certainly false
} plim_condition_kind;

// A condition under which code runs. Its operands `a` and `b` are conditions with smaller numbers.
typedef struct {
  plim_condition_kind kind;
  uint32_t a, b;
  const char *text;   // the source code of the test, if it tests something
  const char *name;   // the name that is tested: "args.lora"; NULL: none
  const char *root;   // the key of the literal in this file that the name refers to; NULL: none
  plim_value literal; // the value that it is compared with
  plim_value given;   // the value that overrides the literal of this file, if is_given
  bool is_given;
  plim_value otherwise; // the value if the key is missing, if has_otherwise: cfg.get("lora", False)
  bool has_otherwise;
  bool is_of_other_file; // another file put it on a setting of this file; these come last
  const char *elsewhere; // it holds if another script uses this name; NULL: none
  plim_truth truth;
} plim_condition;

// A Python name that holds the content of a loaded file.
typedef struct {
  const char *name;
  const char *path;   // the path, if it is a literal; NULL otherwise
  const char *from;   // the name that holds the path, such as "args.config"; NULL: none
  const char *root;   // the key of the literal in this file that `from` refers to; NULL: none
  const char *prefix; // the part of the file that the name holds: "train."
  bool is_changed;    // the script changes the content after loading it
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
  vec(uint32_t) by_key; // after reading: the settings sorted by key, and by place for equal keys
  bool has_failed;      // memory ran out, and something is missing
} plim_settings;

// Reads a text with the editor of its format; invalid text is refused with error->byte. plim_settings_read (formats.h)
// chooses the editor.
plim_err plim_settings_read_by(const struct plim_editor *editor, plim_format format,
                               const char *text, size_t size, plim_settings *out,
                               plim_error *error);
// The same for another text of the same format: the file after an edit. In a tree, keys that were left aside stay so.
plim_err plim_settings_read_like(const plim_settings *like, const char *text, size_t size,
                                 plim_settings *out, plim_error *error);
void plim_settings_clear(plim_settings *s);

// The setting that takes effect: the last of several with this key. NULL if there is none.
const plim_setting *plim_settings_find(const plim_settings *s, const char *key);
// The index in by_key of the first setting with this prefix; the others follow it.
size_t plim_settings_below(const plim_settings *s, const char *prefix, size_t size);
// Whether any key begins with this prefix: "hydra.main.".
bool plim_settings_has_below(const plim_settings *s, const char *prefix);

// ---- in words ---------------------------------------------------------------------------------------

// The key for a message: without the number of a repeated call ("TrainingArguments#2.seed"), and of a long key the end.
void plim_setting_label(const plim_setting *setting, char *out, size_t size);
// "batch_size is 16 in line 1 and 32 in line 7": two settings of one file that contradict each other.
void plim_settings_explain_two(const plim_setting *a, const char *first, const plim_setting *b,
                               const char *second, char *out, size_t size);

// One change of a text: `text` replaces the span.
typedef struct {
  plim_span span;
  char *text; // owned: free it
} plim_edit;

// Changes a value in the style of the old one: its quotes, its spelling of true, its form of numbers. The format's usual
// readers (PyYAML, json) read back exactly this value. Changing a DERIVED is refused.
plim_err plim_settings_change(const plim_settings *s, const plim_setting *setting,
                              const plim_value *value, plim_edit *out, plim_error *error);

// Adds a key in the style and indentation of its neighbours. It is refused if there is no safe place for it.
plim_err plim_settings_insert(const plim_settings *s, const char *key, const plim_value *value,
                              plim_edit *out, plim_error *error);

// Removes a setting: its line, or its entry with a comma. Comments on lines of their own stay. It is refused if something
// else would be removed with it, if other settings are computed from it, or if code may use it.
plim_err plim_settings_remove(const plim_settings *s, const plim_setting *setting, plim_edit *out,
                              plim_error *error);

// Removes the key `roof` with everything below it: a mapping, a list, a dict. Only YAML, JSON and Python support it.
plim_err plim_settings_remove_all(const plim_settings *s, const char *roof, plim_edit *out,
                                  plim_error *error);
// Whether `key` is below `roof`: "a.b" and "a.b.c" are below "a".
bool plim_key_is_below(const char *key, const char *roof);

// Applies all edits, which must not overlap. The caller frees `*out`, which is followed by a 0 byte.
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
  // Removes the key `roof`; `first` is the first setting below it. NULL if the format does not support it.
  plim_err (*remove_all)(const plim_settings *s, const plim_setting *first, const char *roof,
                         plim_edit *out, plim_error *error);
} plim_editor;

// Copies a text into memory that the settings own; NULL when out of memory.
const char *plim_settings_keep(plim_settings *s, const char *text, size_t size);
// Adds a setting; its key, texts and comment must already be kept by plim_settings_keep. False when out of memory.
bool plim_settings_add(plim_settings *s, plim_setting setting);
// Fills by_key, for callers that look up settings before reading is complete. False when out of memory.
bool plim_settings_sort(plim_settings *s);
// Makes an edit with a copy of `text`.
plim_err plim_edit_make(plim_span span, const char *text, plim_edit *out, plim_error *error);

#endif
