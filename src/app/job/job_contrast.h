// What a contrastive loss adds to a job: columns of texts, pooling, a cache.
#ifndef PLIM_APP_JOB_CONTRAST_H
#define PLIM_APP_JOB_CONTRAST_H

#include "project_job.h"

enum { JOB_COLUMNS = 2 }; // an anchor and a positive, where nobody says more

// Into the recipe, where the loss is contrastive. What has no program is refused if it was typed, and taken
// for something else if files say it.
plim_err job_understand_contrast(const job_args *args, const job_args *typed, job_request *r,
                                 plim_error *error);

// What the files say about it.
void project_job_contrast(project_job *p, job_args *args);

// Losses that scripts of sentence-transformers make, and texts of a sample (project_job_texts.c).
typedef struct {
  int pairwise, others;           // losses of one sample, and of the samples of a batch
  uint64_t columns, data_columns; // by the loss and by the data; 0: neither says it
} job_texts;
job_texts project_job_texts(const plim_project *p);

// "contrastive loss of 2 columns, 32 at a time", or what another is called.
void job_describe_loss(const job_request *r, char *text, size_t size);

#endif
