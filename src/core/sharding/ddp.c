// DistributedDataParallel: every GPU has all parameters; gradients are copied into buckets, which are all-reduced
// while backward continues.
#include <stdlib.h>

#include "sharding.h"
#include "tape_state.h"
#include "traffic.h"
#include "work.h"

#include "sort.h"
#include "tape_names.h"

#define FIRST_BUCKET_BYTES (1ll << 20) // torch.distributed._DEFAULT_FIRST_BUCKET_BYTES
#define BUCKET_BYTES (25ll << 20)      // bucket_cap_mb
#define BROADCAST_BYTES (250ull << 20) // DistributedDataParallel.broadcast_bucket_size

typedef struct {
  struct ddp *all;
  plim_tensor *tensor;
  plim_tensor *bucket; // its bucket; owned by the list of buckets
  size_t bucket_index;
} parameter;

typedef struct ddp {
  plim_shards shards;
  plim_sharding how;
  parameter *parameters;
  size_t count;
  vec(plim_tensor *) buckets;
  size_t *waits_for;       // for each bucket: gradients that have not arrived in this backward
  size_t *holds;           // for each bucket: number of its gradients
  double reduced;          // when the last bucket is reduced, in seconds of the clock
  parameter *closes_first; // its gradient is the last that the first bucket waits for
  plim_tensor *stashed;    // the bucket of the first backward, until NCCL releases it
  // Parameters in the order in which their gradients arrived in the first backward.
  vec(parameter *) arrived;
  uint64_t buffer_bytes; // of the model's buffers in float32
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
  if (!vec_push(&d->buckets, bucket)) plim_state(t)->failed = true;
  for (size_t i = first; i < end; i++) list[i]->bucket = bucket, list[i]->bucket_index = index;
  d->holds[index] = d->waits_for[index] = end - first;
}

// Moves an existing gradient into its bucket.
static void adopt(plim_tape *t, parameter *p) {
  plim_tensor *x = p->tensor;
  if (!p->all->how.has_bucket_views || !x->grad || x->grad->storage == p->bucket->storage) return;
  set(t, &x->grad, alias_of(t, p->bucket, x->shape, x->stride));
}

// A bucket is closed as soon as it reaches its limit; the first limit is small so that reducing starts early.
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

// sync_bucket_indices: broadcasts the assignment of parameters to buckets as two lists of numbers.
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

// NCCL keeps the tensors of a collective alive until its watchdog, which polls every 100 ms, has seen it complete, and
// then until NCCL's next call. So whether the one large bucket outlives the second forward depends on timing; in steps
// of 100 ms and more it is freed at the first call of the second backward. That is assumed here; if the watchdog is
// faster, less memory is needed.
static void unstash(plim_tape *t, ddp *d) {
  plim_state(t)->free_kind = PLIM_STREAM_FREE_TIMED;
  drop(t, &d->stashed);
  plim_state(t)->free_kind = PLIM_STREAM_FREE;
}

// A complete bucket is reduced while backward continues. Its gradients are complete once the card has done all work
// issued so far.
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
  if (!d->is_rebuilt && !vec_push(&d->arrived, p)) plim_state(t)->failed = true;
  adopt(t, p);
  if (d->is_rebuilt && p == d->closes_first) unstash(t, d);
  if (plim_state(t)->reduces_gradients) count_arrival(t, p);
}

// The step needs all buckets. If the other passes of a step reduce nothing, it waits only once.
static void after_backward(plim_tape *t, plim_shards *s) {
  ddp *d = (ddp *)s;
  if (plim_state(t)->reduces_once) plim_await_once(t, d->reduced);
  else plim_await(t, d->reduced);
}

// Before the second forward the buckets are rebuilt in the order in which the gradients arrived.
// With disabled adapters, TRL calls the model inside the wrapper.
static void before_model(plim_tape *t, plim_shards *s) {
  ddp *d = (ddp *)s;
  if (plim_state(t)->skips_adapters) return;
  if (!d->is_rebuilt && d->arrived.len) {
    send_assignment(t, d);
    d->stashed = d->buckets.at[0];
    make_buckets(t, d, d->arrived.at, d->arrived.len, FIRST_BUCKET_BYTES, BUCKET_BYTES);
    d->is_rebuilt = true;
  }
  plim_consume(t, scratch(t, d->buffer_bytes)); // broadcast_buffers
}

// ---- construction ---------------------------------------------------------------------------------

// verify_params_across_processes: exchanges the number of parameters, their sizes and their strides.
static void verify(plim_tape *t, const ddp *d) {
  size_t world = (size_t)d->how.world;
  plim_tensor *count = empty_for(t, PLIM_FOR_WORKSPACE, dims(1), PLIM_I64);
  plim_tensor **of_rank = calloc(world, sizeof *of_rank);
  if (!of_rank) plim_state(t)->failed = true;
  for (size_t i = 0; of_rank && i < world; i++)
    of_rank[i] = empty_for(t, PLIM_FOR_WORKSPACE, dims(1), PLIM_I64);
  plim_consume(t, empty_for(t, PLIM_FOR_WORKSPACE, dims(d->how.world), PLIM_I64)); // the all-gather
  int64_t numbers = 0;
  for (size_t i = 0; i < d->count; i++) numbers += 2 * d->parameters[i].tensor->shape.n;
  plim_consume(t, empty_for(t, PLIM_FOR_WORKSPACE, dims(numbers), PLIM_I64));
  for (size_t i = 0; of_rank && i < world; i++) plim_consume(t, of_rank[i]);
  plim_consume(t, count);
  free(of_rank);
}

// Parameters and buffers are broadcast in flat copies, one dtype at a time.
typedef struct {
  size_t first, tensors; // first: index of its first tensor among all
  uint64_t bytes;
} parcel;

typedef struct {
  vec(parcel) full;
  parcel open[PLIM_DTYPE_COUNT];
  size_t count;
  bool failed;
} broadcast;

static void seal(broadcast *b, plim_dtype dtype) {
  if (b->open[dtype].tensors && !vec_push(&b->full, b->open[dtype])) b->failed = true;
  b->open[dtype] = (parcel){0};
}

static void add_to(broadcast *b, plim_dtype dtype, uint64_t bytes) {
  parcel *p = &b->open[dtype];
  if (!p->tensors++) p->first = b->count;
  b->count++;
  p->bytes += bytes;
  if (p->bytes >= BROADCAST_BYTES) seal(b, dtype);
}

static void add_parameter(void *context, plim_tensor *p, size_t trained) {
  (void)trained;
  add_to(context, (plim_dtype)p->dtype, (uint64_t)bytes_of(p));
}

// Buffers are float32, except gemma2's scale, a number in the parameters' dtype.
static bool is_wide(uint64_t buffer_bytes) { return buffer_bytes >= 4; }

static int by_first(const void *x, const void *y) {
  const parcel *a = x, *b = y;
  return (a->first > b->first) - (a->first < b->first);
}

// Up to two flat copies are in flight at a time; a single tensor is sent without a copy.
static void send(plim_tape *t, broadcast *b) {
  plim_tensor *flying[2] = {0};
  if (b->full.len) plim_sort(b->full.at, b->full.len, sizeof *b->full.at, by_first);
  for (size_t i = 0; i < b->full.len; i++) {
    drop(t, &flying[i % 2]);
    if (b->full.at[i].tensors > 1) set(t, &flying[i % 2], scratch(t, b->full.at[i].bytes));
  }
  drop(t, &flying[b->full.len % 2]);
  drop(t, &flying[(b->full.len + 1) % 2]);
}

static void broadcast_model(plim_tape *t, const plim_model *m) {
  broadcast b = {0};
  plim_dtype own = m->parameters.len ? (plim_dtype)m->parameters.at[0]->dtype : PLIM_FP32;
  plim_each_parameter(m, add_parameter, &b);
  for (size_t i = 0; i < m->buffer_bytes.len; i++)
    add_to(&b, is_wide(m->buffer_bytes.at[i]) ? PLIM_FP32 : own, m->buffer_bytes.at[i]);
  for (int dtype = 0; dtype < PLIM_DTYPE_COUNT; dtype++) seal(&b, (plim_dtype)dtype);
  send(t, &b);
  if (b.failed) plim_state(t)->failed = true;
  vec_free(&b.full);
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

// Until the order of the gradients is known, there is one bucket for all.
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
  d->shards = (plim_shards){.syncs_passes = how->syncs_passes,
                            .before_model = before_model,
                            .after_backward = after_backward,
                            .destroy = destroy,
                            .layers = layers};
  d->how = *how;
  for (size_t i = 0; i < m->buffer_bytes.len; i++)
    if (is_wide(m->buffer_bytes.at[i])) d->buffer_bytes += m->buffer_bytes.at[i];
  if (wrap(t, d, m)) return &d->shards;
  destroy(&d->shards);
  return NULL;
}
