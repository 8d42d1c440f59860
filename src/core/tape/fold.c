#include "fold.h"

#include "tape_impl.h"
#include "work.h"

#include "tape_names.h"

// Rounds that run: the first differs, the two after it must be alike. In backward, the last differs, because nothing
// reads what it carries on, and so does the one before it, the first with a gradient for everything that rounds share;
// the two before those must be alike.
enum { FRONT = 3, BACK = 4, LEAST_FOLDED = 2 };

void plim_tape_fold_loops(plim_tape *t) { t->fold.is_on = true; }

bool plim_fold_failed(const plim_tape *t) { return t->fold.has_failed; }

uint64_t plim_fold_events(const plim_tape *t) { return t->fold.events; }

void fold_fail(plim_tape *t) {
  t->fold.has_failed = t->state.failed = true;
  t->fold.is_recording = t->fold.is_paused = false;
}

// ---- recording ------------------------------------------------------------------------------------

void fold_note_event(plim_tape *t, plim_stream_kind kind, const plim_storage *s) {
  fold_event e = {.bytes = s->bytes, .id = s->id, .kind = (uint8_t)kind, .purpose = s->purpose};
  bool is_plain = t->state.stream == PLIM_COMPUTE_STREAM;
  if (!is_plain || !vec_push(&t->fold.last.events, e)) fold_fail(t);
}

void fold_note_work(plim_tape *t, fold_work_kind kind, double amount) {
  fold_work w = {amount, kind};
  if (!vec_push(&t->fold.last.work, w)) fold_fail(t);
}

static void record(plim_tape *t) {
  fold_round *last = &t->fold.last, before = t->fold.before;
  t->fold.before = *last;
  *last = before;
  last->events.len = last->work.len = 0;
  last->first = t->next_id;
  last->operators = t->clock.operators;
  last->modules = t->clock.modules;
  t->fold.is_recording = true;
}

static void stop_recording(plim_tape *t) {
  fold_round *last = &t->fold.last;
  if (!t->fold.is_recording) return;
  t->fold.is_recording = false;
  last->size = t->next_id - last->first;
  last->operators = t->clock.operators - last->operators;
  last->modules = t->clock.modules - last->modules;
}

void fold_clear(plim_tape *t) {
  vec_free(&t->fold.last.events);
  vec_free(&t->fold.last.work);
  vec_free(&t->fold.before.events);
  vec_free(&t->fold.before.work);
}

// ---- comparing ------------------------------------------------------------------------------------

// The allocations of a forward round that its backward may free: its own and those of the round before it.
typedef struct {
  int64_t first, size; // size 0: there is no forward round
} span;

static bool is_of_span(const span *s, uint32_t id) {
  return id + s->size >= s->first && id < s->first + s->size;
}

static bool is_same_event(const fold_round *a, const span *of_a, const fold_event *x,
                          const fold_round *b, const span *of_b, const fold_event *y) {
  bool is_saved = is_of_span(of_a, x->id);
  if (x->kind != y->kind || x->bytes != y->bytes || x->purpose != y->purpose) return false;
  if (is_saved != is_of_span(of_b, y->id)) return false;
  if (is_saved) return x->id - of_a->first == y->id - of_b->first;
  bool is_recent = x->id + a->size >= a->first; // of this round or of the one before it
  return is_recent && x->id - a->first == y->id - b->first;
}

// Whether the round and the one before it did the same.
static bool is_alike(const fold_round *a, const span *of_a, const fold_round *b, const span *of_b) {
  if (a->size != b->size || a->events.len != b->events.len || a->work.len != b->work.len ||
      a->operators != b->operators || a->modules != b->modules)
    return false;
  for (size_t i = 0; i < a->events.len; i++)
    if (!is_same_event(a, of_a, &a->events.at[i], b, of_b, &b->events.at[i])) return false;
  for (size_t i = 0; i < a->work.len; i++) {
    const fold_work *x = &a->work.at[i], *y = &b->work.at[i];
    if (x->kind != y->kind || x->amount > y->amount || x->amount < y->amount) return false;
  }
  return true;
}

// ---- sending again --------------------------------------------------------------------------------

// Sends the events of the recorded round once more: its own allocations and those of the round before it get the numbers
// that follow, those of its forward round are `shift` further on.
static void send_again(plim_tape *t, const span *forward, int64_t shift) {
  const fold_round *r = &t->fold.last;
  uint32_t first = t->next_id;
  for (size_t i = 0; i < r->events.len && !t->state.failed; i++) {
    const fold_event *e = &r->events.at[i];
    bool is_saved = is_of_span(forward, e->id), is_alloc = e->kind == PLIM_STREAM_ALLOC;
    uint32_t id = is_saved ? (uint32_t)(e->id + shift) : e->id - r->first + first;
    if (is_alloc) t->next_id = id + 1, t->live[e->purpose] += e->bytes;
    else t->live[e->purpose] -= e->bytes;
    if (t->passes.is_recording) pass_note_event(t, e->kind, id, e->bytes, e->purpose);
    t->sink.event(t->sink.context, (plim_stream_kind)e->kind, id, e->bytes);
  }
  t->fold.events += r->events.len;
  for (size_t i = 0; i < r->work.len; i++) work_again(t, &r->work.at[i]);
  t->clock.operators += r->operators;
  t->clock.modules += r->modules;
}

// ---- forward --------------------------------------------------------------------------------------

plim_fold plim_fold_begin(plim_tape *t, int64_t count) {
  bool saves_on_host =
      t->offload.how != PLIM_SAVED_HERE && !t->packing; // a checkpoint saves nothing in its loop
  bool can = t->fold.is_on && !saves_on_host && !t->state.is_stopped &&
             count >= FRONT + LEAST_FOLDED + BACK;
  if (t->fold.is_recording) fold_fail(t); // a loop inside a round of another
  return (plim_fold){.count = can ? count : 0};
}

// A variable that the folded rounds have set. What only the variable refers to is now the last round's; what the graph
// of the round keeps as well stays there, and nobody reads the variable again before it is set.
static void move_variable(plim_tape *t, plim_tensor **variable, uint32_t by) {
  plim_tensor *x = *variable;
  if (!x) return;
  if (x->refs == 1 && x->storage->refs == 1) {
    x->storage->id += by;
    return;
  }
  plim_dims nothing = {.n = 1};
  set(t, variable, empty(t, nothing, (plim_dtype)x->dtype));
}

// The carried variables that a round sets anew must belong to nothing else; others are changed in place.
static bool can_move(const plim_tape *t, const plim_fold_variables *v) {
  for (int i = 0; i < PLIM_FOLD_CARRIED; i++) {
    const plim_tensor *x = v->carried[i] ? *v->carried[i] : NULL;
    bool is_new = x && x->storage->id >= t->fold.last.first;
    if (is_new && (x->refs != 1 || x->storage->refs != 1)) return false;
  }
  return true;
}

static void move_variables(plim_tape *t, const plim_fold_variables *v, uint32_t by) {
  for (int i = 0; i < PLIM_FOLD_CARRIED; i++) {
    plim_tensor *x = v->carried[i] ? *v->carried[i] : NULL;
    if (x && x->storage->id >= t->fold.last.first) x->storage->id += by;
  }
  for (int i = 0; i < PLIM_FOLD_REBOUND; i++)
    if (v->rebound[i]) move_variable(t, v->rebound[i], by);
}

static void fold_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out);

// The node saves a tensor without memory that knows the folded rounds' allocations: its storage has the number of the
// first, its shape how many a round has. If a checkpoint recomputes the loop, the node gets that of the recomputation.
static plim_tensor *mark_of(plim_tape *t, uint32_t first, uint32_t size) {
  plim_tensor *mark = empty(t, (plim_dims){.n = 1}, PLIM_BOOL);
  mark->storage->id = first;
  mark->shape.at[0] = size;
  return mark;
}

static void make_node(plim_tape *t, int64_t folded, const plim_fold_variables *v, uint32_t first) {
  plim_tensor *inputs[PLIM_FOLD_CARRIED + PLIM_FOLD_SHARED] = {0};
  uint32_t operators = t->clock.operators;
  for (int i = 0; i < PLIM_FOLD_CARRIED; i++)
    if (v->carried[i]) inputs[i] = *v->carried[i];
  for (int i = 0; i < PLIM_FOLD_SHARED; i++)
    if (v->shared[i]) inputs[PLIM_FOLD_CARRIED + i] = *v->shared[i];
  t->fold.is_paused = true;
  plim_grad_node *n = node_begin(t, fold_backward, inputs, PLIM_FOLD_CARRIED + PLIM_FOLD_SHARED);
  t->clock.operators = operators;
  if (n) {
    plim_tensor *mark = mark_of(t, first, t->fold.last.size);
    node_save(t, n, mark);
    plim_consume(t, mark);
    n->number = folded;
    n->fold = PLIM_FOLD_NODE;
  }
  for (int i = 0; n && i < PLIM_FOLD_CARRIED; i++) {
    plim_grad_node *before = inputs[i] ? inputs[i]->fn : NULL;
    if (inputs[i] && !before) fold_fail(t); // the node's outputs are numbered as its inputs are
    if (!before) continue;
    node_output(t, n, inputs[i]);
    plim_node_release(t, before);
  }
  t->fold.is_paused = false;
}

static int64_t fold_rounds(plim_tape *t, int64_t folded, const plim_fold_variables *v) {
  const span none = {0};
  uint32_t first = t->next_id, by = (uint32_t)folded * t->fold.last.size;
  if (!is_alike(&t->fold.last, &none, &t->fold.before, &none) || !can_move(t, v)) {
    fold_fail(t);
    return 0;
  }
  for (int64_t i = 0; i < folded && !t->state.failed; i++) send_again(t, &none, 0);
  move_variables(t, v, by);
  make_node(t, folded, v, first);
  return folded;
}

int64_t plim_fold_end_round(plim_tape *t, const plim_fold *fold, int64_t round,
                            const plim_fold_variables *v) {
  if (!fold->count || t->state.failed) return 0;
  stop_recording(t);
  if (round < FRONT - 1) record(t);
  if (round == FRONT - 1) return fold_rounds(t, fold->count - FRONT - BACK, v);
  // In backward, the node that carries the first variable on is the first of its round to run.
  int64_t after = round - (fold->count - BACK);
  plim_grad_node *last = (*v->carried[0])->fn;
  if (last && (after == 0 || after == 1)) last->fold = PLIM_FOLD_ROUND;
  return 0;
}

// ---- backward -------------------------------------------------------------------------------------

void fold_arrive(plim_tape *t, const plim_grad_node *n) {
  stop_recording(t);
  if (n->fold == PLIM_FOLD_ROUND) record(t);
  else t->fold.is_paused = true; // until fold_backward: the rounds' own nodes are in the recording
}

// What the recorded round has allocated and not freed: it must be the gradients that it hands on.
static bool leaves_only(const fold_round *r, plim_tensor *const *in, int count) {
  int64_t left = 0, handed = 0;
  for (size_t i = 0; i < r->events.len; i++) {
    const fold_event *e = &r->events.at[i];
    if (e->kind == PLIM_STREAM_ALLOC) left++;
    else if (e->id >= r->first) left--;
  }
  for (int i = 0; i < count; i++) {
    if (!in[i]) continue;
    bool is_own = in[i]->refs == 1 && in[i]->storage->refs == 1 && in[i]->storage->id >= r->first;
    if (!is_own) return false;
    handed++;
  }
  return left == handed;
}

// The gradients of the carried tensors are those of the round that ran last, moved to the first folded round. The
// gradients of shared tensors were added up in place.
static void fold_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  const fold_round *last = &t->fold.last, *before = &t->fold.before;
  int64_t first = n->saved[0]->storage->id, size = n->saved[0]->shape.at[0];
  span of_last = {first + n->number * size, size}, of_before = {of_last.first + size, size};
  t->fold.is_paused = false;
  if (!is_alike(last, &of_last, before, &of_before) || !leaves_only(last, in, n->output_count)) {
    fold_fail(t);
    return;
  }
  for (int64_t i = 1; i <= n->number && !t->state.failed; i++) send_again(t, &of_last, -i * size);
  for (int i = 0; i < n->output_count; i++) {
    if (!in[i]) continue;
    in[i]->storage->id += (uint32_t)n->number * last->size;
    in[i]->storage->is_written = true;
    plim_retain(in[i]);
    out[i] = in[i];
  }
}
