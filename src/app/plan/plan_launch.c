#include "plan_launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "project_share.h"
#include "quoting.h"

typedef struct {
  const plan_result *r;
  const plim_choice *choice;
  plim_job job;
  int world, nodes, per_node;
  int64_t strategy;
  bool is_written;          // the files set it already, or will when the plan is applied
  bool is_started;          // the user's command starts this number of GPUs
  const char *own_sharding; // the ecosystem's own setting for the strategy; NULL: none
  const char *own_file;     // the project's DeepSpeed or accelerate file, if the strategy needs one
  bool wraps_layers;        // checkpointing is planned, and only the new file can set it
  const plan_edits *edits;
  const char *script; // what is started; only while the command is written
} launch;

static bool is_zero(const launch *l) { return l->strategy >= PLIM_SHARD_ZERO1; }

// ---- files ------------------------------------------------------------------------------------------

// transformers fills in "auto" from its own arguments, so that the two cannot disagree; other loops
// need the numbers.
static void write_batches(const launch *l, FILE *out) {
  bool is_trainer = l->job.recipe.is_trainer;
  if (is_trainer)
    fprintf(out, "  \"train_micro_batch_size_per_gpu\": \"auto\",\n"
                 "  \"gradient_accumulation_steps\": \"auto\",\n"
                 "  \"gradient_clipping\": \"auto\",\n");
  else
    fprintf(out,
            "  \"train_micro_batch_size_per_gpu\": %lld,\n"
            "  \"gradient_accumulation_steps\": %lld,\n",
            (long long)l->choice->at[PLIM_KNOB_MICRO_BATCH],
            (long long)l->choice->at[PLIM_KNOB_ACCUMULATE]);
}

// The 16-bit compute dtype; NULL: none.
static const char *half_of(const launch *l) {
  plim_dtype dtype = l->job.dtype, computes = l->job.recipe.autocast;
  if (computes == PLIM_BF16 || dtype == PLIM_BF16) return "bf16";
  return computes == PLIM_FP16 || dtype == PLIM_FP16 ? "fp16" : NULL;
}

static void write_deepspeed(const launch *l, FILE *out) {
  const plim_sharding *how = &l->job.sharding;
  const char *type = half_of(l);
  fprintf(out, "{\n");
  write_batches(l, out);
  if (type) fprintf(out, "  \"%s\": {\"enabled\": true},\n", type);
  fprintf(out,
          "  \"zero_optimization\": {\n"
          "    \"stage\": %d,\n"
          "    \"offload_optimizer\": {\"device\": \"%s\"}%s\n  }\n}\n",
          (int)(l->strategy - PLIM_SHARD_ZERO1 + 1), how->offloads_optimizer ? "cpu" : "none",
          how->offloads_parameters
              ? ",\n    \"offload_param\": {\"device\": \"cpu\", \"pin_memory\": true}"
              : "");
}

// accelerate's file for FSDP2.
static void write_accelerate(const launch *l, FILE *out) {
  plim_dtype computes = l->job.sharding.compute_dtype;
  const char *mixed = computes == PLIM_BF16 ? "bf16" : computes == PLIM_FP16 ? "fp16" : "'no'";
  fprintf(out,
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
          "  fsdp_activation_checkpointing: %s\n"
          "  fsdp_state_dict_type: FULL_STATE_DICT\n",
          mixed, l->nodes, l->world, l->job.sharding.offloads_parameters ? "true" : "false",
          l->wraps_layers ? "true" : "false");
  if (l->nodes > 1) // on the command line instead
    fprintf(out, "machine_rank: 0  # 1 and so on, on the other machines\n"
                 "main_process_ip: FIRST  # the first machine's name\n"
                 "main_process_port: 29500\n");
}

// ---- command lines ----------------------------------------------------------------------------------

static const plim_project *project_of(const launch *l) {
  return l->r->files ? &l->r->files->project : NULL;
}

static const char *accelerate_file(const launch *l) {
  const char *own = plan_file_of(project_of(l), PLIM_DIALECT_ACCELERATE);
  if (own || l->own_sharding || l->is_written) return own;
  return l->strategy == PLIM_SHARD_FSDP2 ? "accelerate.yaml" : NULL;
}

// Whether the user's own file is for another number of GPUs.
static bool counts_otherwise(const launch *l) {
  const plim_project *p = project_of(l);
  const plim_project_knob *k = p ? &p->knobs[PLIM_KNOB_WORLD] : NULL;
  return k && k->origin == PLIM_EXPLICIT && k->value.kind == PLIM_VALUE_INTEGER &&
         k->value.integer != l->world;
}

// Machines connect to HEAD, the machine on which Slurm's batch script runs.
static void accelerate_line(const launch *l, const char *config, FILE *out) {
  fprintf(out, "accelerate launch --config_file ");
  plim_shell_quote(out, config);
  if (l->nodes > 1)
    fprintf(out,
            " --num_machines %d --num_processes %d --machine_rank $SLURM_NODEID"
            " --main_process_ip $HEAD --main_process_port 29500",
            l->nodes, l->world);
  else if (counts_otherwise(l)) fprintf(out, " --num_processes %d", l->world);
  fprintf(out, " %s", l->script);
}

static void torchrun_line(const launch *l, const char *deepspeed, FILE *out) {
  fprintf(out, "torchrun --nnodes %d --nproc_per_node %d%s %s%s", l->nodes, l->per_node,
          l->nodes > 1 ? " --rdzv_backend c10d --rdzv_endpoint $HEAD:29500" : "", l->script,
          deepspeed);
}

// Axolotl's command starts torchrun and gives it what follows "--".
static void axolotl_line(const launch *l, const char *deepspeed, FILE *out) {
  fprintf(out, "axolotl train ");
  plim_shell_quote(out, plan_file_of(project_of(l), PLIM_DIALECT_AXOLOTL));
  fprintf(out, "%s --launcher torchrun -- --nnodes %d --nproc_per_node %d%s", deepspeed, l->nodes,
          l->per_node, l->nodes > 1 ? " --rdzv_backend c10d --rdzv_endpoint $HEAD:29500" : "");
}

// The variable that selects another part of LLaMA-Factory, which alone knows the keys of the file (hparams/parser.py,
// launcher.py). Keys of Megatron Bridge's arguments that those of Megatron's other adapter do not have:
static const char *part_of_factory(const launch *l, plim_dialect dialect) {
  static const char *const keys[] = {"mixed_precision", "use_packed_sequences",
                                     "export_hf_on_finish"};
  if (dialect == PLIM_DIALECT_LLAMA_FACTORY_V1) return "USE_V1=1 ";
  if (!l->r->files || !l->r->files->is_megatron) return "";
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (project_job_setting(l->r->files, keys[i], "")) return "USE_MEGATRON_BRIDGE=1 ";
  return "USE_MCA=1 ";
}

// Its command. That of v1 decides the method (v1/launcher.py), which the file of other versions does.
static const char *command_of_factory(const launch *l, plim_dialect dialect) {
  plim_method method = l->job.recipe.method;
  if (dialect != PLIM_DIALECT_LLAMA_FACTORY_V1) return "train";
  return method == PLIM_METHOD_DPO_FACTORY ? "dpo" : method == PLIM_METHOD_REWARD ? "rm" : "train";
}

// LLaMA-Factory starts torchrun on its own, controlled by environment variables.
static void factory_line(const launch *l, plim_dialect dialect, FILE *out) {
  if (project_starts_with_ray(project_of(l))) {
    fprintf(out, "USE_RAY=1 llamafactory-cli train ");
    plim_shell_quote(out, plan_file_of(project_of(l), dialect));
    return;
  }
  fprintf(out, "%sFORCE_TORCHRUN=1", part_of_factory(l, dialect));
  if (l->nodes > 1)
    fprintf(out, " NNODES=%d NODE_RANK=$SLURM_NODEID MASTER_ADDR=$HEAD MASTER_PORT=29500",
            l->nodes);
  fprintf(out, " NPROC_PER_NODE=%d llamafactory-cli %s ", l->per_node,
          command_of_factory(l, dialect));
  plim_shell_quote(out, plan_file_of(project_of(l), dialect));
}

static const plim_project_file *tune_file(const plim_project *p) {
  for (size_t i = 0; p && i < p->files.len; i++)
    if (p->files.at[i]->is.dialect == PLIM_DIALECT_TORCHTUNE &&
        p->files.at[i]->settings.format == PLIM_FORMAT_YAML)
      return p->files.at[i];
  return NULL;
}

// A recipe called full_... trains everything.
void plan_tune_recipe(const plim_project *p, const plim_job *job, bool is_shared, char *name,
                      size_t size) {
  static const char *const ends[] = {"_distributed", "_single_device"};
  const char *own = ends[is_shared ? 0 : 1];
  const plim_project_file *f = tune_file(p);
  bool is_dpo = job->recipe.method == PLIM_METHOD_DPO_TUNE;
  snprintf(name, size, "%s_%s%s", job->lora.rank ? "lora" : "full", is_dpo ? "dpo" : "finetune",
           own);
  if (job->recipe.distils) snprintf(name, size, "knowledge_distillation%s", own);
  size_t line = 0;
  int number;
  const char *from = f ? plim_project_tune_command(f, &line, &number) : NULL;
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    const char *end = from ? memmem(from, line, ends[i], strlen(ends[i])) : NULL, *begin = end;
    while (begin && begin > from && !strchr(" \t", begin[-1])) begin--;
    if (end && job->lora.rank && strncmp(begin, "full_", 5) == 0) return;
    const char *rest = end ? end + strlen(ends[i]) : NULL;
    if (end && end > begin) // what follows is a part of the name, too: _multi_dataset
      snprintf(name, size, "%.*s%s%.*s", (int)(end - begin), begin, own,
               (int)strspn(rest, "_abcdefghijklmnopqrstuvwxyz0123456789"), rest);
    if (end) return;
  }
}

static void tune_line(const launch *l, const plim_project_file *f, FILE *out) {
  char recipe[64];
  plan_tune_recipe(project_of(l), &l->job, true, recipe, sizeof recipe);
  fprintf(out, "tune run ");
  if (l->nodes > 1)
    fprintf(out, "--nnodes %d --rdzv_backend c10d --rdzv_endpoint $HEAD:29500 ", l->nodes);
  fprintf(out, "--nproc_per_node %d ", l->per_node);
  plim_shell_quote(out, recipe);
  fprintf(out, " --config ");
  plim_shell_quote(out, f->path);
}

// Axolotl's file with use_ray: Ray starts the processes, so a launcher would start Ray once per GPU. Only the flag makes
// Axolotl leave its own launcher out (cli/main.py).
static const char *ray_file(const launch *l) {
  const plim_project *p = project_of(l);
  if (!p || p->dialect != PLIM_DIALECT_AXOLOTL) return NULL;
  const plim_setting *s = project_job_setting(l->r->files, "use_ray", "use_ray");
  bool is_on = s && s->value.kind == PLIM_VALUE_BOOL && s->value.flag;
  return is_on ? plan_file_of(p, p->dialect) : NULL;
}

static void ray_line(const launch *l, const char *file, FILE *out) {
  fprintf(out, "axolotl train ");
  plim_shell_quote(out, file);
  fprintf(out, " --use-ray --ray-num-workers %d", l->world);
}

// The command for programs that can be started in one way only; false: this is not one.
static bool only_line(const launch *l, FILE *out) {
  const plim_project *p = project_of(l);
  plim_dialect dialect = p ? p->dialect : PLIM_DIALECTS;
  const plim_project_file *tune = dialect == PLIM_DIALECT_TORCHTUNE ? tune_file(p) : NULL;
  bool is_version_1 = dialect == PLIM_DIALECT_LLAMA_FACTORY_V1 && plan_file_of(p, dialect);
  const char *ray = ray_file(l);
  if (tune) tune_line(l, tune, out);
  if (is_version_1) factory_line(l, dialect, out);
  if (ray) ray_line(l, ray, out);
  return tune || is_version_1 || ray;
}

// The command for programs that start their own processes; false: this is not one.
static bool own_line(const launch *l, const char *deepspeed, FILE *out) {
  const plim_project *p = project_of(l);
  plim_dialect dialect = p ? p->dialect : PLIM_DIALECTS;
  bool is_factory = dialect == PLIM_DIALECT_LLAMA_FACTORY && plan_file_of(p, dialect);
  bool is_lightning = dialect == PLIM_DIALECT_LIGHTNING && l->nodes == 1;
  bool is_axolotl =
      dialect == PLIM_DIALECT_AXOLOTL && project_launcher_sets_conf(p) && plan_file_of(p, dialect);
  if (is_axolotl) axolotl_line(l, deepspeed, out);
  if (is_factory) factory_line(l, dialect, out);
  if (is_lightning) fprintf(out, "python %s", l->script);
  return is_axolotl || is_factory || is_lightning;
}

static bool names_file(const plim_project_file *f, const char *name) {
  for (size_t i = 0; i < f->settings.at.len; i++) {
    const plim_value *value = &f->settings.at.at[i].value;
    if (value->kind == PLIM_VALUE_TEXT && strcmp(value->text, name) == 0) return true;
  }
  return false;
}

// Whether all files are in the folder that the first `size` characters of f's path name, and f refers to one of them by
// a path that only exists from there.
static bool must_start_in(const plim_project *p, const plim_project_file *f, size_t size) {
  bool is_named = false;
  for (size_t i = 0; i < p->files.len; i++) {
    const char *path = p->files.at[i]->path;
    if (strncmp(path, f->path, size) != 0) return false;
    is_named |= !plim_is_file(path + size) && names_file(f, path + size);
  }
  return is_named;
}

// The folder in which the run must start, with its slash: that of conf/train.yaml if it refers to ds.json beside it. ""
// if there is none; a launch command of the user already knows where it runs.
static plim_err folder_of(const launch *l, char *folder, size_t size, plim_error *error) {
  const plim_project *p = project_of(l);
  const char *own_command = NULL;
  plim_err err = p ? plan_command_file(p, &own_command, error) : PLIM_OK;
  *folder = 0;
  for (size_t i = 0; !err && p && !own_command && !*folder && i < p->files.len; i++) {
    const char *path = p->files.at[i]->path, *slash = strrchr(path, '/');
    size_t own = slash ? (size_t)(slash - path) + 1 : 0;
    if (own && own < size && must_start_in(p, p->files.at[i], own))
      snprintf(folder, size, "%.*s", (int)own, path);
  }
  return err;
}

// "cd conf && llamafactory-cli train train.yaml" for "llamafactory-cli train conf/train.yaml".
static plim_err start_in_folder(const launch *l, char **line, plim_error *error) {
  char folder[512], *text = NULL;
  size_t size = 0, length;
  plim_err err = folder_of(l, folder, sizeof folder, error);
  length = strlen(folder);
  if (err || !length) return err;
  FILE *out = open_memstream(&text, &size);
  if (!out) return plim_no_memory(error);
  folder[length - 1] = 0;
  fprintf(out, "cd ");
  plim_shell_quote(out, folder);
  fprintf(out, " && ");
  folder[length - 1] = '/';
  for (const char *at = *line; *at; at++) {
    bool is_start = at == *line || strchr(" '", at[-1]);
    if (is_start && strncmp(at, folder, length) == 0) at += length;
    fputc(*at, out);
  }
  if (!plim_stream_end(out, &text)) return plim_no_memory(error);
  free(*line);
  *line = text;
  return PLIM_OK;
}

// A script with an Accelerator has no flag for DeepSpeed's file: accelerate reads it.
static bool has_accelerator(const launch *l) {
  return l->r->files && project_job_calls(l->r->files, "Accelerator(");
}

static void accelerate_zero_line(const launch *l, FILE *out) {
  fprintf(out, "accelerate launch --use_deepspeed --deepspeed_config_file ds_config.json");
  if (l->nodes > 1)
    fprintf(out,
            " --num_machines %d --machine_rank $SLURM_NODEID --main_process_ip $HEAD"
            " --main_process_port 29500",
            l->nodes);
  fprintf(out, " --num_processes %d %s", l->world, l->script);
}

static void write_line(const launch *l, FILE *out) {
  const char *config = accelerate_file(l);
  bool is_new = is_zero(l) && !l->is_written && !l->own_file && !l->own_sharding;
  const char *deepspeed = is_new ? " --deepspeed ds_config.json" : "";
  bool is_module =
      strncmp(l->script, "-m ", 3) == 0; // the deepspeed launcher has a different flag for modules
  if (only_line(l, out)) return;
  if (config && !is_new) accelerate_line(l, config, out);
  else if (own_line(l, deepspeed, out)) return;
  else if (is_new && has_accelerator(l)) accelerate_zero_line(l, out);
  else if (is_zero(l) && !l->own_sharding && l->nodes == 1 && !is_module)
    fprintf(out, "deepspeed --num_gpus %d %s%s", l->per_node, l->script, deepspeed);
  else torchrun_line(l, deepspeed, out);
}

// On several machines, the command has to run once per machine; Slurm does that. The line is quoted twice: for bash on
// each machine, and for the batch script.
static plim_err make_batch_line(const launch *l, const char *line, char **text, plim_error *error) {
  char *script = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&script, &size);
  if (!out) return plim_no_memory(error);
  fprintf(out, "export HEAD=$(hostname); srun bash -c ");
  plim_shell_quote(out, line);
  if (!plim_stream_end(out, &script)) return plim_no_memory(error);
  out = open_memstream(text, &size);
  if (out) {
    fprintf(out, "sbatch --nodes %d --ntasks-per-node 1 --gpus-per-node %d --wrap \\\n  ", l->nodes,
            l->per_node);
    plim_shell_quote(out, script);
  }
  free(script);
  return out && plim_stream_end(out, text) ? PLIM_OK : plim_no_memory(error);
}

// ---- the launch of a plan ---------------------------------------------------------------------------

static bool is_left_to_hand(const plan_edits *edits) {
  for (size_t i = 0; i < edits->by_hand_count; i++)
    if (edits->by_hand[i].knob == PLIM_KNOB_STRATEGY || edits->by_hand[i].knob == PLIM_KNOB_OFFLOAD)
      return true;
  return false;
}

// Whether checkpointing is new and nothing in the user's files turns it on.
static bool lacks_checkpoint(const plan_for_card *c, const plim_choice *to,
                             const plan_edits *edits) {
  int64_t at = to->at[PLIM_KNOB_CHECKPOINT];
  if (at == c->plan.before_choice.at[PLIM_KNOB_CHECKPOINT]) return false;
  for (size_t i = 0; i < edits->write_count; i++)
    if (edits->writes[i].knob == PLIM_KNOB_CHECKPOINT) return false;
  return strcmp(plim_knob_value_name(PLIM_KNOB_CHECKPOINT, at), "on") == 0;
}

static void find_start(launch *l, const plan_for_card *c, const plan_edits *edits) {
  static const plan_edits none = {0};
  const plim_project *p = project_of(l);
  if (!edits) edits = &none;
  l->edits = edits;
  l->wraps_layers = lacks_checkpoint(c, l->choice, edits);
  l->is_written = p && !is_left_to_hand(edits);
  l->is_started = p && plan_is_started(p, l->world);
  if (p)
    l->own_sharding = plim_project_own_sharding(
        p, plim_strategy_names[l->strategy],
        plim_knob_value_name(PLIM_KNOB_OFFLOAD, l->choice->at[PLIM_KNOB_OFFLOAD]));
  if (is_zero(l)) l->own_file = plan_file_of(p, PLIM_DIALECT_DEEPSPEED);
  if (l->strategy == PLIM_SHARD_FSDP2) l->own_file = plan_file_of(p, PLIM_DIALECT_ACCELERATE);
}

// Writes the file that a strategy needs if the user's files do not set it; NULL: none.
typedef void file_writer(const launch *l, FILE *out);

static const char *new_file(const launch *l, file_writer **write) {
  bool is_fsdp = l->strategy == PLIM_SHARD_FSDP2;
  if (l->is_written || l->own_sharding || l->own_file || (!is_fsdp && !is_zero(l))) return NULL;
  *write = is_fsdp ? write_accelerate : write_deepspeed;
  return is_fsdp ? "accelerate.yaml" : "ds_config.json";
}

// False: a run on one GPU is started as before.
static bool find_launch(const plan_result *r, const plan_for_card *c, const plan_edits *edits,
                        launch *l) {
  if (!c->plan.rungs.len) return false;
  *l = (launch){.r = r,
                .choice = &c->plan.rungs.at[0].choice,
                .world = c->asked.world,
                .nodes = (int)r->nodes,
                .per_node = c->asked.world / (int)r->nodes};
  l->job = plim_choice_job(&c->asked, l->choice);
  l->strategy = l->choice->at[PLIM_KNOB_STRATEGY];
  if (l->world < 2 && l->strategy == PLIM_SHARD_NONE) return false;
  find_start(l, c, edits);
  return true;
}

static bool starts_as_ever(const launch *l) {
  return l->is_started && (l->is_written || l->own_sharding || l->own_file);
}

bool plan_launch_checkpoints(const plan_result *r, const plan_for_card *c,
                             const plan_edits *edits) {
  launch l;
  file_writer *write = NULL;
  return find_launch(r, c, edits, &l) && new_file(&l, &write) && write == write_accelerate &&
         l.wraps_layers;
}

bool plan_has_launch(const plan_result *r, const plan_for_card *c, const plan_edits *edits) {
  launch l;
  file_writer *write;
  if (!find_launch(r, c, edits, &l)) return false;
  bool has_file = !l.is_written && (l.own_sharding || l.own_file || new_file(&l, &write));
  return has_file || !starts_as_ever(&l);
}

static plim_err write_text(const launch *l, file_writer *write, char **text, plim_error *error) {
  size_t size = 0;
  FILE *out = open_memstream(text, &size);
  if (!out) return plim_no_memory(error);
  write(l, out);
  return plim_stream_end(out, text) ? PLIM_OK : plim_no_memory(error);
}

static plim_err make_line(launch *l, char **line, plim_error *error) {
  char *script;
  plim_err err = plan_script(project_of(l), l->edits, &script, error);
  if (err) return err;
  l->script = script;
  err = write_text(l, write_line, line, error);
  if (!err) err = start_in_folder(l, line, error);
  l->script = NULL;
  free(script);
  return err;
}

plim_err plan_launch_of(const plan_result *r, const plan_for_card *c, const plan_edits *edits,
                        plan_launch *out, plim_error *error) {
  launch l;
  file_writer *write;
  *out = (plan_launch){0};
  if (!find_launch(r, c, edits, &l)) return PLIM_OK;
  plim_err err = starts_as_ever(&l) ? PLIM_OK : make_line(&l, &out->command, error);
  if (!err && out->command && l.nodes > 1)
    err = make_batch_line(&l, out->command, &out->sbatch, error);
  out->file = new_file(&l, &write);
  if (!err && out->file) err = write_text(&l, write, &out->text, error);
  if (err) plan_launch_clear(out);
  return err;
}

void plan_launch_clear(plan_launch *l) {
  free(l->command);
  free(l->sbatch);
  free(l->text);
  *l = (plan_launch){0};
}

// ---- steps ------------------------------------------------------------------------------------------

// Whether the file is the user's, and not one that is known by name only.
static bool is_here(const launch *l) {
  const plim_project *p = project_of(l);
  for (size_t i = 0; p && i < p->files.len; i++)
    if (p->files.at[i]->path == l->own_file) return !p->files.at[i]->shipped_by;
  return true;
}

// Adds the step that changes the existing files, instead of creating another file.
static plim_err add_in_own(const launch *l, manual_steps *out, plim_error *error) {
  const plim_sharding *how = &l->job.sharding;
  const char *script = NULL;
  plim_err err = project_of(l) ? plan_command_file(project_of(l), &script, error) : PLIM_OK;
  if (err) return err;
  if (l->own_sharding && *l->own_sharding == '-')
    return manual_step_add(out, "setting", PLIM_KNOB_STRATEGY, NULL, error,
                           "strategy %s: add %s to the launch command%s%s",
                           plim_strategy_names[l->strategy], l->own_sharding, script ? " in " : "",
                           script ? script : "");
  if (l->own_sharding)
    return manual_step_add(out, "setting", PLIM_KNOB_STRATEGY, NULL, error,
                           "strategy %s: in your own configuration, use %s",
                           plim_strategy_names[l->strategy], l->own_sharding);
  if (is_zero(l))
    return manual_step_add(out, "setting", PLIM_KNOB_STRATEGY, NULL, error,
                           "in %s%s, set zero_optimization.stage to %d%s%s", l->own_file,
                           is_here(l) ? "" : " (copy it and refer to the copy)",
                           (int)(l->strategy - PLIM_SHARD_ZERO1 + 1),
                           how->offloads_optimizer ? ", offload_optimizer.device to cpu" : "",
                           how->offloads_parameters ? ", offload_param.device to cpu" : "");
  return manual_step_add(out, "setting", PLIM_KNOB_STRATEGY, NULL, error,
                         "in %s%s, set distributed_type to FSDP, and in fsdp_config fsdp_version "
                         "to 2%s",
                         l->own_file, is_here(l) ? "" : " (copy it and refer to the copy)",
                         how->offloads_parameters ? " and fsdp_offload_params to true" : "");
}

// accelerate refuses FSDP beside DeepSpeed.
static plim_err add_removal(const launch *l, manual_steps *out, plim_error *error) {
  const plim_project *p = project_of(l);
  plim_err err = PLIM_OK;
  for (size_t i = 0; p && i < p->files.len && !err; i++) {
    const plim_setting *s = plim_project_setting(p->files.at[i], "deepspeed");
    if (s && s->value.kind == PLIM_VALUE_TEXT && *s->value.text)
      err = manual_step_add(out, "setting", PLIM_KNOB_STRATEGY, NULL, error,
                            "remove deepspeed from %s: FSDP cannot be used with it",
                            p->files.at[i]->path);
  }
  return err;
}

// v1 of LLaMA-Factory reads the file that its own names (v1/plugins/trainer_plugins/distributed/deepspeed.py).
static plim_err add_name_of_file(const launch *l, const char *file, manual_steps *out,
                                 plim_error *error) {
  const plim_project *p = project_of(l);
  char lines[120];
  if (!is_zero(l) || !p || p->dialect != PLIM_DIALECT_LLAMA_FACTORY_V1) return PLIM_OK;
  snprintf(lines, sizeof lines, "dist_config:\n  name: deepspeed\n  config_file: %s\n", file);
  return manual_step_add(out, "setting", PLIM_KNOB_STRATEGY, lines, error,
                         "in %s, in place of its dist_config, set",
                         plan_file_of(p, PLIM_DIALECT_LLAMA_FACTORY_V1));
}

static plim_err add_file(const launch *l, manual_steps *out, plim_error *error) {
  file_writer *write;
  const char *file = new_file(l, &write);
  char *text = NULL;
  if (l->is_written) return PLIM_OK;
  if (l->own_sharding || l->own_file) return add_in_own(l, out, error);
  plim_err err = file && write == write_accelerate ? add_removal(l, out, error) : PLIM_OK;
  if (!err && file) err = write_text(l, write, &text, error);
  if (!err && file)
    err = manual_step_add(out, "file", PLIM_KNOB_STRATEGY, text, error, "create %s", file);
  if (!err && file) err = add_name_of_file(l, file, out, error);
  free(text);
  return err;
}

static plim_err add_command(launch *l, manual_steps *out, plim_error *error) {
  const char *file = NULL;
  char *line = NULL, *batch = NULL, *lines = NULL;
  plim_err err = project_of(l) ? plan_command_file(project_of(l), &file, error) : PLIM_OK;
  if (!err) err = make_line(l, &line, error);
  if (!err && l->nodes > 1) err = make_batch_line(l, line, &batch, error);
  if (!err && asprintf(&lines, "%s\n%s%s", line, batch ? batch : "", batch ? "\n" : "") < 0)
    lines = NULL, err = plim_no_memory(error);
  const char *why =
      is_zero(l) && l->world == 1 ? " (DeepSpeed needs a launcher even for one GPU)" : "";
  if (!err && batch)
    err = manual_step_add(
        out, "command", PLIM_KNOBS, lines, error,
        "without Slurm, on each machine: set HEAD to the host name of the first "
        "machine%s, then run the first command. With Slurm: run only the sbatch "
        "command, once",
        strstr(line, "SLURM") ? " and SLURM_NODEID to this machine's own number (0, 1, ...)" : "");
  else if (!err && file)
    err = manual_step_add(out, "command", PLIM_KNOBS, lines, error,
                          "in %s, replace the launch command%s", file, why);
  else if (!err)
    err = manual_step_add(out, "command", PLIM_KNOBS, lines, error, "start it with%s", why);
  free(line);
  free(batch);
  free(lines);
  return err;
}

plim_err plan_launch_steps(const plan_result *r, const plan_for_card *c, const plan_edits *edits,
                           manual_steps *out, plim_error *error) {
  launch l;
  if (!find_launch(r, c, edits, &l)) return PLIM_OK;
  plim_err err = add_file(&l, out, error);
  return err || starts_as_ever(&l) ? err : add_command(&l, out, error);
}
