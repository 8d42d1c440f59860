// Keys that are no knobs: what each does to the memory and the time of a step, by framework. Together with the knobs of
// dialect_keys.c they are all keys that are known; any other key is unknown, and the user is told so.
//
//   const plim_other_key *row;
//   plim_key_kind kind = plim_key_kind_of(&settings, setting, dialect, &row);
//   if (kind == PLIM_KEY_MISSING) printf("%s is not modelled: %s", setting->key, row->what);
#ifndef PLIM_IO_OTHER_KEYS_H
#define PLIM_IO_OTHER_KEYS_H

#include "dialect.h"

typedef enum {
  PLIM_EFFECT_NONE,   // it changes neither the memory nor the time of a step
  PLIM_EFFECT_READ,   // it is read by other code than the tables of knobs
  PLIM_EFFECT_MORE,   // not modelled: the run needs more memory than predicted
  PLIM_EFFECT_LITTLE, // not modelled: the run needs a little more memory
  PLIM_EFFECT_CACHED, // not modelled: memory that is free again before the peak, but stays reserved
  PLIM_EFFECT_EITHER, // not modelled: the run may need more or less memory
  PLIM_EFFECT_LESS,   // not modelled: the run needs less memory than predicted
  PLIM_EFFECT_START,  // not modelled: memory that is needed for a short time before the first step
  PLIM_EFFECT_TIME,   // not modelled: the memory is right, the time of a step is not
  PLIM_EFFECT_REFUSED // a prediction would be for another training
} plim_effect;

// How long a step takes with a key that is not modelled and changes the memory.
typedef enum {
  PLIM_PACE_USUAL,  // about as long as predicted; EFFECT_EITHER: longer or less long
  PLIM_PACE_SLOWER, // longer than predicted
  PLIM_PACE_FASTER, // less long
  PLIM_PACE_EITHER  // longer or less long
} plim_pace;

typedef struct {
  const char *keys; // in the form of plim_key.key, with * and ?, separated by spaces
  plim_effect effect;
  const char *what; // what it is, as in "WHAT is not modelled"; for NONE and READ: why
  // The row is about these values alone (with * and ?, separated by spaces), even if the key is a knob. NULL: about any
  // value that turns something on.
  const char *only;
  // KEY=VALUE (with * and ?) of other keys of the file, separated by spaces: if it has all of `unless`, nothing is missing,
  // nor if it lacks one of `with`. NULL: none.
  const char *unless, *with;
  bool is_of_several; // it does nothing on one GPU
  const char *off;    // more values that turn nothing on, besides false, 0, null, none, no and ""
  plim_pace pace;
} plim_other_key;

typedef enum {
  PLIM_KEY_NOT_ASKED, // no key of the framework: a variable, an argument of the user's own functions
  PLIM_KEY_KNOB,      // it sets a knob, or other code reads it
  PLIM_KEY_FREE,      // its value changes neither memory nor time
  PLIM_KEY_MISSING,   // known, and not modelled: see the row
  PLIM_KEY_UNKNOWN
} plim_key_kind;

// The kind of a setting. In Python only arguments of known calls are keys: TrainingArguments, LoraConfig. *row is the row
// that decided, or NULL.
plim_key_kind plim_key_kind_of(const plim_settings *s, const plim_setting *setting,
                               plim_dialect dialect, const plim_other_key **row);

// The name for a message: "qat" for qat.weight_dtype if the row is about qat.*, otherwise the key.
void plim_other_key_label(const plim_other_key *row, const plim_setting *setting, char *out,
                          size_t size);

// ---- the tables (other_key_tables.c) ----------------------------------------------------------------

enum { PLIM_KEY_TABLES = 6 };

// The tables of the dialects; unused places are NULL. Each table ends with {0}.
extern const plim_other_key *const plim_tables_of_dialect[PLIM_DIALECTS][PLIM_KEY_TABLES];
// Flags of launchers and of the commands of Hugging Face: accelerate launch, torchrun, deepspeed.
extern const plim_other_key plim_launcher_keys[];

// A call in Python whose keyword arguments are keys.
typedef struct {
  const char *names;  // lower case, with * and ?, separated by spaces
  const char *owners; // the name before it must be one of these, if it has one; NULL: any
  const plim_other_key *tables[PLIM_KEY_TABLES];
} plim_known_call;
extern const plim_known_call plim_known_calls[];
extern const size_t plim_known_call_count;

#endif
