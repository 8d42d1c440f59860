// Checks of the batch: its total size, and whether all files agree on it.
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "interrupted.h"

// ---- the files --------------------------------------------------------------------------------------

// Half-changed files are a combination that was never intended.
void check_interrupted(check *c) {
  interrupted found;
  if (!interrupted_find(&found)) return;
  check_finding *f = check_add(c, "files.interrupted", found.is_mixed ? CHECK_FAILS : CHECK_WARNING,
                               "%s", found.what);
  check_why(
      f, found.is_mixed
             ? "some files have the new settings and some the old ones, which were not meant to be "
               "combined"
             : "not all changes were written");
  check_fix(f, "%s", found.fix);
}

// A file that was recognised, although nothing is trained by it alone: accelerate's or DeepSpeed's.
static const plim_project_file *launcher_file(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++) {
    plim_dialect d = p->files.at[i]->is.dialect;
    if (d == PLIM_DIALECT_ACCELERATE || d == PLIM_DIALECT_DEEPSPEED) return p->files.at[i];
  }
  return NULL;
}

void check_recognised(check *c) {
  const plim_project *p = &c->files.project;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    if (f->is.rival == PLIM_DIALECTS || f->is.dialect != PLIM_DIALECTS) continue;
    check_finding *found =
        check_add(c, "files.unclear", CHECK_NOTE, "%.80s: %s", f->path, f->is.reason);
    check_fix(found, "name the ecosystem in plimsoll.yaml, under files:");
  }
  if (c->trains || !p->files.len) return;
  const plim_project_file *launcher = launcher_file(p);
  check_finding *f =
      launcher ? check_add(c, "files.no_training", CHECK_NOTE,
                           "%.80s only configures %s: add the training script or configuration to "
                           "check batch, options and memory",
                           launcher->path, plim_dialect_table[launcher->is.dialect].name)
               : check_add(c, "files.no_training", CHECK_NOTE,
                           "these files contain no training configuration, so batch, options and "
                           "memory were not checked");
  if (!launcher)
    check_fix(f, "add the training script or configuration, or use --set KNOB=FILE:KEY");
}

// ---- the effective batch ----------------------------------------------------------------------------

// Whether the dialect computes accumulation from the global batch, even if the files do not set one.
static bool divides_batch(const check *c) {
  plim_dialect d = c->files.project.dialect;
  return d != PLIM_DIALECTS && plim_dialect_table[d].divides_batch;
}

static void report_unknown(check *c) {
  const plim_project_knob *micro = &c->files.project.knobs[PLIM_KNOB_MICRO_BATCH],
                          *accumulate = &c->files.project.knobs[PLIM_KNOB_ACCUMULATE];
  const plim_project_knob *k = c->micro_batch ? accumulate : micro;
  const char *name = k == micro ? "the micro batch" : "gradient accumulation";
  bool divides = divides_batch(c);
  if (k->is_no_count) return; // reported as invalid
  check_finding *f =
      *k->why   ? check_add(c, "batch.unknown", CHECK_NOTE, "%s is unknown: %s", name, k->why)
      : divides ? check_add(c, "batch.unknown", CHECK_NOTE, "the files do not set the global batch")
                : check_add(c, "batch.unknown", CHECK_NOTE, "%s is not set in the files", name);
  if (!divides) check_fix(f, "--set %s=FILE:KEY", k == micro ? "micro_batch" : "accumulate");
}

static void report_batch(check *c) {
  const char *ranks = check_world(c) == c->ranks ? "GPUs" : "groups of GPUs";
  long long micro = c->micro_batch, accumulate = c->accumulate;
  if (!c->ranks) {
    check_finding *f = check_add(c, "batch", CHECK_OK,
                                 "batch: micro batch %lld x accumulation %lld = %lld sequences per "
                                 "GPU and optimizer step",
                                 micro, accumulate, (long long)check_product(micro, accumulate, 1));
    check_fix(f, "the number of GPUs is unknown; set it with --world N");
    return;
  }
  check_add(c, "batch", CHECK_OK,
            "batch: micro batch %lld x accumulation %lld x %lld %s = %lld sequences per optimizer "
            "step",
            micro, accumulate, (long long)c->ranks, c->ranks == 1 ? "GPU" : ranks,
            (long long)c->effective_batch);
}

// ---- the global batch -------------------------------------------------------------------------------

static void place_global(check *c, check_finding *f) {
  const plim_project_knob *k = &c->files.project.knobs[PLIM_KNOB_GLOBAL_BATCH];
  if (!k->place_count) return;
  check_at(f, &(check_place){c->files.project.files.at[k->places[0].file], k->places[0].setting,
                             k->value});
}

// DeepSpeed computes the batch itself where its file says "auto".
static bool is_deepspeeds_batch(const check *c) {
  const plim_project_knob *k = &c->files.project.knobs[PLIM_KNOB_GLOBAL_BATCH];
  if (!k->place_count) return false;
  return c->files.project.files.at[k->places[0].file]->is.dialect == PLIM_DIALECT_DEEPSPEED;
}

static const char *global_key(const check *c) {
  const plim_project_knob *k = &c->files.project.knobs[PLIM_KNOB_GLOBAL_BATCH];
  return k->place_count ? k->places[0].setting->key : "the global batch";
}

// A custom key may be informational only; an ecosystem enforces its own key.
static check_severity severity_of_global(const check *c) {
  return c->files.project.dialect == PLIM_DIALECT_HOME ? CHECK_WARNING : CHECK_FAILS;
}

static void check_division(check *c, int64_t global) {
  int64_t ranks = c->ranks ? c->ranks : 1, each = check_product(c->micro_batch, ranks, 1);
  if (!c->micro_batch || !each || global % each == 0) return;
  check_finding *f =
      check_add(c, "batch.indivisible", severity_of_global(c),
                "%.60s is %lld, which is not a multiple of micro batch %lld x %lld GPUs",
                global_key(c), (long long)global, (long long)c->micro_batch, (long long)ranks);
  place_global(c, f);
  check_why(f,
            "gradient accumulation is the global batch divided by the micro batches of all GPUs, "
            "and must be a whole number");
  check_fix(f, "%.60s %lld", global_key(c), (long long)((global / each + 1) * each));
}

static void check_global(check *c, int64_t global) {
  if (!c->effective_batch || c->effective_batch == global) return;
  check_finding *f = check_add(c, "batch.mismatch", severity_of_global(c),
                               "%.60s is %lld, but micro batch x accumulation x GPUs is %lld",
                               global_key(c), (long long)global, (long long)c->effective_batch);
  place_global(c, f);
  check_why(f,
            "the run does not start, or trains with another batch size than intended: %lld x %lld "
            "x %lld is not %lld",
            (long long)c->micro_batch, (long long)c->accumulate, (long long)c->ranks,
            (long long)global);
  if (is_deepspeeds_batch(c))
    check_fix(f, "\"%.60s\": %lld, or \"auto\"", global_key(c), (long long)c->effective_batch);
  else
    check_fix(f, "%.60s: %lld, or change micro batch or accumulation so that the product is %lld",
              global_key(c), (long long)c->effective_batch, (long long)global);
}

// A batch of 0, -2, 2.5 or .nan: the data loader refuses it.
static void check_counts(check *c) {
  static const plim_knob knobs[] = {PLIM_KNOB_MICRO_BATCH, PLIM_KNOB_ACCUMULATE,
                                    PLIM_KNOB_GLOBAL_BATCH};
  for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++) {
    const plim_project_knob *k = &c->files.project.knobs[knobs[i]];
    if (!k->is_no_count) continue;
    check_finding *f = check_add(c, "batch.invalid", CHECK_FAILS, "%s", k->why);
    check_why(f, "the run fails before its first step");
    check_fix(f, "set it to a whole number of at least 1");
    if (k->place_count)
      check_at(f, &(check_place){c->files.project.files.at[k->places[0].file], k->places[0].setting,
                                 k->value});
  }
}

void check_batch(check *c) {
  if (!c->trains) return;
  check_counts(c);
  int64_t global = check_number(c, PLIM_KNOB_GLOBAL_BATCH);
  c->micro_batch = check_number(c, PLIM_KNOB_MICRO_BATCH);
  c->accumulate = check_number(c, PLIM_KNOB_ACCUMULATE);
  c->ranks = plim_project_ranks(&c->files.project, check_world(c));
  bool is_divided = global && !c->accumulate;
  if (is_divided) check_division(c, global);
  if (is_divided) c->accumulate = plim_project_quotient(&c->files.project, c->ranks);
  c->effective_batch = check_product(c->micro_batch, c->accumulate, c->ranks);
  if (c->micro_batch && c->accumulate) report_batch(c);
  else if (!is_divided) report_unknown(c);
  else
    check_add(c, "batch", CHECK_OK, "batch: %lld sequences per optimizer step", (long long)global);
  if (global && !is_divided) check_global(c, global);
}

// ---- files that must agree --------------------------------------------------------------------------

// "the batch would be 128 instead of 64", for the knobs that make it.
static void report_other_batch(const check *c, plim_knob knob, int64_t theirs, char *text,
                               size_t size) {
  int64_t micro = knob == PLIM_KNOB_MICRO_BATCH ? theirs : c->micro_batch;
  int64_t accumulate = knob == PLIM_KNOB_ACCUMULATE ? theirs : c->accumulate;
  int64_t ranks = c->ranks ? c->ranks : 1;
  bool is_batch = knob == PLIM_KNOB_MICRO_BATCH || knob == PLIM_KNOB_ACCUMULATE;
  int64_t ours = check_product(c->micro_batch, c->accumulate, ranks);
  *text = 0;
  if (is_batch && ours && theirs)
    snprintf(text, size, "; the effective batch would be %lld with one and %lld with the other",
             (long long)ours, (long long)check_product(micro, accumulate, ranks));
}

static void report_disagreement(check *c, plim_knob knob, const plim_knob_place *place) {
  const plim_project *p = &c->files.project;
  const plim_project_knob *k = &p->knobs[knob];
  const plim_project_file *theirs = p->files.at[place->file],
                          *ours = p->files.at[k->places[0].file];
  const plim_value *value = &theirs->recipe.knobs[knob].value;
  char here[48], there[48], batch[128];
  bool is_refused = p->dialect != PLIM_DIALECTS && plim_dialect_table[p->dialect].has_trainer;
  plim_value_print(value, there, sizeof there);
  plim_value_print(&k->value, here, sizeof here);
  check_finding *f =
      check_add(c, "deepspeed.mismatch", is_refused ? CHECK_FAILS : CHECK_WARNING,
                "%.60s is %s, but %.60s is %s (%.80s:%d)", place->setting->key, there,
                k->places[0].setting->key, here, ours->path, k->places[0].setting->line);
  check_at(f, &(check_place){theirs, place->setting, place->setting->value});
  report_other_batch(c, knob, value->kind == PLIM_VALUE_INTEGER ? value->integer : 0, batch,
                     sizeof batch);
  check_why(f, "%s%s",
            is_refused ? "transformers refuses a DeepSpeed configuration that differs from "
                         "TrainingArguments (ValueError)"
                       : "the run uses only one of them",
            batch);
  check_fix(f, "\"%.60s\": \"auto\"", place->setting->key);
}

void check_agreement(check *c) {
  if (!c->trains) return;
  for (int knob = 0; knob < PLIM_KNOBS; knob++) {
    const plim_project_knob *k = &c->files.project.knobs[knob];
    for (size_t i = 1; k->origin == PLIM_EXPLICIT && i < k->place_count; i++) {
      const plim_project_file *f = c->files.project.files.at[k->places[i].file];
      bool must_agree = k->places[i].key && k->places[i].key->flags & PLIM_KEY_AGREES;
      if (must_agree && !plim_value_same(&f->recipe.knobs[knob].value, &k->value))
        report_disagreement(c, (plim_knob)knob, &k->places[i]);
    }
  }
}

// ---- batches that change by themselves --------------------------------------------------------------

void check_auto_batch(check *c) {
  check_place at;
  if (!c->trains || !check_find_on(c, "auto_find_batch_size", &at)) return;
  bool is_zero3 = check_says(c, PLIM_KNOB_STRATEGY, "zero3");
  check_finding *f = check_add(c, "batch.auto", is_zero3 ? CHECK_FAILS : CHECK_WARNING,
                               is_zero3 ? "auto_find_batch_size does not work with ZeRO-3"
                                        : "auto_find_batch_size changes the effective batch");
  check_at(f, &at);
  check_fix(f, "auto_find_batch_size: false; plimsoll plan finds the batch that fits");
  long long after = c->micro_batch * 9 / 10; // accelerate takes nine tenths each time
  if (is_zero3) check_why(f, "Trainer refuses this combination");
  else if (c->effective_batch)
    check_why(
        f,
        "each out-of-memory error multiplies the micro batch by 0.9 and rounds down (here %lld "
        "-> %lld), but accumulation stays: %lld sequences per step instead of %lld",
        (long long)c->micro_batch, after, (long long)check_product(after, c->accumulate, c->ranks),
        (long long)c->effective_batch);
  else
    check_why(f, "each out-of-memory error multiplies the micro batch by 0.9 and rounds down, but "
                 "accumulation stays: the effective batch shrinks, which changes what the model "
                 "learns");
}
