// FSDP2: fully_shard of each layer and then of the model. Each group of parameters (a layer's, or what
// no layer has) is gathered before it is used and let go after; gradients are reduced and scattered.
#include <math.h>
#include <stdlib.h>

#include "sharding.h"
#include "tape_impl.h"
#include "traffic.h"
#include "work.h"

typedef struct {
  plim_tensor *full;    // what the model computes with; over no memory while it is sharded
  plim_tensor *shard;   // this rank's part; over no memory of the card when it is offloaded
  int64_t elements;     // of the part
  plim_dtype own_dtype; // of the part
  size_t index;         // among the model's parameters; SIZE_MAX: frozen
  bool has_grad;        // that is being reduced
} parameter;

typedef enum { IDLE, FORWARD, BEFORE_BACKWARD, AFTER_BACKWARD } state;

typedef struct {
  struct fsdp *all;
  vec(parameter) parameters;
  plim_tensor *gathered; // all-gather output, until it is copied out
  double ready;          // when it is there, in seconds of the clock
  size_t order;          // in which forward was done
  bool is_full;
  state state;
} group;

typedef struct fsdp {
  plim_shards shards;
  plim_sharding how;
  group *groups; // of the layers, then that of the rest
  size_t count;
  plim_tensor *last_gathered; // in forward: copied out, but kept until the next is
  plim_tensor *reducing;      // input of the last reduce-scatter
  vec(group *) done;          // forward, in order
  double copied_out;          // when the last group is: the next is gathered no sooner
  double reduced;  // when the last gradients are, and are on the host if they are offloaded
  int64_t trained; // elements of this rank that the optimizer updates
} fsdp;

static group *root_of(fsdp *f) { return &f->groups[f->count - 1]; }

// ---- construction ---------------------------------------------------------------------------------

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static plim_dtype compute_dtype(const fsdp *f, const plim_tensor *p) {
  return f->how.compute_dtype == PLIM_BOOL ? (plim_dtype)p->dtype : f->how.compute_dtype;
}

// The first rank's part: rows, as torch.chunk cuts them.
static parameter cut(plim_tape *t, const fsdp *f, plim_tensor *p, size_t index) {
  plim_dims shape = p->shape;
  shape.at[0] = divide_up(shape.at[0], f->how.world);
  parameter out = {
      .full = p, .elements = plim_numel(&shape), .own_dtype = (plim_dtype)p->dtype, .index = index};
  set(t, &out.shard, empty(t, shape, out.own_dtype));
  if (f->how.offloads_parameters) plim_resize_storage(t, out.shard, 0);
  return out;
}

typedef struct {
  plim_tape *t;
  group *g;
  uint32_t layer;
  bool ok;
} wrapping;

static void wrap_one(void *context, plim_tensor *p, size_t trained) {
  wrapping *w = context;
  if (p->layer != w->layer || !w->ok) return;
  w->ok = vec_push(&w->g->parameters, cut(w->t, w->g->all, p, trained));
}

// fully_shard: all parts are there before the whole parameters go.
static bool wrap(plim_tape *t, group *g, const plim_model *m, uint32_t layer) {
  wrapping w = {t, g, layer, true};
  plim_each_parameter(m, wrap_one, &w);
  bool ok = w.ok;
  for (size_t i = 0; i < g->parameters.len; i++) {
    parameter *p = &g->parameters.at[i];
    plim_resize_storage(t, p->full, 0);
    p->full->dtype = (uint8_t)compute_dtype(g->all, p->full);
  }
  return ok;
}

// ---- gathering ------------------------------------------------------------------------------------

// Kernels that copy many pieces at once get a table of pieces and blocks, 8 bytes per entry. Blocks of
// 128 threads move 16 bytes each (ATen/native/cuda/TensorShape.cu).
enum { BLOCK_THREADS = 128, BLOCK_BYTES = BLOCK_THREADS * 16, ENTRY_BYTES = 8 };

// Twice as many as the card runs at a time; from there on each block does more.
static int64_t most_blocks(const plim_gpu *gpu) {
  return gpu->multiprocessors * plim_gpu_threads(gpu) / BLOCK_THREADS * 2;
}

static int64_t part_bytes(const parameter *p, plim_dtype dtype) {
  return p->elements * plim_dtype_bytes[dtype];
}

// split_with_sizes_copy: three addresses or sizes per piece, the piece of each block, running sums.
static uint64_t split_table_bytes(const plim_gpu *gpu, const group *g) {
  int64_t pieces = (int64_t)g->parameters.len, blocks = 0, entries = 3 * pieces + pieces + 1;
  int64_t world = g->all->how.world;
  for (size_t i = 0; i < g->parameters.len; i++) {
    const parameter *p = &g->parameters.at[i];
    blocks += divide_up(part_bytes(p, (plim_dtype)p->full->dtype), BLOCK_BYTES);
  }
  int64_t factor = divide_up(blocks * world, most_blocks(gpu));
  int64_t chunks = (int64_t)ceil(sqrt((double)factor));
  int64_t rounds = divide_up(factor, chunks < world ? chunks : world);
  for (size_t i = 0; i < g->parameters.len; i++) {
    const parameter *p = &g->parameters.at[i];
    entries += divide_up(part_bytes(p, (plim_dtype)p->full->dtype), BLOCK_BYTES * rounds);
  }
  return (uint64_t)entries * ENTRY_BYTES;
}

static bool is_cast(const parameter *p) { return p->full->dtype != p->own_dtype; }

static uint64_t gathered_bytes(const group *g, bool only_cast) {
  int64_t bytes = 0;
  for (size_t i = 0; i < g->parameters.len; i++) {
    const parameter *p = &g->parameters.at[i];
    if (!only_cast || is_cast(p)) bytes += part_bytes(p, (plim_dtype)p->full->dtype);
  }
  return (uint64_t)bytes;
}

static double own_bytes(const group *g) {
  int64_t bytes = 0;
  for (size_t i = 0; i < g->parameters.len; i++)
    bytes += part_bytes(&g->parameters.at[i], g->parameters.at[i].own_dtype);
  return (double)bytes;
}

// The parts as they are gathered: cast into one piece of memory where they must be cast, or brought
// from the CPU one by one. At most as many as there are parameters.
static size_t gather_inputs(plim_tape *t, const group *g, plim_tensor **inputs) {
  uint64_t cast_bytes = gathered_bytes(g, true);
  if (!g->all->how.offloads_parameters) {
    if (cast_bytes) inputs[0] = scratch(t, cast_bytes);
    return cast_bytes > 0;
  }
  for (size_t i = 0; i < g->parameters.len; i++) {
    const parameter *p = &g->parameters.at[i];
    inputs[i] = empty_for(t, PLIM_FOR_WORKSPACE, dims(p->elements), p->own_dtype);
    if (!is_cast(p)) continue;
    plim_tensor *narrow =
        empty_for(t, PLIM_FOR_WORKSPACE, dims(p->elements), (plim_dtype)p->full->dtype);
    plim_consume(t, inputs[i]);
    inputs[i] = narrow;
  }
  return g->parameters.len;
}

// Offloaded parts come from the host first.
static void send_parts(plim_tape *t, group *g) {
  const fsdp *f = g->all;
  double after = f->copied_out;
  if (f->how.offloads_parameters) after = plim_copy_from_host(t, own_bytes(g), after);
  double whole = (double)gathered_bytes(g, false) * (double)f->how.world;
  g->ready = plim_send_gather(t, whole, after);
}

static void gather(plim_tape *t, group *g) {
  if (g->gathered || g->is_full || !g->parameters.len) return;
  plim_tensor **inputs = calloc(g->parameters.len, sizeof *inputs);
  if (!inputs) {
    t->failed = true;
    return;
  }
  plim_stream was = t->stream;
  t->stream = PLIM_GATHER_STREAM;
  size_t count = gather_inputs(t, g, inputs);
  set(t, &g->gathered, scratch(t, gathered_bytes(g, false) * (uint64_t)g->all->how.world));
  while (count-- > 0) plim_consume(t, inputs[count]);
  t->stream = was;
  free(inputs);
  send_parts(t, g);
}

static void copy_out(plim_tape *t, group *g) {
  for (size_t i = 0; i < g->parameters.len; i++) {
    parameter *p = &g->parameters.at[i];
    int64_t bytes = part_bytes(p, (plim_dtype)p->full->dtype) * g->all->how.world;
    plim_resize_storage(t, p->full, (uint64_t)bytes);
  }
  plim_consume(t, scratch(t, split_table_bytes(t->gpu, g)));
  plim_await(t, g->ready);
  plim_work_bytes(t, 2 * (double)gathered_bytes(g, false) * (double)g->all->how.world);
  g->all->copied_out = plim_traffic_now(t);
  g->is_full = true;
}

// In forward what was gathered stays until the next group is copied out: the two overlap.
static void unshard(plim_tape *t, group *g) {
  gather(t, g);
  if (!g->gathered) return;
  copy_out(t, g);
  if (g->state == FORWARD) set(t, &g->all->last_gathered, g->gathered);
  drop(t, &g->gathered);
}

static void reshard(plim_tape *t, group *g) {
  for (size_t i = 0; i < g->parameters.len; i++)
    plim_resize_storage(t, g->parameters.at[i].full, 0);
  g->is_full = false;
}

// ---- reducing -------------------------------------------------------------------------------------

// chunk_cat: four entries per piece, two lists of running sums, the piece of each block.
static uint64_t cat_table_bytes(const group *g, plim_dtype dtype) {
  int64_t pieces = 0, blocks = 0;
  for (size_t i = 0; i < g->parameters.len; i++) {
    if (!g->parameters.at[i].has_grad) continue;
    pieces++;
    blocks += divide_up(part_bytes(&g->parameters.at[i], dtype), BLOCK_BYTES);
  }
  return (uint64_t)(4 * pieces + 2 * (pieces + 1) + blocks) * ENTRY_BYTES;
}

static int64_t mark_gradients(group *g) {
  int64_t elements = 0;
  for (size_t i = 0; i < g->parameters.len; i++) {
    parameter *p = &g->parameters.at[i];
    p->has_grad = p->full->grad != NULL;
    if (p->has_grad) elements += p->elements;
  }
  return elements;
}

static const parameter *first_with_grad(const group *g) {
  size_t i = 0;
  while (i + 1 < g->parameters.len && !g->parameters.at[i].has_grad) i++;
  return &g->parameters.at[i];
}

// The parts of the gradient are views of one piece of memory; offloaded, they go to the CPU at once.
static plim_tensor *scatter(plim_tape *t, group *g, int64_t elements, plim_dtype dtype) {
  plim_tensor *out = NULL;
  t->stream = PLIM_REDUCE_STREAM;
  set(t, &out, empty_for(t, PLIM_FOR_GRADIENTS, dims(elements), dtype));
  plim_dtype own = first_with_grad(g)->own_dtype;
  if (own != dtype) set(t, &out, empty_for(t, PLIM_FOR_GRADIENTS, dims(elements), own));
  t->stream = PLIM_COMPUTE_STREAM;
  for (size_t i = 0; i < g->parameters.len && !g->all->how.offloads_parameters; i++) {
    plim_tensor *shard = g->parameters.at[i].shard;
    if (g->parameters.at[i].has_grad && !shard->grad)
      set(t, &shard->grad, alias_of(t, out, shard->shape, shard->stride));
  }
  return out;
}

// The last gradient is also in a variable of the loop, which lives until the function returns.
static plim_tensor *drop_gradients(plim_tape *t, group *g) {
  plim_tensor *last = NULL;
  for (size_t i = g->parameters.len; i-- > 0;) {
    plim_tensor **grad = &g->parameters.at[i].full->grad;
    if (!last) set(t, &last, *grad);
    drop(t, grad);
  }
  return last;
}

static void send_gradients(plim_tape *t, fsdp *f, int64_t elements, plim_dtype dtype) {
  double part = (double)elements * plim_dtype_bytes[dtype], whole = part * (double)f->how.world;
  plim_work_bytes(t, 2 * whole); // put together
  f->reduced = plim_send_scatter(t, whole, plim_traffic_now(t));
  if (f->how.offloads_parameters) f->reduced = plim_copy_to_host(t, part, f->reduced);
}

static void reduce(plim_tape *t, group *g) {
  fsdp *f = g->all;
  int64_t elements = mark_gradients(g);
  if (!elements) return;
  plim_dtype dtype = f->how.reduce_dtype;
  if (dtype == PLIM_BOOL) dtype = (plim_dtype)first_with_grad(g)->full->dtype;
  drop(t, &f->reducing);
  set(t, &f->reducing, empty_for(t, PLIM_FOR_WORKSPACE, dims(elements * f->how.world), dtype));
  plim_consume(t, scratch(t, cat_table_bytes(g, dtype)));
  send_gradients(t, f, elements, dtype);
  plim_tensor *last = drop_gradients(t, g), *out = scatter(t, g, elements, dtype);
  drop_all(t, &last, &out);
}

// ---- hooks ----------------------------------------------------------------------------------------

static void after_backward_of(plim_tape *t, void *context) {
  group *g = context;
  g->state = AFTER_BACKWARD;
  reshard(t, g);
  reduce(t, g);
}

static void before_backward_of(plim_tape *t, void *context) {
  group *g = context;
  if (g->state == BEFORE_BACKWARD) return;
  g->state = BEFORE_BACKWARD;
  unshard(t, g);
  if (g->order) gather(t, g->all->done.at[g->order - 1]);
}

static void before_forward_of(plim_tape *t, group *g) {
  g->state = FORWARD;
  unshard(t, g);
}

static void after_forward_of(plim_tape *t, group *g, plim_tensor *out) {
  if (!g->all->how.keeps_full) reshard(t, g);
  g->order = g->all->done.len;
  if (!vec_push(&g->all->done, g)) t->failed = true;
  if (out->fn) out->fn->before = (plim_hook){before_backward_of, g};
  g->state = IDLE;
}

static void before_model(plim_tape *t, plim_shards *s) { before_forward_of(t, root_of((fsdp *)s)); }

static void after_model(plim_tape *t, plim_shards *s, plim_tensor *loss) {
  fsdp *f = (fsdp *)s;
  after_forward_of(t, root_of(f), loss);
  drop(t, &f->last_gathered);
}

static void pass_on(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  (void)t, (void)n;
  plim_retain(in[0]);
  out[0] = in[0];
}

// The layer's input goes through a node that reduces the layer's gradients when its own is there.
static plim_tensor *before_layer(plim_tape *t, plim_shards *s, size_t layer, plim_tensor *x) {
  group *g = &((fsdp *)s)->groups[layer];
  before_forward_of(t, g);
  plim_grad_node *n = node_begin(t, pass_on, &x, 1);
  if (!n) return x;
  n->before = (plim_hook){after_backward_of, g};
  plim_tensor *input = view_of(t, x, x->shape, x->stride);
  node_output(t, n, input);
  return input;
}

static void after_layer(plim_tape *t, plim_shards *s, size_t layer, plim_tensor *out) {
  after_forward_of(t, &((fsdp *)s)->groups[layer], out);
}

// Groups whose input needs no gradient are reduced at the very end: that of the root at least.
static void after_backward(plim_tape *t, plim_shards *s) {
  fsdp *f = (fsdp *)s;
  for (size_t i = 0; i < f->count; i++) {
    group *g = i ? &f->groups[i - 1] : root_of(f);
    if (g->state != AFTER_BACKWARD) after_backward_of(t, g);
    g->state = IDLE;
    drop(t, &g->gathered);
  }
  f->done.len = 0;
  drop(t, &f->reducing);
  plim_await(t, f->reduced);
  if (f->how.offloads_parameters) plim_await_on_host(t, f->reduced);
}

static void after_step(plim_tape *t, plim_shards *s) {
  const fsdp *f = (fsdp *)s;
  if (f->how.offloads_parameters) plim_update_on_host(t, PLIM_HOST_TORCH, (double)f->trained);
}

static void destroy(plim_shards *s) {
  fsdp *f = (fsdp *)s;
  for (size_t i = 0; i < f->count; i++) vec_free(&f->groups[i].parameters);
  vec_free(&f->done);
  free(f->groups);
  free(f);
}

static bool make_groups(plim_tape *t, fsdp *f, plim_model *m) {
  f->groups = calloc(f->shards.layers + 1, sizeof *f->groups);
  if (!f->groups) return false;
  bool ok = true;
  for (; f->count <= f->shards.layers; f->count++) {
    group *g = &f->groups[f->count];
    g->all = f;
    uint32_t layer = f->count < f->shards.layers ? (uint32_t)f->count + 1 : 0;
    ok = ok && wrap(t, g, m, layer);
  }
  return ok;
}

// Offloaded: parts and their gradients are pinned, one by one; what the optimizer adds is not.
static void count_host(fsdp *f) {
  for (size_t i = 0; i < f->count; i++)
    for (size_t k = 0; k < f->groups[i].parameters.len; k++) {
      const parameter *p = &f->groups[i].parameters.at[k];
      uint64_t bytes = (uint64_t)part_bytes(p, p->own_dtype);
      bool is_trained = p->index != SIZE_MAX;
      f->shards.pinned_bytes += (is_trained ? 2 : 1) * plim_pinned_bytes(bytes);
      f->shards.moment_bytes += is_trained ? bytes : 0;
      f->trained += is_trained ? p->elements : 0;
    }
}

// The optimizer sees the parts, or, when they are on the CPU, nothing on the card.
static void replace_parameters(const fsdp *f, plim_model *m) {
  for (size_t i = 0; i < f->count; i++)
    for (size_t k = 0; k < f->groups[i].parameters.len; k++) {
      const parameter *p = &f->groups[i].parameters.at[k];
      if (p->index != SIZE_MAX) m->parameters.at[p->index] = p->shard;
    }
  if (f->how.offloads_parameters) m->parameters.len = 0;
}

plim_shards *plim_fsdp_new(plim_tape *t, plim_model *m, const plim_sharding *how, size_t layers) {
  fsdp *f = calloc(1, sizeof *f);
  if (!f) return NULL;
  f->shards = (plim_shards){.before_model = before_model,
                            .after_model = after_model,
                            .before_layer = before_layer,
                            .after_layer = after_layer,
                            .after_backward = after_backward,
                            .after_step = after_step,
                            .destroy = destroy,
                            .layers = layers};
  f->how = *how;
  if (!make_groups(t, f, m)) {
    destroy(&f->shards);
    return NULL;
  }
  replace_parameters(f, m);
  if (how->offloads_parameters) count_host(f);
  return &f->shards;
}
