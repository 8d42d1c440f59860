// What training needs of a model, whatever its family, and what it is called with.
#ifndef PLIM_CORE_MODEL_H
#define PLIM_CORE_MODEL_H

#include "masks.h"

typedef enum {
  PLIM_CHECKPOINT_OFF,
  PLIM_CHECKPOINT_ON,
  PLIM_CHECKPOINT_REENTRANT
} plim_checkpoint_kind;

// What the model is called with.
typedef struct {
  plim_tensor *ids, *mask, *labels; // mask: NULL if there is none
  plim_tensor *items;               // num_items_in_batch; NULL if it is not given
  plim_mask_kind mask_kind;
  plim_attention_kind attention;
  plim_checkpoint_kind checkpoint; // of each layer
} plim_batch;

// The projections adapters can be put on, in the order peft visits them; names as it has them.
typedef enum {
  PLIM_Q_PROJ,
  PLIM_K_PROJ,
  PLIM_V_PROJ,
  PLIM_O_PROJ,
  PLIM_QKV_PROJ, // phi3: query, key and value in one
  PLIM_GATE_PROJ,
  PLIM_UP_PROJ,
  PLIM_GATE_UP_PROJ, // phi3: both in one
  PLIM_DOWN_PROJ,
  PLIM_QUERY, // bert
  PLIM_KEY,
  PLIM_VALUE,
  PLIM_DENSE,
  PLIM_Q, // mpnet
  PLIM_K,
  PLIM_V,
  PLIM_O,
  PLIM_PROJECTIONS
} plim_projection;

extern const char *const plim_projection_names[PLIM_PROJECTIONS]; // "q_proj", ...

typedef struct {
  int64_t rank;
  double dropout;
  uint32_t targets; // bit i: plim_projection i
  bool keeps_dtype; // false: adapters become float32, as peft does
} plim_lora;

// A family embeds this as the first member of its own struct.
typedef struct plim_model plim_model;
struct plim_model {
  // model(**batch): the loss; *logits (a variable) gets the logits. A bare encoder has neither loss
  // nor labels: NULL, and the variable gets the hidden states.
  plim_tensor *(*forward)(plim_tape *t, plim_model *m, const plim_batch *batch,
                          plim_tensor **logits);
  // peft.get_peft_model: freezes the model and adds adapters. NULL: no program for that yet.
  void (*add_lora)(plim_tape *t, plim_model *m, const plim_lora *lora);
  void (*destroy)(plim_model *m);
  vec(plim_tensor *) parameters; // that are trained, in the order of model.parameters()
  uint64_t elements;             // of all parameters, trained or not
  plim_tensor *pooled;           // a second output that forward left; whoever calls it takes it
  bool is_bare;                  // an encoder without a head
  // Trainer counts labels[:, 1:] of a class whose name says ForCausalLM, and all labels of others.
  bool has_aligned_labels;
  bool failed; // memory was out
};

// Ends a constructor: the model, or NULL (and it is freed) if memory was out.
plim_model *plim_model_finish(plim_model *m);

// Frees the model; its tensors stay on the tape. NULL is fine.
void plim_model_delete(plim_model *m);

// A new parameter of the model, trained.
plim_tensor *plim_model_parameter(plim_tape *t, plim_model *m, plim_dims shape, plim_dtype dtype);

#endif
