// Decoders with a last norm behind a list of layers that are unlike llama's. Building, loading and adapters are the same for
// all; a family's file builds one layer and has its forward and the model's.
#ifndef PLIM_CORE_LAYERED_H
#define PLIM_CORE_LAYERED_H

#include "family.h"
#include "modules.h"
#include "rope.h"

enum { PLIM_LAYERED_LINEARS = 6, PLIM_LAYERED_NORMS = 2 };

// Parts that a family does not have are zero.
typedef struct plim_layered_layer {
  struct plim_layered *m;
  plim_linear linears[PLIM_LAYERED_LINEARS]; // in the order of the layer's modules
  plim_norm norms[PLIM_LAYERED_NORMS];
  const char *norm_paths[PLIM_LAYERED_NORMS];
  plim_tensor *buffer;
} plim_layered_layer;

// What a family defines itself.
typedef struct {
  const char *layers; // where they are: "transformer.h"
  const char *table;  // the name of the table of tokens; NULL: "embed_tokens"
  void (*add_layer)(plim_tape *t, struct plim_layered *m, plim_layered_layer *l, plim_dtype dtype);
  void (*add_buffers)(plim_tape *t, struct plim_layered *m); // behind the last norm; NULL: none
  // The temporaries of its _init_weights, which a loaded model computes on the host; NULL: there are none.
  void (*initialise)(plim_tape *t, plim_model *model, plim_dtype dtype);
  plim_tensor *(*forward)(plim_tape *t, plim_model *model, const plim_batch *batch);
  bool has_positions; // a table of them, with rows for `spare_positions` more
  int64_t spare_positions;
  bool has_word_norm;      // of embedded tokens, built behind their table
  bool has_rotary;         // one module for all layers
  bool has_unbiased_norms; // LayerNorms whose biases are removed
  bool builds_norm_first;  // the last norm, before the layers
  bool names_tables_first; // names of tables and of the last norm come before that of the layers
  bool has_head_bias;
} plim_layered_code;

typedef struct plim_layered {
  plim_model model;
  plim_config c;
  const plim_layered_code *code;
  plim_tensor *words, *positions; // tables
  plim_norm word_norm, last_norm;
  plim_rope_buffers rope;
  plim_tensor *buffer;
  plim_layered_layer *layers;
  plim_tensor *results[PLIM_MAX_RESULTS]; // of the layer that runs: the weights of eager attention
  plim_attention_kind attention;          // of the batch that runs
} plim_layered;

// The model, built as its constructor does. `code` must outlive it. NULL when memory is out.
plim_model *plim_layered_new(plim_tape *t, const plim_config *c, plim_dtype dtype,
                             const plim_layered_code *code);
// A norm as wide as the model.
plim_norm plim_layered_norm(plim_tape *t, plim_layered *m, plim_dtype dtype);
// Runs all layers, whose results the model's forward keeps in a variable: sets *hidden, and *weights.
void plim_layered_run(plim_tape *t, plim_layered *m, const plim_batch *batch, plim_closure call,
                      plim_tensor **hidden, plim_tensor **weights);
// dropout(down(act(up(x)))), of two linear layers.
plim_tensor *plim_layered_mlp(plim_tape *t, const plim_layered_layer *l, int up, int down,
                              plim_tensor *x);
plim_tensor *plim_layered_last_norm(plim_tape *t, const plim_layered *m, plim_tensor *hidden);

#endif
