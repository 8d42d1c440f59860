// Configurations of DeepSpeed and accelerate that trainers ship, and that training files refer to by a path in the trainer's
// repository. If they are not here, they are known by name.
#include <stdlib.h>
#include <string.h>

#include "project_impl.h"

// Only the keys that change memory or time, with ' for "; Axolotl's max_live_parameters is stage3_max_live_parameters by the name
// of DeepSpeed's field. All were compared with the repositories as they were in summer 2026: Axolotl 0.18.0 deepspeed_configs,
// LLaMA-Factory 0.9.6.dev0 examples/deepspeed and examples/accelerate, accelerate 1.15.0.dev0
// examples/deepspeed_config_templates, TRL 1.10.0.dev0 examples/accelerate_configs, alignment-handbook
// recipes/accelerate_configs. Keys that are left out there have their defaults here.
#define AUTO_BATCH                                                                                 \
  "'train_batch_size': 'auto', 'train_micro_batch_size_per_gpu': 'auto', "                         \
  "'gradient_accumulation_steps': 'auto', 'gradient_clipping': 'auto', "
#define AUTO_TYPES AUTO_BATCH "'bf16': {'enabled': 'auto'}, 'fp16': {'enabled': 'auto'}, "
#define BF16 AUTO_BATCH "'bf16': {'enabled': true}, "
#define FP16                                                                                       \
  "'train_batch_size': 'auto', 'train_micro_batch_size_per_gpu': 'auto', "                         \
  "'gradient_accumulation_steps': 1, 'gradient_clipping': 'auto', 'fp16': {'enabled': true}, "
#define CPU "{'device': 'cpu', 'pin_memory': true}"

#define AXOLOTL_3                                                                                  \
  "'stage': 3, 'overlap_comm': true, 'contiguous_gradients': true, 'sub_group_size': 0, "          \
  "'reduce_bucket_size': 'auto', 'stage3_prefetch_bucket_size': 'auto', "                          \
  "'stage3_param_persistence_threshold': 'auto', 'stage3_max_live_parameters': 0, "                \
  "'stage3_max_reuse_distance': 0"
#define FACTORY_2                                                                                  \
  "'allgather_partitions': true, 'allgather_bucket_size': 5e8, 'overlap_comm': false, "            \
  "'reduce_scatter': true, 'reduce_bucket_size': 5e8, 'contiguous_gradients': true"
#define FACTORY_3                                                                                  \
  "'stage': 3, 'overlap_comm': false, 'contiguous_gradients': true, 'sub_group_size': 1e9, "       \
  "'reduce_bucket_size': 'auto', 'stage3_prefetch_bucket_size': 'auto', "                          \
  "'stage3_param_persistence_threshold': 'auto', 'stage3_max_live_parameters': 1e9, "              \
  "'stage3_max_reuse_distance': 1e9"
#define ACCELERATE_2                                                                               \
  "'allgather_partitions': true, 'allgather_bucket_size': 2e8, 'overlap_comm': true, "             \
  "'reduce_scatter': true, 'reduce_bucket_size': 'auto', 'contiguous_gradients': true"
#define ACCELERATE_3                                                                               \
  "'stage': 3, 'overlap_comm': true, 'contiguous_gradients': true, 'reduce_bucket_size': 'auto', " \
  "'stage3_prefetch_bucket_size': 'auto', 'stage3_param_persistence_threshold': 'auto', "          \
  "'sub_group_size': 1e9, 'stage3_max_live_parameters': 1e9, 'stage3_max_reuse_distance': 1e9"

#define LAUNCH(GPUS) "{num_machines: 1, num_processes: " GPUS ", mixed_precision: bf16, "
#define LAUNCH_FSDP(GPUS, KEYS) LAUNCH(GPUS) "distributed_type: FSDP, fsdp_config: {" KEYS "}}"
#define LAUNCH_ZERO(STAGE, INIT)                                                                   \
  LAUNCH("8")                                                                                      \
  "distributed_type: DEEPSPEED, deepspeed_config: {zero_stage: " STAGE ", zero3_init_flag: " INIT  \
  ", offload_optimizer_device: none, offload_param_device: none}}"
#define FSDP_1                                                                                     \
  "fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP, fsdp_backward_prefetch: BACKWARD_PRE, "          \
  "fsdp_sharding_strategy: FULL_SHARD, fsdp_use_orig_params: true, fsdp_offload_params: "
#define FSDP_2                                                                                     \
  "fsdp_version: 2, fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP, "                               \
  "fsdp_reshard_after_forward: true, fsdp_offload_params: false"

// The end of the path is enough: people refer to them from other folders, too.
static const struct {
  const char *path, *trainer, *text;
} shipped[] = {
    {"deepspeed_configs/zero1.json", "Axolotl",
     "{" AUTO_TYPES "'zero_optimization': {'stage': 1, 'overlap_comm': true}}"},
    {"deepspeed_configs/zero1_torch_compile.json", "Axolotl",
     "{" AUTO_TYPES "'zero_optimization': {'stage': 1, 'overlap_comm': true}}"},
    {"deepspeed_configs/zero2.json", "Axolotl",
     "{" AUTO_TYPES "'zero_optimization': {'stage': 2, 'offload_optimizer': {'device': 'cpu'}, "
     "'contiguous_gradients': true, 'overlap_comm': true}}"},
    {"deepspeed_configs/zero2_torch_compile.json", "Axolotl",
     "{" AUTO_TYPES "'zero_optimization': {'stage': 2, 'offload_optimizer': {'device': 'cpu'}, "
     "'contiguous_gradients': true, 'overlap_comm': true}}"},
    {"deepspeed_configs/zero3.json", "Axolotl",
     "{" AUTO_TYPES "'zero_optimization': {" AXOLOTL_3 "}}"},
    {"deepspeed_configs/zero3_bf16.json", "Axolotl",
     "{" BF16 "'zero_optimization': {" AXOLOTL_3 "}}"},
    {"deepspeed_configs/zero3_bf16_cpuoffload_params.json", "Axolotl",
     "{" BF16 "'zero_optimization': {'offload_param': " CPU ", " AXOLOTL_3 "}}"},
    {"deepspeed_configs/zero3_bf16_cpuoffload_all.json", "Axolotl",
     "{" BF16 "'zero_optimization': {'offload_optimizer': " CPU ", 'offload_param': " CPU
     ", " AXOLOTL_3 "}}"},

    {"deepspeed/ds_z0_config.json", "LLaMA-Factory",
     "{" AUTO_TYPES "'zero_optimization': {'stage': 0, " FACTORY_2 "}}"},
    {"deepspeed/ds_z2_config.json", "LLaMA-Factory",
     "{" AUTO_TYPES "'zero_optimization': {'stage': 2, " FACTORY_2 "}}"},
    {"deepspeed/ds_z2_offload_config.json", "LLaMA-Factory",
     "{" AUTO_TYPES "'zero_optimization': {'stage': 2, 'offload_optimizer': " CPU ", " FACTORY_2
     "}}"},
    {"deepspeed/ds_z3_config.json", "LLaMA-Factory",
     "{" AUTO_TYPES "'zero_optimization': {" FACTORY_3 "}}"},
    {"deepspeed/ds_z3_offload_config.json", "LLaMA-Factory",
     "{" AUTO_TYPES "'zero_optimization': {'offload_optimizer': " CPU ", 'offload_param': " CPU
     ", " FACTORY_3 "}}"},
    {"deepspeed/ds_z3_fp8_config.json", "LLaMA-Factory",
     "{" AUTO_BATCH "'bf16': {'enabled': 'auto'}, 'zero_optimization': {'stage': 3, "
     "'offload_optimizer': {'device': 'cpu', 'pin_memory': false}, 'overlap_comm': false, "
     "'contiguous_gradients': true, 'sub_group_size': 1e9, 'reduce_bucket_size': 12845056, "
     "'stage3_prefetch_bucket_size': 11560550, 'stage3_param_persistence_threshold': 35840, "
     "'stage3_max_live_parameters': 1e9, 'stage3_max_reuse_distance': 1e9}}"},
    {"accelerate/fsdp_config.yaml", "LLaMA-Factory", LAUNCH_FSDP("2", FSDP_1 "false")},
    {"accelerate/fsdp_config_offload.yaml", "LLaMA-Factory", LAUNCH_FSDP("2", FSDP_1 "true")},
    {"accelerate/fsdp2_config.yaml", "LLaMA-Factory", LAUNCH_FSDP("2", FSDP_2)},

    {"deepspeed_config_templates/zero_stage1_config.json", "accelerate",
     "{" FP16 "'zero_optimization': {'stage': 1, " ACCELERATE_2 "}}"},
    {"deepspeed_config_templates/zero_stage2_config.json", "accelerate",
     "{" FP16 "'zero_optimization': {'stage': 2, " ACCELERATE_2 "}}"},
    {"deepspeed_config_templates/zero_stage2_offload_config.json", "accelerate",
     "{" FP16 "'zero_optimization': {'stage': 2, 'offload_optimizer': " CPU ", " ACCELERATE_2 "}}"},
    {"deepspeed_config_templates/zero_stage3_config.json", "accelerate",
     "{" FP16 "'zero_optimization': {" ACCELERATE_3 "}}"},
    {"deepspeed_config_templates/zero_stage3_offload_config.json", "accelerate",
     "{" FP16 "'zero_optimization': {'offload_optimizer': " CPU ", 'offload_param': " CPU
     ", " ACCELERATE_3 "}}"},

    {"accelerate_configs/zero3.yaml", "alignment-handbook", LAUNCH_ZERO("3", "true")},
    {"accelerate_configs/fsdp.yaml", "alignment-handbook", LAUNCH_FSDP("8", FSDP_1 "false")},
    {"accelerate_configs/ddp.yaml", "alignment-handbook",
     LAUNCH("8") "distributed_type: MULTI_GPU}"},
    {"accelerate_configs/multi_gpu.yaml", "TRL", LAUNCH("8") "distributed_type: MULTI_GPU}"},
    {"accelerate_configs/single_gpu.yaml", "TRL", LAUNCH("1") "distributed_type: 'NO'}"},
    {"accelerate_configs/deepspeed_zero1.yaml", "TRL", LAUNCH_ZERO("1", "false")},
    {"accelerate_configs/deepspeed_zero2.yaml", "TRL", LAUNCH_ZERO("2", "false")},
    {"accelerate_configs/deepspeed_zero3.yaml", "TRL", LAUNCH_ZERO("3", "true")},
    {"accelerate_configs/fsdp1.yaml", "TRL", LAUNCH_FSDP("8", "fsdp_version: 1, " FSDP_1 "false")},
    {"accelerate_configs/fsdp2.yaml", "TRL", LAUNCH_FSDP("8", FSDP_2)},
};

enum { SHIPPED = sizeof shipped / sizeof *shipped };

static size_t find(const char *name) {
  size_t size = strlen(name), i = 0;
  for (; i < SHIPPED; i++) {
    size_t end = strlen(shipped[i].path);
    if (size < end || strcmp(name + size - end, shipped[i].path) != 0) continue;
    if (size == end || name[size - end - 1] == '/') break;
  }
  return i;
}

const char *plim_shipped_by(const char *name) {
  size_t i = find(name);
  return i < SHIPPED ? shipped[i].trainer : NULL;
}

plim_err plim_project_add_shipped(plim_project *p, const char *name, plim_error *error) {
  size_t i = find(name);
  if (i == SHIPPED)
    return plim_fail(error, PLIM_ERR_ARGUMENT, "%.96s is not a file that a trainer ships", name);
  char *text = strdup(shipped[i].text);
  if (!text) return plim_no_memory(error);
  bool is_json = strchr(shipped[i].text, ':')[-1] == '\'';
  for (char *at = text; is_json && (at = strchr(at, '\''));) *at = '"';
  plim_err err = plim_project_add(p, name, text, strlen(text), error);
  if (!err) p->files.at[p->files.len - 1]->shipped_by = shipped[i].trainer;
  free(text);
  return err;
}
