// plimsoll explain: reads a log and says why the training ran out of memory.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "explain_show.h"

typedef struct {
  uint64_t exit_status;
} explain_args;

static const explain_args defaults = {.exit_status = PLIM_UNKNOWN};

// Nothing is typed in a terminal and nothing comes through a pipe.
static int say_how(void) {
  plim_error error = {0};
  plim_fail(&error, PLIM_ERR_ARGUMENT, "no log was given");
  plim_error_hint(
      &error, "plimsoll explain train.log, or python train.py 2>&1 | plimsoll explain; to paste "
              "the text of an error: plimsoll explain -, and Ctrl-D after it");
  return cli_report(&error, NULL);
}

static int run(const cli_call *call) {
  const explain_args *args = call->args;
  const char *path = call->words.len ? call->words.at[0] : "-";
  bool is_piped = strcmp(path, "-") == 0;
  explain_facts facts = explain_nothing_known;
  plim_oom_log log;
  explanation e;
  plim_error error = {0};
  if (!call->words.len && isatty(STDIN_FILENO)) return say_how();
  if (args->exit_status != PLIM_UNKNOWN && args->exit_status > 255)
    return cli_fail("--exit-status must be between 0 and 255");
  if (args->exit_status != PLIM_UNKNOWN) facts.exit_status = (int)args->exit_status;
  if (is_piped && isatty(STDIN_FILENO))
    fprintf(stderr, "paste the text of the error, then press Ctrl-D\n");
  plim_err err = plim_oom_log_read(path, &log, &error);
  if (!err) err = explain_log(&log, &facts, &e, &error);
  if (err == PLIM_ERR_IO && !is_piped && access(path, F_OK) != 0)
    plim_error_hint(&error,
                    "to paste the text of an error: plimsoll explain -, and Ctrl-D after it");
  if (err) return cli_report(&error, NULL);
  const char *name = is_piped ? "standard input" : path;
  if (call->common.json) explain_print_json(name, &log, &e);
  else explain_print_text(name, &log, &e);
  int status = e.verdict == EXPLAIN_NO_OOM ? CLI_OK : CLI_FINDING;
  explanation_clear(&e);
  return status;
}

// ---- its row ------------------------------------------------------------------------------------------------

static const cli_positional positionals[] = {
    {"LOG",
     "what the training printed: a file (plain, .gz or .xz); without it or with -, standard "
     "input",
     CLI_FILE, 0, 1, NULL},
    {0},
};

static const cli_option options[] = {
    {"exit-status", 0, "N", CLI_UINT, offsetof(explain_args, exit_status),
     "exit status of the training, if you know it: 137 means that it was killed", NULL},
    {0},
};

static const char *const description[] = {
    "Finds the first out-of-memory error in the log of a training run and says what caused it: a "
    "real shortage, fragmentation, another process on the GPU, memory of libraries (NCCL, cuBLAS, "
    "vLLM), host memory, one tensor larger than the GPU, a long sample late in the training, "
    "evaluation, saving or resuming. It shows the evidence, what to do, and how sure it is.",
    "It knows the messages of PyTorch (all releases, and CUDA, ROCm, XPU, MPS and CPU), cuBLAS, "
    "cuDNN, NCCL, bitsandbytes, DeepSpeed, accelerate, JAX, TensorFlow, vLLM, llama.cpp, the "
    "kernel's out-of-memory killer, Slurm and Kubernetes. Colours, progress bars, prefixes of "
    "ranks and loggers, and wrapped lines do not matter. Of several ranks, the one that failed "
    "first counts; errors that follow from it are only mentioned.",
    "A smaller batch is suggested only where it helps.",
    NULL,
};

static const cli_example examples[] = {
    {"plimsoll explain train.log", "why did this run fail?"},
    {"python train.py 2>&1 | tee train.log; plimsoll explain train.log",
     "see the output while it runs, and explain it at the end"},
    {"plimsoll explain train.log --exit-status 137", "the run was killed"},
    {0},
};

const cli_command cmd_explain = {
    .name = "explain",
    .summary = "say why a training ran out of memory, from its log",
    .positionals = positionals,
    .options = options,
    .args_size = sizeof(explain_args),
    .defaults = &defaults,
    .run = run,
    .description = description,
    .examples = examples,
    .ok = "the log has no out-of-memory error",
    .finding = "an out-of-memory error was found and explained",
};
