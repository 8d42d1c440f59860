// The files and command lines that a plan over several GPUs needs.
#include <stdio.h>
#include <string.h>

#include "plan_edits.h"

typedef struct {
  const plan_result *r;
  const plim_choice *choice;
  plim_job job;
  int world, nodes, per_node;
  int64_t strategy;
  bool is_written;      // the files say it already, or will when the plan is applied
  bool is_started;      // the user's own command starts so many GPUs
  const char *own_way;  // the ecosystem's own word for the way to share; NULL: none
  const char *own_file; // the project's DeepSpeed or accelerate file, where the way takes one
  char script[512];     // what is started
} launch;

static bool is_zero(const launch *l) { return l->strategy >= PLIM_SHARD_ZERO1; }

// ---- files ------------------------------------------------------------------------------------------

// transformers fills in "auto" from its own arguments, so that the two cannot disagree; other loops
// have to be told.
static void print_batches(const launch *l) {
  bool is_trainer = l->job.recipe.is_trainer;
  if (is_trainer)
    printf("  \"train_micro_batch_size_per_gpu\": \"auto\",\n"
           "  \"gradient_accumulation_steps\": \"auto\",\n"
           "  \"gradient_clipping\": \"auto\",\n");
  else
    printf("  \"train_micro_batch_size_per_gpu\": %lld,\n"
           "  \"gradient_accumulation_steps\": %lld,\n",
           (long long)l->choice->at[PLIM_KNOB_MICRO_BATCH],
           (long long)l->choice->at[PLIM_KNOB_ACCUMULATE]);
}

static void print_deepspeed(const launch *l) {
  static const char *const devices[] = {"none", "cpu", "cpu"};
  int64_t offload = l->choice->at[PLIM_KNOB_OFFLOAD];
  bool is_bf16 = l->job.recipe.autocast == PLIM_BF16 || l->job.dtype == PLIM_BF16;
  printf("\nds_config.json:\n{\n");
  print_batches(l);
  printf("  \"%s\": {\"enabled\": true},\n"
         "  \"zero_optimization\": {\n"
         "    \"stage\": %d,\n"
         "    \"offload_optimizer\": {\"device\": \"%s\"}%s\n  }\n}\n",
         is_bf16 ? "bf16" : "fp16", (int)(l->strategy - PLIM_SHARD_ZERO1 + 1), devices[offload],
         offload == 2 ? ",\n    \"offload_param\": {\"device\": \"cpu\"}" : "");
}

// accelerate's file for FSDP2.
static void print_accelerate(const launch *l) {
  bool offloads = l->choice->at[PLIM_KNOB_OFFLOAD] != 0;
  bool is_mixed = l->job.sharding.compute_dtype == PLIM_BF16;
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
         is_mixed ? "bf16" : "'no'", l->nodes, l->world, offloads ? "true" : "false");
  if (l->nodes > 1) // the command line says better
    printf("machine_rank: 0  # 1 and so on, on the other machines\n"
           "main_process_ip: FIRST  # the first machine's name\n"
           "main_process_port: 29500\n");
}

// ---- command lines ----------------------------------------------------------------------------------

static const plim_project *project_of(const launch *l) {
  return l->r->files ? &l->r->files->project : NULL;
}

static const char *file_in(const plim_project *p, plim_dialect dialect) {
  for (size_t i = 0; p && i < p->files.len; i++)
    if (p->files.at[i]->is.dialect == dialect) return p->files.at[i]->path;
  return NULL;
}

static const char *accelerate_file(const launch *l) {
  const char *own = file_in(project_of(l), PLIM_DIALECT_ACCELERATE);
  if (own || l->own_way) return own;
  return l->strategy == PLIM_SHARD_FSDP2 ? "accelerate.yaml" : NULL;
}

// Machines find each other at HEAD, which Slurm's batch script runs on.
static void accelerate_line(const launch *l, const char *config, char *text, size_t size) {
  char machines[192] = "";
  if (l->nodes > 1)
    snprintf(machines, sizeof machines,
             " --num_machines %d --num_processes %d --machine_rank $SLURM_NODEID"
             " --main_process_ip $HEAD --main_process_port 29500",
             l->nodes, l->world);
  snprintf(text, size, "accelerate launch --config_file %s%s %s", config, machines, l->script);
}

static void torchrun_line(const launch *l, const char *deepspeed, char *text, size_t size) {
  snprintf(text, size, "torchrun --nnodes %d --nproc_per_node %d%s %s%s", l->nodes, l->per_node,
           l->nodes > 1 ? " --rdzv_backend c10d --rdzv_endpoint $HEAD:29500" : "", l->script,
           deepspeed);
}

static void make_line(const launch *l, char *text, size_t size) {
  const char *config = accelerate_file(l);
  bool is_new = is_zero(l) && !l->is_written && !l->own_file && !l->own_way;
  const char *deepspeed = is_new ? " --deepspeed ds_config.json" : "";
  if (config && !is_new) accelerate_line(l, config, text, size);
  else if (is_zero(l) && !l->own_way && l->nodes == 1)
    snprintf(text, size, "deepspeed --num_gpus %d %s%s", l->per_node, l->script, deepspeed);
  else torchrun_line(l, deepspeed, text, size);
}

// On several machines each line runs once per machine: Slurm does that.
static void print_command(const launch *l) {
  char line[1024];
  make_line(l, line, sizeof line);
  if (l->nodes == 1) {
    printf("\n%s\n", line);
    return;
  }
  printf("\nexport HEAD=...   # the first machine's name; then on each machine%s:\n%s\n",
         strstr(line, "SLURM") ? ", SLURM_NODEID its number from 0" : "", line);
  printf("sbatch --nodes %d --ntasks-per-node 1 --gpus-per-node %d --wrap \\\n"
         "  'export HEAD=$(hostname); srun bash -c '\\''%s'\\'\n",
         l->nodes, l->per_node, line);
}

// ---- what is known of it ----------------------------------------------------------------------------

static bool is_left_to_hand(const plan_edits *edits) {
  for (size_t i = 0; i < edits->by_hand_count; i++)
    if (edits->by_hand[i].knob == PLIM_KNOB_STRATEGY || edits->by_hand[i].knob == PLIM_KNOB_OFFLOAD)
      return true;
  return false;
}

static void find_start(launch *l, const plan_for_card *c) {
  const plim_project *p = project_of(l);
  plan_edits edits = {0};
  if (p) plan_edits_of(p, c, &c->plan.rungs.at[0], &edits);
  l->is_written = p && !is_left_to_hand(&edits);
  l->is_started = p && plan_is_started(p, l->world);
  if (p) l->own_way = plim_project_own_way(p, plim_strategy_names[l->strategy]);
  if (is_zero(l)) l->own_file = file_in(p, PLIM_DIALECT_DEEPSPEED);
  if (l->strategy == PLIM_SHARD_FSDP2) l->own_file = file_in(p, PLIM_DIALECT_ACCELERATE);
  plan_script(p, &edits, l->script, sizeof l->script);
}

// What to change in the file that is there, instead of another file beside it.
static void print_own_file(const launch *l) {
  int64_t offload = l->choice->at[PLIM_KNOB_OFFLOAD];
  if (is_zero(l))
    printf("\nin %s: zero_optimization.stage %d%s%s\n", l->own_file,
           (int)(l->strategy - PLIM_SHARD_ZERO1 + 1),
           offload ? ", offload_optimizer.device cpu" : "",
           offload == 2 ? ", offload_param.device cpu" : "");
  else
    printf("\nin %s: distributed_type FSDP, fsdp_config with fsdp_version 2%s\n", l->own_file,
           offload ? " and fsdp_offload_params true" : "");
}

static void print_files(const launch *l) {
  if (l->is_written) return;
  if (l->own_way) printf("\nin your own settings: %s\n", l->own_way);
  else if (l->own_file) print_own_file(l);
  else if (is_zero(l)) print_deepspeed(l);
  else if (l->strategy == PLIM_SHARD_FSDP2) print_accelerate(l);
}

void plan_print_launch(const plan_result *r, const plan_for_card *c) {
  if (c->asked.world < 2 || !c->plan.rungs.len) return;
  launch l = {.r = r,
              .choice = &c->plan.rungs.at[0].choice,
              .world = c->asked.world,
              .nodes = (int)r->nodes,
              .per_node = c->asked.world / (int)r->nodes};
  l.job = plim_choice_job(&c->asked, l.choice);
  l.strategy = l.choice->at[PLIM_KNOB_STRATEGY];
  find_start(&l, c);
  print_files(&l);
  bool starts_as_ever = l.is_started && (l.is_written || l.own_way || l.own_file);
  if (!starts_as_ever) print_command(&l);
}
