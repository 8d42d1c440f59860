// The cases of tests/truth (how to read one: tests/truth/README.md) as jobs for the tape.
#ifndef PLIM_TESTS_CASES_H
#define PLIM_TESTS_CASES_H

#include <jansson.h>

#include "job.h"

int64_t case_integer(const json_t *object, const char *key, int64_t otherwise);
double case_number(const json_t *object, const char *key, double otherwise);
const char *case_text(const json_t *object, const char *key, const char *otherwise);
bool case_is(const json_t *object, const char *key, const char *value);
bool case_flag(const json_t *object, const char *key); // true only if it is there and true

// Of a case and the model's configuration. False where the tape has no program for it yet.
bool case_job(const json_t *c, const json_t *config, plim_job *job);

// What the measuring program puts on the card before the model: scripts/dist.py imports torchaudio while
// the card is the default device, which makes a constant of 4 bytes there.
void case_begin(const plim_job *job, plim_tape *t);

#endif
