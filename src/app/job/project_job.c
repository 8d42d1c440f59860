#include "project_job.h"

#include <fnmatch.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "job_contrast.h"
#include "job_method.h"
#include "plan.h"
#include "quoting.h"

#define note(p, ...) plim_note_add(&(p)->notes, __VA_ARGS__)

// The loop and the mask come from plimsoll's tables and are not knobs.
static const char *name_of(plim_knob knob) {
  return knob < PLIM_KNOBS ? plim_knob_table[knob].name : "a setting";
}

// ---- reading ----------------------------------------------------------------------------------------

// `copy` is a copy of the text that is split into its parts.
static plim_err bind_parts(project_job *p, const char *text, char *copy, plim_error *error) {
  char *file = strchr(copy, '='), *key = file ? strchr(file + 1, ':') : NULL;
  if (!key || !key[1]) {
    plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "--set %.96s is not KNOB=FILE:KEY", text);
    plim_error_hint(error, "--set micro_batch=config.py:TRAINING.batch");
    return err;
  }
  *file++ = *key++ = 0;
  plim_knob knob = plim_knob_named(copy);
  if (knob == PLIM_KNOBS)
    return plim_fail(error, PLIM_ERR_ARGUMENT, "there is no knob \"%.48s\"", copy);
  size_t at;
  plim_err err = PLIM_OK;
  if (plim_project_find(&p->project, file, &at, NULL) && plim_is_file(file))
    err = plim_project_read(&p->project, file, error);
  return err ? err : plim_project_bind(&p->project, knob, file, key, error);
}

static plim_err bind(project_job *p, const char *text, plim_error *error) {
  char *copy = strdup(text);
  plim_err err =
      copy ? bind_parts(p, text, copy, error) : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  free(copy);
  return err;
}

static plim_err open_rest(project_job *p, const cli_strings *sets, plim_error *error) {
  plim_err err = plim_project_follow(&p->project, error);
  for (size_t i = 0; !err && sets && i < sets->len; i++) err = bind(p, sets->at[i], error);
  return err ? err : plim_project_finish(&p->project, error);
}

// The command as the text of a script, which is how plan -- COMMAND has it.
static plim_err add_command(project_job *p, const char *command, plim_error *error) {
  char *script = NULL;
  if (!command) return PLIM_OK;
  if (!command[strspn(command, " \t\r\n")]) {
    plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "--command is empty");
    plim_error_hint(error, "--command \"python train.py --batch_size 8\"");
    return err;
  }
  if (asprintf(&script, "%s%s\n", PLIM_SCRIPT_START, command) < 0) return plim_no_memory(error);
  plim_err err = plim_project_add_typed(&p->project, script, error);
  if (err == PLIM_ERR_PARSE)
    plim_error_hint(error, "put the whole command in quotes, and close every quote inside it: "
                           "--command \"python train.py --batch_size 8\"");
  if (err) plim_error_at(error, PLIM_UNKNOWN); // it is in no file, so no line is shown
  free(script);
  return err;
}

plim_err project_job_open(project_job *p, const project_input *in, plim_error *error) {
  *p = (project_job){0};
  plim_err err = add_command(p, in->command, error);
  for (size_t i = 0; !err && i < in->count; i++)
    err = plim_is_folder(in->files[i]) ? project_job_add_folder(p, in->files[i], in, error)
                                       : plim_project_read_named(&p->project, in->files[i], error);
  p->named_count = p->project.files.len;
  if (!err) err = open_rest(p, in->sets, error);
  if (err) project_job_clear(p);
  return err;
}

plim_err project_job_open_command(project_job *p, const char *script, const cli_strings *sets,
                                  plim_error *error) {
  *p = (project_job){0};
  plim_err err = plim_project_add_typed(&p->project, script, error);
  if (!err) err = open_rest(p, sets, error);
  if (err) project_job_clear(p);
  return err;
}

static void note_unread(project_job *p) {
  for (size_t i = 0; i < p->project.unread.len; i++) {
    const plim_unread *u = p->project.unread.at[i];
    if (u->is_missing) continue;
    note(p, "unread.file", NULL, "%s cannot be read: %s", u->name, u->why.message);
    plim_note_at(&p->notes, u->from, u->line);
  }
}

// The rest of reading, after the files; `err` is the result so far.
static plim_err read_run(project_job *p, plim_err err, plim_error *error) {
  if (!err) err = plim_run_settings_of(&p->project, &p->run, error);
  if (!err) plim_project_note_typos(&p->project);
  if (!err) note_unread(p);
  if (!err) plim_notes_append(&p->notes, &p->project.notes);
  if (!err && p->notes.has_no_memory) err = plim_no_memory(error);
  if (err) project_job_clear(p);
  return err;
}

plim_err project_job_read(project_job *p, const project_input *in, plim_error *error) {
  return read_run(p, project_job_open(p, in, error), error);
}

plim_err project_job_read_texts(project_job *p, const project_text *files, size_t count,
                                const char *command, plim_error *error) {
  *p = (project_job){.is_of_texts = true};
  plim_err err = add_command(p, command, error);
  for (size_t i = 0; !err && i < count; i++)
    err = plim_project_add(&p->project, files[i].path, files[i].text, strlen(files[i].text), error);
  p->named_count = p->project.files.len;
  if (!err) err = plim_project_finish(&p->project, error);
  return read_run(p, err, error);
}

void project_job_clear(project_job *p) {
  plim_project_clear(&p->project);
  plim_notes_clear(&p->notes);
  free(p->targets);
  free(p->trained);
  free(p->projected);
  p->targets = NULL;
}

static void note_copies(project_job *p) {
  for (size_t i = 0; i < p->project.files.len; i++) {
    const plim_project_file *f = p->project.files.at[i];
    const char *name = f->elsewhere ? strrchr(f->elsewhere, '/') : NULL;
    if (!f->elsewhere) continue;
    note(p, "copies.shared_file", NULL,
         "%.160s is used by %.80s too: changes are written to a copy", f->path,
         name ? name + 1 : f->elsewhere);
  }
}

void project_job_note_fixed(project_job *p) {
  note_copies(p);
  for (size_t i = 0; i < plim_plan_knob_count; i++) {
    plim_knob knob = plim_plan_knobs[i];
    const plim_project_knob *k = &p->project.knobs[knob];
    if (!k->is_fixed) continue;
    note(p, "fixed.value", name_of(knob), "%s will not be changed: %s", name_of(knob), k->why);
    if (k->place_count)
      plim_note_at(&p->notes, p->project.files.at[k->places[0].file]->path,
                   k->places[0].setting->line);
  }
}

uint64_t project_job_batch(const project_job *p) {
  return p->run.global_batch.origin >= PLIM_EXPLICIT ? (uint64_t)p->run.global_batch.count : 0;
}

// ---- into arguments ---------------------------------------------------------------------------------

// Adds the place of the knob to the last note.
static void note_place(project_job *p, plim_knob knob) {
  if (knob == PLIM_KNOBS) return;
  const plim_project_knob *k = &p->project.knobs[knob];
  if (!k->place_count) return;
  plim_note_at(&p->notes, p->project.files.at[k->places[0].file]->path, k->places[0].setting->line);
}

static bool is_known(plim_origin origin) {
  return origin == PLIM_EXPLICIT || origin == PLIM_DEFAULTED;
}

static void fill_count(project_job *p, const job_args *a, plim_knob knob, plim_known_count value,
                       uint64_t unless, uint64_t *out) {
  if (*out != unless || job_is_typed(a, out)) return;
  if (is_known(value.origin) && value.count > 0) *out = (uint64_t)value.count;
  else if (value.origin == PLIM_UNCLEAR)
    note(p, "unclear.value", name_of(knob), "%s (%s) is not clear from the files: %s",
         name_of(knob), plim_knob_table[knob].what, p->project.knobs[knob].why);
}

// ---- counts -------------------------------------------------------------------------------------------

typedef struct {
  plim_knob knob;
  const char *option, *example;
  size_t at;             // of job_args
  bool is_one_if_absent; // the default of accumulation and GPUs is 1
} asked_count;

static const asked_count counts[] = {
    {PLIM_KNOB_MICRO_BATCH, "--batch", "8", offsetof(job_args, batch), false},
    {PLIM_KNOB_ACCUMULATE, "--accumulate", "8", offsetof(job_args, accumulate), true},
    {PLIM_KNOB_WORLD, "--world", "8", offsetof(job_args, world), true},
};

// Counts that have a default if they are absent, but not if they are unclear.
static const asked_count open_counts[] = {
    {PLIM_KNOB_SEQUENCE, "--seq", "2048", offsetof(job_args, seq), false},
    {PLIM_KNOB_LORA_RANK, "--lora-rank", "16, or 0 for no adapters", offsetof(job_args, lora_rank),
     false},
    {PLIM_KNOB_POSITIVES, "--contrastive --columns", "3", offsetof(job_args, columns), false},
    {PLIM_KNOB_NEGATIVES, "--contrastive --columns", "3", offsetof(job_args, columns), false},
};

// The hint what to type if the files leave a count open.
static void hint_count(const project_job *p, const asked_count *c, plim_error *error) {
  const plim_project_knob *k = &p->project.knobs[c->knob];
  const plim_setting *first = k->place_count ? k->places[0].setting : NULL;
  const char *knob = plim_knob_table[c->knob].name;
  char command[200];
  bool is_batch = c->knob == PLIM_KNOB_MICRO_BATCH;
  plim_value origin = !first                                    ? (plim_value){0}
                      : first->value.kind == PLIM_VALUE_DERIVED ? first->computed
                                                                : first->value;
  bool is_count = origin.kind == PLIM_VALUE_INTEGER && origin.integer > 0;
  int64_t each =
      project_job_count(p, PLIM_KNOB_MICRO_BATCH) * project_job_count(p, PLIM_KNOB_ACCUMULATE);
  if (c->knob == PLIM_KNOB_WORLD && !first && each && project_job_batch(p))
    plim_error_hint(error, "fix it in the files, or give both: --world 8 --effective-batch %lld",
                    (long long)(8 * each));
  else if (is_count && c->knob == PLIM_KNOB_LORA_RANK)
    plim_error_hint(error, "%s %lld, or 0 for no adapters", c->option, (long long)origin.integer);
  else if (is_count && k->place_count > 1)
    plim_error_hint(error, "choose one: --set %s=%s:%s (line %d) or --set %s=%s:%s (line %d)", knob,
                    p->project.files.at[k->places[0].file]->path, first->key, first->line, knob,
                    p->project.files.at[k->places[1].file]->path, k->places[1].setting->key,
                    k->places[1].setting->line);
  else if (is_count)
    plim_error_hint(error, "%s %lld, or use this setting: --set %s=%s:%s", c->option,
                    (long long)origin.integer, knob, p->project.files.at[k->places[0].file]->path,
                    first->key);
  else if (first && k->is_no_count)
    plim_error_hint(error, "fix it there, or override it with %s %s", c->option, c->example);
  else if (is_batch && plim_project_ask_command(&p->project, c->knob, command, sizeof command))
    plim_error_hint(error, "give the launch command: %s, or its file; or only the batch: %s %s",
                    command, c->option, c->example);
  else if (first) plim_error_hint(error, "%s %s", c->option, c->example);
  else
    plim_error_hint(error, "%s %s; or, if one of your own keys sets it: --set %s=FILE:KEY",
                    c->option, c->example, knob);
}

static plim_err refuse_count(const project_job *p, const asked_count *c, plim_error *error) {
  const plim_project_knob *k = &p->project.knobs[c->knob];
  const plim_knob_info *knob = &plim_knob_table[c->knob];
  plim_err err = k->is_no_count ? plim_fail(error, PLIM_ERR_ARGUMENT, "%s", k->why)
                 : k->origin == PLIM_UNCLEAR
                     ? plim_fail(error, PLIM_ERR_ARGUMENT, "%s (%s) is not known: %s", knob->name,
                                 knob->what, k->why)
                     : plim_fail(error, PLIM_ERR_ARGUMENT, "the files do not set %s (%s)",
                                 knob->name, knob->what);
  hint_count(p, c, error);
  if (!k->place_count) return err;
  const plim_project_file *f = p->project.files.at[k->places[0].file];
  if (k->places[0].setting)
    plim_error_at(error, plim_source_byte(f, k->places[0].setting->span.begin));
  return plim_error_file(error, err, f->path);
}

static uint64_t count_of(const plim_project_knob *k) {
  if (!is_known(k->origin)) return 0;
  if (k->value.kind == PLIM_VALUE_REAL)
    return k->value.real >= 1 && k->value.real < 1e15 ? (uint64_t)k->value.real : 0;
  bool is_count = k->value.kind == PLIM_VALUE_INTEGER && k->value.integer > 0;
  return is_count ? (uint64_t)k->value.integer : 0;
}

int64_t project_job_count(const project_job *p, plim_knob knob) {
  uint64_t count = count_of(&p->project.knobs[knob]);
  return count < 1 << 16 ? (int64_t)count : 1 << 16;
}

static plim_err fill_counts(const project_job *p, job_args *a, plim_error *error) {
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    const plim_project_knob *k = &p->project.knobs[counts[i].knob];
    uint64_t *out = (uint64_t *)((char *)a + counts[i].at);
    if (*out != JOB_UNSET) continue;
    if (count_of(k)) *out = count_of(k);
    else if (k->origin == PLIM_ABSENT && counts[i].is_one_if_absent) *out = 1;
    else return refuse_count(p, &counts[i], error);
  }
  return PLIM_OK;
}

static plim_err ask_open(const project_job *p, const job_args *a, plim_error *error) {
  for (size_t i = 0; i < sizeof open_counts / sizeof *open_counts; i++) {
    const asked_count *c = &open_counts[i];
    bool is_told = job_is_typed(a, (const char *)a + c->at);
    if (!is_told && p->project.knobs[c->knob].origin == PLIM_UNCLEAR)
      return refuse_count(p, c, error);
  }
  return PLIM_OK;
}

// Axolotl's monkeypatch/attention/xformers.py, memory_efficient_attention: it keeps no scores.
static bool keeps_no_scores(plim_knob knob, const char *word) {
  return knob == PLIM_KNOB_ATTENTION && strcmp(word, "xformers") == 0;
}

// What is known of a word that is not modelled.
static const char *result_of(plim_knob knob, const char *word) {
  return keeps_no_scores(knob, word) ? "the run needs about as much memory, or less where "
                                       "PyTorch's sdpa keeps the scores of "
                                       "attention, which xformers does not"
                                     : "the run may need more or less memory and time";
}

// Sets an option to the index of a word among its choices; leaves it unchanged if the word is not one of them.
static void fill_choice(project_job *p, const job_args *a, plim_knob knob, plim_known_text value,
                        const char *const *choices, int *out) {
  if (*out || job_is_typed(a, out) || !is_known(value.origin) || !*value.text) return;
  for (int i = 0; choices[i]; i++)
    if (strcmp(choices[i], value.text) == 0) {
      *out = i;
      return;
    }
  note(p, "unmodelled.value", name_of(knob), "%s %s is not modelled: predicted with %s; %s",
       name_of(knob), value.text, choices[0], result_of(knob, value.text));
  if (!keeps_no_scores(knob, value.text)) plim_note_errs_either(&p->notes);
  note_place(p, knob);
  if (value.text == p->run.precision.text) p->holds_precision = true;
}

static bool is(plim_known_text value, const char *text) {
  return is_known(value.origin) && strcmp(value.text, text) == 0;
}

// With fp8, accelerate still runs everything under bf16 autocast (get_mixed_precision_context_manager) and replaces only
// the products of linear layers.
static void fill_precision(project_job *p, job_args *a) {
  bool is_open = !a->amp && !job_is_typed(a, &a->amp);
  bool is_trainer = is(p->run.loop, "trainer");
  if (!is_open || !is_trainer || !is(p->run.precision, "fp8")) {
    fill_choice(p, a, PLIM_KNOB_PRECISION, p->run.precision, job_amps, &a->amp);
    return;
  }
  while (strcmp(job_amps[a->amp], "bf16") != 0) a->amp++;
  note(p, "unmodelled.value", name_of(PLIM_KNOB_PRECISION),
       "precision fp8 is not modelled: predicted with bf16; the run may need more or less memory "
       "and time");
  plim_note_errs_either(&p->notes);
  note_place(p, PLIM_KNOB_PRECISION);
  p->holds_precision = true;
}

static bool may_offload(const job_args *a) { return !a->offload && !job_is_typed(a, &a->offload); }

// fsdp_activation_checkpointing of accelerate's file, activation_checkpointing of fsdp_config.
static bool is_checkpointed_by_fsdp(const project_job *p) {
  const plim_project_knob *k = &p->project.knobs[PLIM_KNOB_CHECKPOINT];
  const char *key = k->place_count ? k->places[0].setting->key : "";
  bool is_file =
      k->place_count && p->project.files.at[k->places[0].file]->is.dialect == PLIM_DIALECT_FSDP;
  return (is_file || strstr(key, "fsdp")) && strstr(key, "activation_checkpointing");
}

static const plim_setting *find_exactly(const project_job *p, const char *key) {
  const plim_setting *s = NULL;
  for (size_t i = 0; i < p->project.files.len && !s; i++)
    s = plim_project_setting(p->project.files.at[i], key);
  return s;
}

// Whether a key has a value other than null and false, or keys of its own below it.
static bool is_given(const project_job *p, const char *key) {
  const plim_setting *s = find_exactly(p, key);
  char below[64];
  snprintf(below, sizeof below, "%s.", key);
  if (!s && (s = project_job_setting(p, below, "")))
    return strncasecmp(s->key, below, strlen(below)) == 0;
  return s && s->value.kind != PLIM_VALUE_NULL &&
         !(s->value.kind == PLIM_VALUE_BOOL && !s->value.flag);
}

// Axolotl's checkpoints are reentrant unless a key says otherwise (normalize_config of utils/config/__init__.py and
// _configure_gradient_checkpointing of core/builders/base.py).
static bool is_reentrant_in_axolotl(const project_job *p) {
  static const char *const keys[] = {"gradient_checkpointing_kwargs", "unfrozen_parameters", "rl",
                                     "selective_checkpointing"};
  bool is_open = p->project.dialect == PLIM_DIALECT_AXOLOTL && !is_checkpointed_by_fsdp(p);
  for (size_t i = 0; is_open && i < sizeof keys / sizeof *keys; i++)
    is_open = !is_given(p, keys[i]);
  return is_open;
}

static bool is_flag_off(const project_job *p, const char *key) {
  const plim_setting *s = find_exactly(p, key);
  return s && s->value.kind == PLIM_VALUE_BOOL && !s->value.flag;
}

// torchtune reads null as false.
static bool is_off_in_tune(const project_job *p, const char *key) {
  const plim_setting *s = find_exactly(p, key);
  return is_flag_off(p, key) || (s && s->value.kind == PLIM_VALUE_NULL);
}

// LLaMA-Factory's are, too (hparams/model_args.py).
static bool is_reentrant_in_factory(const project_job *p) {
  return p->project.dialect == PLIM_DIALECT_LLAMA_FACTORY && !is_flag_off(p, "use_reentrant_gc");
}

static void fill_checkpoint(project_job *p, job_args *a) {
  bool is_axolotls = is_reentrant_in_axolotl(p), is_on = is(p->run.checkpoint, "on");
  a->on_is_reentrant = is_axolotls;
  a->turns_on_reentrant = is_axolotls || is_reentrant_in_factory(p);
  if (a->checkpoint || a->reentrant) return;
  a->checkpoint = is_on && !is_axolotls && !project_job_is_before_checkpoints(p, a);
  a->wraps_layers = a->checkpoint && is_checkpointed_by_fsdp(p);
  a->reentrant = is(p->run.checkpoint, "reentrant") || (is_on && is_axolotls);
  if (is(p->run.checkpoint, "offloaded") && may_offload(a)) a->offload = JOB_OFFLOAD_CHECKPOINTS;
}

// The setting with a key that contains `part` and ends with `end`, ignoring case; NULL: none.
const plim_setting *project_job_setting(const project_job *p, const char *part, const char *end) {
  for (size_t i = 0; i < p->project.files.len; i++) {
    const plim_settings *s = &p->project.files.at[i]->settings;
    for (size_t k = 0; k < s->at.len; k++) {
      const char *key = s->at.at[k].key, *found = strcasestr(key, part);
      size_t n = strlen(key), m = strlen(end);
      if (found && n >= m && strcasecmp(key + n - m, end) == 0 && !s->at.at[k].is_unexported &&
          !s->at.at[k].is_aside)
        return &s->at.at[k];
    }
  }
  return NULL;
}

// transformers' Trainer passes the model to accelerate; so do loops that are started with an accelerate file.
static bool goes_through_accelerate(const plim_project *p) {
  if (p->dialect != PLIM_DIALECTS && plim_dialect_table[p->dialect].has_trainer) return true;
  for (size_t i = 0; i < p->files.len; i++)
    if (p->files.at[i]->is.dialect == PLIM_DIALECT_ACCELERATE) return true;
  return false;
}

// Whether the file named by fsdp_config sets the FSDP version.
static bool has_version_in_file(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++)
    if (p->files.at[i]->is.dialect == PLIM_DIALECT_FSDP &&
        p->files.at[i]->recipe.knobs[PLIM_KNOB_STRATEGY].origin == PLIM_EXPLICIT)
      return true;
  return false;
}

// TrainingArguments' `fsdp` without a version in fsdp_config. In accelerate's own file, that means FSDP 1.
static bool leaves_version_open(const project_job *p) {
  const plim_project_knob *strategy = &p->project.knobs[PLIM_KNOB_STRATEGY];
  plim_dialect trains = p->project.dialect;
  if (!is(p->run.strategy, "fsdp") || !strategy->place_count || trains == PLIM_DIALECTS)
    return false;
  plim_dialect origin_in = p->project.files.at[strategy->places[0].file]->is.dialect;
  bool is_trainers = plim_dialect_table[trains].has_trainer && trains != PLIM_DIALECT_AXOLOTL;
  return is_trainers && origin_in != PLIM_DIALECT_ACCELERATE &&
         !project_job_setting(p, "fsdp", "version") && !has_version_in_file(&p->project);
}

// The strategy for several GPUs if none is set: data parallel, or the only one that the ecosystem has.
static int usual_strategy(const plim_project *p) {
  const char *shares = p->dialect == PLIM_DIALECTS ? NULL : plim_dialect_table[p->dialect].shares;
  return shares && strcmp(shares, "fsdp2") == 0 ? PLIM_SHARD_FSDP2 : PLIM_SHARD_DDP;
}

// ---- offloaded activations --------------------------------------------------------------------------

// `gradient_checkpointing: offload` is Axolotl's old word for activation_offloading: true, and its offload_disk for disk
// (utils/schemas/validation.py). A plan adds hidden_states.
static const char *axolotl_offloading(const project_job *p) {
  const plim_setting *s = find_exactly(p, "activation_offloading"),
                     *old = find_exactly(p, "gradient_checkpointing");
  if (old && old->value.kind == PLIM_VALUE_TEXT) return "true";
  if (s && s->value.kind == PLIM_VALUE_TEXT) return s->value.text;
  return s && s->value.kind == PLIM_VALUE_BOOL && s->value.flag ? "true" : "hidden_states";
}

// Preference trainers are TRL's, which offload with TRL's class whatever the word is. Of Axolotl's own trainer, it gets the
// model's parameters only without adapters (core/trainers/mixins/activation_checkpointing.py).
static plim_saving axolotl_saving(const project_job *p, const job_args *a) {
  const char *word = axolotl_offloading(p);
  if (a->method) return PLIM_SAVED_BY_TRL;
  if (strcmp(word, "hidden_states") == 0) return PLIM_SAVED_INPUTS;
  bool is_inline = strcmp(word, "legacy") == 0;
  if (a->lora_rank) return is_inline ? PLIM_SAVED_BY_AXOLOTL_INLINE : PLIM_SAVED_BY_AXOLOTL;
  return is_inline ? PLIM_SAVED_BY_TRL_INLINE : PLIM_SAVED_BY_TRL;
}

// TRL, Axolotl and torchtune copy activations to the host with classes of their own.
static plim_saving saving_of(const project_job *p, const job_args *a) {
  switch (p->project.dialect) {
  case PLIM_DIALECT_TRL: return PLIM_SAVED_BY_TRL;
  case PLIM_DIALECT_AXOLOTL: return axolotl_saving(p, a);
  case PLIM_DIALECT_TORCHTUNE:
    return is_off_in_tune(p, "activation_offloading_use_streams") ? PLIM_SAVED_BY_TUNE_INLINE
                                                                  : PLIM_SAVED_BY_TUNE;
  default: return PLIM_SAVED_ON_HOST;
  }
}

// Whether peft's prepare_model_for_kbit_training turns checkpoints on once more, without arguments: then they are torch's
// default, reentrant (loaders/model.py, _prepare_model_for_quantization).
static bool prepares_in_axolotl(const project_job *p, const job_args *a) {
  bool is_quantised = is(p->run.quantisation, "int8") || is(p->run.quantisation, "nf4") ||
                      is(p->run.quantisation, "nf4-double");
  return a->lora_rank && is_quantised && !is_given(p, "peft.loftq_config") &&
         !is_given(p, "quantize_moe_experts");
}

// Axolotl's checkpoints beside offloaded activations. hidden_states: not reentrant unless the file says so
// (check_hidden_states_offloading), which a plan writes where checkpoints are on already. Otherwise Trainer turns none on:
// with adapters, they are those that loading turned on; without, each layer is wrapped in one that is not reentrant
// (loaders/model.py, ac_wrap_hf_model).
static void fill_axolotl_checkpoints(const project_job *p, job_args *a) {
  const char *word = axolotl_offloading(p);
  if (strcmp(word, "hidden_states") == 0) {
    bool is_here =
        is_known(p->run.offload.origin) && strstr(p->run.offload.text, "activations") != NULL;
    bool is_said_by_plan = !is_here && is(p->run.checkpoint, "on");
    if (a->on_is_reentrant && !is_said_by_plan) a->checkpoint_beside = PLIM_CHECKPOINT_ON;
    return;
  }
  bool is_reentrant = prepares_in_axolotl(p, a) || strcmp(word, "legacy") == 0;
  if (!a->lora_rank) a->checkpoint_beside = PLIM_CHECKPOINT_ON;
  else if (is_reentrant) a->checkpoint_beside = PLIM_CHECKPOINT_REENTRANT;
  a->wraps_beside = !a->lora_rank;
}

// Trainers of trl/experimental offload nothing.
static bool offloads_in_axolotl(const job_args *a) {
  return a->method != PLIM_METHOD_ORPO && a->method != PLIM_METHOD_CPO &&
         a->method != PLIM_METHOD_SIMPO && a->method != PLIM_METHOD_PRM;
}

// Its checkpoints are then those that would be beside it, and nothing is offloaded.
static void leave_axolotl_activations(project_job *p, job_args *a) {
  plim_checkpoint_kind beside = a->checkpoint_beside;
  a->reentrant = beside ? beside == PLIM_CHECKPOINT_REENTRANT : a->reentrant;
  a->checkpoint = beside ? beside == PLIM_CHECKPOINT_ON : a->checkpoint;
  a->wraps_layers |= a->wraps_beside;
  note(p, "unmodelled.offload", "offload",
       "TRL's trainer for this method does not offload activations: they stay on the GPU");
}

static void note_axolotl_offloading(project_job *p, const job_args *a) {
  const char *word = axolotl_offloading(p);
  if (a->lora_rank && strcmp(word, "legacy") == 0)
    note(
        p, "unmodelled.offload", "offload",
        "activation_offloading: legacy with adapters uses Axolotl's own checkpointing, which keeps "
        "layer inputs on the host; predicted as reentrant checkpointing; the run may need more or "
        "less memory and time than predicted"),
        plim_note_errs_either(&p->notes);
}

static void fill_sent_activations(project_job *p, job_args *a) {
  bool is_axolotl = p->project.dialect == PLIM_DIALECT_AXOLOTL;
  bool is_sent =
      is_known(p->run.offload.origin) && strstr(p->run.offload.text, "activations") != NULL;
  a->offloading = saving_of(p, a);
  if (is_axolotl) fill_axolotl_checkpoints(p, a);
  if (!is_sent || job_is_typed(a, &a->offload)) return;
  bool is_tunes = p->project.dialect == PLIM_DIALECT_TORCHTUNE && a->strategy == PLIM_SHARD_FSDP2;
  bool is_alone = (a->strategy == PLIM_SHARD_NONE || is_tunes) && may_offload(a);
  if (is_alone && is_axolotl && !offloads_in_axolotl(a)) {
    leave_axolotl_activations(p, a);
    return;
  }
  if (is_alone) a->offload = JOB_OFFLOAD_ACTIVATIONS;
  if (is_alone && is_axolotl) note_axolotl_offloading(p, a);
  else if (!is_alone)
    note(p, "unmodelled.offload", "offload",
         "offloading activations on several GPUs or beside another offload is not modelled: "
         "predicted with activations on the GPU; the run needs less memory and more time than "
         "predicted"),
        plim_note_errs_high(&p->notes);
  else if (a->offloading == PLIM_SAVED_ON_HOST)
    note(p, "unmodelled.offload", "offload",
         "offloaded activations are predicted as with save_on_cpu; the run may keep some of them "
         "longer and then needs more memory than predicted");
}

static void fill_strategy(project_job *p, job_args *a) {
  plim_known_text strategy = p->run.strategy;
  uint16_t release = job_release(a, PLIM_LIBRARY_TRANSFORMERS); // 0: not known
  bool is_open = leaves_version_open(p) && (!release || release >= PLIM_RELEASE(5, 0));
  a->is_fsdp_1 = is(strategy, "fsdp") && !is_open;
  if (is(strategy, "fsdp")) strategy.text = "fsdp2";
  if (is_open && !job_is_typed(a, &a->strategy))
    note(
        p, "assumed.fsdp_version", "strategy",
        "fsdp_config sets no version: FSDP2 assumed, the default of transformers 5 (version 4 uses "
        "FSDP 1)");
  fill_choice(p, a, PLIM_KNOB_STRATEGY, strategy, plim_strategy_names, &a->strategy);
  bool is_typed = job_is_typed(a, &a->strategy);
  if (is_typed) a->is_fsdp_1 = false;
  if (is(p->run.offload, "optimizer") && may_offload(a)) a->offload = JOB_OFFLOAD_OPTIMIZER;
  if (is(p->run.offload, "weights") && may_offload(a))
    note(p, "unmodelled.offload", "offload",
         "offloading parameters without the optimizer is not modelled: predicted without offload, "
         "which needs more memory and less time than the run"),
        plim_note_errs_high(&p->notes);
  if (is_known(p->run.offload.origin) && strstr(p->run.offload.text, "parameters") &&
      may_offload(a))
    a->offload = JOB_OFFLOAD_PARAMETERS;
  if (a->world > 1 && !a->strategy && !is_typed) a->strategy = usual_strategy(&p->project);
  fill_sent_activations(p, a);
  a->through_accelerate = goes_through_accelerate(&p->project);
  project_job_fill_engine(p, a);
  if (is(p->run.reshard, "off") && a->strategy == PLIM_SHARD_FSDP2) a->no_reshard = true;
}

static void fill_loss(project_job *p, job_args *a) {
  if (a->loss || job_is_typed(a, &a->loss)) return;
  if (is(p->run.loss, "fused")) a->loss = PLIM_LOSS_FUSED;
  a->loss_is_ligers = a->loss == PLIM_LOSS_FUSED && is(p->run.liger, "on") &&
                      p->project.dialect != PLIM_DIALECT_AXOLOTL;
  if (is(p->run.loss, "chunked") && !project_job_is_before_chunks(p, a))
    a->loss = PLIM_LOSS_CHUNKED;
  bool is_tune = p->project.dialect == PLIM_DIALECT_TORCHTUNE;
  if (is(p->run.loss, "eighths-listed")) a->loss = PLIM_LOSS_LISTED;
  if (is(p->run.loss, "eighths") && is_tune) a->loss = PLIM_LOSS_EIGHTHS;
  else if (is(p->run.loss, "eighths"))
    note(p, "unmodelled.loss", "chunked_loss",
         "this loss splits the logits into eight parts; it is predicted with all logits at once, "
         "which needs more memory than the run"),
        plim_note_errs_high(&p->notes);
  // _chunked_cross_entropy_loss of TRL 1.7 to 1.14 and add_fused_lm_head of 1.15 (trainer/sft_trainer.py, trainer/utils.py).
  a->drops_masked = (p->project.dialect == PLIM_DIALECT_TRL && a->loss == PLIM_LOSS_CHUNKED) ||
                    (project_job_cuts_loss(p) && a->loss == PLIM_LOSS_FUSED);
  if (a->loss == PLIM_LOSS_CHUNKED && is_known(p->run.loss_chunk.origin) && p->run.loss_chunk.count)
    a->loss_chunk = (uint64_t)p->run.loss_chunk.count;
  if (is(p->run.liger, "on")) a->liger = true;
}

// Ecosystems that pass a configuration without target_modules to peft, which has its own defaults.
static bool leaves_targets_to_peft(const project_job *p) {
  plim_dialect dialect = p->project.dialect;
  bool is_trainer = dialect == PLIM_DIALECT_HF || dialect == PLIM_DIALECT_TRL;
  bool is_own = dialect == PLIM_DIALECT_HOME || dialect == PLIM_DIALECT_SENTENCE ||
                dialect == PLIM_DIALECT_LIGHTNING;
  return is_trainer || (is_own && project_job_setting(p, "loraconfig.", ""));
}

// Adapters on unknown layers are left out, with a note.
static plim_err fill_targets(project_job *p, job_args *a, plim_error *error) {
  bool is_open = p->run.lora_targets.origin == PLIM_ABSENT && !a->lora_targets && a->lora_rank;
  if (is_open && leaves_targets_to_peft(p)) a->lora_targets = JOB_PEFT_TARGETS;
  if (!is_known(p->run.lora_targets.origin) || !*p->run.lora_targets.text) return PLIM_OK;
  bool is_idle = p->run.lora_targets.origin == PLIM_DEFAULTED && !a->lora_rank;
  if (a->lora_targets || is_idle) return PLIM_OK;
  p->targets = strdup(p->run.lora_targets.text);
  if (!p->targets) return plim_no_memory(error);
  a->lora_targets = p->targets;
  return PLIM_OK;
}

// A list from the files, which lives as long as the project. Without adapters it has no effect.
static void fill_list(const job_args *a, plim_known_text value, const char **out) {
  bool is_open = !*out && !job_is_typed(a, out) && a->lora_rank;
  if (is_open && is_known(value.origin) && *value.text) *out = value.text;
}

// Of ORPO, CPO and SimPO (trl/experimental/{orpo,cpo}).
#define KEEPS_ALL "; every version of TRL keeps all logits in memory"

// Of DPO and KTO (dpo_trainer.py and kto_trainer.py of TRL 0.19 to 1.16): use_liger_loss, which 0.28 no longer has, and
// use_liger_kernel from 0.25 on turned on Liger's own loss; from 1.15 on, Liger only replaces modules.
static bool fuses_preferences(const project_job *p, const job_args *a,
                              const plim_project_method *found, uint16_t trl) {
  bool is_trl = p->project.dialect == PLIM_DIALECT_TRL || p->project.dialect == PLIM_DIALECT_HF;
  bool has_reference =
      plim_method_has_reference(found->method) && !plim_method_is_of_factory(found->method);
  if (!is_trl || !has_reference || job_is_typed(a, &a->loss)) return false;
  bool has_loss = trl < PLIM_RELEASE(0, 28) && is_given(p, "use_liger_loss");
  bool has_kernel =
      trl >= PLIM_RELEASE(0, 25) && trl < PLIM_RELEASE(1, 15) && is(p->run.liger, "on");
  return trl && (has_loss || has_kernel);
}

static void note_fused_preferences(project_job *p, const job_args *a,
                                   const plim_project_method *found, uint16_t trl) {
  if (!fuses_preferences(p, a, found, trl)) return;
  note(p, "unmodelled.liger_preferences", "chunked_loss",
       "in TRL %s, %s turns on Liger's own loss for %s, which never holds all logits; it "
       "is predicted with all of them, so the run needs less memory than predicted",
       plim_release_words(trl).text,
       is_given(p, "use_liger_loss") ? "use_liger_loss" : "use_liger_kernel",
       job_method_name(found->method));
  plim_note_errs_high(&p->notes);
}

// DPOTrainer flattens the batch before 1.0 and ignores the key since then.
static void note_padding_free(project_job *p, const plim_project_method *found, uint16_t trl) {
  if (found->method != PLIM_METHOD_DPO || !trl || trl >= PLIM_RELEASE(1, 0)) return;
  if (p->project.dialect == PLIM_DIALECT_AXOLOTL || !is_given(p, "padding_free")) return;
  note(p, "unmodelled.padding_free", NULL,
       "padding_free: a batch without padding is not modelled; if the answers are not equally "
       "long, the run needs less memory and time than predicted");
}

// dpo_trainer.py of TRL 0.19 to 0.28, concatenated_forward; accelerate wraps both models' forward under autocast (convert_to_fp32).
static void note_hidden_states(project_job *p, const job_args *a, const plim_project_method *found,
                               uint16_t trl) {
  bool asks = trl >= PLIM_RELEASE(0, 19) && trl < PLIM_RELEASE(0, 29);
  if (found->method != PLIM_METHOD_DPO || !asks) return;
  note(p, "unmodelled.hidden_states", NULL,
       "in TRL %s, DPO has both models return the hidden states of all layers%s, which is not "
       "modelled; the run needs more memory and time than predicted",
       plim_release_words(trl).text, a->amp ? ", and accelerate copies them to float32" : "");
  plim_note_errs_low(&p->notes);
}

// The project says which TRL it has; others than those two were not measured.
static void note_known_trl(project_job *p, const job_args *a, const plim_project_method *found,
                           uint16_t trl) {
  uint16_t first =
      plim_method_has_reference(found->method) ? PLIM_RELEASE(1, 15) : PLIM_RELEASE(1, 14);
  uint16_t measured = trl < first ? PLIM_RELEASE(1, 9) : PLIM_RELEASE(1, 16);
  note_fused_preferences(p, a, found, trl);
  note_padding_free(p, found, trl);
  note_hidden_states(p, a, found, trl);
  if (trl == measured) return;
  const char *logits = !plim_method_has_reference(found->method) ? KEEPS_ALL
                       : trl < first && !fuses_preferences(p, a, found, trl)
                           ? "; both keep all logits in memory"
                           : "";
  note(p, "assumed.trl", NULL, "%s in TRL %s is predicted as in %s%s",
       job_method_name(found->method), plim_release_words(trl).text,
       plim_release_words(measured).text, logits);
}

// Which TRL the prediction is of, and how another would differ.
static void note_trl(project_job *p, const job_args *a, const plim_project_method *found) {
  const char *name = job_method_name(found->method);
  uint16_t trl = job_release(a, PLIM_LIBRARY_TRL);
  if (plim_method_is_of_factory(found->method))
    note(p, "assumed.method", NULL,
         "%s as in LLaMA-Factory's own trainer, which holds all logits and the log-probabilities "
         "of the whole vocabulary at once",
         name);
  else if (found->method == PLIM_METHOD_REWARD)
    note(p, "assumed.trl", NULL, "predicted as a reward model with TRL's RewardTrainer");
  else if (found->method == PLIM_METHOD_PRM)
    note(p, "assumed.trl", NULL,
         "predicted as a process reward model with the PRMTrainer of TRL before 1.14");
  else if (trl) note_known_trl(p, a, found, trl);
  else if (found->holds_logits)
    note(p, "assumed.trl", NULL, "assuming TRL 1.9 for %s, %s; %s", name,
         p->project.dialect == PLIM_DIALECT_AXOLOTL
             ? "which Axolotl 0.19 requires"
             : "because the files have settings of older versions",
         plim_method_has_reference(found->method)
             ? "TRL before 1.15 keeps all logits in memory"
             : "before 1.14 it needs more memory than in newer versions" KEEPS_ALL);
  else if (!plim_method_has_reference(found->method))
    note(p, "assumed.trl", NULL,
         "assuming TRL 1.16 for %s; before 1.14 it needs more memory (predict that with --loss "
         "full)" KEEPS_ALL,
         name);
  else
    note(p, "assumed.trl", NULL,
         "assuming TRL 1.16 for %s; before 1.15 it keeps all logits and needs more memory (predict "
         "that "
         "with --loss full)",
         name);
  if (!trl && found->holds_logits) note_fused_preferences(p, a, found, PLIM_RELEASE(1, 9));
}

static const char *text_of(const plim_setting *s) {
  return s && s->value.kind == PLIM_VALUE_TEXT ? s->value.text : "";
}

static void fill_method(project_job *p, job_args *a) {
  project_job_fill_tune(p, a);
  project_job_note_mixer(p, a);
  plim_project_method found = plim_project_trains(&p->project);
  if (found.method == PLIM_METHOD_TEXTS || job_is_typed(a, &a->method)) return;
  a->method = (int)found.method;
  a->holds_logits = found.holds_logits && !job_is_typed(a, &a->loss);
  if (found.is_precomputed && plim_method_has_reference(found.method) &&
      !job_is_typed(a, &a->reference))
    a->reference = 1 + (int)PLIM_REFERENCE_PRECOMPUTED;
  project_job_fill_reference(p, a, found.method);
  if (!job_is_typed(a, &a->loss)) a->loss = PLIM_LOSS_FULL;
  if (!job_is_typed(a, &a->loss_chunk)) a->loss_chunk = PLIM_UNKNOWN;
  a->centres_rewards = found.centres_rewards;
  a->skips_divergence = found.skips_divergence;
  note_trl(p, a, &found);
  if (found.loss)
    note(p, "assumed.loss", "loss_type",
         "predicted with loss_type sigmoid; %s differs only by a few numbers per pair, so it needs "
         "nearly the same memory",
         found.loss);
}

// Axolotl's loaders/model.py, _set_quantization_config: 4 bits only with `adapter: qlora`.
static void drop_idle_bits(project_job *p, job_args *a) {
  const plim_setting *adapter = find_exactly(p, "adapter");
  bool is_4_bit = a->weights == PLIM_WEIGHTS_NF4 || a->weights == PLIM_WEIGHTS_NF4_DOUBLE;
  if (p->project.dialect != PLIM_DIALECT_AXOLOTL || !is_4_bit || job_is_typed(a, &a->weights) ||
      strcmp(text_of(adapter), "lora") != 0)
    return;
  a->weights = PLIM_WEIGHTS_PLAIN;
  note(p, "reads.bits", "quantisation",
       "Axolotl quantises to 4 bits only with adapter: qlora; with adapter: lora, load_in_4bit "
       "does nothing");
  note_place(p, PLIM_KNOB_QUANTISATION);
}

static plim_err fill_adapters(project_job *p, job_args *a, plim_error *error) {
  fill_count(p, a, PLIM_KNOB_LORA_RANK, p->run.lora_rank, 0, &a->lora_rank);
  bool is_idle = !a->lora_rank && p->run.lora_dropout.origin == PLIM_DEFAULTED;
  if (is_idle) a->usual_dropout = p->run.lora_dropout.number;
  else if (a->lora_dropout == 0 && !job_is_typed(a, &a->lora_dropout) &&
           is_known(p->run.lora_dropout.origin))
    a->lora_dropout = p->run.lora_dropout.number;
  fill_list(a, p->run.lora_saved, &a->lora_saved);
  fill_list(a, p->run.lora_layers, &a->lora_layers);
  fill_list(a, p->run.lora_excluded, &a->lora_excluded);
  if (a->lora_rank) {
    fill_choice(p, a, PLIM_KNOB_LORA_BIAS, p->run.lora_bias, plim_lora_bias_names, &a->lora_bias);
    a->dora = a->dora || is(p->run.dora, "on");
  }
  fill_choice(p, a, PLIM_KNOB_QUANTISATION, p->run.quantisation, plim_weights_names, &a->weights);
  drop_idle_bits(p, a);
  return fill_targets(p, a, error);
}

// How the states of an optimizer compare with the two per parameter of AdamW, from the sources of the optimizers that
// transformers and the trainers know.
typedef struct {
  const char *names, *result;
  void (*mark)(plim_notes *notes); // or NULL
} compared_states;

static const compared_states *states_compared(const char *optimizer) {
  static const compared_states sizes[] = {
      {"*ademamix* *soap* *shampoo* *grok* *sophia*", ", which needs less memory than the run",
       plim_note_errs_low},
      {"*galore* *apollo* *badam* *lomo* *mini* *dion* *came* *lisa* *lion* *8bit* *4bit*",
       ", which needs more memory than the run", plim_note_errs_high},
      {"*schedule_free* *schedule-free* *adopt* *stable* *nadam* *radam* *adamax*",
       ", whose states have the same size", NULL},
  };
  static const compared_states unknown = {"", ", and the run may need more or less memory and time",
                                          plim_note_errs_either};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (const char *at = sizes[i].names; *at; at += strspn(at, " ")) {
      char name[32];
      size_t n = strcspn(at, " ");
      snprintf(name, sizeof name, "%.*s", (int)n, at);
      if (fnmatch(name, optimizer, FNM_CASEFOLD) == 0) return &sizes[i];
      at += n;
    }
  return &unknown;
}

// What another optimizer would change is not known, so the plan keeps this one.
static void hold_optimizer(project_job *p) {
  plim_project_knob *k = &p->project.knobs[PLIM_KNOB_OPTIMIZER];
  if (k->is_fixed) return;
  k->is_fixed = true;
  snprintf(k->why, sizeof k->why,
           "what another one would change is not known, because it is not modelled");
}

static void fill_optimizer(project_job *p, job_args *a) {
  if (strcmp(a->optimizer, "adamw") != 0 || job_is_typed(a, &a->optimizer)) return;
  if (!is_known(p->run.optimizer.origin)) return;
  bool is_badam = strcmp(p->run.optimizer.text, "badam") == 0;
  bool is_followed = !is_badam || (project_job_rotates(p) && !a->lora_rank);
  if (is_followed && plim_optimizer_named(p->run.optimizer.text))
    a->optimizer = p->run.optimizer.text;
  else {
    const compared_states *states = states_compared(p->run.optimizer.text);
    note(p, "unmodelled.value", "optimizer",
         "the optimizer %s is not modelled: predicted as adamw%s", p->run.optimizer.text,
         states->result);
    if (states->mark) states->mark(&p->notes);
    note_place(p, PLIM_KNOB_OPTIMIZER);
    hold_optimizer(p);
  }
}

// NEFTune, whatever its strength. Axolotl knows two names for it.
static void fill_noise(const project_job *p, job_args *a) {
  const plim_setting *s = project_job_setting(p, "neftune_noise_alpha", "");
  if (!s) s = project_job_setting(p, "noisy_embedding_alpha", "");
  if (s && s->value.kind != PLIM_VALUE_NULL) a->noise = true;
}

// If everything has the same dtype, there is no autocast.
static void fill_types(project_job *p, job_args *a) {
  plim_dialect dialect = p->project.dialect;
  project_job_fill_ecosystem(p, a);
  project_job_fill_qat(p, a);
  if (dialect == PLIM_DIALECTS || !plim_dialect_table[dialect].has_one_type) return;
  p->holds_precision = true;
  if (a->lora_rank) a->lora_dtype = ADAPTERS_KEPT;
}

// Refuses a run with a configuration that could not be read, because the prediction would be for a different run. The
// settings of a missing DeepSpeed or accelerate file can be typed instead.
static plim_err refuse_unread(project_job *p, const job_args *a, plim_error *error) {
  for (size_t i = 0; i < p->project.unread.len; i++) {
    const plim_unread *u = p->project.unread.at[i];
    bool is_told = u->is_missing && (!u->shares || job_is_typed(a, &a->strategy));
    if (u->part != PLIM_UNREAD_DECIDES || is_told) continue;
    if (!u->is_missing) {
      plim_fail(error, u->why.code, "%.200s", u->why.message);
      plim_error_at(error, u->why.byte);
      plim_error_hint(error, "fix %.100s (%.100s:%d refers to it)", u->name, u->from, u->line);
      return plim_error_file(error, u->why.code, u->name);
    }
    plim_err err =
        plim_fail(error, PLIM_ERR_ARGUMENT, "%.80s:%d refers to %.120s, which does not exist here",
                  u->from, u->line, u->name);
    plim_error_at(error, u->byte);
    plim_error_hint(error, "create the file, or give its settings as options: --strategy zero2");
    return plim_error_file(error, err, u->from);
  }
  return PLIM_OK;
}

// A missing setting may be in a file that could not be read.
static void hint_unread(const project_job *p, plim_error *error) {
  for (size_t i = 0; i < p->project.unread.len; i++) {
    const plim_unread *u = p->project.unread.at[i];
    if (u->is_missing || u->part != PLIM_UNREAD_PART) continue;
    char place[24] = "";
    if (u->why_line) snprintf(place, sizeof place, ":%d", u->why_line);
    plim_error_hint(error, "fix %.80s%s first: %.120s", u->name, place, u->why.message);
    return;
  }
}

// The folder of this file is that of the project: a command that was typed has none.
static const char *first_on_disk(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++)
    if (!p->files.at[i]->is_typed) return p->files.at[i]->path;
  return ".";
}

// Lightning trains a model in the type in which it was loaded, unless the Trainer has a true precision.
static bool keeps_loaded_type(const project_job *p) {
  return p->project.dialect == PLIM_DIALECT_LIGHTNING && p->run.dtype.origin == PLIM_DEFAULTED &&
         project_job_setting(p, "Model", ".pretrained_model_name_or_path");
}

// The word for attention that is none of those that are modelled; NULL: there is none.
static const char *unknown_attention(const project_job *p, plim_known_text attention) {
  size_t i = 0;
  while (plim_attention_names[i] && strcmp(plim_attention_names[i], attention.text) != 0) i++;
  bool is_set = is_known(attention.origin) && *attention.text;
  return is_set && !plim_attention_names[i] ? p->run.attention.text : NULL;
}

static plim_err fill(project_job *p, job_args *a, plim_error *error) {
  const plim_run_settings *r = &p->run;
  plim_known_text attention = r->attention;
  bool is_open = a->accumulate == JOB_UNSET;
  if (!p->is_of_texts) plim_pins_find(&a->pins, first_on_disk(&p->project));
  project_job_narrow_releases(p, a);
  plim_err err = project_job_take_model(p, a, error);
  if (!err) err = plim_project_refuse_documents(&p->project, error);
  if (!err) err = project_job_check_world(p, a, error);
  if (!err) err = fill_counts(p, a, error);
  if (!err) err = ask_open(p, a, error);
  fill_count(p, a, PLIM_KNOB_NODES, r->nodes, 1, &a->nodes);
  if (!err) err = project_job_divide(p, a, is_open, error);
  if (err) return err;
  fill_count(p, a, PLIM_KNOB_SEQUENCE, r->sequence, 0, &a->seq);
  fill_precision(p, a);
  if (!keeps_loaded_type(p)) fill_choice(p, a, PLIM_KNOB_DTYPE, r->dtype, job_dtypes, &a->dtype);
  fill_choice(p, a, PLIM_KNOB_ATTENTION, attention, plim_attention_names, &a->attention);
  a->attention_word = unknown_attention(p, attention);
  fill_choice(p, a, PLIM_KNOBS, r->loop, job_loops, &a->loop);
  fill_choice(p, a, PLIM_KNOBS, r->mask, plim_mask_names, &a->mask);
  fill_checkpoint(p, a);
  err = fill_adapters(p, a, error);
  if (err) return err;
  fill_optimizer(p, a);
  fill_loss(p, a);
  fill_method(p, a);
  project_job_contrast(p, a);
  fill_strategy(p, a);
  project_job_fill_host_optimizer(p, a);
  project_job_fill_in_backward(p, a);
  fill_types(p, a);
  project_job_fill_trained(p, a);
  project_job_note_open(p, a);
  project_job_fill_allocator(p, a);
  if (is_known(r->clip.origin) && r->clip.number == 0) a->no_clip = true;
  project_job_fill_projection(p, a);
  fill_noise(p, a);
  return p->notes.has_no_memory ? plim_no_memory(error) : PLIM_OK;
}

plim_err project_job_fill(project_job *p, job_args *a, plim_error *error) {
  plim_err err = refuse_unread(p, a, error);
  if (err) return err;
  err = fill(p, a, error);
  if (err) hint_unread(p, error);
  project_job_name_program(p, err, error);
  project_job_drop_lengths(p, a);
  return err;
}
