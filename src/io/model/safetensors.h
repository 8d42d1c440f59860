// Reads the headers of safetensors files: how many weights a checkpoint contains, and their types. The weights themselves
// are not read.
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
  uint64_t head_elements;   // of lm_head; a tied head may be stored in addition to the embedding
  uint64_t buffer_elements; // of masks and tables, which are not parameters
} plim_safetensors;

// Reads a .safetensors file, or all files of a model folder: model.safetensors, or the shards that
// model.safetensors.index.json lists.
plim_err plim_safetensors_read(const char *path, plim_safetensors *out, plim_error *error);

// Adds the tensors of one header. `data_bytes` is the size of the data after the header; every tensor must lie within it
// and have the size that its shape and dtype require.
plim_err plim_safetensors_add_header(const char *text, size_t size, uint64_t data_bytes,
                                     plim_safetensors *out, plim_error *error);

// Whether a checkpoint contains exactly this number of parameters, not counting buffers and a tied head that is stored
// twice.
bool plim_safetensors_holds(const plim_safetensors *s, uint64_t parameters);

#endif
