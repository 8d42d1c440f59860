#include "estimate_result.h"
#include "safetensors.h"
#include "units.h"
#include "value.h"

plim_predict_request estimate_request(const estimate_result *r) {
  const plim_target *target = &r->request.target;
  return (plim_predict_request){.job = &r->request.job,
                                .gpu = target->gpu,
                                .conf = target->conf,
                                .limit_bytes = r->e.fits ? target->limit_bytes : PLIM_UNKNOWN,
                                .limit_is_card = r->e.fits && target->limit_is_card};
}

static plim_err find_holders(estimate_result *r, plim_error *error) {
  plim_predict_request request = estimate_request(r);
  if (plim_holdings_find(&request, &r->e.p, &r->holders)) return PLIM_OK;
  return plim_fail(error, PLIM_ERR_NOMEM, "this machine does not have enough memory");
}

// Compares the weights next to config.json, if there are any, with the model that it describes.
static void check_weights(estimate_result *r) {
  const plim_model_source *source = &r->request.source;
  plim_safetensors found;
  plim_error error = {0};
  uint64_t own = r->e.p.parameters - (r->request.job.lora.rank ? r->e.p.trainable : 0);
  if (!*source->folder) return;
  plim_err err = plim_safetensors_read(source->folder, &found, &error);
  if (err == PLIM_ERR_PARSE)
    plim_note_add(&r->request.notes, "unread.weights", "model",
                  "the weights beside config.json could not be read: %s", error.message);
  if (err || *source->quantization || plim_safetensors_holds(&found, own)) return;
  plim_note_add(
      &r->request.notes, "conflict.weights", "model",
      "the weights beside config.json have %s elements, but the configuration describes %s",
      units_count(found.elements).text, units_count(own).text);
}

static plim_err widen_by_versions(estimate_result *r, plim_error *error) {
  job_request *request = &r->request;
  plim_err err =
      plim_predict_other_versions(&request->job, &request->target, &r->e, &r->others, error);
  if (!err) job_note_other_versions(r->args, request, &r->e, r->others.at, r->others.count);
  return err;
}

plim_err estimate_make(estimate_result *r, const char **source, plim_error *error) {
  *source = NULL;
  plim_err err = job_understand(r->args, r->args, &r->request, source, error);
  if (err) return err;
  *source = NULL;
  err = plim_estimate_make(&r->request.job, &r->request.target, &r->e, error);
  if (!err) err = widen_by_versions(r, error);
  if (err) return err;
  check_weights(r);
  if (r->e.p.assumes_repetition)
    plim_note_add(
        &r->request.notes, "assumed.passes", NULL,
        "memory stopped changing after a few hundred forward passes, so the remaining ones "
        "were not simulated");
  if (r->request.notes.has_no_memory) return plim_no_memory(error);
  return r->wants_holders ? find_holders(r, error) : PLIM_OK;
}

void estimate_clear(estimate_result *r) {
  vec_free(&r->holders);
  job_request_clear(&r->request);
}
