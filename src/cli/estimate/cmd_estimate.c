// plimsoll estimate: executes a training step on shapes and shows the memory it takes.
#include "command.h"
#include "estimate_picture.h"
#include "estimate_show.h"
#include "text_result.h"

typedef struct {
  job_args job;
  picture_args pictures;
  bool explain;
} estimate_args;

// ---- the command --------------------------------------------------------------------------------------------

static int show(const estimate_result *r, const cli_call *call) {
  if (call->common.json) cli_print_json(estimate_write, r);
  else estimate_print_text(r);
  return r->e.has_verdict && !r->e.fits ? CLI_FINDING : CLI_OK;
}

static int run(const cli_call *call) {
  estimate_args given = *(const estimate_args *)call->args, *args = &given;
  given.job.typed = call;
  given.job.typed_at = offsetof(estimate_args, job);
  estimate_result result = {.args = &args->job, .wants_holders = args->explain}, *r = &result;
  plim_error error = {0};
  const char *source = NULL;
  plim_err err = picture_check(&args->pictures, args->job.model, "the model itself", &error);
  if (!err) err = estimate_make(r, &source, &error);
  if (!err) err = picture_draw(&args->pictures, estimate_draw, r, &error);
  int status = err ? cli_report(&error, source) : show(r, call);
  estimate_clear(r);
  return status;
}

// ---- its row ------------------------------------------------------------------------------------------------

static const estimate_args defaults = {.job = JOB_DEFAULTS};

#define AT(field) offsetof(estimate_args, job.field)
#define PICTURES_AT(field) offsetof(estimate_args, pictures.field)
static const cli_option options[] = {
    JOB_OPTIONS(AT),
    {"explain", 0, NULL, CLI_FLAG, offsetof(estimate_args, explain),
     "list the largest tensors at the peak", NULL, true},
    PICTURE_OPTIONS(PICTURES_AT),
    {0},
};

static const char *const description[] = {
    "Predicts how much memory a training step needs before you run it, without a GPU or Python. "
    "Plimsoll executes the model on tensor shapes, operator by operator, through forward, backward "
    "and the optimizer step as PyTorch would, and passes every allocation to a simulation of "
    "PyTorch's caching allocator. The result therefore includes every tensor, the moment of the "
    "peak, and the cost of fragmentation.",
    "plimsoll help families lists the supported architectures and the setups verified for each. "
    "Anything else is marked unverified, and the range around the estimate (\"between ... and "
    "...\") gets wider.",
    "If you name a GPU, the estimate uses the memory that CUDA offers on it and the attention "
    "kernels it runs. If you give only a size, it uses the kernels of an H200, the GPU that was "
    "measured.",
    "plimsoll help models and plimsoll help gpus list the known names.",
    NULL,
};

static const cli_example examples[] = {
    {"plimsoll estimate -m qwen2.5-7b --lora-rank 16 -b 2 -s 2048 -g 4090",
     "does this LoRA run fit on an RTX 4090?"},
    {"plimsoll estimate -m ./my-model -b 4 --checkpoint -g 24GiB --explain",
     "what uses the memory?"},
    {0},
};

const cli_command cmd_estimate = {
    .name = "estimate",
    .summary = "predict the memory of a training step",
    .options = options,
    .args_size = sizeof(estimate_args),
    .defaults = &defaults,
    .run = run,
    .description = description,
    .examples = examples,
    .finding = "the run does not fit",
};
