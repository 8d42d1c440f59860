#include "plan_make.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "family.h"
#include "job_contrast.h"
#include "job_needs.h"
#include "plan_edits.h"
#include "python_code.h"
#include "units.h"

// ---- what the files allow -----------------------------------------------------------------------------------

// Whether the files can have these values together. If memory runs out, that stays in files->notes.
static bool can_take(project_job *files, const plim_knob_change *changes, size_t count) {
  bool can = false;
  if (plan_can_write(&files->project, changes, count, &can, NULL))
    files->notes.has_no_memory = true;
  return can;
}

static bool can_say(project_job *files, plim_knob knob, const char *text) {
  plim_knob_change change = {knob, {.kind = PLIM_VALUE_TEXT, .text = text}};
  return can_take(files, &change, 1);
}

// A strategy that the run has without a key in the files stays as it is.
static bool can_share(project_job *files, const plim_plan_request *r, int strategy, int offload) {
  const char *name = plim_knob_value_name(PLIM_KNOB_OFFLOAD, offload);
  bool is_own = strategy == plim_plan_own_choice(r).at[PLIM_KNOB_STRATEGY];
  bool can = false;
  if (plan_can_share(&files->project, strategy, offload, &can, NULL))
    files->notes.has_no_memory = true;
  return can || (is_own && offload && can_say(files, PLIM_KNOB_OFFLOAD, name));
}

// If the files have no setting for checkpoints on the host, no line that the user could type makes them; offloaded
// activations need as little memory.
static void refuse_offloaded_checkpoints(project_job *files, plim_plan_request *r) {
  bool is_own = plim_plan_own_choice(r).at[PLIM_KNOB_CHECKPOINT] == PLIM_CHECKPOINT_OFFLOADED;
  if (is_own || can_say(files, PLIM_KNOB_CHECKPOINT, "offloaded")) return;
  if (r->refused_count == PLIM_MAX_REFUSED) return;
  r->refused[r->refused_count++] =
      (plim_refused_pair){{PLIM_KNOB_CHECKPOINT, PLIM_KNOB_CHECKPOINT},
                          {"offloaded", "offloaded"},
                          "these files have no setting for checkpoints on the host",
                          "--fix offload=activations"};
}

// Marks sharding strategies and other settings that cannot be written into the user's files as manual.
static void mark_by_hand(project_job *files, plim_plan_request *r) {
  const plim_project *p = &files->project;
  for (int strategy = 0; strategy < PLIM_STRATEGIES; strategy++)
    for (int offload = strategy ? 0 : 1; offload < PLIM_OFFLOADS; offload++)
      r->by_hand[strategy][offload] =
          plim_plan_may_share(r, strategy, offload) && !can_share(files, r, strategy, offload);
  // Axolotl refuses DeepSpeed on the command line beside FSDP in its file.
  r->shares_in_files =
      p->dialect == PLIM_DIALECT_AXOLOTL && p->knobs[PLIM_KNOB_STRATEGY].place_count;
  refuse_offloaded_checkpoints(files, r);
  r->quantises_once = !can_say(files, PLIM_KNOB_QUANTISATION, "nf4-double") &&
                      can_say(files, PLIM_KNOB_QUANTISATION, "nf4");
  r->optimizer_by_hand = !can_say(files, PLIM_KNOB_OPTIMIZER, "paged-adamw");
  r->conf_by_hand = !can_say(files, PLIM_KNOB_ALLOC_CONF, "expandable_segments:True");
}

// What --fix checkpoint=on asks for is what the files turn on.
static void read_checkpoint_on(plim_plan_request *r) {
  plim_domain *d = &r->domains[PLIM_KNOB_CHECKPOINT];
  bool is_own = plim_plan_own_choice(r).at[PLIM_KNOB_CHECKPOINT] == PLIM_CHECKPOINT_ON;
  for (int i = 0; i < d->count && r->turns_on_reentrant && !is_own; i++)
    if (d->at[i] == PLIM_CHECKPOINT_ON) d->at[i] = PLIM_CHECKPOINT_REENTRANT;
}

// The allocator settings that a run has already are called unchanged.
static void read_own_conf(plim_plan_request *r) {
  plim_domain *d = &r->domains[PLIM_KNOB_ALLOC_CONF], named = *d;
  int64_t unchanged = plim_plan_own_choice(r).at[PLIM_KNOB_ALLOC_CONF];
  if (!named.count || !plim_plan_has_expandable(r)) return;
  *d = (plim_domain){1, {unchanged}};
}

static void keep_own(plim_plan_request *r, plim_knob knob) {
  if (!r->domains[knob].count && !r->allowed[knob])
    r->domains[knob] = (plim_domain){1, {plim_plan_own_choice(r).at[knob]}};
}

// Restricts the plan to sharding strategies that the ecosystem supports; Megatron is not started with DeepSpeed.
static void hold_ways(const project_job *files, plim_plan_request *r) {
  plim_domain *d = &r->domains[PLIM_KNOB_STRATEGY];
  plim_dialect dialect = files->is_megatron ? PLIM_DIALECT_MEGATRON : files->project.dialect;
  const char *shares = dialect == PLIM_DIALECTS ? NULL : plim_dialect_table[dialect].shares;
  // LLaMA-Factory passes Megatron no setting of FSDP (train/megatron_bridge/config_builder.py).
  bool is_of_factory = files->project.dialect == PLIM_DIALECT_LLAMA_FACTORY;
  if (files->is_megatron && is_of_factory) shares = "ddp,zero1";
  if (shares && r->world < 2) keep_own(r, PLIM_KNOB_STRATEGY);
  if (!shares || d->count || r->world < 2) return;
  int64_t own = plim_plan_own_choice(r).at[PLIM_KNOB_STRATEGY];
  for (int64_t i = PLIM_SHARD_DDP; i < PLIM_STRATEGIES; i++)
    if (i == own || strstr(shares, plim_strategy_names[i])) d->at[d->count++] = i;
}

// Fixes knobs that the files forbid to change, unless the user allows it.
static void hold_fixed(const plim_project *p, plim_plan_request *r) {
  for (size_t i = 0; i < plim_plan_knob_count; i++) {
    plim_knob knob = plim_plan_knobs[i];
    if (p->knobs[knob].is_refused) r->allowed[knob] = false;
    if (p->knobs[knob].is_fixed) keep_own(r, knob);
  }
}

// If one key sets both the compute type and the type of the parameters, only some pairs can be written. A type that is
// not supported stays unchanged, and so does a type whose key cannot have the better value.
static void hold_types(project_job *files, plim_plan_request *r) {
  plim_choice own = plim_plan_own_choice(r), best = plim_plan_best_types(r);
  plim_knob_change changes[2];
  size_t count = 0;
  static const plim_knob knobs[] = {PLIM_KNOB_PRECISION, PLIM_KNOB_DTYPE};
  for (size_t i = 0; i < 2; i++) {
    const char *name = plim_knob_value_name(knobs[i], best.at[knobs[i]]);
    if (own.at[knobs[i]] == best.at[knobs[i]]) continue;
    changes[count++] = (plim_knob_change){knobs[i], {.kind = PLIM_VALUE_TEXT, .text = name}};
  }
  bool has_place = can_take(files, changes, count);
  bool has_key = files->project.knobs[PLIM_KNOB_PRECISION].place_count;
  if (files->holds_precision || (has_key && !has_place)) keep_own(r, PLIM_KNOB_PRECISION);
  if (files->holds_precision || !has_place) keep_own(r, PLIM_KNOB_DTYPE);
}

// SFTConfig.loss_type has chunked_nll from TRL 1.4 on.
static bool is_before_chunks(const project_job *files, const job_args *args) {
  uint16_t trl = job_release(args, PLIM_LIBRARY_TRL);
  return files->project.dialect == PLIM_DIALECT_TRL && trl && trl < PLIM_RELEASE(1, 4);
}

// LLaMA-Factory loads the model itself: without a script there is no place for the code of a chunked loss.
static bool has_no_place_for_code(const plim_project *p) {
  return p->dialect == PLIM_DIALECT_LLAMA_FACTORY && !plim_project_has_script(p);
}

// Determines which losses without all logits the files can turn on.
static void offer_losses(project_job *files, const job_args *args, plim_plan_request *r) {
  const plim_project *p = &files->project;
  static const int64_t sizes[] = {512, 256};
  static const plim_value on = {.kind = PLIM_VALUE_TEXT, .text = "on"};
  bool is_axolotl = p->dialect == PLIM_DIALECT_AXOLOTL;
  bool cannot_cut =
      is_axolotl && plim_config_whole(&r->job.model)->axolotl_loss >= PLIM_AXOLOTL_LOSS_BREAKS;
  bool has_none = cannot_cut && !job_knows_liger(args, &r->job.model);
  if (files->is_megatron || has_none) {
    keep_own(r, PLIM_KNOB_LIGER), keep_own(r, PLIM_KNOB_CHUNKED_LOSS);
    return;
  }
  bool has_no_chunks = cannot_cut || is_before_chunks(files, args);
  if (has_no_chunks) keep_own(r, PLIM_KNOB_CHUNKED_LOSS);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !has_no_chunks && !r->chunk_tokens; i++) {
    plim_value tokens = {.kind = PLIM_VALUE_INTEGER, .integer = sizes[i]};
    plim_knob_change change = {PLIM_KNOB_CHUNKED_LOSS, tokens};
    if (can_take(files, &change, 1)) r->chunk_tokens = sizes[i];
  }
  bool has_own_models = p->dialect < PLIM_DIALECTS && plim_dialect_table[p->dialect].has_own_models;
  bool takes_no_loss = has_own_models || has_no_place_for_code(p);
  if (takes_no_loss && !r->chunk_tokens) keep_own(r, PLIM_KNOB_CHUNKED_LOSS);
  if (has_own_models) keep_own(r, PLIM_KNOB_ATTENTION);
  bool has_key = can_take(files, &(plim_knob_change){PLIM_KNOB_LIGER, on}, 1);
  if (has_own_models && !has_key) keep_own(r, PLIM_KNOB_LIGER);
  r->offers_liger =
      !r->chunk_tokens && (has_key || is_axolotl) && job_knows_liger(args, &r->job.model);
}

static void refuse_pair(plim_plan_request *r, plim_refused_pair pair) {
  if (r->refused_count < PLIM_MAX_REFUSED) r->refused[r->refused_count++] = pair;
}

// Settings that are not known stay as they are. DeepSpeed can run only the usual optimizers on the host. A checkpoint
// with packed weights of another kind can be neither quantised again nor sharded (LLaMA-Factory's quantization.py, the
// quantizers of transformers).
static void hold_unmodelled(const project_job *files, const job_args *job,
                            const job_request *request, plim_plan_request *r) {
  bool is_packed = *request->source.quantization && request->job.weights == PLIM_WEIGHTS_PLAIN &&
                   strcmp(request->source.quantization, "mxfp4") != 0;
  if (files->project.knobs[PLIM_KNOB_OPTIMIZER].is_fixed)
    refuse_pair(r, (plim_refused_pair){{PLIM_KNOB_STRATEGY, PLIM_KNOB_OFFLOAD},
                                       {"zero1 zero2 zero3", "optimizer parameters"}});
  // v1 has no optimizers but its own two (optimizers/optimizer.py, base_trainer.py).
  if (files->project.dialect == PLIM_DIALECT_LLAMA_FACTORY_V1) keep_own(r, PLIM_KNOB_OPTIMIZER);
  // Experts that Axolotl quantises are predicted plain, so that loading them seems too much for each GPU.
  if (job->quantises_experts && job->strategy > PLIM_SHARD_DDP) keep_own(r, PLIM_KNOB_STRATEGY);
  if (!project_job_splits_4_bits(files, &request->job, r->world))
    refuse_pair(r, (plim_refused_pair){{PLIM_KNOB_STRATEGY, PLIM_KNOB_QUANTISATION},
                                       {"fsdp2", "nf4 nf4-double"},
                                       "torchao cannot divide this model's 4-bit weights between "
                                       "so many GPUs"});
  if (*request->source.quantization) keep_own(r, PLIM_KNOB_QUANTISATION);
  if (!is_packed) return;
  refuse_pair(r, (plim_refused_pair){{PLIM_KNOB_STRATEGY, PLIM_KNOB_STRATEGY},
                                     {"zero3 fsdp2", "zero3 fsdp2"}});
}

static void note_refused(plan_for_card *c) {
  plim_choice own = plim_plan_own_choice(&c->asked);
  const plim_refused_pair *pair = plim_plan_refused(&c->asked, &own);
  if (pair)
    plim_note_add(&c->request.notes, "reads.refused_pair", plim_knob_table[pair->knob[0]].name,
                  "%s, so these files do not start as they are", pair->why);
}

static void note_length(plan_for_card *c) {
  if (!c->plan.rungs.len) return;
  int64_t length = c->plan.rungs.at[0].choice.at[PLIM_KNOB_SEQUENCE];
  if (length != c->request.job.recipe.length) job_note_planned_length(&c->request, length);
}

// Whether the plan changes what evaluation needs: there, Liger's loss computes all logits.
static bool changes_evaluation(const project_job *files, const plim_job *own,
                               const plim_job *planned) {
  job_evaluation before = project_job_evaluation(files, own);
  job_evaluation after = project_job_evaluation(files, planned);
  return job_evaluation_matters(&after, planned) &&
         (!job_evaluation_matters(&before, own) || after.logits_bytes > before.logits_bytes);
}

// Notes that matter only with the plan's settings.
static void note_planned(plan_for_card *c) {
  if (!c->plan.rungs.len) return;
  plim_job planned = plim_choice_job(&c->asked, &c->plan.rungs.at[0].choice);
  project_job_note_passes(&c->request.job, &planned, &c->request.notes);
}

static void note_launcher(const project_job *files, plan_for_card *c) {
  if (!c->plan.rungs.len) return;
  const plim_choice *from = &c->plan.before_choice, *to = &c->plan.rungs.at[0].choice;
  bool is_new = from->at[PLIM_KNOB_ALLOC_CONF] != to->at[PLIM_KNOB_ALLOC_CONF];
  if (is_new && plan_launcher_sets_conf(&files->project, c, to))
    project_job_note_launcher(files, &c->request.notes);
}

static void note_evaluation(const project_job *files, plan_for_card *c) {
  bool is_told = project_job_note_evaluation(files, &c->request.job, &c->plan.before, false,
                                             &c->request.notes);
  if (!c->plan.rungs.len) return;
  const plim_rung *first = &c->plan.rungs.at[0];
  plim_job planned = plim_choice_job(&c->asked, &first->choice);
  if (!is_told || changes_evaluation(files, &c->request.job, &planned))
    project_job_note_evaluation(files, &planned, &first->e, true, &c->request.notes);
}

static void note_fp8(const project_job *files, plan_for_card *c) {
  bool has_plan = c->plan.rungs.len;
  plim_job planned =
      has_plan ? plim_choice_job(&c->asked, &c->plan.rungs.at[0].choice) : c->request.job;
  project_job_note_fp8(files, &c->request.job, &planned, &c->request.notes);
}

static void note_fused_dpo(const project_job *files, plan_for_card *c) {
  uint64_t logits = estimate_shown(&c->plan.before).component_bytes[PLIM_FOR_LOGITS];
  bool is_full = c->request.job.recipe.loss == PLIM_LOSS_FULL;
  if (c->plan.before.has_verdict && !c->plan.before.fits && is_full)
    project_job_note_fused_dpo(files, &c->request.job, logits, &c->request.notes);
}

// If nothing fits and a setting in the files could make each GPU load less: what a plan needs with that setting.
static plim_err help_with_loading(plan_for_card *c, plim_error *error) {
  if (c->plan.rungs.len || !c->request.load_help) return PLIM_OK;
  plim_plan_request r = c->asked;
  plim_plan with = {0};
  r.job.leaves_tables = r.job.returns_ends;
  r.job.mapped_under &= ~(1u << PLIM_SHARD_FSDP2);
  if (c->asked.job.mapped_under) r.job.load = plim_job_usual_load(&r.job);
  plim_err err = plim_plan_make(&r, &with, error);
  if (!err && with.rungs.len) {
    snprintf(c->load_help, sizeof c->load_help, "%s. A plan then fits: %s", c->request.load_help,
             units_bytes(with.rungs.at[0].e.device_bytes).text);
    c->request.load_help = c->load_help;
  }
  plim_plan_clear(&with);
  return err;
}

static plim_err plan_card(const plan_args *args, project_job *files, const char *gpu,
                          plan_for_card *c, const char **source, plim_error *error) {
  job_args job = args->job;
  job.gpu = gpu;
  if (!job.seq) job.seq = plan_fixed_length(args); // the only length that anyone named
  plim_err err = job_understand(&job, args->typed, &c->request, source, error);
  if (err) return files ? project_job_blame(files, &args->job, source, err, error) : err;
  if (files) project_job_place_notes(files, &c->request.notes);
  if (files) project_job_note_batches(files, &c->request);
  if (!files && job.strategy && !job_is_typed(&job, &job.strategy))
    plim_note_add(&c->request.notes, "assumed.strategy", "strategy",
                  "no --strategy is given: assuming that the current run uses DDP");
  c->asked = (plim_plan_request){.job = c->request.job,
                                 .alloc_conf = args->job.alloc_conf,
                                 .target = c->request.target,
                                 .world = (int)args->job.world,
                                 .is_contrastive = args->contrastive,
                                 .has_batch_norm = args->batch_norm,
                                 .omits_part = c->request.job.model.outer && job.sees_images,
                                 .packs_samples = files && project_job_packs(files),
                                 .turns_on_reentrant = args->job.turns_on_reentrant,
                                 .on_is_reentrant = args->job.on_is_reentrant,
                                 .keeps_host_optimizer = args->job.keeps_host_optimizer,
                                 .evaluation_bytes = files ? job_evaluation_beyond : NULL,
                                 .evaluation_of = files,
                                 .positives = args->positives,
                                 .negatives = args->negatives};
  if (c->request.target.limit_bytes == PLIM_UNKNOWN) {
    err = plim_fail(error, PLIM_ERR_ARGUMENT, "no GPU is given, and this machine has none");
    plim_error_hint(error, "--gpu 4090, or --gpu 24GiB");
  }
  if (!err) err = plan_read_options(args, &c->asked, error);
  if (!err) read_checkpoint_on(&c->asked);
  if (!err) read_own_conf(&c->asked);
  if (!err && files) hold_fixed(&files->project, &c->asked);
  if (!err && files) hold_types(files, &c->asked);
  if (!err && files) offer_losses(files, &args->job, &c->asked);
  if (!err && files) hold_ways(files, &c->asked);
  if (!err && files)
    c->asked.refused_count = plim_project_refused(&files->project, c->asked.refused);
  if (!err) note_refused(c);
  if (!err && files) hold_unmodelled(files, &job, &c->request, &c->asked);
  if (!err && files) mark_by_hand(files, &c->asked);
  if (!err)
    c->asked.can_say_reentrant = !files || can_say(files, PLIM_KNOB_CHECKPOINT, "reentrant");
  if (!err && files) project_job_note_patches(files, &c->request.job, &c->request.notes);
  c->asked.errs_low =
      plim_notes_err_low(&c->request.notes) || (files && plim_notes_err_low(&files->notes));
  c->errs_low = c->asked.errs_low || plim_notes_err_either(&c->request.notes) ||
                (files && plim_notes_err_either(&files->notes));
  c->saved_bytes = plim_saved_sum(plim_notes_saved(&c->request.notes),
                                  files ? plim_notes_saved(&files->notes) : 0);
  plim_plan_request first = c->asked;
  first.known = &c->known;
  if (!err) err = plim_plan_make(&first, &c->plan, error);
  if (!err) err = help_with_loading(c, error);
  if (!err) note_length(c);
  if (!err) note_planned(c);
  if (!err && files) note_launcher(files, c);
  if (!err && files) note_evaluation(files, c);
  if (!err && files) note_fp8(files, c);
  if (!err && files) note_fused_dpo(files, c);
  if (!err) job_note_loading(&c->request, &c->plan.before, &c->request.notes);
  bool has_memory = !c->request.notes.has_no_memory && !(files && files->notes.has_no_memory);
  if (!err && !has_memory) err = plim_no_memory(error);
  if (gpu) snprintf(c->gpu, sizeof c->gpu, "%s", gpu);
  return err;
}

// Whether a script uses torch.nn.BatchNorm1d or a similar class, or SyncBatchNorm.
static bool has_batch_norm(const plim_project_file *f) {
  return f->settings.format == PLIM_FORMAT_PYTHON && plim_python_has(&f->code, "*BatchNorm*");
}

// Notes that the allocator settings come from the environment.
static void note_environment(const plan_args *args, project_job *files) {
  const char *conf = args->job.alloc_conf;
  bool is_typed = job_is_typed(&args->job, &args->job.alloc_conf);
  bool is_of_files = files->run.alloc_conf.origin == PLIM_EXPLICIT || files->conf_by;
  if (conf && !is_typed && !is_of_files)
    plim_note_add(&files->notes, "assumed.alloc_conf", "alloc_conf",
                  "PYTORCH_CUDA_ALLOC_CONF is taken from this environment: %s", conf);
}

// Takes the arguments from the files. Their effective batch is kept, whatever their micro batch and accumulation are.
static plim_err take_files(plan_args *args, project_job *files, plim_error *error) {
  plim_err err = project_job_fill(files, &args->job, error);
  if (!err) note_environment(args, files);
  if (!err) project_job_note_one(files, &args->job);
  if (!err) project_job_note_visible(files, &args->job);
  if (!err) project_job_note_fixed(files);
  if (!err && !args->effective_batch && project_job_batch(files)) {
    snprintf(args->batch_of_files, sizeof args->batch_of_files, "%llu",
             (unsigned long long)project_job_batch(files));
    args->effective_batch = args->batch_of_files;
  }
  if (!err) args->positives = project_job_count(files, PLIM_KNOB_POSITIVES);
  if (!err) args->negatives = project_job_count(files, PLIM_KNOB_NEGATIVES);
  const plim_known_number *epochs = &files->run.epochs;
  if (!err && isnan(args->epochs) && epochs->origin >= PLIM_DEFAULTED)
    args->epochs = epochs->number;
  for (size_t i = 0; !err && i < files->project.files.len; i++)
    args->batch_norm = args->batch_norm || has_batch_norm(files->project.files.at[i]);
  return err;
}

static void leave_alone(const plan_for_card *c, plim_knob knob, plim_plan_request *held,
                        char *flags, size_t size) {
  held->domains[knob] = (plim_domain){.count = 1, .at = {c->plan.before_choice.at[knob]}};
  plan_fix_flag(c, knob, flags, size);
}

// Plans again with those settings fixed that cannot be written into the files, until the whole plan can be written.
static plim_err plan_writable(const plan_result *r, plan_for_card *c, plim_error *error) {
  const plim_plan *best = &c->plan;
  plim_plan_request held = c->asked;
  plim_err err = PLIM_OK;
  held.known = &c->known;
  held.only_first = true;
  while (!err && r->files && best->rungs.len) {
    plan_edits edits;
    err = plan_edits_of(&r->files->project, c, &best->rungs.at[0], &edits, error);
    if (err || !plan_edits_are_half(&edits)) break;
    for (size_t i = 0; i < edits.by_hand_count; i++)
      leave_alone(c, edits.by_hand[i].knob, &held, c->writable_flags, sizeof c->writable_flags);
    plim_plan_clear(&c->writable);
    err = plim_plan_make(&held, &c->writable, error);
    best = &c->writable;
  }
  return err;
}

// Several GPUs start from data parallel; the plan chooses the final strategy.
static void settle(job_args *job) {
  uint64_t *counts[] = {&job->batch, &job->accumulate, &job->world};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    if (*counts[i] == JOB_UNSET) *counts[i] = 1;
  bool is_open = !job->strategy && !job_is_typed(job, &job->strategy);
  if (job->world > 1 && is_open) job->strategy = PLIM_SHARD_DDP;
}

// If the number of texts is not given, they are an anchor, a positive and the other columns.
static void settle_columns(plan_args *a) {
  if (a->contrastive && !a->job.loss) a->job.loss = PLIM_LOSS_CONTRASTIVE;
  if (a->job.loss != PLIM_LOSS_CONTRASTIVE) return;
  a->contrastive = !a->job.is_pairwise;
  if (a->positives + a->negatives > 0 || a->job.columns == 1) return;
  a->positives = 1;
  a->negatives = a->job.columns > JOB_COLUMNS ? (int64_t)a->job.columns - JOB_COLUMNS : 0;
}

static plim_err plan_cards(const plan_args *args, project_job *files, plan_result *r,
                           const char **source, plim_error *error) {
  char list[512], *rest = list, *gpu;
  if (!args->job.gpu) {
    r->count = 1;
    return plan_card(args, files, NULL, &r->cards[0], source, error);
  }
  if (snprintf(list, sizeof list, "%s", args->job.gpu) >= (int)sizeof list)
    return plim_fail(error, PLIM_ERR_ARGUMENT, "--gpu has more than %zu characters",
                     sizeof list - 1);
  while ((gpu = strsep(&rest, ","))) {
    if (r->count == PLAN_MAX_CARDS)
      return plim_fail(error, PLIM_ERR_ARGUMENT, "--gpu lists more than %d GPUs", PLAN_MAX_CARDS);
    while (*gpu == ' ') gpu++;
    plim_err err = plan_card(args, files, gpu, &r->cards[r->count], source, error);
    if (err) return err;
    r->count++;
  }
  return PLIM_OK;
}

static plim_err no_number(const char *option, double value, const char *why, const char *example,
                          plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "%s %g: %s", option, value, why);
  plim_error_hint(error, "%s %s", option, example);
  return err;
}

plim_err plan_check_args(const plan_args *args, plim_error *error) {
  bool is_lasting = args->samples != PLIM_UNKNOWN;
  if (!args->samples) return no_number("--samples", 0, "it must be at least 1", "50000", error);
  if (args->epochs <= 0)
    return no_number("--epochs", args->epochs, "it must be more than 0", "3", error);
  if (args->price < 0)
    return no_number("--price", args->price, "it must be 0 or more", "1.99", error);
  if (is_lasting || (isnan(args->price) && isnan(args->epochs))) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "%s needs the number of sequences in the data",
                           isnan(args->price) ? "--epochs" : "--price");
  plim_error_hint(error, "--samples 50000");
  return err;
}

plan_result plan_result_new(const cli_call *call, const plan_args *args) {
  return (plan_result){.args = &args->job,
                       .cards = calloc(PLAN_MAX_CARDS, sizeof(plan_for_card)),
                       .samples = args->samples,
                       .price_per_hour = args->price,
                       .sets = &args->set,
                       .call = call,
                       .out = args->out};
}

plim_err plan_result_make(plan_args *args, project_job *files, plan_result *r, const char **source,
                          plim_error *error) {
  if (!r->cards) return plim_no_memory(error);
  plim_err err = files ? take_files(args, files, error) : PLIM_OK;
  r->files = files;
  settle(&args->job);
  if (!err && files) r->own_batch = project_job_own_batch(files, args->job.world);
  settle_columns(args);
  r->nodes = args->job.nodes;
  r->epochs = isnan(args->epochs) ? 1 : args->epochs;
  return err ? err : plan_cards(args, files, r, source, error);
}

plim_err plan_result_finish(plan_result *r, plim_error *error) {
  plim_err err = r->count == 1 ? plan_writable(r, &r->cards[0], error) : PLIM_OK;
  for (size_t i = 0; !err && i < r->count; i++) err = plan_reproduce(r, &r->cards[i], error);
  return err;
}

void plan_result_clear(plan_result *r) {
  for (size_t i = 0; r->cards && i < PLAN_MAX_CARDS; i++) { // including one that failed halfway
    vec_free(&r->cards[i].known);
    plim_plan_clear(&r->cards[i].plan);
    plim_plan_clear(&r->cards[i].writable);
    job_request_clear(&r->cards[i].request);
    free(r->cards[i].reproduce);
  }
  free(r->cards);
}
