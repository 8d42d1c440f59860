// Models under other names than their own: mirrors, local folders, builders.
#ifndef PLIM_IO_MODEL_NAMES_H
#define PLIM_IO_MODEL_NAMES_H

#include "catalogue.h"

// The model of the catalogue that a mirror's id or a folder is called after: "unsloth/Llama-3.2-1B",
// "/tmp/gemma-2-2b/", "models/Qwen3-4B-Instruct-2507", "x/llama-3-70b-fp16". NULL: none.
const plim_catalogue_model *plim_model_called(const char *what);

// Whether a text that a key called "model" has is a model of transformers: an id of the hub, or a name that
// is known. Classes ("nets.Encoder"), groups of Hydra's ("llama") and files are not.
bool plim_model_is_meant(const char *text);

// Whether it names a place on a disk, and not on the hub.
bool plim_model_is_path(const char *what);

// Whether the name says that it is stored in 4 bits: "-bnb-4bit".
bool plim_model_is_quantized(const char *what);

// Whether `name` begins with the digits that `typed` has: versions and sizes are no slips.
bool plim_model_has_digits(const char *name, const char *typed);

// The model a function of torchtune builds: "torchtune.models.llama3_1.lora_llama3_1_8b" is
// "llama3.1-8b". False if it is no such function, or builds any size.
bool plim_model_of_builder(const char *function, char *out, size_t size);

#endif
