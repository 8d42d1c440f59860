// The functions of plimsoll.h that answer with what a command prints with --json.
#include <stdlib.h>
#include <string.h>

#include "estimate_result.h"
#include "library.h"
#include "name_lists.h"
#include "plan_json.h"
#include "plan_make.h"
#include "trainer_settings.h"

const char *plimsoll_version(void) { return PLIM_VERSION; }

void plimsoll_free(char *answer) { free(answer); }

// ---- estimate ---------------------------------------------------------------------------------------

typedef struct {
  job_args job;
  bool explain;
  uint64_t timeline;
} estimate_args;

static const estimate_args estimate_defaults = {.job = JOB_DEFAULTS};

enum { MOST_COLUMNS = 100000 };

#define AT(field) offsetof(estimate_args, job.field)
static const cli_option estimate_options[] = {
    JOB_OPTIONS(AT),
    {"explain", 0, NULL, CLI_FLAG, offsetof(estimate_args, explain), NULL, NULL},
    {"timeline", 0, "N", CLI_UINT, offsetof(estimate_args, timeline), NULL, NULL},
    {0},
};
#undef AT

static const cli_command estimate_command = {.name = "estimate",
                                             .options = estimate_options,
                                             .args_size = sizeof(estimate_args),
                                             .defaults = &estimate_defaults};

static plim_err check_columns(uint64_t columns, plim_error *error) {
  if (columns <= MOST_COLUMNS) return PLIM_OK;
  return plim_fail(error, PLIM_ERR_ARGUMENT, "\"timeline\" can have at most %d columns",
                   MOST_COLUMNS);
}

plim_err plimsoll_estimate(const char *request, char **answer, plim_error *error) {
  library_request q;
  const char *source = NULL;
  locale_t before = library_enter();
  *answer = NULL;
  plim_err err = library_read(request, &estimate_command, "fetch", NULL, &q, error);
  if (!err) {
    estimate_args *args = q.call.args;
    estimate_result r = {
        .args = &args->job, .wants_holders = args->explain, .columns = args->timeline};
    args->job.typed = &q.call;
    args->job.typed_at = offsetof(estimate_args, job);
    err = check_columns(args->timeline, error);
    if (!err) err = estimate_make(&r, &source, error);
    library_forget_byte(err, source, error);
    if (!err) err = json_text(estimate_write, &r, answer, error);
    estimate_clear(&r);
  }
  library_clear(&q);
  library_leave(before);
  return err;
}

// ---- settings ---------------------------------------------------------------------------------------

typedef struct {
  job_args job;
  const char *dialect;
} settings_args;

static const settings_args settings_defaults = {.job = JOB_DEFAULTS};

#define AT(field) offsetof(settings_args, job.field)
static const cli_option settings_options[] = {
    JOB_OPTIONS(AT),
    {"dialect", 0, "NAME", CLI_STRING, offsetof(settings_args, dialect), NULL, NULL},
    {0},
};
#undef AT

static const cli_command settings_command = {.name = "settings",
                                             .options = settings_options,
                                             .args_size = sizeof(settings_args),
                                             .defaults = &settings_defaults};

static plim_err settings(library_request *q, char **answer, plim_error *error) {
  settings_args *args = q->call.args;
  settings_result s = {.args = &args->job};
  const char *source = NULL;
  if (!args->dialect) return json_text(settings_list_write, NULL, answer, error);
  args->job.typed = &q->call;
  args->job.typed_at = offsetof(settings_args, job);
  plim_err err = settings_dialect_named(args->dialect, &s.dialect, error);
  if (!err) err = settings_make(&s, &source, error);
  library_forget_byte(err, source, error);
  if (!err) err = json_text(settings_write, &s, answer, error);
  settings_clear(&s);
  return err;
}

plim_err plimsoll_settings(const char *request, char **answer, plim_error *error) {
  library_request q;
  locale_t before = library_enter();
  *answer = NULL;
  plim_err err = library_read(request, &settings_command, "fetch", NULL, &q, error);
  if (!err) err = settings(&q, answer, error);
  library_clear(&q);
  library_leave(before);
  return err;
}

// ---- plan -------------------------------------------------------------------------------------------

static const cli_command plan_command = {.name = "plan",
                                         .options = plan_options,
                                         .args_size = sizeof(plan_args),
                                         .defaults = &plan_defaults};

static plim_err plan(library_request *q, char **answer, plim_error *error) {
  const plan_args *typed = q->call.args;
  plan_args args = *typed;
  project_job files = {0};
  plan_result r = plan_result_new(&q->call, &args);
  const char *source = NULL;
  bool has_files = q->call.words.len || args.command;
  project_input in = {(const char *const *)q->call.words.at, q->call.words.len, args.command,
                      &args.set};
  args.typed = &typed->job;
  args.job.typed = &q->call;
  args.job.typed_at = offsetof(plan_args, job);
  plim_err err = plan_check_args(&args, error);
  if (!err && !has_files && !args.job.model)
    err = plim_fail(error, PLIM_ERR_ARGUMENT, "the request has neither \"files\" nor a \"model\"");
  if (!err && has_files) err = project_job_read(&files, &in, error);
  if (!err) err = plan_result_make(&args, has_files ? &files : NULL, &r, &source, error);
  if (!err) err = plan_result_finish(&r, error);
  library_forget_byte(err, source, error);
  if (!err) err = plan_json(&r, answer, error);
  plan_result_clear(&r);
  project_job_clear(&files);
  return err;
}

plim_err plimsoll_plan(const char *request, char **answer, plim_error *error) {
  static const library_words files = {"files", false};
  library_request q;
  locale_t before = library_enter();
  *answer = NULL;
  plim_err err =
      library_read(request, &plan_command, "out prove online unsandboxed fetch", &files, &q, error);
  if (!err) err = plan(&q, answer, error);
  library_clear(&q);
  library_leave(before);
  return err;
}

// ---- lists ------------------------------------------------------------------------------------------

plim_err plimsoll_list(const char *what, char **answer, plim_error *error) {
  const name_list *list = name_list_named(what);
  *answer = NULL;
  if (!list)
    return plim_fail(error, PLIM_ERR_ARGUMENT,
                     "there is no list \"%.64s\": models, families, gpus or knobs", what);
  locale_t before = library_enter();
  plim_err err = json_text(name_list_write, list, answer, error);
  library_leave(before);
  return err;
}
