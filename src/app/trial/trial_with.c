// The program with settings that the user names: `simulate --with KNOB=V`.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_conf.h"
#include "plan_options.h"
#include "trial_impl.h"

typedef struct {
  plim_knob_change at[PLIM_KNOBS];
  size_t count;
} change_list;

// ---- what was typed ---------------------------------------------------------------------------------

static plim_err refuse_twice(const char *text, plim_knob knob, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "--with %.64s: %s was given before", text,
                           plim_knob_table[knob].name);
  plim_error_hint(error, "give each setting only once");
  return err;
}

// PyTorch reads this setting itself, so any text that it accepts is possible.
static plim_err read_conf(const char *text, plim_value *value, plim_error *error) {
  const char *conf = strchr(text, '=') + 1;
  plim_alloc_conf read;
  plim_err err = plim_alloc_conf_parse(conf, &read, error);
  *value = (plim_value){.kind = PLIM_VALUE_TEXT, .text = conf};
  if (error) error->byte = PLIM_UNKNOWN;
  return err;
}

static plim_err read_one(const char *text, change_list *out, plim_error *error) {
  plim_knob knob = PLIM_KNOBS;
  plim_value value = {0};
  plim_error why = {0}; // of a value that the planner does not know
  plim_err err = plan_read_setting("--with", text, &knob, &value, &why);
  bool is_conf = knob == PLIM_KNOB_ALLOC_CONF;
  if (err && is_conf && strchr(text, '=')) err = read_conf(text, &value, error);
  else if (err && error) *error = why;
  if (err) return err;
  for (size_t i = 0; i < out->count; i++)
    if (out->at[i].knob == knob) return refuse_twice(text, knob, error);
  if (!is_conf || strcmp(value.text, "unchanged") != 0)
    out->at[out->count++] = (plim_knob_change){knob, value};
  return PLIM_OK;
}

// ---- the environment --------------------------------------------------------------------------------

// PyTorch reads the first of these that is set.
static const char *conf_variable(void) {
  return getenv("PYTORCH_ALLOC_CONF") ? "PYTORCH_ALLOC_CONF" : "PYTORCH_CUDA_ALLOC_CONF";
}

// If neither a file nor the command has the allocator's settings, they are set in the program's environment.
static plim_err take_variable(trial_with *w, const plim_project *p, change_list *list,
                              plim_error *error) {
  if (p->knobs[PLIM_KNOB_ALLOC_CONF].place_count) return PLIM_OK;
  for (size_t i = 0; i < list->count; i++) {
    if (list->at[i].knob != PLIM_KNOB_ALLOC_CONF) continue;
    const char *name = conf_variable(), *before = getenv(name), *text = list->at[i].value.text;
    trial_changed one = {.knob = PLIM_KNOB_ALLOC_CONF, .where = TRIAL_IN_ENVIRONMENT};
    snprintf(one.key, sizeof one.key, "%s", name);
    snprintf(one.from, sizeof one.from, "%s", before ? before : "");
    snprintf(one.to, sizeof one.to, "%s", text);
    if (asprintf(&w->variables[0], "%s=%s", name, text) < 0) {
      w->variables[0] = NULL;
      return plim_no_memory(error);
    }
    list->at[i] = list->at[--list->count];
    return vec_push(&w->changed, one) ? PLIM_OK : plim_no_memory(error);
  }
  return PLIM_OK;
}

// ---- what changes -----------------------------------------------------------------------------------

static void value_of(const plim_knob_place *place, char *text, size_t size) {
  plim_value_word(place->setting ? &place->setting->value : &place->value, text, size);
}

// The same key of the same file before the change; NULL: it is new.
static const plim_knob_place *place_before(const plim_project_knob *k, const plim_knob_place *now) {
  for (size_t i = 0; i < k->place_count; i++) {
    const plim_knob_place *then = &k->places[i];
    bool has_keys = then->setting && now->setting;
    if (then->file == now->file && has_keys && strcmp(then->setting->key, now->setting->key) == 0)
      return then;
  }
  return NULL;
}

// The first file is the command line; those that are added come last.
static trial_where where_of(const plim_project *p, const plim_knob_place *place) {
  if (!place->file) return TRIAL_IN_COMMAND;
  return place->file < p->files.len ? TRIAL_IN_FILE : TRIAL_IN_ADDED_FILE;
}

static bool add_place(trial_with *w, const plim_project *p, const plim_project *q, plim_knob knob,
                      const plim_knob_place *place) {
  const plim_project_knob *then = &p->knobs[knob];
  trial_changed one = {.knob = knob, .where = where_of(p, place)};
  const plim_knob_place *before = place_before(then, place);
  const char *key = place->setting ? place->setting->key : plim_knob_table[knob].name;
  if (place->file) one.file = strdup(q->files.at[place->file]->path);
  snprintf(one.key, sizeof one.key, "%s", key);
  if (before) value_of(before, one.from, sizeof one.from);
  value_of(place, one.to, sizeof one.to);
  if ((!place->file || one.file) && vec_push(&w->changed, one)) return true;
  free(one.file);
  return false;
}

static bool add_computed(trial_with *w, plim_knob knob, const plim_project_knob *then,
                         const plim_project_knob *now) {
  trial_changed one = {.knob = knob, .where = TRIAL_COMPUTED};
  snprintf(one.key, sizeof one.key, "%s", plim_knob_table[knob].name);
  if (then->origin != PLIM_ABSENT) plim_value_word(&then->value, one.from, sizeof one.from);
  plim_value_word(&now->value, one.to, sizeof one.to);
  return vec_push(&w->changed, one);
}

static bool is_asked(const change_list *list, plim_knob knob) {
  for (size_t i = 0; i < list->count; i++)
    if (list->at[i].knob == knob) return true;
  return false;
}

static bool list_changed(trial_with *w, const plim_project *p, const plim_project *q,
                         const change_list *list) {
  bool ok = true;
  for (int i = 0; ok && i < PLIM_KNOBS; i++) {
    const plim_project_knob *then = &p->knobs[i], *now = &q->knobs[i];
    bool is_same = plim_value_same(&then->value, &now->value);
    if (is_same && !is_asked(list, (plim_knob)i)) continue;
    if (!now->place_count) ok = add_computed(w, (plim_knob)i, then, now);
    for (size_t k = 0; ok && k < now->place_count; k++)
      ok = add_place(w, p, q, (plim_knob)i, &now->places[k]);
  }
  return ok;
}

static int64_t count_of(const plim_project_knob *k) {
  bool is_count = k->origin >= PLIM_DEFAULTED && k->origin != PLIM_UNCLEAR &&
                  k->value.kind == PLIM_VALUE_INTEGER;
  return is_count && k->value.integer > 0 ? k->value.integer : 0;
}

// GPUs; 0: not known.
static int64_t world_of(const plim_project *p, const trial_options *options) {
  bool is_one = !options->world && p->knobs[PLIM_KNOB_WORLD].origin == PLIM_ABSENT;
  return is_one ? 1 : (int64_t)options->world;
}

static int64_t effective_of(const plim_project *p, int64_t world) {
  const plim_project_knob *k = &p->knobs[PLIM_KNOB_ACCUMULATE];
  int64_t micro = count_of(&p->knobs[PLIM_KNOB_MICRO_BATCH]), steps = 0;
  if (!plim_project_accumulation(p, micro, world, &steps))
    steps = k->origin == PLIM_ABSENT ? 1 : count_of(k);
  return micro * steps * plim_project_ranks(p, world);
}

// The accumulation with which the effective batch would stay; 0 if there is none, or the program has no place for it.
static int64_t keeping_accumulation(const plim_project *p, const plim_project *q, int64_t world,
                                    const trial_with *w, const change_list *list) {
  change_list more = *list;
  plim_edit_set edits;
  int64_t part = count_of(&q->knobs[PLIM_KNOB_MICRO_BATCH]) * plim_project_ranks(q, world);
  bool has_changed = w->effective_after && w->effective_before != w->effective_after;
  if (!has_changed || is_asked(list, PLIM_KNOB_ACCUMULATE)) return 0;
  int64_t steps = part && w->effective_before % part == 0 ? w->effective_before / part : 0;
  if (!steps || more.count == PLIM_KNOBS) return 0;
  more.at[more.count++] =
      (plim_knob_change){PLIM_KNOB_ACCUMULATE, {.kind = PLIM_VALUE_INTEGER, .integer = steps}};
  if (plim_project_set(p, more.at, more.count, &edits, NULL)) return 0;
  plim_edit_set_clear(&edits);
  return steps;
}

// ---- all of it --------------------------------------------------------------------------------------

static plim_err make_version(trial_with *w, const plim_project *p, const trial_options *options,
                             const change_list *list, plim_error *error) {
  plim_edit_set edits;
  plim_project q = {0};
  plim_err err = plim_project_set(p, list->at, list->count, &edits, error);
  if (err && p->files.len == 1)
    plim_error_hint(error, "the command names no script or configuration file that exists here; "
                           "if the program has a flag for it, add the flag to the command");
  if (err) return err;
  err = trial_version_of(p, options->words, options->parent, &edits, &w->version, error);
  if (!err) err = plim_project_edited(p, &edits, &q, error);
  if (!err && !list_changed(w, p, &q, list)) err = plim_no_memory(error);
  if (!err) w->effective_before = effective_of(p, world_of(p, options));
  if (!err) w->effective_after = effective_of(&q, world_of(&q, options));
  if (!err) w->keeping_accumulation = keeping_accumulation(p, &q, world_of(&q, options), w, list);
  plim_project_clear(&q);
  plim_edit_set_clear(&edits);
  return err;
}

plim_err trial_with_make(trial_with *w, const trial_options *options, const cli_strings *texts,
                         plim_error *error) {
  change_list list = {0};
  project_job files = {0};
  plim_err err = PLIM_OK;
  *w = (trial_with){0};
  for (size_t i = 0; !err && i < texts->len; i++) err = read_one(texts->at[i], &list, error);
  if (!err) err = trial_read_command(&files, options->words, options->sets, error);
  if (err) return err;
  err = take_variable(w, &files.project, &list, error);
  if (!err) err = make_version(w, &files.project, options, &list, error);
  project_job_clear(&files);
  return err;
}

void trial_with_clear(trial_with *w) {
  for (size_t i = 0; i < w->changed.len; i++) free(w->changed.at[i].file);
  vec_free(&w->changed);
  free(w->variables[0]);
  trial_version_clear(&w->version);
  *w = (trial_with){0};
}
