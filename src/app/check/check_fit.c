// Checks whether the run fits, and lists configurations in the folder that were not checked.
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_conf.h"
#include "check.h"
#include "formats.h"
#include "job_moment.h"
#include "job_needs.h"
#include "plan.h"
#include "quoting.h"
#include "units.h"

// ---- the estimate -----------------------------------------------------------------------------------

// Drops an allocator setting that PyTorch refuses; that is a separate finding.
static void leave_out_bad_conf(job_args *job) {
  plim_alloc_conf conf;
  if (job->alloc_conf && plim_alloc_conf_parse(job->alloc_conf, &conf, NULL))
    job->alloc_conf = NULL;
}

static plim_err estimate(check *c, uint64_t world, plim_error *error) {
  static const job_args nothing = JOB_DEFAULTS;
  const char *source;
  c->job = (job_args)JOB_DEFAULTS_WITH(JOB_UNSET);
  c->job.model = c->model;
  c->job.gpu = c->gpu;
  if (world) c->job.world = world;
  plim_err err = project_job_fill(&c->files, &c->job, error);
  leave_out_bad_conf(&c->job);
  job_request_clear(&c->request); // left by an estimate that failed
  if (!err) err = job_understand(&c->job, &nothing, &c->request, &source, error);
  err = project_job_blame(&c->files, &c->job, err, error);
  if (!err && c->request.job.recipe.loss != PLIM_LOSS_CONTRASTIVE)
    c->request.job.recipe.batch *=
        plim_sequences_per_anchor(project_job_count(&c->files, PLIM_KNOB_POSITIVES),
                                  project_job_count(&c->files, PLIM_KNOB_NEGATIVES));
  if (!err) err = plim_estimate_make(&c->request.job, &c->request.target, &c->estimate, error);
  return err;
}

// The number of GPUs is not known. One GPU needs the most memory: what fits on one fits on several.
static bool fits_alone(check *c) {
  plim_error error = {0};
  bool is_open = !c->world && c->files.run.world.origin == PLIM_ABSENT && check_is_sharded(c);
  if (!is_open || estimate(c, 1, &error)) return false;
  return c->estimate.has_verdict && c->estimate.fits;
}

static void estimate_alone(check *c) {
  c->has_estimate = fits_alone(c);
  if (c->has_estimate)
    check_add(c, "fit.assumed", CHECK_NOTE,
              "the files do not set the number of GPUs: one assumed, which needs the most "
              "memory (--world N)");
}

// ---- the verdict ------------------------------------------------------------------------------------

static const char *card_of(const check *c) {
  return *c->request.card ? c->request.card : "the limit";
}

// Adds a path to a command, quoted; false if it does not fit.
static bool add_path(const char *path, char *text, size_t size) {
  size_t used = strlen(text);
  if (used + 2 > size || !plim_shell_quote(path, text + used + 1, size - used - 1)) {
    text[used] = 0;
    return false;
  }
  text[used] = ' ';
  return true;
}

// Lists the paths that fit on a line; files to which they refer are found again.
static void list_files(const check *c, char *text, size_t size) {
  const plim_project *p = &c->files.project;
  *text = 0;
  for (size_t i = 0; i < p->files.len; i++)
    if (!add_path(p->files.at[i]->path, text, size)) return;
}

static void fix_plan(const check *c, check_finding *f) {
  char files[160], model[96] = "", gpu[64] = "", world[32] = "";
  list_files(c, files, sizeof files);
  if (c->model) snprintf(model, sizeof model, " --model %.80s", c->model);
  if (c->gpu) snprintf(gpu, sizeof gpu, " --gpu \"%.48s\"", c->gpu);
  if (c->world) snprintf(world, sizeof world, " --world %llu", (unsigned long long)c->world);
  check_fix(f, "plimsoll plan%s%s%s%s --out plan.json", files, model, gpu, world);
}

// If the hint is an option that only `plan` has, the fix is a plan command.
static void report_not_known(check *c) {
  static const char *const own[] = {"--model", "--world", "--gpu", "--set"};
  const char *hint = c->no_estimate.hint;
  char files[160] = "";
  bool is_of_plan = strncmp(hint, "--", 2) == 0;
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    is_of_plan = is_of_plan && strncmp(hint, own[i], strlen(own[i])) != 0;
  check_finding *f = check_add(c, "fit.unknown", CHECK_NOTE, "cannot tell whether it fits: %s",
                               c->no_estimate.message);
  if (is_of_plan) list_files(c, files, sizeof files);
  check_fix(f, "%s%s%s%s", is_of_plan ? "plimsoll plan" : "", files, is_of_plan ? " " : "", hint);
}

// A failure is certain only if nothing was assumed.
static bool is_sure(const check *c) {
  static const plim_knob knobs[] = {PLIM_KNOB_SEQUENCE, PLIM_KNOB_MICRO_BATCH, PLIM_KNOB_LORA_RANK,
                                    PLIM_KNOB_CHECKPOINT, PLIM_KNOB_QUANTISATION};
  for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++)
    if (c->files.project.knobs[knobs[i]].origin == PLIM_UNCLEAR) return false;
  return check_number(c, PLIM_KNOB_SEQUENCE) && c->micro_batch;
}

static void report_too_large(check *c) {
  const plim_estimate *e = &c->estimate;
  char where[128], needs[ESTIMATE_NEEDS_SIZE];
  estimate_needs(e, needs, sizeof needs);
  check_finding *f = check_add(c, "fit", is_sure(c) ? CHECK_FAILS : CHECK_WARNING,
                               "does not fit: needs %s, and %s are available", needs,
                               units_bytes(e->budget_bytes).text);
  estimate_place(&e->capped.runs_out_at, where, sizeof where);
  check_why(f, "runs out of memory in %s%s", where,
            is_sure(c) ? "" : "; see the notes for what was assumed");
  fix_plan(c, f);
}

// Free memory of the card in this machine, if the estimate is for that card.
static uint64_t free_now(const check *c) {
  return !c->gpu && c->card_count ? c->cards[0].free_bytes : PLIM_UNKNOWN;
}

// Whether the run also fits into the memory that is free now. With less memory, the allocator releases its cache.
static bool fits_now(check *c) {
  plim_target target = c->request.target;
  plim_estimate now;
  uint64_t free = free_now(c);
  if (c->estimate.device_bytes <= free || target.budget_bytes <= free) return true;
  uint64_t taken = target.budget_bytes - free;
  if (target.limit_bytes <= taken) return false;
  target.budget_bytes -= taken;
  target.limit_bytes -= taken;
  plim_err err = plim_estimate_make(&c->request.job, &target, &now, NULL);
  if (err == PLIM_ERR_NOMEM) c->has_no_memory = true;
  return !err && now.fits;
}

static void report_crowded(check *c) {
  const plim_estimate *e = &c->estimate;
  check_finding *f = check_add(c, "fit", is_sure(c) ? CHECK_FAILS : CHECK_WARNING,
                               "fits only on an empty card: needs %s, and %s of %s are free now",
                               units_bytes(e->device_bytes).text, units_bytes(free_now(c)).text,
                               units_bytes(e->budget_bytes).text);
  check_why(f, "other processes use the rest of the card");
  check_fix(f, "stop them first; nvidia-smi lists them");
}

// As in the planner: if the upper end of the interval exceeds the budget, the run may fail.
static bool is_tight(const plim_estimate *e) { return e->interval_bytes[1] > e->budget_bytes; }

static void report_tight(check *c) {
  const plim_estimate *e = &c->estimate;
  check_finding *f = check_add(
      c, "fit", CHECK_WARNING, "may not fit: %s of %s on %s, which is within the error margin",
      units_bytes(e->device_bytes).text, units_bytes(e->budget_bytes).text, card_of(c));
  check_why(f, "it needs between %s and %s", units_bytes(e->interval_bytes[0]).text,
            units_bytes(e->interval_bytes[1]).text);
  fix_plan(c, f);
}

static void report_verdict(check *c) {
  const plim_estimate *e = &c->estimate;
  if (!e->has_verdict) {
    check_finding *f = check_add(c, "fit.unknown", CHECK_NOTE, "needs %s on the card",
                                 units_bytes(e->device_bytes).text);
    check_fix(f, "name the card to check whether it fits: --gpu 24GiB");
  } else if (!e->fits) report_too_large(c);
  else if (!fits_now(c)) report_crowded(c);
  else if (is_tight(e)) report_tight(c);
  else {
    bool is_guess = check_has(c, "values.unreadable", CHECK_WARNING);
    check_add(c, "fit", is_guess ? CHECK_NOTE : CHECK_OK, "%s: %s of %s on %s",
              is_guess ? "fits if the assumptions below are right" : "fits",
              units_bytes(e->device_bytes).text, units_bytes(e->budget_bytes).text, card_of(c));
  }
}

static void report_assumed(check *c) {
  const plim_model_source *model = &c->request.source;
  if (*c->request.card_note) check_add(c, "fit.assumed", CHECK_NOTE, "%s", c->request.card_note);
  if (*model->note) check_add(c, "fit.assumed", CHECK_NOTE, "%s", model->note);
  if (*model->quantization)
    check_add(
        c, "fit.assumed", CHECK_NOTE,
        "the checkpoint is quantized (%s), which is not modelled: predicted as if it were not",
        model->quantization);
  if (!check_number(c, PLIM_KNOB_SEQUENCE))
    check_add(c, "fit.assumed", CHECK_NOTE,
              "no sequence length is set: %lld tokens assumed (--set sequence=FILE:KEY)",
              (long long)c->request.job.recipe.length);
  for (size_t i = 0; i < c->files.notes.list.len; i++) {
    const plim_note *note = &c->files.notes.list.at[i];
    check_at_note(check_add(c, "fit.assumed", CHECK_NOTE, "%s", note->message), note);
  }
}

void check_fit(check *c) {
  if (!c->trains) return;
  c->has_estimate = !estimate(c, c->world, &c->no_estimate);
  if (!c->has_estimate) estimate_alone(c);
  if (!c->has_estimate) {
    if (c->no_estimate.code == PLIM_ERR_NOMEM) c->has_no_memory = true;
    else report_not_known(c);
    return;
  }
  report_verdict(c);
  report_assumed(c);
}

// ---- the folder -------------------------------------------------------------------------------------

enum { MAX_LOOKED_AT = 64, MAX_BYTES = 256 << 10 };

static bool is_candidate(const char *name) {
  plim_format format;
  return *name != '.' && plim_format_of(name, "", 0, &format);
}

// Whether the file's keys are those of a known ecosystem.
static bool is_recognised(check *c, const char *name) {
  plim_format format;
  plim_settings s = {0};
  plim_recognition is = {.dialect = PLIM_DIALECTS};
  char *text;
  size_t size;
  plim_err err = plim_text_file_read(name, MAX_BYTES, &text, &size, NULL);
  bool is_known = !err && plim_format_of(name, text, size, &format);
  if (is_known) err = plim_settings_read(format, text, size, &s, NULL);
  if (is_known && !err) plim_dialect_recognise(&s, &is);
  if (err == PLIM_ERR_NOMEM || s.has_failed) c->has_no_memory = true;
  plim_settings_clear(&s);
  free(text);
  return is.dialect != PLIM_DIALECTS && is.dialect != PLIM_DIALECT_HOME;
}

// Looks whether there is something to check, without checking it.
void check_folder(check *c) {
  struct dirent **entries;
  char list[200] = "";
  if (c->files.project.files.len) return;
  int count = scandir(".", &entries, NULL, alphasort);
  for (int i = 0, looked = 0; i < count; i++) {
    const char *name = entries[i]->d_name;
    if (is_candidate(name) && looked++ < MAX_LOOKED_AT && is_recognised(c, name))
      add_path(name, list, sizeof list);
    free(entries[i]);
  }
  if (count < 0 && errno == ENOMEM) c->has_no_memory = true;
  if (count >= 0) free(entries);
  if (!*list) return;
  check_finding *f =
      check_add(c, "files.here", CHECK_NOTE,
                "training configurations in this folder that were not checked:%s", list);
  check_fix(f, "plimsoll check%s", list);
}
