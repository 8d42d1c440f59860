// Where a model's configuration comes from: a config.json, the local Hugging Face cache, the catalogue.
#ifndef PLIM_IO_MODEL_CONFIG_H
#define PLIM_IO_MODEL_CONFIG_H

#include "config.h"
#include "tape.h"
#include "text_file.h"

typedef enum {
  PLIM_ORIGIN_FILE,      // a path the user gave
  PLIM_ORIGIN_CACHE,     // downloaded before
  PLIM_ORIGIN_CATALOGUE, // built in
  PLIM_ORIGIN_SHAPE      // its keys were given
} plim_model_origin;

typedef struct {
  plim_config config; // finished
  plim_model_origin origin;
  char folder[PLIM_PATH_BYTES]; // that config.json was in; empty: the catalogue
  char quantization[32];        // quant_method of quantization_config, or "unnamed"; empty: none
  int quantized_bits;           // per weight; 0: not quantized, or the file does not say
  plim_dtype dtype;             // of the checkpoint; PLIM_DTYPE_COUNT: the file does not say
  uint64_t parameters;          // published; 0: unknown
  char note[192];               // what was taken for what; empty if there is nothing to say
} plim_model_source;

// A model by what the user typed: the path of a config.json or of a folder with one, an id in the
// local Hugging Face cache, or a name of the catalogue; the first of these that exists; or the keys of a
// config.json with blanks between, "model_type=llama hidden_size=4096 ...", of which those left out are the
// family's defaults. A name that is none is refused with the closest one and how to go on.
plim_err plim_model_find(const char *what, plim_model_source *out, plim_error *error);

// Whether it is such keys, and not a name or a path.
bool plim_model_is_shape(const char *what);

// The same for a config.json or a folder with one.
plim_err plim_model_config_read(const char *path, plim_model_source *out, plim_error *error);

// The same for the text of a config.json; error->byte is where it is no JSON.
plim_err plim_model_config_parse(const char *text, size_t size, plim_model_source *out,
                                 plim_error *error);

#endif
