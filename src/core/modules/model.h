// What training needs of a model, whatever its family, and what it is called with.
#ifndef PLIM_CORE_MODEL_H
#define PLIM_CORE_MODEL_H

#include "loss.h"
#include "masks.h"

typedef enum {
  PLIM_CHECKPOINT_OFF,
  PLIM_CHECKPOINT_ON,
  PLIM_CHECKPOINT_REENTRANT,
  PLIM_CHECKPOINT_OFFLOADED, // reentrant, the layers' inputs wait on the host
  PLIM_CHECKPOINT_KINDS
} plim_checkpoint_kind;

extern const char *const plim_checkpoint_names[PLIM_CHECKPOINT_KINDS + 1]; // "off", ..., NULL

// What the model is called with.
typedef struct {
  plim_tensor *ids, *mask, *labels; // mask: NULL if there is none
  plim_tensor *types;               // token_type_ids; NULL: the model makes its own
  struct plim_column *columns;      // of a contrastive loss, instead (contrastive.h)
  plim_tensor *items;               // num_items_in_batch; NULL if it is not given
  plim_mask_kind mask_kind;
  plim_attention_kind attention;
  plim_checkpoint_kind checkpoint; // of each layer
  plim_loss_kind loss;
  int64_t loss_chunk; // tokens
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
  PLIM_C_ATTN, // gpt2
  PLIM_C_PROJ, // of attention and of the MLP
  PLIM_C_FC,
  PLIM_QUERY_KEY_VALUE, // gpt_neox
  PLIM_DENSE,           // bert too
  PLIM_DENSE_H_TO_4H,
  PLIM_DENSE_4H_TO_H,
  PLIM_QUERY, // bert
  PLIM_KEY,
  PLIM_VALUE,
  PLIM_Q, // t5, mpnet
  PLIM_K,
  PLIM_V,
  PLIM_O,
  PLIM_WI, // t5
  PLIM_WI_0,
  PLIM_WI_1,
  PLIM_WO,
  PLIM_PROJECTIONS
} plim_projection;

#define PLIM_ALL_LINEAR ((1u << PLIM_PROJECTIONS) - 1)            // "all-linear"
extern const char *const plim_projection_names[PLIM_PROJECTIONS]; // "q_proj", ...

typedef struct {
  int64_t rank;
  double dropout;
  uint32_t targets; // bit i: plim_projection i
  bool keeps_dtype; // false: adapters become float32, as peft does
} plim_lora;

typedef vec(plim_tensor *) plim_tensors;

// Modules outside the layers that may be sharded apart: get_input_embeddings(), the base model's last
// norm, get_output_embeddings().
typedef enum { PLIM_PART_EMBEDDING, PLIM_PART_NORM, PLIM_PART_HEAD, PLIM_PARTS } plim_part;

// A family embeds this as the first member of its own struct.
typedef struct plim_model plim_model;
struct plim_model {
  // model(**batch): the loss; *logits (a variable) gets the logits. A bare encoder has neither loss
  // nor labels: NULL, and the variable gets the hidden states.
  plim_tensor *(*forward)(plim_tape *t, plim_model *m, const plim_batch *batch,
                          plim_tensor **logits);
  // The model without its head: the last hidden states, (B,T,H).
  plim_tensor *(*inner)(plim_tape *t, plim_model *m, const plim_batch *batch);
  // peft.get_peft_model: freezes the model and adds adapters. NULL: no program for that yet.
  void (*add_lora)(plim_tape *t, plim_model *m, const plim_lora *lora);
  // Loads a parameter that a checkpoint holds in pieces, which are put together on the device. False if
  // it is whole; NULL: all are.
  bool (*assemble)(plim_tape *t, plim_model *m, plim_tensor *p);
  // Calls `visit` for every parameter in the order of their names, which is that of loading. NULL: in
  // the order of model.parameters().
  void (*in_name_order)(plim_model *m, void (*visit)(void *context, plim_tensor *p), void *context);
  vec(void *) arrays;              // of the family, freed with the model
  plim_tensor *head;               // weight of a causal language model's head; NULL: has none
  vec(plim_tensor *) parameters;   // that are trained, in the order of model.parameters()
  vec(plim_tensor *) frozen;       // by adapters
  vec(uint64_t) buffer_bytes;      // its buffers; only known when it is sharded
  struct plim_shards *shards;      // NULL: on one GPU
  uint64_t elements, trainable;    // of all parameters, and of those trained, before it is sharded
  plim_tensor *extra;              // a second output that forward left; whoever calls it takes it
  plim_tensors cached;             // keys and values, another output that forward left
  const plim_tensor *undecayed[2]; // matrices without weight decay: those called a bias
  plim_tensor *padded;             // a bias that tying to the loaded weights pads, by nothing
  plim_logits logits;              // what its head does to them
  bool is_grouped_by_decay;        // the optimizer's parameters are: Trainer does so
  bool is_bare;                    // an encoder without a head
  bool has_token_types;            // its tokenizer makes token_type_ids
  bool is_encoder_decoder;         // labels have a length of their own
  // Trainer counts labels[:, 1:] of a class whose name says ForCausalLM, and all labels of others.
  bool has_aligned_labels;
  bool failed; // memory was out
};

// Begins a constructor: `bytes` of zeros, of which the first are `methods`. NULL when memory is out.
void *plim_model_new(size_t bytes, plim_model methods);
// `count` elements of `bytes` each, all zeros, that live as long as the model. When memory is out it
// is NULL, and the model has failed.
void *plim_model_array(plim_model *m, int64_t count, size_t bytes);
// Ends a constructor: the model, or NULL (and it is freed) if memory was out.
plim_model *plim_model_finish(plim_model *m);

// Whether Trainer's optimizer lets it decay: weights do, norms and biases do not.
bool plim_decays(const plim_model *m, const plim_tensor *p);

// Frees the model; its tensors stay on the tape. NULL is fine.
void plim_model_delete(plim_model *m);

// A new parameter of the model, trained.
plim_tensor *plim_model_parameter(plim_tape *t, plim_model *m, plim_dims shape, plim_dtype dtype);

#endif
