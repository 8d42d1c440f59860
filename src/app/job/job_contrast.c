#include "job_contrast.h"

#include <stdio.h>
#include <string.h>

#include "family.h"
#include "job_method.h"
#include "plan.h"
#include "python_code.h"

enum { MOST_COLUMNS = 1 << 12, MOST_CACHED = 1 << 20 };

// ---- into a recipe ----------------------------------------------------------------------------------

// Embedding models are loaded without a head (masked-token or next-token); a tied head needs no memory.
static void leave_out_head(plim_config *c) {
  c->head = c->family->is_encoder ? PLIM_HEAD_NONE : PLIM_HEAD_CAUSAL;
  if (c->head == PLIM_HEAD_CAUSAL) c->ties_embeddings = true;
}

// The loss is not modelled for this architecture: predicts one forward pass over all texts of the batch.
static void take_as_one_pass(const job_args *args, job_request *r) {
  r->job.recipe.loss = PLIM_LOSS_FULL;
  plim_note_add(
      &r->notes, "unmodelled.contrastive", NULL,
      "a contrastive loss is not modelled for %s: predicted with the model's own loss over "
      "all texts of the batch",
      args->model);
}

static plim_err check_columns(uint64_t columns, uint64_t fewest, plim_error *error) {
  if (columns >= fewest && columns <= MOST_COLUMNS) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "--columns %llu: it must be between 2 and %d",
                           (unsigned long long)columns, MOST_COLUMNS);
  plim_error_hint(error, "count the anchor and the positive as 2, and add 1 for each negative");
  return err;
}

// The smallest mini batch that does not make too many mini batches.
static uint64_t least_cached(const plim_recipe *c) {
  uint64_t chunks = PLIM_MOST_MINI_BATCHES / (uint64_t)c->columns;
  return ((uint64_t)c->batch + chunks - 1) / chunks;
}

static plim_err check_cached(uint64_t at_once, const plim_recipe *c, plim_error *error) {
  uint64_t least = c->is_pairwise ? 1 : least_cached(c);
  if (!at_once || (at_once >= least && at_once <= MOST_CACHED)) return PLIM_OK;
  plim_err err =
      plim_fail(error, PLIM_ERR_ARGUMENT, "--cached-batch %llu: it must be between %llu and %d",
                (unsigned long long)at_once, (unsigned long long)least, MOST_CACHED);
  if (at_once > MOST_CACHED)
    plim_error_hint(error, "a value above the batch size means the whole batch");
  else
    plim_error_hint(
        error,
        "%lld texts in each of %lld columns make %lld mini batches; at most %d can be predicted",
        (long long)c->batch, (long long)c->columns,
        (long long)(c->columns * ((c->batch - 1) / (int64_t)at_once + 1)), PLIM_MOST_MINI_BATCHES);
  return err;
}

plim_err job_understand_contrast(const job_args *args, const job_args *typed, job_request *r,
                                 plim_error *error) {
  plim_recipe *c = &r->job.recipe;
  uint64_t columns = args->columns ? args->columns : JOB_COLUMNS;
  if (c->loss != PLIM_LOSS_CONTRASTIVE) return PLIM_OK;
  plim_err err = check_columns(columns, args->is_pairwise ? 1 : 2, error);
  if (err) return err;
  if (r->job.model.family->is_encoder_decoder && typed->loss != PLIM_LOSS_CONTRASTIVE) {
    take_as_one_pass(args, r);
    return PLIM_OK;
  }
  leave_out_head(&r->job.model);
  c->columns = (int64_t)columns;
  c->is_pairwise = args->is_pairwise;
  err = check_cached(args->cached_batch, c, error);
  if (err) return err;
  c->cached_batch = (int64_t)args->cached_batch;
  c->pooling = (plim_pooling)args->pooling;
  if (c->mask == PLIM_MASK_NONE && !job_is_typed(args, &args->mask)) c->mask = PLIM_MASK_LONGEST;
  return PLIM_OK;
}

// ---- from files -------------------------------------------------------------------------------------

static bool is_contrastive(const project_job *p, int64_t texts) {
  const plim_known_text *kind = &p->run.loss_kind;
  bool is_explicit = kind->origin == PLIM_EXPLICIT || kind->origin == PLIM_DEFAULTED;
  return texts > 1 || (is_explicit && strcmp(kind->text, "contrastive") == 0);
}

// CachedMultipleNegativesRankingLoss(model) without mini_batch_size.
static bool has_cached_loss(const plim_project *p) {
  static const char *const calls[] = {"CachedMultipleNegativesRankingLoss(",
                                      "CachedMultipleNegativesSymmetricRankingLoss("};
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    for (size_t k = 0; f->settings.format == PLIM_FORMAT_PYTHON && k < 2; k++)
      if (plim_python_has(&f->code, calls[k])) return true;
  }
  return false;
}

static uint64_t cached_batch(const project_job *p) {
  int64_t origin = project_job_count(p, PLIM_KNOB_CACHED_BATCH);
  if (origin > 0) return (uint64_t)origin;
  return has_cached_loss(&p->project) ? PLIM_CACHED_BATCH : 0;
}

// The number of texts per sample, from the loss or the data; otherwise two, with a note.
static uint64_t columns_of(project_job *p, const job_texts *found) {
  if (found->columns) return found->columns;
  if (found->data_columns) {
    plim_note_add(&p->notes, "assumed.columns", NULL,
                  found->is_of_example ? "%llu texts per sample, as in this InputExample"
                                       : "assuming %llu texts per sample, from the name of the "
                                         "data set (--columns N to change)",
                  (unsigned long long)found->data_columns);
    plim_note_at(&p->notes, found->data_file, found->data_line);
    return found->data_columns;
  }
  if (p->project.dialect == PLIM_DIALECT_SENTENCE)
    plim_note_add(
        &p->notes, "assumed.columns", NULL,
        "the files do not set how many texts a sample has: assuming %d (--columns N to change)",
        JOB_COLUMNS);
  return 0;
}

void project_job_contrast(project_job *p, job_args *a) {
  int64_t texts = plim_sequences_per_anchor(project_job_count(p, PLIM_KNOB_POSITIVES),
                                            project_job_count(p, PLIM_KNOB_NEGATIVES));
  if (!is_contrastive(p, texts) || job_is_typed(a, &a->loss)) return;
  job_texts found = project_job_texts(&p->project);
  a->loss = PLIM_LOSS_CONTRASTIVE;
  a->is_pairwise = found.pairwise && !found.others;
  if (!a->columns) a->columns = texts > 1 ? (uint64_t)texts : columns_of(p, &found);
  if (!a->cached_batch && !job_is_typed(a, &a->cached_batch)) a->cached_batch = cached_batch(p);
}

// ---- in words ---------------------------------------------------------------------------------------

void job_describe_loss(const job_request *r, char *text, size_t size) {
  const plim_recipe *c = &r->job.recipe;
  char at_once[48] = "";
  if (c->cached_batch)
    snprintf(at_once, sizeof at_once, ", mini batches of %d", (int)c->cached_batch);
  if (c->loss == PLIM_LOSS_CONTRASTIVE)
    snprintf(text, size, "%s%s loss, %d text%s per sample%s", c->cached_batch ? "cached " : "",
             c->is_pairwise ? "pairwise" : "contrastive", (int)c->columns,
             c->columns == 1 ? "" : "s", at_once);
  else if (c->method != PLIM_METHOD_TEXTS || c->distils) job_describe_method(r, text, size);
  else snprintf(text, size, "%s loss", plim_loss_names[c->loss]);
}
