// --fetch: downloads the config.json of a model from the Hugging Face hub. Nothing else of a prediction uses the network.
#ifndef PLIM_APP_JOB_FETCH_H
#define PLIM_APP_JOB_FETCH_H

#include "model_config.h"

// Finds a model as plim_model_find does. If `may_fetch`, and there is no config.json of it on this machine
// (plim_model_is_open), it is downloaded from HF_ENDPOINT (https://huggingface.co) and kept (plim_hub_kept), so that the
// next run finds it without the network.
plim_err job_find_model(const char *what, bool may_fetch, plim_model_source *out,
                        plim_error *error);

#endif
