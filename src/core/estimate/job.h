// A training job: the model, how it is loaded, how it is sharded, and the recipe of its training.
#ifndef PLIM_CORE_JOB_H
#define PLIM_CORE_JOB_H

#include "attention.h"
#include "config.h"
#include "fake_quant.h"
#include "lengths.h"
#include "packages.h"
#include "quantised.h"
#include "sharding.h"
#include "trained.h"
#include "training.h"
#include "versions.h"

typedef enum {
  PLIM_LOAD_INIT,       // random weights, built on the device
  PLIM_LOAD_PRETRAINED, // from_pretrained to the host, then to the device; Trainer moves it itself
  PLIM_LOAD_DEVICE_MAP, // from_pretrained(device_map=...): file by file to the device
  PLIM_LOAD_SHARDED // like PRETRAINED, but under zero.Init: with ZeRO 3 no card ever holds it whole
} plim_load;

// Tables with cos and sin of all positions, float32 buffers that are not sharded, as torchtune's models have them for the
// longest text that they accept. count 0: none.
typedef struct {
  int64_t count;
  uint64_t bytes;        // of each
  int64_t with_adapters; // how many there are in the same model with adapters
} plim_rope_tables;

enum { PLIM_MODELS = 2 }; // that one job can have

typedef struct {
  plim_config model;
  plim_dtype dtype; // of the parameters
  // LLaMA-Factory converts all parameters to `dtype` if it trains all of them; they are loaded in this type, and under
  // adapters keep it. PLIM_BOOL: there is no such difference.
  plim_dtype loaded_dtype;
  bool widens_but_stage_3; // all parameters become float32 if all are trained, except under ZeRO 3
  plim_load load;
  // With these strategies (a bit for each) the framework puts the whole model on each GPU while it loads it, with others it
  // loads it in parts. 0: `load` does not follow the strategy.
  unsigned mapped_under;
  plim_lora lora;            // rank 0: no adapters
  plim_trained trained;      // without adapters: which parameters are trained
  plim_weights_kind weights; // of the frozen projections; all kinds but plain require adapters
  // Layers that round while they are trained: all linear layers whose inputs are whole groups; unless its row of
  // plim_qat_table says all, no head that is tied to the embedding and, with adapters, only the layers that have them.
  plim_qat qat;
  // Layers that are not quantised with the others: ends of their paths, separated by commas; NULL: none.
  const char *left_plain;
  // peft's prepare_model_for_kbit_training: parameters beside the quantised weights become float32.
  bool prepares_kbit;
  // Axolotl: embeddings, head, norms and routers become float32 beforehand, and 16 bits again afterwards, but for routers;
  // with `leaves_tables` (embeddings_skip_upcast) not embeddings and head.
  bool returns_ends, leaves_tables;
  bool
      returns_tables; // older TRL: above 4-bit weights with adapters, embeddings and head become bf16 again
  // Axolotl: embeddings, head, norms and routers become float32 when all parameters are trained without flash-attn.
  bool widens_ends;
  bool quantises_on_host; // and shards what is quantised, so that no card ever holds it whole
  // torchtune's attention (modules/attention.py) copies keys and values for every query head.
  bool copies_heads;
  // Linear layers with adapters and 4-bit weights are torchtune's (linear.c, quantised.c).
  bool is_torchtune;
  plim_rope_tables rope_tables[PLIM_MODELS]; // of the model, and of a second one
  bool narrows_on_card;  // DeepSpeed casts what is beside quantised weights, on the card
  plim_sdpa_kernel sdpa; // the kernel that the card prefers
  plim_sharding sharding;
  plim_recipe recipe;
  // The lengths of the samples, of which recipe.length is the longest; NULL: all have that length. Not owned.
  const plim_lengths *lengths;
  plim_config teacher; // of distillation
  plim_versions versions;
  plim_packages packages; // that are installed
} plim_job;

// The job as it actually runs. If DeepSpeed is configured with a 16-bit dtype (bf16.enabled, fp16.enabled; accelerate
// sets them for mixed_precision), its engine casts all parameters to it, however they were loaded. Adapters too, except
// in a model partitioned by zero.Init. Float32 parameters then exist only in the optimizer, and there is no autocast.
plim_job plim_job_in_effect(const plim_job *job);

// Refuses jobs that are not supported, with the reason.
plim_err plim_job_check(const plim_job *job, plim_error *error);
// Whether it is refused only because it cannot be predicted yet: the frameworks run it. The texts are constants: the
// setting that matters, such as "strategy zero3", and the sentence of the refusal.
bool plim_job_is_unmodelled(const plim_job *job, const char **setting, const char **why);

// Whether transformers refuses to load the model with flash-attn (_flash_attn_can_dispatch of modeling_utils.py).
bool plim_job_is_refused_flash(const plim_job *job);
// How a job with `mapped_under` loads its model under its strategy.
plim_load plim_job_usual_load(const plim_job *job);

// Whether the model is moved from the host part by part: fully_shard, FSDP and accelerate do so with a model on the
// host, and from_pretrained does under zero.Init (PLIM_LOAD_SHARDED).
bool plim_job_loads_in_parts(const plim_job *job);

// Builds the model with its adapters and wraps it. NULL when out of memory.
plim_model *plim_job_load(plim_tape *t, const plim_job *job);

#endif
