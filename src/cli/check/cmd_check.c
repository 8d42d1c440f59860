// plimsoll check: the pre-flight list before a training run.
#include <stdlib.h>

#include "check_show.h"
#include "cli_alloc.h"
#include "command.h"
#include "output_file.h"

typedef struct {
  const char *model, *gpu, *command, *sarif;
  uint64_t world;
  bool fetch, each, elsewhere, strict;
  cli_strings set;
} check_args;

// Checks the typed options: a mistyped value is an error, while an unknown value in a file is only a note.
static plim_err check_typed(const check_args *args, plim_error *error) {
  job_request request;
  job_args probe = JOB_DEFAULTS;
  const char *source;
  if (!args->model && !args->gpu) return PLIM_OK;
  probe.model = args->model ? args->model : "gpt2"; // any model of the catalogue
  probe.gpu = args->gpu;
  probe.may_fetch = args->fetch;
  plim_err err = job_understand(&probe, &probe, &request, &source, error);
  if (!err) job_request_clear(&request);
  return err;
}

// 0 means "not typed" everywhere else.
static plim_err check_world_typed(const cli_call *call, plim_error *error) {
  const check_args *args = call->args;
  for (size_t i = 0; i < call->given.len; i++)
    if (call->given.at[i] == offsetof(check_args, world) && !args->world)
      return plim_fail(error, PLIM_ERR_UNSUPPORTED, "--world must be at least 1");
  return PLIM_OK;
}

static const char *const no_files = "--each needs the files to check";

static plim_err check_together(const cli_call *call, plim_error *error) {
  const check_args *args = call->args;
  const output_file sarif = {"--sarif", args->sarif, "findings.sarif", "a report of plimsoll check",
                             check_is_sarif};
  if (args->each && !call->words.len) {
    plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "%s", no_files);
    plim_error_hint(error, "plimsoll check --each train.yaml other.yaml");
    return err;
  }
  if (args->each && (args->command || args->set.len))
    return plim_fail(error, PLIM_ERR_ARGUMENT,
                     "--each checks files that belong to different "
                     "trainings, so %s cannot apply to all of them",
                     args->command ? "--command" : "--set");
  for (size_t i = 0; args->sarif && i < call->words.len; i++)
    if (output_is_same(args->sarif, call->words.at[i]))
      return output_refuse(&sarif, "that is one of the files to check", "", error);
  return args->sarif ? output_check(&sarif, error) : PLIM_OK;
}

// Whether any of the files belongs to a framework.
static bool is_recognised(const check *c) {
  const plim_project *p = &c->files.project;
  for (size_t i = 0; i < p->files.len; i++) {
    plim_dialect d = p->files.at[i]->is.dialect;
    if (d != PLIM_DIALECTS && d != PLIM_DIALECT_HOME) return true;
  }
  return c->trains;
}

// Reads the files of one training and checks it.
static void look_at(checked *x, const check_args *args, const char *const *files, size_t count) {
  const char *root = getenv("PLIMSOLL_ROOT");
  check *c = &x->of;
  *c = (check){.environment = getenv,
               .root = root ? root : "",
               .model = args->model,
               .gpu = args->gpu,
               .world = args->world,
               .may_fetch = args->fetch,
               .is_elsewhere = args->elsewhere};
  check_look(c);
  project_input in = {files, count, args->command, &args->set};
  plim_err err = check_read(c, &in, &x->error);
  bool asks = err == PLIM_ERR_ARGUMENT;
  x->is_passed_over = args->each && (asks || (!err && !is_recognised(c)));
  if (!err && !x->is_passed_over) err = check_all(c, &x->error);
  x->has_failed = err && !x->is_passed_over;
}

static int status_of(const checked *x, const check_args *args) {
  const char *why_not;
  if (x->has_failed) return CLI_ERROR;
  if (x->is_passed_over) return CLI_OK;
  check_verdict verdict = check_decide(&x->of, &why_not);
  bool is_open = verdict == CHECK_NOT_CHECKED && args->gpu;
  if (args->strict && (is_open || check_count(&x->of, CHECK_WARNING))) return CLI_FINDING;
  return verdict == CHECK_NOT_READY || verdict == CHECK_MAY_NOT_FIT ? CLI_FINDING : CLI_OK;
}

static void show(const cli_call *call, const checked *all, size_t count) {
  const check_args *args = call->args;
  if (!args->each && call->common.json) check_print_json(&all->of);
  else if (!args->each) check_print_text(&all->of);
  else if (call->common.json) check_print_each_json(all, count);
  else check_print_each_text(all, count);
  fflush(stdout); // what follows is for the other stream
  for (size_t i = 0; args->each && i < count; i++)
    if (all[i].has_failed) cli_report_text(stderr, &all[i].error, NULL);
}

static int run(const cli_call *call) {
  const check_args *args = call->args;
  const char *const *files = (const char *const *)call->words.at;
  plim_error error = {0};
  if (check_world_typed(call, &error) || check_typed(args, &error) || check_together(call, &error))
    return cli_report(&error, NULL);
  size_t count = args->each ? call->words.len : 1;
  checked *all = cli_alloc(count * sizeof *all);
  int status = CLI_OK;
  for (size_t i = 0; i < count; i++) {
    if (args->each) all[i].named = files[i];
    look_at(&all[i], args, args->each ? files + i : files, args->each ? 1 : call->words.len);
    int one = status_of(&all[i], args);
    if (one > status) status = one;
  }
  plim_err err = args->sarif ? check_write_sarif(args->sarif, all, count, &error) : PLIM_OK;
  if (err) status = cli_report(&error, NULL);
  else if (!args->each && all->has_failed) status = cli_report(&all->error, NULL);
  else show(call, all, count);
  for (size_t i = 0; i < count; i++) check_clear(&all[i].of);
  free(all);
  return status;
}

// ---- its row ------------------------------------------------------------------------------------------------

#define AT(field) offsetof(check_args, field)
static const cli_option options[] = {
    {"gpu", 'g', "GPU", CLI_CARD, AT(gpu),
     "GPU to train on, by name or size: RTX 4090, 24GiB (default: the one in this machine)", NULL},
    {"model", 'm', "MODEL", CLI_MODEL, AT(model), "the model, if the files do not name it", NULL},
    {"fetch", 0, NULL, CLI_FLAG, AT(fetch), JOB_FETCH_HELP, NULL},
    {"world", 0, "N", CLI_UINT, AT(world), "number of GPUs, if the files do not set it", NULL},
    {"set", 0, "KNOB=FILE:KEY", CLI_STRINGS, AT(set),
     "where a setting is in your files, if it was not found", NULL},
    {"command", 0, "LINE", CLI_STRING, AT(command), PROJECT_COMMAND_HELP, NULL},
    {"each", 0, NULL, CLI_FLAG, AT(each),
     "each of FILES is a training of its own, as in a commit that changes several; files that are "
     "not training configurations are named and skipped",
     NULL},
    {"elsewhere", 0, NULL, CLI_FLAG, AT(elsewhere),
     "the training runs on another machine: leave out the GPU, the memory and the environment of "
     "this one",
     NULL},
    {"strict", 0, NULL, CLI_FLAG, AT(strict),
     "exit with 1 for warnings too and, with --gpu, if it is not known whether the run fits", NULL},
    {"sarif", 0, "FILE", CLI_FILE, AT(sarif),
     "also write the findings to FILE as SARIF 2.1.0, which code reviews show beside the lines",
     NULL},
    {0},
};

static const cli_positional positionals[] = {
    {"FILES",
     "your configuration: training files, launch scripts, DeepSpeed and accelerate files; a "
     "Makefile, pyproject.toml, justfile, Taskfile.yml or launch.json that starts the training "
     "(Makefile:train chooses one of several); or the folder that holds them",
     CLI_FILE, 0, SIZE_MAX, NULL},
    {0},
};

static const char *const description[] = {
    "Checks a training run before it starts: the GPU, its free memory and which other processes "
    "use it; the effective batch size, and whether DeepSpeed, accelerate and the training "
    "arguments agree; whether PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF are set and valid; "
    "whether host memory, container limits and /dev/shm are enough for offload and data loader "
    "workers; options that conflict; YAML values that are read as a different type than intended; "
    "and whether the run fits in GPU memory.",
    "Each finding says what is wrong, why it matters and how to fix it. Files that your files "
    "refer to are read as well. Without FILES, only the machine and the environment are checked. "
    "Nothing is changed.",
    "In a hook or a CI job, check the files of a commit with --each --elsewhere; the repository of "
    "plimsoll has a hook for pre-commit and an action for GitHub. In a SARIF file, a finding "
    "without "
    "a line of its own, such as a run that does not fit, is reported at the first line of its "
    "file; "
    "notes that belong to no file are notifications.",
    NULL,
};

static const cli_example examples[] = {
    {"plimsoll check train.yaml launch.sh", "check everything before a run"},
    {"plimsoll check train.yaml --gpu 24GiB", "will it fit on a GPU with 24 GiB?"},
    {"plimsoll check --command \"torchrun --nproc_per_node 2 train.py --bf16\"",
     "check a script as this command starts it"},
    {"plimsoll check --each --elsewhere train.yaml launch.sh --sarif out.sarif",
     "check two trainings in a CI job"},
    {"plimsoll check", "check only the machine and the environment"},
    {0},
};

const cli_command cmd_check = {
    .name = "check",
    .summary = "check a training run before it starts",
    .positionals = positionals,
    .options = options,
    .args_size = sizeof(check_args),
    .run = run,
    .description = description,
    .examples = examples,
    .ok = "READY or NOT CHECKED: nothing found that would stop the run (there may be warnings)",
    .finding = "NOT READY or MAY NOT FIT: the run would fail, or may run out of memory",
};
