#include "holders.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  plim_place place;
  plim_dims shape;
  plim_dtype dtype;
  uint8_t purpose;
  uint64_t bytes; // 0: it is free
} entry;

typedef struct {
  vec(entry) entries; // by the id of the allocation
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
  while (c->entries.len <= id && !c->failed) c->failed = !vec_push(&c->entries, (entry){0});
  if (c->failed) return;
  entry *e = &c->entries.at[id];
  if (kind != PLIM_STREAM_ALLOC) e->bytes = 0;
  else {
    plim_wish wish = plim_tape_wish(t);
    *e = (entry){plim_tape_place(t), wish.shape, wish.dtype, (uint8_t)wish.purpose, bytes};
  }
  c->is_done = c->events++ == c->peak_event;
}

// Parameters and what goes with them are many and stay; each of these counts as one.
static bool is_whole(plim_purpose purpose) { return purpose <= PLIM_FOR_OPTIMIZER; }

static bool is_same(const plim_holding *h, const entry *e) {
  if (h->purpose != (plim_purpose)e->purpose) return false;
  if (is_whole(h->purpose)) return true;
  const char *a = h->place.what ? h->place.what : "", *b = e->place.what ? e->place.what : "";
  return h->dtype == e->dtype && plim_same(&h->shape, &e->shape) && strcmp(a, b) == 0 &&
         (h->place.layer < 0) == (e->place.layer < 0);
}

static bool add(plim_holders *out, const entry *e) {
  for (size_t i = 0; i < out->len; i++) {
    plim_holding *h = &out->at[i];
    if (!is_same(h, e)) continue;
    h->is_in_layers |= h->place.layer != e->place.layer && !is_whole(h->purpose);
    if (is_whole(h->purpose)) h->shape = (plim_dims){0};
    h->bytes += e->bytes;
    h->count++;
    return true;
  }
  return vec_push(out, (plim_holding){.place = e->place,
                                      .shape = e->shape,
                                      .dtype = e->dtype,
                                      .purpose = (plim_purpose)e->purpose,
                                      .bytes = e->bytes,
                                      .count = 1});
}

static int by_bytes(const void *x, const void *y) {
  const plim_holding *a = x, *b = y;
  return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

bool plim_holders_find(const plim_predict_request *request, const plim_prediction *p,
                       plim_holders *out) {
  collector c = {.peak_event = p->peak_event};
  plim_observer observer = {collect, &c};
  plim_predict_request again = *request;
  plim_prediction ignored;
  again.observer = &observer;
  bool ok = !plim_predict(&again, &ignored, NULL) && !c.failed;
  for (size_t i = 0; ok && i < c.entries.len; i++)
    if (c.entries.at[i].bytes) ok = add(out, &c.entries.at[i]);
  vec_free(&c.entries);
  if (ok && out->len) qsort(out->at, out->len, sizeof *out->at, by_bytes);
  if (!ok) vec_free(out);
  return ok;
}
