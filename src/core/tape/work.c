#include "work.h"

#include <math.h>

#include "clock.h"
#include "tape_impl.h"

// ---- constants ------------------------------------------------------------------------------------
// Measured on an H200 with torch 2.11; the tables are in docs/measurements.md, "The clock".

// The rates of kernels are in kernel_rates.h.

static const struct {
  double uneven; // elements per second per float32 FLOP/s: elementwise kernels that widen,
                 // broadcast or follow strides, which load elements one by one
  double listed; // the same for accesses of multi-tensor kernels
} card = {.uneven = 390e9 / 66.9e12, .listed = 1300e9 / 66.9e12};

// The CPU, of the same host as in kernel_rates.h.
static const struct {
  double hook_seconds;      // a saved tensor through a Python hook, with its garbage
  double parameter_seconds; // one iteration of a Python loop over parameters
  double walk_seconds;      // Trainer's walks over the modules, per operator of forward
  double triton_seconds;    // a kernel of Liger-Kernel: its Python and Triton's launch
} host = {.hook_seconds = 22e-6,
          .parameter_seconds = 9e-6,
          .walk_seconds = 2.7e-6,
          .triton_seconds = 500e-6};

// ---- the two timelines ----------------------------------------------------------------------------

static void note_work(plim_tape *t, fold_work_kind kind, double amount) {
  if (t->fold.is_recording) fold_note_work(t, kind, amount);
  if (t->passes.is_recording) pass_note_work(t, (fold_work){.kind = kind, .amount = amount});
}

static void cpu_works(plim_tape *t, double seconds) {
  if (!clock_is_on(t)) return;
  note_work(t, FOLD_CPU, seconds);
  t->clock.cpu += seconds;
}

static void launch(plim_tape *t, double seconds) {
  struct tape_clock *c = &t->clock;
  note_work(t, FOLD_LAUNCH, seconds);
  c->cpu += PLIM_LAUNCH_SECONDS;
  seconds += PLIM_KERNEL_SECONDS;
  c->gpu_free = clock_later(c->gpu_free, c->cpu) + seconds;
  c->now.busy_seconds += seconds;
  c->now.kernels++;
}

static void add_flops(plim_tape *t, fold_work_kind kind, double flops) {
  note_work(t, kind, flops);
  if (kind == FOLD_RECOMPUTED_FLOPS) t->clock.now.recomputed_flops += flops;
  else t->clock.now.flops += flops;
}

static void count_flops(plim_tape *t, double flops) {
  add_flops(t, t->state.is_recomputing ? FOLD_RECOMPUTED_FLOPS : FOLD_FLOPS, flops);
}

void plim_work_operator(plim_tape *t) {
  cpu_works(t, PLIM_OPERATOR_SECONDS);
  t->clock.operators += !t->state.is_recomputing;
}

void plim_work_trainer(plim_tape *t) {
  plim_work_synchronize(t);
  cpu_works(t, host.walk_seconds * (double)t->clock.operators);
  t->clock.operators = 0;
}

void plim_work_node(plim_tape *t) { cpu_works(t, PLIM_NODE_SECONDS); }
void plim_work_triton(plim_tape *t) { cpu_works(t, host.triton_seconds); }
void plim_work_hook(plim_tape *t) { cpu_works(t, host.hook_seconds); }
void plim_work_parameters(plim_tape *t, size_t count) {
  cpu_works(t, host.parameter_seconds * (double)count);
}

void plim_work_cpu(plim_tape *t, double seconds) { cpu_works(t, seconds); }

void plim_work_modules(plim_tape *t, uint32_t count) {
  cpu_works(t, t->clock.visit_seconds * count);
  t->clock.modules += t->state.is_recomputing ? 0 : count;
}

void plim_work_hook_modules(plim_tape *t, double seconds) { t->clock.visit_seconds = seconds; }

uint32_t plim_work_take_modules(plim_tape *t) {
  uint32_t count = t->clock.modules;
  t->clock.modules = 0;
  return count;
}

void plim_work_ends_longer(plim_tape *t) { t->clock.ends_longer = true; }

void plim_work_synchronize(plim_tape *t) {
  if (t->fold.is_recording) fold_fail(t);
  if (t->passes.is_recording) pass_note_work(t, (fold_work){.kind = FOLD_SYNCHRONIZE});
  t->clock.cpu = t->clock.gpu_free = clock_later(t->clock.cpu, t->clock.gpu_free);
}

void plim_work_step_begin(plim_tape *t) {
  plim_work_synchronize(t);
  t->clock.began = t->clock.pass_began = t->clock.cpu;
  t->clock.operators = 0;
  t->clock.now = (plim_step_time){0};
  pass_forget_moments(t);
}

void plim_work_pass_end(plim_tape *t) {
  if (t->passes.is_recording) pass_note_work(t, (fold_work){.kind = FOLD_PASS_END});
  double now = clock_later(t->clock.cpu, t->clock.gpu_free);
  double seconds = now - t->clock.pass_began - t->clock.once;
  uint32_t passes = ++t->clock.now.passes;
  bool is_alike = passes == 1 || (passes == 2 && !t->clock.ends_longer);
  t->clock.now.pass_seconds = is_alike ? seconds : t->clock.pass_before;
  t->clock.pass_before = seconds;
  t->clock.pass_began = now;
  t->clock.once = 0;
}

void plim_work_step_end(plim_tape *t) {
  plim_work_synchronize(t);
  t->clock.last = t->clock.now;
  t->clock.last.seconds = t->clock.cpu - t->clock.began;
}

void work_again(plim_tape *t, const fold_work *w) {
  switch (w->kind) {
  case FOLD_CPU: cpu_works(t, w->amount); break;
  case FOLD_LAUNCH: launch(t, w->amount); break;
  case FOLD_FLOPS:
  case FOLD_RECOMPUTED_FLOPS: add_flops(t, w->kind, w->amount); break;
  case FOLD_SYNCHRONIZE: plim_work_synchronize(t); break;
  case FOLD_PASS_END: plim_work_pass_end(t); break;
  default: traffic_again(t, w);
  }
}

plim_step_time plim_clock_last_step(const plim_tape *t) { return t->clock.last; }

// ---- kernels that move bytes ----------------------------------------------------------------------

static double stream_seconds(const plim_tape *t, double bytes) {
  return plim_stream_seconds(t->gpu, bytes);
}

static double uneven_seconds(const plim_tape *t, double elements) {
  return elements / (t->gpu->fp32_tflops * 1e12 * card.uneven);
}

// Repeated elements, and storage that is only partly visible, are counted once.
double plim_bytes_of(const plim_tensor *x) {
  if (!x) return 0;
  double seen = (double)plim_numel(&x->shape) * plim_dtype_bytes[x->dtype];
  return fmin(seen, (double)x->storage->bytes);
}

// Whether a kernel can load x in vectors, with the same layout as its output.
static bool is_plain(const plim_tensor *x, const plim_tensor *out) {
  if (!x || !x->shape.n) return true;
  return plim_same(&x->shape, &out->shape) && plim_same(&x->stride, &out->stride) &&
         plim_dtype_bytes[x->dtype] >= plim_dtype_bytes[out->dtype] && plim_is_dense(x);
}

void plim_work_bytes(plim_tape *t, double bytes) {
  if (clock_is_on(t)) launch(t, stream_seconds(t, bytes));
}

void plim_work_map(plim_tape *t, const plim_tensor *a, const plim_tensor *b, plim_tensor *out) {
  out->storage->is_written = true;
  if (!clock_is_on(t) || !out->storage->bytes) return;
  double seconds = stream_seconds(t, plim_bytes_of(a) + plim_bytes_of(b) + plim_bytes_of(out));
  if (!is_plain(a, out) || !is_plain(b, out))
    seconds = fmax(seconds, uneven_seconds(t, (double)plim_numel(&out->shape)));
  launch(t, seconds);
}

void plim_work_default(plim_tape *t, const plim_tensor *a, const plim_tensor *b, plim_tensor *out) {
  bool is_view = (a && a->storage == out->storage) || (b && b->storage == out->storage);
  if (!out->storage->is_written && !is_view) plim_work_map(t, a, b, out);
}

void plim_work_sum(plim_tape *t, const plim_tensor *x, bool over_rows, plim_tensor *out) {
  out->storage->is_written = true;
  if (!clock_is_on(t)) return;
  double seconds = stream_seconds(t, plim_bytes_of(x));
  launch(t, over_rows ? seconds : fmax(seconds, uneven_seconds(t, (double)plim_numel(&x->shape))));
}

// Rows of up to 1024 elements stay in registers; longer ones are read again for the sum (and the maximum).
void plim_work_softmax(plim_tape *t, int inputs, plim_tensor *out) {
  out->storage->is_written = true;
  bool is_long = out->shape.n && out->shape.at[out->shape.n - 1] > 1024;
  int again = !is_long ? 0 : inputs == 1 ? 2 : 1;
  plim_work_bytes(t, (inputs + again + 1) * plim_bytes_of(out));
}

enum {
  CHUNK_ELEMENTS = 65536, // per block of a multi-tensor kernel: PyTorch's kChunkSize
  CHUNKS = 320,           // per launch
  TENSORS = 36            // per launch with four lists
};

void plim_work_foreach(plim_tape *t, plim_tensor *const *parameters, size_t count, double passes) {
  if (!clock_is_on(t)) return;
  double bytes = 0, elements = 0, listed = 0;
  for (size_t i = 0; i < count; i++) {
    if (!parameters[i]->grad) continue;
    bytes += plim_bytes_of(parameters[i]);
    elements += (double)plim_numel(&parameters[i]->shape);
    listed++;
  }
  double seconds = fmax(stream_seconds(t, passes * bytes),
                        passes * elements / (t->gpu->fp32_tflops * 1e12 * card.listed));
  int launches = (int)ceil(fmax(listed / TENSORS, elements / CHUNK_ELEMENTS / CHUNKS));
  for (int i = 0; i < launches; i++) launch(t, seconds / launches);
}

// ---- matrix products ------------------------------------------------------------------------------

static plim_compute compute_of(plim_dtype dtype) {
  return dtype == PLIM_BF16   ? PLIM_COMPUTE_BF16
         : dtype == PLIM_FP16 ? PLIM_COMPUTE_FP16
                              : PLIM_COMPUTE_FP32;
}

// 0: rows begin at multiples of 16 bytes; 1: of 4 bytes; 2: of fewer.
static int oddness(const plim_tensor *x) {
  if (!x) return 0;
  int last = x->shape.n - 1;
  int64_t row = x->stride.at[last] == 1 ? x->stride.at[last - 1] : x->stride.at[last];
  int64_t bytes = row * plim_dtype_bytes[x->dtype];
  return bytes % 16 == 0 ? 0 : bytes % 4 == 0 ? 1 : 2;
}

static int oddest(const plim_tensor *a, const plim_tensor *b, const plim_tensor *out) {
  int odd = oddness(a), of_b = oddness(b), of_out = oddness(out);
  if (of_b > odd) odd = of_b;
  return of_out > odd ? of_out : odd;
}

void plim_work_matmul(plim_tape *t, const plim_tensor *a, const plim_tensor *b, plim_tensor *out) {
  plim_work_products(t, a->shape.at[a->shape.n - 1], a, b, out);
}

void plim_work_products(plim_tape *t, int64_t k, const plim_tensor *a, const plim_tensor *b,
                        plim_tensor *out) {
  out->storage->is_written = true;
  if (!clock_is_on(t)) return;
  double flops = 2.0 * (double)k * (double)plim_numel(&out->shape);
  double bytes = plim_bytes_of(a) + plim_bytes_of(b) + plim_bytes_of(out);
  count_flops(t, flops);
  launch(t, plim_product_seconds(t->gpu, compute_of((plim_dtype)a->dtype), flops, bytes,
                                 oddest(a, b, out)));
}

// ---- attention ------------------------------------------------------------------------------------

void plim_work_attention_kind(plim_tape *t, bool is_causal, bool has_dropout) {
  t->clock.is_causal = is_causal;
  t->clock.has_dropout = has_dropout;
}

static double attention_seconds(plim_tape *t, plim_sdpa_kernel kernel, double pairs, double width,
                                bool is_backward, plim_dtype dtype) {
  bool has_dropout = !is_backward && t->clock.has_dropout;
  count_flops(t, plim_attention_flops(pairs, width, is_backward));
  return plim_attention_seconds(t->gpu, compute_of(dtype), kernel, pairs, width, is_backward,
                                has_dropout);
}

void plim_work_attention(plim_tape *t, plim_grad_node *node, plim_sdpa_kernel kernel,
                         const plim_tensor *q, const plim_tensor *k) {
  if (!clock_is_on(t)) return;
  double queries = (double)q->shape.at[0] * (double)q->shape.at[1] * (double)q->shape.at[2];
  double pairs = queries * (double)k->shape.at[2] * (t->clock.is_causal ? 0.5 : 1);
  double width = (double)q->shape.at[3];
  if (node) node->pairs = pairs, node->width = width;
  launch(t, attention_seconds(t, kernel, pairs, width, false, (plim_dtype)q->dtype));
}

// A kernel before the main one sums gradient times output; a kernel after it rounds the gradient of the queries from
// float32.
void plim_work_attention_backward(plim_tape *t, const plim_grad_node *node, plim_sdpa_kernel kernel,
                                  plim_tensor *const *gradients) {
  for (int i = 0; i < 3; i++) gradients[i]->storage->is_written = true;
  if (!clock_is_on(t)) return;
  plim_dtype dtype = (plim_dtype)gradients[0]->dtype;
  double bytes = plim_bytes_of(gradients[0]), elements = (double)plim_numel(&gradients[0]->shape);
  launch(t, stream_seconds(t, 2 * bytes));
  launch(t, attention_seconds(t, kernel, node->pairs, node->width, true, dtype));
  launch(t, uneven_seconds(t, elements));
}
