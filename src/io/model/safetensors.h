// Reads the headers of safetensors files: how many weights a checkpoint holds, and of which types. The
// weights themselves are not read.
#ifndef PLIM_IO_SAFETENSORS_H
#define PLIM_IO_SAFETENSORS_H

#include "plimsoll.h"

typedef enum {
  PLIM_SAFE_FP32,
  PLIM_SAFE_FP16,
  PLIM_SAFE_BF16,
  PLIM_SAFE_FP8,
  PLIM_SAFE_INTEGER, // packed weights of quantized models, or buffers
  PLIM_SAFE_OTHER,   // float64, bool
  PLIM_SAFE_KINDS
} plim_safe_kind;

typedef struct {
  uint64_t files, tensors;
  uint64_t elements, bytes; // of all tensors
  uint64_t elements_of[PLIM_SAFE_KINDS];
  uint64_t head_elements;   // of the head; a tied one may be stored beside the embedding
  uint64_t buffer_elements; // of masks and tables that are no parameters
} plim_safetensors;

// Reads a .safetensors file, or all of a model folder: model.safetensors, or the shards that
// model.safetensors.index.json lists.
plim_err plim_safetensors_read(const char *path, plim_safetensors *out, plim_error *error);

// Adds the tensors of one header. `data_bytes` is what follows it in the file; every tensor must lie in
// there and be as long as its shape and type say.
plim_err plim_safetensors_add_header(const char *text, size_t size, uint64_t data_bytes,
                                     plim_safetensors *out, plim_error *error);

// Whether a checkpoint holds exactly these parameters, buffers and a tied head stored twice aside.
bool plim_safetensors_holds(const plim_safetensors *s, uint64_t parameters);

#endif
