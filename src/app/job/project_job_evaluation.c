// Finds evaluation during training, which is not on the tape, and computes what it needs at least.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "family.h"
#include "key_names.h"
#include "project_job.h"
#include "units.h"

static bool is_setting_of(const plim_setting *setting, const char *name) {
  return !setting->is_aside && plim_key_is_called(setting->key, name);
}

// The last setting with one of the two names; NULL: none.
static const plim_setting *find(const project_job *p, const char *name, const char *other,
                                const char **file) {
  const plim_setting *found = NULL;
  for (size_t i = 0; i < p->project.files.len; i++) {
    const plim_settings *s = &p->project.files.at[i]->settings;
    for (size_t k = 0; k < s->at.len; k++)
      if (is_setting_of(&s->at.at[k], name) || (other && is_setting_of(&s->at.at[k], other)))
        found = &s->at.at[k], *file = p->project.files.at[i]->path;
  }
  return found;
}

static plim_value value_of(const plim_setting *setting) {
  if (!setting) return (plim_value){0};
  return setting->value.kind == PLIM_VALUE_DERIVED ? setting->computed : setting->value;
}

static bool is_on(const project_job *p, const char *name) {
  const char *file;
  plim_value v = value_of(find(p, name, NULL, &file));
  if (v.kind == PLIM_VALUE_TEXT) return *v.text && strcasecmp(v.text, "false") != 0;
  return v.kind == PLIM_VALUE_BOOL ? v.flag
                                   : (v.kind == PLIM_VALUE_INTEGER && v.integer > 0) ||
                                         (v.kind == PLIM_VALUE_REAL && v.real > 0);
}

// Trainer evaluates if a strategy other than "no" is set; transformers 4.45 and older call it evaluation_strategy.
static bool has_strategy(const project_job *p) {
  const char *file;
  plim_value v = value_of(find(p, "eval_strategy", "evaluation_strategy", &file));
  bool is_text = v.kind == PLIM_VALUE_TEXT;
  return is_text && (strcasecmp(v.text, "steps") == 0 || strcasecmp(v.text, "epoch") == 0);
}

static bool runs(const project_job *p) {
  switch (p->project.dialect) {
  case PLIM_DIALECT_AXOLOTL: // core/builders/base.py, _configure_save_and_eval_strategy
    return (is_on(p, "val_set_size") || project_job_setting(p, "test_datasets", ".path")) &&
           (has_strategy(p) || is_on(p, "eval_steps") || is_on(p, "evals_per_epoch"));
  case PLIM_DIALECT_TORCHTUNE: return is_on(p, "run_val_every_n_steps");
  default: return has_strategy(p) || is_on(p, "do_eval"); // the scripts then evaluate at the end
  }
}

// ---- Axolotl's rows -----------------------------------------------------------------------------------

// Axolotl with kernels that separate samples makes the whole micro batch one row (multipack_real_batches of
// core/builders/causal.py, attn_supports_packing of utils/schemas/config.py).
static bool packs_to_one_row(const project_job *p) {
  const plim_setting *s = project_job_setting(p, "multipack_real_batches", "");
  const char *attention = p->run.attention.text;
  if (p->project.dialect != PLIM_DIALECT_AXOLOTL) return false;
  if (s && s->value.kind == PLIM_VALUE_BOOL) return !s->value.flag;
  return strcmp(p->run.mask.text, "packed") == 0 && strcmp(attention, "sdpa") != 0 &&
         strcmp(attention, "eager") != 0;
}

// The key that packs samples in evaluation too; NULL: they are not packed. _get_eval_sampler (core/trainers/base.py) then takes
// rows of the micro batch of training times sequence_len, and eval_batch_size is not read. eval_sample_packing is on with
// sample_packing unless it is set (check_eval_packing of utils/schemas/validation.py), and does nothing without it.
static const plim_setting *packs_evaluation(const project_job *p, const char **file) {
  if (p->project.dialect != PLIM_DIALECT_AXOLOTL || !project_job_packs(p)) return NULL;
  const plim_setting *own = find(p, "eval_sample_packing", NULL, file);
  bool is_set = own && value_of(own).kind != PLIM_VALUE_NULL;
  if (is_set) return is_on(p, "eval_sample_packing") ? own : NULL;
  return find(p, "sample_packing", NULL, file);
}

// pad_to_sequence_len pads every batch to a multiple of sequence_len (core/builders/causal.py); with packing it is on unless
// it is set (hint_sample_packing_padding of utils/schemas/validation.py).
static bool pads_evaluation(const project_job *p) {
  const char *file;
  const plim_setting *s = find(p, "pad_to_sequence_len", NULL, &file);
  bool is_set = s && value_of(s).kind != PLIM_VALUE_NULL;
  return p->project.dialect == PLIM_DIALECT_AXOLOTL &&
         (is_set ? is_on(p, "pad_to_sequence_len") : project_job_packs(p));
}

// The tokens of a sample that is not packed. eval_sequence_len is Axolotl's.
static int64_t sample_length(const project_job *p, int64_t trained) {
  const char *file;
  plim_value own = value_of(find(p, "eval_sequence_len", NULL, &file));
  bool is_set = own.kind == PLIM_VALUE_INTEGER && own.integer > 0;
  int64_t length = is_set ? own.integer : trained;
  return pads_evaluation(p) ? (length + trained - 1) / trained * trained : length;
}

// ---- the batch ----------------------------------------------------------------------------------------

static const struct {
  plim_dialect dialect;
  const char *key, *other;
  int64_t otherwise; // the batch if none is set; 0: that of training
} batches[] = {
    {PLIM_DIALECT_AXOLOTL, "eval_batch_size", NULL, 0},
    {PLIM_DIALECT_TORCHTUNE, "batch_size_val", NULL, 0},
    {PLIM_DIALECTS, "per_device_eval_batch_size", "per_gpu_eval_batch_size",
     8}, // TrainingArguments
};

static bool is_evaluated(plim_dialect dialect) {
  return dialect == PLIM_DIALECT_AXOLOTL || dialect == PLIM_DIALECT_TORCHTUNE ||
         (dialect != PLIM_DIALECTS && plim_dialect_table[dialect].has_trainer);
}

// get_batch_loss_metrics of LLaMA-Factory's train/dpo/trainer.py: the policy's logits are there in float32 while the reference
// runs, whose own need as much as those of one model. TRL's DPO keeps the policy's, too, but no log-probabilities of the whole
// vocabulary (trainer/dpo_trainer.py of 1.9, _compute_loss), which is the same sum.
static bool keeps_policy(const plim_recipe *r) {
  return r->method == PLIM_METHOD_DPO_FACTORY && r->reference != PLIM_REFERENCE_PRECOMPUTED;
}

// The bytes of the logits of one sample: in the type of the computation; in float32, to which ForCausalLMLoss copies them
// (transformers' loss/loss_utils.py) unless they are; and cross entropy's log_softmax, also in float32. Heads that classify
// have few. A simulated run of a small Llama without gradients has 10.3 bytes per logit in bf16 and 8.4 in float32.
static uint64_t logits_bytes(const plim_job *job, int64_t length) {
  bool is_short = job->recipe.autocast != PLIM_BOOL || job->dtype != PLIM_FP32;
  bool has_vocabulary = job->model.head == PLIM_HEAD_CAUSAL || job->model.head == PLIM_HEAD_MASKED;
  uint64_t kept = keeps_policy(&job->recipe) ? 4 : 0;
  if (!has_vocabulary) return 0;
  return (uint64_t)length * (uint64_t)job->model.vocabulary *
         ((is_short ? 2 + 4 + 4 : 4 + 4) + kept) * (uint64_t)plim_texts_per_sample(&job->recipe);
}

// Axolotl has no fused loss but Liger's and Cut Cross Entropy.
static bool uses_liger(const project_job *p, const plim_job *job) {
  bool is_of_files = p->run.liger.origin >= PLIM_DEFAULTED && strcmp(p->run.liger.text, "on") == 0;
  return is_of_files || job->recipe.uses_liger || p->project.dialect == PLIM_DIALECT_AXOLOTL;
}

// Liger's functions leave out the logits in training alone, unless their caller asks for that (skip_logits of its model/*.py).
// These do if nothing but the loss is wanted: prediction_step of Trainer, from transformers 5.15 on, and compute_loss of TRL's
// SFTTrainer, from 0.29 on. TRL's preference trainers have losses of Liger that never make them. Axolotl and LLaMA-Factory
// replace the model's functions themselves, without Trainer's use_liger_kernel, so nothing asks.
static bool skips_logits(const project_job *p, const plim_job *job) {
  plim_dialect dialect = p->project.dialect;
  bool is_trl = dialect == PLIM_DIALECT_TRL, is_trainer = is_trl || dialect == PLIM_DIALECT_HF;
  const plim_versions *v = &job->versions;
  bool asks =
      (is_trainer && plim_versions_used(v, PLIM_LIBRARY_TRANSFORMERS) >= PLIM_RELEASE(5, 15)) ||
      (is_trl && plim_versions_used(v, PLIM_LIBRARY_TRL) >= PLIM_RELEASE(0, 29));
  if (is_trl && job->recipe.method != PLIM_METHOD_TEXTS) return true;
  bool wants_more = asks && (project_job_calls(p, "compute_metrics=") ||
                             project_job_calls(p, "preprocess_logits_for_metrics="));
  return asks && (!wants_more || is_on(p, "prediction_loss_only"));
}

// Losses that never have all logits also work in evaluation, except Liger's. Axolotl's plugin for Cut Cross Entropy works in
// both.
static bool has_all_logits(const project_job *p, const plim_job *job) {
  if (project_job_cuts_loss(p)) return false;
  return job->recipe.loss == PLIM_LOSS_FULL ||
         (job->recipe.loss == PLIM_LOSS_FUSED && uses_liger(p, job) && !skips_logits(p, job));
}

// Packed rows hold as many tokens as those of training; a sample that is longer (eval_sequence_len) has a row of its own.
static void take_row(const project_job *p, job_evaluation *e) {
  bool is_one = packs_to_one_row(p);
  if (e->sample_length <= (is_one ? e->batch : 1) * e->length) return;
  if (is_one) e->batch = 1;
  e->length = e->sample_length;
}

static void take_batch(const project_job *p, job_evaluation *e) {
  size_t i = 0;
  const plim_setting *packs = packs_evaluation(p, &e->file);
  while (batches[i].dialect != PLIM_DIALECTS && batches[i].dialect != p->project.dialect) i++;
  e->key = batches[i].key;
  e->is_packed = packs != NULL;
  e->is_padded = e->is_packed || pads_evaluation(p);
  e->sample_length = sample_length(p, e->length);
  if (packs) {
    take_row(p, e);
    e->line = packs->line;
    return;
  }
  const plim_setting *batch = find(p, batches[i].key, batches[i].other, &e->file);
  plim_value v = value_of(batch);
  if (v.kind == PLIM_VALUE_INTEGER && v.integer > 0) e->batch = v.integer;
  else if (batches[i].otherwise) e->batch = batches[i].otherwise;
  e->line = batch ? batch->line : 0;
  e->length = e->sample_length;
}

job_evaluation project_job_evaluation(const project_job *p, const plim_job *job) {
  bool has_labels = job->model.family->is_encoder_decoder && job->recipe.target_length;
  job_evaluation e = {.batch = job->recipe.batch,
                      .length = has_labels ? job->recipe.target_length : job->recipe.length};
  if (!is_evaluated(p->project.dialect) || !runs(p)) return e;
  take_batch(p, &e);
  e.runs = true;
  e.generates = is_on(p, "predict_with_generate");
  e.lacks_fused_loss = job->recipe.loss == PLIM_LOSS_FUSED;
  const char *file;
  plim_value moves = value_of(find(p, "eval_accumulation_steps", NULL, &file));
  if (moves.kind == PLIM_VALUE_INTEGER && moves.integer > 0) e.moves_after = moves.integer;
  e.keeps_logits = project_job_calls(p, "compute_metrics=") && !is_on(p, "prediction_loss_only") &&
                   !project_job_calls(p, "preprocess_logits_for_metrics=");
  if (!has_all_logits(p, job)) return e;
  e.logits_bytes = (uint64_t)e.batch * logits_bytes(job, e.length);
  e.sample_bytes = logits_bytes(job, e.sample_length);
  return e;
}

// Evaluation with a batch that is not larger than that of training needs less than training, because nothing is kept for
// a backward pass.
bool job_evaluation_matters(const job_evaluation *e, const plim_job *job) {
  bool is_larger =
      (e->batch > job->recipe.batch || e->length > job->recipe.length) && e->logits_bytes;
  bool is_unlike = job->recipe.loss != PLIM_LOSS_FULL && e->logits_bytes;
  return e->runs && (is_larger || is_unlike || e->keeps_logits || e->generates);
}

// How LLaMA-Factory v1 forms batches (v1/plugins/trainer_plugins/batching.py); NULL: as usual.
static const char *filling_of(const project_job *p) {
  static const struct {
    const char *strategy, *what;
  } fillings[] = {
      {"padding_free", "the samples of a micro batch are one row without padding, of up to"},
      {"dynamic_padding_free", "samples are packed to rows of up to"},
      {"dynamic_batching", "each micro batch takes as many samples, padded to the longest, as fit "
                           "into"},
  };
  const plim_setting *s = project_job_setting(p, "batching_strategy", "batching_strategy");
  bool is_theirs = p->project.dialect == PLIM_DIALECT_LLAMA_FACTORY_V1 && s;
  for (size_t i = 0; is_theirs && i < sizeof fillings / sizeof *fillings; i++)
    if (s->value.kind == PLIM_VALUE_TEXT && strcmp(s->value.text, fillings[i].strategy) == 0)
      return fillings[i].what;
  return NULL;
}

bool project_job_packs(const project_job *p) {
  return p->run.packing.origin >= PLIM_DEFAULTED && strcmp(p->run.packing.text, "on") == 0;
}

void project_job_note_eval_batch(project_job *p) {
  const char *file, *other;
  const plim_setting *batch = find(p, "eval_batch_size", NULL, &file);
  bool is_set = batch && value_of(batch).kind == PLIM_VALUE_INTEGER;
  if (!is_set || !runs(p) || !packs_evaluation(p, &other)) return;
  if (value_of(batch).integer == p->run.micro_batch.count) return;
  plim_note_add(&p->notes, "no_effect", NULL,
                "eval_batch_size has no effect: Axolotl packs evaluation like training, to rows of "
                "micro_batch_size x sequence_len tokens, unless eval_sample_packing is false");
  plim_note_at(&p->notes, file, batch->line);
}

void project_job_drop_lengths(project_job *p, job_args *args) {
  const char *why = project_job_packs(p) ? "samples are packed"
                    : is_on(p, "pad_to_sequence_len") || is_on(p, "pad_to_max_length")
                        ? "every batch is padded to the full length"
                    : filling_of(p) ? "micro batches are filled with more of them"
                                    : NULL;
  if (args->lengths && !why && is_on(p, "group_by_length"))
    plim_note_add(&p->notes, "unmodelled.group_by_length", "sequence",
                  "group_by_length puts samples of similar length together, which is not modelled: "
                  "--lengths forms batches at random; a step may take less time than predicted");
  if (!args->lengths || !why) return;
  args->lengths = NULL;
  plim_note_add(&p->notes, "unused.lengths", "sequence", "--lengths changes nothing: %s", why);
}

void project_job_note_batches(const project_job *p, job_request *r) {
  const char *filling = filling_of(p);
  bool packs = project_job_packs(p), see_each_other = packs && project_job_diffuses(p);
  bool is_one_row = see_each_other || (packs && packs_to_one_row(p) && r->job.recipe.batch > 1);
  if (!filling && is_one_row) filling = "samples are packed to rows of";
  if (filling) job_note_filled_batches(filling, see_each_other, r);
  else if (packs) job_note_packed_length(r);
}

// A peak in the optimizer's step has temporaries, too, so its states are then left out.
uint64_t job_evaluation_bytes(const job_evaluation *v, const plim_estimate *e) {
  const uint64_t *live = e->p.live_bytes;
  bool has_temporaries = e->p.peak_at.phase == PLIM_PHASE_OPTIMIZER;
  return v->logits_bytes + e->context_bytes + live[PLIM_FOR_WEIGHTS] + live[PLIM_FOR_ADAPTERS] +
         (has_temporaries ? 0 : live[PLIM_FOR_OPTIMIZER]);
}

uint64_t job_evaluation_beyond(const void *files, const plim_job *job, const plim_estimate *e) {
  job_evaluation v = project_job_evaluation(files, job);
  bool counts = job_evaluation_matters(&v, job) && v.logits_bytes;
  uint64_t needed = counts ? job_evaluation_bytes(&v, e) : 0;
  return needed > plim_needed_bytes(e) ? needed : 0;
}

int64_t job_evaluation_largest(const job_evaluation *v, const plim_estimate *e) {
  uint64_t rest = job_evaluation_bytes(v, e) - v->logits_bytes;
  return e->budget_bytes > rest ? (int64_t)((e->budget_bytes - rest) / v->sample_bytes) : 0;
}

job_evaluation_cure_text job_evaluation_cure(const job_evaluation *v, const plim_estimate *e) {
  job_evaluation_cure_text cure;
  long long most = job_evaluation_largest(v, e);
  if (most && v->is_packed)
    snprintf(cure.text, sizeof cure.text,
             "set eval_sample_packing: false and %s to %lld or less (packed evaluation takes the "
             "micro batch of training instead)",
             v->key, most);
  else if (most) snprintf(cure.text, sizeof cure.text, "set %s to %lld or less", v->key, most);
  else
    snprintf(cure.text, sizeof cure.text, "turn evaluation off%s",
             v->is_padded ? "" : ", or shorten its texts");
  return cure;
}

// Whether it may need more memory than there is.
static bool note_logits(const job_evaluation *v, const plim_estimate *e, bool is_planned,
                        plim_notes *notes) {
  const char *beside =
      v->keeps_logits && v->moves_after
          ? ", and compute_metrics keeps those of as many batches as eval_accumulation_steps says"
      : v->keeps_logits     ? ", and compute_metrics keeps those of all batches until "
                              "eval_accumulation_steps moves them to the host"
      : v->generates        ? ", and predict_with_generate keeps keys and values"
      : v->lacks_fused_loss ? ", because Liger-Kernel's fused loss works only in training"
                            : "";
  uint64_t needed = job_evaluation_bytes(v, e);
  bool is_too_large = e->has_verdict && needed > e->budget_bytes;
  bool is_less = needed <= e->device_bytes; // than training
  if (is_less && !v->keeps_logits && !v->generates) return false;
  job_evaluation_cure_text cure = {""};
  if (is_too_large) cure = job_evaluation_cure(v, e);
  plim_note_add(notes, "unmodelled.evaluation", NULL,
                "evaluation%s %s: a batch of %lld x %lld tokens has %s of logits%s; with the model "
                "and the optimizer that is at least %s%s%s%s",
                is_planned ? " with the planned settings" : "",
                is_too_large ? "does not fit" : "is not modelled", (long long)v->batch,
                (long long)v->length, units_bytes(v->logits_bytes).text, beside,
                units_bytes(needed).text, is_too_large ? ", more than the GPU has" : "",
                *cure.text ? "; " : "", cure.text);
  return true;
}

bool project_job_note_evaluation(const project_job *p, const plim_job *job, const plim_estimate *e,
                                 bool is_planned, plim_notes *notes) {
  job_evaluation v = project_job_evaluation(p, job);
  if (!job_evaluation_matters(&v, job)) return false;
  if (v.logits_bytes) {
    if (!note_logits(&v, e, is_planned, notes)) return false;
  } else if (!is_planned)
    plim_note_add(notes, "unmodelled.evaluation", NULL, "evaluation (batch %lld) is not modelled%s",
                  (long long)v.batch,
                  v.generates      ? ": predict_with_generate keeps keys and values"
                  : v.keeps_logits ? ": compute_metrics keeps the results of all batches"
                                   : "");
  else return false;
  if (v.line) plim_note_at(notes, v.file, v.line);
  return true;
}
