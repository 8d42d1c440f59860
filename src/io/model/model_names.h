// Recognises models by names that are not in the catalogue: mirrors, local folders, builder functions.
#ifndef PLIM_IO_MODEL_NAMES_H
#define PLIM_IO_MODEL_NAMES_H

#include "catalogue.h"

// The model of the catalogue that a mirror or a folder is named after: "unsloth/Llama-3.2-1B", "/tmp/gemma-2-2b/",
// "models/Qwen3-4B-Instruct-2507", "x/llama-3-70b-fp16". NULL if there is none.
const plim_catalogue_model *plim_model_called(const char *what);

// Whether the value of a key called "model" is a model of transformers: an id of the hub, or a known name. Classes
// ("nets.Encoder"), config groups of Hydra ("llama") and files are not.
bool plim_model_is_meant(const char *text);

// Whether it is a path on disk, not an id of the hub.
bool plim_model_is_path(const char *what);

// How the weights of a checkpoint are quantised, by the end of its name: "-bnb-4bit", "-GPTQ", "-FP8". NULL: the name does
// not say that they are. *bits is the number per weight.
const char *plim_model_quantization(const char *what, int *bits);

// Whether the digits of `name` begin with the digits of `typed`. A different version or size is another model, not a
// typing error.
bool plim_model_has_digits(const char *name, const char *typed);

// The model that a builder function of torchtune builds: "torchtune.models.llama3_1.lora_llama3_1_8b" builds
// "llama3.1-8b". Returns false if it is not such a function, or if it can build any size.
bool plim_model_of_builder(const char *function, char *out, size_t size);

// The tables of cos and sin that the model of such a function keeps, float32 buffers.
typedef struct {
  int64_t positions;       // 0: none
  int64_t widths;          // numbers per position for each element of a head
  bool is_of_each_layer;   // every layer has one
  bool is_of_each_adapted; // with adapters, every layer has one
} plim_builder_tables;
void plim_tables_of_builder(const char *function, plim_builder_tables *out);

#endif
