// The ecosystems whose training configurations are understood: how a file is recognised, which of its
// keys is which knob, what its values mean, and what holds where a key is absent.
//
//   plim_recognition is;
//   plim_dialect_recognise(&settings, &is);              // is.reason says it in words
//   plim_recipe_file recipe;
//   if (is.dialect != PLIM_DIALECTS) err = plim_recipe_file_read(&settings, is.dialect, &recipe, &error);
//   recipe.knobs[PLIM_KNOB_MICRO_BATCH].value.integer
//
// The keys are rows of tables (dialect_keys.c); what is here reads them.
#ifndef PLIM_IO_DIALECT_H
#define PLIM_IO_DIALECT_H

#include "knobs.h"
#include "settings.h"

// X(NAME, name)
#define PLIM_DIALECT_LIST(X)                                                                       \
  X(HOME, "home-made")                                                                             \
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
// Knobs have values of their own, the same in every dialect: INTEGER, REAL or TEXT.
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

// How a word of a file is said as a knob. In `knob`, "-" is: says nothing about it; "?x" is: x, unless
// another key says more. In `file`, * and ? match as in a shell; such a word is never written.
typedef struct {
  const char *file, *knob;
} plim_word;

typedef enum {
  PLIM_AS_WORDS,     // by the row's words
  PLIM_AS_NUMBER,    // the number; words, if there are any, come first
  PLIM_AS_TEXT,      // the text; the same
  PLIM_AS_LIST,      // a list, joined with commas; or its text
  PLIM_AS_COUNT,     // how many a list, or a text with commas, has
  PLIM_AS_OPTIMIZER, // a name of transformers' TrainingArguments
  PLIM_AS_BUILDER,   // torchtune's function that builds the model; others say nothing
  PLIM_AS_MODEL      // a model that is known or an id of the hub; other texts say nothing
} plim_translation;

enum {
  PLIM_KEY_VAGUE = 1,      // often means something else: counts if no other row says anything
  PLIM_KEY_LAST = 2,       // read after the defaults; where it is absent, its own default counts
  PLIM_KEY_AGREES = 4,     // must say the same as the trainer's own settings, or it does not start
  PLIM_KEY_ADDS = 8,       // joins what other rows say
  PLIM_KEY_OLD = 16,       // a former name: read, never added
  PLIM_KEY_ADDABLE = 32,   // may be added beside others of its kind
  PLIM_KEY_READ_ONLY = 64, // changing it alone would break the run: other keys belong to it
  PLIM_KEY_FOLLOWS = 128,  // changed along with the trainer's own settings, which win over it
  PLIM_KEY_PER_NODE = 256, // of GPUs: those of one machine
  PLIM_KEY_APART =
      512, // a thing beside what others turn on: on, it wins; off, it says nothing of theirs
  PLIM_KEY_OF_MODEL = 1024 // may be added beside the model's own name among Hydra's overrides
};

// One key of one dialect. Rows of a knob are read in the order of the table; what is said later
// replaces what was said before.
typedef struct {
  const char *key; // lower case, "_" for "-"; of a nested dialect the end of the path
  plim_knob knob;
  plim_translation how;
  const plim_word *words; // ends with {0}
  const char *otherwise;  // what holds without the key, as the knob says it; NULL: unknown
  const char *applies_to; // it only refines this value of the knob; NULL: it stands for itself
  unsigned flags;
  unsigned formats; // bits 1 << plim_format; 0: all
} plim_key;

// A knob that an ecosystem says by several keys at once: a change may touch lines of these, and no others. A
// change of any other knob is one line.
typedef struct {
  plim_knob knob;
  const char *keys; // as plim_key's with * and ?, commas between
} plim_key_set;

typedef struct {
  const char *name;
  const plim_key *keys; // ends with {0}
  plim_dialect base;    // whose keys it has too; PLIM_DIALECTS: none
  bool is_nested;       // its keys stand anywhere: in a dict, a call, below another key
  bool is_part;         // only of how a run is started: another file trains
  bool has_trainer;     // the loop is transformers.Trainer
  const char *mask;     // of its batches, where they are not packed: ones, pad, longest; NULL: none
  const char *shares;   // the ways GPUs can share its work, with commas between; NULL: any
  bool divides_batch;   // accumulation, where no key says it, is what the global batch leaves
  bool has_own_models;  // not those of transformers: a loss of one's own has no place in them
  bool has_one_type;    // of all parameters, adapters as well, without autocast
  const plim_key_set *sets; // ends with {0}; NULL: none
} plim_dialect_info;

extern const plim_dialect_info plim_dialect_table[PLIM_DIALECTS];
// What command lines say in every dialect: the environment, the launcher.
extern const plim_key plim_launch_keys[];
// How a knob is said where nobody has made a rule: in files of one's own.
extern const plim_key plim_natural_keys[PLIM_KNOBS];

// By name, without case; PLIM_DIALECTS if there is none.
plim_dialect plim_dialect_named(const char *name);

// ---- recognition ------------------------------------------------------------------------------------

// What a key tells: so many points for a dialect. 3 is enough.
typedef struct {
  plim_dialect dialect;
  const char *key; // as plim_key.key, with * and ?
  int points;
  unsigned formats; // bits 1 << plim_format; 0: all
} plim_sign;

extern const plim_sign plim_signs[];
extern const size_t plim_sign_count;

typedef struct {
  plim_dialect dialect; // PLIM_DIALECTS: none, or it could be two
  plim_dialect rival;   // as likely: ask; PLIM_DIALECTS: none
  char reason[256];     // "base_model and sequence_len are Axolotl's"
} plim_recognition;

// When out of memory, s->has_failed is set.
void plim_dialect_recognise(plim_settings *s, plim_recognition *out);

// ---- reading ----------------------------------------------------------------------------------------

typedef enum {
  PLIM_ABSENT,    // neither the file nor its ecosystem says anything
  PLIM_DEFAULTED, // the file does not, and this is what the ecosystem does then
  PLIM_UNCLEAR,   // it is written, but computed, or twice and different: `why` says it
  PLIM_EXPLICIT
} plim_origin;

typedef struct {
  plim_origin origin;
  plim_value value;            // NULL unless SAID or DEFAULTED
  const plim_setting *setting; // that decides; NULL: none
  const plim_key *key;         // how it is read; NULL: none
  const plim_setting *rival;   // that says another value; NULL: none
  bool is_fixed;               // it must not change, or cannot be: `why` says it
  char why[224];
} plim_reading;

typedef struct {
  plim_dialect dialect;
  plim_reading knobs[PLIM_KNOBS];
} plim_recipe_file;

// Everything in *out points into `s`, which gets the texts that had to be put together, and must not
// move. Fails only when out of memory.
plim_err plim_recipe_file_read(plim_settings *s, plim_dialect dialect, plim_recipe_file *out,
                               plim_error *error);

// The same for a single setting, read as `key` says.
plim_err plim_reading_of(plim_settings *s, const plim_setting *setting, const plim_key *key,
                         plim_reading *out, plim_error *error);

// Whether a computed setting is computed from the one that was read: it has its name in it.
bool plim_reading_explains(const plim_reading *reading, const plim_setting *computed);

// Why a file is no training, though it is recognised; NULL if it is one.
const char *plim_recipe_file_refusal(const plim_settings *s, const plim_recipe_file *recipe);

// ---- for those who change settings ------------------------------------------------------------------

// The value to write so that the row reads `value`; false if there is none. Texts are static or
// `value`'s own.
bool plim_key_inverse(const plim_key *key, const plim_value *value, plim_value *out);

// The keys that say this knob together, in the dialect or one that it is based on; NULL: it has one.
const char *plim_dialect_set(plim_dialect dialect, plim_knob knob);

// The row's keys end the setting's; of a nested dialect, or one of a command line.
bool plim_key_is_of(const plim_key *key, const plim_setting *setting, bool is_nested);

#endif
