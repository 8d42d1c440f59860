// The page never asks a server.
#include "job_fetch.h"

plim_err job_find_model(const char *what, bool may_fetch, plim_model_source *out,
                        plim_error *error) {
  (void)may_fetch;
  return plim_model_find(what, out, error);
}
