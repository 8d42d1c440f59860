// Where a program's micro batch and accumulation are set, and which values they may have.
#include <stdio.h>
#include <string.h>

#include "plan.h"
#include "plan_edits.h"
#include "quoting.h"
#include "trial_impl.h"

// ---- the command as a script ------------------------------------------------------------------------

plim_err trial_read_command(project_job *files, const char *const *words, const cli_strings *sets,
                            plim_error *error) {
  char *script = plim_script_of_words(words);
  if (!script) return plim_no_memory(error);
  plim_err err = project_job_open_command(files, script, sets, error);
  free(script);
  return err;
}

// ---- the micro batch --------------------------------------------------------------------------------

static void advise_place(plim_error *error) {
  plim_error_hint(error,
                  "say where it is set: --set micro_batch=FILE:KEY, for example train.py:BATCH; or "
                  "add the program's own flag for it to the command, for example --batch-size 8");
}

static plim_err refuse_micro(const trial_program *p, plim_error *error) {
  const plim_project_knob *k = &p->files.project.knobs[PLIM_KNOB_MICRO_BATCH];
  bool has_files = p->files.project.files.len > 1;
  plim_err err = *k->why
                     ? plim_fail(error, PLIM_ERR_ARGUMENT,
                                 "the program's micro batch is not clear: %s", k->why)
                     : plim_fail(error, PLIM_ERR_ARGUMENT,
                                 "plimsoll did not find where the program sets its micro batch%s",
                                 has_files ? "" : ": the command names no script that exists here");
  advise_place(error);
  if (!k->place_count) return err;
  if (k->places[0].setting) plim_error_at(error, k->places[0].setting->span.begin);
  return plim_error_file(error, err, p->files.project.files.at[k->places[0].file]->path);
}

// Checks that another value can be written. If not, the editor's reason says why.
static plim_err check_change(const trial_program *p, plim_error *error) {
  plim_knob_change changes[2];
  plim_edit_set edits;
  int64_t other = trial_next_micro(p, 0);
  if (other == p->micro) other = trial_next_micro(p, other);
  if (!other) return PLIM_OK; // there is nothing to change
  size_t count = trial_changes(p, other, changes);
  plim_err err = plim_project_set(&p->files.project, changes, count, &edits, error);
  if (!err) plim_edit_set_clear(&edits);
  if (err && err != PLIM_ERR_NOMEM && error && !*error->hint) advise_place(error);
  return err;
}

static plim_err find_micro(trial_program *p, plim_error *error) {
  const plim_project_knob *k = &p->files.project.knobs[PLIM_KNOB_MICRO_BATCH];
  p->micro = project_job_count(&p->files, PLIM_KNOB_MICRO_BATCH);
  return !p->micro || k->is_fixed ? refuse_micro(p, error) : PLIM_OK;
}

// ---- the accumulation -------------------------------------------------------------------------------

static plim_knob_change set_count(plim_knob knob, int64_t count) {
  return (plim_knob_change){knob, {.kind = PLIM_VALUE_INTEGER, .integer = count}};
}

// Tries another split of the same effective batch or, if there is none, an effective batch that is twice as large.
static plim_err find_how(trial_program *p, plim_error *error) {
  const plim_project *project = &p->files.project;
  int64_t all = p->micro * p->accumulation, micro = p->micro > 1 ? 1 : 2;
  bool can = false, is_split = p->accumulation && all % micro == 0 && all > 1;
  plim_knob_change both[] = {
      set_count(PLIM_KNOB_MICRO_BATCH, is_split ? micro : p->micro),
      set_count(PLIM_KNOB_ACCUMULATE, is_split ? all / micro : 2 * p->accumulation)};
  bool is_same = both[0].value.integer == p->micro;
  if (!p->accumulation || project->knobs[PLIM_KNOB_ACCUMULATE].is_fixed) return PLIM_OK;
  plim_err err = plan_can_write(project, both + is_same, 2 - (size_t)is_same, &can, error);
  if (!err && can) p->how = TRIAL_ACCUMULATION_WRITTEN;
  return err;
}

static plim_err find_accumulation(trial_program *p, plim_error *error) {
  const plim_project *project = &p->files.project;
  const plim_project_knob *k = &project->knobs[PLIM_KNOB_ACCUMULATE];
  if (plim_project_accumulation(project, p->micro, p->gpus, &p->accumulation)) {
    p->how = TRIAL_ACCUMULATION_DIVIDED;
    return PLIM_OK;
  }
  p->accumulation =
      k->origin == PLIM_ABSENT ? 1 : project_job_count(&p->files, PLIM_KNOB_ACCUMULATE);
  return find_how(p, error);
}

// ---- GPUs and the effective batch -------------------------------------------------------------------

static plim_err find_ranks(trial_program *p, int64_t world, plim_error *error) {
  const plim_project *project = &p->files.project;
  int64_t in_files = project_job_count(&p->files, PLIM_KNOB_WORLD);
  if (!world && project->knobs[PLIM_KNOB_WORLD].origin != PLIM_UNCLEAR && !in_files) world = 1;
  p->gpus = (uint32_t)(world ? world : in_files);
  p->ranks = plim_project_ranks(project, world);
  if (p->ranks && p->gpus) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           "the command does not say how many GPUs the program uses");
  plim_error_hint(error, "--world 2");
  return err;
}

static plim_err refuse_effective(const trial_options *options, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           "--effective-batch %llu: plimsoll cannot change the program's "
                           "accumulation, so it cannot reach another effective batch",
                           (unsigned long long)options->effective);
  plim_error_hint(error, "say where it is set: --set accumulate=FILE:KEY, for example "
                         "train.py:ACCUMULATE");
  return err;
}

static plim_err find_effective(trial_program *p, const trial_options *options, plim_error *error) {
  bool is_written = p->how == TRIAL_ACCUMULATION_WRITTEN;
  if (options->effective && !is_written) return refuse_effective(options, error);
  if (p->how == TRIAL_ACCUMULATION_KEPT || (options->is_any_batch && is_written)) return PLIM_OK;
  p->effective =
      options->effective ? (int64_t)options->effective : p->micro * p->accumulation * p->ranks;
  if (p->effective && trial_next_micro(p, 0)) return PLIM_OK;
  return plim_fail(error, PLIM_ERR_ARGUMENT,
                   "the effective batch cannot be divided into micro batches of %lld on %lld GPUs",
                   (long long)p->micro, (long long)p->ranks);
}

// ---- what may be tried ------------------------------------------------------------------------------

int64_t trial_accumulation_of(const trial_program *p, int64_t micro) {
  int64_t found = 0, part = micro * p->ranks;
  if (p->how == TRIAL_ACCUMULATION_DIVIDED) {
    plim_project_accumulation(&p->files.project, micro, p->gpus, &found);
    return found;
  }
  if (!p->effective) return p->accumulation;
  return p->effective % part == 0 ? p->effective / part : 0;
}

static bool may_try(const trial_program *p, int64_t micro) {
  return !p->effective || trial_accumulation_of(p, micro) > 0;
}

static int64_t largest(const trial_program *p) {
  int64_t whole = p->effective ? p->effective / p->ranks : TRIAL_MAX_MICRO;
  return whole < TRIAL_MAX_MICRO ? whole : TRIAL_MAX_MICRO;
}

int64_t trial_next_micro(const trial_program *p, int64_t micro) {
  for (int64_t i = micro + 1; i <= largest(p); i++)
    if (may_try(p, i)) return i;
  return 0;
}

int64_t trial_micro_at_most(const trial_program *p, int64_t bound) {
  for (int64_t i = bound < largest(p) ? bound : largest(p); i > 0; i--)
    if (may_try(p, i)) return i;
  return 0;
}

size_t trial_changes(const trial_program *p, int64_t micro, plim_knob_change out[2]) {
  size_t count = 0;
  int64_t accumulation = trial_accumulation_of(p, micro);
  if (micro != p->micro) out[count++] = set_count(PLIM_KNOB_MICRO_BATCH, micro);
  if (p->how == TRIAL_ACCUMULATION_WRITTEN && accumulation && accumulation != p->accumulation)
    out[count++] = set_count(PLIM_KNOB_ACCUMULATE, accumulation);
  return count;
}

// ---- all of it --------------------------------------------------------------------------------------

plim_err trial_program_open(trial_program *p, const trial_options *options, plim_error *error) {
  *p = (trial_program){.words = options->words};
  int64_t world = (int64_t)options->world;
  plim_err err = trial_read_command(&p->files, options->words, options->sets, error);
  if (err) return err;
  err = find_micro(p, error);
  if (!err) err = find_ranks(p, world, error);
  if (!err) err = find_accumulation(p, error);
  if (!err) err = find_effective(p, options, error);
  if (!err) err = check_change(p, error);
  if (err) trial_program_clear(p);
  return err;
}

void trial_program_clear(trial_program *p) {
  project_job_clear(&p->files);
  *p = (trial_program){0};
}
