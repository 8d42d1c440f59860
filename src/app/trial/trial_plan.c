// The command that starts the training of a plan's files, and a simulated run of it with the planned settings.
#include "trial_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_edits.h"
#include "plan_launch.h"
#include "quoting.h"
#include "trial_impl.h"
#include "units.h"

// ---- the command ------------------------------------------------------------------------------------

static plim_err keep(char **to, const char *text, plim_error *error) {
  if (text) *to = strdup(text);
  return !text || *to ? PLIM_OK : plim_no_memory(error);
}

static plim_err add_line(char **to, const char *before, const char *file, plim_error *error) {
  size_t size;
  FILE *out = open_memstream(to, &size);
  if (!out) return plim_no_memory(error);
  fputs(before, out);
  plim_shell_quote(out, file);
  return plim_stream_end(out, to) ? PLIM_OK : plim_no_memory(error);
}

// The first shell script of the project; NULL: none.
static const char *script_of(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    bool is_script = f->settings.format == PLIM_FORMAT_SHELL && !f->target;
    if (is_script && !f->is_typed && !f->shipped_by) return f->path;
  }
  return NULL;
}

// How trainers are started with a configuration file. What stands in capitals only the user knows.
static const struct {
  plim_dialect dialect;
  const char *line;
} starts[] = {
    {PLIM_DIALECT_AXOLOTL, "axolotl train "},
    {PLIM_DIALECT_LLAMA_FACTORY, "llamafactory-cli train "},
    {PLIM_DIALECT_LLAMA_FACTORY_V1, "USE_V1=1 llamafactory-cli train "},
    {PLIM_DIALECT_TORCHTUNE, "tune run RECIPE --config "},
    {PLIM_DIALECT_TRL, "python SCRIPT --config "},
};

// The file's comment says which recipe reads it.
static plim_err tune_line(const plim_project *p, char **line, const char *usual, const char *file,
                          plim_error *error) {
  char start[184], own[200];
  bool has_recipe = false;
  for (size_t i = 0; i < p->files.len && !has_recipe; i++)
    has_recipe = p->files.at[i]->is.dialect == PLIM_DIALECT_TORCHTUNE &&
                 plim_project_tune_start(p->files.at[i], start, sizeof start);
  if (has_recipe) snprintf(own, sizeof own, "%s --config ", start);
  return add_line(line, has_recipe ? own : usual, file, error);
}

// A line for the user to complete or to confirm. A trainer may be started in other ways, so it is not simply run.
static plim_err ask_line(const plim_project *p, char **line, plim_error *error) {
  for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
    const char *file = plan_file_of(p, starts[i].dialect);
    bool is_script = file && strstr(file, ".py");
    if (p->dialect == starts[i].dialect && file && !is_script)
      return p->dialect == PLIM_DIALECT_TORCHTUNE ? tune_line(p, line, starts[i].line, file, error)
                                                  : add_line(line, starts[i].line, file, error);
  }
  static const plan_edits none = {0};
  char *script;
  plim_err err = plan_script(p, &none, &script, error);
  if (!err && asprintf(line, "python %s", script) < 0) *line = NULL, err = plim_no_memory(error);
  free(script);
  return err;
}

static bool is_open(const char *line) { return strstr(line, "...") || strstr(line, "SCRIPT"); }

// A script without arguments is started with nothing but its name.
static plim_err find_line(const plim_project *p, const plan_edits *edits, const plan_launch *launch,
                          char **line, plim_error *error) {
  const char *script = script_of(p);
  *line = NULL;
  if (launch->command)
    return is_open(launch->command) ? PLIM_OK : keep(line, launch->command, error);
  plim_err err = plan_command_with(p, edits->writes, edits->write_count, line, error);
  if (err || *line) return err;
  if (script) return add_line(line, "bash ", script, error);
  err = ask_line(p, line, error);
  bool is_run = !err && strncmp(*line, "python ", 7) == 0 && !is_open(*line);
  if (!err && !is_run) free(*line), *line = NULL;
  return err;
}

// ---- why there is no proof --------------------------------------------------------------------------

static plim_err ask_command(const plan_result *r, plan_proof *out, plim_error *error) {
  char *line = NULL;
  plim_err err = ask_line(&r->files->project, &line, error);
  snprintf(out->why, sizeof out->why,
           "the files do not say how the training is started, so there is nothing to run");
  if (!err && asprintf(&out->help, "add the command that starts it: --command \"%s\"", line) < 0)
    out->help = NULL, err = plim_no_memory(error);
  free(line);
  return err;
}

// The manual steps that a run cannot take: all but the allocator's settings, which are set in its environment.
static bool has_manual_steps(const plan_edits *edits, plan_proof *out) {
  size_t used = 0;
  char names[200] = "";
  for (size_t i = 0; i < edits->by_hand_count; i++) {
    plim_knob knob = edits->by_hand[i].knob;
    if (knob == PLIM_KNOB_ALLOC_CONF || used + 32 > sizeof names) continue;
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "",
                             plim_knob_table[knob].name);
  }
  if (used)
    snprintf(out->why, sizeof out->why,
             "the plan has settings that you have to change yourself (%s); plan and prove it again "
             "when you have done that",
             names);
  return used;
}

// ---- the run ----------------------------------------------------------------------------------------

typedef struct {
  const plan_result *r;
  const plan_for_card *c;
  const plan_edits *edits;
  const simulate_request *request;
  simulate_watch *watch;
  void *context;
  plan_proof *out;
} proving;

static const char *conf_of(const plan_edits *edits) {
  for (size_t i = 0; i < edits->by_hand_count; i++)
    if (edits->by_hand[i].knob == PLIM_KNOB_ALLOC_CONF) return edits->by_hand[i].value.text;
  return NULL;
}

static plim_err run_on(const proving *w, const trial_version *v, uint64_t total_bytes,
                       simulate_result *result, plim_error *error) {
  char conf[160];
  const char *variables[] = {conf, NULL}, *by_hand = conf_of(w->edits);
  simulate_request request = *w->request;
  snprintf(conf, sizeof conf, "PYTORCH_CUDA_ALLOC_CONF=%s", by_hand ? by_hand : "");
  request.command = (const char *const *)v->words.at;
  request.replaced = v->replaced.at;
  request.replaced_count = v->replaced.len;
  request.variables = by_hand ? variables : NULL;
  request.gpus = (uint32_t)w->c->asked.world;
  request.total_bytes = total_bytes;
  return simulate_run(&request, w->watch, w->context, result, error);
}

// A smaller batch than the planned one needs less memory: the data has too few or too short samples.
static bool has_small_batch(const proving *w, const simulate_process *p) {
  const plim_choice *x = &w->c->plan.rungs.at[0].choice;
  const uint64_t *seen = p->observed.batch;
  uint64_t planned = (uint64_t)(x->at[PLIM_KNOB_MICRO_BATCH] * x->at[PLIM_KNOB_SEQUENCE]);
  return p->observed.has_tokens && seen[0] && seen[0] * seen[1] < planned;
}

static void take_failed(const simulate_result *result, plan_proof *out) {
  const simulate_process *p = simulate_first_failed(result);
  out->end = PLAN_UNPROVED;
  snprintf(out->why, sizeof out->why, "the program failed, but not because of memory%s%.300s",
           p ? ": " : "", p ? p->failure.text : "");
}

static void take_run(const proving *w, const simulate_result *result) {
  enum { ENOUGH_STEPS = 2 }; // the optimizer's state exists from the second one on
  const simulate_process *p = simulate_fullest(result);
  plan_proof *out = w->out;
  uint64_t steps = simulate_steps(result);
  out->end = PLAN_UNPROVED;
  if (!p) snprintf(out->why, sizeof out->why, "the program did not use the GPU");
  else if (steps < ENOUGH_STEPS)
    snprintf(out->why, sizeof out->why,
             "the program ended after %llu optimizer step%s, which is too early to see its peak",
             (unsigned long long)steps, steps == 1 ? "" : "s");
  else if (has_small_batch(w, p))
    snprintf(
        out->why, sizeof out->why,
        "the simulated run fits with %s, but its largest batch had %llu x %llu tokens, and the "
        "plan is for %lld x %lld",
        units_bytes(result->peak_bytes).text, (unsigned long long)p->observed.batch[0],
        (unsigned long long)p->observed.batch[1],
        (long long)w->c->plan.rungs.at[0].choice.at[PLIM_KNOB_MICRO_BATCH],
        (long long)w->c->plan.rungs.at[0].choice.at[PLIM_KNOB_SEQUENCE]);
  else out->end = PLAN_PROVED;
  if (p && steps >= ENOUGH_STEPS) out->needs_bytes = result->peak_bytes;
}

// What it would need is seen on a card that is large enough.
static plim_err take_too_large(const proving *w, const trial_version *v, plim_error *error) {
  simulate_result large;
  plan_proof *out = w->out;
  plim_err err = run_on(w, v, SIMULATE_LARGE_ENOUGH, &large, error);
  bool is_known = !err && large.end == SIMULATE_RAN;
  out->end = PLAN_DISPROVED;
  out->needs_bytes = is_known ? large.peak_bytes : PLIM_UNKNOWN;
  if (is_known)
    snprintf(out->why, sizeof out->why,
             "the simulated run ran out of memory on this GPU; with enough memory it uses %s "
             "(predicted %s)",
             units_bytes(large.peak_bytes).text,
             units_bytes(w->c->plan.rungs.at[0].e.device_bytes).text);
  else snprintf(out->why, sizeof out->why, "the simulated run ran out of memory on this GPU");
  if (!err)
    err = keep(&out->help, "apply a fallback, or leave more memory free: --margin 10%", error);
  simulate_result_clear(&large);
  return err;
}

static plim_err run(const proving *w, const trial_version *v, plim_error *error) {
  simulate_result result;
  plim_err err = run_on(w, v, w->request->total_bytes, &result, error);
  if (!err) err = keep(&w->out->log, result.log, error);
  if (!err && result.end == SIMULATE_OUT_OF_MEMORY) err = take_too_large(w, v, error);
  else if (!err && result.end == SIMULATE_FAILED) take_failed(&result, w->out);
  else if (!err) take_run(w, &result);
  if (!err && w->out->end == PLAN_UNPROVED &&
      asprintf(&w->out->help, "its whole output is in %s", result.log) < 0)
    w->out->help = NULL, err = plim_no_memory(error);
  simulate_result_clear(&result);
  return err;
}

static plim_err run_line(const proving *w, const plan_launch *launch, plim_error *error) {
  const plim_project *p = &w->r->files->project;
  plim_edit_set edits = {0};
  trial_version version = {0};
  plim_err err = PLIM_OK;
  if (w->edits->write_count)
    err = plim_project_set(p, w->edits->writes, w->edits->write_count, &edits, error);
  if (!err) err = trial_version_of_line(p, w->out->command, &edits, &version, error);
  if (!err && launch->file) err = trial_version_add(&version, launch->file, launch->text, error);
  if (!err) err = trial_version_check(&version, w->request->is_unsandboxed, error);
  if (!err) err = run(w, &version, error);
  trial_version_clear(&version);
  plim_edit_set_clear(&edits);
  return err;
}

plim_err trial_plan_prove(const plan_result *r, const simulate_request *request,
                          simulate_watch *watch, void *context, plan_proof *out,
                          plim_error *error) {
  const plan_for_card *c = &r->cards[0];
  const plim_project *p = &r->files->project;
  plan_edits edits;
  plan_launch launch = {0};
  *out = (plan_proof){.end = PLAN_UNPROVED, .needs_bytes = PLIM_UNKNOWN};
  plim_err err = plan_edits_of(p, c, &c->plan.rungs.at[0], &edits, error);
  if (err || has_manual_steps(&edits, out)) return err;
  err = plan_launch_of(r, c, &edits, &launch, error);
  if (!err && launch.sbatch) {
    snprintf(out->why, sizeof out->why,
             "the plan is for several machines, which are not simulated");
    plan_launch_clear(&launch);
    return PLIM_OK;
  }
  if (!err) err = find_line(p, &edits, &launch, &out->command, error);
  if (!err && !out->command) err = ask_command(r, out, error);
  else if (!err) {
    proving w = {r, c, &edits, request, watch, context, out};
    err = run_line(&w, &launch, error);
  }
  plan_launch_clear(&launch);
  return err;
}
