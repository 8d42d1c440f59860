// Quantisation-aware training: what --qat and the files say of it.
#include <stdlib.h>
#include <string.h>

#include "job_options.h"

enum { MOST_PER_GROUP = 1 << 20 };

static plim_err refuse_kind(const char *text, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           "there is no way \"%.64s\" to train with quantisation in mind", text);
  plim_error_hint(error, "--qat int8-int4, or --qat int8-int4:32 for groups of 32; "
                         "plimsoll help estimate lists them");
  return err;
}

static plim_err read_group(const char *text, const char *digits, int64_t *out, plim_error *error) {
  char *end;
  long long group = strtoll(digits, &end, 10);
  if (end == digits || *end || group < 2 || group > MOST_PER_GROUP) {
    plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                             "--qat %.64s: the size of a group must be between 2 and %d", text,
                             MOST_PER_GROUP);
    plim_error_hint(error, "--qat %.*s:256", (int)strcspn(text, ":"), text);
    return err;
  }
  *out = group;
  return PLIM_OK;
}

// torchao passes over such layers without a word (_replace_linear_8da4w).
static void note_uneven(job_request *r) {
  const plim_config *c = &r->job.model;
  int64_t group = r->job.qat.group;
  bool is_hidden = c->hidden % group != 0;
  int64_t width = is_hidden ? c->hidden : c->intermediate;
  if (width <= 0 || width % group == 0) return;
  plim_note_add(&r->notes, "reads.qat_groups", NULL,
                "%d inputs are no whole groups of %d, so torchao leaves layers with that many "
                "inputs as they are",
                (int)width, (int)group);
}

// Each call of the head rounds its weight again, and keeps what backward needs of that.
static void note_head(job_request *r) {
  const plim_job *job = &r->job;
  bool is_in_eighths =
      job->recipe.loss == PLIM_LOSS_EIGHTHS || job->recipe.loss == PLIM_LOSS_LISTED;
  bool is_rounded = !job->model.ties_embeddings && !job->lora.rank;
  if (!is_in_eighths || !is_rounded || job->qat.kind == PLIM_QAT_MXFP4) return;
  plim_note_add(&r->notes, "reads.qat_head", "chunked_loss",
                "the loss in eighths calls the head eight times, and each call keeps a rounded "
                "copy of its weight for backward; a loss of all logits keeps one copy, and may "
                "need less memory (--loss full; torchtune: loss._component_: "
                "torch.nn.CrossEntropyLoss)");
}

plim_err job_understand_qat(const job_args *args, job_request *r, plim_error *error) {
  if (!args->qat) return PLIM_OK;
  size_t size = strcspn(args->qat, ":");
  int kind = 0;
  while (kind < PLIM_QAT_COUNT && (strlen(plim_qat_table[kind].name) != size ||
                                   memcmp(plim_qat_table[kind].name, args->qat, size) != 0))
    kind++;
  if (kind == PLIM_QAT_COUNT) return refuse_kind(args->qat, error);
  r->job.qat = (plim_qat){(plim_qat_kind)kind, plim_qat_table[kind].group};
  plim_err err = PLIM_OK;
  if (args->qat[size]) err = read_group(args->qat, args->qat + size + 1, &r->job.qat.group, error);
  if (!err && kind) note_uneven(r), note_head(r);
  return err;
}
