// cuDNN chooses a kernel by tables that only it has. The convolutions of common models were measured on an H200 and are
// looked up. For others there is a rule, fitted to 6,816 plans measured on an H200 with cuDNN 9.19 (float16, bfloat16 and
// float32, contiguous and channels_last): 69 % of the sizes are right to 512 bytes, 75 % to a tenth of the convolution's
// own tensors. Most of the others split a sum over blocks in a way that the rule does not follow.
#include "convolution.h"

#include <string.h>

#include "card.h"
#include "cudnn_library.h"

// cudnnDataType_t
enum { TYPE_FLOAT = 0, TYPE_DOUBLE = 1, TYPE_INT32 = 4 };

typedef struct {
  int type; // cudnnDataType_t
  const int64_t *sizes;
  int64_t dimensions;
  int64_t channels
      [2]; // as the first two dimensions are: (batch, channels), (outputs, channels of a group)
  int64_t pixels; // product of the other dimensions
  bool is_channels_last;
  int64_t element_bytes;
} table;

typedef struct {
  int type; // CUDNN_CONVOLUTION_FORWARD, _WEIGHTS or _DATA
  table input, weights, output;
  const int64_t *strides, *paddings, *dilations;
  bool is_pointwise;   // a 1x1 kernel that reads every pixel: a matrix product
  bool is_overlapping; // a kernel is wider than its stride
  bool is_wide;        // an overlapping one of 7 pixels or more
} convolution;

// ---- reading the operation --------------------------------------------------------------------------------

static bool read_table(const cudnn_descriptor *tensor, table *out) {
  const cudnn_attribute *size = cudnn_attribute_of(tensor, CUDNN_TENSOR_DIMENSIONS);
  const cudnn_attribute *type = cudnn_attribute_of(tensor, CUDNN_TENSOR_DATA_TYPE);
  const int64_t *strides = cudnn_numbers(tensor, CUDNN_TENSOR_STRIDES, 3);
  if (!size || size->type != CUDNN_TYPE_INT64 || size->count < 3 || !type || !strides) return false;
  const int64_t *sizes = size->values;
  int number = *(const int *)type->values;
  *out = (table){
      number, sizes, size->count, {sizes[0], sizes[1]}, 1, strides[1] == 1 && sizes[1] > 1, 2};
  for (int64_t i = 2; i < size->count; i++) out->pixels *= sizes[i];
  if (number == TYPE_FLOAT || number == TYPE_INT32) out->element_bytes = 4;
  if (number == TYPE_DOUBLE) out->element_bytes = 8;
  return sizes[0] > 0 && sizes[1] > 0 && out->pixels > 0;
}

static bool is_filled(const int64_t *numbers, int64_t count, int64_t value) {
  for (int64_t i = 0; i < count; i++)
    if (numbers[i] != value) return false;
  return true;
}

static bool read_steps(const cudnn_descriptor *how, convolution *out) {
  int64_t count = out->weights.dimensions - 2;
  const int64_t *kernel = out->weights.sizes + 2;
  const int64_t *strides = out->strides = cudnn_numbers(how, CUDNN_STRIDES, count);
  const int64_t *paddings = out->paddings = cudnn_numbers(how, CUDNN_PADDINGS, count);
  out->dilations = cudnn_numbers(how, CUDNN_DILATIONS, count);
  if (!strides || !paddings || !out->dilations) return false;
  out->is_pointwise =
      out->weights.pixels == 1 && is_filled(strides, count, 1) && is_filled(paddings, count, 0);
  for (int64_t i = 0; i < count; i++) {
    if (kernel[i] > strides[i]) out->is_overlapping = true;
    if (kernel[i] > strides[i] && kernel[i] >= 7) out->is_wide = true;
  }
  return true;
}

static bool read_convolution(const cudnn_descriptor *operation, convolution *out) {
  int how = operation->type == CUDNN_CONVOLUTION_FORWARD ? CUDNN_FORWARD_CONVOLUTION
            : operation->type == CUDNN_CONVOLUTION_DATA  ? CUDNN_DATA_CONVOLUTION
                                                         : CUDNN_WEIGHTS_CONVOLUTION;
  *out = (convolution){.type = operation->type};
  return read_table(cudnn_part(operation, how + 1), &out->weights) &&
         read_table(cudnn_part(operation, how + 2), &out->input) &&
         read_table(cudnn_part(operation, how + 3), &out->output) &&
         out->input.dimensions == out->weights.dimensions &&
         out->input.channels[1] >= out->weights.channels[1] &&
         read_steps(cudnn_part(operation, how), out);
}

// ---- what was recorded ------------------------------------------------------------------------------------

enum { KEYS = 13 };

typedef struct {
  int16_t key[KEYS];
  uint32_t bytes[3]; // in the order of the types: forward, weights, data
} recorded_plan;

#define RECORDED(type, last, n, c, h, w, k, kh, kw, stride, ph, pw, groups, forward, data,         \
                 weights)                                                                          \
  {{type, last, n, c, h, w, k, kh, kw, stride, ph, pw, groups}, {forward, weights, data}},
static const recorded_plan recorded[] = {
#include "recorded_convolutions.h"
};

// The recordings are of one card and one version of cuDNN.
static bool is_recorded_card(void) {
  size_t version = cudnn_library_version();
  return strcmp(card()->gpu->name, "H200") == 0 && (!version || version == 91900);
}

// -1 if it was not recorded.
static int64_t recorded_workspace(const convolution *c) {
  const int64_t *x = c->input.sizes, *w = c->weights.sizes, *s = c->strides, *p = c->paddings;
  bool is_even = c->input.dimensions == 4 && (s[0] == s[1] || x[2] == 1);
  if (!is_even || !is_filled(c->dilations, 2, 1) || !is_recorded_card()) return -1;
  if (c->input.is_channels_last != c->output.is_channels_last) return -1;
  const int64_t key[KEYS] = {c->input.type, c->input.is_channels_last,
                             x[0],          x[1],
                             x[2],          x[3],
                             w[0],          w[2],
                             w[3],          s[1],
                             p[0],          p[1],
                             x[1] / w[1]};
  for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++) {
    size_t same = 0;
    while (same < KEYS && recorded[i].key[same] == key[same]) same++;
    if (same == KEYS) return recorded[i].bytes[c->type - CUDNN_CONVOLUTION_FORWARD];
  }
  return -1;
}

// ---- the rule ---------------------------------------------------------------------------------------------

static int64_t padded(int64_t channels, int64_t to) { return (channels + to - 1) / to * to; }

static int64_t bytes_of(const table *t) {
  return t->channels[0] * t->channels[1] * t->pixels * t->element_bytes;
}

// Tensor cores read the channels of a pixel side by side, 16 bytes at a time: other tensors are copied into that form.
// Images of few channels have a form of their own for wide kernels.
static int64_t copies(const convolution *c) {
  const table *x = &c->input, *w = &c->weights, *y = &c->output;
  int64_t aligned = 16 / x->element_bytes;
  bool is_image = c->is_wide && x->channels[1] <= 4 && c->type != CUDNN_CONVOLUTION_DATA;
  int64_t inputs = is_image ? 4 : aligned;
  int64_t pixels = x->channels[0] * x->pixels * padded(x->channels[1], inputs) +
                   y->channels[0] * y->pixels * padded(y->channels[1], aligned);
  int64_t weights = padded(w->channels[0], aligned) * padded(w->channels[1], inputs) * w->pixels;
  if (w->pixels == 1) weights = 0;
  return (pixels + weights) * x->element_bytes + 16;
}

// The gradient of the weights is a sum over all pixels. Where it has few tiles of 128 x 128, each is computed in parts of
// 4096 pixels or more, as many as run at once; with many tiles, as many as run at once are cut in two. Every part is kept
// in float32. On an H200 120 run at once on 132 multiprocessors: those that make whole clusters.
static int64_t sums(const convolution *c) {
  const table *w = &c->weights, *y = &c->output;
  bool is_sum = c->type == CUDNN_CONVOLUTION_WEIGHTS;
  if (!is_sum || c->input.channels[1] * c->input.element_bytes < 16) return 0;
  int64_t tiles = (w->channels[0] + 127) / 128 * ((w->channels[1] * w->pixels + 127) / 128);
  int64_t at_once = card()->multiprocessors * 10 / 11;
  int64_t parts = y->channels[0] * y->pixels / 4096, most = at_once / tiles;
  bool is_cut = tiles > at_once && parts > 0 && !c->is_pointwise;
  if (parts > most) parts = most;
  int64_t kept = parts > 1 ? parts * tiles : is_cut ? at_once : 0;
  return kept * 128 * 128 * 4;
}

// A 1x1 kernel is a matrix product for every image, unless images are so small that it is one for all of them.
static int64_t pointwise_workspace(const convolution *c) {
  const table *x = &c->input, *y = &c->output;
  int64_t copied = bytes_of(x) + bytes_of(y) + 16;
  if (x->is_channels_last || y->is_channels_last) return 0;
  if (c->type != CUDNN_CONVOLUTION_WEIGHTS) {
    bool is_one = x->pixels < 64 && x->channels[0] >= 32 && x->element_bytes == 2;
    return is_one ? copied : 0;
  }
  int64_t images = x->channels[0] * x->channels[1] * y->channels[1] * 4; // in float32
  return images < copied + sums(c) ? images : copied + sums(c);
}

static int64_t workspace(const convolution *c) {
  int64_t inputs = c->input.channels[1], outputs = c->output.channels[1];
  int64_t groups = inputs / c->weights.channels[1], aligned = 16 / c->input.element_bytes;
  bool is_last = c->input.is_channels_last || c->output.is_channels_last;
  bool is_depthwise = groups > 1 && groups == inputs;
  if (is_depthwise) return 0;
  if (c->is_pointwise && groups == 1) return pointwise_workspace(c);
  bool is_aligned = inputs / groups % aligned == 0 && outputs / groups % aligned == 0;
  bool has_few = inputs < aligned;
  bool is_image = c->is_wide && inputs <= 4 && c->input.channels[0] >= 8;
  if (is_last && (is_aligned || c->type == CUDNN_CONVOLUTION_FORWARD)) return 0;
  if (c->input.element_bytes >= 4 && !is_aligned) return 0;
  if (c->type == CUDNN_CONVOLUTION_FORWARD && has_few && c->is_overlapping && !is_image) return 0;
  if (c->type == CUDNN_CONVOLUTION_DATA && has_few && !c->is_overlapping) return 0;
  return copies(c) + sums(c);
}

int64_t convolution_workspace(const cudnn_descriptor *operation) {
  convolution c;
  bool is_read = read_convolution(operation, &c);
  int64_t bytes = is_read ? recorded_workspace(&c) : -1;
  if (bytes >= 0) return bytes;
  card_unmodelled_call("convolution workspaces; more exact with nvidia-cudnn installed");
  return is_read ? workspace(&c) : 0;
}

// From Hopper on, some kernels split their sums by the number of clusters that a real card reports. Of 6,816 plans for an
// H200, 90 % have the measured workspace to 512 bytes; in the others, a few copies of the weights are missing.
int64_t convolution_planned(const cudnn_descriptor *operation, int64_t planned_bytes) {
  convolution c;
  if (card()->major < 9 || !operation || !read_convolution(operation, &c)) return planned_bytes;
  int64_t bytes = recorded_workspace(&c), copied = copies(&c), whole = copied + sums(&c);
  if (bytes >= 0) return bytes;
  card_unmodelled_call("convolution workspaces on Hopper and later GPUs");
  if (planned_bytes < copied || planned_bytes >= whole) return planned_bytes;
  card_unmodelled_call("workspaces of weight gradients (partly estimated)");
  return whole;
}

void convolution_products(const cudnn_descriptor *operation, cudnn_shape *shape) {
  convolution c;
  if (!read_convolution(operation, &c)) return;
  shape->m = (double)c.output.channels[0] * (double)c.output.pixels;
  shape->n = (double)c.output.channels[1];
  shape->k = (double)c.weights.channels[1] * (double)c.weights.pixels;
  shape->bits = (int)(8 * c.input.element_bytes);
}
