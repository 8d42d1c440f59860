// The wrapper around a model that is trained on several GPUs, as modules see it: hooks around the model, each of its
// layers, its parts and its modules with parameters. Families and modules call these functions whether there is a
// wrapper or not; core/sharding makes wrappers.
#ifndef PLIM_CORE_WRAPPER_H
#define PLIM_CORE_WRAPPER_H

#include "model.h"

// A wrapped model. Each strategy embeds this as the first member of its own struct; hooks may be NULL.
typedef struct plim_shards plim_shards;
struct plim_shards {
  void (*before_model)(plim_tape *t, plim_shards *s);
  // Returns what the caller gets for the loss.
  plim_tensor *(*after_model)(plim_tape *t, plim_shards *s, plim_tensor *loss);
  // Before and after a layer, counted from 0; the first returns what the layer gets for x, floating.
  plim_tensor *(*before_layer)(plim_tape *t, plim_shards *s, size_t layer, plim_tensor *x);
  void (*after_layer)(plim_tape *t, plim_shards *s, size_t layer, plim_tensor *out);
  // The same around parts of the model outside its layers.
  plim_tensor *(*before_part)(plim_tape *t, plim_shards *s, plim_part part, plim_tensor *x);
  void (*after_part)(plim_tape *t, plim_shards *s, plim_part part, plim_tensor *out);
  // The same around modules with parameters of their own: `sharded` of the weight.
  void (*before_module)(plim_tape *t, plim_shards *s, void *sharded);
  void (*after_module)(plim_tape *t, plim_shards *s, void *sharded, plim_tensor *out);
  void (*after_backward)(plim_tape *t, plim_shards *s);
  // DeepSpeed's engine: backward scales the loss, and has an end of its own; so has the step a start.
  void (*after_engine_backward)(plim_tape *t, plim_shards *s, bool is_last);
  void (*before_step)(plim_tape *t, plim_shards *s);
  // Before the optimizer updates the parameter of that index, by itself.
  void (*before_update)(plim_tape *t, plim_shards *s, size_t index);
  void (*after_step)(plim_tape *t, plim_shards *s); // of the optimizer
  void (*destroy)(plim_shards *s);
  struct layer_call *calls; // what a checkpoint needs to run a layer again
  size_t layers, next_layer;
  int64_t world;
  bool is_wrapped_late; // after Trainer has emptied the cache
  bool has_dtensors;    // parameters and gradients are DTensors, which are reduced by communication
  uint64_t pinned_bytes; // of this rank in the memory of the CPU
  uint64_t moment_bytes; // and one copy of the parameters that the optimizer updates there
};

// Puts the wrapper around the model, which owns it from now on. False when memory is out.
bool plim_wrap(plim_tape *t, plim_model *m, plim_shards *s);
void plim_shards_delete(plim_shards *s); // NULL is fine

// model(**batch), through the hooks if there are any.
plim_tensor *plim_call_model(plim_tape *t, plim_model *m, const plim_batch *batch,
                             plim_tensor **logits);
// Calls a layer, checkpointed or not, through the hooks if there are any.
plim_tensor *plim_call_layer(plim_tape *t, plim_checkpoint_kind kind, plim_closure call,
                             plim_tensor *x);
// Around a part's forward: what it gets for x, floating if that is another; and its result as it is.
plim_tensor *plim_part_enter(plim_tape *t, plim_part part, plim_tensor *x);
plim_tensor *plim_part_leave(plim_tape *t, plim_part part, plim_tensor *out);
// Around the forward of a module with these parameters (bias: NULL if there is none), and its result as it is.
void plim_module_enter(plim_tape *t, plim_tensor *weight, plim_tensor *bias);
plim_tensor *plim_module_leave(plim_tape *t, const plim_tensor *weight, plim_tensor *out);
// At the end of loss.backward().
void plim_after_backward(plim_tape *t);

#endif
