// plimsoll plan -- COMMAND: understands the options, searches, and shows what was found.
#include "plan_trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_alloc.h"
#include "command.h"
#include "plan_proof.h"
#include "plan_save.h"
#include "simulate_report.h"
#include "term.h"
#include "units.h"

enum { MOST_RUNS = 14 }; // each takes 5 to 30 seconds

// ---- options ----------------------------------------------------------------------------------------

// Those that mean something for a program. Everything else describes a model, which here is the program's own.
static const size_t usable[] = {
    offsetof(plan_args, job.gpu),   offsetof(plan_args, job.limit_bytes),
    offsetof(plan_args, job.world), offsetof(plan_args, job.steps),
    offsetof(plan_args, set),       offsetof(plan_args, effective_batch),
    offsetof(plan_args, is_online), offsetof(plan_args, is_unsandboxed),
    offsetof(plan_args, out),       offsetof(plan_args, margin),
    offsetof(plan_args, fix),       offsetof(plan_args, tries),
    offsetof(plan_args, allow),     offsetof(plan_args, is_proved),
};

// Those that only a plan by prediction can follow.
static const size_t of_prediction[] = {offsetof(plan_args, margin), offsetof(plan_args, fix),
                                       offsetof(plan_args, tries), offsetof(plan_args, allow)};

static bool is_usable(size_t offset) {
  for (size_t i = 0; i < sizeof usable / sizeof *usable; i++)
    if (usable[i] == offset) return true;
  return false;
}

static plim_err refuse_option(const cli_option *option, plim_error *error) {
  plim_err err =
      plim_fail(error, PLIM_ERR_ARGUMENT,
                "--%s cannot be used with -- COMMAND: the program's own code and flags decide it",
                option->name);
  plim_error_hint(error, "leave it out, or put it after -- if it is a flag of the program");
  return err;
}

static plim_err refuse_prediction(const cli_option *option, const char *why, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                           "--%s needs a plan by prediction, and this program must be planned by "
                           "simulated runs, because %s",
                           option->name, why);
  plim_error_hint(error, "leave it out: the plan then finds the largest micro batch that fits");
  return err;
}

// Before the search by simulated runs, which changes the micro batch alone.
static plim_err check_search(const cli_call *call, const char *why, plim_error *error) {
  for (const cli_option *o = call->command->options; o->name; o++)
    for (size_t i = 0; i < sizeof of_prediction / sizeof *of_prediction; i++)
      if (o->offset == of_prediction[i] && cli_was_given(call, o->offset))
        return refuse_prediction(o, why, error);
  return PLIM_OK;
}

static plim_err check_options(const cli_call *call, plim_error *error) {
  if (call->words.len) {
    plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                             "plan takes either files or a command after --, and both were given: "
                             "%.120s",
                             call->words.at[0]);
    plim_error_hint(error, "plimsoll plan --gpu 24GiB -- %.120s ...", call->program.at[0]);
    return err;
  }
  for (const cli_option *o = call->command->options; o->name; o++)
    if (cli_was_given(call, o->offset) && !is_usable(o->offset)) return refuse_option(o, error);
  return PLIM_OK;
}

// Mistakes in --fix, --try, --allow and --margin are told before the program runs.
static plim_err check_settings(const plan_args *args, plim_error *error) {
  plim_plan_request *request = cli_alloc(sizeof *request);
  plim_err err = plan_read_options(args, request, error);
  free(request);
  return err;
}

static plim_err read_effective(const char *text, trial_options *out, plim_error *error) {
  out->is_any_batch = text && strcmp(text, "any") == 0;
  if (!text || out->is_any_batch) return PLIM_OK;
  if (!units_parse_u64(text, &out->effective, NULL) && out->effective >= 1 &&
      out->effective <= PLIM_MAX_BATCH)
    return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           "--effective-batch %.48s: it must be at least 1 and at most %d, or any",
                           text, PLIM_MAX_BATCH);
  plim_error_hint(error, "--effective-batch 64");
  return err;
}

static plim_err understand_card(const plan_args *args, job_request *card, simulate_request *out,
                                plim_error *error) {
  job_args job = JOB_DEFAULTS;
  const char *source;
  job.gpu = args->job.gpu;
  job.limit_bytes = args->job.limit_bytes;
  if (job.gpu && strchr(job.gpu, ',')) {
    plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                             "--gpu %.80s: a program is planned for one GPU at a time", job.gpu);
    plim_error_hint(error, "--gpu \"%.*s\"", (int)strcspn(job.gpu, ","), job.gpu);
    return err;
  }
  plim_err err = job_understand_target(&job, card, &source, error);
  if (!err && card->target.budget_bytes == PLIM_UNKNOWN) {
    err = plim_fail(error, PLIM_ERR_ARGUMENT, "no GPU is given, and this machine has none");
    plim_error_hint(error, "--gpu 4090, or --gpu 24GiB");
  }
  if (err) return err;
  *out = (simulate_request){.gpu = card->target.gpu,
                            .total_bytes = card->target.budget_bytes,
                            .context_bytes = (uint64_t)card->target.gpu->context_mib * PLIM_MIB,
                            .steps = args->job.steps,
                            .has_network = args->is_online,
                            .is_unsandboxed = args->is_unsandboxed};
  return PLIM_OK;
}

// ---- progress ---------------------------------------------------------------------------------------

static void show_progress(void *context, const trial_search *s, int64_t micro,
                          const simulate_moment *now) {
  char state[80] = "starting";
  (void)context;
  if (now->used_bytes)
    snprintf(state, sizeof state, "%llu of %llu steps done, %s in use",
             (unsigned long long)now->steps, (unsigned long long)s->request.steps,
             units_bytes(now->used_bytes).text);
  term_progress("%s, run %zu, micro batch %lld: %s", units_seconds(now->seconds).text,
                s->runs.len + 1, (long long)micro, state);
}

// ---- the result -------------------------------------------------------------------------------------

const trial_run *plan_trial_run_of(const trial_search *s, int64_t micro) {
  for (size_t i = s->runs.len; i-- > 0;)
    if (s->runs.at[i].micro == micro) return &s->runs.at[i];
  return NULL;
}

const trial_run *plan_trial_best(const plan_trial_report *r) {
  return r->search->best == SIZE_MAX ? NULL : &r->search->runs.at[r->search->best];
}

uint64_t plan_trial_effective(const plan_trial_report *r, const trial_run *run) {
  int64_t accumulation = run->accumulation;
  bool is_own = run->micro == r->program->micro;
  if (!accumulation && is_own) accumulation = r->program->accumulation;
  return (uint64_t)(run->micro * accumulation * r->program->ranks);
}

static plim_err show(plan_trial_report *r, bool is_json, plim_error *error) {
  const trial_run *best = plan_trial_best(r);
  plim_err err = best ? trial_program_diff(r->program, best->micro, &r->diff, error) : PLIM_OK;
  char *json = NULL;
  if (!err && (r->out || is_json)) err = plan_trial_json(r, &json, error);
  if (!err && r->out) err = plan_save(json, r->out, error);
  if (!err && is_json) fputs(json, stdout);
  else if (!err) plan_trial_print_text(r);
  free(json);
  trial_diff_clear(&r->diff);
  return err;
}

// First by prediction; if that is not possible or not right, by simulated runs.
static plim_err search_and_show(const cli_call *call, trial_program *program,
                                const job_request *card, const simulate_request *request,
                                int *status, plim_error *error) {
  const plan_args *args = call->args;
  trial_search search = {.program = program, .request = *request, .most_runs = MOST_RUNS};
  plan_proof_try by_prediction = {
      .call = call, .program = program, .search = &search, .watch = show_progress};
  plan_trial_report report = {.program = program,
                              .search = &search,
                              .card = card->is_known_by_size ? "" : card->card,
                              .budget_bytes = card->target.budget_bytes,
                              .is_whole_card = card->target.limit_is_card,
                              .notes = &card->notes,
                              .sets = &args->set,
                              .out = args->out,
                              .why = by_prediction.why};
  plim_err err = trial_search_first(&search, show_progress, NULL, error);
  if (!err) err = plan_prove(&by_prediction, error);
  bool is_done = by_prediction.is_done;
  if (!err && !is_done) err = check_search(call, by_prediction.why, error);
  if (!err && !is_done) err = trial_search_rest(&search, show_progress, NULL, error);
  term_progress_clear();
  if (err && *search.failed_log) simulate_print_log(search.failed_log);
  if (!err && !is_done) err = show(&report, call->common.json, error);
  *status = is_done ? by_prediction.status : plan_trial_best(&report) ? CLI_OK : CLI_FINDING;
  trial_search_clear(&search);
  return err;
}

int plan_trial(const cli_call *call) {
  const plan_args *args = call->args;
  plim_error error = {0};
  int status = CLI_OK;
  job_request *card = calloc(1, sizeof *card);
  if (!card) cli_out_of_memory();
  const char **words = cli_program_words(call);
  trial_options options = {.words = words, .sets = &args->set};
  options.world = args->job.world == JOB_UNSET ? 0 : args->job.world;
  simulate_request request;
  trial_program program = {0};
  plim_err err = check_options(call, &error);
  if (!err) err = read_effective(args->effective_batch, &options, &error);
  if (!err) err = check_settings(args, &error);
  if (!err) err = understand_card(args, card, &request, &error);
  if (!err) err = trial_program_open(&program, &options, &error);
  if (!err) err = plan_check_out(args, &program.files, &error);
  if (!err) err = search_and_show(call, &program, card, &request, &status, &error);
  if (err) status = cli_report(&error, NULL);
  trial_program_clear(&program);
  job_request_clear(card);
  free(card);
  free(words);
  return status;
}
