// The cases of tests/truth (described in tests/truth/README.md) as jobs for the tape.
#ifndef PLIM_TESTS_CASES_H
#define PLIM_TESTS_CASES_H

#include <jansson.h>

#include "job.h"

int64_t case_integer(const json_t *object, const char *key, int64_t otherwise);
double case_number(const json_t *object, const char *key, double otherwise);
const char *case_text(const json_t *object, const char *key, const char *otherwise);
bool case_is(const json_t *object, const char *key, const char *value);
bool case_flag(const json_t *object, const char *key); // false if it is missing

// The job of a case with the configuration of its model. False if the tape does not support it yet.
bool case_job(const json_t *c, const json_t *config, plim_job *job);

// Allocates what the measuring program puts on the card before the model: scripts/dist.py imports torchaudio while the
// card is the default device, which creates a constant of 4 bytes.
void case_begin(const plim_job *job, plim_tape *t);

#endif
