// How FSDP2 divides a model into groups: layer by layer and then the rest, or the way accelerate does.
//
// accelerate (1.15: Accelerator._prepare_fsdp2, utils/fsdp_utils.py) shards the layers, the embedding, the tail (the
// last norm and the head) and the rest separately. If the head is tied to the embedding, the embedding is in the tail.
// The tail and the rest are not resharded between forward and backward.
#include <stdlib.h>

#include "fsdp_impl.h"
#include "quantised.h"
#include "rounding.h"

#include "tape_names.h"

// bitsandbytes stores 4-bit weights as one column of 16-bit numbers, if it is told to (bnb_4bit_quant_storage), and 8-bit
// weights in their own shape. Their scales stay whole on every rank.
static plim_dtype stored_dtype(const plim_tensor *p) {
  bool is_column = p->quant && p->quant->kind != PLIM_WEIGHTS_INT8;
  return is_column ? PLIM_BF16 : (plim_dtype)p->dtype;
}

static plim_dims stored_shape(const plim_tensor *p) {
  if (stored_dtype(p) == (plim_dtype)p->dtype) return p->shape;
  int64_t bytes = plim_ceil_div(plim_numel(&p->shape), 2);
  return dims(bytes / plim_dtype_bytes[PLIM_BF16], 1);
}

// Numbers that stand for packed weights are not converted.
static plim_dtype compute_dtype(const fsdp *f, const plim_tensor *p) {
  return f->how.compute_dtype == PLIM_BOOL || p->quant ? stored_dtype(p) : f->how.compute_dtype;
}

// ---- which group a parameter is in ------------------------------------------------------------------

enum {
  EMBEDDING = 1u << PLIM_PART_EMBEDDING,
  NORM = 1u << PLIM_PART_NORM,
  HEAD = 1u << PLIM_PART_HEAD,
  TOWERS = 1u << PLIM_PART_TOWERS
};

static void find_tied(void *context, plim_tensor *p, size_t trained) {
  (void)trained;
  if ((p->parts & EMBEDDING) && (p->parts & HEAD)) *(bool *)context = true;
}

// accelerate looks for the norm among the children of the base model. Under peft's wrapper the base model is the one
// with the head, which has no norm among its children.
static void choose_parts(fsdp *f, const plim_model *m) {
  bool is_tied = false;
  plim_each_parameter(m, find_tied, &is_tied);
  unsigned norm = m->frozen.len ? 0 : NORM;
  fsdp_other(f, FSDP_EMBEDDING)->parts = is_tied ? 0 : EMBEDDING;
  fsdp_other(f, FSDP_TAIL)->parts = is_tied ? norm | EMBEDDING | HEAD : norm | HEAD;
}

static const fsdp_group *group_of(const fsdp *f, const plim_tensor *p) {
  if (p->layer) return &f->groups[p->layer - 1];
  for (int i = FSDP_EMBEDDING; i <= FSDP_TOWERS; i++)
    if (fsdp_other(f, i)->parts & p->parts) return fsdp_other(f, i);
  return fsdp_other(f, FSDP_ROOT);
}

// ---- sharding ---------------------------------------------------------------------------------------

// The first rank's shard: rows, divided as by torch.chunk.
static void cut(plim_tape *t, const fsdp *f, fsdp_parameter *p) {
  plim_dims shape = stored_shape(p->full);
  shape.at[0] = plim_ceil_div(shape.at[0], f->how.world);
  p->elements = plim_numel(&shape);
  plim_purpose purpose = p->full->is_adapter ? PLIM_FOR_ADAPTERS : PLIM_FOR_WEIGHTS;
  set(t, &p->shard, empty_for(t, purpose, shape, p->own_dtype));
  p->shard->is_projection = p->full->is_projection;
  if (f->how.offloads_parameters) plim_resize_storage(t, p->shard, 0);
}

typedef struct {
  fsdp_group *g;
  unsigned part; // 0: all parts
  bool ok;
} gathering;

static bool has(const fsdp_group *g, const plim_tensor *p) {
  for (size_t i = 0; i < g->parameters.len; i++)
    if (g->parameters.at[i].full == p) return true;
  return false;
}

static void take(void *context, plim_tensor *p, size_t trained) {
  gathering *w = context;
  if (group_of(w->g->all, p) != w->g || (w->part && !(p->parts & w->part))) return;
  if (w->part && has(w->g, p)) return; // a tied parameter is already in the group
  if (w->g->all->how.packs_in_bytes && p->quant) return;
  fsdp_parameter one = {.full = p,
                        .own_dtype = stored_dtype(p),
                        .dtype = compute_dtype(w->g->all, p),
                        .index = trained};
  w->ok = vec_push(&w->g->parameters, one) && w->ok;
}

// A group of parts lists them in the order in which accelerate names them.
static bool collect(fsdp_group *g, const plim_model *m) {
  static const unsigned order[] = {NORM, EMBEDDING, HEAD, TOWERS};
  gathering w = {g, 0, true};
  if (!g->parts) plim_each_parameter(m, take, &w);
  for (size_t i = 0; g->parts && i < sizeof order / sizeof *order; i++) {
    w.part = order[i];
    if (g->parts & w.part) plim_each_parameter(m, take, &w);
  }
  return w.ok;
}

// fully_shard: moves parameters on the host to the card first; the root group also moves the buffers.
static bool wrap(plim_tape *t, fsdp_group *g, const plim_model *m) {
  if (!collect(g, m)) return false;
  for (size_t i = 0; i < g->parameters.len; i++) plim_tape_move(t, g->parameters.at[i].full);
  if (g == fsdp_other(g->all, FSDP_ROOT)) plim_tape_move_to_device(t);
  for (size_t i = 0; i < g->parameters.len; i++) cut(t, g->all, &g->parameters.at[i]);
  return true;
}

static void free_whole(plim_tape *t, const fsdp *f, plim_tensor *p) {
  if (f->how.packs_in_bytes && p->quant) return;
  plim_resize_storage(t, p, 0);
  if (!p->quant) p->dtype = (uint8_t)compute_dtype(f, p);
}

// ---- fully_shard(layer), fully_shard(part), fully_shard(model) ----------------------------------------------------------

// All shards of a group exist before its whole parameters are freed.
static bool cut_plainly(plim_tape *t, fsdp *f, const plim_model *m) {
  plim_tape_end_host(t);
  fsdp_other(f, FSDP_EMBEDDING)->parts = f->how.own_parts & EMBEDDING;
  fsdp_other(f, FSDP_TAIL)->parts = f->how.own_parts & HEAD;
  fsdp_other(f, FSDP_TOWERS)->parts = f->how.shards_towers ? TOWERS : 0;
  for (size_t i = 0; i < f->count; i++) {
    fsdp_group *g = &f->groups[i];
    bool is_root = g == fsdp_other(f, FSDP_ROOT);
    g->keeps_full = f->how.keeps_full || (is_root && f->how.keeps_root);
    if (!wrap(t, g, m)) return false;
    for (size_t k = 0; k < g->parameters.len; k++) free_whole(t, f, g->parameters.at[k].full);
  }
  return true;
}

// ---- accelerate ---------------------------------------------------------------------------------------

// Parameters that variables of accelerate's functions keep alive longer than the others.
typedef struct {
  plim_tape *t;
  fsdp *f;
  plim_tensor *embedding, *head; // input_weight, output_weight
  plim_tensor *last;             // last of model.named_parameters()
  plim_tensor *last_updated;     // last of the optimizer's parameters
  plim_tensors stand_ins;        // placeholders for the optimizer's parameters
  plim_tensors codes; // copies that the state dict makes of nested_code, one per packed weight
  size_t freed_codes;
  bool owes_code; // the last freed weight's copy is still there
  bool was_on_host, has_packed, ok;
} preparing;

// Trainer's optimizer lists the parameters with weight decay first.
static plim_tensor *last_updated(const plim_model *m) {
  size_t i = m->parameters.len;
  while (m->is_grouped_by_decay && i && plim_decays(m->parameters.at[i - 1])) i--;
  if (!i) i = m->parameters.len;
  return i ? m->parameters.at[i - 1] : NULL;
}

static void find_held(void *context, plim_tensor *p, size_t trained) {
  preparing *w = context;
  (void)trained;
  if (p->parts & EMBEDDING) w->embedding = p;
  if ((p->parts & HEAD) && p->shape.n > 1) w->head = p;
  w->was_on_host |= p->storage->is_waiting;
  w->has_packed |= p->quant && p->quant->kind != PLIM_WEIGHTS_INT8;
  w->last = p;
}

static bool is_held(const preparing *w, const plim_tensor *p) {
  return p == w->embedding || p == w->head || p == w->last_updated ||
         (w->was_on_host && p == w->last);
}

static void widen(void *context, plim_tensor *p, size_t trained) {
  preparing *w = context;
  if (trained != SIZE_MAX && p->dtype != PLIM_FP32) plim_retype(w->t, p, PLIM_FP32);
}

// If the model is on the card, the optimizer gets one-element tensors by which its parameters are found again.
static void put_stand_ins(preparing *w, const plim_model *m) {
  for (size_t i = 0; i < m->parameters.len && !w->was_on_host; i++) {
    plim_tensor *one = NULL;
    set(w->t, &one, empty(w->t, dims(1), (plim_dtype)m->parameters.at[i]->dtype));
    w->ok = vec_push(&w->stand_ins, one) && w->ok;
  }
}

// model.state_dict()
static void copy_code(void *context, plim_tensor *p, size_t trained) {
  preparing *w = context;
  plim_tensor *code = NULL;
  (void)trained;
  if (w->was_on_host || !p->quant || !p->quant->nested_code) return;
  set(w->t, &code, empty(w->t, p->quant->nested_code->shape, PLIM_FP32));
  w->ok = vec_push(&w->codes, code) && w->ok;
}

static void free_code(preparing *w) {
  if (w->owes_code && w->freed_codes < w->codes.len)
    plim_release(w->t, w->codes.at[w->freed_codes++]);
  w->owes_code = false;
}

// A module's state dict lists its weight, its bias and then what belongs to the packed weight.
static void free_unheld(void *context, plim_tensor *p, size_t trained) {
  preparing *w = context;
  (void)trained;
  if (p->module != PLIM_MODULE_BIAS) free_code(w);
  if (!is_held(w, p)) free_whole(w->t, w->f, p);
  w->owes_code |= p->quant != NULL;
}

// accelerate's state dict keeps parameters on the card alive until everything is sharded, but not those on the host.
static void free_group(preparing *w, const fsdp_group *g) {
  for (size_t i = 0; i < g->parameters.len && w->was_on_host; i++)
    free_unheld(w, g->parameters.at[i].full, 0);
}

static void free_held(preparing *w) {
  plim_tensor *const held[] = {w->last, w->embedding, w->head, w->last_updated};
  for (size_t i = 0; i < sizeof held / sizeof *held; i++)
    if (held[i] && (i == 3 || held[i] != w->last_updated) &&
        (i > 0 || (held[i] != w->embedding && held[i] != w->head)))
      free_whole(w->t, w->f, held[i]);
  while (w->stand_ins.len) plim_release(w->t, w->stand_ins.at[--w->stand_ins.len]);
}

static bool cut_as_accelerate(plim_tape *t, fsdp *f, const plim_model *m) {
  preparing w = {.t = t, .f = f, .last_updated = last_updated(m), .ok = true};
  plim_each_parameter(m, find_held, &w);
  choose_parts(f, m);
  put_stand_ins(&w, m);
  if (f->how.compute_dtype != PLIM_BOOL && !w.has_packed) plim_each_parameter(m, widen, &w);
  plim_each_parameter(m, copy_code, &w);
  plim_tape_end_host(t);
  for (size_t i = 0; i < f->count && w.ok; i++) {
    fsdp_group *g = &f->groups[i];
    g->keeps_full = f->how.keeps_full || i > f->shards.layers + FSDP_EMBEDDING;
    w.ok = wrap(t, g, m);
    free_group(&w, g);
  }
  if (!w.was_on_host) plim_each_parameter(m, free_unheld, &w);
  free_code(&w);
  free_held(&w);
  vec_free(&w.stand_ins);
  vec_free(&w.codes);
  return w.ok;
}

static void find_quantised(void *context, plim_tensor *p, size_t trained) {
  (void)trained;
  *(bool *)context |= p->quant != NULL;
}

bool fsdp_cut(plim_tape *t, fsdp *f, plim_model *m) {
  size_t count = f->shards.layers + FSDP_OTHERS;
  f->groups = calloc(count, sizeof *f->groups);
  if (!f->groups) return false;
  f->count = count;
  for (size_t i = 0; i < f->count; i++) f->groups[i].all = f;
  bool has_quantised = false;
  plim_each_parameter(m, find_quantised, &has_quantised);
  bool is_plain = !plim_is_accelerates(&f->how) || (f->how.is_patched && !has_quantised);
  return is_plain ? cut_plainly(t, f, m) : cut_as_accelerate(t, f, m);
}
