// plimsoll plan: finds the fastest settings that fit, without changing what the model learns.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "atomic_file.h"
#include "command.h"
#include "interrupted.h"
#include "output_file.h"
#include "plan_file.h"
#include "plan_prove.h"
#include "plan_save.h"
#include "plan_show.h"
#include "plan_trial.h"
#include "term.h"

// ---- the plan's file ----------------------------------------------------------------------------------------

static plim_err refuse_several(const plan_args *args, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           "--out %.200s: only a plan for one GPU can be applied", args->out);
  plim_error_hint(error, "--gpu \"%.*s\" --out %.200s, or --json for all of them",
                  (int)strcspn(args->job.gpu, ","), args->job.gpu, args->out);
  return err;
}

// Refuses to overwrite files that the plan is made from, and any other file except an older plan.
plim_err plan_check_out(const plan_args *args, const project_job *files, plim_error *error) {
  output_file out = {"--out", args->out, "plan.json", "a plan", plim_is_plan};
  const plim_project *p = files ? &files->project : NULL;
  if (!args->out) return PLIM_OK;
  if (args->job.model && output_is_same(args->out, args->job.model))
    return output_refuse(&out, "that is the model's file", "", error);
  for (size_t i = 0; p && i < p->files.len; i++)
    if (output_is_same(args->out, p->files.at[i]->path))
      return output_refuse(&out, "the plan is made from that file, which would be overwritten", "",
                           error);
  return args->job.gpu && strchr(args->job.gpu, ',') ? refuse_several(args, error)
                                                     : output_check(&out, error);
}

plim_err plan_save(const char *json, const char *path, plim_error *error) {
  plim_atomic_file file;
  plim_err err = plim_atomic_open(&file, path, error);
  if (err) return err;
  fputs(json, file.out);
  return plim_atomic_commit(&file, error);
}

// ---- the command --------------------------------------------------------------------------------------------

int plan_show(const plan_result *r, bool is_json) {
  plim_error error = {0};
  bool fits = false;
  char *json = NULL;
  plim_err err = r->out || is_json ? plan_json(r, &json, &error) : PLIM_OK;
  if (!err && r->out) err = plan_save(json, r->out, &error);
  if (!err && is_json) fputs(json, stdout);
  free(json);
  if (err) return cli_report(&error, NULL);
  if (!is_json) plan_print_text(r);
  for (size_t i = 0; i < r->count; i++) fits = fits || r->cards[i].plan.rungs.len;
  bool is_proved = !r->proof || r->proof->end == PLAN_PROVED;
  return fits && is_proved ? CLI_OK : CLI_FINDING;
}

static void note_interrupted(void) {
  interrupted found;
  if (!interrupted_find(&found)) return;
  fprintf(stderr, "note: ");
  term_say(stderr, found.what, 6, 6);
  fprintf(stderr, "help: %s\n", found.fix);
}

static plim_err refuse_nothing(plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "no file and no model is given");
  plim_error_hint(
      error,
      "plimsoll plan train.yaml --gpu 24GiB, or plimsoll plan --model qwen2.5-7b --gpu 24GiB");
  return err;
}

// For files that cannot be read: "plan python train.py" is a command without its "--".
static void hint_command(const char *first, plim_error *error) {
  plim_error ignored;
  bool is_file = strchr(first, '/') || access(first, F_OK) == 0;
  if (is_file || plim_sandbox_find_program(first, &ignored)) return;
  plim_error_hint(error, "to plan a program by running it: plimsoll plan --gpu 24GiB -- %.120s ...",
                  first);
}

static int run(const cli_call *call) {
  if (call->program.len) return plan_trial(call);
  plan_args given = *(const plan_args *)call->args, *args = &given;
  args->typed = &((const plan_args *)call->args)->job;
  project_job files = {0};
  plan_result r = plan_result_new(call, args);
  plim_error error = {0};
  const char *source = NULL;
  plan_proof proof = {0};
  plim_err err = plan_check_args(args, &error);
  if (!err && args->is_proved) err = plan_check_prove(call, args, &error);
  if (!err && !call->words.len && !args->command && !args->job.model) err = refuse_nothing(&error);
  args->job.typed = call;
  args->job.typed_at = offsetof(plan_args, job);
  bool has_files = call->words.len || args->command;
  project_input in = {(const char *const *)call->words.at, call->words.len, args->command,
                      &args->set};
  if (!err && has_files) {
    note_interrupted();
    err = project_job_read(&files, &in, &error);
    if (err && call->words.len) hint_command(call->words.at[0], &error);
  }
  if (!err) err = plan_check_out(args, has_files ? &files : NULL, &error);
  if (!err) err = plan_result_make(args, has_files ? &files : NULL, &r, &source, &error);
  if (!err) err = plan_result_finish(&r, &error);
  if (!err && args->is_proved && r.cards[0].plan.rungs.len)
    err = plan_prove_files(&r, args, &proof, &error);
  int status = err ? cli_report(&error, source) : plan_show(&r, call->common.json);
  plan_proof_clear(&proof);
  plan_result_clear(&r);
  project_job_clear(&files);
  return status;
}

// ---- its row ------------------------------------------------------------------------------------------------

static const char *const description[] = {
    "Finds the settings that train fastest on the given GPU without running out of memory and "
    "without changing what the model learns: micro batch and accumulation (the effective batch "
    "stays the same), precision, checkpointing, a chunked loss, allocator settings, the "
    "optimizer's implementation, the sharding strategy and, if nothing else fits, offload to host "
    "memory. For every candidate, the memory and the time of a step are predicted as by plimsoll "
    "estimate.",
    "Shows what each change saves and costs, the memory budget before and after, and fallbacks "
    "that need less memory, in case a run still fails. Settings that affect what the model learns "
    "are changed only with --allow.",
    "With --prove, the training is also run on a simulated GPU (see plimsoll simulate) with the "
    "planned settings: the plan says whether it fits there and how its peak compares with the "
    "prediction. Your files are not changed: the program sees edited copies of them.",
    "With -- COMMAND, the program is run on a simulated GPU (see plimsoll simulate) to observe "
    "what it does. If plimsoll's prediction for that agrees with the run, the plan is made by "
    "prediction, and another simulated run proves it. Otherwise, as for a model that plimsoll does "
    "not know, a few simulated runs with different micro batches find the largest one that fits. "
    "If the program has an accumulation setting, it is changed too, so that the effective batch "
    "stays the same; otherwise the effective batch changes, and the plan says so. Your files are "
    "not changed: the program sees edited copies of them. With "
    "COMMAND, plan takes --gpu, --limit, --world, --steps (after which the program is ended), "
    "--effective-batch, --set, --out, --online and --unsandboxed and, if the plan is made by "
    "prediction, --fix, --try, --allow and --margin. The program itself decides the rest.",
    "A KNOB in the options below is the name of a setting; plimsoll help knobs lists them and "
    "their values. plimsoll help models and plimsoll help gpus list the names for --model and "
    "--gpu. --gpu takes several GPUs, separated by commas, to compare them.",
    NULL,
};

static const cli_positional positionals[] = {
    {"FILES",
     "your configuration: training files, launch scripts, DeepSpeed and accelerate files; a "
     "Makefile, pyproject.toml, justfile, Taskfile.yml or launch.json that starts the training "
     "(Makefile:train chooses one of several); or the folder that holds them",
     CLI_FILE, 0, SIZE_MAX, NULL},
    {"COMMAND", "instead of files: the training command, which is run on a simulated GPU",
     CLI_PROGRAM, 0, SIZE_MAX, NULL},
    {0},
};

static const cli_example examples[] = {
    {"plimsoll plan train.yaml --gpu 24GiB --out plan.json",
     "plan from your own files, for plimsoll apply"},
    {"plimsoll plan train.py --command \"python train.py --batch_size 8\" --gpu 24GiB",
     "plan a script whose settings come from its command line"},
    {"plimsoll plan train.sh --gpu 24GiB --prove",
     "also run the plan on a simulated GPU, to see that it fits"},
    {"plimsoll plan -m qwen2.5-7b --lora-rank 128 -b 2 -a 8 -c -g 4090",
     "the fastest settings for this run on an RTX 4090"},
    {"plimsoll plan -m llama-3.1-8b --lora-rank 16 -b 4 -g 24GiB,32GiB,80GiB",
     "compare several GPUs"},
    {"plimsoll plan --gpu 24GiB -- python train.py --batch-size 8",
     "the largest micro batch of your own program that fits"},
    {0},
};

const cli_command cmd_plan = {
    .name = "plan",
    .summary = "find the fastest settings that fit",
    .positionals = positionals,
    .options = plan_options,
    .args_size = sizeof(plan_args),
    .defaults = &plan_defaults,
    .run = run,
    .description = description,
    .examples = examples,
    .finding = "nothing fits, or --prove did not prove the plan",
};
