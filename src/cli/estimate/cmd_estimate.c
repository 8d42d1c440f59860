// plimsoll estimate: executes a training step on shapes and shows the memory it takes.
#include <string.h>

#include "command.h"
#include "estimate_picture.h"
#include "safetensors.h"
#include "units.h"

typedef struct {
  job_args job;
  picture_args pictures;
  bool explain;
} estimate_args;

// ---- the command --------------------------------------------------------------------------------------------

plim_predict_request estimate_request(const estimate_result *r) {
  const plim_target *target = &r->request.target;
  return (plim_predict_request){.job = &r->request.job,
                                .gpu = target->gpu,
                                .conf = target->conf,
                                .limit_bytes = r->e.fits ? target->limit_bytes : PLIM_UNKNOWN,
                                .limit_is_card = r->e.fits && target->limit_is_card};
}

static plim_err explain(estimate_result *r, plim_error *error) {
  plim_predict_request request = estimate_request(r);
  if (plim_holdings_find(&request, &r->e.p, &r->holders)) return PLIM_OK;
  return plim_fail(error, PLIM_ERR_NOMEM, "this machine does not have enough memory");
}

static int show(const estimate_result *r, const cli_call *call) {
  if (call->common.json) estimate_print_json(r);
  else estimate_print_text(r);
  return r->e.has_verdict && !r->e.fits ? CLI_FINDING : CLI_OK;
}

// Compares the weights next to config.json, if there are any, with the model that it describes.
static void check_weights(estimate_result *r) {
  const plim_model_source *source = &r->request.source;
  plim_safetensors found;
  plim_error error = {0};
  uint64_t own = r->e.p.parameters - (r->request.job.lora.rank ? r->e.p.trainable : 0);
  if (!*source->folder) return;
  plim_err err = plim_safetensors_read(source->folder, &found, &error);
  if (err == PLIM_ERR_PARSE)
    plim_note_add(&r->request.notes, "unread.weights", "model",
                  "the weights beside config.json could not be read: %s", error.message);
  if (err || *source->quantization || plim_safetensors_holds(&found, own)) return;
  plim_note_add(
      &r->request.notes, "conflict.weights", "model",
      "the weights beside config.json have %s elements, but the configuration describes %s",
      units_count(found.elements).text, units_count(own).text);
}

static plim_err widen_by_versions(estimate_result *r, plim_error *error) {
  job_request *request = &r->request;
  plim_err err =
      plim_predict_other_versions(&request->job, &request->target, &r->e, &r->others, error);
  if (!err) job_note_other_versions(r->args, request, &r->e, r->others.at, r->others.count);
  return err;
}

static int run(const cli_call *call) {
  estimate_args given = *(const estimate_args *)call->args, *args = &given;
  given.job.typed = call;
  given.job.typed_at = offsetof(estimate_args, job);
  estimate_result result = {.args = &args->job}, *r = &result;
  plim_error error = {0};
  const char *source;
  if (picture_check(&args->pictures, args->job.model, "the model itself", &error))
    return cli_report(&error, NULL);
  if (job_understand(&args->job, &args->job, &r->request, &source, &error))
    return cli_report(&error, source);
  plim_err err = plim_estimate_make(&r->request.job, &r->request.target, &r->e, &error);
  if (!err) err = widen_by_versions(r, &error);
  if (!err) check_weights(r);
  if (!err && r->e.p.assumes_repetition)
    plim_note_add(
        &r->request.notes, "assumed.passes", NULL,
        "memory stopped changing after a few hundred forward passes, so the remaining ones "
        "were not simulated");
  if (!err && r->request.notes.has_no_memory)
    err = plim_fail(&error, PLIM_ERR_NOMEM, "out of memory");
  if (!err && args->explain) err = explain(r, &error);
  if (!err) err = picture_draw(&args->pictures, estimate_draw, r, &error);
  int status = err ? cli_report(&error, NULL) : show(r, call);
  vec_free(&r->holders);
  job_request_clear(&r->request);
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
