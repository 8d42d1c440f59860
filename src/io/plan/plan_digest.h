// The digest in a saved plan. It covers everything that apply reads, so that manual edits are detected.
// It is not a signature: a plan with a correct digest can still come from anyone.
#ifndef PLIM_IO_PLAN_DIGEST_H
#define PLIM_IO_PLAN_DIGEST_H

#include "plimsoll.h"
#include "sha256.h"

#define PLIM_PLAN_DIGEST_KEY "applies_sha256"

struct json_t; // jansson's

typedef struct {
  char hex[2 * PLIM_SHA256_BYTES + 1];
} plim_plan_digest;

// Computes the digest of a parsed plan: its files, its places, what every rung writes, and the settings of
// its ladder. The layout of the JSON does not matter. PLIM_ERR_NOMEM is the only error.
plim_err plim_plan_digest_of(const struct json_t *plan, plim_plan_digest *out, plim_error *error);

// The same for a plan that is not parsed yet.
plim_err plim_plan_digest_of_text(const char *text, size_t size, plim_plan_digest *out,
                                  plim_error *error);

#endif
