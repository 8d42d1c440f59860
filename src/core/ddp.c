// DistributedDataParallel: whole parameters on every GPU; gradients are copied into buckets, which are
// reduced while backward goes on.
#include <stdlib.h>

#include "sharding.h"
#include "tape_impl.h"
#include "traffic.h"
#include "work.h"

#define FIRST_BUCKET_BYTES (1ll << 20) // torch.distributed._DEFAULT_FIRST_BUCKET_BYTES
#define BUCKET_BYTES (25ll << 20)      // bucket_cap_mb
#define BROADCAST_BYTES (250ull << 20) // DistributedDataParallel.broadcast_bucket_size

typedef struct {
  struct ddp *all;
  plim_tensor *tensor;
  plim_tensor *bucket; // the one it belongs to; owned by the list of buckets
  size_t bucket_index;
} parameter;

typedef struct ddp {
  plim_shards shards;
  plim_sharding how;
  parameter *parameters;
  size_t count;
  vec(plim_tensor *) buckets;
  size_t *waits_for;        // of each bucket: gradients that have not come in this backward
  size_t *holds;            // and all of them
  double reduced;           // when the last bucket is, in seconds of the clock
  parameter *closes_first;  // whose gradient is the last that the first bucket waits for
  plim_tensor *stashed;     // the bucket of the first backward, until NCCL lets go of it
  vec(parameter *) arrived; // gradients of the first backward, in order
  uint64_t buffer_bytes;    // of all buffers of the model
  bool is_rebuilt;
} ddp;

static int64_t bytes_of(const plim_tensor *x) {
  return plim_numel(&x->shape) * plim_dtype_bytes[x->dtype];
}

// ---- buckets --------------------------------------------------------------------------------------

// One bucket for list[first..end).
static void add_bucket(plim_tape *t, ddp *d, parameter *const *list, size_t first, size_t end) {
  int64_t elements = 0;
  for (size_t i = first; i < end; i++) elements += plim_numel(&list[i]->tensor->shape);
  plim_tensor *bucket = NULL;
  set(t, &bucket,
      empty_for(t, PLIM_FOR_GRADIENTS, dims(elements), (plim_dtype)list[first]->tensor->dtype));
  size_t index = d->buckets.len;
  if (!vec_push(&d->buckets, bucket)) t->failed = true;
  for (size_t i = first; i < end; i++) list[i]->bucket = bucket, list[i]->bucket_index = index;
  d->holds[index] = d->waits_for[index] = end - first;
}

// A gradient that is there already moves into its bucket.
static void adopt(plim_tape *t, parameter *p) {
  plim_tensor *x = p->tensor;
  if (!p->all->how.has_bucket_views || !x->grad || x->grad->storage == p->bucket->storage) return;
  set(t, &x->grad, alias_of(t, p->bucket, x->shape, x->stride));
}

// A bucket is full as soon as it reaches its limit: the first small, so that reducing starts early.
static void make_buckets(plim_tape *t, ddp *d, parameter *const *list, size_t count,
                         int64_t first_limit, int64_t limit) {
  int64_t bytes = 0;
  d->buckets.len = 0;
  for (size_t i = 0, first = 0; i < count; i++) {
    bytes += bytes_of(list[i]->tensor);
    if (i + 1 < count && bytes < (d->buckets.len ? limit : first_limit)) continue;
    if (!d->buckets.len) d->closes_first = list[i];
    add_bucket(t, d, list, first, i + 1);
    for (; first <= i; first++) adopt(t, list[first]);
    bytes = 0;
  }
}

// sync_bucket_indices: the assignment goes to the other ranks as two lists of numbers.
static void send_assignment(plim_tape *t, const ddp *d) {
  size_t buckets = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < d->arrived.len; i++) {
    bytes += bytes_of(d->arrived.at[i]->tensor);
    if (i + 1 < d->arrived.len && bytes < (buckets ? BUCKET_BYTES : FIRST_BUCKET_BYTES)) continue;
    buckets++;
    bytes = 0;
  }
  plim_tensor *indices =
      empty_for(t, PLIM_FOR_WORKSPACE, dims((int64_t)d->arrived.len + 1), PLIM_I32);
  plim_tensor *sizes = empty_for(t, PLIM_FOR_WORKSPACE, dims((int64_t)buckets), PLIM_I32);
  plim_consume(t, sizes);
  plim_consume(t, indices);
}

// ---- hooks ----------------------------------------------------------------------------------------

// NCCL holds what it reduces until its watchdog, which looks every 100 ms, has seen that it is done, and
// then until its next call. So the one large bucket outlives the second forward or does not, as it
// happens; in steps of 100 ms and more it is gone at the first call of the second backward. That is
// assumed here: where the watchdog was in time, less memory is needed.
static void unstash(plim_tape *t, ddp *d) {
  t->free_kind = PLIM_STREAM_FREE_TIMED;
  drop(t, &d->stashed);
  t->free_kind = PLIM_STREAM_FREE;
}

// A bucket that is complete is reduced while backward goes on; its gradients are in turn complete when
// the card gets there.
static void count_arrival(plim_tape *t, parameter *p) {
  ddp *d = p->all;
  size_t *left = &d->waits_for[p->bucket_index];
  if (*left && --*left) return;
  *left = d->holds[p->bucket_index];
  d->reduced = plim_send_reduce(t, plim_bytes_of(p->bucket), plim_traffic_now(t));
}

static void on_grad(plim_tape *t, void *context) {
  parameter *p = context;
  ddp *d = p->all;
  if (!d->is_rebuilt && !vec_push(&d->arrived, p)) t->failed = true;
  adopt(t, p);
  if (d->is_rebuilt && p == d->closes_first) unstash(t, d);
  if (t->reduces_gradients) count_arrival(t, p);
}

// The step needs all of them. Where other passes of a step reduce nothing, it waits but once.
static void after_backward(plim_tape *t, plim_shards *s) {
  ddp *d = (ddp *)s;
  if (t->reduces_once) plim_await_once(t, d->reduced);
  else plim_await(t, d->reduced);
}

// Before the second forward buckets are made again, in the order gradients came.
static void before_model(plim_tape *t, plim_shards *s) {
  ddp *d = (ddp *)s;
  if (!d->is_rebuilt && d->arrived.len) {
    send_assignment(t, d);
    d->stashed = d->buckets.at[0];
    make_buckets(t, d, d->arrived.at, d->arrived.len, FIRST_BUCKET_BYTES, BUCKET_BYTES);
    d->is_rebuilt = true;
  }
  plim_consume(t, scratch(t, d->buffer_bytes)); // broadcast_buffers
}

// ---- construction ---------------------------------------------------------------------------------

// verify_params_across_processes: how many there are, and their sizes and strides.
static void verify(plim_tape *t, const ddp *d) {
  size_t world = (size_t)d->how.world;
  plim_tensor *count = empty_for(t, PLIM_FOR_WORKSPACE, dims(1), PLIM_I64);
  plim_tensor **of_rank = calloc(world, sizeof *of_rank);
  if (!of_rank) t->failed = true;
  for (size_t i = 0; of_rank && i < world; i++)
    of_rank[i] = empty_for(t, PLIM_FOR_WORKSPACE, dims(1), PLIM_I64);
  plim_consume(t, empty_for(t, PLIM_FOR_WORKSPACE, dims(d->how.world), PLIM_I64)); // NCCL gathers
  int64_t numbers = 0;
  for (size_t i = 0; i < d->count; i++) numbers += 2 * d->parameters[i].tensor->shape.n;
  plim_consume(t, empty_for(t, PLIM_FOR_WORKSPACE, dims(numbers), PLIM_I64));
  for (size_t i = 0; of_rank && i < world; i++) plim_consume(t, of_rank[i]);
  plim_consume(t, count);
  free(of_rank);
}

// Parameters and buffers are broadcast in flat copies, two of them on their way at a time.
typedef struct {
  plim_tensor *flying[2];
  size_t sent, tensors; // tensors: that are in the next copy
  uint64_t bytes;
} broadcast;

// One tensor alone needs no copy.
static void send(plim_tape *t, broadcast *b) {
  if (!b->tensors) return;
  plim_tensor **slot = &b->flying[b->sent++ % 2];
  drop(t, slot);
  if (b->tensors > 1) set(t, slot, scratch(t, b->bytes));
  b->tensors = 0;
  b->bytes = 0;
}

static void add_to(plim_tape *t, broadcast *b, uint64_t bytes) {
  b->tensors++;
  b->bytes += bytes;
  if (b->bytes >= BROADCAST_BYTES) send(t, b);
}

// Each dtype by itself. Buffers are float32: true of all that are known.
static void broadcast_model(plim_tape *t, const plim_model *m) {
  broadcast b = {0};
  bool is_wide = false;
  for (size_t i = 0; i < m->frozen.len; i++) add_to(t, &b, (uint64_t)bytes_of(m->frozen.at[i]));
  for (size_t i = 0; i < m->parameters.len; i++) {
    is_wide = m->parameters.at[i]->dtype == PLIM_FP32;
    add_to(t, &b, (uint64_t)bytes_of(m->parameters.at[i]));
  }
  if (!is_wide) send(t, &b);
  for (size_t i = 0; i < m->buffer_bytes.len; i++) add_to(t, &b, m->buffer_bytes.at[i]);
  send(t, &b);
  drop(t, &b.flying[b.sent % 2]);
  drop(t, &b.flying[(b.sent + 1) % 2]);
}

static void destroy(plim_shards *s) {
  ddp *d = (ddp *)s;
  vec_free(&d->buckets);
  vec_free(&d->arrived);
  free(d->parameters);
  free(d->holds);
  free(d->waits_for);
  free(d);
}

// Until gradients have shown their order there is one bucket for all.
static bool wrap(plim_tape *t, ddp *d, const plim_model *m) {
  parameter **list = calloc(m->parameters.len + 1, sizeof *list);
  d->parameters = calloc(m->parameters.len + 1, sizeof *d->parameters);
  d->holds = calloc(m->parameters.len + 1, sizeof *d->holds);
  d->waits_for = calloc(m->parameters.len + 1, sizeof *d->waits_for);
  if (!list || !d->parameters || !d->holds || !d->waits_for) {
    free(list);
    return false;
  }
  for (; d->count < m->parameters.len; d->count++) {
    parameter *p = &d->parameters[d->count];
    *p = (parameter){.all = d, .tensor = m->parameters.at[d->count]};
    p->tensor->on_grad = (plim_hook){on_grad, p};
    list[d->count] = p;
  }
  verify(t, d);
  broadcast_model(t, m);
  make_buckets(t, d, list, d->count, INT64_MAX, INT64_MAX);
  free(list);
  return true;
}

plim_shards *plim_ddp_new(plim_tape *t, plim_model *m, const plim_sharding *how, size_t layers) {
  ddp *d = calloc(1, sizeof *d);
  if (!d) return NULL;
  d->shards = (plim_shards){.before_model = before_model,
                            .after_backward = after_backward,
                            .destroy = destroy,
                            .layers = layers};
  d->how = *how;
  for (size_t i = 0; i < m->buffer_bytes.len; i++) d->buffer_bytes += m->buffer_bytes.at[i];
  if (wrap(t, d, m)) return &d->shards;
  destroy(&d->shards);
  return NULL;
}
