#include "plan_edits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "project_change.h"
#include "quoting.h"

// Axolotl's checkpoints are reentrant if a file has no word for it; beside hidden_states only with the word.
static bool must_say_reentrant(const plan_for_card *c, const plim_choice *to) {
  const plim_recipe *own = &c->asked.job.recipe;
  plim_job job = plim_choice_job(&c->asked, to);
  bool is_new = job.recipe.saving == PLIM_SAVED_INPUTS && !own->saving;
  return c->asked.on_is_reentrant && is_new && job.recipe.checkpoint == PLIM_CHECKPOINT_REENTRANT;
}

// The value of a knob in the notation of files.
static plim_value file_value(const plan_for_card *c, plim_knob knob, const plim_choice *choice) {
  const char *text = plim_knob_value_name(knob, choice->at[knob]);
  if (knob == PLIM_KNOB_ALLOC_CONF) text = plim_choice_conf(&c->asked, choice);
  bool is_reentrant = knob == PLIM_KNOB_CHECKPOINT && choice->at[knob] == PLIM_CHECKPOINT_REENTRANT;
  bool is_silent = c->asked.on_is_reentrant && !must_say_reentrant(c, choice);
  if (is_reentrant && is_silent) text = "on";
  if (text) return (plim_value){.kind = PLIM_VALUE_TEXT, .text = text};
  return (plim_value){.kind = PLIM_VALUE_INTEGER, .integer = choice->at[knob]};
}

// Returns an error only if memory runs out. Any other reason why the change cannot be written is stored in `why`.
static plim_err try_write(const plim_project *p, const plim_knob_change *changes, size_t count,
                          bool *can, plim_error *why) {
  plim_edit_set edits;
  plim_err err = plim_project_set(p, changes, count, &edits, why);
  *can = !err;
  if (!err) plim_edit_set_clear(&edits);
  return err == PLIM_ERR_NOMEM ? err : PLIM_OK;
}

plim_err plan_can_write(const plim_project *project, const plim_knob_change *changes, size_t count,
                        bool *can, plim_error *error) {
  plim_error why = {0};
  plim_err err = try_write(project, changes, count, can, &why);
  return err ? plim_fail(error, err, "%s", why.message) : PLIM_OK;
}

// The reason in the editor's message, without "cannot change liger to on: ", which the step itself says.
static const char *why_only(const plim_knob_change *change, const char *message) {
  char prefix[160], value[64];
  plim_value_print(&change->value, value, sizeof value);
  snprintf(prefix, sizeof prefix, "cannot change %s to %s: ", plim_knob_table[change->knob].name,
           value);
  return strncmp(message, prefix, strlen(prefix)) == 0 ? message + strlen(prefix) : message;
}

static void leave(plan_edits *out, const plim_knob_change *change, const plim_error *error) {
  if (out->by_hand_count == PLAN_MAX_WRITES) return;
  size_t i = out->by_hand_count++;
  out->by_hand[i].knob = change->knob;
  out->by_hand[i].value = change->value;
  char *reason = out->by_hand[i].reason;
  size_t size = sizeof out->by_hand[i].reason;
  if (change->knob == PLIM_KNOB_ALLOC_CONF)
    snprintf(reason, size,
             "export PYTORCH_CUDA_ALLOC_CONF=%s in the shell that starts the training",
             change->value.text);
  else
    snprintf(reason, size, "%s%s%s", why_only(change, error->message), *error->hint ? "; " : "",
             error->hint);
}

// Adds the changes if they can be written together with those so far.
static plim_err add(const plim_project *p, plan_edits *out, const plim_knob_change *changes,
                    size_t count, plim_error *error) {
  bool can;
  if (out->write_count + count > PLAN_MAX_WRITES) return PLIM_OK;
  memcpy(out->writes + out->write_count, changes, count * sizeof *changes);
  plim_error why = {0};
  plim_err err = try_write(p, out->writes, out->write_count + count, &can, &why);
  if (err) return plim_fail(error, err, "%s", why.message);
  if (can) out->write_count += count;
  for (size_t i = 0; !can && i < count; i++) leave(out, &changes[i], &why);
  return PLIM_OK;
}

bool plan_edits_are_half(const plan_edits *edits) {
  return edits->by_hand_count && !edits->as_written.fits;
}

static void estimate_as_written(const plan_for_card *c, const plim_rung *rung, plan_edits *out) {
  plim_choice written = rung->choice;
  for (size_t i = 0; i < out->by_hand_count; i++) {
    plim_knob knob = out->by_hand[i].knob;
    written.at[knob] = c->plan.before_choice.at[knob];
  }
  plim_error error = {0};
  if (plim_choice_estimate(&c->asked, &written, &out->as_written, &error))
    out->as_written = (plim_estimate){0}; // not known: treated as not fitting
}

// Knobs that are written together or not at all: micro batch and accumulation, which keep the effective batch, and
// strategy and offload.
static int group_of(plim_knob knob) {
  if (knob == PLIM_KNOB_MICRO_BATCH || knob == PLIM_KNOB_ACCUMULATE) return 1;
  return knob == PLIM_KNOB_STRATEGY || knob == PLIM_KNOB_OFFLOAD ? 2 : 0;
}

// One key may set both, or each has its own: if they cannot be written together, they are tried one by one.
static plim_err add_types(const plim_project *p, plan_edits *out, const plim_knob_change *changes,
                          size_t count, plim_error *error) {
  plim_knob_change all[PLAN_MAX_WRITES];
  size_t had = out->write_count;
  if (had + count > PLAN_MAX_WRITES) return PLIM_OK;
  memcpy(all, out->writes, had * sizeof *all);
  memcpy(all + had, changes, count * sizeof *all);
  bool together = false;
  plim_err err = count > 1 ? plan_can_write(p, all, had + count, &together, error) : PLIM_OK;
  if (!err && together) return add(p, out, changes, count, error);
  for (size_t i = 0; !err && i < count; i++) err = add(p, out, &changes[i], 1, error);
  return err;
}

void plan_fix_flag(const plan_for_card *c, plim_knob knob, char *text, size_t size) {
  char value[96];
  size_t used = strlen(text);
  plim_knob_value_text(knob, c->plan.before_choice.at[knob], value, sizeof value);
  snprintf(text + used, size - used, "%s--fix %s=%s", used ? " " : "", plim_knob_table[knob].name,
           value);
}

static bool is_zero(const plim_choice *c) { return c->at[PLIM_KNOB_STRATEGY] >= PLIM_SHARD_ZERO1; }

// Under Trainer, DeepSpeed computes in the dtype of its arguments, whatever the dtype of the loaded weights: without
// bf16 it converts them to float32. Setting bf16 costs nothing if the weights are bf16 already.
static bool must_say_bf16(const plim_project *p, const plan_for_card *c, const plim_choice *to) {
  const plim_choice *from = &c->plan.before_choice;
  plim_job job = plim_choice_job(&c->asked, to);
  bool is_trainer = p->dialect != PLIM_DIALECTS && plim_dialect_table[p->dialect].has_trainer;
  bool is_silent = from->at[PLIM_KNOB_PRECISION] == to->at[PLIM_KNOB_PRECISION] &&
                   strcmp(file_value(c, PLIM_KNOB_PRECISION, to).text, "none") == 0;
  return is_trainer && is_zero(to) && !is_zero(from) && is_silent && job.dtype == PLIM_BF16;
}

static plim_err add_sharing(const plim_project *p, const plan_for_card *c, const plim_choice *to,
                            plan_edits *out, plim_knob_change changes[3], size_t count,
                            plim_error *error) {
  if (must_say_bf16(p, c, to))
    changes[count++] =
        (plim_knob_change){PLIM_KNOB_PRECISION, {.kind = PLIM_VALUE_TEXT, .text = "bf16"}};
  return add(p, out, changes, count, error);
}

// LLaMA-Factory's launcher sets it for every run that torchrun starts.
bool plan_launcher_sets_conf(const plim_project *p, const plan_for_card *c, const plim_choice *to) {
  return to->at[PLIM_KNOB_STRATEGY] != PLIM_SHARD_NONE && project_launcher_forces_conf(p) &&
         strcmp(plim_choice_conf(&c->asked, to), PROJECT_LAUNCHER_CONF) == 0;
}

plim_err plan_edits_of(const plim_project *project, const plan_for_card *c, const plim_rung *rung,
                       plan_edits *out, plim_error *error) {
  const plim_choice *from = &c->plan.before_choice, *to = &rung->choice;
  plim_knob_change groups[3][3], types[2];
  size_t counts[3] = {0}, of_types = 0;
  plim_err err = PLIM_OK;
  *out = (plan_edits){0};
  for (size_t i = 0; !err && i < plim_plan_knob_count; i++) {
    plim_knob knob = plim_plan_knobs[i];
    bool is_said = knob == PLIM_KNOB_CHECKPOINT && must_say_reentrant(c, to);
    if (from->at[knob] == to->at[knob] && !is_said) continue;
    if (knob == PLIM_KNOB_ALLOC_CONF && plan_launcher_sets_conf(project, c, to)) continue;
    plim_knob_change change = {knob, file_value(c, knob, to)};
    int group = group_of(knob);
    if (group) groups[group][counts[group]++] = change;
    else if (knob == PLIM_KNOB_PRECISION || knob == PLIM_KNOB_DTYPE) types[of_types++] = change;
    else err = add(project, out, &change, 1, error);
  }
  if (!err) err = add_types(project, out, types, of_types, error);
  if (!err && counts[2]) err = add_sharing(project, c, to, out, groups[2], counts[2], error);
  if (!err && counts[1]) err = add(project, out, groups[1], counts[1], error);
  if (!err && out->by_hand_count) estimate_as_written(c, rung, out);
  return err;
}

static bool has_offload(const plim_project *p) {
  const plim_project_knob *k = &p->knobs[PLIM_KNOB_OFFLOAD];
  return k->value.kind == PLIM_VALUE_TEXT && strcmp(k->value.text, "none") != 0;
}

plim_err plan_can_share(const plim_project *project, int64_t strategy, int64_t offload, bool *can,
                        plim_error *error) {
  plim_knob_change both[] = {
      {PLIM_KNOB_STRATEGY,
       {.kind = PLIM_VALUE_TEXT, .text = plim_knob_value_name(PLIM_KNOB_STRATEGY, strategy)}},
      {PLIM_KNOB_OFFLOAD,
       {.kind = PLIM_VALUE_TEXT, .text = plim_knob_value_name(PLIM_KNOB_OFFLOAD, offload)}}};
  size_t count = offload || has_offload(project) ? 2 : 1;
  return plan_can_write(project, both, count, can, error);
}

bool plan_edits_outside(const plim_project *p, const plim_edit_set *edits) {
  bool is_outside = false;
  for (size_t i = 0; i < edits->at.len && !is_outside; i++)
    is_outside = plim_path_is_outside(p->files.at[edits->at.at[i].file]->path);
  for (size_t i = 0; i < edits->files.len && !is_outside; i++)
    is_outside = plim_path_is_outside(edits->files.at[i].path);
  return is_outside;
}

plim_err plan_diff_of(const plim_project *p, const plim_knob_change *changes, size_t count,
                      plim_diff *out, plim_error *error) {
  plim_edit_set edits;
  *out = (plim_diff){0};
  if (!count) return PLIM_OK;
  plim_err err = plim_project_set(p, changes, count, &edits, error);
  if (err) return err;
  bool from_root = plan_edits_outside(p, &edits);
  for (size_t i = 0; !err && i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    char *text = NULL, name[PLIM_PATH_BYTES];
    size_t size, source_size;
    const char *source = plim_source_of(f, &source_size);
    if (f->is_typed) continue;
    plim_path_in_diff(f->path, from_root, name);
    err = plim_project_written(p, i, &edits, &text, &size, error);
    if (!err) err = plim_diff_add(out, name, source, source_size, text, size, error);
    free(text);
  }
  for (size_t i = 0; !err && i < edits.files.len; i++) {
    const plim_new_file *f = &edits.files.at[i];
    char name[PLIM_PATH_BYTES];
    if (f->is_there) continue;
    plim_path_in_diff(f->path, from_root, name);
    err = plim_diff_add(out, name, NULL, 0, f->text, strlen(f->text), error);
  }
  plim_edit_set_clear(&edits);
  if (err) plim_diff_clear(out);
  return err;
}

// Without the line before the command and the line end after it, which a plan from elsewhere may not have.
static char *command_in(const char *script, size_t size) {
  size_t start = strlen(PLIM_SCRIPT_START);
  if (size < start || memcmp(script, PLIM_SCRIPT_START, start) != 0) start = 0;
  if (size > start && script[size - 1] == '\n') size--;
  return plim_copy_of(script + start, size - start);
}

// `is_wanted_same`: also if the changes do not concern it.
static plim_err typed_command(const plim_project *p, const plim_edit_set *edits,
                              bool is_wanted_same, char **out, plim_error *error) {
  plim_err err = PLIM_OK;
  *out = NULL;
  for (size_t i = 0; !err && i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    char *text = NULL;
    size_t size;
    if (!f->is_typed) continue;
    err = plim_project_text(p, i, edits, &text, &size, error);
    bool is_same = err || (size == f->size && memcmp(text, f->text, size) == 0);
    if (!err && (!is_same || is_wanted_same)) {
      *out = command_in(text, size);
      if (!*out) err = plim_no_memory(error);
    }
    free(text);
  }
  return err;
}

plim_err plan_command_of(const plim_project *p, const plim_knob_change *changes, size_t count,
                         char **out, plim_error *error) {
  plim_edit_set edits;
  *out = NULL;
  if (!count) return PLIM_OK;
  plim_err err = plim_project_set(p, changes, count, &edits, error);
  if (err) return err;
  err = typed_command(p, &edits, false, out, error);
  plim_edit_set_clear(&edits);
  return err;
}

plim_err plan_command_with(const plim_project *p, const plim_knob_change *changes, size_t count,
                           char **out, plim_error *error) {
  plim_edit_set edits = {0};
  *out = NULL;
  plim_err err = count ? plim_project_set(p, changes, count, &edits, error) : PLIM_OK;
  if (err) return err;
  err = typed_command(p, &edits, true, out, error);
  plim_edit_set_clear(&edits);
  return err;
}
