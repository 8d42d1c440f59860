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
  const char *source = NULL;
  c->job = (job_args)JOB_DEFAULTS_WITH(JOB_UNSET);
  c->job.model = c->model;
  c->job.gpu = c->gpu;
  c->job.may_fetch = c->may_fetch;
  c->job.is_elsewhere = c->is_elsewhere;
  if (world) c->job.world = world;
  plim_err err = project_job_fill(&c->files, &c->job, error);
  leave_out_bad_conf(&c->job);
  job_request_clear(&c->request); // left by an estimate that failed
  if (!err) err = job_understand(&c->job, &nothing, &c->request, &source, error);
  err = project_job_blame(&c->files, &c->job, &source, err, error);
  if (!err) project_job_place_notes(&c->files, &c->request.notes);
  if (!err) project_job_note_batches(&c->files, &c->request);
  if (!err && c->request.job.recipe.loss != PLIM_LOSS_CONTRASTIVE)
    c->request.job.recipe.batch *=
        plim_sequences_per_anchor(project_job_count(&c->files, PLIM_KNOB_POSITIVES),
                                  project_job_count(&c->files, PLIM_KNOB_NEGATIVES));
  if (!err) err = plim_estimate_make(&c->request.job, &c->request.target, &c->estimate, error);
  if (err) return err;
  project_job_note_patches(&c->files, &c->request.job, &c->request.notes);
  project_job_note_visible(&c->files, &c->job);
  return PLIM_OK;
}

// ---- the verdict ------------------------------------------------------------------------------------

// " on A100 80GB SXM"; empty for a card known only by its size, which is the budget.
static void print_card(const check *c, char *text, size_t size) {
  bool has_name = *c->request.card && !c->request.is_known_by_size;
  snprintf(text, size, "%s%s", has_name ? " on " : "", has_name ? c->request.card : "");
}

static void fix_plan(check *c, check_finding *f, const char *before) {
  check_fix(f, "%s%s --out plan.json", before, check_plan_command(c));
}

// Whether a text names an option that check does not have.
static bool has_foreign_option(const char *text) {
  static const char *const own[] = {"--model", "--world", "--gpu", "--set"};
  for (const char *at = strstr(text, "--"); at; at = strstr(at + 2, "--")) {
    bool is_own = false;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
      is_own |= strncmp(at, own[i], strlen(own[i])) == 0;
    if (!is_own) return true;
  }
  return false;
}

// Where the options of a hint begin: "create the file, or give its settings as options: --strategy zero2". NULL if it
// names them within a sentence, or in a command.
static const char *options_of(const char *hint) {
  const char *at = strncmp(hint, "--", 2) == 0 ? hint : strstr(hint, ": --");
  if (!at || strstr(hint, "plimsoll ")) return NULL;
  return at == hint ? at : at + 2;
}

// Whether the reason is a count that was reported as invalid already.
static bool is_invalid_count(const check *c) {
  static const plim_knob knobs[] = {PLIM_KNOB_MICRO_BATCH, PLIM_KNOB_ACCUMULATE,
                                    PLIM_KNOB_GLOBAL_BATCH};
  for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++) {
    const plim_project_knob *k = &c->files.project.knobs[knobs[i]];
    if (k->is_no_count && *k->why && strstr(c->no_estimate.message, k->why)) return true;
  }
  return false;
}

// If the hint has options that only `plan` has, the fix is a plan command.
static void report_not_known(check *c) {
  if (is_invalid_count(c)) return;
  const char *hint = c->no_estimate.hint;
  const char *file = c->no_estimate.file;
  bool names_file = !*file || strstr(c->no_estimate.message, file);
  check_finding *f =
      check_add(c, "fit.unknown", CHECK_NOTE, "cannot tell whether it fits: %s%s%s",
                names_file ? "" : file, names_file ? "" : ": ", c->no_estimate.message);
  const plim_project_knob *world = &c->files.project.knobs[PLIM_KNOB_WORLD];
  if (*world->why && strstr(c->no_estimate.message, world->why)) {
    check_fix(f, "correct one of them, or give the number of GPUs: --world N");
    return;
  }
  const char *options = options_of(hint);
  bool is_of_plan = options && has_foreign_option(options);
  int before = is_of_plan ? (int)(options - hint) : 0;
  check_fix(f, "%.*s%s%s%s", before, hint, is_of_plan ? check_plan_command(c) : "",
            is_of_plan ? " " : "", hint + before);
}

// What decides the memory of a run; a failure is certain only if all of it is known.
static const struct {
  plim_knob knob;
  const char *name;
  bool must_be_set;        // a run without it is not defined
  bool matters_to_loading; // and not only to a training step
} decisive[] = {
    {PLIM_KNOB_SEQUENCE, "sequence length", true, false},
    {PLIM_KNOB_MICRO_BATCH, "micro batch", true, false},
    {PLIM_KNOB_LORA_RANK, "LoRA rank", false, true},
    {PLIM_KNOB_CHECKPOINT, "checkpointing", false, false},
    {PLIM_KNOB_QUANTISATION, "quantisation", false, true},
};
enum { DECISIVE = sizeof decisive / sizeof *decisive };

static bool fails_while_loading(const check *c) {
  const plim_prediction *p = &c->estimate.capped;
  return p->runs_out && p->runs_out_at.phase == PLIM_PHASE_LOAD;
}

// The first one of these, from `from` on, that matters and is not known; DECISIVE: all are known.
static size_t next_unknown(const check *c, size_t from) {
  for (size_t i = from; i < DECISIVE; i++) {
    if (fails_while_loading(c) && !decisive[i].matters_to_loading) continue;
    bool is_unclear = c->files.project.knobs[decisive[i].knob].origin == PLIM_UNCLEAR;
    if (is_unclear || (decisive[i].must_be_set && !check_number(c, decisive[i].knob))) return i;
  }
  return DECISIVE;
}

static size_t first_unknown(const check *c) { return next_unknown(c, 0); }

static bool is_sure(const check *c) { return first_unknown(c) == DECISIVE; }

// "2048 tokens", "micro batch of 1", "checkpointing"
static void print_assumed(const check *c, size_t unknown, char *text, size_t size) {
  const plim_recipe *r = &c->request.job.recipe;
  plim_knob knob = decisive[unknown].knob;
  if (knob == PLIM_KNOB_SEQUENCE) snprintf(text, size, "%lld tokens", (long long)r->length);
  else if (knob == PLIM_KNOB_MICRO_BATCH)
    snprintf(text, size, "micro batch of %lld", (long long)r->batch);
  else snprintf(text, size, "%s", decisive[unknown].name);
}

// Whether any of the notes is marked so. They say why.
static bool any_marked(const check *c, bool (*is_marked)(const plim_notes *)) {
  return is_marked(&c->files.project.notes) || is_marked(&c->files.notes) ||
         is_marked(&c->request.notes);
}

static bool errs_low(const check *c) {
  return any_marked(c, plim_notes_err_low) || any_marked(c, plim_notes_err_either);
}

static bool may_fit_so(const check *c) {
  uint64_t saved =
      plim_saved_sum(plim_notes_saved(&c->files.project.notes), plim_notes_saved(&c->files.notes));
  saved = plim_saved_sum(saved, plim_notes_saved(&c->request.notes));
  return estimate_may_fit(&c->estimate, saved);
}

static void explain_failure(const plim_estimate *e, check_finding *f) {
  char where[128];
  const plim_program_point *at = &e->capped.runs_out_at;
  estimate_place(at, where, sizeof where);
  check_why(f, "runs out of memory %s %s", estimate_place_word(at), where);
}

static void report_would_not_fit(check *c, size_t unknown, const char *needs) {
  char assumed[64], set[160];
  print_assumed(c, unknown, assumed, sizeof assumed);
  check_finding *f = check_add(c, "fit", CHECK_WARNING,
                               "would not fit with the assumed %s: needs %s, %s available", assumed,
                               needs, units_bytes(c->estimate.budget_bytes).text);
  snprintf(c->fit, sizeof c->fit, "%s unknown", decisive[unknown].name);
  snprintf(set, sizeof set, "set the %s (--set %s=FILE:KEY), or ", decisive[unknown].name,
           plim_knob_table[decisive[unknown].knob].name);
  explain_failure(&c->estimate, f);
  fix_plan(c, f, set);
}

enum { SHORTEST = 16 }; // tokens; no training has only shorter samples

// Whether the length alone is unknown, and not even the shortest samples fit; these need `out`.
static bool fits_at_no_length(check *c, plim_estimate *out) {
  plim_job job = c->request.job;
  size_t unknown = first_unknown(c);
  bool is_length = unknown != DECISIVE && decisive[unknown].knob == PLIM_KNOB_SEQUENCE;
  if (!is_length || next_unknown(c, unknown + 1) != DECISIVE) return false;
  job.recipe.length = SHORTEST;
  job.lengths = NULL;
  plim_err err = plim_estimate_make(&job, &c->request.target, out, NULL);
  if (err == PLIM_ERR_NOMEM) c->has_no_memory = true;
  return !err && out->has_verdict && !out->fits;
}

static void report_hopeless(check *c, const plim_estimate *e) {
  char needs[ESTIMATE_NEEDS_SIZE];
  estimate_needs(e, needs, sizeof needs);
  check_finding *f =
      check_add(c, "fit", CHECK_FAILS,
                "does not fit at any sequence length: with %d tokens, it needs %s, %s available",
                SHORTEST, needs, units_bytes(e->budget_bytes).text);
  snprintf(c->fit, sizeof c->fit, "does not fit at any sequence length: needs %s, %s available",
           units_bytes(estimate_needed_bytes(e)).text, units_bytes(e->budget_bytes).text);
  explain_failure(e, f);
  fix_plan(c, f, "");
}

static void report_too_large(check *c) {
  plim_estimate least_of_all;
  const plim_estimate *e = &c->estimate;
  char needs[ESTIMATE_NEEDS_SIZE];
  size_t unknown = first_unknown(c);
  uint64_t least = estimate_needed_bytes(e);
  estimate_needs(e, needs, sizeof needs);
  if (fails_while_loading(c) && !check_number(c, PLIM_KNOB_SEQUENCE)) { // no step can be told
    least = e->p.loading_bytes + e->context_bytes;
    snprintf(needs, sizeof needs, "at least %s while loading the model", units_bytes(least).text);
  }
  if (fits_at_no_length(c, &least_of_all)) {
    report_hopeless(c, &least_of_all);
    return;
  }
  if (unknown != DECISIVE) {
    report_would_not_fit(c, unknown, needs);
    return;
  }
  bool may_fit = may_fit_so(c);
  char less[80] = "";
  if (may_fit)
    snprintf(less, sizeof less, ", but the run may need %s than predicted (see the notes)",
             estimate_other(errs_low(c)));
  check_finding *f = check_add(
      c, "fit", may_fit ? CHECK_WARNING : CHECK_FAILS, "does not fit%s: needs %s, %s available%s",
      may_fit ? " as predicted" : "", needs, units_bytes(e->budget_bytes).text, less);
  snprintf(c->fit, sizeof c->fit, "%s %s, %s available%s",
           may_fit ? "predicted" : "does not fit: needs", units_bytes(least).text,
           units_bytes(e->budget_bytes).text, less);
  if (!strstr(needs, "while loading")) explain_failure(&c->estimate, f);
  fix_plan(c, f, "");
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
  uint64_t need = c->estimate.device_bytes;
  check_finding *f =
      check_add(c, "fit", is_sure(c) && !may_fit_so(c) ? CHECK_FAILS : CHECK_WARNING,
                "not enough free memory now: needs %s, %s of %s free", units_bytes(need).text,
                units_bytes(free_now(c)).text, units_bytes(c->cards[0].total_bytes).text);
  snprintf(c->fit, sizeof c->fit, "needs %s, only %s free now", units_bytes(need).text,
           units_bytes(free_now(c)).text);
  check_fix(f, "free the rest of the GPU's memory (nvidia-smi lists the processes that use it)");
}

// As in the planner: if the upper end of the interval exceeds the budget, the run may fail.
static bool is_tight(const plim_estimate *e) { return e->interval_bytes[1] > e->budget_bytes; }

static void report_tight(check *c) {
  const plim_estimate *e = &c->estimate;
  check_finding *f =
      check_add(c, "fit", CHECK_WARNING, "may not fit: needs %s to %s, %s available",
                units_bytes(e->interval_bytes[0]).text, units_bytes(e->interval_bytes[1]).text,
                units_bytes(e->budget_bytes).text);
  snprintf(c->fit, sizeof c->fit, "%s of %s is within the error margin",
           units_bytes(e->device_bytes).text, units_bytes(e->budget_bytes).text);
  fix_plan(c, f, "");
}

static void report_fits(check *c) {
  const plim_estimate *e = &c->estimate;
  char card[136], more[96] = "";
  bool may_need_more = errs_low(c);
  print_card(c, card, sizeof card);
  if (may_need_more)
    snprintf(more, sizeof more, " if what is not modelled (see the notes) needs at most %s",
             units_bytes(estimate_spare_bytes(e)).text);
  check_add(c, "fit", *c->unread || may_need_more ? CHECK_NOTE : CHECK_OK, "%s%s: %s of %s%s",
            *c->unread ? "would fit with the values assumed below" : "fits", more,
            units_bytes(e->device_bytes).text, units_bytes(e->budget_bytes).text, card);
  snprintf(c->fit, sizeof c->fit, "fits (%s of %s)%s", units_bytes(e->device_bytes).text,
           units_bytes(e->budget_bytes).text, more);
}

static void report_verdict(check *c) {
  const plim_estimate *e = &c->estimate;
  if (!e->has_verdict) {
    check_finding *f = check_add(c, "fit.unknown", CHECK_NOTE, "needs %s of GPU memory",
                                 units_bytes(e->device_bytes).text);
    check_fix(f, "to check whether it fits, name the GPU: --gpu 24GiB");
  } else if (!e->fits) report_too_large(c);
  else if (!fits_now(c)) report_crowded(c);
  else if (is_tight(e)) report_tight(c);
  else report_fits(c);
}

static void report_kernels(check *c) {
  const char *why = job_kernels_stop(&c->job, &c->request.job);
  if (!why) return;
  check_finding *f =
      check_add(c, "conflict.lora_kernels", CHECK_FAILS, "Axolotl's LoRA kernels %s", why);
  check_why(f,
            "the run stops before it trains; Axolotl turns them on by itself unless one of their "
            "keys is set");
  check_fix(f, "lora_qkv_kernel: false, lora_o_kernel: false and lora_mlp_kernel: false");
}

static void report_evaluation(check *c) {
  const plim_estimate *e = &c->estimate;
  job_evaluation v = project_job_evaluation(&c->files, &c->request.job);
  if (!job_evaluation_matters(&v, &c->request.job)) return;
  uint64_t needed = job_evaluation_bytes(&v, e);
  bool is_too_large = v.logits_bytes && e->has_verdict && needed > e->budget_bytes;
  check_finding *f =
      v.logits_bytes
          ? check_add(c, "fit.evaluation", is_too_large ? CHECK_FAILS : CHECK_NOTE,
                      "evaluation %s: a batch of %lld x %lld tokens has %s of logits, with the "
                      "model and the optimizer at least %s",
                      is_too_large ? "does not fit" : "is not modelled", (long long)v.batch,
                      (long long)v.length, units_bytes(v.logits_bytes).text,
                      units_bytes(needed).text)
          : check_add(c, "fit.evaluation", CHECK_NOTE, "evaluation (batch %lld) is not modelled",
                      (long long)v.batch);
  if (v.line) check_at_line(f, v.file, v.line);
  if (v.keeps_logits)
    check_why(f,
              "compute_metrics keeps the logits of all batches on the GPU; eval_accumulation_steps"
              " moves them to the host");
  int64_t most = is_too_large ? job_evaluation_largest(&v, e) : c->request.job.recipe.batch;
  bool is_smaller = most && (v.is_packed ? is_too_large : most < v.batch);
  if (v.logits_bytes && is_smaller)
    check_fix(f, "%s%s: %lld", v.is_packed ? "eval_sample_packing: false and " : "", v.key,
              (long long)most);
}

// Notes that are a check of their own (check_typos.c, check_files.c, check_batch.c), or a finding about the machine.
static bool is_told(const plim_note *note) {
  static const char *const codes[] = {"reads.lora_kernels", "assumed.length", "environment.card",
                                      "unknown.key",        "missing.file",   "unclear.dialect",
                                      "conflict.value",     "conflict.batch"};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (strcmp(note->code, codes[i]) == 0) return true;
  return plim_note_is_assumption(note);
}

// "Axolotl refuses s2_attention, so the run will not start; remove it"
static void report_stop(check *c, const plim_note *note) {
  const char *fix = strstr(note->message, "; ");
  int length = fix ? (int)(fix - note->message) : (int)strlen(note->message);
  check_finding *f = check_add(c, note->code, CHECK_FAILS, "%.*s", length, note->message);
  check_at_note(f, note);
  check_why(f, "the run stops with an error in its first step or before");
  if (fix) check_fix(f, "%s", fix + 2);
}

// A note may end in an option of `plan`, which check does not have: "...: add --loss full", "... (--columns N to
// change)".
static void report_note(check *c, const plim_note *note) {
  if (plim_note_stops(note)) {
    report_stop(c, note);
    return;
  }
  const char *add = strstr(note->message, ": add --"), *change = strstr(note->message, " (--");
  const char *end = change ? strstr(change, " to change)") : NULL;
  bool is_change = !add && end && has_foreign_option(change);
  const char *option = add ? add + strlen(": add ") : is_change ? change + strlen(" (") : NULL;
  int length = (int)((add ? add : is_change ? change : strchr(note->message, 0)) - note->message);
  const char *id = strcmp(note->code, "no_effect") == 0 ? "fit.no_effect" : "fit.assumed";
  check_finding *f = check_add(c, id, CHECK_NOTE, "%.*s", length, note->message);
  check_at_note(f, note);
  if (!option) return;
  int size = (int)(is_change ? (size_t)(end - option) : strlen(option));
  check_fix(f, "to %s: %s %.*s", is_change ? "change it" : "predict that", check_plan_command(c),
            size, option);
}

static void report_notes(check *c, const plim_notes *notes) {
  for (size_t i = 0; i < notes->list.len; i++)
    if (!is_told(&notes->list.at[i])) report_note(c, &notes->list.at[i]);
}

static void report_unverified(check *c) {
  for (size_t i = 0; i < c->estimate.unverified_count; i++)
    check_add(c, "fit.unverified", CHECK_NOTE, "unverified: %s", c->estimate.unverified[i]);
}

static void report_assumed(check *c) {
  char assumed[1024];
  if (!check_number(c, PLIM_KNOB_SEQUENCE))
    check_add(c, "fit.assumed", CHECK_NOTE,
              "no sequence length is set: %lld tokens assumed (--set sequence=FILE:KEY)",
              (long long)c->request.job.recipe.length);
  report_notes(c, &c->request.notes);
  report_notes(c, &c->files.project.notes);
  report_notes(c, &c->files.notes);
  plim_notes_assumptions(&c->request.notes, assumed, sizeof assumed);
  if (*assumed) check_add(c, "fit.assumed", CHECK_NOTE, "assumes: %s", assumed);
}

void check_fit(check *c) {
  if (!c->trains) return;
  c->has_estimate = !estimate(c, c->world, &c->no_estimate);
  if (!c->has_estimate) {
    if (c->no_estimate.code == PLIM_ERR_NOMEM) c->has_no_memory = true;
    else report_not_known(c);
    return;
  }
  report_verdict(c);
  report_kernels(c);
  job_note_loading(&c->request, &c->estimate, &c->files.notes);
  report_evaluation(c);
  report_assumed(c);
  report_unverified(c);
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
  char *list = NULL;
  size_t size;
  if (c->files.project.files.len) return;
  FILE *out = open_memstream(&list, &size);
  if (!out) {
    c->has_no_memory = true;
    return;
  }
  int count = scandir(".", &entries, NULL, alphasort);
  for (int i = 0, looked = 0; i < count; i++) {
    const char *name = entries[i]->d_name;
    if (is_candidate(name) && looked++ < MAX_LOOKED_AT && is_recognised(c, name)) {
      fputc(' ', out);
      plim_shell_quote(out, name);
    }
    free(entries[i]);
  }
  if (count < 0 && errno == ENOMEM) c->has_no_memory = true;
  if (count >= 0) free(entries);
  if (!plim_stream_end(out, &list)) list = NULL;
  const char *names = check_keep(c, list);
  if (!*names) return;
  check_finding *f =
      check_add(c, "files.here", CHECK_NOTE,
                "training configurations in this folder that were not checked:%s", names);
  check_fix(f, "plimsoll check%s", names);
}
