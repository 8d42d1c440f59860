// Contrastive losses in a job: columns of texts, pooling, cached losses.
#ifndef PLIM_APP_JOB_CONTRAST_H
#define PLIM_APP_JOB_CONTRAST_H

#include "project_job.h"

enum { JOB_COLUMNS = 2 }; // default: an anchor and a positive

// Fills in the recipe if the loss is contrastive. An option that is not supported is an error if it was typed; if
// it comes from files, it is replaced by something similar and noted.
plim_err job_understand_contrast(const job_args *args, const job_args *typed, job_request *r,
                                 plim_error *error);

// Reads the settings of the loss from the files.
void project_job_contrast(project_job *p, job_args *args);

// The losses in sentence-transformers scripts, and the number of texts per sample (project_job_texts.c).
typedef struct {
  int pairwise, others;           // number of losses within a sample, and of those across a batch
  uint64_t columns, data_columns; // according to the loss and to the data; 0: not known
  bool is_of_example;    // data_columns are those of an InputExample, not of a data set's name
  const char *data_file; // the file that shows them
  int data_line;
} job_texts;
job_texts project_job_texts(const plim_project *p);

// "contrastive loss, 2 texts per sample, mini batches of 32", or the name of another loss.
void job_describe_loss(const job_request *r, char *text, size_t size);

#endif
