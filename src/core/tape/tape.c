#include "tape_impl.h"

#include <stdlib.h>
#include <string.h>

#include "sort.h"
#include "tape_names.h"

const uint8_t plim_dtype_bytes[PLIM_DTYPE_COUNT] = {
    [PLIM_BOOL] = 1, [PLIM_U8] = 1,   [PLIM_I32] = 4,  [PLIM_I64] = 8,
    [PLIM_BF16] = 2, [PLIM_FP16] = 2, [PLIM_FP32] = 4, [PLIM_FP64] = 8,
};

// ---- the tape's own memory: an arena, so that estimates do not call malloc for every object -----------

enum { CHUNK_BYTES = 1 << 16, RESERVED_CHUNKS = 256 };

struct tape_chunk {
  struct tape_chunk *next;
  size_t used;
  _Alignas(16) unsigned char bytes[CHUNK_BYTES];
};

// When malloc fails, the tape is marked as failed and the program ends as soon as it can. Until then it works in a
// reserve that was set aside at the start (untouched pages cost nothing), so that no operator has to check for NULL.
// If even the reserve is used up, all objects share the one spare object.
static struct tape_chunk *chunk_new(plim_tape *t) {
  struct tape_chunk *chunk = t->state.failed ? NULL : malloc(sizeof *chunk);
  if (chunk) return chunk;
  t->state.failed = true;
  return t->reserved_used < RESERVED_CHUNKS ? &t->reserve[t->reserved_used++] : NULL;
}

// Returns a zeroed object from the pool, or from the arena if the pool is empty.
void *tape_take(plim_tape *t, struct tape_pool *pool, size_t bytes) {
  bytes = (bytes + 15) & ~(size_t)15;
  void *object = pool->free;
  if (object) memcpy(&pool->free, object, sizeof pool->free);
  else {
    if (!t->chunks || t->chunks->used + bytes > CHUNK_BYTES) {
      struct tape_chunk *chunk = chunk_new(t);
      if (!chunk) return memset(t->spare, 0, sizeof t->spare);
      chunk->next = t->chunks;
      chunk->used = 0;
      t->chunks = chunk;
    }
    object = t->chunks->bytes + t->chunks->used;
    t->chunks->used += bytes;
  }
  return memset(object, 0, bytes);
}

void *plim_tape_object(plim_tape *t, size_t bytes) {
  return tape_take(t, &(struct tape_pool){0}, bytes);
}

void tape_put_back(plim_tape *t, struct tape_pool *pool, void *object) {
  if (object == (void *)t->spare) return;
  memcpy(object, &pool->free, sizeof pool->free);
  pool->free = object;
}

// The card that tests/truth was recorded on: the properties that decide how kernels run.
static const plim_gpu recorded_on = {.name = "H200", .capability = 90, .multiprocessors = 132};

plim_tape *plim_tape_new(plim_tape_sink sink) {
  plim_tape *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  t->reserve = malloc(RESERVED_CHUNKS * sizeof *t->reserve);
  if (!t->reserve) {
    free(t);
    return NULL;
  }
  t->sink = sink;
  t->grad_mode = true;
  t->state.free_kind = PLIM_STREAM_FREE;
  t->gpu = &recorded_on;
  return t;
}

void plim_tape_set_gpu(plim_tape *t, const plim_gpu *gpu) { t->gpu = gpu; }

const plim_gpu *plim_tape_gpu(const plim_tape *t) { return t->gpu; }

void plim_tape_empty_cache(plim_tape *t) {
  if (t->fold.is_recording) fold_fail(t);
  pass_void(t);
  t->sink.event(t->sink.context, PLIM_STREAM_EMPTY_CACHE, 0, 0);
}

plim_purpose plim_tape_purpose(plim_tape *t, plim_purpose purpose) {
  plim_purpose was = (plim_purpose)t->purpose;
  t->purpose = (uint8_t)purpose;
  return was;
}

const uint64_t *plim_tape_live(const plim_tape *t) { return t->live; }

plim_program_point plim_tape_point(const plim_tape *t) {
  plim_program_point here = t->place;
  here.is_recomputed = t->state.is_recomputing;
  return here;
}

void plim_tape_written(plim_tape *t, plim_writer by) { t->writer = (uint8_t)by; }

plim_pending_alloc plim_tape_pending(const plim_tape *t) { return t->pending; }

void plim_tape_set_phase(plim_tape *t, plim_phase phase, int step) {
  t->place = (plim_program_point){.layer = -1, .phase = (uint8_t)phase, .step = step};
  t->state.next_layer = 0;
}

void plim_tape_enter(plim_tape *t, int layer, const char *what) {
  t->place.layer = layer;
  t->place.what = what;
}

void plim_tape_at(plim_tape *t, const char *what) { t->place.what = what; }

void plim_tape_enter_layer(plim_tape *t) { plim_tape_enter(t, t->state.next_layer++, NULL); }

static bool is_reserved(const plim_tape *t, const struct tape_chunk *chunk) {
  for (size_t i = 0; i < t->reserved_used; i++)
    if (chunk == &t->reserve[i]) return true;
  return false;
}

void plim_tape_delete(plim_tape *t) {
  if (!t) return;
  tape_free_recomputed(t);
  fold_clear(t);
  pass_clear(t);
  for (struct tape_chunk *chunk = t->chunks, *next; chunk; chunk = next) {
    next = chunk->next;
    if (!is_reserved(t, chunk)) free(chunk);
  }
  vec_free(&t->doomed);
  vec_free(&t->casts);
  vec_free(&t->waiting);
  vec_free(&t->unwound);
  offload_free(t);
  free(t->reserve);
  free(t);
}

bool plim_tape_failed(const plim_tape *t) { return t->state.failed; }

void plim_tape_stop(plim_tape *t) { t->state.failed = true; }

plim_stream plim_tape_stream(const plim_tape *t) { return t->state.stream; }

_Static_assert(sizeof(plim_grad_node) <= sizeof((plim_tape){0}.spare),
               "the spare object holds a node");

plim_grad_node *tape_node(plim_tape *t) { return tape_take(t, &t->nodes, sizeof(plim_grad_node)); }

void tape_put_node(plim_tape *t, plim_grad_node *n) { tape_put_back(t, &t->nodes, n); }

// ---- lifetimes ------------------------------------------------------------------------------------

enum { HOST_STRIDE = 8 }; // gaps in the order of the move, for plim_tape_move_behind

static void storage_wait(plim_tape *t, plim_storage *s) {
  s->is_waiting = true;
  s->waiting = (uint32_t)t->waiting.len;
  s->id = HOST_STRIDE * s->waiting;
  if (!vec_push(&t->waiting, s)) t->state.failed = true;
}

static void forget_waiting(plim_tape *t, const plim_storage *s) {
  if (s->waiting < t->waiting.len) t->waiting.at[s->waiting] = NULL;
}

uint64_t plim_tape_host_peak(const plim_tape *t) { return t->host_peak; }
uint64_t plim_tape_host_bytes(const plim_tape *t) { return t->host_bytes; }

uint64_t plim_tape_room(const plim_tape *t) {
  return t->sink.room ? t->sink.room(t->sink.context) : PLIM_UNKNOWN;
}

static plim_storage *host_storage_new(plim_tape *t, uint64_t bytes) {
  plim_storage *s = tape_take(t, &t->storages, sizeof *s);
  *s = (plim_storage){.bytes = t->state.is_stopped ? 0 : bytes, .refs = 1, .is_on_host = true};
  t->host_bytes += s->bytes;
  if (t->host_bytes > t->host_peak) t->host_peak = t->host_bytes;
  return s;
}

static void storage_arrive(plim_tape *t, plim_storage *s) {
  s->id = t->next_id++;
  t->live[s->purpose] += s->bytes;
  if (t->fold.is_recording) fold_note_event(t, PLIM_STREAM_ALLOC, s);
  t->pending.writer = (plim_writer)t->writer;
  if (t->passes.is_recording) pass_note_event(t, PLIM_STREAM_ALLOC, s->id, s->bytes, s->purpose);
  t->sink.event(t->sink.context, PLIM_STREAM_ALLOC, s->id, s->bytes);
}

static void storage_take(plim_tape *t, plim_storage *s, uint64_t bytes) {
  if (t->state.is_stopped) bytes = 0;
  s->bytes = bytes;
  if (bytes && t->is_on_host) storage_wait(t, s);
  else if (bytes) storage_arrive(t, s); // PyTorch allocates nothing for size 0
  t->writer = PLIM_BY_KERNEL;
}

static void storage_let_go(plim_tape *t, plim_storage *s) {
  if (s->is_on_host) t->host_bytes -= s->bytes;
  else if (s->is_waiting) forget_waiting(t, s);
  else if (s->bytes) {
    plim_stream_kind kind = (plim_stream_kind)t->state.free_kind;
    t->live[s->purpose] -= s->bytes;
    if (s->id < t->passes.moved_end) s->id = pass_moved(t, s->id);
    if (t->fold.is_recording) fold_note_event(t, kind, s);
    if (t->passes.is_recording) pass_note_event(t, (uint8_t)kind, s->id, s->bytes, s->purpose);
    t->sink.event(t->sink.context, kind, s->id, s->bytes);
  }
  s->bytes = 0;
}

static plim_storage *storage_new(plim_tape *t, uint64_t bytes) {
  plim_storage *s = tape_take(t, &t->storages, sizeof *s);
  s->refs = 1;
  s->purpose = t->purpose;
  storage_take(t, s, bytes);
  return s;
}

static void storage_release(plim_tape *t, plim_storage *s) {
  if (--s->refs) return;
  storage_let_go(t, s);
  tape_put_back(t, &t->storages, s);
}

void plim_resize_storage(plim_tape *t, plim_tensor *x, uint64_t bytes) {
  plim_storage old = *x->storage;
  if (old.bytes == bytes) return;
  t->pending = (plim_pending_alloc){x->shape, (plim_dtype)x->dtype, (plim_purpose)old.purpose};
  storage_take(t, x->storage, bytes);
  storage_let_go(t, &old);
}

void plim_tape_begin_host(plim_tape *t) { t->is_on_host = true; }

void plim_tape_end_host(plim_tape *t) { t->is_on_host = false; }

bool plim_tape_is_on_host(const plim_tape *t) { return t->is_on_host; }

void plim_tape_move_behind(plim_tensor *x, const plim_tensor *other, uint32_t n) {
  if (x->storage->is_waiting) x->storage->id = other->storage->id + n;
}

static int by_place(const void *x, const void *y) {
  const plim_storage *a = *(plim_storage *const *)x, *b = *(plim_storage *const *)y;
  if (!a || !b) return (a != NULL) - (b != NULL);
  return (a->id > b->id) - (a->id < b->id);
}

void plim_tape_move_to_device(plim_tape *t) {
  if (t->waiting.len) plim_sort(t->waiting.at, t->waiting.len, sizeof *t->waiting.at, by_place);
  plim_tape_written(t, PLIM_BY_COPY);
  for (size_t i = 0; i < t->waiting.len; i++) {
    plim_storage *s = t->waiting.at[i];
    if (!s) continue;
    s->is_waiting = false;
    t->pending = (plim_pending_alloc){.purpose = (plim_purpose)s->purpose};
    storage_arrive(t, s);
  }
  t->waiting.len = 0;
  plim_tape_written(t, PLIM_BY_KERNEL);
}

void plim_tape_move(plim_tape *t, plim_tensor *x) {
  plim_storage *s = x->storage;
  if (!s->is_waiting) return;
  forget_waiting(t, s);
  s->is_waiting = false;
  t->pending = (plim_pending_alloc){x->shape, (plim_dtype)x->dtype, (plim_purpose)s->purpose};
  plim_tape_written(t, PLIM_BY_COPY);
  storage_arrive(t, s);
  plim_tape_written(t, PLIM_BY_KERNEL);
}

void plim_retain(plim_tensor *x) { x->refs++; }

// Order: the graph, the tensor held by a hook, the gradient, then the tensor's own storage.
void plim_release(plim_tape *t, plim_tensor *x) {
  if (!x || --x->refs) return;
  plim_tensor dead = *x;
  if (dead.fn) plim_node_release(t, dead.fn);
  plim_release(t, dead.held);
  plim_release(t, dead.grad);
  storage_release(t, dead.storage);
  tape_put_back(t, &t->tensors, x);
  plim_release(t, dead.base);
}

void plim_consume(plim_tape *t, plim_tensor *x) {
  if (!x || !x->is_floating) return;
  x->is_floating = false;
  plim_release(t, x);
}

bool hold(plim_tensor *x) {
  bool was = x->is_floating;
  x->is_floating = false;
  return was;
}

// Releases what a variable of a Python frame held. While an exception unwinds, its traceback keeps the frames alive.
static void release_from_frame(plim_tape *t, plim_tensor *x) {
  if (!t->state.is_stopped || !x) plim_release(t, x);
  else if (!vec_push(&t->unwound, x)) t->state.failed = true;
}

void tape_finish_unwinding(plim_tape *t) {
  for (size_t i = 0; i < t->unwound.len; i++) plim_release(t, t->unwound.at[i]);
  t->unwound.len = 0;
}

void let_go(plim_tape *t, plim_tensor *x, bool was_floating) {
  if (was_floating) release_from_frame(t, x);
}

void set(plim_tape *t, plim_tensor **variable, plim_tensor *value) {
  plim_tensor *old = *variable;
  if (t->state.is_stopped && old) { // an exception is unwinding: the assignment never happens
    plim_consume(t, value);
    return;
  }
  if (value && value->is_floating) value->is_floating = false;
  else if (value) plim_retain(value);
  *variable = value;
  plim_release(t, old);
}

void drop(plim_tape *t, plim_tensor **variable) {
  plim_tensor *old = *variable;
  *variable = NULL;
  release_from_frame(t, old);
}

void plim_drop_list(plim_tape *t, plim_tensor **const *variables, size_t count) {
  for (size_t i = 0; i < count; i++) drop(t, variables[i]);
}

void plim_consume_list(plim_tape *t, plim_tensor *const *results, size_t count) {
  for (size_t i = 0; i < count; i++) plim_consume(t, results[i]);
}

plim_tensor *give(plim_tape *t, plim_tensor **variable) {
  if (t->state.is_stopped && *variable) { // nothing is returned; its frame frees the variable
    plim_tensor *nothing = empty(t, (*variable)->shape, (plim_dtype)(*variable)->dtype);
    drop(t, variable);
    return nothing;
  }
  plim_tensor *x = *variable;
  *variable = NULL;
  if (x) x->is_floating = true;
  return x;
}

// ---- shapes ---------------------------------------------------------------------------------------

int64_t plim_numel(const plim_dims *shape) {
  int64_t n = 1;
  for (int i = 0; i < shape->n; i++) n *= shape->at[i];
  return n;
}

plim_dims plim_contiguous_strides(const plim_dims *shape) {
  plim_dims stride = {.n = shape->n};
  int64_t step = 1;
  for (int i = shape->n; i-- > 0;) {
    stride.at[i] = step;
    step *= shape->at[i] > 1 ? shape->at[i] : 1;
  }
  return stride;
}

bool plim_same(const plim_dims *a, const plim_dims *b) {
  if (a->n != b->n) return false;
  for (int i = 0; i < a->n; i++)
    if (a->at[i] != b->at[i]) return false;
  return true;
}

bool plim_is_contiguous(const plim_tensor *x) {
  int64_t step = 1;
  for (int i = x->shape.n; i-- > 0;) {
    if (x->shape.at[i] == 1) continue;
    if (x->stride.at[i] != step) return false;
    step *= x->shape.at[i];
  }
  return true;
}

bool plim_is_dense(const plim_tensor *x) {
  if (plim_is_contiguous(x)) return true;
  int64_t step = 1;
  for (int done = 0; done < x->shape.n; done++) { // find the dimension with the next larger stride
    int next = -1;
    for (int i = 0; i < x->shape.n && next < 0; i++)
      if (x->shape.at[i] != 1 && x->stride.at[i] == step) next = i;
    if (next < 0) break;
    step *= x->shape.at[next];
  }
  return step == plim_numel(&x->shape);
}

// ---- tensors --------------------------------------------------------------------------------------

static plim_tensor *tensor_new(plim_tape *t, plim_storage *s, plim_dims shape, plim_dims stride,
                               plim_dtype dtype) {
  plim_tensor *x = tape_take(t, &t->tensors, sizeof *x);
  x->storage = s;
  x->shape = shape;
  x->stride = stride;
  x->dtype = (uint8_t)dtype;
  x->refs = 1;
  x->is_floating = true;
  return x;
}

plim_tensor *empty_strided(plim_tape *t, plim_dims shape, plim_dims stride, plim_dtype dtype) {
  uint64_t bytes = (uint64_t)plim_numel(&shape) * plim_dtype_bytes[dtype];
  t->pending = (plim_pending_alloc){shape, dtype, (plim_purpose)t->purpose};
  return tensor_new(t, storage_new(t, bytes), shape, stride, dtype);
}

plim_tensor *empty(plim_tape *t, plim_dims shape, plim_dtype dtype) {
  return empty_strided(t, shape, plim_contiguous_strides(&shape), dtype);
}

plim_tensor *empty_on_host(plim_tape *t, plim_dims shape, plim_dtype dtype) {
  uint64_t bytes = (uint64_t)plim_numel(&shape) * plim_dtype_bytes[dtype];
  return tensor_new(t, host_storage_new(t, bytes), shape, plim_contiguous_strides(&shape), dtype);
}

plim_tensor *empty_for(plim_tape *t, plim_purpose purpose, plim_dims shape, plim_dtype dtype) {
  plim_purpose was = plim_tape_purpose(t, purpose);
  plim_tensor *x = empty(t, shape, dtype);
  plim_tape_purpose(t, was);
  return x;
}

plim_tensor *scratch(plim_tape *t, uint64_t bytes) {
  return empty_for(t, PLIM_FOR_WORKSPACE, dims((int64_t)bytes), PLIM_U8);
}

void plim_retype(plim_tape *t, plim_tensor *x, plim_dtype dtype) {
  plim_storage *old = x->storage;
  t->pending = (plim_pending_alloc){x->shape, dtype, (plim_purpose)t->purpose};
  x->storage = storage_new(t, (uint64_t)plim_numel(&x->shape) * plim_dtype_bytes[dtype]);
  x->dtype = (uint8_t)dtype;
  if (old->is_waiting && x->storage->is_waiting) x->storage->id = old->id; // its turn to move
  storage_release(t, old);
}

void plim_set_data(plim_tape *t, plim_tensor *x, const plim_tensor *y) {
  plim_storage *old = x->storage;
  x->storage = y->storage;
  x->storage->refs++;
  storage_release(t, old);
}

plim_tensor *alias_of(plim_tape *t, plim_tensor *x, plim_dims shape, plim_dims stride) {
  x->storage->refs++;
  plim_tensor *alias = tensor_new(t, x->storage, shape, stride, x->dtype);
  alias->offset = x->offset;
  return alias;
}

plim_tensor *view_of(plim_tape *t, plim_tensor *x, plim_dims shape, plim_dims stride) {
  plim_tensor *view = alias_of(t, x, shape, stride);
  view->base = x->base ? x->base : x;
  plim_retain(view->base);
  return view;
}
