#include "unverified.h"

static bool offloads_saved(const plim_job *job) { return job->recipe.offloads_saved; }

static bool offloads_layers(const plim_job *job) {
  return job->recipe.checkpoint == PLIM_CHECKPOINT_OFFLOADED;
}

static bool is_fused_with_trainer(const plim_job *job) {
  return job->recipe.loss == PLIM_LOSS_FUSED && job->recipe.is_trainer;
}

static const struct {
  bool (*applies)(const plim_job *job);
  const char *reason;
} rows[] = {
    {offloads_saved, "activations saved on the host"},
    {offloads_layers, "inputs of checkpointed layers on the host"},
    {is_fused_with_trainer, "fused cross entropy under Trainer"},
};

size_t plim_job_unverified(const plim_job *job, const char **reasons, size_t max) {
  size_t found = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (!rows[i].applies(job)) continue;
    if (found < max) reasons[found] = rows[i].reason;
    found++;
  }
  return found;
}
