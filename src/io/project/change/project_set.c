// Turns changes of knobs into edits of files.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch_file.h"
#include "project_change_impl.h"
#include "project_share.h"
#include "project_task.h"

// ---- one knob in all its places ---------------------------------------------------------------------

static bool is_idle(const plim_project_file *f, const plim_edit *edit) {
  size_t size = edit->span.end - edit->span.begin;
  return strlen(edit->text) == size && memcmp(f->text + edit->span.begin, edit->text, size) == 0;
}

static plim_err keep(plim_edit_set *out, size_t file, plim_task *t, plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < t->done.len; i++)
    if (is_idle(t->f, &t->done.at[i])) free(t->done.at[i].text);
    else if (err || !vec_push(&out->at, (plim_file_edit){file, t->done.at[i]})) {
      free(t->done.at[i].text);
      err = plim_no_memory(error);
    }
  vec_free(&t->done);
  return err;
}

// A row that matches a call ("*optim.adamw.*"), whatever its arguments.
static bool is_by_call(const plim_knob_place *place) {
  const char *key = place->key->key;
  return *key && key[strlen(key) - 1] == '*' && place->setting && strrchr(place->setting->key, '.');
}

// Writes the name of the call in a key: "torch.optim.AdamW" of torch.optim.AdamW#2.lr.
static void describe_call(const char *key, char *why, size_t size) {
  const char *dot = strrchr(key, '.');
  size_t number = strcspn(key, "#"), n = (size_t)(dot - key);
  if (number < n) n = number;
  snprintf(why, size, "the call %.*s(...) decides it: change that call in your code",
           (int)(n < 96 ? n : 96), key);
}

// Writes the reason why the deciding key can never be set to this value; false if it could. For rows with a pattern, the
// matched key is named.
static bool find_refusal(const plim_knob_place *place, const plim_value *value, const char *tried,
                         char *why, size_t size) {
  plim_value out;
  const plim_key *key = place->key;
  bool is_closed = key->flags & PLIM_KEY_READ_ONLY, is_pattern = strchr(key->key, '*') != NULL;
  const char *name = is_pattern && place->setting ? place->setting->key : key->key;
  if (is_closed)
    snprintf(why, size, "%.96s depends on other keys that have to change with it", name);
  else if (*tried || plim_key_inverse(key, value, &out)) return false;
  else if (is_by_call(place)) describe_call(place->setting->key, why, size);
  else snprintf(why, size, "no value of %.96s does this", name);
  return true;
}

// `place` decides the knob; NULL: none does. `tried` is why an attempt was rejected, `origin` the editor's error.
static plim_err refuse(const plim_project *p, const plim_knob_place *place,
                       const plim_knob_change *c, const char *tried, const plim_error *origin,
                       plim_error *error) {
  char value[64], why[200] = "it is not clear where to insert it";
  const char *name = plim_knob_table[c->knob].name;
  plim_value_print(&c->value, value, sizeof value);
  bool is_explicit = place && place->key && find_refusal(place, &c->value, tried, why, sizeof why);
  if (!is_explicit && *tried) snprintf(why, sizeof why, "%.190s", tried);
  else if (!is_explicit && origin->message[0]) snprintf(why, sizeof why, "%.190s", origin->message);
  plim_err err =
      plim_fail(error, PLIM_ERR_UNSUPPORTED, "cannot change %s to %s: %s", name, value, why);
  if (!is_explicit || !is_by_call(place))
    plim_error_hint(error, "if another key decides it, run again with --set %s=FILE:KEY", name);
  return plim_error_file_of(p, place ? place->file : SIZE_MAX, err, error);
}

// All changes, and the edits made so far.
typedef struct {
  const plim_project *p;
  const plim_knob_change *changes;
  size_t count;
  plim_edit_set *out;
} job;

static bool has_edits(const job *j, size_t file) {
  for (size_t i = 0; i < j->out->at.len; i++)
    if (j->out->at.at[i].file == file) return true;
  return false;
}

// Whether the edited file already has the value, because another knob changed the same key.
static bool is_done(const job *j, size_t file, const plim_knob_change *c) {
  const plim_project_file *f = j->p->files.at[file];
  plim_settings s;
  plim_recipe_file recipe;
  char *text;
  size_t size;
  bool is = false;
  if (f->recipe.dialect == PLIM_DIALECTS || !has_edits(j, file)) return false;
  if (plim_project_text(j->p, file, j->out, &text, &size, NULL)) return false;
  if (!plim_settings_read_like(&f->settings, text, size, &s, NULL)) {
    is = !plim_recipe_file_read(&s, f->recipe.dialect, &recipe, NULL) &&
         recipe.knobs[c->knob].origin >= PLIM_DEFAULTED &&
         plim_value_same(&recipe.knobs[c->knob].value, &c->value);
    plim_settings_clear(&s);
  }
  free(text);
  return is;
}

static plim_task task_of(const job *j, size_t file, const plim_knob_change *c) {
  return (plim_task){.f = j->p->files.at[file],
                     .knob = c->knob,
                     .value = &c->value,
                     .changes = j->changes,
                     .change_count = j->count};
}

static plim_err refuse_shipped(const plim_project *p, size_t file, const plim_knob_change *c,
                               plim_error *error) {
  const plim_project_file *f = p->files.at[file];
  char value[64];
  plim_value_print(&c->value, value, sizeof value);
  plim_err err =
      plim_fail(error, PLIM_ERR_UNSUPPORTED,
                "cannot change %s to %s: it is set in %.96s, a file of %s that is not here",
                plim_knob_table[c->knob].name, value, f->path, f->shipped_by);
  plim_error_hint(error, "copy that file, change the copy, and refer to the copy");
  return err;
}

static plim_err refuse_notebook(const plim_project *p, const plim_knob_place *place,
                                const plim_knob_change *c, plim_error *error) {
  char value[64];
  plim_value_print(&c->value, value, sizeof value);
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                           "%s must become %s in a cell of %.96s, which is not written",
                           plim_knob_table[c->knob].name, value, p->files.at[place->file]->path);
  if (place->setting) plim_error_hint(error, "change %.120s there", place->setting->key);
  return err;
}

static plim_err change_places(const job *j, const plim_knob_change *c, plim_error *error) {
  const plim_project_knob *k = &j->p->knobs[c->knob];
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < k->place_count && !err; i++) {
    const plim_knob_place *place = &k->places[i];
    if (j->p->files.at[place->file]->shipped_by) return refuse_shipped(j->p, place->file, c, error);
    if (j->p->files.at[place->file]->is_notebook) return refuse_notebook(j->p, place, c, error);
    if (place->setting && place->setting->value.kind == PLIM_VALUE_DERIVED) continue;
    plim_task t = task_of(j, place->file, c);
    plim_error why = {0};
    t.decides = place->setting;
    t.key = place->key;
    t.is_bound = place->key && !*place->key->key;
    if (!t.is_bound && is_done(j, place->file, c)) continue;
    bool is_made = plim_task_perform(&t, &why);
    if (is_made) err = keep(j->out, place->file, &t, error);
    else if (t.has_no_memory) err = plim_no_memory(error);
    else err = refuse(j->p, place, c, t.why, &why, error);
  }
  return err;
}

static bool is_shared(const plim_project *p) {
  const plim_project_knob *k = &p->knobs[PLIM_KNOB_STRATEGY];
  bool is_known = k->origin == PLIM_EXPLICIT && k->value.kind == PLIM_VALUE_TEXT;
  return is_known &&
         (strncmp(k->value.text, "zero", 4) == 0 || strcmp(k->value.text, "fsdp2") == 0);
}

static bool has_adapters(const plim_project *p) {
  const plim_project_knob *k = &p->knobs[PLIM_KNOB_LORA_RANK];
  return k->origin >= PLIM_UNCLEAR || (k->value.kind == PLIM_VALUE_INTEGER && k->value.integer > 0);
}

// The reason why a knob has no effect here: it needs adapters, ZeRO or FSDP2. NULL: it may have one.
static const char *why_idle(const plim_project *p, const plim_knob_change *c) {
  bool is_of_adapters = c->knob == PLIM_KNOB_LORA_ALPHA || c->knob == PLIM_KNOB_LORA_DROPOUT;
  if (is_of_adapters && !has_adapters(p)) return "the run has no adapters";
  const char *to = c->value.kind == PLIM_VALUE_TEXT ? c->value.text : "";
  bool is_of_state = strcmp(to, "optimizer") == 0 || strcmp(to, "parameters") == 0;
  if (is_shared(p)) return NULL;
  if (c->knob == PLIM_KNOB_RESHARD) return "it is a setting of FSDP2, which these files do not use";
  return c->knob == PLIM_KNOB_OFFLOAD && is_of_state
             ? "only ZeRO and FSDP2 can offload it to the host"
             : NULL;
}

static bool has_row(plim_dialect dialect, plim_knob knob) {
  for (; dialect != PLIM_DIALECTS; dialect = plim_dialect_table[dialect].base)
    for (const plim_key *key = plim_dialect_table[dialect].keys; key->key; key++)
      if (key->knob == knob) return true;
  return false;
}

// The name of the only ecosystem of these files if it has no key for the knob; NULL: it has one, or there are several
// ecosystems.
static const char *without_key(const plim_project *p, plim_knob knob) {
  plim_dialect only = PLIM_DIALECTS;
  for (size_t i = 0; i < p->files.len; i++) {
    plim_dialect dialect = p->files.at[i]->recipe.dialect;
    if (dialect == PLIM_DIALECTS || dialect == only) continue;
    if (only != PLIM_DIALECTS || dialect == PLIM_DIALECT_HOME) return NULL;
    only = dialect;
  }
  return only == PLIM_DIALECTS || has_row(only, knob) ? NULL : plim_dialect_table[only].name;
}

static const char *key_for(plim_dialect dialect, plim_knob knob) {
  const plim_key *key = plim_dialect_table[dialect].keys;
  while (key->key && key->knob != knob) key++;
  return key->key;
}

// Accumulation that follows from a global batch which the files do not set.
static plim_err refuse_quotient(const plim_project *p, plim_error *error) {
  const char *name = plim_knob_table[PLIM_KNOB_ACCUMULATE].name;
  const char *key = key_for(p->dialect, PLIM_KNOB_GLOBAL_BATCH);
  plim_err err =
      plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s computes %s from %s, which your files do not set",
                plim_dialect_table[p->dialect].name, name, key);
  plim_error_hint(error, "set %s to micro batch x %s x number of GPUs", key, name);
  return err;
}

static plim_err refuse_absent(const plim_project *p, plim_knob knob, plim_error *error) {
  const char *name = plim_knob_table[knob].name, *lacks = without_key(p, knob);
  bool has_global = p->dialect != PLIM_DIALECTS && plim_dialect_table[p->dialect].divides_batch &&
                    key_for(p->dialect, PLIM_KNOB_GLOBAL_BATCH);
  if (lacks && knob == PLIM_KNOB_ACCUMULATE && has_global) return refuse_quotient(p, error);
  plim_err err =
      lacks ? plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s has no setting for %s", lacks, name)
            : plim_fail(error, PLIM_ERR_UNSUPPORTED, "plimsoll found no key for %s in your files",
                        name);
  plim_error_hint(error, "if one of your own keys sets it, run again with --set %s=FILE:KEY", name);
  return err;
}

// Inserts a key that --set names and that does not exist yet.
static plim_err insert_bound(const job *j, const plim_binding *b, size_t file,
                             const plim_knob_change *c, plim_error *error) {
  const plim_project_file *f = j->p->files.at[file];
  plim_knob_place place = {file, NULL, &b->key};
  plim_error origin = {0};
  plim_value value;
  plim_edit edit;
  if (!plim_key_inverse(&b->key, &c->value, &value))
    return refuse(j->p, &place, c, "no value of this key does this", &origin, error);
  if (plim_settings_insert(&f->settings, b->name, &value, &edit, &origin))
    return refuse(j->p, &place, c, "", &origin, error);
  if (vec_push(&j->out->at, (plim_file_edit){file, edit})) return PLIM_OK;
  free(edit.text);
  return plim_no_memory(error);
}

static plim_err insert_anywhere(const job *j, const plim_knob_change *c, plim_error *error) {
  const plim_project *p = j->p;
  plim_error why = {0};
  char tried[sizeof((plim_task *)0)->why] = "";
  size_t named;
  const plim_binding *bound = plim_binding_to_add(p, c->knob, &named);
  if (bound && *bound->name) return insert_bound(j, bound, named, c, error);
  for (int order = 0; order < 3; order++)
    for (size_t i = 0; i < p->files.len; i++) {
      if (plim_project_rank(p, i) != order || plim_is_unwritable(p->files.at[i])) continue;
      plim_task t = task_of(j, i, c);
      if (is_done(j, i, c)) return PLIM_OK;
      if (plim_task_perform(&t, &why)) return keep(j->out, i, &t, error);
      if (t.has_no_memory) return plim_no_memory(error);
      if (!*tried) memcpy(tried, t.why, sizeof tried);
    }
  if (why.message[0] || *tried) return refuse(p, NULL, c, tried, &why, error);
  const char *idle = why_idle(p, c);
  if (idle) return refuse(p, NULL, c, idle, &why, error);
  return refuse_absent(p, c->knob, error);
}

static bool is_there_already(const plim_project_knob *k, plim_knob knob, const plim_value *value) {
  bool is_silent = k->origin == PLIM_ABSENT && knob == PLIM_KNOB_OFFLOAD;
  if (is_silent && plim_is_unshared_value(knob, value)) return true;
  bool is_known = k->origin == PLIM_EXPLICIT || k->origin == PLIM_DEFAULTED;
  return is_known && plim_value_same(&k->value, value);
}

static bool turns_checkpoint_on(const plim_knob_change *c) {
  return c->knob == PLIM_KNOB_CHECKPOINT && c->value.kind == PLIM_VALUE_TEXT &&
         strcmp(c->value.text, "on") == 0;
}

static void forget_from(plim_edit_set *edits, size_t count) {
  while (edits->at.len > count) free(edits->at.at[--edits->at.len].edit.text);
}

// Adds use_reentrant=False, and keeps it if the knob still has its new value.
static void keep_reentrant(const job *j, const plim_knob_change *c, size_t file) {
  size_t had = j->out->at.len;
  plim_project_add_reentrant(j->p, file, j->out);
  if (j->out->at.len > had && !is_done(j, file, c)) forget_from(j->out, had);
}

static plim_err change_knob(const job *j, const plim_knob_change *c, plim_error *error) {
  const plim_project *p = j->p;
  const plim_project_knob *k = &p->knobs[c->knob];
  bool is_quotient = c->knob == PLIM_KNOB_ACCUMULATE && plim_project_divides(p);
  if (is_there_already(k, c->knob, &c->value) || is_quotient) return PLIM_OK;
  if (k->is_fixed) {
    const char *name = plim_knob_table[c->knob].name;
    plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s cannot be changed: %s", name, k->why);
    plim_error_hint(error, "if another key decides it, run again with --set %s=FILE:KEY", name);
    return plim_error_file_of(p, k->place_count ? k->places[0].file : SIZE_MAX, err, error);
  }
  if (plim_project_takes_liger(p, c)) return plim_project_add_liger(p, j->out, error);
  if (plim_project_takes_devices(p, c)) return plim_project_put_devices(p, c, j->out, error);
  size_t had = j->out->at.len;
  plim_err err = k->place_count ? change_places(j, c, error) : insert_anywhere(j, c, error);
  if (!err && turns_checkpoint_on(c) && j->out->at.len > had)
    keep_reentrant(j, c, j->out->at.at[had].file);
  return err;
}

// ---- sharding strategy and offload ------------------------------------------------------------------

static const char *wanted_text(const job *j, plim_knob knob) {
  const plim_value *value = plim_change_of(j->changes, j->count, knob);
  if (!value && j->p->knobs[knob].origin == PLIM_EXPLICIT) value = &j->p->knobs[knob].value;
  return value && value->kind == PLIM_VALUE_TEXT ? value->text : "none";
}

// A first attempt may have failed although the call succeeds; its error is reported only if the call fails.
static plim_err report(plim_err err, const plim_error *origin, plim_error *error) {
  if (err && error) *error = *origin;
  return err;
}

static bool becomes_stage_3(const job *j) {
  const plim_value *to = plim_change_of(j->changes, j->count, PLIM_KNOB_STRATEGY);
  const plim_project_knob *k = &j->p->knobs[PLIM_KNOB_STRATEGY];
  bool is_asked = to && to->kind == PLIM_VALUE_TEXT && strcmp(to->text, "zero3") == 0;
  return is_asked && !(k->origin == PLIM_EXPLICIT && plim_value_same(&k->value, to));
}

// Changes strategy and offload key by key if that works, otherwise as a whole.
static plim_err change_ways(const job *j, plim_error *error) {
  plim_err err = PLIM_OK;
  size_t had = j->out->at.len;
  plim_error origin = {0}, why = {0};
  for (size_t i = 0; i < j->count && !err; i++)
    if (plim_is_sharing(j->changes[i].knob)) err = change_knob(j, &j->changes[i], &origin);
  bool is_whole = plim_change_of(j->changes, j->count, PLIM_KNOB_STRATEGY);
  if (!err || (!is_whole && !is_shared(j->p))) return report(err, &origin, error);
  forget_from(j->out, had);
  plim_sharing_mode_text way = {wanted_text(j, PLIM_KNOB_STRATEGY),
                                wanted_text(j, PLIM_KNOB_OFFLOAD),
                                wanted_text(j, PLIM_KNOB_CHECKPOINT)};
  plim_err other = plim_project_share(j->p, &way, j->out, &why);
  return other && !is_whole ? report(err, &origin, error) : report(other, &why, error);
}

static plim_err change_sharing(const job *j, plim_error *error) {
  plim_err err = change_ways(j, error);
  return err || !becomes_stage_3(j) ? err : plim_project_suit_stage_3(j->p, j->out, error);
}

// ---- all knobs together -----------------------------------------------------------------------------

// Changes of several keys together may reach a file that is not written.
static plim_err check_written(const job *j, plim_error *error) {
  for (size_t i = 0; i < j->out->at.len; i++) {
    size_t file = j->out->at.at[i].file;
    if (j->p->files.at[file]->is_notebook)
      return refuse_notebook(j->p, &(plim_knob_place){.file = file}, &j->changes[0], error);
    for (size_t k = 0; j->p->files.at[file]->shipped_by && k < j->count; k++)
      if (plim_is_sharing(j->changes[k].knob))
        return refuse_shipped(j->p, file, &j->changes[k], error);
  }
  return PLIM_OK;
}

static plim_err refuse_launch(const job *j, size_t file, const plim_error *why, plim_error *error) {
  const plim_project_file *f = j->p->files.at[file];
  const plim_knob_change *c = &j->changes[0];
  const plim_setting *setting = NULL;
  char value[64], line[32] = "";
  for (size_t i = 0; !setting && i < j->count; i++) {
    const plim_project_knob *k = &j->p->knobs[j->changes[i].knob];
    if (!k->place_count || k->places[0].file != file) continue;
    setting = k->places[0].setting;
    c = &j->changes[i];
  }
  plim_value_print(&c->value, value, sizeof value);
  uint64_t byte = setting ? plim_source_byte(f, setting->span.begin) : PLIM_UNKNOWN;
  if (byte != PLIM_UNKNOWN)
    snprintf(line, sizeof line, ":%d", plim_launch_line(f->source, (size_t)byte));
  plim_err err =
      plim_fail(error, PLIM_ERR_UNSUPPORTED,
                "%s must become %s in %.96s%s (%.48s), which plimsoll cannot edit: %s",
                plim_knob_table[c->knob].name, value, f->path, line, f->target, why->message);
  if (setting) plim_error_hint(error, "change %.120s there", setting->key);
  else plim_error_hint(error, "add it there");
  return err;
}

// Edits of commands in a Makefile or the like must be possible in that file.
static plim_err check_launch(const job *j, plim_error *error) {
  for (size_t i = 0; i < j->p->files.len; i++) {
    plim_error why = {0};
    char *text;
    size_t size;
    if (!j->p->files.at[i]->target) continue;
    plim_err err = plim_project_written(j->p, i, j->out, &text, &size, &why);
    free(text);
    if (err == PLIM_ERR_NOMEM) return plim_no_memory(error);
    if (err) return refuse_launch(j, i, &why, error);
  }
  return PLIM_OK;
}

plim_err plim_project_set(const plim_project *p, const plim_knob_change *changes, size_t count,
                          plim_edit_set *out, plim_error *error) {
  *out = (plim_edit_set){0};
  plim_err err = PLIM_OK;
  job j = {p, changes, count, out};
  if (!count) return PLIM_OK;
  for (size_t i = 0; i < count && !err; i++)
    if (!plim_is_sharing(changes[i].knob)) err = change_knob(&j, &changes[i], error);
  if (!err) err = change_sharing(&j, error);
  if (!err) err = check_written(&j, error);
  if (!err) err = plim_project_copy_shared(p, out, error);
  if (!err) err = check_launch(&j, error);
  if (!err) err = plim_project_check(p, changes, count, out, error);
  if (err) plim_edit_set_clear(out);
  return err;
}
