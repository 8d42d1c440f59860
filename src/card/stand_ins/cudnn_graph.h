// cuDNN's graph interface. A program describes a computation by descriptors that refer to each other; each is remembered
// here with the attributes that were set, and can be repeated in the real library (cudnn_library.h).
#ifndef PLIM_CUDNN_GRAPH_H
#define PLIM_CUDNN_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "vec.h"

// cudnnStatus_t
enum { CUDNN_NO_HOST_MEMORY = 1002, CUDNN_BAD_PARAMETER = 2000, CUDNN_NOT_SUPPORTED = 3000 };

// cudnnBackendDescriptorType_t
enum {
  CUDNN_CONVOLUTION = 1,
  CUDNN_ENGINE = 2,
  CUDNN_CONFIGURATION = 3,
  CUDNN_HEURISTIC = 4,
  CUDNN_PLAN = 5,
  CUDNN_CONVOLUTION_FORWARD = 10,
  CUDNN_CONVOLUTION_WEIGHTS = 11,
  CUDNN_CONVOLUTION_DATA = 12,
  CUDNN_ARGUMENTS = 16, // what one execution gets: addresses
  CUDNN_TENSOR = 17,
  CUDNN_DEVICE = 38,
};

// cudnnBackendAttributeName_t
enum {
  CUDNN_DILATIONS = 102,
  CUDNN_STRIDES = 103,
  CUDNN_PADDINGS = 105, // in front
  CUDNN_HEURISTIC_RESULTS = 202,
  CUDNN_HEURISTIC_DEVICE = 204,
  CUDNN_CONFIGURATION_WORKSPACE = 303,
  CUDNN_CONFIGURATION_SHARED_MEMORY = 304,
  CUDNN_PLAN_WORKSPACE = 402,
  CUDNN_FORWARD_CONVOLUTION =
      702, // the following three numbers are the weights, the input and the output
  CUDNN_DATA_CONVOLUTION = 708,
  CUDNN_WEIGHTS_CONVOLUTION = 714,
  CUDNN_TENSOR_DATA_TYPE = 901,
  CUDNN_TENSOR_DIMENSIONS = 902,
  CUDNN_TENSOR_STRIDES = 903,
  CUDNN_TENSOR_IS_VIRTUAL = 907,
  CUDNN_ENGINE_INDEX = 1301,
  CUDNN_ENGINE_DEVICE = 1307,
  CUDNN_DEVICE_JSON = 2702,
};

// cudnnBackendAttributeType_t
enum {
  CUDNN_TYPE_HANDLE = 0,
  CUDNN_TYPE_BOOLEAN = 2,
  CUDNN_TYPE_INT64 = 3,
  CUDNN_TYPE_DOUBLE = 5,
  CUDNN_TYPE_POINTER = 6,
  CUDNN_TYPE_DESCRIPTOR = 15,
  CUDNN_TYPE_CHAR = 24,
  CUDNN_TYPE_FRACTION = 26,
};

typedef struct {
  int name, type;
  int64_t count;
  void *values; // owned; descriptors among them live as long as this one
} cudnn_attribute;

// What a plan computes, for the clock: products m x n x k, or attention.
typedef struct {
  bool is_known, is_attention, is_backward;
  int bits; // of an element; 16 stands for float16 and bfloat16, which are equally fast
  double m, n, k, pairs, width;
} cudnn_shape;

typedef struct cudnn_descriptor cudnn_descriptor;
struct cudnn_descriptor {
  int type, users; // a descriptor lives as long as one refers to it
  vec(cudnn_attribute) attributes;
  void *real;        // its equivalent in the real library; NULL: it was not repeated there
  bool is_seen;      // by the walk that is under way
  cudnn_shape shape; // of a plan, once it was executed
};

// The attribute of that name; NULL if it was not set.
const cudnn_attribute *cudnn_attribute_of(const cudnn_descriptor *d, int name);

// The descriptor that an attribute refers to; NULL if there is none.
cudnn_descriptor *cudnn_part(const cudnn_descriptor *d, int name);

// The numbers of an attribute; NULL if it has fewer.
const int64_t *cudnn_numbers(const cudnn_descriptor *d, int name, int64_t count);

#endif
