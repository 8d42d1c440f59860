// cuDNN's recurrent layers. PyTorch asks for the size of their weights and for the place of each. The sizes of temporary
// buffers are known only to the real library.
#include <stdlib.h>

#include "card.h"
#include "cudnn_graph.h"

// ---- tensors --------------------------------------------------------------------------------------------

enum { DIMENSIONS = 3 };

// The contents of a tensor's descriptor, if cudnnGetRNNWeightParams has filled it. Others stay empty, since they are never
// read.
typedef struct {
  int type, sizes[DIMENSIONS];
} tensor;

STAND_IN int cudnnCreateTensorDescriptor(tensor **out) {
  *out = calloc(1, sizeof **out);
  return *out ? CARD_OK : CUDNN_NO_HOST_MEMORY;
}

STAND_IN int cudnnDestroyTensorDescriptor(tensor *t) {
  free(t);
  return CARD_OK;
}

STAND_IN int cudnnGetTensorNdDescriptor(const tensor *t, int wanted, int *type, int *count,
                                        int sizes[], int strides[]) {
  if (!t || !count) return CUDNN_BAD_PARAMETER;
  if (type) *type = t->type;
  *count = t->sizes[0] ? DIMENSIONS : 0;
  for (int i = *count - 1, stride = 1; i >= 0; i--) {
    if (i < wanted && sizes) sizes[i] = t->sizes[i];
    if (i < wanted && strides) strides[i] = stride;
    stride *= t->sizes[i];
  }
  return CARD_OK;
}

// ---- layers ---------------------------------------------------------------------------------------------

enum { LSTM = 2, GRU = 3 };                                             // cudnnRNNMode_t
enum { NO_BIAS = 0, INPUT_BIAS = 1, BOTH_BIASES = 2, HIDDEN_BIAS = 3 }; // cudnnRNNBiasMode_t

typedef struct {
  int cell, biases, type, input, hidden, output, layers, directions;
} recurrent;

STAND_IN int cudnnCreateRNNDescriptor(recurrent **out) {
  *out = calloc(1, sizeof **out);
  return *out ? CARD_OK : CUDNN_NO_HOST_MEMORY;
}

STAND_IN int cudnnDestroyRNNDescriptor(recurrent *r) {
  free(r);
  return CARD_OK;
}

STAND_IN int cudnnSetRNNDescriptor_v8(recurrent *r, int algorithm, int cell, int biases,
                                      int direction, int input_mode, int type, int math_type,
                                      int math, int32_t input, int32_t hidden, int32_t projection,
                                      int32_t layers) {
  (void)algorithm, (void)input_mode, (void)math_type, (void)math;
  if (!r || input < 1 || hidden < 1 || layers < 1) return CUDNN_BAD_PARAMETER;
  int output = projection > 0 ? projection : hidden;
  *r = (recurrent){cell, biases, type, input, hidden, output, layers, direction ? 2 : 1};
  return CARD_OK;
}

static int gates_of(const recurrent *r) { return r->cell == LSTM ? 4 : r->cell == GRU ? 3 : 1; }

static bool has_projection(const recurrent *r) { return r->output < r->hidden; }

// A layer has one matrix for every gate that multiplies its input, as many that multiply its state, and the projection.
static int matrices_of(const recurrent *r) { return 2 * gates_of(r) + has_projection(r); }

static tensor matrix_of(const recurrent *r, int layer, int number) {
  int from_below = layer < r->directions ? r->input : r->output * r->directions;
  if (number >= 2 * gates_of(r)) return (tensor){r->type, {1, r->output, r->hidden}};
  return (tensor){r->type, {1, r->hidden, number < gates_of(r) ? from_below : r->output}};
}

static tensor bias_of(const recurrent *r, int number) {
  bool is_state = number >= gates_of(r), is_gate = number < 2 * gates_of(r);
  bool is_there =
      is_gate && (r->biases == BOTH_BIASES || r->biases == (is_state ? HIDDEN_BIAS : INPUT_BIAS));
  return is_there ? (tensor){r->type, {1, r->hidden, 1}} : (tensor){.type = r->type};
}

static size_t count_of(tensor t) {
  return (size_t)t.sizes[0] * (size_t)t.sizes[1] * (size_t)t.sizes[2];
}

static size_t element_bytes(const recurrent *r) { return r->type == 0 ? 4 : r->type == 1 ? 8 : 2; }

// The number of elements in front of matrix `number` of a layer; with number = matrices_of(r), the end of the layer. All
// matrices lie in front of all biases.
static size_t matrices_before(const recurrent *r, int layer, int number) {
  size_t sum = 0;
  for (int i = 0; i <= layer; i++)
    for (int k = 0; k < (i < layer ? matrices_of(r) : number); k++)
      sum += count_of(matrix_of(r, i, k));
  return sum;
}

static size_t biases_before(const recurrent *r, int layer, int number) {
  size_t of_layer = 0, before = 0;
  for (int k = 0; k < matrices_of(r); k++) {
    of_layer += count_of(bias_of(r, k));
    if (k < number) before += count_of(bias_of(r, k));
  }
  return (size_t)layer * of_layer + before;
}

static size_t elements_of(const recurrent *r) {
  int last = r->layers * r->directions - 1, all = matrices_of(r);
  return matrices_before(r, last, all) + biases_before(r, last, all);
}

STAND_IN int cudnnGetRNNWeightSpaceSize(void *handle, const recurrent *r, size_t *bytes) {
  (void)handle;
  if (!r || !r->layers) return CUDNN_BAD_PARAMETER;
  *bytes = elements_of(r) * element_bytes(r);
  return CARD_OK;
}

STAND_IN int cudnnGetRNNWeightParams(void *handle, const recurrent *r, int32_t layer, size_t bytes,
                                     const char *start, int32_t number, tensor *matrix,
                                     const void **matrix_start, tensor *bias,
                                     const void **bias_start) {
  (void)handle, (void)bytes;
  bool is_there = r && layer >= 0 && layer < r->layers * r->directions && number >= 0 &&
                  number < matrices_of(r);
  if (!is_there) return CUDNN_BAD_PARAMETER;
  int last = r->layers * r->directions - 1;
  size_t matrices = matrices_before(r, last, matrices_of(r)), element = element_bytes(r);
  size_t before = matrices + biases_before(r, layer, number);
  tensor this_matrix = matrix_of(r, layer, number), this_bias = bias_of(r, number);
  if (matrix) *matrix = this_matrix;
  if (bias) *bias = this_bias;
  if (matrix_start) *matrix_start = start + matrices_before(r, layer, number) * element;
  if (bias_start) *bias_start = count_of(this_bias) ? start + before * element : NULL;
  return CARD_OK;
}

// ---- sizes that are not known ---------------------------------------------------------------------------

static int unknown_size(const char *function, size_t *bytes) {
  card_unmodelled_call(function);
  if (bytes) *bytes = 0;
  return CARD_OK;
}

STAND_IN int cudnnGetRNNTempSpaceSizes(void *handle, const recurrent *r, int mode, void *input,
                                       size_t *workspace, size_t *kept) {
  (void)handle, (void)r, (void)mode, (void)input;
  if (kept) *kept = 0;
  return unknown_size("cudnnGetRNNTempSpaceSizes", workspace);
}

STAND_IN int cudnnDropoutGetStatesSize(void *handle, size_t *bytes) {
  (void)handle;
  return unknown_size("cudnnDropoutGetStatesSize", bytes);
}

STAND_IN int cudnnGetCTCLossWorkspaceSize(void *handle, void *probabilities, void *gradients,
                                          const int *labels, const int *label_lengths,
                                          const int *lengths, int algorithm, void *loss,
                                          size_t *bytes) {
  (void)handle, (void)probabilities, (void)gradients, (void)labels, (void)label_lengths;
  (void)lengths, (void)algorithm, (void)loss;
  return unknown_size("cudnnGetCTCLossWorkspaceSize", bytes);
}

STAND_IN int cudnnGetCTCLossWorkspaceSize_v8(void *handle, int algorithm, void *loss,
                                             void *probabilities, void *gradients, size_t *bytes) {
  (void)handle, (void)algorithm, (void)loss, (void)probabilities, (void)gradients;
  return unknown_size("cudnnGetCTCLossWorkspaceSize_v8", bytes);
}
