// Keys of all formats under one spelling, so that tables can name them.
#ifndef PLIM_IO_KEY_NAMES_H
#define PLIM_IO_KEY_NAMES_H

#include "plimsoll.h"

#define PLIM_KEY_BYTES 256

// Lower case, without the dashes of flags, "_" for "-": "--Micro-Batch-Size" is "micro_batch_size",
// "parser.--batch-size" is "parser.batch_size", "$GPUS" is "$gpus". Longer keys are cut.
void plim_key_name(const char *key, char name[PLIM_KEY_BYTES]);

// Whether `key` (a name) is `pattern`, or ends with it after a dot or a $ where `is_nested`. With a * in
// it, the pattern matches as in a shell.
bool plim_key_fits(const char *name, const char *pattern, bool is_nested);

// Whether a part of the name says that it is about evaluation: eval.batch_size, test_loader.batch_size.
bool plim_key_is_of_evaluation(const char *name);

// Whether a word of a name of one's own says what it is for: val_data, xTest, "validation".
typedef enum { PLIM_OF_EVALUATION, PLIM_OF_TRAINING } plim_name_kind;
bool plim_name_is_of(plim_name_kind kind, const char *name, size_t size);

// Where the last part of a key begins, after the last dot that is not part of a name.
size_t plim_key_last_part(const char *key);

// "lora.targets.3" and "lora.targets": whether the first is an item of the list that is the second.
bool plim_key_is_item(const char *name, const char *pattern, bool is_nested);

// Of Python's calls, what does nothing by itself, only where it is given to something: LoraConfig; and its arguments,
// peft.LoraConfig#2.r
bool plim_is_configuration(const char *name, size_t size);
bool plim_key_is_of_configuration(const char *key);

// Whether its last part is this name, in the tables' spelling and without the number of a call.
bool plim_key_is_called(const char *key, const char *name);

#endif
