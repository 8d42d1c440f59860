// The model as training sees it, independent of its family, and the batch it is called with.
#ifndef PLIM_CORE_MODEL_H
#define PLIM_CORE_MODEL_H

#include "loss.h"
#include "masks.h"

typedef enum {
  PLIM_CHECKPOINT_OFF,
  PLIM_CHECKPOINT_ON,
  PLIM_CHECKPOINT_REENTRANT,
  PLIM_CHECKPOINT_OFFLOADED, // reentrant, with the layers' inputs kept on the host
  PLIM_CHECKPOINT_KINDS
} plim_checkpoint_kind;

extern const char *const plim_checkpoint_names[PLIM_CHECKPOINT_KINDS + 1]; // "off", ..., NULL

// The arguments of a model call.
typedef struct {
  plim_tensor *ids, *mask, *labels; // mask may be NULL
  plim_tensor *types;               // token_type_ids; NULL: the model makes them
  struct plim_column *columns;      // of a contrastive loss (contrastive.h), instead of ids
  plim_tensor *items;               // num_items_in_batch; may be NULL
  plim_mask_kind mask_kind;
  plim_attention_kind attention;
  plim_checkpoint_kind checkpoint; // of each layer
  plim_loss_kind loss;
  int64_t loss_chunk; // tokens
} plim_batch;

// The projections that can have adapters, in the order in which peft visits them, under their names in the models.
typedef enum {
  PLIM_Q_PROJ,
  PLIM_K_PROJ,
  PLIM_V_PROJ,
  PLIM_O_PROJ,
  PLIM_QKV_PROJ, // phi3: query, key and value in one matrix
  PLIM_GATE_PROJ,
  PLIM_UP_PROJ,
  PLIM_GATE_UP_PROJ, // phi3: gate and up in one matrix
  PLIM_DOWN_PROJ,
  PLIM_C_ATTN, // gpt2
  PLIM_C_PROJ, // gpt2: in attention and in the MLP
  PLIM_C_FC,
  PLIM_QUERY_KEY_VALUE, // gpt_neox
  PLIM_DENSE,           // bert, too
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
  uint32_t targets; // bit i selects plim_projection i
  bool keeps_dtype; // false: adapters become float32, peft's default
} plim_lora;

typedef vec(plim_tensor *) plim_tensors;

// Modules outside the layers that may be sharded separately: get_input_embeddings(), the base model's last norm,
// get_output_embeddings().
typedef enum { PLIM_PART_EMBEDDING, PLIM_PART_NORM, PLIM_PART_HEAD, PLIM_PARTS } plim_part;

// A family embeds this as the first member of its own struct.
typedef struct plim_model plim_model;
struct plim_model {
  // model(**batch): returns the loss and sets the variable *logits. A bare encoder has neither loss nor labels: it
  // returns NULL and sets the variable to the hidden states.
  plim_tensor *(*forward)(plim_tape *t, plim_model *m, const plim_batch *batch,
                          plim_tensor **logits);
  // The model without its head: the last hidden states, (B,T,H).
  plim_tensor *(*inner)(plim_tape *t, plim_model *m, const plim_batch *batch);
  // peft.get_peft_model: freezes the model and adds adapters. NULL: not supported yet.
  void (*add_lora)(plim_tape *t, plim_model *m, const plim_lora *lora);
  // Loads a parameter that the checkpoint stores in pieces, which are put together on the device. Returns false if it
  // is stored whole. NULL: all parameters are.
  bool (*assemble)(plim_tape *t, plim_model *m, plim_tensor *p);
  // Calls `visit` for every parameter in the order of their names, in which they are loaded. NULL: they are loaded in
  // the order of model.parameters().
  void (*in_name_order)(plim_model *m, void (*visit)(void *context, plim_tensor *p), void *context);
  vec(void *) arrays;              // allocated by the family, freed with the model
  plim_tensor *head;               // weight of the language model's head; NULL if there is none
  vec(plim_tensor *) parameters;   // trained ones, in the order of model.parameters()
  vec(plim_tensor *) frozen;       // parameters frozen by adapters
  vec(uint64_t) buffer_bytes;      // of its buffers; known only if the model is sharded
  struct plim_shards *shards;      // NULL if the model is not sharded
  uint64_t elements, trainable;    // of all parameters, and of the trained ones, before sharding
  plim_tensor *extra;              // a second output of forward; the caller takes it over
  plim_tensors cached;             // keys and values, a further output of forward
  const plim_tensor *undecayed[2]; // matrices named "bias", which get no weight decay
  plim_tensor *padded;             // a bias that is padded (by 0) when weights are tied
  plim_logits logits;              // what its head does to its logits
  bool is_grouped_by_decay;        // Trainer groups parameters by weight decay
  bool is_bare;                    // an encoder without a head
  bool has_token_types;            // its tokenizer returns token_type_ids
  bool is_encoder_decoder;         // labels have a length of their own
  // False for classes named ForCausalLM, of which Trainer counts labels[:, 1:]; it counts all labels of others.
  bool has_aligned_labels;
  bool failed; // out of memory
};

// Begins a constructor: allocates `bytes` of zeros that start with a copy of `methods`. NULL when out of memory.
void *plim_model_new(size_t bytes, plim_model methods);
// `count` zeroed elements of `bytes` each, which live as long as the model. When out of memory it returns NULL and
// marks the model as failed.
void *plim_model_array(plim_model *m, int64_t count, size_t bytes);
// Ends a constructor: returns the model, or frees it and returns NULL if memory ran out.
plim_model *plim_model_finish(plim_model *m);

// Whether Trainer's optimizer applies weight decay to p: to weights, but not to norms and biases.
bool plim_decays(const plim_model *m, const plim_tensor *p);

// Frees the model; its tensors stay on the tape. m may be NULL.
void plim_model_delete(plim_model *m);

// Adds a new trained parameter to the model.
plim_tensor *plim_model_parameter(plim_tape *t, plim_model *m, plim_dims shape, plim_dtype dtype);

#endif
