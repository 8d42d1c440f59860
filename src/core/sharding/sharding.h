// Training on several GPUs, as seen by one of them. The model is wrapped after it is built; the wrapper's hooks run
// around the model, around each of its layers and in backward.
//
//   plim_model *m = plim_job_load(t, &job);  // wraps the model if job.sharding asks for it
//   plim_train(t, m, &job.recipe);
#ifndef PLIM_CORE_SHARDING_H
#define PLIM_CORE_SHARDING_H

#include "interconnect.h"
#include "optimizer.h"
#include "wrapper.h"

typedef enum {
  PLIM_SHARD_NONE,
  PLIM_SHARD_DDP,   // DistributedDataParallel
  PLIM_SHARD_FSDP2, // fully_shard of each layer, then of the model; or as accelerate does it
  PLIM_SHARD_ZERO1, // DeepSpeed, as the next two
  PLIM_SHARD_ZERO2,
  PLIM_SHARD_ZERO3,
  PLIM_STRATEGIES
} plim_strategy;

extern const char *const plim_strategy_names[PLIM_STRATEGIES + 1]; // "none", "ddp", ..., NULL

// DeepSpeed's sizes, in elements. 0: DeepSpeed's default; negative: none.
typedef struct {
  int64_t reduce_bucket; // reduce_bucket_size
  int64_t sub_group;     // sub_group_size: elements that stage 3's optimizer updates at a time
  int64_t prefetch;      // stage3_prefetch_bucket_size
  int64_t live;          // stage3_max_live_parameters
  int64_t reuse;         // stage3_max_reuse_distance
  int64_t persistent; // stage3_param_persistence_threshold: smaller parameters are never released
} plim_zero_sizes;

typedef struct {
  plim_strategy strategy;
  int64_t world; // number of GPUs
  bool
      syncs_passes; // DDP, FSDP2: gradients are reduced after every forward pass, as without no_sync
  // DDP
  bool has_bucket_views; // gradient_as_bucket_view
  // FSDP2
  plim_dtype compute_dtype; // MixedPrecisionPolicy(param_dtype); PLIM_BOOL: as the parameters
  plim_dtype reduce_dtype;  // MixedPrecisionPolicy(reduce_dtype); PLIM_BOOL: as the gradients
  bool keeps_full;          // reshard_after_forward=False
  bool keeps_root;          // the same for the parameters outside the layers alone
  unsigned own_parts;       // bit i: plim_part i is a unit of its own
  bool
      shards_towers; // each layer of a tower is a unit of its own; otherwise they are with what is outside the layers
  // Each matrix of an adapter is a unit of its own (LLaMA-Factory v1), which is predicted as a part of its layer.
  bool cuts_adapters;
  // accelerate shards the model. If it computes in another dtype, it first casts trained parameters to float32, and
  // gradients are reduced in the compute dtype.
  bool is_by_accelerate;
  bool is_version_1; // FSDP 1: all parameters outside the layers form one unit
  // 4-bit weights are stored in bytes, bitsandbytes' default: accelerate then leaves them whole on every rank.
  bool packs_in_bytes;
  // Axolotl's patches of accelerate and fully_shard: 8-bit weights can be sharded, and a model that is not quantised is
  // divided into its layers and the rest, with parameters that keep their dtype.
  bool is_patched;
  // FSDP2: both or neither (CPUOffloadPolicy); ZeRO: offload_optimizer, offload_param
  bool offloads_optimizer, offloads_parameters;
  // Their memory on the host is not pinned (pin_memory: false). pages_all: FSDP2; the others: ZeRO
  bool pages_all, pages_optimizer, pages_parameters;
  // ZeRO
  plim_zero_sizes sizes;
  bool overlaps; // stages 1 and 2, overlap_comm: alternates between two buckets
  // Stage 3, overlap_comm: false: what is sent and copied has no stream of its own, so computing waits for it. Only the
  // clock knows it, not the allocator.
  bool sends_in_turn;
  // zero.Init creates each parameter in float32, the checkpoint's dtype, before it casts it.
  bool loads_float32;
  // How the GPUs are connected; only affects the time. Zeros: see plim_wiring.
  int64_t nodes;
  plim_link_kind link;
  double network_gbs;
} plim_sharding;

// accelerate's FSDP2, which shards the model in its own way (fsdp_units.c).
static inline bool plim_is_accelerates(const plim_sharding *how) {
  return how->strategy == PLIM_SHARD_FSDP2 && how->is_by_accelerate && !how->is_version_1;
}

plim_zero_sizes plim_zero_sizes_of(const plim_sharding *how);

// Visits all parameters in the order of model.parameters(), including those frozen by adapters; each adapter follows
// the module it wraps. `trained` is the index among the trained parameters, or SIZE_MAX.
void plim_each_parameter(const plim_model *m,
                         void (*visit)(void *context, plim_tensor *p, size_t trained),
                         void *context);

// Wraps the model. Its parameters must know which layer uses them (plim_tensor.layer). Afterwards m->parameters are
// those that the optimizer sees. Returns false when out of memory.
bool plim_shard(plim_tape *t, plim_model *m, const plim_sharding *how);

// Host memory that one rank uses if something is offloaded: pinned copies of parameters and gradients, and the
// optimizer's state. Unverified: derived from the source code, not measured.
uint64_t plim_host_bytes(const plim_model *m, const plim_optimizer *o);
// Pinned memory for a tensor: torch's host allocator rounds up to a power of two.
uint64_t plim_pinned_bytes(uint64_t bytes);

// ---- strategies -----------------------------------------------------------------------------------

plim_shards *plim_ddp_new(plim_tape *t, plim_model *m, const plim_sharding *how, size_t layers);
plim_shards *plim_zero_new(plim_tape *t, plim_model *m, const plim_sharding *how, size_t layers);
plim_shards *plim_zero3_new(plim_tape *t, plim_model *m, const plim_sharding *how, size_t layers);
plim_shards *plim_fsdp_new(plim_tape *t, plim_model *m, const plim_sharding *how, size_t layers);

#endif
