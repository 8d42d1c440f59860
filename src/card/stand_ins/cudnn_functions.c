// cuDNN: its graph interface. A graph is descriptors that refer to each other; the only answer that matters is the
// workspace of an execution plan. Convolutions are planned by the real library where there is one.
#include <stdlib.h>
#include <string.h>

#include "card.h"
#include "convolution.h"
#include "cudnn_graph.h"
#include "cudnn_library.h"

STAND_IN size_t cudnnGetVersion(void) {
  size_t version = cudnn_library_version();
  return version ? version : 91900;
}
STAND_IN size_t cudnnGetCudartVersion(void) { return (size_t)card_cuda_version(); }

// libraryPropertyType: 0 major, 1 minor, 2 patch
STAND_IN int cudnnGetProperty(int property, int *value) {
  int version = (int)cudnnGetVersion(), patch = version % 100, minor = version / 100 % 100;
  *value = property == 0 ? version / 10000 : property == 1 ? minor : patch;
  return CARD_OK;
}

STAND_IN int cudnnCreate(void **handle) {
  card_use(card_device());
  *handle = card_handle();
  return CARD_OK;
}

STAND_IN const char *cudnnGetErrorString(int code) {
  return code ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_SUCCESS";
}

// ---- descriptors ----------------------------------------------------------------------------------------

STAND_IN int cudnnBackendCreateDescriptor(int type, cudnn_descriptor **out) {
  *out = calloc(1, sizeof **out);
  if (!*out) return CUDNN_NO_HOST_MEMORY;
  (*out)->type = type;
  (*out)->users = 1;
  return CARD_OK;
}

static void release(cudnn_descriptor *d) {
  if (!d || --d->users > 0) return;
  cudnn_library_destroy(d->real);
  for (size_t i = 0; i < d->attributes.len; i++) {
    const cudnn_attribute *a = &d->attributes.at[i];
    cudnn_descriptor **parts = a->values;
    for (int64_t k = 0; k < a->count && a->type == CUDNN_TYPE_DESCRIPTOR; k++) release(parts[k]);
    free(a->values);
  }
  vec_free(&d->attributes);
  free(d);
}

STAND_IN int cudnnBackendDestroyDescriptor(cudnn_descriptor *d) {
  release(d);
  return CARD_OK;
}

static size_t bytes_of_type(int type) {
  switch (type) {
  case CUDNN_TYPE_HANDLE:
  case CUDNN_TYPE_INT64:
  case CUDNN_TYPE_DOUBLE:
  case CUDNN_TYPE_POINTER:
  case CUDNN_TYPE_DESCRIPTOR: return 8;
  case CUDNN_TYPE_BOOLEAN:
  case CUDNN_TYPE_CHAR: return 1;
  case CUDNN_TYPE_FRACTION: return 16;
  default: return 4; // enumerations, float, int32
  }
}

static int remember(cudnn_descriptor *d, int name, int type, int64_t count, const void *values) {
  size_t bytes = (size_t)count * bytes_of_type(type);
  void *copy = malloc(bytes + 1);
  if (!copy || !vec_push(&d->attributes, (cudnn_attribute){name, type, count, copy})) {
    free(copy);
    return CUDNN_NO_HOST_MEMORY;
  }
  if (bytes) memcpy(copy, values, bytes);
  cudnn_descriptor *const *parts = copy;
  for (int64_t i = 0; i < count && type == CUDNN_TYPE_DESCRIPTOR; i++)
    if (parts[i]) parts[i]->users++;
  return CARD_OK;
}

STAND_IN int cudnnBackendSetAttribute(cudnn_descriptor *d, int name, int type, int64_t count,
                                      const void *values) {
  if (!d || count < 0 || (count > 0 && !values)) return CUDNN_BAD_PARAMETER;
  return d->type == CUDNN_ARGUMENTS ? CARD_OK : remember(d, name, type, count, values);
}

const cudnn_attribute *cudnn_attribute_of(const cudnn_descriptor *d, int name) {
  for (size_t i = d ? d->attributes.len : 0; i-- > 0;)
    if (d->attributes.at[i].name == name) return &d->attributes.at[i];
  return NULL;
}

cudnn_descriptor *cudnn_part(const cudnn_descriptor *d, int name) {
  const cudnn_attribute *a = cudnn_attribute_of(d, name);
  bool is_reference = a && a->type == CUDNN_TYPE_DESCRIPTOR && a->count > 0;
  return is_reference ? *(cudnn_descriptor **)a->values : NULL;
}

const int64_t *cudnn_numbers(const cudnn_descriptor *d, int name, int64_t count) {
  const cudnn_attribute *a = cudnn_attribute_of(d, name);
  return a && a->type == CUDNN_TYPE_INT64 && a->count >= count ? a->values : NULL;
}

// ---- what a graph contains --------------------------------------------------------------------------------

typedef struct {
  vec(const cudnn_descriptor *) tensors; // those in memory, with four dimensions
  const cudnn_descriptor *convolution;   // NULL: there is none
  bool is_in_library;                    // a part was repeated in the real library
} contents;

static bool is_stored(const cudnn_descriptor *d) {
  const cudnn_attribute *size = cudnn_attribute_of(d, CUDNN_TENSOR_DIMENSIONS);
  const cudnn_attribute *is_virtual = cudnn_attribute_of(d, CUDNN_TENSOR_IS_VIRTUAL);
  bool has_four = size && size->type == CUDNN_TYPE_INT64 && size->count == 4;
  return d->type == CUDNN_TENSOR && has_four && !(is_virtual && *(bool *)is_virtual->values);
}

static void collect(cudnn_descriptor *d, contents *out) {
  if (!d || d->is_seen) return;
  d->is_seen = true;
  if (is_stored(d)) vec_push(&out->tensors, d);
  if (d->type >= CUDNN_CONVOLUTION_FORWARD && d->type <= CUDNN_CONVOLUTION_DATA)
    out->convolution = d;
  if (d->real) out->is_in_library = true;
  for (size_t i = 0; i < d->attributes.len; i++) {
    const cudnn_attribute *a = &d->attributes.at[i];
    cudnn_descriptor **parts = a->values;
    for (int64_t k = 0; k < a->count && a->type == CUDNN_TYPE_DESCRIPTOR; k++)
      collect(parts[k], out);
  }
}

static void forget(cudnn_descriptor *d) {
  if (!d || !d->is_seen) return;
  d->is_seen = false;
  for (size_t i = 0; i < d->attributes.len; i++) {
    const cudnn_attribute *a = &d->attributes.at[i];
    cudnn_descriptor **parts = a->values;
    for (int64_t k = 0; k < a->count && a->type == CUDNN_TYPE_DESCRIPTOR; k++) forget(parts[k]);
  }
}

static contents contents_of(cudnn_descriptor *d) {
  contents c = {0};
  collect(d, &c);
  forget(d);
  return c;
}

// ---- workspaces -----------------------------------------------------------------------------------------

// Fused attention: 256 bytes, and in the backward pass, with fewer key heads than query heads, the gradients of keys and
// values for every query head. Fitted to recordings; core/ops/attention.c has the same sizes together with those that
// cuDNN's frontend, which is part of PyTorch, adds by itself.
typedef struct {
  int64_t batch, heads, queries, key_heads, keys, width;
  bool is_backward;
} attention;

// Queries, keys, values, the output and a bias in the forward pass; in the backward pass also the gradients of all but the
// bias.
enum { TABLES_OF_BACKWARD = 8 };

static const int64_t *size_of(const contents *c, size_t i) {
  return cudnn_numbers(c->tensors.at[i], CUDNN_TENSOR_DIMENSIONS, 4);
}

// Keys and values have as many heads as each other; a bias for all heads is alone.
static bool has_pair(const contents *c, int64_t heads) {
  int count = 0;
  for (size_t i = 0; i < c->tensors.len; i++)
    count += size_of(c, i)[3] > 1 && size_of(c, i)[1] == heads;
  return count > 1;
}

static attention attention_of(const contents *c) {
  int64_t batch = 0, heads = 0, key_heads = 0, keys = 0, width = 0, products = 0, queries = 0;
  int64_t tables = 0;
  for (size_t i = 0; i < c->tensors.len; i++) {
    const int64_t *size = size_of(c, i);
    bool is_table = size[3] > 1 && size[1] >= heads;
    if (!is_table) continue;
    if (size[1] > heads) width = INT64_MAX;
    batch = size[0], heads = size[1];
    if (size[3] < width) width = size[3]; // keys are also there transposed
    if (size[2] < width) width = size[2];
  }
  for (size_t i = 0; i < c->tensors.len; i++) {
    const int64_t *size = size_of(c, i);
    // Transposed. Queries look the same if they are as many as a head is wide, but do not have fewer heads.
    bool is_keys = size[3] > 1 && size[2] == width && has_pair(c, size[1]);
    bool is_fewer = is_keys && (!key_heads || size[1] < key_heads);
    tables += size[3] > 1;
    if (is_fewer) products = 0;
    products += is_keys && (is_fewer || size[1] == key_heads);
    if (is_fewer) key_heads = size[1], keys = size[3];
  }
  for (size_t i = 0; i < c->tensors.len; i++) {
    const int64_t *size = size_of(c, i);
    if (size[1] == heads && size[3] == width) queries = size[2];
  }
  // Backward multiplies by keys and by values, both transposed; squares do not show whether they are.
  bool is_backward = keys == width ? tables >= TABLES_OF_BACKWARD : products > 1;
  return (attention){batch, heads, queries, key_heads, keys, width, is_backward};
}

static int64_t attention_workspace(const contents *c) {
  attention a = attention_of(c);
  bool has_sums = a.is_backward && a.key_heads < a.heads;
  return 256 + (has_sums ? a.batch * a.heads * a.keys * a.width * 4 : 0);
}

static int64_t workspace_of(cudnn_descriptor *plan) {
  contents c = contents_of(plan);
  int64_t bytes = c.convolution ? convolution_workspace(c.convolution) : attention_workspace(&c);
  vec_free(&c.tensors);
  return bytes;
}

// The real library repeats the engines, heuristics and plans of convolutions.
STAND_IN int cudnnBackendFinalize(cudnn_descriptor *d) {
  bool is_planning = d && d->type >= CUDNN_ENGINE && d->type <= CUDNN_PLAN;
  if (!is_planning) return CARD_OK;
  contents c = contents_of(d);
  vec_free(&c.tensors);
  bool is_for_library = (c.convolution || c.is_in_library) && cudnn_library_is_usable();
  return is_for_library && !d->real ? cudnn_library_repeat(d) : CARD_OK;
}

// ---- executing ------------------------------------------------------------------------------------------

// Whether attention is causal is not known: it is assumed to be if there are as many queries as keys.
static cudnn_shape shape_of(cudnn_descriptor *plan) {
  contents c = contents_of(plan);
  cudnn_shape shape = {.is_known = true, .is_attention = !c.convolution, .bits = 16};
  if (c.convolution) convolution_products(c.convolution, &shape);
  else {
    attention a = attention_of(&c);
    double share = a.queries == a.keys ? 0.5 : 1;
    shape.pairs = share * (double)a.batch * (double)a.heads * (double)a.queries * (double)a.keys;
    shape.width = (double)a.width;
    shape.is_backward = a.is_backward;
  }
  vec_free(&c.tensors);
  return shape;
}

STAND_IN int cudnnBackendExecute(void *handle, cudnn_descriptor *plan, void *arguments) {
  (void)handle, (void)arguments;
  if (!plan) return CUDNN_BAD_PARAMETER;
  if (!plan->shape.is_known) plan->shape = shape_of(plan);
  const cudnn_shape *s = &plan->shape;
  plim_compute compute = s->bits > 16 ? PLIM_COMPUTE_FP32 : PLIM_COMPUTE_FP16;
  if (s->is_attention)
    card_time_attention(compute, PLIM_SDPA_CUDNN, s->pairs, s->width, s->is_backward);
  else card_time_products(compute, s->m, s->n, s->k, 1);
  return CARD_OK;
}

// A configuration refers to its graph through the heuristic that found it.
static int lead_back(cudnn_descriptor **configurations, int64_t count, cudnn_descriptor *to) {
  int status = CARD_OK;
  for (int64_t i = 0; i < count && !status; i++)
    status = remember(configurations[i], CUDNN_HEURISTIC_RESULTS, CUDNN_TYPE_DESCRIPTOR, 1, &to);
  return status;
}

static int ask_library(cudnn_descriptor *d, int name, int type, int64_t wanted, int64_t *count,
                       void *values) {
  int status = cudnn_library_get(d, name, type, wanted, count, values);
  if (status || !values) return status;
  if (name == CUDNN_HEURISTIC_RESULTS) return lead_back(values, wanted, d);
  if (name == CUDNN_PLAN_WORKSPACE) {
    contents c = contents_of(d);
    vec_free(&c.tensors);
    *(int64_t *)values = convolution_planned(c.convolution, *(int64_t *)values);
  }
  return status;
}

STAND_IN int cudnnBackendGetAttribute(cudnn_descriptor *d, int name, int type, int64_t wanted,
                                      int64_t *count, void *values) {
  if (!d) return CUDNN_BAD_PARAMETER;
  if (d->real) return ask_library(d, name, type, wanted, count, values);
  int64_t found = 0;
  switch (name) {
  case CUDNN_HEURISTIC_RESULTS: // one configuration
    found = 1;
    if (values && wanted > 0 && lead_back(values, 1, d)) return CUDNN_NO_HOST_MEMORY;
    break;
  case CUDNN_PLAN_WORKSPACE:
    found = 1;
    if (values) *(int64_t *)values = workspace_of(d);
    break;
  case CUDNN_CONFIGURATION_SHARED_MEMORY:
    found = 1;
    if (values) *(int32_t *)values = 0;
    break;
  case CUDNN_CONFIGURATION_WORKSPACE:
    found = 1;
    if (values) *(int64_t *)values = 0;
    break;
  case CUDNN_ENGINE_INDEX:
    found = 1;
    if (values) *(int64_t *)values = 1;
    break;
  default: break;
  }
  if (count) *count = found;
  return CARD_OK;
}
