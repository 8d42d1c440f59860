// The functions of torchtune that build a model of the catalogue.
#ifndef PLIM_APP_TORCHTUNE_BUILDERS_H
#define PLIM_APP_TORCHTUNE_BUILDERS_H

#include <stdbool.h>
#include <stddef.h>

#include "catalogue.h"

// What comes after "torchtune.models.", such as "qwen2_5.qwen2_5_7b_base", with "lora_" before the function if `adapts`.
// False: torchtune does not have the model.
bool torchtune_builder(const char *model, bool adapts, char *out, size_t size);
// The lines of a configuration below "tokenizer:", and the word for model_type; NULL: as above.
const char *torchtune_tokenizer(const char *model);
const char *torchtune_type(const char *model);

#endif
