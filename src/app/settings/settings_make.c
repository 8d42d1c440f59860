#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "catalogue.h"
#include "project_change.h"
#include "settings_text.h"
#include "torchtune_builders.h"
#include "units.h"

// ---- what the knobs should be -----------------------------------------------------------------------

static plim_value word(const char *text) {
  return (plim_value){.kind = PLIM_VALUE_TEXT, .text = text};
}

static plim_value count(uint64_t n) {
  return (plim_value){.kind = PLIM_VALUE_INTEGER, .integer = (int64_t)n};
}

static plim_value micro_batch(const job_args *a) { return count(a->batch); }
static plim_value accumulate(const job_args *a) { return count(a->accumulate); }
static plim_value sequence(const job_args *a) { return count(a->seq); }
static plim_value world(const job_args *a) { return count(a->world); }
static plim_value nodes(const job_args *a) { return count(a->nodes); }
static plim_value attention(const job_args *a) { return word(plim_attention_names[a->attention]); }
static plim_value optimizer(const job_args *a) { return word(a->optimizer); }
static plim_value precision(const job_args *a) { return word(job_amps[a->amp]); }
static plim_value dtype(const job_args *a) { return word(job_dtypes[a->dtype]); }
static plim_value weights(const job_args *a) { return word(plim_weights_names[a->weights]); }
static plim_value strategy(const job_args *a) { return word(plim_strategy_names[a->strategy]); }
static plim_value liger(const job_args *a) { return word(a->liger ? "on" : "off"); }
static plim_value rank(const job_args *a) { return count(a->lora_rank); }
static plim_value clip(const job_args *a) { return count(!a->no_clip); }

static plim_value checkpoint(const job_args *a) {
  bool is_offloaded = a->offload == JOB_OFFLOAD_CHECKPOINTS;
  return word(is_offloaded    ? "offloaded"
              : a->reentrant  ? "reentrant"
              : a->checkpoint ? "on"
                              : "off");
}

static plim_value loss(const job_args *a) {
  static const char *const words[] = {[PLIM_LOSS_FUSED] = "fused",
                                      [PLIM_LOSS_EIGHTHS] = "eighths",
                                      [PLIM_LOSS_LISTED] = "eighths-listed"};
  if (a->loss == PLIM_LOSS_CHUNKED) return count(a->loss_chunk);
  bool has_word = (size_t)a->loss < sizeof words / sizeof *words && words[a->loss];
  return has_word ? word(words[a->loss]) : count(0);
}

static plim_value offload(const job_args *a) {
  bool is_checkpoint = a->offload == JOB_OFFLOAD_CHECKPOINTS;
  return word(job_offloads[is_checkpoint ? JOB_OFFLOAD_NONE : a->offload]);
}

static plim_value reshard(const job_args *a) { return word(a->no_reshard ? "off" : "on"); }

// The knobs and the options that they stand for. Knobs of a group are written together if they can be.
static const struct {
  plim_knob knob;
  int group;
  plim_value (*wanted)(const job_args *a);
  const char *options; // between spaces
} knobs[] = {
    {PLIM_KNOB_MICRO_BATCH, 1, micro_batch, " batch "},
    {PLIM_KNOB_ACCUMULATE, 1, accumulate, " accumulate "},
    {PLIM_KNOB_SEQUENCE, 0, sequence, " seq "},
    {PLIM_KNOB_CHECKPOINT, 0, checkpoint, " checkpoint reentrant "},
    {PLIM_KNOB_ATTENTION, 0, attention, " attention "},
    {PLIM_KNOB_OPTIMIZER, 0, optimizer, " optimizer "},
    {PLIM_KNOB_PRECISION, 2, precision, " amp "},
    {PLIM_KNOB_DTYPE, 2, dtype, " dtype "},
    {PLIM_KNOB_QUANTISATION, 0, weights, " weights "},
    {PLIM_KNOB_CHUNKED_LOSS, 0, loss, " loss loss-chunk "},
    {PLIM_KNOB_LIGER, 0, liger, " liger "},
    {PLIM_KNOB_STRATEGY, 3, strategy, " strategy "},
    {PLIM_KNOB_OFFLOAD, 3, offload, " offload "},
    {PLIM_KNOB_RESHARD, 0, reshard, " no-reshard "},
    {PLIM_KNOB_LORA_RANK, 0, rank, " lora-rank "},
    {PLIM_KNOB_CLIP, 0, clip, " no-clip "},
    {PLIM_KNOB_WORLD, 0, world, " world "},
    {PLIM_KNOB_NODES, 0, nodes, " nodes "},
};
enum { KNOBS = sizeof knobs / sizeof *knobs };

// ---- putting them into the text ---------------------------------------------------------------------

typedef struct {
  plim_project project;
  plim_knob_change changes[KNOBS];
  size_t count;
} writing;

static bool is_so(const plim_project *p, plim_knob knob, const plim_value *want) {
  const plim_project_knob *k = &p->knobs[knob];
  bool is_known = k->origin == PLIM_EXPLICIT || k->origin == PLIM_DEFAULTED;
  return is_known && plim_value_same(&k->value, want);
}

// Adds changes if they can be made together with those so far; only a lack of memory is an error.
static plim_err try_changes(writing *w, const plim_knob_change *changes, size_t n, bool *are_made,
                            plim_error *error) {
  plim_edit_set edits = {0};
  plim_error why = {0};
  *are_made = false;
  memcpy(w->changes + w->count, changes, n * sizeof *changes);
  plim_err err = plim_project_set(&w->project, w->changes, w->count + n, &edits, &why);
  if (err == PLIM_ERR_NOMEM) return plim_no_memory(error);
  if (err) return PLIM_OK;
  plim_edit_set_clear(&edits);
  w->count += n;
  *are_made = true;
  return PLIM_OK;
}

static plim_err change_group(writing *w, const job_args *want, int group, size_t from,
                             plim_error *error) {
  plim_knob_change changes[KNOBS];
  size_t n = 0;
  bool are_made = false;
  for (size_t i = from; i < KNOBS; i++) {
    if (i != from && (!group || knobs[i].group != group)) continue;
    plim_knob_change change = {knobs[i].knob, knobs[i].wanted(want)};
    if (!is_so(&w->project, change.knob, &change.value)) changes[n++] = change;
  }
  plim_err err = n ? try_changes(w, changes, n, &are_made, error) : PLIM_OK;
  for (size_t i = 0; !err && !are_made && n > 1 && i < n; i++) {
    bool is_made;
    err = try_changes(w, &changes[i], 1, &is_made, error);
  }
  return err;
}

static plim_err change_all(writing *w, const job_args *want, plim_error *error) {
  plim_err err = PLIM_OK;
  int done = 0;
  for (size_t i = 0; !err && i < KNOBS; i++) {
    int group = knobs[i].group;
    if (group && group <= done) continue;
    if (group) done = group;
    err = change_group(w, want, group, i, error);
  }
  return err;
}

static plim_err open_texts(const settings_result *s, plim_project *p, plim_error *error) {
  plim_err err = plim_project_add(p, s->dialect->file, s->text, strlen(s->text), error);
  for (size_t i = 0; !err && i < s->files.files.len; i++) {
    const plim_new_file *f = &s->files.files.at[i];
    err = plim_project_add(p, f->path, f->text, strlen(f->text), error);
  }
  return err ? err : plim_project_finish(p, error);
}

// Replaces the texts by the edited ones, and keeps the files that the edits add.
static plim_err take_texts(settings_result *s, const plim_project *p, plim_edit_set *edits,
                           plim_error *error) {
  size_t had = s->files.files.len, size;
  plim_err err = PLIM_OK;
  for (size_t i = 0; !err && i < 1 + had; i++) {
    char **text = i ? &s->files.files.at[i - 1].text : &s->text, *now = NULL;
    err = plim_project_text(p, i, edits, &now, &size, error);
    if (!err) free(*text), *text = now;
  }
  while (!err && edits->files.len) {
    if (!vec_push(&s->files.files, edits->files.at[edits->files.len - 1]))
      return plim_no_memory(error);
    edits->files.len--;
  }
  return err;
}

static plim_err write_once(settings_result *s, const job_args *want, size_t *made,
                           plim_error *error) {
  writing w = {0};
  plim_edit_set edits = {0};
  plim_err err = open_texts(s, &w.project, error);
  if (!err) err = change_all(&w, want, error);
  if (!err && w.count) err = plim_project_set(&w.project, w.changes, w.count, &edits, error);
  if (!err && w.count) err = take_texts(s, &w.project, &edits, error);
  *made = w.count;
  plim_edit_set_clear(&edits);
  plim_project_clear(&w.project);
  return err;
}

// Writes the settings into the text of the template. Some keys can only be written after others: resharding, for example,
// after the strategy.
static plim_err write_knobs(settings_result *s, const job_args *want, plim_error *error) {
  enum { PASSES = 3 };
  size_t made = 1;
  plim_err err = PLIM_OK;
  for (int i = 0; !err && made && i < PASSES; i++) err = write_once(s, want, &made, error);
  return err;
}

// ---- reading it back --------------------------------------------------------------------------------

// Options that do not belong to the trainer: the model itself, the card, what is predicted, and the number of GPUs, which is
// in the command that starts the run.
static const char outside[] =
    " model gpu limit link network steps lengths versions packages world nodes ";

static bool is_in(const char *list, const char *name) {
  char between[64];
  snprintf(between, sizeof between, " %s ", name);
  return strstr(list, between) != NULL;
}

// Copies the option from `from`, as if it had been typed.
static bool type_option(const cli_option *o, const job_args *from, job_args *to, cli_call *call) {
  static const size_t sizes[CLI_KIND_COUNT] = {[CLI_FLAG] = sizeof(bool),
                                               [CLI_UINT] = sizeof(uint64_t),
                                               [CLI_BYTES] = sizeof(uint64_t),
                                               [CLI_NUMBER] = sizeof(double),
                                               [CLI_CHOICE] = sizeof(int)};
  size_t size = sizes[o->kind] ? sizes[o->kind] : sizeof(const char *);
  memcpy((char *)to + o->offset, (const char *)from + o->offset, size);
  return vec_push(&call->given, o->offset);
}

static plim_err type_outside(const job_args *asked, job_args *a, cli_call *call,
                             plim_error *error) {
  for (const cli_option *o = job_own_options; o->name; o++) {
    bool is_needed = is_in(" model world nodes ", o->name) || !job_option_is_usual(o, asked);
    if (is_in(outside, o->name) && is_needed && !type_option(o, asked, a, call))
      return plim_no_memory(error);
  }
  return PLIM_OK;
}

static plim_err read_texts(const settings_result *s, project_job *p, plim_error *error) {
  project_text texts[8] = {{s->dialect->file, s->text}};
  size_t n = 1;
  for (size_t i = 0; i < s->files.files.len && n < sizeof texts / sizeof *texts; i++, n++)
    texts[n] = (project_text){s->files.files.at[i].path, s->files.files.at[i].text};
  return project_job_read_texts(p, texts, n, s->command, error);
}

typedef struct settings_reading {
  project_job files;
  job_args args;
  cli_call call;
  job_request request; // must not move
} reading;

static plim_err read_back(const settings_result *s, const job_args *asked, reading *r,
                          plim_error *error) {
  const char *source = NULL;
  r->args = (job_args)JOB_DEFAULTS_WITH(JOB_UNSET);
  r->args.typed = &r->call;
  r->call.args = &r->args;
  plim_err err = type_outside(asked, &r->args, &r->call, error);
  if (!err) err = read_texts(s, &r->files, error);
  if (!err) err = project_job_fill(&r->files, &r->args, error);
  if (!err) err = job_understand(&r->args, &r->args, &r->request, &source, error);
  return err;
}

static void clear_reading(reading *r) {
  job_request_clear(&r->request);
  project_job_clear(&r->files);
  vec_free(&r->call.given);
}

// ---- where they differ ------------------------------------------------------------------------------

static bool was_asked(const job_args *typed, const cli_option *o) {
  return !job_option_is_usual(o, typed) || job_is_typed(typed, (const char *)typed + o->offset);
}

static void leave_out(settings_result *s, const cli_option *o) {
  if (s->left_out_count < SETTINGS_MOST) s->left_out[s->left_out_count++] = o;
}

// "with --mask pad", "without --liger".
static void describe(const cli_option *o, const job_args *a, char *text, size_t size) {
  const void *at = (const char *)a + o->offset;
  const char *own = o->kind == CLI_FLAG ? NULL : "";
  char number[32] = "";
  if (o->kind == CLI_CHOICE) own = o->choices[*(const int *)at];
  else if (o->kind == CLI_UINT || o->kind == CLI_BYTES)
    snprintf(number, sizeof number, "%llu", (unsigned long long)*(const uint64_t *)at);
  else if (o->kind == CLI_NUMBER) snprintf(number, sizeof number, "%g", *(const double *)at);
  else if (o->kind != CLI_FLAG) own = *(const char *const *)at;
  bool is_unknown = o->kind == CLI_UINT && *(const uint64_t *)at == PLIM_UNKNOWN;
  bool is_none = o->kind == CLI_FLAG ? !*(const bool *)at : is_unknown || !own;
  bool has_value = o->kind != CLI_FLAG && !is_none;
  snprintf(text, size, "%s--%s%s%.80s%s", is_none ? "without " : "with ", o->name,
           has_value ? " " : "", has_value ? own : "", is_none ? "" : number);
}

static void note_difference(settings_result *s, const cli_option *o, const job_args *want) {
  char asked[160], is[160];
  describe(o, want, asked, sizeof asked);
  describe(o, &s->read, is, sizeof is);
  plim_note_add(&s->notes, "differs.option", o->name, "the file trains %s, the request %s", is,
                asked);
}

// A typed option that differs is one that the trainer does not have. In the others, trainers have their own defaults.
static void compare(settings_result *s, const job_args *want) {
  for (const cli_option *o = job_own_options; o->name; o++) {
    if (is_in(outside, o->name) || job_option_is_same(o, want, &s->read)) continue;
    if (was_asked(s->args, o)) leave_out(s, o);
    note_difference(s, o, want);
  }
}

// The text may set something for which there is no option; it then needs other memory than the options say.
static plim_err note_unsaid(settings_result *s, plim_error *error) {
  const reading *r = s->reading;
  const char *what = job_setting_without_option(&r->args, &r->request.job), *source;
  job_request *said = what ? calloc(1, sizeof *said) : NULL;
  plim_estimate own, other;
  if (!what) return PLIM_OK;
  if (!said) return plim_no_memory(error);
  plim_err err = job_understand(&s->read, &s->read, said, &source, error);
  if (!err) err = plim_estimate_make(&r->request.job, &r->request.target, &own, error);
  if (!err) err = plim_estimate_make(&said->job, &said->target, &other, error);
  uint64_t needs = err ? 0 : own.p.peak_reserved_bytes;
  if (!err && needs != other.p.peak_reserved_bytes)
    plim_note_add(&s->notes, "unsaid.setting", NULL,
                  "the file has %s, for which estimate has no option: the file needs %s, and the "
                  "options need %s",
                  what, units_bytes(needs).text, units_bytes(other.p.peak_reserved_bytes).text);
  job_request_clear(said);
  free(said);
  return err;
}

static plim_err check_training(settings_result *s, const job_args *want, plim_error *error) {
  reading *r = s->reading = calloc(1, sizeof *r);
  if (!r) return plim_no_memory(error);
  plim_error why = {0};
  plim_err err = read_back(s, s->args, r, &why);
  if (err == PLIM_ERR_NOMEM) return plim_no_memory(error);
  if (err) {
    plim_fail(error, err, "%s does not take these settings: %.200s", s->dialect->title,
              why.message);
    if (*why.hint) plim_error_hint(error, "%s", why.hint);
    return err;
  }
  const char *conf = r->args.alloc_conf ? r->args.alloc_conf : "";
  const char *gpu = s->args->gpu ? s->args->gpu : "";
  s->read = job_as_options(&(job_described){&r->request.job, &r->args, &r->request, conf, gpu},
                           &s->read_texts);
  s->is_read = true;
  compare(s, want);
  return note_unsaid(s, error);
}

// ---- a file that is only a part ---------------------------------------------------------------------

static bool is_carried(const plim_project *p, const cli_option *o, const job_args *want) {
  const plim_recipe_file *recipe = &p->files.at[0]->recipe;
  for (size_t i = 0; i < KNOBS; i++) {
    const plim_reading *r = &recipe->knobs[knobs[i].knob];
    plim_value value = knobs[i].wanted(want);
    if (is_in(knobs[i].options, o->name))
      return r->origin == PLIM_EXPLICIT && plim_value_same(&r->value, &value);
  }
  return false;
}

// A part of the settings is compared option by option: what belongs into the file that trains counts as left out.
static plim_err check_part(settings_result *s, const job_args *want, plim_error *error) {
  plim_project p = {0};
  plim_err err = plim_project_add(&p, s->dialect->file, s->text, strlen(s->text), error);
  if (!err) err = plim_project_finish(&p, error);
  for (const cli_option *o = job_own_options; !err && o->name; o++) {
    bool is_own = !is_in(outside, o->name) || is_in(" world nodes ", o->name);
    if (is_own && was_asked(s->args, o) && !is_carried(&p, o, want)) leave_out(s, o);
  }
  plim_project_clear(&p);
  return err;
}

// ---- all together -----------------------------------------------------------------------------------

static void cut_line_break(char *text) {
  size_t n = strlen(text);
  if (n && text[n - 1] == '\n') text[n - 1] = 0;
}

static plim_err write_start(settings_result *s, const settings_run *run, plim_error *error) {
  plim_err err = settings_fill(s->dialect->command, run, &s->command, error);
  if (err) return err;
  cut_line_break(s->command);
  if (!*s->command) free(s->command), s->command = NULL;
  return PLIM_OK;
}

static plim_err write_line(settings_result *s, plim_error *error) {
  s->text = job_command_line(s->args);
  return s->text ? PLIM_OK : plim_no_memory(error);
}

// A trainer cannot find the model by this name.
static void note_model(settings_result *s, const settings_run *run) {
  if (strcmp(settings_model(run), s->args->model) != 0 && s->dialect->kind == SETTINGS_TRAIN &&
      !plim_catalogue_named(s->args->model))
    plim_note_add(&s->notes, "open.model", "model", "put the path of the model in place of %s",
                  settings_model(run));
}

// torchtune builds models with functions of its own.
static plim_err check_model(const settings_result *s, plim_error *error) {
  bool is_there = s->dialect->dialect != PLIM_DIALECT_TORCHTUNE || torchtune_type(s->args->model);
  if (is_there) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                           "torchtune has no function that builds %.80s", job_model_word(s->args));
  plim_error_hint(error, "it has llama-3.1-8b, qwen2.5-7b, gemma-2-9b and others");
  return err;
}

static plim_err write_text(settings_result *s, const settings_run *run, plim_error *error) {
  plim_err err = check_model(s, error);
  if (!err) err = settings_fill(s->dialect->text, run, &s->text, error);
  if (!err) err = write_start(s, run, error);
  if (!err) err = write_knobs(s, run->want, error);
  if (!err) note_model(s, run);
  if (!err)
    err = s->dialect->kind == SETTINGS_PART ? check_part(s, run->want, error)
                                            : check_training(s, run->want, error);
  return err;
}

plim_err settings_make(settings_result *s, const char **source, plim_error *error) {
  job_request *request = calloc(1, sizeof *request);
  job_option_texts texts;
  *source = NULL;
  if (!request) return plim_no_memory(error);
  plim_err err = job_understand(s->args, s->args, request, source, error);
  if (!err) {
    const char *conf = s->args->alloc_conf ? s->args->alloc_conf : "";
    const char *gpu = s->args->gpu ? s->args->gpu : "";
    job_args want =
        job_as_options(&(job_described){&request->job, s->args, request, conf, gpu}, &texts);
    settings_run run = {s->args, &want, request};
    *source = NULL;
    err = s->dialect->kind == SETTINGS_LINE ? write_line(s, error) : write_text(s, &run, error);
  }
  if (!err && s->notes.has_no_memory) err = plim_no_memory(error);
  job_request_clear(request);
  free(request);
  return err;
}

void settings_clear(settings_result *s) {
  if (s->reading) clear_reading(s->reading);
  free(s->reading);
  free(s->text);
  free(s->command);
  plim_edit_set_clear(&s->files);
  plim_notes_clear(&s->notes);
}
