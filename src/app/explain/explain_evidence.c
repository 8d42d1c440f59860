// The evidence: what the log and the caller show, one sentence each.
#include <stdio.h>
#include <string.h>

#include "explain_impl.h"

#define SMALL_SEGMENT                                                                              \
  (20 * PLIM_MIB) // PyTorch asks the driver for 2 or 20 MiB if a tensor is smaller than 10 MiB

static unsigned long long number(uint64_t value) { return (unsigned long long)value; }

// ---- numbers ----------------------------------------------------------------------------------------

static void show_request(explain_case *c, plim_notes *notes) {
  if (!explain_is_known(c->wanted)) return;
  bool is_segment =
      c->kind == PLIM_OOM_ALLOCATOR && (c->wanted == SMALL_SEGMENT || c->wanted == 2 * PLIM_MIB);
  if (c->kind == PLIM_OOM_XLA_COMPILE && explain_is_known(c->total))
    plim_note_add(notes, "needed", NULL, "The compiled program needs %s; the device has %s.",
                  BYTES(c->wanted), BYTES(c->total));
  else if (is_segment)
    plim_note_add(notes, "request", NULL,
                  "The request of %s is the smallest piece PyTorch asks the driver for: it shows "
                  "only that the GPU "
                  "was full, not which layer is large.",
                  BYTES(c->wanted));
  else if (explain_is_known(c->total))
    plim_note_add(notes, "request", NULL,
                  "The request that failed was for %s; the GPU has %s in total.", BYTES(c->wanted),
                  BYTES(c->total));
  else
    plim_note_add(notes, "request", NULL, "The request that failed was for %s.", BYTES(c->wanted));
}

static void show_use(explain_case *c, plim_notes *notes) {
  if (explain_is_known(c->allocated) && explain_is_known(c->stranded))
    plim_note_add(notes, "use", NULL,
                  "PyTorch's tensors held %s, and %s were reserved but not in use%s%s%s.",
                  BYTES(c->allocated), BYTES(c->stranded), explain_is_known(c->free) ? "; " : "",
                  explain_is_known(c->free) ? BYTES(c->free) : "",
                  explain_is_known(c->free) ? " of the GPU were free" : "");
  else if (explain_is_known(c->allocated))
    plim_note_add(notes, "use", NULL, "PyTorch's tensors held %s.", BYTES(c->allocated));
  uint64_t pools = c->message->bytes[PLIM_OOM_POOLS];
  if (explain_exceeds(pools, c->allocated, 0.1))
    plim_note_add(notes, "pools", NULL, "%s of it are in private pools, as CUDA graphs use them.",
                  BYTES(pools));
}

// Windows' driver moves GPU memory to the host when it runs out.
static void show_spill(explain_case *c, plim_notes *notes) {
  if (explain_exceeds(c->allocated, c->total, 1))
    plim_note_add(notes, "spilled", NULL,
                  "That is more than the GPU has: the driver (of Windows or WSL) had moved memory "
                  "to the host, which is "
                  "slow.");
}

static void show_outside(explain_case *c, plim_notes *notes) {
  uint64_t libraries = c->out->library_bytes, others = c->out->other_bytes;
  if (explain_is_known(libraries) && libraries)
    plim_note_add(notes, "libraries", NULL,
                  "%s of this process are outside PyTorch's allocator: the CUDA context, cuBLAS, "
                  "NCCL and other "
                  "libraries.",
                  BYTES(libraries));
  if (explain_exceeds(others, c->total, 0.01))
    plim_note_add(notes, "others", NULL,
                  "%s of the GPU belong to other processes, the display or the driver.",
                  BYTES(others));
  if (!explain_is_known(c->process) && explain_exceeds(c->outside, c->total, 0.05))
    plim_note_add(
        notes, "outside", NULL,
        "%s of the GPU are not PyTorch's: the CUDA context, libraries or other processes.",
        BYTES(c->outside));
}

static void show_impossible(explain_case *c, plim_notes *notes) {
  for (int i = 0; i < PLIM_OOM_FIELDS; i++)
    if (c->message->is_impossible[i] && !(i == PLIM_OOM_ALLOWED && c->kind == PLIM_OOM_ASYNC))
      plim_note_add(
          notes, "impossible", NULL,
          "The message's number for \"%s\" is impossible (an overflow), so it is not used.%s",
          plim_oom_field_name((plim_oom_field)i),
          i == PLIM_OOM_PROCESS ? " The driver reports this under WSL." : "");
}

// " (jupyter-lab)"; empty: not known.
static const char *name_of(const explain_case *c, uint64_t pid, char text[80]) {
  *text = 0;
  for (size_t i = 0; i < c->facts->other_count; i++)
    if (c->facts->others[i].pid == pid && c->facts->others[i].name)
      snprintf(text, 80, " (%.70s)", c->facts->others[i].name);
  return text;
}

static void show_processes(explain_case *c, plim_notes *notes) {
  const plim_oom_message *m = c->message;
  char name[80];
  for (size_t i = 0; i < m->process_count; i++)
    plim_note_add(
        notes, "process", NULL,
        c->is_own_process[i]
            ? "Process %llu%s has %s on this GPU; it is probably this program itself, under "
              "the host's process id."
            : "Process %llu%s has %s on this GPU.",
        number(m->processes[i].pid), name_of(c, m->processes[i].pid, name),
        BYTES(m->processes[i].bytes));
  for (size_t i = 0; i < c->facts->other_count; i++) {
    const explain_process *p = &c->facts->others[i];
    if (explain_is_listed(c, p->pid)) continue;
    plim_note_add(notes, "process", NULL, "%s (process %u) has %s on this GPU.",
                  p->name ? p->name : "Another program", p->pid, BYTES(p->used_bytes));
  }
}

static void show_device_numbers(explain_case *c, plim_notes *notes) {
  const uint64_t *bytes = c->message->bytes;
  if (explain_is_known(bytes[PLIM_OOM_ALLOWED]))
    plim_note_add(notes, "allowed", NULL, "PyTorch may use at most %s.",
                  BYTES(bytes[PLIM_OOM_ALLOWED]));
  if (explain_is_known(bytes[PLIM_OOM_OUTSIDE]))
    plim_note_add(notes, "outside", NULL, "%s are allocated on the GPU outside PyTorch.",
                  BYTES(bytes[PLIM_OOM_OUTSIDE]));
  if (explain_is_known(bytes[PLIM_OOM_RESIDENT]))
    plim_note_add(notes, "resident", NULL, "The process that was killed used %s of host memory.",
                  BYTES(bytes[PLIM_OOM_RESIDENT]));
  if (explain_is_known(bytes[PLIM_OOM_PROGRAM]))
    plim_note_add(notes, "program", NULL,
                  "XLA's program needs %s: %s parameters, %s outputs, %s temporary.",
                  BYTES(bytes[PLIM_OOM_PROGRAM]), BYTES(bytes[PLIM_OOM_PARAMETERS]),
                  BYTES(bytes[PLIM_OOM_OUTPUTS]), BYTES(bytes[PLIM_OOM_TEMPORARY]));
}

// ---- the program ------------------------------------------------------------------------------------

static void show_frame(plim_notes *notes, const char *code, const plim_oom_frame *f,
                       const char *what) {
  if (!*f->file) return;
  plim_note_add(notes, code, NULL, "%s %s:%llu%s%s%s%s%s", what, f->file, number(f->line),
                *f->function ? " (" : "", f->function, *f->function ? ")" : "",
                *f->code ? ": " : "", f->code);
  plim_note_at(notes, f->file, f->line < 1000000000 ? (int)f->line : 0);
}

static const char *const moment_words[PLIM_RUN_MOMENTS] = {
    [PLIM_RUN_IN_FORWARD] = "in the forward pass",
    [PLIM_RUN_IN_ATTENTION] = "in attention",
    [PLIM_RUN_IN_LOSS] = "while computing the loss",
    [PLIM_RUN_IN_BACKWARD] = "in the backward pass",
    [PLIM_RUN_IN_OPTIMIZER] = "in the optimizer's step",
    [PLIM_RUN_IN_DATA] = "in the data loader",
    [PLIM_RUN_IN_PINNING] = "while pinning host memory",
    [PLIM_RUN_IN_CONTEXT] = "at the first use of the GPU",
};

static void show_stack(explain_case *c, plim_notes *notes) {
  const plim_oom_stack *s = &c->message->stack;
  show_frame(notes, "line", &s->own, "Your code was at");
  if (s->phase != PLIM_RUN_UNKNOWN && s->phase != PLIM_RUN_TRAINING)
    plim_note_add(notes, "phase", NULL, "The function %s in the traceback shows that it failed %s.",
                  s->sign.function,
                  s->phase == PLIM_RUN_LOADING      ? "while loading the model"
                  : s->phase == PLIM_RUN_EVALUATION ? "during evaluation"
                  : s->phase == PLIM_RUN_SAVING     ? "while saving a checkpoint"
                                                    : "while loading a checkpoint");
  if (s->moment != PLIM_RUN_IN_UNKNOWN)
    plim_note_add(notes, "moment", NULL, "It failed %s.", moment_words[s->moment]);
}

static void show_progress(explain_case *c, plim_notes *notes) {
  const plim_oom_facts *f = &c->log->facts;
  uint64_t step = c->out->step;
  if (explain_is_known(step))
    plim_note_add(notes, "step", NULL,
                  step > 1 ? "%llu steps were completed before."
                  : step   ? "%llu step was completed before."
                           : "It failed in the first step (%llu were completed).",
                  number(step));
  if (explain_is_known(f->later_step))
    plim_note_add(notes, "survived", NULL,
                  "The program caught the error, and the training went on to step %llu.",
                  number(f->later_step));
  if (f->survived)
    plim_note_add(notes, "earlier", NULL,
                  "The program survived %llu earlier out-of-memory error%s.", number(f->survived),
                  f->survived == 1 ? "" : "s");
  if (f->failed_ranks > 1)
    plim_note_add(notes, "ranks", NULL, "%llu ranks ran out of memory; this one was the first.",
                  number(f->failed_ranks));
  if (f->has_batch_zero && c->kind != PLIM_OOM_BATCH_ZERO)
    plim_note_add(
        notes, "batch_zero", NULL,
        "accelerate then tried smaller batches down to zero, so the batch was not the problem.");
}

// ---- settings and machine ---------------------------------------------------------------------------

static void show_settings(explain_case *c, plim_notes *notes) {
  const plim_oom_facts *f = &c->log->facts;
  if (explain_is_known(c->micro_batch) && explain_is_known(c->accumulation))
    plim_note_add(notes, "batch", NULL, "The micro batch is %llu, with %llu accumulation step%s.",
                  number(c->micro_batch), number(c->accumulation), c->accumulation == 1 ? "" : "s");
  else if (explain_is_known(c->micro_batch))
    plim_note_add(notes, "batch", NULL, "The micro batch is %llu.", number(c->micro_batch));
  if (c->alloc_conf && *c->alloc_conf)
    plim_note_add(notes, "alloc_conf", NULL, "The allocator's settings are %s.", c->alloc_conf);
  if (explain_is_known(c->facts->sample_tokens) && explain_is_known(c->facts->usual_tokens))
    plim_note_add(notes, "samples", NULL,
                  "The failing batch has %llu tokens per sample; the longest before had %llu.",
                  number(c->facts->sample_tokens), number(c->facts->usual_tokens));
  else if (explain_is_known(f->sample_tokens))
    plim_note_add(notes, "samples", NULL,
                  "The tokenizer reported a sample of %llu tokens (the model's limit is %llu).",
                  number(f->sample_tokens), number(f->sample_limit));
  if (explain_is_known(f->growth_bytes))
    plim_note_add(notes, "growth", NULL, "plimsoll run saw memory grow by %s per step.",
                  BYTES(f->growth_bytes));
  if (*f->leak) plim_note_add(notes, "leak", NULL, "%s", f->leak);
  if (explain_is_known(f->deepspeed_reserved_bytes))
    plim_note_add(notes, "deepspeed", NULL, "DeepSpeed's last report: %s allocated, %s reserved.",
                  BYTES(f->deepspeed_allocated_bytes), BYTES(f->deepspeed_reserved_bytes));
  if (f->has_idle_checkpointing)
    plim_note_add(notes, "idle_checkpointing", NULL,
                  "\"None of the inputs have requires_grad=True\": gradient checkpointing is on "
                  "but saves nothing.");
}

static void show_machine(explain_case *c, plim_notes *notes) {
  const plim_machine *m = c->facts->machine;
  if (c->out->verdict != EXPLAIN_HOST_MEMORY) return;
  if (c->log->facts.has_memcg)
    plim_note_add(notes, "limit", NULL,
                  "The limit of a container or a Slurm job (a control group) was reached, not that "
                  "of the whole machine.");
  if (c->facts->exit_status == 137 || c->facts->signal == 9)
    plim_note_add(notes, "exit", NULL, "The process ended by signal 9 (exit status 137).");
  if (!m) return;
  plim_note_add(notes, "host", NULL, "The host has %s of memory, %s of it available now.",
                BYTES(m->total_bytes), BYTES(m->available_bytes));
  if (c->kind == PLIM_OOM_SHARED_MEMORY)
    plim_note_add(notes, "shm", NULL, "/dev/shm has %s, %s of it free now.",
                  BYTES(m->shm_total_bytes), BYTES(m->shm_free_bytes));
  if (explain_is_known(m->limit_bytes))
    plim_note_add(notes, "container", NULL,
                  "The container or job may use %s of host memory, and now uses %s.",
                  BYTES(m->limit_bytes), BYTES(m->limit_used_bytes));
}

static void show_end(explain_case *c, plim_notes *notes) {
  const plim_oom_log *log = c->log;
  bool is_found = c->kind != PLIM_OOM_NONE;
  if (is_found && *log->consequence)
    plim_note_add(notes, "consequence", NULL, "Line %llu is only a consequence of this: %s",
                  number(log->consequence_line), log->consequence);
  if (!is_found && *log->last_error)
    plim_note_add(notes, "last_error", NULL, "The last error is in line %llu: %s%s",
                  number(log->last_error_line), log->last_error,
                  strlen(log->last_error) + 1 == sizeof log->last_error ? "..." : "");
  if (!is_found && !*log->last_error && log->lines)
    plim_note_add(notes, "no_error", NULL, "The log shows no other error either.");
  if (!log->lines)
    plim_note_add(
        notes, "empty", NULL,
        "The log is empty. Programs write their errors to standard error; to have them in the "
        "log: python train.py > train.log 2>&1");
}

void explain_show_evidence(explain_case *c) {
  plim_notes *notes = &c->out->evidence;
  show_request(c, notes);
  show_use(c, notes);
  show_spill(c, notes);
  show_device_numbers(c, notes);
  show_processes(c, notes);
  show_outside(c, notes);
  show_impossible(c, notes);
  show_stack(c, notes);
  if (c->kind != PLIM_OOM_NONE) show_progress(c, notes);
  if (c->kind != PLIM_OOM_NONE) show_settings(c, notes);
  show_machine(c, notes);
  show_end(c, notes);
}
