#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "job_needs.h"
#include "plan_show.h"
#include "quoting.h"
#include "show_notes.h"
#include "show_steps.h"
#include "term.h"
#include "units.h"

void plan_heading(const char *text) {
  printf("\n");
  term_print(stdout, TERM_BOLD, "%s\n", text);
}

static void sentence(const char *text) {
  term_wrap(stdout, text, 0, 0, (size_t)term_width(stdout));
}

static bool is_safe_without_margin(const plan_for_card *c, const plim_estimate *e) {
  plim_plan_request asked = c->asked;
  asked.margin = 0;
  return plim_is_safe(&asked, e);
}

void plan_why_tight(const plan_for_card *c, const plim_estimate *e, char *text, size_t size) {
  uint64_t budget = c->request.target.budget_bytes;
  double margin = c->asked.margin;
  plim_estimate ran = *e;
  *text = 0;
  ran.fits = !e->capped.runs_out; // an estimate of the planner counts as fitting only if it is safe
  if (!ran.fits || plim_is_safe(&c->asked, &ran)) return;
  if (margin < 0)
    snprintf(text, size, "with the error margin it may need %s, and %s are available%s",
             units_bytes(e->interval_bytes[1]).text, units_bytes(budget).text,
             is_safe_without_margin(c, &ran) ? " (to accept it: --margin 0)" : "");
  else
    snprintf(text, size, "only %s may be used: --margin keeps %.3g %% of the %s free",
             units_bytes((uint64_t)((1 - margin) * (double)budget)).text, 100 * margin,
             units_bytes(budget).text);
}

// ---- before and after -------------------------------------------------------------------------------

static void print_anchors(const plan_for_card *c) {
  const plim_choice *own = &c->plan.before_choice;
  long long anchors = (long long)own->at[PLIM_KNOB_MICRO_BATCH];
  long long negatives = (long long)own->at[PLIM_KNOB_NEGATIVES];
  long long at_a_time = (long long)own->at[PLIM_KNOB_CACHED_BATCH];
  bool has_positives = own->at[PLIM_KNOB_POSITIVES];
  char line[200], others[48] = "", cached[64] = "";
  if (plim_choice_sequences(own) == 1) return;
  if (negatives)
    snprintf(others, sizeof others, "%s%lld negative%s",
             has_positives ? ", a positive and " : " and ", negatives, negatives == 1 ? "" : "s");
  if (at_a_time) snprintf(cached, sizeof cached, ", encoded in mini batches of %lld", at_a_time);
  if (c->asked.job.recipe.is_pairwise)
    snprintf(line, sizeof line, "%lld samples per batch, each of %lld texts: %lld sequences",
             anchors, (long long)plim_choice_sequences(own),
             anchors * (long long)plim_choice_sequences(own));
  else
    snprintf(line, sizeof line, "%lld samples per batch, each an anchor%s: %lld sequences%s",
             anchors, negatives ? others : " and a positive",
             anchors * (long long)plim_choice_sequences(own), cached);
  sentence(line);
}

// Where the effective batch comes from, if the other settings give a different one.
static void describe_batch(const plan_result *r, const plan_for_card *c, uint64_t had, char *text,
                           size_t size) {
  uint64_t batch = c->plan.effective_batch;
  const plim_project *p = r->files ? &r->files->project : NULL;
  const plim_project_knob *k = p ? &p->knobs[PLIM_KNOB_GLOBAL_BATCH] : NULL;
  bool is_from_files = k && k->place_count && project_job_batch(r->files) == batch;
  int used = snprintf(text, size, "effective batch %s", units_count(batch).text);
  if (!batch) snprintf(text, size, "any batch size, as many tokens per second as possible");
  else if (r->own_batch && r->own_batch != batch)
    snprintf(text + used, size - (size_t)used, " from your options (your files give %s)",
             units_count(r->own_batch).text);
  else if (had == batch) snprintf(text + used, size - (size_t)used, ", unchanged");
  else if (is_from_files)
    snprintf(text + used, size - (size_t)used, ", from %.40s in %.60s (your options give %s)",
             k->places[0].setting->key, p->files.at[k->places[0].file]->path,
             units_count(had).text);
  else
    snprintf(text + used, size - (size_t)used, ", as requested (your settings give %s)",
             units_count(had).text);
}

static void print_subject(const plan_result *r, const plan_for_card *c) {
  char text[256], batch[256], line[768];
  uint64_t bytes = c->request.target.budget_bytes;
  bool has_name = *c->request.card && !c->request.is_known_by_size;
  const int64_t *now = c->plan.before_choice.at;
  uint64_t had =
      (uint64_t)(now[PLIM_KNOB_MICRO_BATCH] * now[PLIM_KNOB_ACCUMULATE]) * (uint64_t)c->asked.world;
  job_describe_model(&c->request, r->args, text, sizeof text);
  sentence(text);
  if (c->asked.world > 1)
    snprintf(text, sizeof text, "%d GPUs with %s each", c->asked.world, units_bytes(bytes).text);
  else snprintf(text, sizeof text, "GPU: %s available", units_bytes(bytes).text);
  describe_batch(r, c, had, batch, sizeof batch);
  snprintf(line, sizeof line, "%s%s%s; %s", text, has_name ? " on " : "",
           has_name ? c->request.card : "", batch);
  sentence(line);
  print_anchors(c);
}

static bool is_any_allowed(const plim_plan_request *r) {
  for (int i = 0; i < PLIM_KNOBS; i++)
    if (r->allowed[i]) return true;
  return false;
}

static bool may_be_told(const plim_plan *p, const plim_untried *x) {
  return !x->concedes || p->is_beyond;
}

static bool has_untried(const plim_plan *p) {
  for (size_t i = 0; i < p->untried_count; i++)
    if (may_be_told(p, &p->untried[i])) return true;
  return false;
}

static void print_untried(const plim_plan *p) {
  char line[320];
  for (size_t i = 0; i < p->untried_count; i++) {
    const plim_untried *x = &p->untried[i];
    if (!may_be_told(p, x)) continue;
    snprintf(line, sizeof line, "not tried: %s, which may need less memory, because %s", x->setting,
             x->why);
    sentence(line);
  }
}

static void print_nothing_fits(const plan_for_card *c) {
  const plim_plan *p = &c->plan;
  char line[768], tight[PLAN_TIGHT_SIZE], loading[ESTIMATE_LOADING_SIZE];
  const char *how = p->is_beyond                ? "even with every --allow"
                    : c->asked.holds_others     ? "with only the settings of --try changed"
                    : is_any_allowed(&c->asked) ? "even with what is allowed"
                                                : "without changing what the model learns";
  const plim_estimate *e = &p->smallest.e;
  plim_job job = plim_choice_job(&c->asked, &p->smallest.choice);
  bool may_fit = estimate_may_fit(e, c->saved_bytes);
  char needs[160];
  estimate_needs(e, needs, sizeof needs);
  plan_why_tight(c, e, tight, sizeof tight);
  char without[224] = "";
  if (p->least.e.device_bytes) {
    snprintf(without, sizeof without, "; without --allow, %s", needs);
    estimate_needs(&p->least.e, needs, sizeof needs);
  }
  char other[80] = "";
  if (may_fit)
    snprintf(other, sizeof other, "; but the run may need %s than predicted (see the notes)",
             estimate_other(c->errs_low));
  snprintf(line, sizeof line, "%s%s %s: the smallest of %zu candidates needs %s%s%s%s%s",
           p->is_tight ? "NO SAFE PLAN" : "NOTHING FITS",
           may_fit          ? " as predicted,"
           : has_untried(p) ? " of what can be predicted,"
                            : "",
           how, p->tried, needs, without, *tight ? "; " : "", tight, other);
  sentence(line);
  print_untried(p);
  estimate_loading(e, &job, c->request.load_help, loading, sizeof loading);
  if (!*loading) return;
  plan_list_settings(&p->before_choice, &p->smallest.choice, needs, sizeof needs);
  snprintf(line, sizeof line, "with batch %s, %s", needs, loading);
  sentence(line);
}

// "FITS", or what the memory must suffice for besides.
static const char *fits_text(const plan_for_card *c, const plim_estimate *e, char *text,
                             size_t size) {
  uint64_t budget = e->budget_bytes;
  if (!c->errs_low || budget == PLIM_UNKNOWN || budget < e->device_bytes) return "FITS";
  snprintf(text, size, "FITS if what is not modelled (see the notes) needs at most %s",
           units_bytes(estimate_spare_bytes(e)).text);
  return text;
}

// The first word is printed already, in colour.
static void print_planned(const plan_for_card *c) {
  const plim_rung *best = &c->plan.rungs.at[0];
  char line[320], fits[120];
  int used = snprintf(line, sizeof line, "%s: %s", units_bytes(best->e.device_bytes).text,
                      fits_text(c, &best->e, fits, sizeof fits));
  if (!isnan(best->step_seconds))
    snprintf(line + used, sizeof line - (size_t)used, ", %s per step, %s tokens per second",
             units_seconds(best->step_seconds).text,
             units_count((uint64_t)best->tokens_per_second).text);
  term_wrap(stdout, line, 10, 10, (size_t)term_width(stdout));
}

// Loading may need more than training, as where each rank first has the whole model.
static void print_loading(const plim_estimate *e) {
  char line[160];
  if (plim_needed_bytes(e) <= e->device_bytes) return;
  snprintf(line, sizeof line, "          loading the model reserves more: %s",
           units_bytes(plim_needed_bytes(e)).text);
  term_wrap(stdout, line, 0, 10, (size_t)term_width(stdout));
}

static void print_whose_times(const plan_for_card *c) {
  if (!c->request.is_known_by_size) return;
  if (c->asked.world <= 1)
    sentence("times are for an H200; name your GPU (--gpu 4090) to get its times");
  else if (c->asked.job.sharding.link == PLIM_LINK_PCIE)
    sentence(
        "times are for H200s that are linked by PCIe (--link nvlink for NVLink); name your GPU "
        "(--gpu 4090) to get its times");
  else
    sentence("times are for H200s that are linked by NVLink; name your GPU (--gpu 4090) to get its "
             "times");
}

static void print_verdict(const plan_for_card *c) {
  const plim_plan *p = &c->plan;
  const plim_estimate *now = &p->before;
  char needs[ESTIMATE_NEEDS_SIZE], line[512], tight[PLAN_TIGHT_SIZE], fits[120];
  estimate_needs(now, needs, sizeof needs);
  plan_why_tight(c, now, tight, sizeof tight);
  if (*p->own_refusal) {
    snprintf(line, sizeof line,
             "now:      with sdpa attention in place of yours, because %s:", p->own_refusal);
    printf("\n");
    term_wrap(stdout, line, 0, 10, (size_t)term_width(stdout));
  }
  const char *start = *p->own_refusal ? "          " : "now:      ";
  if (!*p->own_refusal) printf("\n");
  bool is_sure = now->has_verdict && !*tight;
  if (now->has_verdict && !now->fits && estimate_may_fit(now, c->saved_bytes))
    snprintf(line, sizeof line,
             "%sneeds %s: DOES NOT FIT as predicted, but the run may need %s (see the notes)",
             start, needs, estimate_other(c->errs_low));
  else if (now->has_verdict && !now->fits)
    snprintf(line, sizeof line, "%sneeds %s: DOES NOT FIT", start, needs);
  else
    snprintf(line, sizeof line, "%s%s%s%s, %s per step%s%s", start,
             units_bytes(now->device_bytes).text, is_sure ? ": " : "",
             is_sure ? fits_text(c, now, fits, sizeof fits) : "",
             units_seconds(now->step_seconds).text, *tight ? "; it may not fit: " : "", tight);
  term_wrap(stdout, line, 0, 10, (size_t)term_width(stdout));
  if (!p->rungs.len) {
    print_nothing_fits(c);
    return;
  }
  term_print(stdout, TERM_GREEN, "planned:  ");
  print_planned(c);
  print_loading(&p->rungs.at[0].e);
  plan_print_preference(c);
  print_whose_times(c);
}

static void print_not_proved(const plan_proof *proof) {
  char line[1200];
  snprintf(line, sizeof line, "%s: %.480s%s%.600s",
           proof->end == PLAN_DISPROVED ? "DISPROVED" : "NOT PROVED", proof->why,
           proof->help ? "; " : "", proof->help ? proof->help : "");
  sentence(line);
}

static void print_proof(const plan_result *r, const plan_for_card *c) {
  const plan_proof *proof = r->proof;
  char line[400], command[120] = "";
  if (!proof) return;
  if (proof->end != PLAN_PROVED) {
    print_not_proved(proof);
    return;
  }
  const plim_estimate *e = &c->plan.rungs.at[0].e;
  if (proof->command) snprintf(command, sizeof command, " of %.100s", proof->command);
  snprintf(line, sizeof line, "proved by a simulated run%s: peak %s (predicted %s)%s", command,
           units_bytes(proof->needs_bytes).text, units_bytes(e->device_bytes).text,
           plan_proof_agrees(proof, e) ? ""
                                       : "; it fits, but the prediction is wrong by more than its "
                                         "error margin");
  sentence(line);
}

static void signed_bytes(int64_t bytes, char *text, size_t size) {
  const char *sign = bytes < 0 ? "+" : "-";
  if (!bytes) snprintf(text, size, "0");
  else snprintf(text, size, "%s%s", sign, units_bytes((uint64_t)(bytes < 0 ? -bytes : bytes)).text);
}

static void signed_seconds(double seconds, char *text, size_t size) {
  if (isnan(seconds)) snprintf(text, size, "?");
  else if (fabs(seconds) < 0.0005) snprintf(text, size, "0");
  else snprintf(text, size, "%s%s", seconds < 0 ? "-" : "+", units_seconds(fabs(seconds)).text);
}

// The present value of a setting. Allocator settings are shown themselves; long ones are in full in the reason's line.
static void value_now(const plan_for_card *c, const plim_plan_change *x, char *text, size_t size) {
  const char *conf = plim_choice_conf(&c->asked, &c->plan.before_choice);
  if (x->knob == PLIM_KNOB_LORA_RANK && !x->from) snprintf(text, size, "none");
  else if (x->knob != PLIM_KNOB_ALLOC_CONF) plim_knob_value_text(x->knob, x->from, text, size);
  else if (!*conf) snprintf(text, size, "not set");
  else snprintf(text, size, "%s", strlen(conf) > PLAN_LONG_CONF ? "see below" : conf);
}

// The remark of a change. A change that belongs to the row above has no numbers of its own.
static const char *remark(const plan_for_card *c, const plim_plan_change *x) {
  bool is_consented = c->plan.concedes && c->asked.allowed[x->knob];
  if (x->follows) return "together with the row above";
  if (x->cannot_run_otherwise) return "needed to run on this GPU";
  if (x->is_asked) return "requested";
  if (!x->is_needed) return "";
  if (plim_is_safe(&c->asked, &c->plan.before)) return "makes room for the other changes";
  return is_consented ? "needed to fit, and you allowed it" : "needed to fit";
}

// Steps of different batches do not compare: tokens per second do.
static void signed_tokens(double tokens, char *text, size_t size) {
  if (isnan(tokens)) snprintf(text, size, "?");
  else if (fabs(tokens) < 1) snprintf(text, size, "0");
  else
    snprintf(text, size, "%s%s", tokens < 0 ? "-" : "+", units_count((uint64_t)fabs(tokens)).text);
}

static void change_cells(term_table *t, const plan_for_card *c, const plim_plan_change *x) {
  char from[96], to[96], saves[48] = "", costs[48] = "";
  value_now(c, x, from, sizeof from);
  plim_knob_value_text(x->knob, x->to, to, sizeof to);
  bool has_figures = !x->follows && !x->cannot_run_otherwise;
  if (has_figures) signed_bytes(x->saves_bytes, saves, sizeof saves);
  if (has_figures && c->plan.effective_batch) signed_seconds(x->costs_seconds, costs, sizeof costs);
  else if (has_figures) signed_tokens(x->gains_tokens, costs, sizeof costs);
  term_table_cell(t, TERM_PLAIN, "%s", plim_knob_table[x->knob].name);
  term_table_cell(t, TERM_PLAIN, "%s", from);
  term_table_cell(t, TERM_BOLD, "%s", to);
  term_table_cell(t, TERM_PLAIN, "%s", saves);
  term_table_cell(t, TERM_PLAIN, "%s", costs);
  term_table_cell(t, TERM_DIM, "%s", remark(c, x));
}

static void print_no_changes(const plan_for_card *c) {
  if (c->plan.passed) printf("none\n");
  else if (c->asked.holds_others)
    sentence("none: of the values you gave with --try, your current ones are the fastest that fit");
  else
    printf("none: your settings are %s\n",
           c->plan.is_held ? "the fastest that are predicted to need no more memory"
                           : "already the fastest that fit");
}

static void print_changes(const plan_for_card *c) {
  const plim_plan *p = &c->plan;
  const term_column columns[] = {{"setting"},
                                 {"now", .shrinks = true},
                                 {"planned"},
                                 {"memory", .right = true},
                                 {p->effective_batch ? "time" : "tokens/s", .right = true},
                                 {"", .wraps = true}};
  if (!p->rungs.len) return;
  plan_heading("changes");
  if (!p->changes.len) {
    print_no_changes(c);
    return;
  }
  term_table *t = term_table_new(columns, 6);
  for (size_t i = 0; i < p->changes.len; i++) change_cells(t, c, &p->changes.at[i]);
  term_table_print(t, stdout);
  term_table_free(t);
  plan_print_sum(c);
  plan_print_reasons(c);
}

// Whether a component gets a row; a loss without logits has only a few bytes of "logits".
static bool is_worth_a_row(uint64_t bytes) { return bytes >= PLIM_MIB; }

static void budget_cell(term_table *t, uint64_t bytes) {
  term_table_cell(t, TERM_PLAIN, "%s", is_worth_a_row(bytes) ? units_bytes(bytes).text : "-");
}

static void print_budgets(const plan_for_card *c) {
  static const term_column columns[] = {{""}, {"now", .right = true}, {"planned", .right = true}};
  const plim_plan *p = &c->plan;
  if (!p->rungs.len) return;
  const plim_estimate now = estimate_shown(&p->before), planned = estimate_shown(&p->rungs.at[0].e);
  const plim_estimate *a = &now, *b = &planned;
  term_table *t = term_table_new(columns, 3);
  for (int i = 0; i < PLIM_COMPONENTS; i++) {
    if (!is_worth_a_row(a->component_bytes[i]) && !is_worth_a_row(b->component_bytes[i])) continue;
    term_table_cell(t, TERM_PLAIN, "%s", plim_component_names[i]);
    budget_cell(t, a->component_bytes[i]);
    budget_cell(t, b->component_bytes[i]);
  }
  term_table_cell(t, TERM_BOLD, "total");
  term_table_cell(t, TERM_BOLD, "%s", units_bytes(a->device_bytes).text);
  term_table_cell(t, TERM_BOLD, "%s", units_bytes(b->device_bytes).text);
  plan_heading("budget");
  term_table_print(t, stdout);
  term_table_free(t);
  plan_print_moments(c);
}

// Prints the memory on the host that one GPU and all GPUs use.
static void print_host(const plan_for_card *c) {
  if (!c->plan.rungs.len || !c->plan.rungs.at[0].e.p.host_bytes) return;
  uint64_t bytes = c->plan.rungs.at[0].e.p.host_bytes;
  printf("host memory: %s", units_bytes(bytes).text);
  if (c->asked.world > 1)
    printf(" for each GPU, %s in all", units_bytes(bytes * (uint64_t)c->asked.world).text);
  printf("\n");
}

// ---- the ladder -------------------------------------------------------------------------------------

// "p2.json", quoted for a shell; the name that the examples use if the plan is not saved.
static const char *plan_name(const plan_result *r, char *text, size_t size) {
  if (!r->out) return "plan.json";
  FILE *out = fmemopen(text, size, "w"); // ends the text with a 0 byte
  if (!out) return r->out;
  plim_shell_quote(out, r->out);
  bool fits = fclose(out) == 0;
  return fits ? text : r->out;
}

// Whether using the rung takes something to install or to set that the first does not.
static bool takes_more_steps(const plan_result *r, const plan_for_card *c, size_t rung,
                             const manual_steps *first) {
  plan_edits edits;
  manual_steps steps;
  bool takes_more = false;
  plan_edits_or_end(&r->files->project, c, &c->plan.rungs.at[rung], &edits);
  plan_steps_or_end(r, c, rung, &edits, &steps);
  for (size_t i = 0; i < steps.len && !takes_more; i++) {
    const char *kind = steps.at[i].kind;
    size_t k = 0;
    while (k < first->len && strcmp(first->at[k].text, steps.at[i].text) != 0) k++;
    takes_more = k == first->len && (strcmp(kind, "install") == 0 || strcmp(kind, "setting") == 0);
  }
  manual_steps_clear(&steps);
  return takes_more;
}

static void print_further_steps(const plan_result *r, const plan_for_card *c) {
  plan_edits edits;
  manual_steps first;
  char line[320] = "rows with further steps by hand, which apply lists:";
  size_t bare = strlen(line), used = bare;
  plan_edits_or_end(&r->files->project, c, &c->plan.rungs.at[0], &edits);
  plan_steps_or_end(r, c, 0, &edits, &first);
  for (size_t i = 1; i < c->plan.rungs.len && used < sizeof line; i++)
    if (takes_more_steps(r, c, i, &first))
      used += (size_t)snprintf(line + used, sizeof line - used, "%s %zu", used > bare ? "," : "",
                               i + 1);
  manual_steps_clear(&first);
  if (used > bare) sentence(line);
}

static void print_ladder(const plan_result *r, const plan_for_card *c) {
  static const char what[] = "the plan (row 1) and fallbacks that need less memory";
  char name[512], heading[640];
  if (c->plan.rungs.len < 2) return;
  if (r->files) {
    snprintf(heading, sizeof heading, "%s; to use row N: plimsoll apply %s --rung N", what,
             plan_name(r, name, sizeof name));
    bool is_too_wide = strlen(heading) > (size_t)term_width(stdout);
    plan_heading(is_too_wide ? what : heading);
    if (is_too_wide) printf("%s\n", heading + sizeof what + 1);
  } else plan_heading(what);
  plan_print_ladder(&c->plan);
  if (r->files) print_further_steps(r, c);
}

// ---- concessions ------------------------------------------------------------------------------------

// Writes a concession in words: "LoRA of rank 64 instead of all parameters".
static size_t concession_words(const plim_concession *x, int k, char *text, size_t size) {
  char from[96], to[96];
  plim_knob_value_text(x->knob[k], x->from[k], from, sizeof from);
  plim_knob_value_text(x->knob[k], x->to[k], to, sizeof to);
  bool is_new = x->knob[k] == PLIM_KNOB_LORA_RANK && !x->from[k];
  const char *what = is_new ? "LoRA of rank " : "",
             *than = is_new ? "training all parameters" : from;
  int used = snprintf(text, size, "%s--allow %s: %s%s instead of %s", k ? ", " : "",
                      plim_knob_table[x->knob[k]].name, what, to, than);
  return used < (int)size ? (size_t)used : size;
}

// Where it only helps together with another place for the states or the parameters.
static void sharing_words(const plan_for_card *c, const plim_concession *x, char *text,
                          size_t size) {
  const int64_t *own = c->plan.before_choice.at;
  bool is_other = x->strategy != own[PLIM_KNOB_STRATEGY];
  *text = 0;
  if (!x->offload || (!is_other && x->offload == own[PLIM_KNOB_OFFLOAD])) return;
  snprintf(text, size, ", with %s%s%soffload %s (%s on the host%s),", is_other ? "strategy " : "",
           is_other ? plim_knob_value_name(PLIM_KNOB_STRATEGY, x->strategy) : "",
           is_other ? " and " : "", plim_knob_value_name(PLIM_KNOB_OFFLOAD, x->offload),
           units_bytes(x->e.p.host_bytes).text, c->asked.world > 1 ? " for each GPU" : "");
}

// The user's own settings with what is conceded.
static plim_choice conceded(const plan_for_card *c, const plim_concession *x) {
  plim_choice choice = c->plan.before_choice;
  for (int k = 0; k < x->count; k++) choice.at[x->knob[k]] = x->to[k];
  return choice;
}

static void print_concession(const plan_result *r, const plan_for_card *c,
                             const plim_concession *x) {
  const plim_plan *p = &c->plan;
  char line[768], tight[PLAN_TIGHT_SIZE], needs[ESTIMATE_NEEDS_SIZE], sharing[144];
  size_t used = 0;
  sharing_words(c, x, sharing, sizeof sharing);
  estimate_needs(&x->e, needs, sizeof needs);
  plan_why_tight(c, &x->e, tight, sizeof tight);
  for (int k = 0; k < x->count; k++)
    used += concession_words(x, k, line + used, sizeof line - used);
  if (x->is_instead)
    snprintf(line + used, sizeof line - used,
             ": the run needs %s, does not have to offload %s, and reaches %s tokens per second",
             units_bytes(x->device_bytes).text,
             plim_knob_value_name(PLIM_KNOB_OFFLOAD, p->rungs.at[0].choice.at[PLIM_KNOB_OFFLOAD]),
             units_count((uint64_t)x->tokens_per_second).text);
  else if (p->rungs.len)
    snprintf(line + used, sizeof line - used, " saves %s (the run then needs %s)",
             units_bytes((uint64_t)x->saves_bytes).text, units_bytes(x->device_bytes).text);
  else
    snprintf(line + used, sizeof line - used, "%s needs %s%s%s", sharing, needs, *tight ? "; " : "",
             tight);
  plim_choice choice = conceded(c, x);
  used = strlen(line);
  if (plan_adds_kernels(r, c, &choice))
    snprintf(
        line + used, sizeof line - used,
        "; Axolotl then turns on its LoRA kernels, with which it needs less memory and usually "
        "less time");
  sentence(line);
}

static void print_concessions_that(const plan_result *r, const plan_for_card *c, bool fits,
                                   const char *heading) {
  bool is_first = true;
  for (size_t i = 0; i < c->plan.concessions.len; i++) {
    const plim_concession *x = &c->plan.concessions.at[i];
    if (x->fits != fits) continue;
    if (is_first) plan_heading(heading);
    is_first = false;
    print_concession(r, c, x);
  }
}

static void print_concessions(const plan_result *r, const plan_for_card *c) {
  const plim_plan *p = &c->plan;
  if (!p->concessions.len) return;
  if (!p->rungs.len) {
    print_concessions_that(r, c, true, "would fit, but changes what the model learns");
    print_concessions_that(r, c, false,
                           "changes what the model learns, and is not enough on its own");
    return;
  }
  plan_heading("not used, because it changes what the model learns");
  for (size_t i = 0; i < p->concessions.len; i++) print_concession(r, c, &p->concessions.at[i]);
}

// ---- how to get there -------------------------------------------------------------------------------

void plan_data_text(const plan_result *r, char *text, size_t size) {
  snprintf(text, size, "%s sample%s and %g epoch%s", units_count(r->samples).text,
           r->samples == 1 ? "" : "s", r->epochs, r->epochs == 1 ? "" : "s");
}

static void print_duration(const plan_result *r, const plan_for_card *c) {
  if (!c->plan.rungs.len || r->samples == PLIM_UNKNOWN) return;
  const plim_rung *best = &c->plan.rungs.at[0];
  double hours = plan_hours(r, best);
  uint64_t steps = plan_steps(r, best);
  char line[320], data[96], lasts[48] = "", costs[96] = "";
  plan_data_text(r, data, sizeof data);
  if (!isnan(hours) && hours < 1) snprintf(lasts, sizeof lasts, ", %.1f minutes", hours * 60);
  else if (!isnan(hours)) snprintf(lasts, sizeof lasts, ", %.1f hours", hours);
  if (!isnan(plan_price(r, c, best)))
    snprintf(costs, sizeof costs, ", costs %.2f at %.2f per GPU hour", plan_price(r, c, best),
             r->price_per_hour);
  snprintf(line, sizeof line, "\n%s step%s%s%s (%s)", units_count(steps).text,
           steps == 1 ? "" : "s", lasts, costs, data);
  sentence(line);
}

// Of the plan, or of the files' own settings if nothing fits.
static void print_unverified(const plan_for_card *c) {
  const plim_estimate *e = c->plan.rungs.len ? &c->plan.rungs.at[0].e : &c->plan.before;
  for (size_t i = 0; i < e->unverified_count; i++) {
    term_print(stdout, TERM_YELLOW, "%sunverified: ", i ? "" : "\n");
    term_wrap(stdout, e->unverified[i], 12, 12, (size_t)term_width(stdout));
  }
}

// ---- the user's files -------------------------------------------------------------------------------

static bool is_by_hand(const plan_edits *edits, plim_knob knob) {
  for (size_t i = 0; i < edits->by_hand_count; i++)
    if (edits->by_hand[i].knob == knob) return true;
  return false;
}

// Writes the numbers of the steps that make the changes which files cannot: "steps 2 and 3".
static void list_steps(const manual_steps *steps, const plan_edits *edits, char *text,
                       size_t size) {
  size_t numbers[32], count = 0, used;
  for (size_t i = 0; i < steps->len && count < 32; i++)
    if (is_by_hand(edits, steps->at[i].knob)) numbers[count++] = i + 1;
  used = (size_t)snprintf(text, size, count > 1 ? "steps" : count ? "step" : "the steps above");
  for (size_t i = 0; i < count && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s %zu",
                             !i              ? ""
                             : i + 1 < count ? ","
                                             : " and",
                             numbers[i]);
}

// Prints what the files need before the manual steps are done, and the best plan that can be written completely.
static void print_without(const plan_for_card *c, const plan_edits *edits,
                          const manual_steps *steps) {
  char line[768], tight[PLAN_TIGHT_SIZE], skipped[96];
  const plim_estimate *e = &edits->as_written;
  plan_why_tight(c, e, tight, sizeof tight);
  list_steps(steps, edits, skipped, sizeof skipped);
  const char *only = edits->write_count ? "apply only the file changes below and " : "";
  if (estimate_needed_bytes(e))
    snprintf(line, sizeof line, "if you %sskip %s, the run needs %s and DOES NOT FIT%s%s", only,
             skipped, units_bytes(estimate_needed_bytes(e)).text, *tight ? ": " : "", tight);
  else
    snprintf(line, sizeof line,
             "if you %sskip %s, the files ask for a run that plimsoll cannot predict", only,
             skipped);
  sentence(line);
  const plim_plan *p = &c->writable;
  if (!p->tried) return;
  if (!p->rungs.len) {
    sentence("every plan that fits needs some manual steps");
    return;
  }
  const plim_rung *x = &p->rungs.at[0];
  snprintf(line, sizeof line,
           "to avoid %s, run plan again with %s (batch %lld x %lld, %s, FITS, %s per step, %s "
           "tokens per second)",
           skipped, c->writable_flags, (long long)x->choice.at[PLIM_KNOB_MICRO_BATCH],
           (long long)x->choice.at[PLIM_KNOB_ACCUMULATE], units_bytes(x->e.device_bytes).text,
           units_seconds(x->step_seconds).text, units_count((uint64_t)x->tokens_per_second).text);
  sentence(line);
}

static void print_steps(const manual_steps *steps) {
  if (steps->len) plan_heading("to do by hand");
  for (size_t i = 0; i < steps->len; i++) {
    const manual_step *step = &steps->at[i];
    steps_print(stdout, i + 1, step->text, step->lines, step->why);
  }
}

static void print_diff(const plan_result *r, const plan_edits *edits) {
  plim_diff diff;
  plim_error error = {0};
  if (plan_diff_of(&r->files->project, edits->writes, edits->write_count, &diff, &error)) return;
  if (diff.len) {
    plan_heading("changes to your files");
    if (!r->out)
      printf("to write them: run plan with --out plan.json, then plimsoll apply plan.json\n");
    disarmed_write(diff.at, diff.len, stdout);
    plan_print_comments(&r->files->project, edits);
  }
  plim_diff_clear(&diff);
}

static void print_command(const plan_result *r, const plan_edits *edits) {
  char *command;
  if (plan_command_of(&r->files->project, edits->writes, edits->write_count, &command, NULL))
    return;
  if (command) plan_heading("your new command");
  if (command) printf("%s\n", command);
  free(command);
}

// Prints the edits that are written for the user, and the manual steps.
static void print_work(const plan_result *r, const plan_for_card *c) {
  plan_edits edits;
  manual_steps steps;
  if (!c->plan.rungs.len) return;
  if (r->files) plan_edits_or_end(&r->files->project, c, &c->plan.rungs.at[0], &edits);
  plan_steps_or_end(r, c, 0, r->files ? &edits : NULL, &steps);
  print_steps(&steps);
  if (r->files && plan_edits_are_half(&edits)) print_without(c, &edits, &steps);
  if (r->files) print_diff(r, &edits);
  if (r->files) print_command(r, &edits);
  manual_steps_clear(&steps);
}

static void print_sources(const plan_result *r) {
  char text[1024];
  size_t used = 0;
  if (!r->files) return;
  for (size_t i = 0; i < r->files->project.files.len && used < sizeof text; i++) {
    const plim_project_file *f = r->files->project.files.at[i];
    bool is_known = f->is.dialect != PLIM_DIALECTS;
    used += (size_t)snprintf(
        text + used, sizeof text - used, "%s%s%s%s%s%s%s", i ? ", " : "files: ", f->path,
        f->target ? ":" : "", f->target ? f->target : "", is_known ? " (" : "",
        is_known ? plim_dialect_table[f->is.dialect].name : "", is_known ? ")" : "");
  }
  sentence(text);
}

static void print_one(const plan_result *r, const plan_for_card *c) {
  print_subject(r, c);
  print_sources(r);
  notes_print_assumptions(stdout, &c->request.notes);
  notes_print(stdout, &c->request.notes);
  if (r->files) notes_print(stdout, &r->files->notes);
  print_verdict(c);
  print_proof(r, c);
  print_changes(c);
  print_budgets(c);
  print_host(c);
  plan_print_questions(c);
  print_concessions(r, c);
  print_ladder(r, c);
  print_work(r, c);
  print_duration(r, c);
  print_unverified(c);
  plan_print_reproduce(c);
}

static void print_saved(const plan_result *r) {
  char name[512], line[1200];
  const char *path = plan_name(r, name, sizeof name);
  bool can_apply = r->files && r->cards[0].plan.rungs.len;
  if (!r->out) return;
  snprintf(line, sizeof line, "\nsaved to %.500s%s%.500s", path,
           can_apply ? "; to write the changes: plimsoll apply " : "", can_apply ? path : "");
  sentence(line);
}

void plan_print_text(const plan_result *r) {
  if (r->count == 1) print_one(r, &r->cards[0]);
  else plan_print_cards(r);
  print_saved(r);
}
