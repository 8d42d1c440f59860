// plimsoll check: the pre-flight list before a training run.
#include <stdlib.h>

#include "check_show.h"
#include "cli_alloc.h"
#include "command.h"

typedef struct {
  const char *model, *gpu, *command;
  uint64_t world;
  bool fetch;
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

static int show(check *c, const cli_call *call) {
  if (call->common.json) check_print_json(c);
  else check_print_text(c);
  const char *why_not;
  check_verdict verdict = check_decide(c, &why_not);
  return verdict == CHECK_NOT_READY || verdict == CHECK_MAY_NOT_FIT ? CLI_FINDING : CLI_OK;
}

static int run(const cli_call *call) {
  const check_args *args = call->args;
  const char *root = getenv("PLIMSOLL_ROOT");
  plim_error error = {0};
  if (check_world_typed(call, &error) || check_typed(args, &error)) return cli_report(&error, NULL);
  check *c = cli_alloc(sizeof *c);
  *c = (check){.environment = getenv,
               .root = root ? root : "",
               .model = args->model,
               .gpu = args->gpu,
               .world = args->world,
               .may_fetch = args->fetch};
  check_look(c);
  project_input in = {(const char *const *)call->words.at, call->words.len, args->command,
                      &args->set};
  plim_err err = check_read(c, &in, &error);
  if (!err) err = check_all(c, &error);
  int status = err ? cli_report(&error, NULL) : show(c, call);
  check_clear(c);
  free(c);
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
    NULL,
};

static const cli_example examples[] = {
    {"plimsoll check train.yaml launch.sh", "check everything before a run"},
    {"plimsoll check train.yaml --gpu 24GiB", "will it fit on a GPU with 24 GiB?"},
    {"plimsoll check --command \"torchrun --nproc_per_node 2 train.py --bf16\"",
     "check a script as this command starts it"},
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
