// What to do about it, the first thing to try first. Nothing is listed that does not help against this cause.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain_impl.h"

#define BOTH_SETTINGS(value) "export PYTORCH_CUDA_ALLOC_CONF=" value " PYTORCH_ALLOC_CONF=" value

void explain_add_cure(explain_case *c, explain_cure_kind kind, const char *command,
                      const char *format, ...) {
  explain_cure cure = {.kind = kind};
  va_list args;
  va_start(args, format);
  if (vasprintf(&cure.text, format, args) < 0) cure.text = NULL;
  va_end(args);
  if (command) cure.command = strdup(command);
  if (cure.text && (!command || cure.command) && vec_push(&c->out->cures, cure)) return;
  free(cure.text);
  free(cure.command);
  c->out->has_no_memory = true;
}

// ---- building blocks --------------------------------------------------------------------------------

static bool says(const explain_case *c, const char *words) {
  return strstr(c->message->text, words) != NULL;
}

// expandable_segments came with PyTorch 2.1, max_split_size_mb with 1.10; the message's form tells the release.
static void cure_segments(explain_case *c) {
  bool is_old = explain_is_known(c->message->bytes[PLIM_OOM_RESERVED]) || says(c, "cached)");
  if (explain_is_expandable(c)) return;
  if (c->message->device == PLIM_OOM_ACCELERATOR || c->message->device == PLIM_OOM_XPU) {
    bool is_npu = says(c, "NPU");
    explain_add_cure(c, EXPLAIN_CURE_EXPANDABLE_SEGMENTS,
                     is_npu ? "export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True" : NULL,
                     "Turn on expandable segments (expandable_segments:True), which avoid most "
                     "fragmentation, if this device's version of PyTorch supports them.");
    return;
  }
  if (is_old && says(c, "max_split_size_mb"))
    explain_add_cure(
        c, EXPLAIN_CURE_EXPANDABLE_SEGMENTS, "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128",
        "This PyTorch is older than 2.1. Limit how blocks are split; or update PyTorch and set "
        "expandable_segments:True, which works better.");
  else if (is_old)
    explain_add_cure(c, EXPLAIN_CURE_EXPANDABLE_SEGMENTS, NULL,
                     "This PyTorch is older than 1.10 and has no setting against fragmentation: "
                     "update it, then set "
                     "expandable_segments:True.");
  else
    explain_add_cure(c, EXPLAIN_CURE_EXPANDABLE_SEGMENTS, BOTH_SETTINGS("expandable_segments:True"),
                     "Turn on expandable segments, which avoid most fragmentation. Set both "
                     "variables: versions of PyTorch differ in which name they read.%s",
                     c->message->device == PLIM_OOM_HIP
                         ? " On ROCm, watch the first steps: crashes were reported."
                         : "");
}

static void cure_batch(explain_case *c, const char *reason) {
  uint64_t micro = c->micro_batch, times = c->accumulation;
  if (micro == 1 || c->log->facts.has_batch_zero) return;
  if (explain_is_known(micro) && micro % 2 == 0 && explain_is_known(times) && times < 1u << 30)
    explain_add_cure(c, EXPLAIN_CURE_SMALLER_BATCH, NULL,
                     "Halve the micro batch from %llu to %llu and use %llu accumulation steps "
                     "instead of %llu: the effective batch stays the same%s.",
                     (unsigned long long)micro, (unsigned long long)micro / 2,
                     (unsigned long long)times * 2, (unsigned long long)times, reason);
  else
    explain_add_cure(c, EXPLAIN_CURE_SMALLER_BATCH, NULL,
                     "Halve the micro batch and double the accumulation steps: the effective batch "
                     "stays the same%s. If the micro batch is already 1, skip this.",
                     reason);
}

static void cure_plan(explain_case *c, const char *text) {
  char *command = explain_plan_command(c);
  if (command) explain_add_cure(c, EXPLAIN_CURE_PLAN, command, "%s", text);
  else c->out->has_no_memory = true;
  free(command);
}

static void cure_by_run(explain_case *c, explain_cure_kind kind, const char *option,
                        const char *text) {
  char *command = explain_run_command(c, option);
  if (command) explain_add_cure(c, kind, command, "%s", text);
  else c->out->has_no_memory = true;
  free(command);
}

static void cure_moment(explain_case *c) {
  if (c->out->moment == PLIM_RUN_IN_LOSS)
    cure_by_run(c, EXPLAIN_CURE_CHUNKED_LOSS, "--chunked-loss",
                "Compute the loss in chunks, so that the full logits (batch x length x vocabulary, "
                "in float32) never exist. plimsoll run does this for language models of "
                "transformers, without a change to your code:");
  if (c->out->moment == PLIM_RUN_IN_ATTENTION)
    explain_add_cure(c, EXPLAIN_CURE_FUSED_ATTENTION, NULL,
                     "Use a fused attention kernel: attn_implementation=\"sdpa\" or "
                     "\"flash_attention_2\". It does not "
                     "store the scores (batch x heads x length x length).");
  if (c->log->facts.has_idle_checkpointing)
    explain_add_cure(c, EXPLAIN_CURE_FIX_CODE, NULL,
                     "Make gradient checkpointing work: use_reentrant=False, or call "
                     "model.enable_input_require_grads() before adding the adapters.");
}

// ---- by verdict -------------------------------------------------------------------------------------

static void cure_loading(explain_case *c) {
  explain_add_cure(
      c, EXPLAIN_CURE_SMALLER_STATE, NULL,
      "Make the weights smaller (bf16 instead of float32, 4 bit with LoRA) or shard them over "
      "several "
      "GPUs (FSDP, ZeRO-3). The batch does not matter yet. With several processes, check that each "
      "loads to its own GPU and that sharding is really on.");
  cure_plan(c, "plimsoll plan finds the settings that fit:");
}

static void cure_optimizer(explain_case *c) {
  explain_add_cure(
      c, EXPLAIN_CURE_SMALLER_STATE, NULL,
      "Make the optimizer's state smaller: an 8-bit or paged AdamW, LoRA, or sharding it over GPUs "
      "(ZeRO, FSDP); foreach=False avoids temporary copies. A smaller batch does not change it.");
  cure_plan(c, "plimsoll plan finds the settings that fit:");
}

static void cure_vllm_cache(explain_case *c) {
  explain_add_cure(c, EXPLAIN_CURE_SMALLER_STATE, NULL,
                   "Use a shorter context (max_model_len), or give vLLM a larger share "
                   "(gpu_memory_utilization), if nothing else needs that memory.");
}

static void cure_device_library(explain_case *c) {
  if (c->kind == PLIM_OOM_XLA || c->kind == PLIM_OOM_XLA_COMPILE)
    explain_add_cure(c, EXPLAIN_CURE_SMALLER_BATCH, NULL,
                     "Use a smaller batch per device with more accumulation, jax.checkpoint for "
                     "activations, or shard "
                     "the model over more devices.");
  else if (c->kind == PLIM_OOM_TENSORFLOW)
    explain_add_cure(c, EXPLAIN_CURE_SMALLER_BATCH, NULL,
                     "Use a smaller batch per step and accumulate gradients.");
  else
    explain_add_cure(c, EXPLAIN_CURE_SMALLER_STATE, NULL,
                     "Offload fewer layers to the GPU (-ngl), or use a shorter context (-c) or a "
                     "smaller quantisation.");
}

static void cure_shortage(explain_case *c) {
  bool is_foreign = c->kind == PLIM_OOM_XLA || c->kind == PLIM_OOM_XLA_COMPILE ||
                    c->kind == PLIM_OOM_TENSORFLOW || c->kind == PLIM_OOM_GGML;
  bool needs_state = c->out->phase == PLIM_RUN_LOADING || c->log->facts.has_batch_zero ||
                     c->kind == PLIM_OOM_DISPATCHED;
  if (c->kind == PLIM_OOM_VLLM_CACHE) cure_vllm_cache(c);
  else if (is_foreign) cure_device_library(c);
  else if (needs_state) cure_loading(c);
  else if (c->out->moment == PLIM_RUN_IN_OPTIMIZER) cure_optimizer(c);
  else {
    cure_moment(c);
    if (explain_exceeds(c->stranded, c->total, 0.01)) cure_segments(c);
    cure_batch(c, "");
    cure_plan(c, "plimsoll plan looks for the fastest settings that fit (checkpointing, chunked "
                 "loss, optimizer, "
                 "sharding):");
  }
}

static void cure_fragmentation(explain_case *c) {
  char *command = explain_replay_command(c);
  cure_segments(c);
  explain_add_cure(c, EXPLAIN_CURE_EVEN_SHAPES, NULL,
                   "Use fewer different tensor sizes: pad to a multiple (pad_to_multiple_of) or to "
                   "a fixed length. A "
                   "smaller batch would only move the problem.");
  if (command)
    explain_add_cure(
        c, EXPLAIN_CURE_LOOK, command,
        *c->log->facts.snapshot
            ? "The log names a memory snapshot; plimsoll replay tries allocator settings on it:"
            : "To compare allocator settings, record a snapshot (torch.cuda.memory._dump_snapshot) "
              "and "
              "replay it:");
  else c->out->has_no_memory = true;
  free(command);
}

// Another process with about as much memory is most likely a second rank on the same GPU.
static bool has_twin(const explain_case *c) {
  for (size_t i = 0; i < c->message->process_count; i++) {
    uint64_t other = c->message->processes[i].bytes;
    bool is_alike =
        explain_exceeds(other, c->process, 0.7) && explain_exceeds(c->process, other, 0.7);
    if (!c->is_own_process[i] && is_alike) return true;
  }
  return false;
}

// Several small processes of equal size are the CUDA contexts of other ranks of this training.
static bool has_stray_contexts(const explain_case *c) {
  const plim_oom_message *m = c->message;
  const plim_oom_process *first = NULL;
  size_t alike = 0;
  for (size_t i = 0; i < m->process_count; i++) {
    if (c->is_own_process[i] || m->processes[i].bytes > 2 * PLIM_GIB) continue;
    if (!first) first = &m->processes[i];
    alike += m->processes[i].bytes == first->bytes;
  }
  return alike >= 2;
}

static void cure_other_process(explain_case *c) {
  if (has_stray_contexts(c))
    explain_add_cure(c, EXPLAIN_CURE_FIX_CODE, NULL,
                     "Several processes hold the same small amount: most likely other ranks of "
                     "this training, which "
                     "created a CUDA context on this GPU too. Call "
                     "torch.cuda.set_device(local_rank) before anything "
                     "else uses CUDA, and load with map_location.");
  if (has_twin(c))
    explain_add_cure(
        c, EXPLAIN_CURE_FIX_CODE, NULL,
        "The other process uses about as much memory as this one. If it is another rank of this "
        "training, each rank must use its own GPU: call torch.cuda.set_device(local_rank) before "
        "the "
        "model is loaded, and load with map_location.");
  explain_add_cure(
      c, EXPLAIN_CURE_OTHER_PROCESS, "nvidia-smi",
      "See which processes use the GPU; end those that are not needed, or choose another GPU with "
      "CUDA_VISIBLE_DEVICES. The training's settings are not the cause.");
  explain_add_cure(c, EXPLAIN_CURE_LOOK, "plimsoll check",
                   "Before the next start, check that the GPU is free:");
}

static void cure_growth_outside(explain_case *c) {
  explain_add_cure(
      c, EXPLAIN_CURE_FIX_CODE, NULL,
      "Find what allocates GPU memory in every step without PyTorch: an extension that "
      "calls cudaMalloc, CUDA graphs or process groups that are created again and "
      "again, another library on the same GPU. The batch is not the cause.");
  cure_by_run(c, EXPLAIN_CURE_LOOK, "--hook",
              "To see how much GPU memory the program requests from the driver in all, with "
              "every library:");
}

static void cure_libraries(explain_case *c) {
  bool is_nccl = c->kind == PLIM_OOM_NCCL;
  if (c->out->is_by_growth) {
    cure_growth_outside(c);
    return;
  }
  if (c->kind == PLIM_OOM_VLLM || c->log->facts.has_vllm)
    explain_add_cure(c, EXPLAIN_CURE_HEADROOM, NULL,
                     "Lower vLLM's share (gpu_memory_utilization, vllm_gpu_memory_utilization in "
                     "TRL), so that it "
                     "leaves room for the training.");
  if (is_nccl || c->kind == PLIM_OOM_ALLOCATOR)
    explain_add_cure(c, EXPLAIN_CURE_HEADROOM,
                     is_nccl ? "export NCCL_MAX_NCHANNELS=4 NCCL_BUFFSIZE=2097152" : NULL,
                     "Leave 1 to 2 GiB free for communication: %s, and create the process groups "
                     "before the GPU is full.",
                     is_nccl ? "use fewer and smaller buffers"
                             : "with NCCL, lower NCCL_MAX_NCHANNELS and NCCL_BUFFSIZE");
  if (c->kind == PLIM_OOM_ALLOCATOR)
    explain_add_cure(c, EXPLAIN_CURE_FIX_CODE, NULL,
                     "Check that every process uses only its own GPU: a second CUDA context takes "
                     "0.3 to 0.8 GiB. Call "
                     "torch.cuda.set_device(local_rank) first.");
  if (c->kind == PLIM_OOM_BLAS)
    explain_add_cure(c, EXPLAIN_CURE_LOOK, "CUDA_LAUNCH_BLOCKING=1",
                     "Run the program once with this variable. If the error then comes from an "
                     "index or an embedding, memory is not the cause.");
  if (c->kind == PLIM_OOM_BLAS || is_nccl) cure_plan(c, "Plan the training with room to spare:");
  if (c->kind == PLIM_OOM_MPS)
    explain_add_cure(c, EXPLAIN_CURE_OTHER_PROCESS, NULL,
                     "Close other programs that use the GPU's memory.");
}

static void cure_host(explain_case *c) {
  if (c->out->phase == PLIM_RUN_EVALUATION && c->kind == PLIM_OOM_HOST_REQUEST)
    explain_add_cure(c, EXPLAIN_CURE_EVALUATION, "--prediction_loss_only true",
                     "Do not collect the logits of the whole evaluation in host memory: set "
                     "prediction_loss_only, or reduce them with preprocess_logits_for_metrics.");
  if (c->kind == PLIM_OOM_SHARED_MEMORY) {
    explain_add_cure(c, EXPLAIN_CURE_SHARED_MEMORY, NULL,
                     "Give the container more shared memory (docker run --shm-size=16g or "
                     "--ipc=host), or use fewer "
                     "data loader workers (num_workers=0 needs none). GPU settings do not matter.");
    return;
  }
  if (c->kind == PLIM_OOM_PAGING_FILE)
    explain_add_cure(c, EXPLAIN_CURE_HOST_MEMORY, NULL,
                     "Make the Windows paging file larger (System > Advanced > Performance > "
                     "Virtual memory), or use "
                     "fewer data loader workers.");
  else if (says(c, "ibv_"))
    explain_add_cure(
        c, EXPLAIN_CURE_HOST_MEMORY, "ulimit -l unlimited",
        "Raise the limit on locked memory where the job is started (docker run --ulimit "
        "memlock=-1, LimitMEMLOCK for systemd and Slurm's daemon). GPU settings do not "
        "matter.");
  else if (c->kind == PLIM_OOM_DRIVER || c->kind == PLIM_OOM_BITSANDBYTES)
    explain_add_cure(c, EXPLAIN_CURE_HOST_MEMORY, NULL,
                     "Check the host's free memory and, under WSL or in a container, its limit "
                     "(.wslconfig, ulimit -l); "
                     "set pin_memory=False in the data loader.");
  else
    explain_add_cure(
        c, EXPLAIN_CURE_HOST_MEMORY, NULL,
        "Use less host memory: start fewer data loader workers, load weights with "
        "low_cpu_mem_usage or one rank at a time, offload less; or give the job more memory%s. GPU "
        "settings do not matter.",
        c->log->facts.has_memcg ? " (raise the limit of the container or of the Slurm job)" : "");
  explain_add_cure(c, EXPLAIN_CURE_LOOK, "plimsoll check",
                   "Check the free memory, the container's limits and /dev/shm of this machine:");
}

static void cure_impossible(explain_case *c) {
  const plim_oom_frame *own = &c->message->stack.own;
  char place[400] = "the line that the traceback names";
  if (*own->file)
    snprintf(place, sizeof place, "%s:%llu", own->file, (unsigned long long)own->line);
  if (explain_is_absurd(c)) {
    explain_add_cure(c, EXPLAIN_CURE_FIX_CODE, NULL,
                     "Check the shapes at %s: an index, a length or a broadcast is wrong there. No "
                     "setting helps.",
                     place);
    return;
  }
  cure_moment(c);
  if (c->out->moment != PLIM_RUN_IN_LOSS && c->out->moment != PLIM_RUN_IN_ATTENTION)
    explain_add_cure(
        c, EXPLAIN_CURE_FIX_CODE, NULL,
        "Change the operation at %s. Usual suspects: attention scores without a fused kernel "
        "(batch x "
        "heads x length x length), full logits (batch x length x vocabulary), an image or audio "
        "sample that is not limited in size. A slightly smaller batch does not help.",
        place);
  cure_plan(c, "plimsoll plan chooses attention, loss and lengths that fit:");
}

static void cure_leak(explain_case *c) {
  const char *lines = c->growth.lines;
  explain_add_cure(
      c, EXPLAIN_CURE_FIX_CODE, NULL,
      "Find out what keeps the tensors %s%s alive after the step, such as a list that grows; "
      "store loss.item() or tensor.detach().cpu() instead of the tensor itself. A smaller "
      "batch only delays the failure.",
      lines ? "that are made at " : "of each step", lines ? lines : "");
  bool is_measured =
      explain_is_known(c->growth.per_step_bytes); // plimsoll run has looked for the line
  if (!lines && !is_measured)
    explain_add_cure(c, EXPLAIN_CURE_LOOK, NULL,
                     "To find the line that leaks, start the training with plimsoll run: it "
                     "records a few steps while memory grows and names the line.");
}

static void cure_long_sample(explain_case *c) {
  cure_moment(c);
  cure_batch(c, ", and the longest batch gets smaller too");
  explain_add_cure(
      c, EXPLAIN_CURE_SHORTER_SAMPLES, NULL,
      "Limit the length of samples (max_length, cutoff_len, sequence_len), if losing the rest is "
      "acceptable; or group by length or pack, so that long samples do not pad whole batches.");
  explain_add_cure(c, EXPLAIN_CURE_LOOK, NULL,
                   "Put the longest batch first in a trial run: then it fails at step 1, not after "
                   "hours. If the memory "
                   "grows at every step instead, it is a leak: plimsoll profile shows the lines.");
  cure_plan(c, "plimsoll plan with the longest length finds settings that fit:");
}

static void cure_evaluation(explain_case *c) {
  explain_add_cure(c, EXPLAIN_CURE_EVALUATION,
                   "--prediction_loss_only true --per_device_eval_batch_size 1",
                   "Do not keep the logits of the whole evaluation on the GPU: set "
                   "prediction_loss_only, or reduce them with preprocess_logits_for_metrics; then "
                   "use a smaller evaluation batch. eval_accumulation_steps moves them to host "
                   "memory. In your own loop, use torch.no_grad(). The training batch is not the "
                   "cause.");
}

static void cure_saving(explain_case *c) {
  explain_add_cure(
      c, EXPLAIN_CURE_SAVING, NULL,
      "Save in shards instead of gathering everything on one GPU: FSDP with SHARDED_STATE_DICT; "
      "DeepSpeed "
      "with stage3_gather_16bit_weights_on_model_save false. The batch is not the cause.");
  explain_add_cure(c, EXPLAIN_CURE_LOOK, NULL,
                   "Save once at the first step of the next run (save_steps=1 in a trial), so that "
                   "it fails early.");
}

static void cure_resuming(explain_case *c) {
  explain_add_cure(
      c, EXPLAIN_CURE_RESUMING, NULL,
      "Load the checkpoint to the host: torch.load(path, map_location=\"cpu\"), then "
      "load_state_dict, then "
      "delete it (del checkpoint) before training goes on. The batch is not the cause.");
}

static void cure_cap(explain_case *c) {
  explain_add_cure(
      c, EXPLAIN_CURE_LIFT_CAP, NULL,
      "Remove or raise the limit: torch.cuda.set_per_process_memory_fraction, "
      "per_process_memory_fraction in PYTORCH_CUDA_ALLOC_CONF, or the trainer's option for it.");
}

static void cure_transient(explain_case *c) {
  bool is_wsl = c->log->facts.has_wsl || c->message->is_impossible[PLIM_OOM_PROCESS];
  explain_add_cure(c, EXPLAIN_CURE_RETRY, NULL,
                   "Start the program again without any change, and watch what else uses the GPU "
                   "(plimsoll watch).");
  if (is_wsl)
    explain_add_cure(
        c, EXPLAIN_CURE_HOST_MEMORY, NULL,
        "WSL limits pinned memory: set pin_memory=False, and raise memory= in .wslconfig.");
  explain_add_cure(c, EXPLAIN_CURE_LOOK, "plimsoll check",
                   "If it fails again, see who uses the GPU:");
}

static void cure_on_chip(explain_case *c) {
  explain_add_cure(c, EXPLAIN_CURE_FIX_CODE, NULL,
                   "Use smaller blocks or fewer stages in that kernel, or a version of the library "
                   "that knows this GPU. "
                   "Neither the batch nor the GPU's memory is the cause.");
}

static void cure_unclear(explain_case *c) {
  if (*c->log->earlier_error) {
    explain_add_cure(c, EXPLAIN_CURE_FIX_CODE, NULL, "Fix the error in line %llu first: %s",
                     (unsigned long long)c->log->earlier_error_line, c->log->earlier_error);
    return;
  }
  explain_add_cure(c, EXPLAIN_CURE_LOOK, "plimsoll check",
                   "See how much GPU and host memory is free, and which processes use the GPU:");
  if (c->kind == PLIM_OOM_DRIVER)
    explain_add_cure(
        c, EXPLAIN_CURE_LOOK, "CUDA_LAUNCH_BLOCKING=1",
        "Run once with this variable, so that the traceback names the call that failed.");
  if (c->kind == PLIM_OOM_BITSANDBYTES)
    explain_add_cure(c, EXPLAIN_CURE_HOST_MEMORY, NULL,
                     "Paged optimizers use host memory: check it, and the limit of WSL or of the "
                     "container, before GPU "
                     "settings.");
  if (c->kind == PLIM_OOM_SIGKILL)
    explain_add_cure(c, EXPLAIN_CURE_LOOK, "dmesg | grep -i 'killed process'",
                     "See whether the kernel killed a process because memory ran out:");
}

static void cure_nothing(explain_case *c) { (void)c; }

static void (*const cures_of[EXPLAIN_VERDICTS])(explain_case *) = {
    [EXPLAIN_NO_OOM] = cure_nothing,
    [EXPLAIN_SHORTAGE] = cure_shortage,
    [EXPLAIN_FRAGMENTATION] = cure_fragmentation,
    [EXPLAIN_OTHER_PROCESS] = cure_other_process,
    [EXPLAIN_LIBRARIES] = cure_libraries,
    [EXPLAIN_HOST_MEMORY] = cure_host,
    [EXPLAIN_IMPOSSIBLE_TENSOR] = cure_impossible,
    [EXPLAIN_LONG_SAMPLE] = cure_long_sample,
    [EXPLAIN_LEAK] = cure_leak,
    [EXPLAIN_EVALUATION] = cure_evaluation,
    [EXPLAIN_SAVING] = cure_saving,
    [EXPLAIN_RESUMING] = cure_resuming,
    [EXPLAIN_CAP] = cure_cap,
    [EXPLAIN_TRANSIENT] = cure_transient,
    [EXPLAIN_ON_CHIP] = cure_on_chip,
    [EXPLAIN_UNCLEAR] = cure_unclear,
};

void explain_find_cures(explain_case *c) { cures_of[c->out->verdict](c); }
