// Finds and reads a model's configuration: from a config.json, the local Hugging Face cache or the catalogue.
#ifndef PLIM_IO_MODEL_CONFIG_H
#define PLIM_IO_MODEL_CONFIG_H

#include "config.h"
#include "tape.h"
#include "text_file.h"

typedef enum {
  PLIM_ORIGIN_FILE,      // a path that the user gave
  PLIM_ORIGIN_CACHE,     // the local Hugging Face cache
  PLIM_ORIGIN_FETCHED,   // plimsoll's own cache, filled by --fetch
  PLIM_ORIGIN_CATALOGUE, // the built-in catalogue
  PLIM_ORIGIN_SHAPE      // keys that the user gave: "model_type=llama hidden_size=..."
} plim_model_origin;

typedef struct {
  plim_config config; // finished
  plim_model_origin origin;
  char folder[PLIM_PATH_BYTES]; // the folder of config.json; empty for the catalogue
  char
      quantization[32]; // quant_method of quantization_config, or "unnamed"; empty if not quantized
  int quantized_bits;   // per weight; 0: not quantized, or not given in the file
  bool is_quantized_twice; // by bitsandbytes, its scales too (bnb_4bit_use_double_quant)
  plim_dtype dtype;        // of the checkpoint; PLIM_DTYPE_COUNT: not given in the file
  uint64_t parameters;     // the published number; 0: unknown
  char note[400];          // an assumption that the user should know; empty if there is none
} plim_model_source;

// Finds the model that the user typed: the text of a config.json, which begins with a brace, or the first of these that
// exists: the path of a config.json or of a folder that contains one, an id in the local Hugging Face cache or in
// plimsoll's own (hub_cache.h), a name of the catalogue. It can also be keys of a config.json separated by spaces,
// "model_type=llama hidden_size=4096 ..."; keys that are left out have the family's defaults. An
// unknown name is refused, with a suggestion and a hint.
plim_err plim_model_find(const char *what, plim_model_source *out, plim_error *error);

// Whether the hub could tell more about this model than there is on this machine: it is an id of the hub of which no
// config.json is here, and the catalogue does not have it, or has only a model that it seems to be named after.
bool plim_model_is_open(const char *what);

// Whether the text is a list of keys, not a name or a path.
bool plim_model_is_shape(const char *what);

// Reads a config.json, given by its path or by the folder that contains it.
plim_err plim_model_config_read(const char *path, plim_model_source *out, plim_error *error);

// Reads the text of a config.json. If it is not valid JSON, error->byte is the place of the error.
plim_err plim_model_config_parse(const char *text, size_t size, plim_model_source *out,
                                 plim_error *error);

#endif
