// The wrapper around a model that is trained on several GPUs: hooks around the model, its layers, its parts and its
// modules with parameters. Families and modules always call these functions, with or without a wrapper; core/sharding
// creates the wrappers.
#ifndef PLIM_CORE_WRAPPER_H
#define PLIM_CORE_WRAPPER_H

#include "model.h"

// A wrapped model. Each strategy embeds this as the first member of its own struct; hooks may be NULL.
typedef struct plim_shards plim_shards;
struct plim_shards {
  bool syncs_passes; // plim_sharding's
  void (*before_model)(plim_tape *t, plim_shards *s);
  // Returns the tensor that the caller gets as the loss.
  plim_tensor *(*after_model)(plim_tape *t, plim_shards *s, plim_tensor *loss);
  // Before and after layer number `layer`, from 0, also when it is recomputed. before_layer returns the tensor that the
  // layer gets for x, floating.
  plim_tensor *(*before_layer)(plim_tape *t, plim_shards *s, size_t layer, plim_tensor *x);
  void (*after_layer)(plim_tape *t, plim_shards *s, size_t layer, plim_tensor *out);
  // The same around parts of the model outside its layers.
  plim_tensor *(*before_part)(plim_tape *t, plim_shards *s, plim_part part, plim_tensor *x);
  void (*after_part)(plim_tape *t, plim_shards *s, plim_part part, plim_tensor *out);
  // The same around modules with parameters; `sharded` is that of the module's weight.
  void (*before_module)(plim_tape *t, plim_shards *s, void *sharded);
  void (*after_module)(plim_tape *t, plim_shards *s, void *sharded, plim_tensor *out);
  void (*after_backward)(plim_tape *t, plim_shards *s);
  // DeepSpeed's engine: backward scales the loss and has its own end; the step has its own begin.
  void (*after_engine_backward)(plim_tape *t, plim_shards *s, bool is_last);
  void (*before_step)(plim_tape *t, plim_shards *s);
  // Before the optimizer updates parameter number `index` on its own.
  void (*before_update)(plim_tape *t, plim_shards *s, size_t index);
  void (*after_step)(plim_tape *t, plim_shards *s); // after the optimizer step
  void (*destroy)(plim_shards *s);
  struct layer_call *calls; // data with which a checkpoint runs a layer again
  size_t layers, next_layer;
  int64_t world;
  bool is_wrapped_late;    // wrapped after Trainer has emptied the cache
  bool has_dtensors;       // parameters and gradients are DTensors, reduced by communication
  uint64_t pinned_bytes;   // of this rank in host memory
  uint64_t gradient_bytes; // among them, if each gradient is pinned on its own
  uint64_t moment_bytes;   // of one moment of an optimizer on the host
};

// Wraps the model, which then owns the wrapper. Returns false when out of memory.
bool plim_wrap(plim_tape *t, plim_model *m, plim_shards *s);
void plim_shards_delete(plim_shards *s); // s may be NULL

// The hooks around a call of the whole model, for code that runs its parts itself. What the first one returns is `was` of
// the second; `out` is the call's result, of several the one whose backward comes first. The second one returns what the
// caller gets for it.
plim_shards *plim_begin_call(plim_tape *t, plim_model *m);
plim_tensor *plim_end_call(plim_tape *t, plim_model *m, plim_tensor *out, plim_shards *was);
// model(**batch), through the hooks if there are any.
plim_tensor *plim_call_model(plim_tape *t, plim_model *m, const plim_batch *batch,
                             plim_tensor **logits);
// Calls a layer, checkpointed or not, through the hooks if there are any.
plim_tensor *plim_call_layer(plim_tape *t, plim_checkpoint_kind kind, plim_closure call,
                             plim_tensor *x);
// Around the forward of a part. enter returns the part's input, floating if it is not x; leave returns `out`.
plim_tensor *plim_part_enter(plim_tape *t, plim_part part, plim_tensor *x);
plim_tensor *plim_part_leave(plim_tape *t, plim_part part, plim_tensor *out);
// Around the forward of a module with these parameters (bias may be NULL); leave returns `out`.
void plim_module_enter(plim_tape *t, plim_tensor *weight, plim_tensor *bias);
plim_tensor *plim_module_leave(plim_tape *t, const plim_tensor *weight, plim_tensor *out);
// Call at the end of loss.backward().
void plim_after_backward(plim_tape *t);

#endif
