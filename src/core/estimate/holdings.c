#include "holdings.h"

#include <stdlib.h>
#include <string.h>

#include "sort.h"

typedef struct {
  plim_holdings tensors; // indexed by allocation id; 0 bytes: free
  uint64_t events, peak_event;
  bool is_done, failed;
} collector;

static void collect(void *context, const plim_tape *t, const plim_allocator *a,
                    plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  collector *c = context;
  (void)a;
  if (c->is_done || kind == PLIM_STREAM_EMPTY_CACHE) {
    c->is_done |= c->events++ == c->peak_event;
    return;
  }
  while (c->tensors.len <= id && !c->failed) c->failed = !vec_push(&c->tensors, (plim_holding){0});
  if (c->failed) return;
  plim_holding *tensor = &c->tensors.at[id];
  if (kind != PLIM_STREAM_ALLOC) tensor->bytes = 0;
  else {
    plim_pending_alloc pending = plim_tape_pending(t);
    *tensor = (plim_holding){
        plim_tape_point(t), pending.shape, pending.dtype, pending.purpose, bytes, 1, false};
  }
  c->is_done = c->events++ == c->peak_event;
}

static void skip(void *context, uint64_t events) {
  collector *c = context;
  if (!c->is_done) c->events += events;
}

static void keep(void *context, uint32_t id, uint32_t like) {
  collector *c = context;
  while (!c->is_done && c->tensors.len <= id && !c->failed)
    c->failed = !vec_push(&c->tensors, (plim_holding){0});
  if (!c->is_done && !c->failed) c->tensors.at[id] = c->tensors.at[like];
}

static void repurpose(void *context, uint32_t id, plim_purpose purpose) {
  collector *c = context;
  if (!c->is_done && id < c->tensors.len) c->tensors.at[id].purpose = purpose;
}

// Parameters, gradients and optimizer state are many and live long; each purpose counts as one group.
static bool is_whole(plim_purpose purpose) { return purpose <= PLIM_FOR_OPTIMIZER; }

static bool belongs_to(const plim_holding *h, const plim_holding *e) {
  if (h->purpose != e->purpose) return false;
  if (is_whole(h->purpose)) return true;
  const char *a = h->place.what ? h->place.what : "", *b = e->place.what ? e->place.what : "";
  return h->dtype == e->dtype && plim_same(&h->shape, &e->shape) && strcmp(a, b) == 0 &&
         (h->place.layer < 0) == (e->place.layer < 0);
}

size_t plim_holdings_group(plim_holdings *groups, const plim_holding *tensor) {
  for (size_t i = 0; i < groups->len; i++) {
    plim_holding *h = &groups->at[i];
    if (!belongs_to(h, tensor)) continue;
    h->is_in_layers |= h->place.layer != tensor->place.layer && !is_whole(h->purpose);
    if (is_whole(h->purpose)) h->shape = (plim_dims){0};
    return i;
  }
  plim_holding group = *tensor;
  group.bytes = group.count = 0;
  return vec_push(groups, group) ? groups->len - 1 : SIZE_MAX;
}

static bool add(plim_holdings *out, const plim_holding *tensor) {
  size_t i = plim_holdings_group(out, tensor);
  if (i == SIZE_MAX) return false;
  out->at[i].bytes += tensor->bytes;
  out->at[i].count++;
  return true;
}

static int by_bytes(const void *x, const void *y) {
  const plim_holding *a = x, *b = y;
  return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

bool plim_holdings_find(const plim_predict_request *request, const plim_prediction *p,
                        plim_holdings *out) {
  collector c = {.peak_event = p->peak_event};
  plim_observer observer = {collect, &c, .repurpose = repurpose, .skips = skip, .keeps = keep};
  plim_predict_request again = *request;
  plim_prediction ignored;
  again.observer = &observer;
  again.shown_event = p->peak_event;
  bool ok = !plim_predict(&again, &ignored, NULL) && !c.failed;
  for (size_t i = 0; ok && i < c.tensors.len; i++)
    if (c.tensors.at[i].bytes) ok = add(out, &c.tensors.at[i]);
  vec_free(&c.tensors);
  if (ok && out->len) plim_sort(out->at, out->len, sizeof *out->at, by_bytes);
  if (!ok) vec_free(out);
  return ok;
}
