// cuDNN: its graph interface. A graph is descriptors that refer to each other; the only answer that matters is the
// workspace of an execution plan, which follows from the tensors of the graph.
#include <stdlib.h>
#include <string.h>

#include "card.h"
#include "vec.h"

// cudnnBackendDescriptorType_t
enum {
  PLAN = 5,
  CONVOLUTION_FORWARD = 10,
  CONVOLUTION_WEIGHTS = 11,
  CONVOLUTION_DATA = 12,
  TENSOR = 17,
  PRODUCT = 19,
};

// cudnnBackendAttributeName_t
enum {
  HEURISTIC_RESULTS = 202,
  CONFIGURATION_WORKSPACE = 303,
  CONFIGURATION_SHARED_MEMORY = 304,
  PLAN_WORKSPACE = 402,
  TENSOR_DIMENSIONS = 902,
  TENSOR_IS_VIRTUAL = 907,
  ENGINE_INDEX = 1301,
};
enum { TYPE_DESCRIPTOR = 15 }; // cudnnBackendAttributeType_t: a reference to another descriptor

typedef struct descriptor descriptor;
struct descriptor {
  int type, users; // a descriptor lives as long as one refers to it
  bool is_virtual;
  int64_t dimensions[8];
  int dimension_count;
  vec(descriptor *) parts;
  bool is_seen; // by the walk that is under way
};

STAND_IN size_t cudnnGetVersion(void) { return 91900; }
STAND_IN size_t cudnnGetCudartVersion(void) { return (size_t)card_cuda_version(); }

STAND_IN int cudnnCreate(void **handle) {
  card_use(card_device());
  *handle = card_handle();
  return CARD_OK;
}

STAND_IN const char *cudnnGetErrorString(int code) {
  return code ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_SUCCESS";
}

// ---- descriptors ----------------------------------------------------------------------------------------

STAND_IN int cudnnBackendCreateDescriptor(int type, descriptor **out) {
  *out = calloc(1, sizeof **out);
  if (!*out) return 1002; // CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED
  (*out)->type = type;
  (*out)->users = 1;
  return CARD_OK;
}

static void release(descriptor *d) {
  if (!d || --d->users > 0) return;
  for (size_t i = 0; i < d->parts.len; i++) release(d->parts.at[i]);
  vec_free(&d->parts);
  free(d);
}

STAND_IN int cudnnBackendDestroyDescriptor(descriptor *d) {
  release(d);
  return CARD_OK;
}

static int refer(descriptor *from, descriptor *to) {
  if (!to || !vec_push(&from->parts, to)) return to ? 1002 : CARD_OK;
  to->users++;
  return CARD_OK;
}

STAND_IN int cudnnBackendSetAttribute(descriptor *d, int name, int type, int64_t count,
                                      const void *values) {
  int result = CARD_OK;
  if (type == TYPE_DESCRIPTOR)
    for (int64_t i = 0; i < count && !result; i++)
      result = refer(d, ((descriptor *const *)values)[i]);
  if (name == TENSOR_DIMENSIONS && count <= 8) {
    memcpy(d->dimensions, values, (size_t)count * sizeof *d->dimensions);
    d->dimension_count = (int)count;
  }
  if (name == TENSOR_IS_VIRTUAL) d->is_virtual = *(const bool *)values;
  return result;
}

// ---- workspaces -----------------------------------------------------------------------------------------

typedef struct {
  vec(const descriptor *) tensors; // those in memory, with four dimensions
  bool has_convolution;
} contents;

static void collect(descriptor *d, contents *out) {
  if (d->is_seen) return;
  d->is_seen = true;
  bool is_stored = d->type == TENSOR && !d->is_virtual && d->dimension_count == 4;
  if (is_stored) vec_push(&out->tensors, d);
  if (d->type >= CONVOLUTION_FORWARD && d->type <= CONVOLUTION_DATA) out->has_convolution = true;
  for (size_t i = 0; i < d->parts.len; i++) collect(d->parts.at[i], out);
}

static void forget(descriptor *d) {
  if (!d->is_seen) return;
  d->is_seen = false;
  for (size_t i = 0; i < d->parts.len; i++) forget(d->parts.at[i]);
}

// Fused attention: 256 bytes, and in the backward pass, with fewer key heads than query heads, the gradients of keys and
// values for every query head. Fitted to recordings; core/ops/attention.c has the same sizes together with those that
// cuDNN's frontend, which is part of PyTorch, adds by itself.
static int64_t attention_workspace(const contents *c) {
  int64_t batch = 0, heads = 0, key_heads = 0, keys = 0, width = 0, products = 0;
  for (size_t i = 0; i < c->tensors.len; i++) {
    const int64_t *size = c->tensors.at[i]->dimensions;
    bool is_table = size[3] > 1 && size[1] >= heads;
    if (!is_table) continue;
    if (size[1] > heads) width = INT64_MAX;
    batch = size[0], heads = size[1];
    if (size[3] < width) width = size[3]; // keys are also there transposed
    if (size[2] < width) width = size[2];
  }
  for (size_t i = 0; i < c->tensors.len; i++) {
    const int64_t *size = c->tensors.at[i]->dimensions;
    bool is_keys = size[3] > 1 && size[2] == width; // transposed
    if (is_keys) key_heads = size[1], keys = size[3], products++;
  }
  bool is_backward = products > 1;
  return 256 + (is_backward && key_heads < heads ? batch * heads * keys * width * 4 : 0);
}

static int64_t workspace_of(descriptor *plan) {
  contents c = {0};
  collect(plan, &c);
  forget(plan);
  if (c.has_convolution) card_unmodelled_call("cudnn: workspace of a convolution");
  int64_t bytes = c.has_convolution ? 0 : attention_workspace(&c);
  vec_free(&c.tensors);
  return bytes;
}

STAND_IN int cudnnBackendGetAttribute(descriptor *d, int name, int type, int64_t wanted,
                                      int64_t *count, void *values) {
  (void)type;
  int64_t found = 0;
  switch (name) {
  case HEURISTIC_RESULTS: // one configuration, which leads back to the graph
    found = 1;
    if (values && wanted > 0 && refer(*(descriptor **)values, d)) return 1002;
    break;
  case PLAN_WORKSPACE:
    found = 1;
    if (values) *(int64_t *)values = workspace_of(d);
    break;
  case CONFIGURATION_SHARED_MEMORY:
    found = 1;
    if (values) *(int32_t *)values = 0;
    break;
  case CONFIGURATION_WORKSPACE:
    found = 1;
    if (values) *(int64_t *)values = 0;
    break;
  case ENGINE_INDEX:
    found = 1;
    if (values) *(int64_t *)values = 1;
    break;
  default: break;
  }
  if (count) *count = found;
  return CARD_OK;
}
