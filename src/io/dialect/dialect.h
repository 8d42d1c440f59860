// The frameworks ("dialects") whose training configurations are supported: how a file is recognised, which key sets which
// knob, what the values mean, and the default if a key is absent.
//
//   plim_recognition is;
//   plim_dialect_recognise(&settings, &is);              // is.reason explains the result
//   plim_recipe_file recipe;
//   if (is.dialect != PLIM_DIALECTS) err = plim_recipe_file_read(&settings, is.dialect, &recipe, &error);
//   recipe.knobs[PLIM_KNOB_MICRO_BATCH].value.integer
//
// The keys are rows of tables (dialect_keys.c); the functions here interpret them.
#ifndef PLIM_IO_DIALECT_H
#define PLIM_IO_DIALECT_H

#include "knobs.h"
#include "settings.h"

// X(NAME, name)
#define PLIM_DIALECT_LIST(X)                                                                       \
  X(HOME, "custom")                                                                                \
  X(HF, "transformers")                                                                            \
  X(TRL, "TRL")                                                                                    \
  X(SENTENCE, "sentence-transformers")                                                             \
  X(UNSLOTH, "Unsloth")                                                                            \
  X(ACCELERATE, "accelerate")                                                                      \
  X(DEEPSPEED, "DeepSpeed")                                                                        \
  X(FSDP, "FSDP")                                                                                  \
  X(AXOLOTL, "Axolotl")                                                                            \
  X(LLAMA_FACTORY, "LLaMA-Factory")                                                                \
  X(LLAMA_FACTORY_V1, "LLaMA-Factory v1")                                                          \
  X(TORCHTUNE, "torchtune")                                                                        \
  X(LIGHTNING, "Lightning")                                                                        \
  X(MEGATRON, "Megatron-LM")                                                                       \
  X(MEGATRON_BRIDGE, "Megatron-Bridge")                                                            \
  X(NEMO, "NeMo 1")                                                                                \
  X(TORCHTITAN, "torchtitan")                                                                      \
  X(NANOGPT, "nanoGPT")                                                                            \
  X(LITGPT, "litgpt")                                                                              \
  X(LLM_FOUNDRY, "llm-foundry")

#define PLIM_DIALECT_ENUM(NAME, name) PLIM_DIALECT_##NAME,
typedef enum { PLIM_DIALECT_LIST(PLIM_DIALECT_ENUM) PLIM_DIALECTS } plim_dialect;
#undef PLIM_DIALECT_ENUM

// ---- values -----------------------------------------------------------------------------------------
// The values of a knob are the same in every dialect: INTEGER, REAL or TEXT.
//   on, off                          liger, packing, compile, reshard
//   off, on, reentrant, offloaded    checkpoint
//   sdpa, eager, flash, ...          attention
//   none, bf16, fp16, fp8            precision;   auto, bf16, fp16, fp32   dtype
//   plain, nf4, nf4-double, int8     quantisation
//   none, ddp, fsdp, fsdp2, zero1-3  strategy
//   none, optimizer, parameters (and the optimizer), weights (parameters alone), activations, joined with "+"
//                                    offload
//   a name of plim_optimizer_named where it knows it            optimizer
//   all-linear, or names with commas between                    lora_targets
//   0, tokens (checkpointed), or: eighths and eighths-listed (of all tokens, kept), fused    chunked_loss

// Translates a word of a file to the value of a knob. In `knob`, "-" means that the word does not set the knob, and "?x"
// means x unless another key sets the knob. In `file`, * and ? match as in a shell; such a word is never written.
typedef struct {
  const char *file, *knob;
} plim_word;

typedef enum {
  PLIM_AS_WORDS,     // by the words of the row
  PLIM_AS_NUMBER,    // the number; the words of the row, if any, have priority
  PLIM_AS_TEXT,      // the text; the words of the row, if any, have priority
  PLIM_AS_LIST,      // a list, joined with commas; or a text
  PLIM_AS_COUNT,     // the number of items of a list, or of a text with commas
  PLIM_AS_OPTIMIZER, // an optimizer name of transformers' TrainingArguments
  PLIM_AS_BUILDER,   // a torchtune function that builds a model; any other text is ignored
  PLIM_AS_MODEL      // a known model or an id of the hub; any other text is ignored
} plim_translation;

enum {
  PLIM_KEY_VAGUE = 1, // the key often means something else: used only if no other row sets the knob
  PLIM_KEY_LAST = 2,  // read after the defaults; if the key is absent, its own default applies
  PLIM_KEY_AGREES = 4,     // must agree with the trainer's own settings, or the run does not start
  PLIM_KEY_ADDS = 8,       // its value is added to those of other rows
  PLIM_KEY_OLD = 16,       // a former name: read, but never added
  PLIM_KEY_ADDABLE = 32,   // may be added next to others of its kind
  PLIM_KEY_READ_ONLY = 64, // changing it alone would break the run, because other keys depend on it
  PLIM_KEY_FOLLOWS = 128,  // changed together with the trainer's own settings, which override it
  PLIM_KEY_PER_NODE = 256, // a number of GPUs per machine
  PLIM_KEY_APART =
      512, // a feature of its own: if on, it overrides other rows; if off, it does not affect them
  PLIM_KEY_ANY_OF =
      2048, // that a group has any key turns this on; what the key means is in other rows
  PLIM_KEY_OF_MODEL = 1024 // may be added next to the model's name among Hydra's overrides
};

// One key of one dialect. The rows of a knob are read in the order of the table; a later row overrides an earlier one.
typedef struct {
  const char *key; // lower case, with "_" for "-"; in a nested dialect the end of the path
  plim_knob knob;
  plim_translation how;
  const plim_word *words; // ends with {0}
  const char *otherwise;  // the knob's value if the key is absent; NULL: unknown
  const char
      *applies_to; // the row only refines this value of the knob; NULL: it applies to any value
  unsigned flags;
  unsigned formats; // bits 1 << plim_format; 0: all
} plim_key;

// A knob that a framework sets with several keys together: a change may edit the lines of these keys and no others. A
// change of any other knob edits one line.
typedef struct {
  plim_knob knob;
  const char *keys; // in the form of plim_key.key, with * and ?, separated by commas
} plim_key_set;

typedef struct {
  const char *name;
  const plim_key *keys; // ends with {0}
  plim_dialect base;    // it also has the keys of this dialect; PLIM_DIALECTS: none
  bool is_nested;       // its keys may be anywhere: in a dict, in a call, below another key
  bool is_part;         // it only configures how a run is launched: another file trains
  bool has_trainer;     // the loop is transformers.Trainer
  const char *mask;     // the attention mask of unpacked batches: ones, pad, longest; NULL: none
  const char *shares;   // the supported sharding strategies, separated by commas; NULL: any
  bool divides_batch;   // without a key for it, accumulation follows from the global batch
  bool
      has_own_models; // it does not use the models of transformers, so their loss cannot be replaced
  bool has_one_type;  // all parameters, adapters too, have the same dtype, without autocast
  const plim_key_set *sets; // ends with {0}; NULL: none
} plim_dialect_info;

extern const plim_dialect_info plim_dialect_table[PLIM_DIALECTS];
// Keys of command lines in every dialect: the environment and the launcher.
extern const plim_key plim_launch_keys[];
// The common names of the knobs, for configurations that belong to no framework.
extern const plim_key plim_natural_keys[PLIM_KNOBS];

// Finds a dialect by its name, ignoring case; PLIM_DIALECTS if there is none.
plim_dialect plim_dialect_named(const char *name);

// ---- recognition ------------------------------------------------------------------------------------

// A key that indicates a dialect, with its points. 3 points are enough to recognise a dialect.
typedef struct {
  plim_dialect dialect;
  const char *key; // in the form of plim_key.key, with * and ?
  int points;
  unsigned formats; // bits 1 << plim_format; 0: all
} plim_sign;

extern const plim_sign plim_signs[];
extern const size_t plim_sign_count;

typedef struct {
  plim_dialect dialect; // PLIM_DIALECTS: none, or two are equally likely
  plim_dialect rival;   // an equally likely dialect: ask the user; PLIM_DIALECTS: none
  char reason[256];     // "base_model and sequence_len are Axolotl's"
} plim_recognition;

// When out of memory, s->has_failed is set.
void plim_dialect_recognise(plim_settings *s, plim_recognition *out);

// ---- reading ----------------------------------------------------------------------------------------

typedef enum {
  PLIM_ABSENT,    // the file does not set it, and the framework has no known default
  PLIM_DEFAULTED, // the file does not set it; the value is the framework's default
  PLIM_UNCLEAR,   // the file sets it, but the value is computed or ambiguous: see `why`
  PLIM_EXPLICIT   // the file sets it
} plim_origin;

typedef struct {
  plim_origin origin;
  plim_value value;            // NULL unless EXPLICIT or DEFAULTED
  const plim_setting *setting; // the setting that decides the value; NULL: none
  const plim_key *key;         // the row that interprets the setting; NULL: none
  const plim_setting *rival;   // a setting with a different value; NULL: none
  bool is_fixed;               // it must not or cannot be changed: see `why`
  bool is_ill_typed;           // UNCLEAR because the row gives the value no meaning: bf16: yess
  char why[224];
} plim_reading;

typedef struct {
  plim_dialect dialect;
  plim_reading knobs[PLIM_KNOBS];
} plim_recipe_file;

// Reads all knobs of a file. Everything in *out points into `s`, which also owns newly made texts and must not move. Fails
// only when out of memory.
plim_err plim_recipe_file_read(plim_settings *s, plim_dialect dialect, plim_recipe_file *out,
                               plim_error *error);

// Reads a single setting with the row `key`.
plim_err plim_reading_of(plim_settings *s, const plim_setting *setting, const plim_key *key,
                         plim_reading *out, plim_error *error);

// Whether the expression of `computed` contains the name of the setting that was read.
bool plim_reading_explains(const plim_reading *reading, const plim_setting *computed);

// Why a recognised file does not configure a training; NULL if it does.
const char *plim_recipe_file_refusal(const plim_settings *s, const plim_recipe_file *recipe);

// The command that does what such a file configures: "llamafactory-cli export"; NULL: not known.
const char *plim_recipe_file_command(const plim_settings *s, const plim_recipe_file *recipe);

// ---- for those who change settings ------------------------------------------------------------------

// The value to write into the file so that the row reads it as `value`; false if there is none. Texts are static or
// belong to `value`.
bool plim_key_inverse(const plim_key *key, const plim_value *value, plim_value *out);

// Whether the value is among the words of the row.
bool plim_key_knows(const plim_key *key, const char *value);

// Whether the row applies to the setting. With is_nested it is enough if the end of the key matches.
bool plim_key_is_of(const plim_key *key, const plim_setting *setting, bool is_nested);

#endif
