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

enum { PLIM_BATCH_PARTS = 8 };

// The arguments of a model call.
typedef struct {
  plim_tensor *ids, *mask, *labels; // mask may be NULL
  plim_tensor *ends;                // of answers, whose beginnings are the labels
  plim_tensor *types;               // token_type_ids; NULL: the model makes them
  struct plim_column *columns;      // of a contrastive loss (contrastive.h), instead of ids
  plim_tensor *items;               // num_items_in_batch; may be NULL
  // Of preferences: which tokens are answers, and what was computed with the reference beforehand (may be NULL).
  plim_tensor *answers, *reference_chosen, *reference_rejected;
  plim_tensor *parts[PLIM_BATCH_PARTS]; // what else a batch of preferences has, by method
  plim_mask_kind mask_kind;
  plim_attention_kind attention;
  plim_checkpoint_kind checkpoint; // of each layer
  plim_loss_kind loss;
  int64_t loss_chunk; // tokens
  bool scores_again;  // plim_recipe
} plim_batch;

// Which biases of the model are trained beside the adapters: those of layers that have adapters, or all.
typedef enum { PLIM_BIAS_NONE, PLIM_BIAS_LORA_ONLY, PLIM_BIAS_ALL, PLIM_BIASES } plim_lora_bias;
extern const char *const plim_lora_bias_names[PLIM_BIASES + 1]; // "none", ..., NULL

// LoRA adapters of peft.
typedef struct {
  int64_t rank;
  double dropout;
  // target_modules: names separated by commas, each the end of a layer's path ("q_proj", "self_attn.q_proj"), or
  // PLIM_ALL_LINEAR. Not owned.
  const char *targets;
  const char *excluded; // exclude_modules, of the same form; NULL: none
  const char *layers;   // layers_to_transform: numbers separated by commas; NULL: all
  // modules_to_save: names separated by commas, such as "embed_tokens,lm_head". They are trained in full, in a copy;
  // NULL: none.
  const char *saved;
  plim_lora_bias bias;
  bool uses_dora;
  bool keeps_dtype; // false: adapters become float32, peft's default
  // Afterwards all that is trained becomes bf16, as in TRL's trainers with quantised weights.
  bool casts_bf16;
  // Axolotl (loaders/adapter.py): "all-linear" is a list of the linear layers that exist, so stacked experts are not
  // among them; adapters on experts have no dropout.
  bool is_axolotls;
  bool leaves_towers; // none in the towers of a multimodal model
} plim_lora;

#define PLIM_ALL_LINEAR "all-linear"

typedef vec(plim_tensor *) plim_tensors;

// Where a parameter is: in layer N (N + 1), beside the list of layers, outside of the model that has the layers, or
// unknown.
enum { PLIM_SPOT_UNKNOWN = 0, PLIM_SPOT_BESIDE = -1, PLIM_SPOT_OUTSIDE = -2 };

// What the name of a parameter is made of: "model.layers" of the model, 3, "mlp.up_proj" and "weight".
typedef struct {
  plim_tensor *tensor;
  const char *path; // NULL: a norm
  const char *end;  // "weight", "bias"; "": the path is the whole name
  int64_t spot;
} plim_parameter_name;

// Modules outside the layers that may be sharded separately: get_input_embeddings(), the base model's last norm,
// get_output_embeddings(), and the layers of towers, which never run.
typedef enum {
  PLIM_PART_EMBEDDING,
  PLIM_PART_NORM,
  PLIM_PART_HEAD,
  PLIM_PART_TOWERS,
  PLIM_PARTS
} plim_part;

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
  // The temporaries of _init_weights, which also runs after a checkpoint was loaded to the device. NULL: there are none.
  void (*initialise)(plim_tape *t, plim_model *m, plim_dtype dtype);
  vec(void *) arrays;            // allocated by the family, freed with the model
  plim_tensor *head;             // weight of the language model's head; NULL if there is none
  plim_tensor *head_bias;        // NULL: it has none
  plim_tensor *head_a, *head_b;  // of an adapter on the head; NULL: none
  double head_dropout;           // of that adapter
  vec(plim_tensor *) parameters; // trained ones, in the order of model.parameters()
  plim_tensors frozen;           // parameters frozen by adapters
  const char *place;             // of its list of layers, "model.layers"; NULL: names are not known
  int64_t spot;                  // of the parameters that are created now
  vec(plim_parameter_name) names; // of all parameters, in the order of their creation
  vec(const char *) linear_names; // of its linear layers, each once: "self_attn.q_proj"
  vec(uint64_t) buffer_bytes;     // of its buffers; known only if the model is sharded
  struct plim_shards *shards;     // NULL if the model is not sharded
  plim_model *reference;          // of training from preferences: a frozen model, owned; or NULL
  int64_t head_elements;          // hidden size * hidden size / attention heads; 0: there are none
  uint64_t elements, trainable;   // of all parameters, and of the trained ones, before sharding
  plim_tensor *table;             // of tokens: get_input_embeddings()
  const plim_tensor *table_scale; // a buffer of the embedding of tokens; or NULL
  plim_tensor *extra;             // a second output of forward; the caller takes it over
  plim_tensors cached;            // keys and values, a further output of forward
  plim_tensor *padded;            // a bias that is padded (by 0) when weights are tied
  plim_logits logits;             // what its head does to its logits
  bool has_inner_head;            // plim_family's
  bool narrows_hidden;            // plim_family's
  plim_tensor *embedded;          // tokens that the forward around such a head holds to its end
  bool is_grouped_by_decay;       // Trainer groups parameters by weight decay
  bool is_partly_trained;         // trained.h
  bool is_bare;                   // an encoder without a head
  bool has_token_types;           // its tokenizer returns token_type_ids
  bool is_encoder_decoder;        // labels have a length of their own
  // False for classes named ForCausalLM, of which Trainer counts labels[:, 1:]; it counts all labels of others.
  bool has_aligned_labels;
  // Its class says accepts_loss_kwargs = False: Trainer counts no labels, and divides the loss by the number of passes.
  bool takes_no_items;
  // plim_family's:
  uint16_t loss_function_from, logits_to_keep_from;
  bool had_wide_logits;
  // A head that returns labels (heads.h); NULL: the head is another.
  struct plim_label_head *label_head;
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
bool plim_decays(const plim_tensor *p);

// Frees the model; its tensors stay on the tape. m may be NULL.
void plim_model_delete(plim_model *m);

// Adds a new trained parameter to the model.
plim_tensor *plim_model_parameter(plim_tape *t, plim_model *m, plim_dims shape, plim_dtype dtype);
// The same; a vector, too, has random numbers.
plim_tensor *plim_model_random(plim_tape *t, plim_model *m, plim_dims shape, plim_dtype dtype);
// The table of tokens of the model. nn.Embedding sets the row of the padding token to 0.
plim_tensor *plim_model_table(plim_tape *t, plim_model *m, plim_dims shape, plim_dtype dtype,
                              bool has_padding_row);
// Names the parameter that was added last. Both texts must outlive the model.
void plim_model_name(plim_model *m, const char *path, const char *end);

#endif
