// Reads the edited files again and checks that the changed knobs have their new values and no other knob has changed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "project_change_impl.h"
#include "project_task.h"

bool plim_is_sharing(plim_knob knob) {
  return knob == PLIM_KNOB_STRATEGY || knob == PLIM_KNOB_OFFLOAD;
}

// Without any key, each GPU has a copy of the whole model and nothing is offloaded.
bool plim_is_unshared_value(plim_knob knob, const plim_value *want) {
  if (want->kind != PLIM_VALUE_TEXT) return false;
  bool is_none = strcmp(want->text, "none") == 0;
  return is_none ? plim_is_sharing(knob)
                 : knob == PLIM_KNOB_STRATEGY && strcmp(want->text, "ddp") == 0;
}

// ---- the files again --------------------------------------------------------------------------------

static bool is_unnamed(const plim_edit_set *edits, size_t file) {
  for (size_t i = 0; i < edits->unnamed.len; i++)
    if (edits->unnamed.at[i] == file) return true;
  return false;
}

// A file that nothing refers to any more keeps its index but has no settings.
static plim_err add_again(const plim_project *p, size_t file, const plim_edit_set *edits,
                          plim_project *out, plim_error *error) {
  const char *path = p->files.at[file]->path;
  char *text;
  size_t size;
  if (is_unnamed(edits, file)) return plim_project_add(out, path, "{}", 2, error);
  plim_err err = plim_project_text(p, file, edits, &text, &size, error);
  const plim_project_file *f = p->files.at[file];
  if (!err && f->target)
    err =
        plim_project_add_script(out, path, f->target, f->source, f->source_size, text, size, error);
  else if (!err) err = plim_project_add(out, path, text, size, error);
  free(text);
  return err;
}

plim_err plim_project_edited(const plim_project *p, const plim_edit_set *edits, plim_project *out,
                             plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < p->files.len && !err; i++) err = add_again(p, i, edits, out, error);
  for (size_t i = 0; i < edits->files.len && !err; i++) {
    const plim_new_file *f = &edits->files.at[i];
    err = plim_project_add(out, f->path, f->text, strlen(f->text), error);
  }
  for (size_t i = 0; i < p->bindings.len && !err; i++) {
    const plim_binding *b = p->bindings.at[i];
    if (!b->is_from_names) err = plim_project_bind(out, b->key.knob, b->path, b->name, error);
  }
  return err ? err : plim_project_finish(out, error);
}

static plim_err refuse_changed(const plim_project_knob *now, const plim_project_knob *then,
                               const plim_value *want, plim_knob knob, plim_error *error) {
  char is[48], should[48];
  const char *name = plim_knob_table[knob].name;
  static const plim_value none = {.kind = PLIM_VALUE_TEXT, .text = "none"};
  bool is_none = knob == PLIM_KNOB_OFFLOAD && now->origin == PLIM_ABSENT;
  plim_value_print(is_none ? &none : &now->value, is, sizeof is);
  plim_value_print(want ? want : &then->value, should, sizeof should);
  if (now->origin == PLIM_UNCLEAR)
    return plim_fail(error, PLIM_ERR_UNSUPPORTED, "with these changes, %s would be unclear: %s",
                     name, now->why);
  return plim_fail(error, PLIM_ERR_UNSUPPORTED, "with these changes, %s would be %s, not %s", name,
                   is, should);
}

// The setting from which a computed setting is computed, if it is in this file; otherwise the setting itself.
static const plim_setting *origin_of(const plim_settings *s, const plim_setting *setting) {
  enum { HOPS = 8 };
  for (int i = 0; i < HOPS && setting->value.kind == PLIM_VALUE_DERIVED; i++) {
    const plim_setting *next =
        plim_settings_find(s, setting->root ? setting->root : setting->value.text);
    if (!next || next == setting) break;
    setting = next;
  }
  return setting;
}

static void hint_origin(const plim_project_file *f, const plim_setting *setting,
                        plim_error *error) {
  const plim_setting *origin = origin_of(&f->settings, setting);
  char text[96];
  plim_value_print(&origin->value, text, sizeof text);
  if (origin == setting)
    plim_error_hint(error, "write a number in line %d, or change what it is computed from",
                    setting->line);
  else
    plim_error_hint(error, "write a number in line %d, or change %.80s = %.80s in line %d",
                    setting->line, origin->key, text, origin->line);
}

// Refuses to change a knob that is computed: names the expression and the resulting value.
static plim_err refuse_computed(const plim_project *p, const plim_project_knob *then,
                                const plim_project_knob *now, plim_knob knob, plim_error *error) {
  const plim_setting *setting = then->places[0].setting;
  char value[48];
  plim_value_print(&now->value, value, sizeof value);
  bool stays = plim_value_same(&now->value, &then->value);
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                           "the file computes %s: %.60s = %.80s, which %s %s, and plimsoll does "
                           "not rewrite expressions",
                           plim_knob_table[knob].name, setting->key, setting->value.text,
                           stays ? "is" : "would be", value);
  hint_origin(p->files.at[then->places[0].file], setting, error);
  return plim_error_file_of(p, then->places[0].file, err, error);
}

static bool is_computed(const plim_project_knob *k) {
  return k->place_count && k->places[0].setting &&
         k->places[0].setting->value.kind == PLIM_VALUE_DERIVED;
}

static plim_err refuse_batch(plim_error *error) {
  return plim_fail(error, PLIM_ERR_ARGUMENT,
                   "micro batch x accumulation x GPUs would not equal the global batch");
}

static bool brings_fused_loss(const plim_project *p, const plim_knob_change *changes,
                              size_t count) {
  for (size_t i = 0; i < count; i++)
    if (plim_project_takes_liger(p, &changes[i])) return true;
  return false;
}

static bool is_as_wanted(const plim_project_knob *now, plim_knob knob, const plim_value *want) {
  return plim_value_same(&now->value, want) ||
         (now->origin == PLIM_ABSENT && plim_is_unshared_value(knob, want));
}

// The files do not say how many GPUs there are, so the number of passes follows only when the training starts: a whole
// number of GPUs must make it what is wanted.
static bool follows_later(const plim_project *q, const plim_value *want) {
  return plim_project_divides(q) && !plim_project_ranks(q, 0) &&
         plim_project_quotient(q, want->integer);
}

// A new strategy may leave a knob to its default that the keys of the old one set explicitly; resharding is part
// of the strategy.
static bool is_as_before(const plim_project_knob *now, const plim_project_knob *then,
                         plim_knob knob, bool is_shared_anew) {
  bool is_same = plim_value_same(&now->value, &then->value);
  if (!is_shared_anew) return is_same && now->origin == then->origin;
  bool is_clear = now->origin != PLIM_UNCLEAR || then->origin == PLIM_UNCLEAR;
  bool is_silent = now->origin == PLIM_ABSENT && plim_is_unshared_value(knob, &then->value);
  return knob == PLIM_KNOB_RESHARD || is_silent || (is_same && is_clear);
}

static plim_err compare(const plim_project *p, const plim_project *q,
                        const plim_knob_change *changes, size_t count, plim_error *error) {
  bool is_shared_anew = plim_change_of(changes, count, PLIM_KNOB_STRATEGY);
  for (int i = 0; i < PLIM_KNOBS; i++) {
    const plim_project_knob *then = &p->knobs[i], *now = &q->knobs[i];
    const plim_value *want = plim_change_of(changes, count, (plim_knob)i);
    bool is_quotient = i == PLIM_KNOB_ACCUMULATE && plim_project_divides(q);
    bool is_passes = i == PLIM_KNOB_ACCUMULATE && want;
    bool is_well = is_passes && follows_later(q, want) ? true
                   : want                              ? is_as_wanted(now, (plim_knob)i, want)
                          : is_quotient || is_as_before(now, then, (plim_knob)i, is_shared_anew);
    is_well =
        is_well || (i == PLIM_KNOB_CHUNKED_LOSS && !want && brings_fused_loss(p, changes, count));
    bool is_inferred = i == PLIM_KNOB_WORLD && then->origin != PLIM_EXPLICIT; // from the batch
    if (!is_well && is_inferred) return refuse_batch(error);
    if (!is_well && is_computed(then)) return refuse_computed(p, then, now, (plim_knob)i, error);
    if (!is_well) return refuse_changed(now, then, want, (plim_knob)i, error);
  }
  if (plim_project_multiplies_out(p) && !plim_project_multiplies_out(q)) return refuse_batch(error);
  return PLIM_OK;
}

plim_err plim_project_check(const plim_project *p, const plim_knob_change *changes, size_t count,
                            const plim_edit_set *edits, plim_error *error) {
  plim_project again = {0};
  plim_err err = plim_project_edited(p, edits, &again, error);
  if (!err) err = compare(p, &again, changes, count, error);
  if (!err) err = plim_project_refuse_moves(p, &again, changes, count, edits, error);
  plim_project_clear(&again);
  return err;
}
