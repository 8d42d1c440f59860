// The digest that a saved plan carries over all that apply reads: an edit by hand shows. It is no
// signature, so a plan that carries the right one is still not to be trusted.
#ifndef PLIM_IO_PLAN_DIGEST_H
#define PLIM_IO_PLAN_DIGEST_H

#include "plimsoll.h"
#include "sha256.h"

#define PLIM_PLAN_DIGEST_KEY "applies_sha256"

struct json_t; // jansson's

typedef struct {
  char hex[2 * PLIM_SHA256_BYTES + 1];
} plim_plan_digest;

// Of a parsed plan: its files, its places, what every rung writes, and the settings of its ladder.
// How the JSON is laid out does not matter. PLIM_ERR_NOMEM is the only error.
plim_err plim_plan_digest_of(const struct json_t *plan, plim_plan_digest *out, plim_error *error);

// Of the text of a plan.
plim_err plim_plan_digest_of_text(const char *text, size_t size, plim_plan_digest *out,
                                  plim_error *error);

#endif
