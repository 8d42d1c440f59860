#include "other_versions.h"

#include "family.h"

// A transformers, and the PyTorch that was new when it was.
static const plim_versions in_use[PLIM_VERSION_NEEDS] = {
    {.transformers = PLIM_RELEASE(4, 46), .torch = PLIM_RELEASE(2, 4)},
    {.transformers = PLIM_RELEASE(4, 57), .torch = PLIM_RELEASE(2, 9)},
    {.transformers = PLIM_RELEASE(5, 22), .torch = PLIM_RELEASE(2, 15)},
};

static bool has_model(const plim_job *job) {
  const plim_family *family = job->model.family, *whole = plim_config_whole(&job->model);
  uint16_t release = job->versions.transformers;
  bool has_attention = release >= family->sdpa_from || job->recipe.attention != PLIM_ATTENTION_SDPA;
  return release >= family->first_release && release >= whole->first_release && has_attention;
}

// transformers 4.53 and later makes masks in another way with PyTorch before 2.6, which is not modelled.
static bool is_modelled(const plim_versions *v) {
  return v->torch >= PLIM_RELEASE(2, 6) || v->transformers < PLIM_RELEASE(4, 53);
}

// Only releases that the job leaves open are replaced. False: nothing is, or the model is not in that release.
static bool replace(plim_job *job, const plim_versions *by) {
  bool is_any = !job->versions.transformers || !job->versions.torch;
  if (!job->versions.transformers) job->versions.transformers = by->transformers;
  if (!job->versions.torch) job->versions.torch = by->torch;
  return is_any && has_model(job) && is_modelled(&job->versions);
}

static void widen(plim_estimate *e, const plim_estimate *other) {
  for (int i = 0; i < 2; i++) {
    bool is_outside = i ? other->interval_bytes[i] > e->interval_bytes[i]
                        : other->interval_bytes[i] < e->interval_bytes[i];
    if (is_outside) e->interval_bytes[i] = other->interval_bytes[i];
  }
}

plim_err plim_predict_other_versions(const plim_job *job, const plim_target *target,
                                     plim_estimate *e, plim_version_needs *out, plim_error *error) {
  *out = (plim_version_needs){0};
  for (size_t i = 0; i < PLIM_VERSION_NEEDS; i++) {
    plim_job other = *job;
    plim_estimate need;
    if (!replace(&other, &in_use[i])) continue;
    plim_err err = plim_estimate_make(&other, target, &need, NULL);
    if (err == PLIM_ERR_NOMEM) return plim_fail(error, err, "out of memory");
    if (err) continue;
    out->at[out->count++] = (plim_version_need){other.versions, need.device_bytes};
    widen(e, &need);
  }
  return PLIM_OK;
}
