#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_json.h"

#include "estimate_result.h"
#include "notes_json.h"
#include "plan_digest.h"
#include "plan_launch.h"
#include "plan_question.h"
#include "sha256.h"
#include "typed_line.h"
#include "value.h"

// Writes a value: on and off as booleans, counts as numbers, everything else as text.
static void value(json_writer *j, const char *key, plim_knob knob, int64_t x) {
  char text[96];
  plim_knob_value_text(knob, x, text, sizeof text);
  if (strcmp(text, "on") == 0 || strcmp(text, "off") == 0)
    jsonw_bool(j, key, strcmp(text, "on") == 0);
  else if (plim_knob_value_name(knob, x)) jsonw_string(j, key, text);
  else jsonw_i64(j, key, x);
}

static void rung(json_writer *j, const char *key, const plan_result *r, const plan_for_card *c,
                 const plim_rung *x) {
  plim_estimate e = x->e;
  e.step_seconds = x->step_seconds;
  e.tokens_per_second = x->tokens_per_second;
  jsonw_object(j, key);
  for (size_t i = 0; i < plim_plan_knob_count; i++) {
    plim_knob knob = plim_plan_knobs[i];
    bool is_per_anchor = knob == PLIM_KNOB_POSITIVES || knob == PLIM_KNOB_NEGATIVES;
    if (is_per_anchor && !c->asked.positives && !c->asked.negatives) continue;
    if (knob == PLIM_KNOB_CACHED_BATCH && !c->asked.is_contrastive) continue;
    if (knob == PLIM_KNOB_ALLOC_CONF)
      jsonw_string(j, plim_knob_table[knob].name, plim_choice_conf(&c->asked, &x->choice));
    else value(j, plim_knob_table[knob].name, knob, x->choice.at[knob]);
  }
  jsonw_i64(j, "effective_batch",
            x->choice.at[PLIM_KNOB_MICRO_BATCH] * x->choice.at[PLIM_KNOB_ACCUMULATE] *
                c->asked.world);
  if (r->samples != PLIM_UNKNOWN) {
    jsonw_u64(j, "steps", plan_steps(r, x));
    jsonw_number(j, "hours", plan_hours(r, x));
    jsonw_number(j, "price", plan_price(r, c, x));
  }
  // At least, where it is more than the estimate's needed_bytes.
  if (x->evaluation_bytes) jsonw_bytes(j, "evaluation_bytes", x->evaluation_bytes);
  else jsonw_null(j, "evaluation_bytes");
  jsonw_object(j, "estimate");
  estimate_json_members(j, &e);
  jsonw_end(j);
  plan_write_request(j, r, c, &x->choice);
  jsonw_end(j);
}

static void change(json_writer *j, const plan_for_card *c, const plim_plan_change *x) {
  char why[PLAN_REASON_SIZE];
  plan_reason(c, x->knob, why, sizeof why);
  jsonw_object(j, NULL);
  jsonw_string(j, "knob", plim_knob_table[x->knob].name);
  value(j, "from", x->knob, x->from);
  value(j, "to", x->knob, x->to);
  if (x->follows || x->cannot_run_otherwise) jsonw_null(j, "saves_bytes");
  else jsonw_i64(j, "saves_bytes", x->saves_bytes);
  jsonw_number(j, "costs_seconds", x->costs_seconds);
  jsonw_number(j, "gains_tokens_per_second", x->gains_tokens);
  jsonw_bool(j, "is_needed", x->is_needed);
  jsonw_bool(j, "is_asked", x->is_asked);
  jsonw_bool(j, "follows", x->follows);
  jsonw_string(j, "with", x->with == PLIM_KNOBS ? NULL : plim_knob_table[x->with].name);
  jsonw_string_or_null(j, "why", why);
  jsonw_end(j);
}

static void concession(json_writer *j, const plim_concession *x) {
  jsonw_object(j, NULL);
  jsonw_array(j, "allow");
  for (int i = 0; i < x->count; i++) {
    jsonw_object(j, NULL);
    jsonw_string(j, "knob", plim_knob_table[x->knob[i]].name);
    value(j, "from", x->knob[i], x->from[i]);
    value(j, "to", x->knob[i], x->to[i]);
    jsonw_end(j);
  }
  jsonw_end(j);
  jsonw_bool(j, "fits", x->fits);
  jsonw_bytes(j, "device_bytes", x->device_bytes);
  jsonw_i64(j, "saves_bytes", x->saves_bytes);
  jsonw_number(j, "tokens_per_second", x->tokens_per_second);
  jsonw_bool(j, "is_instead_of_offload", x->is_instead);
  jsonw_string(j, "strategy", plim_knob_value_name(PLIM_KNOB_STRATEGY, x->strategy));
  jsonw_string(j, "offload", plim_knob_value_name(PLIM_KNOB_OFFLOAD, x->offload));
  jsonw_end(j);
}

// ---- questions --------------------------------------------------------------------------------------

static void cached_loss_instead(json_writer *j, const plan_for_card *c) {
  plan_cached_loss x = plan_cached_instead(c);
  if (!x.at_once) {
    jsonw_null(j, "cached_loss");
    return;
  }
  jsonw_object(j, "cached_loss");
  jsonw_i64(j, "cached_batch", x.at_once);
  jsonw_bytes(j, "device_bytes", x.e.device_bytes);
  jsonw_bool(j, "fits", x.e.fits);
  jsonw_number(j, "tokens_per_second", x.e.tokens_per_second);
  jsonw_end(j);
}

static void questions(json_writer *j, const plan_for_card *c) {
  const plan_question *q = plan_question_of(c);
  char no[64];
  jsonw_array(j, "questions");
  if (q) {
    snprintf(no, sizeof no, "--fix micro_batch=%lld", plan_own_micro_batch(c));
    jsonw_object(j, NULL);
    jsonw_string(j, "about", q->id);
    jsonw_string(j, "knob", "micro_batch");
    jsonw_string(j, "question", "may the micro batch change?");
    jsonw_string(j, "why", q->why);
    jsonw_string(j, "yes", "--allow micro_batch");
    jsonw_string(j, "no", no);
    if (!q->instead) cached_loss_instead(j, c);
    jsonw_end(j);
  }
  jsonw_end(j);
}

// ---- the user's files -------------------------------------------------------------------------------

static void json_value_of(json_writer *j, const char *key, const plim_value *v) {
  if (v->kind == PLIM_VALUE_INTEGER) jsonw_i64(j, key, v->integer);
  else jsonw_string(j, key, v->text);
}

void plan_write_sources(json_writer *j, const plim_project *p) {
  jsonw_array(j, "files");
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    uint8_t digest[PLIM_SHA256_BYTES];
    char hex[2 * PLIM_SHA256_BYTES + 1];
    size_t size;
    const char *text = plim_source_of(f, &size);
    plim_sha256(text, size, digest);
    for (size_t k = 0; k < PLIM_SHA256_BYTES; k++) snprintf(hex + 2 * k, 3, "%02x", digest[k]);
    jsonw_object(j, NULL);
    jsonw_string(j, "path", f->path);
    if (f->target) jsonw_string(j, "target", f->target);
    jsonw_u64(j, "bytes", size);
    jsonw_string(j, "sha256", hex);
    if (f->is_typed) jsonw_string(j, "text", f->text);
    jsonw_string(j, "dialect",
                 f->is.dialect == PLIM_DIALECTS ? NULL : plim_dialect_table[f->is.dialect].name);
    jsonw_end(j);
  }
  jsonw_end(j);
}

void plan_write_places(json_writer *j, const cli_strings *sets) {
  jsonw_array(j, "set");
  for (size_t i = 0; sets && i < sets->len; i++) {
    char *knob = strdup(sets->at[i]), *file = knob ? strchr(knob, '=') : NULL;
    char *key = file ? strchr(file + 1, ':') : NULL;
    if (!knob) jsonw_no_memory(j);
    if (key) {
      *file++ = *key++ = 0;
      jsonw_object(j, NULL);
      jsonw_string(j, "knob", knob);
      jsonw_string(j, "file", file);
      jsonw_string(j, "key", key);
      jsonw_end(j);
    }
    free(knob);
  }
  jsonw_end(j);
}

// Writes the memory that the files need before the manual steps are done.
static void as_written(json_writer *j, const plim_estimate *e) {
  jsonw_object(j, "as_written");
  jsonw_bool(j, "fits", e->fits);
  jsonw_bytes(j, "device_bytes", e->device_bytes);
  jsonw_end(j);
}

// Writes the files that the plan creates.
static void new_files(json_writer *j, const plim_project *p, const plan_edits *edits) {
  plim_edit_set set = {0};
  plim_err err = PLIM_OK;
  if (edits->write_count) err = plim_project_set(p, edits->writes, edits->write_count, &set, NULL);
  if (err == PLIM_ERR_NOMEM) jsonw_no_memory(j);
  jsonw_array(j, "creates");
  for (size_t i = 0; i < set.files.len; i++) {
    jsonw_object(j, NULL);
    jsonw_string(j, "path", set.files.at[i].path);
    jsonw_string(j, "text", set.files.at[i].text);
    jsonw_end(j);
  }
  jsonw_end(j);
  plim_edit_set_clear(&set);
}

// The command that plans without manual steps, as text that the caller frees; NULL if memory runs out.
static char *replan_line(const plan_result *r, const plan_for_card *c, const plan_edits *edits) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return NULL;
  typed_options(r->call, out);
  for (size_t i = 0; i < edits->by_hand_count; i++) {
    char flag[160] = "";
    plan_fix_flag(c, edits->by_hand[i].knob, flag, sizeof flag);
    fprintf(out, " %s", flag);
  }
  typed_program(r->call, out);
  return plim_stream_end(out, &text) ? text : NULL;
}

static void replan(json_writer *j, const plan_result *r, const plan_for_card *c,
                   const plan_edits *edits) {
  char *text = replan_line(r, c, edits);
  if (!text) jsonw_no_memory(j);
  jsonw_string(j, "replan", text);
  free(text);
}

// Writes the manual steps.
static void steps(json_writer *j, const plan_result *r, const plan_for_card *c, size_t i,
                  const plan_edits *edits) {
  manual_steps all = {0};
  if (manual_steps_of(r, c, i, edits, &all, NULL)) jsonw_no_memory(j);
  jsonw_array(j, "steps");
  for (size_t k = 0; k < all.len; k++) {
    const manual_step *step = &all.at[k];
    jsonw_object(j, NULL);
    jsonw_string(j, "kind", step->kind);
    jsonw_string(j, "knob", step->knob == PLIM_KNOBS ? NULL : plim_knob_table[step->knob].name);
    jsonw_string(j, "text", step->text);
    jsonw_string(j, "lines", step->lines);
    jsonw_string(j, "why", step->why);
    jsonw_end(j);
  }
  jsonw_end(j);
  manual_steps_clear(&all);
}

void plan_write_writes(json_writer *j, const plim_project *p, const plim_knob_change *writes,
                       size_t count) {
  char *command;
  jsonw_array(j, "writes");
  for (size_t i = 0; i < count; i++) {
    jsonw_object(j, NULL);
    jsonw_string(j, "knob", plim_knob_table[writes[i].knob].name);
    json_value_of(j, "value", &writes[i].value);
    jsonw_end(j);
  }
  jsonw_end(j);
  if (!p->files.at[0]->is_typed) return;
  if (plan_command_of(p, writes, count, &command, NULL)) {
    jsonw_no_memory(j);
    return;
  }
  jsonw_string(j, "command", command);
  free(command);
}

// Writes the edits of each rung of the ladder.
static void rungs(json_writer *j, const plan_result *r, const plan_for_card *c) {
  jsonw_array(j, "rungs");
  for (size_t i = 0; i < c->plan.rungs.len; i++) {
    plan_edits edits = {0};
    if (plan_edits_of(&r->files->project, c, &c->plan.rungs.at[i], &edits, NULL))
      jsonw_no_memory(j);
    jsonw_object(j, NULL);
    plan_write_writes(j, &r->files->project, edits.writes, edits.write_count);
    new_files(j, &r->files->project, &edits);
    jsonw_array(j, "by_hand");
    for (size_t k = 0; k < edits.by_hand_count; k++) {
      jsonw_object(j, NULL);
      jsonw_string(j, "knob", plim_knob_table[edits.by_hand[k].knob].name);
      json_value_of(j, "value", &edits.by_hand[k].value);
      jsonw_string(j, "reason", edits.by_hand[k].reason);
      jsonw_end(j);
    }
    jsonw_end(j);
    if (edits.by_hand_count) as_written(j, &edits.as_written);
    if (edits.by_hand_count) replan(j, r, c, &edits);
    steps(j, r, c, i, &edits);
    jsonw_end(j);
  }
  jsonw_end(j);
}

static void environment(json_writer *j, const plan_for_card *c) {
  const plim_rung *x = c->plan.rungs.len ? &c->plan.rungs.at[0] : NULL;
  const char *conf = x ? plim_choice_conf(&c->asked, &x->choice) : "";
  jsonw_object(j, "environment");
  if (*conf) jsonw_string(j, "PYTORCH_CUDA_ALLOC_CONF", conf);
  jsonw_end(j);
}

static void launch(json_writer *j, const plan_result *r, const plan_for_card *c) {
  plan_launch l = {0};
  plan_edits edits = {0};
  plim_err err = PLIM_OK;
  if (r->files && c->plan.rungs.len)
    err = plan_edits_of(&r->files->project, c, &c->plan.rungs.at[0], &edits, NULL);
  if (!err) err = plan_launch_of(r, c, r->files ? &edits : NULL, &l, NULL);
  if (err) jsonw_no_memory(j);
  jsonw_object(j, "launch");
  jsonw_string(j, "command", l.command);
  jsonw_string(j, "sbatch", l.sbatch);
  jsonw_array(j, "files");
  if (l.file) {
    jsonw_object(j, NULL);
    jsonw_string(j, "path", l.file);
    jsonw_string(j, "text", l.text);
    jsonw_end(j);
  }
  jsonw_end(j);
  jsonw_end(j);
  plan_launch_clear(&l);
}

static void proof(json_writer *j, const plan_proof *p, const plim_rung *rung) {
  static const char *const ends[] = {"proved", "disproved", "unproved"};
  bool is_known = p->needs_bytes != PLIM_UNKNOWN;
  jsonw_object(j, "proof");
  jsonw_string(j, "result", ends[p->end]);
  jsonw_bytes(j, "needs_bytes", p->needs_bytes);
  jsonw_bytes(j, "predicted_bytes", rung->e.device_bytes);
  if (is_known) jsonw_bool(j, "is_within_error_margin", plan_proof_agrees(p, &rung->e));
  else jsonw_null(j, "is_within_error_margin");
  jsonw_string_or_null(j, "command", p->command);
  jsonw_string_or_null(j, "why", p->why);
  jsonw_string_or_null(j, "help", p->help);
  jsonw_string(j, "log", p->log);
  jsonw_end(j);
}

static void rung_or_null(json_writer *j, const char *key, const plan_result *r,
                         const plan_for_card *c, const plim_rung *x) {
  if (x->e.device_bytes) rung(j, key, r, c, x);
  else jsonw_null(j, key);
}

static void members(json_writer *j, const plan_result *r, const plan_for_card *c) {
  const plim_plan *p = &c->plan;
  jsonw_string_or_null(j, "gpu", c->request.card);
  estimate_json_versions(j, r->args, &c->request.job.versions);
  jsonw_bytes(j, "budget_bytes", c->request.target.budget_bytes);
  jsonw_bool(j, "fits", p->rungs.len > 0);
  // Something that may need memory, or save it, is not modelled.
  jsonw_bool(j, "errs_low", c->errs_low);
  jsonw_bool(j, "errs_high", c->saved_bytes != 0);
  if (p->rungs.len) rung(j, "chosen", r, c, &p->rungs.at[0]);
  else jsonw_null(j, "chosen");
  if (p->passed) rung(j, "faster", r, c, &p->faster);
  else jsonw_null(j, "faster");
  rung_or_null(j, "faster_within_margin", r, c, &p->tight);
  rung_or_null(j, "own_sharding", r, c, &p->own_sharding);
  if (p->rungs.len) jsonw_null(j, "smallest");
  else rung_or_null(j, "smallest", r, c, &p->smallest);
  jsonw_array(j, "untried"); // what cannot be predicted yet and may need less memory
  for (size_t i = 0; !p->rungs.len && i < p->untried_count; i++) {
    jsonw_object(j, NULL);
    jsonw_string(j, "setting", p->untried[i].setting);
    jsonw_string(j, "why", p->untried[i].why);
    jsonw_bool(j, "concedes", p->untried[i].concedes);
    jsonw_end(j);
  }
  jsonw_end(j);
  jsonw_array(j, "ladder");
  for (size_t i = 0; i < p->rungs.len; i++) rung(j, NULL, r, c, &p->rungs.at[i]);
  jsonw_end(j);
  jsonw_array(j, "changes");
  for (size_t i = 0; i < p->changes.len; i++) change(j, c, &p->changes.at[i]);
  jsonw_end(j);
  jsonw_array(j, "concessions");
  for (size_t i = 0; i < p->concessions.len; i++) concession(j, &p->concessions.at[i]);
  jsonw_end(j);
  jsonw_object(j, "before");
  estimate_json_members(j, &p->before);
  jsonw_string_or_null(j, "cannot_run", p->own_refusal);
  plan_write_request(j, r, c, &p->before_choice);
  jsonw_end(j);
  if (r->proof) proof(j, r->proof, &p->rungs.at[0]);
  jsonw_u64(j, "tried", p->tried);
  jsonw_bool(j, "concedes", p->concedes);
  jsonw_bool(j, "is_tight", p->is_tight);
  questions(j, c);
  environment(j, c);
  jsonw_string(j, "reproduce", c->reproduce);
  launch(j, r, c);
  jsonw_array(j, "notes");
  notes_write(j, &c->request.notes);
  if (r->files) notes_write(j, &r->files->notes);
  jsonw_end(j);
  if (!r->files) {
    if (p->rungs.len) steps(j, r, c, 0, NULL);
    return;
  }
  plan_write_sources(j, &r->files->project);
  plan_write_places(j, r->sets);
  rungs(j, r, c);
}

static void document(json_writer *j, const void *report) {
  const plan_result *r = report;
  jsonw_u64(j, "format_version", 1);
  jsonw_string(j, "model", r->args->is_observed ? NULL : job_model_word(r->args));
  if (r->count == 1) {
    members(j, r, &r->cards[0]);
    return;
  }
  jsonw_array(j, "cards");
  for (size_t i = 0; i < r->count; i++) {
    jsonw_object(j, NULL);
    members(j, r, &r->cards[i]);
    jsonw_end(j);
  }
  jsonw_end(j);
}

// Adds the digest of the document so far, which lacks only the last brace.
static void seal(json_writer *j, char *const *text) {
  plim_plan_digest digest;
  char *whole = NULL;
  if (fflush(j->out) || asprintf(&whole, "%s}", *text) < 0) {
    jsonw_no_memory(j);
    return;
  }
  if (plim_plan_digest_of_text(whole, strlen(whole), &digest, NULL)) jsonw_no_memory(j);
  else jsonw_string(j, PLIM_PLAN_DIGEST_KEY, digest.hex);
  free(whole);
}

plim_err plan_document(plan_writer *write, const void *report, bool is_saved, char **text,
                       plim_error *error) {
  size_t size = 0;
  *text = NULL;
  FILE *memory = open_memstream(text, &size);
  if (!memory) return plim_no_memory(error);
  json_writer j = jsonw_begin(memory);
  jsonw_object(&j, NULL);
  write(&j, report);
  if (is_saved) seal(&j, text);
  jsonw_end(&j);
  jsonw_finish(&j);
  bool is_whole = plim_stream_end(memory, text);
  if (is_whole && jsonw_is_whole(&j)) return PLIM_OK;
  free(*text);
  *text = NULL;
  return plim_no_memory(error);
}

plim_err plan_json(const plan_result *r, char **text, plim_error *error) {
  return plan_document(document, r, r->files && r->count == 1, text, error);
}
