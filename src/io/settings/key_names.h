// Converts keys of all formats to one spelling, which the key tables use, and compares them.
#ifndef PLIM_IO_KEY_NAMES_H
#define PLIM_IO_KEY_NAMES_H

#include "plimsoll.h"

#define PLIM_KEY_BYTES 256

// Converts a key to lower case, without the dashes of flags and with "_" for "-": "--Micro-Batch-Size" becomes
// "micro_batch_size", "parser.--batch-size" becomes "parser.batch_size", "$GPUS" becomes "$gpus". Longer keys are
// truncated.
void plim_key_name(const char *key, char name[PLIM_KEY_BYTES]);

// Whether `name` is `pattern` or, with `is_nested`, ends with it after a dot or a $. A * in the pattern matches as in a
// shell.
bool plim_key_fits(const char *name, const char *pattern, bool is_nested);

// Whether a part of the name shows that the setting is for evaluation: eval.batch_size, test_loader.batch_size.
bool plim_key_is_of_evaluation(const char *name);

// Whether a word in a name that the user chose shows this purpose: val_data, xTest, "validation".
typedef enum { PLIM_OF_EVALUATION, PLIM_OF_TRAINING } plim_name_kind;
bool plim_name_is_of(plim_name_kind kind, const char *name, size_t size);

// The offset of the last part of a key, after the last dot that is not part of a name.
size_t plim_key_last_part(const char *key);

// Whether `name` is an item of the list `pattern`: "lora.targets.3" is an item of "lora.targets".
bool plim_key_is_item(const char *name, const char *pattern, bool is_nested);

// Whether a Python call only creates a configuration, which has no effect until it is passed on: LoraConfig. The second
// function is for the keys of its arguments: peft.LoraConfig#2.r
bool plim_is_configuration(const char *name, size_t size);
bool plim_key_is_of_configuration(const char *key);

// Whether the last part of a key is this name, in the spelling of the tables and without the number of a call.
bool plim_key_is_called(const char *key, const char *name);

#endif
