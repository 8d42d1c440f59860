// Questions that only the user can answer: whether gradients may be accumulated over micro batches although that is not
// the same as one batch; and what a cached loss would need instead.
#ifndef PLIM_APP_PLAN_QUESTION_H
#define PLIM_APP_PLAN_QUESTION_H

#include "plan_result.h"

// `instead`: how the micro batch becomes free; NULL: a cached loss may be a way.
typedef struct {
  const char *id, *why, *instead;
} plan_question;

// The question to ask; NULL if the user has said that the micro batch stays or is free.
const plan_question *plan_question_of(const plan_for_card *c);

// The micro batch that the files set.
long long plan_own_micro_batch(const plan_for_card *c);

typedef struct {
  int64_t at_once; // sequences at a time; 0: a cached loss is not an alternative here
  plim_estimate e;
} plan_cached_loss;

// The user's own settings with a cached loss: the usual number of sequences at a time, or fewer so that it fits.
plan_cached_loss plan_cached_instead(const plan_for_card *c);

#endif
