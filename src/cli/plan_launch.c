// The files and command lines that a plan over several GPUs needs.
#include <stdio.h>

#include "plan_result.h"

static bool is_zero(int64_t strategy) { return strategy >= PLIM_SHARD_ZERO1; }

static int64_t per_node(const plan_result *r, const plan_for_card *c) {
  return c->asked.world / (int64_t)r->nodes;
}

// DeepSpeed's own file. "auto" follows TrainingArguments, so that the two cannot disagree.
static void print_deepspeed(const plim_choice *x, const plim_job *job) {
  static const char *const devices[] = {"none", "cpu", "cpu"};
  int64_t offload = x->at[PLIM_KNOB_OFFLOAD];
  bool is_bf16 = job->recipe.autocast == PLIM_BF16 || job->dtype == PLIM_BF16;
  printf("\nds_config.json:\n{\n"
         "  \"train_micro_batch_size_per_gpu\": %lld,\n"
         "  \"gradient_accumulation_steps\": %lld,\n"
         "  \"gradient_clipping\": \"auto\",\n"
         "  \"%s\": {\"enabled\": true},\n"
         "  \"zero_optimization\": {\n"
         "    \"stage\": %d,\n"
         "    \"offload_optimizer\": {\"device\": \"%s\"}%s\n  }\n}\n",
         (long long)x->at[PLIM_KNOB_MICRO_BATCH], (long long)x->at[PLIM_KNOB_ACCUMULATE],
         is_bf16 ? "bf16" : "fp16", (int)(x->at[PLIM_KNOB_STRATEGY] - PLIM_SHARD_ZERO1 + 1),
         devices[offload], offload == 2 ? ",\n    \"offload_param\": {\"device\": \"cpu\"}" : "");
}

// accelerate's file for FSDP2.
static void print_accelerate(const plan_result *r, const plan_for_card *c, const plim_choice *x,
                             const plim_job *job) {
  bool offloads = x->at[PLIM_KNOB_OFFLOAD] != 0;
  bool is_mixed = job->sharding.compute_dtype == PLIM_BF16;
  printf("\naccelerate.yaml:\n"
         "compute_environment: LOCAL_MACHINE\n"
         "distributed_type: FSDP\n"
         "mixed_precision: %s\n"
         "num_machines: %d\n"
         "num_processes: %d\n"
         "fsdp_config:\n"
         "  fsdp_version: 2\n"
         "  fsdp_reshard_after_forward: true\n"
         "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
         "  fsdp_offload_params: %s\n"
         "  fsdp_activation_checkpointing: false\n"
         "  fsdp_state_dict_type: SHARDED_STATE_DICT\n",
         is_mixed ? "bf16" : "'no'", (int)r->nodes, c->asked.world, offloads ? "true" : "false");
}

static void print_command(const plan_result *r, const plan_for_card *c, int64_t strategy) {
  int64_t gpus = per_node(r, c);
  if (strategy == PLIM_SHARD_FSDP2)
    printf("\naccelerate launch --config_file accelerate.yaml train.py ...\n");
  else if (is_zero(strategy) && r->nodes == 1)
    printf("\ndeepspeed --num_gpus %lld train.py --deepspeed ds_config.json ...\n",
           (long long)gpus);
  else
    printf("\ntorchrun --nnodes %d --nproc_per_node %lld%s train.py%s ...\n", (int)r->nodes,
           (long long)gpus, r->nodes > 1 ? " --rdzv_backend c10d --rdzv_endpoint $HEAD:29500" : "",
           is_zero(strategy) ? " --deepspeed ds_config.json" : "");
  if (r->nodes > 1)
    printf("sbatch --nodes %d --ntasks-per-node 1 --gpus-per-node %lld --wrap 'srun ...'\n",
           (int)r->nodes, (long long)gpus);
}

void plan_print_launch(const plan_result *r, const plan_for_card *c) {
  if (c->asked.world < 2 || !c->plan.rungs.len) return;
  const plim_choice *x = &c->plan.rungs.at[0].choice;
  plim_job job = plim_choice_job(&c->asked, x);
  int64_t strategy = x->at[PLIM_KNOB_STRATEGY];
  if (is_zero(strategy)) print_deepspeed(x, &job);
  if (strategy == PLIM_SHARD_FSDP2) print_accelerate(r, c, x, &job);
  print_command(r, c, strategy);
  printf("\nnote: times leave out what the GPUs send each other\n");
}
