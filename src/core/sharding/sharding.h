// Training on several GPUs, as what one of them allocates: the model is wrapped after it is built, and
// the wrapper's hooks run around the model, around each of its layers and in backward.
//
//   plim_model *m = plim_job_load(t, &job);  // wrapped, if job.sharding says so
//   plim_train(t, m, &job.recipe);
#ifndef PLIM_CORE_SHARDING_H
#define PLIM_CORE_SHARDING_H

#include "interconnect.h"
#include "optimizer.h"
#include "wrapper.h"

typedef enum {
  PLIM_SHARD_NONE,
  PLIM_SHARD_DDP,   // DistributedDataParallel
  PLIM_SHARD_FSDP2, // fully_shard of each layer, then of the model; or accelerate's
  PLIM_SHARD_ZERO1, // DeepSpeed
  PLIM_SHARD_ZERO2,
  PLIM_SHARD_ZERO3,
  PLIM_STRATEGIES
} plim_strategy;

extern const char *const plim_strategy_names[PLIM_STRATEGIES + 1]; // "none", "ddp", ..., NULL

// Sizes of DeepSpeed's, in elements. 0: as DeepSpeed has it; less: none.
typedef struct {
  int64_t reduce_bucket; // reduce_bucket_size
  int64_t sub_group;     // sub_group_size: what the optimizer of stage 3 updates at a time
  int64_t prefetch;      // stage3_prefetch_bucket_size
  int64_t live;          // stage3_max_live_parameters
  int64_t reuse;         // stage3_max_reuse_distance
  int64_t persistent;    // stage3_param_persistence_threshold: smaller parameters stay
} plim_zero_sizes;

typedef struct {
  plim_strategy strategy;
  int64_t world; // GPUs
  // DDP
  bool has_bucket_views; // gradient_as_bucket_view
  // FSDP2
  plim_dtype compute_dtype; // MixedPrecisionPolicy(param_dtype); PLIM_BOOL: that of the parameters
  plim_dtype reduce_dtype;  // MixedPrecisionPolicy(reduce_dtype); PLIM_BOOL: that of the gradients
  bool keeps_full;          // reshard_after_forward=False
  // accelerate shards: where it computes in another type, what is trained is made float32 first, and
  // gradients travel in that type.
  bool is_by_accelerate;
  bool is_version_1; // FSDP, the first: of all units but the layers', one
  // FSDP2: both or none (CPUOffloadPolicy); ZeRO: offload_optimizer, offload_param
  bool offloads_optimizer, offloads_parameters;
  // ZeRO
  plim_zero_sizes sizes;
  bool overlaps; // stages 1 and 2, overlap_comm: two buckets in turn
  bool
      loads_float32; // zero.Init makes each parameter so, as the checkpoint has it, and then in its own type
  // How they are joined, which is a matter of time alone. Zeros: see plim_wiring.
  int64_t nodes;
  plim_link_kind link;
  double network_gbs;
} plim_sharding;

// accelerate's FSDP2, which cuts the model its own way (fsdp_units.c).
static inline bool plim_is_accelerates(const plim_sharding *how) {
  return how->strategy == PLIM_SHARD_FSDP2 && how->is_by_accelerate && !how->is_version_1;
}

plim_zero_sizes plim_zero_sizes_of(const plim_sharding *how);

// All parameters in the order of model.parameters(): what adapters froze, and each adapter behind what it
// wraps. `visit` gets the place among those that are trained, or SIZE_MAX.
void plim_each_parameter(const plim_model *m,
                         void (*visit)(void *context, plim_tensor *p, size_t trained),
                         void *context);

// Wraps the model, whose parameters say which layer uses them (plim_tensor.layer). From here on
// m->parameters are what the optimizer sees. False when memory is out.
bool plim_shard(plim_tape *t, plim_model *m, const plim_sharding *how);

// What one rank takes of the CPU's memory when something is offloaded: pinned copies of parameters
// and gradients, and the optimizer's state. Unverified: from source, without a measurement.
uint64_t plim_host_bytes(const plim_model *m, const plim_optimizer *o);
// The pinned memory for a tensor: torch's host allocator takes powers of two.
uint64_t plim_pinned_bytes(uint64_t bytes);

// ---- strategies -----------------------------------------------------------------------------------

plim_shards *plim_ddp_new(plim_tape *t, plim_model *m, const plim_sharding *how, size_t layers);
plim_shards *plim_zero_new(plim_tape *t, plim_model *m, const plim_sharding *how, size_t layers);
plim_shards *plim_zero3_new(plim_tape *t, plim_model *m, const plim_sharding *how, size_t layers);
plim_shards *plim_fsdp_new(plim_tape *t, plim_model *m, const plim_sharding *how, size_t layers);

#endif
