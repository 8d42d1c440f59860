#include "layered.h"

#include <string.h>

#include "heads.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

// ---- construction -----------------------------------------------------------------------------------

plim_norm plim_layered_norm(plim_tape *t, plim_layered *m, plim_dtype dtype) {
  if (!m->code->has_unbiased_norms) return plim_norm_new(t, &m->model, m->c.hidden, dtype);
  plim_norm n = {.weight = plim_model_parameter(t, &m->model, dims(m->c.hidden), dtype)};
  plim_consume(t, empty(t, dims(m->c.hidden), dtype));
  return n;
}

static void add_rotary(plim_tape *t, plim_layered *m) {
  plim_tensor *again = NULL;
  plim_rope_new(t, m->c.rope, plim_config_rotary_width(&m->c), &m->rope);
  plim_rope_init(t, m->c.rope, &m->rope, &again);
  drop(t, &again);
}

static void add_head(plim_tape *t, plim_layered *m, plim_dtype dtype) {
  plim_dims table = dims(m->c.vocabulary, m->c.hidden);
  if (m->c.ties_embeddings) {
    m->model.head = m->words;
    plim_consume(t, empty(t, table, dtype)); // its own weight, gone when it is tied
  } else {
    m->model.head = plim_model_parameter(t, &m->model, table, dtype);
    plim_model_name(&m->model, "lm_head", "weight");
  }
  if (m->code->has_head_bias)
    m->model.head_bias = plim_model_parameter(t, &m->model, dims(m->c.vocabulary), dtype);
}

static void build(plim_tape *t, plim_layered *m, plim_dtype d) {
  m->model.place = m->code->layers;
  m->model.spot = PLIM_SPOT_BESIDE;
  m->words =
      plim_model_table(t, &m->model, dims(m->c.vocabulary, m->c.hidden), d, m->c.has_padding_row);
  plim_model_name(&m->model, m->code->table ? m->code->table : "embed_tokens", "weight");
  if (m->code->has_word_norm) m->word_norm = plim_layered_norm(t, m, d);
  if (m->code->has_positions)
    m->positions = plim_model_parameter(
        t, &m->model, dims(m->c.positions + m->code->spare_positions, m->c.hidden), d);
  if (m->code->builds_norm_first) m->last_norm = plim_layered_norm(t, m, d);
  for (int64_t i = 0; i < m->c.layers; i++) {
    m->layers[i].m = m;
    m->model.spot = 1 + i;
    m->code->add_layer(t, m, &m->layers[i], d);
  }
  m->model.spot = PLIM_SPOT_BESIDE;
  if (!m->code->builds_norm_first) m->last_norm = plim_layered_norm(t, m, d);
  if (m->code->has_rotary) add_rotary(t, m);
  if (m->code->add_buffers) m->code->add_buffers(t, m);
  if (m->code->initialise) m->code->initialise(t, &m->model, d);
  m->model.spot = PLIM_SPOT_OUTSIDE;
  add_head(t, m, d);
}

// ---- loading and adapters ---------------------------------------------------------------------------

enum { PARTS = PLIM_LAYERED_LINEARS + PLIM_LAYERED_NORMS };

// A part of a layer; one of the pointers is set.
typedef struct {
  const char *path;
  const plim_linear *linear;
  const plim_norm *norm;
} part;

static void visit_norm(const plim_norm *n, plim_visit *visit, void *context) {
  if (n->bias) visit(context, n->bias);
  if (n->weight) visit(context, n->weight);
}

// In the order of their paths.
static void visit_layer(const plim_layered_layer *l, plim_visit *visit, void *context) {
  part parts[PARTS];
  size_t count = 0;
  for (size_t i = 0; i < PARTS; i++) {
    bool is_linear = i < PLIM_LAYERED_LINEARS;
    part p = {.linear = is_linear ? &l->linears[i] : NULL,
              .norm = is_linear ? NULL : &l->norms[i - PLIM_LAYERED_LINEARS]};
    p.path = is_linear ? p.linear->path : l->norm_paths[i - PLIM_LAYERED_LINEARS];
    if (!p.path) continue;
    size_t at = count++;
    for (; at && strcmp(parts[at - 1].path, p.path) > 0; at--) parts[at] = parts[at - 1];
    parts[at] = p;
  }
  for (size_t i = 0; i < count; i++)
    if (parts[i].linear) plim_linear_visit(parts[i].linear, visit, context);
    else visit_norm(parts[i].norm, visit, context);
}

static void visit_tables(const plim_layered *m, plim_visit *visit, void *context) {
  if (m->positions) visit(context, m->positions);
  visit(context, m->words);
  visit_norm(&m->word_norm, visit, context);
}

static void in_name_order(plim_model *model, plim_visit *visit, void *context) {
  plim_layered *m = (plim_layered *)model;
  bool is_first = m->code->names_tables_first;
  if (model->head_bias) visit(context, model->head_bias);
  if (model->head != m->words) visit(context, model->head);
  if (is_first) visit_tables(m, visit, context);
  if (is_first) visit_norm(&m->last_norm, visit, context);
  for (int64_t i = 0; i < m->c.layers; i++) visit_layer(&m->layers[i], visit, context);
  if (!is_first) visit_norm(&m->last_norm, visit, context);
  if (!is_first) visit_tables(m, visit, context);
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_layered *m = (plim_layered *)model;
  plim_lora_begin(model);
  for (int64_t i = 0; i < m->c.layers; i++) {
    plim_linear *l = m->layers[i].linears;
    plim_lora_add_all(t, model, lora, m->code->layers, i, &l[0], &l[1], &l[2], &l[3], &l[4], &l[5]);
  }
  plim_lora_end(t, model, lora);
}

// ---- forward ----------------------------------------------------------------------------------------

void plim_layered_run(plim_tape *t, plim_layered *m, const plim_batch *batch, plim_closure call,
                      plim_tensor **hidden, plim_tensor **weights) {
  plim_tensor *last = NULL;
  call.results = m->results;
  for (int64_t i = 0; i < m->c.layers && !plim_tape_failed(t); i++) {
    call.context = &m->layers[i];
    plim_tensor *fresh = plim_call_layer(t, batch->checkpoint, call, *hidden);
    set(t, weights, give(t, &m->results[0])); // those of the layer before go now
    set(t, &last, fresh);
    set(t, hidden, fresh);
  }
  drop(t, &last);
}

plim_tensor *plim_layered_mlp(plim_tape *t, const plim_layered_layer *l, int up, int down,
                              plim_tensor *x) {
  plim_tensor *hidden = NULL;
  bool was = hold(x);
  set(t, &hidden, plim_linear_forward(t, &l->linears[up], x));
  set(t, &hidden, plim_activate(t, l->m->c.activation, hidden));
  set(t, &hidden, plim_linear_forward(t, &l->linears[down], hidden));
  set(t, &hidden, dropout(t, hidden, l->m->c.dropout));
  plim_tensor *out = give(t, &hidden);
  let_go(t, x, was);
  return out;
}

plim_tensor *plim_layered_last_norm(plim_tape *t, const plim_layered *m, plim_tensor *hidden) {
  plim_tensor *x = plim_part_enter(t, PLIM_PART_NORM, hidden);
  return plim_part_leave(t, PLIM_PART_NORM, plim_norm_forward(t, &m->last_norm, x));
}

plim_model *plim_layered_new(plim_tape *t, const plim_config *c, plim_dtype dtype,
                             const plim_layered_code *code) {
  plim_layered *m = plim_model_new(sizeof *m, (plim_model){.forward = plim_causal_forward,
                                                           .inner = code->forward,
                                                           .add_lora = add_lora,
                                                           .in_name_order = in_name_order});
  if (!m) return NULL;
  m->c = *c;
  m->code = code;
  m->layers = plim_model_array(&m->model, c->layers, sizeof *m->layers);
  if (m->layers) build(t, m, dtype);
  return plim_model_finish(&m->model);
}
