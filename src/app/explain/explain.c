#include "explain.h"

#include <stdlib.h>

#include "explain_impl.h"

const explain_facts explain_nothing_known = {
    .exit_status = -1,
    .signal = -1,
    .step = PLIM_UNKNOWN,
    .micro_batch = PLIM_UNKNOWN,
    .accumulation = PLIM_UNKNOWN,
    .sample_tokens = PLIM_UNKNOWN,
    .usual_tokens = PLIM_UNKNOWN,
};

plim_err explain_log(const plim_oom_log *log, const explain_facts *facts, explanation *out,
                     plim_error *error) {
  *out = (explanation){.library_bytes = PLIM_UNKNOWN, .other_bytes = PLIM_UNKNOWN};
  explain_case c = {.log = log,
                    .message = &log->message,
                    .facts = facts ? facts : &explain_nothing_known,
                    .out = out};
  explain_derive(&c);
  explain_decide(&c);
  explain_show_evidence(&c);
  explain_find_cures(&c);
  if (!out->has_no_memory && !out->evidence.has_no_memory) return PLIM_OK;
  explanation_clear(out);
  return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

void explanation_clear(explanation *e) {
  for (size_t i = 0; i < e->cures.len; i++) free(e->cures.at[i].text), free(e->cures.at[i].command);
  vec_free(&e->cures);
  plim_notes_clear(&e->evidence);
  free(e->summary);
  free(e->why_not_sure);
  *e = (explanation){0};
}

// ---- names ------------------------------------------------------------------------------------------

static const char *const verdicts[EXPLAIN_VERDICTS] = {
    [EXPLAIN_NO_OOM] = "no_out_of_memory_error",
    [EXPLAIN_SHORTAGE] = "real_shortage",
    [EXPLAIN_FRAGMENTATION] = "fragmentation",
    [EXPLAIN_OTHER_PROCESS] = "other_process",
    [EXPLAIN_LIBRARIES] = "libraries",
    [EXPLAIN_HOST_MEMORY] = "host_memory",
    [EXPLAIN_IMPOSSIBLE_TENSOR] = "impossible_tensor",
    [EXPLAIN_LEAK] = "leak",
    [EXPLAIN_LONG_SAMPLE] = "long_sample",
    [EXPLAIN_EVALUATION] = "evaluation",
    [EXPLAIN_SAVING] = "saving",
    [EXPLAIN_RESUMING] = "resuming",
    [EXPLAIN_CAP] = "memory_cap",
    [EXPLAIN_TRANSIENT] = "transient",
    [EXPLAIN_ON_CHIP] = "on_chip_memory",
    [EXPLAIN_UNCLEAR] = "unclear",
};

static const char *const sureties[EXPLAIN_SURETIES] = {
    [EXPLAIN_CERTAIN] = "certain",
    [EXPLAIN_LIKELY] = "likely",
    [EXPLAIN_NOT_SURE] = "unclear",
};

static const char *const cures[EXPLAIN_CURES] = {
    [EXPLAIN_CURE_EXPANDABLE_SEGMENTS] = "expandable_segments",
    [EXPLAIN_CURE_EVEN_SHAPES] = "even_shapes",
    [EXPLAIN_CURE_SMALLER_BATCH] = "smaller_batch",
    [EXPLAIN_CURE_SHORTER_SAMPLES] = "shorter_samples",
    [EXPLAIN_CURE_CHUNKED_LOSS] = "chunked_loss",
    [EXPLAIN_CURE_FUSED_ATTENTION] = "fused_attention",
    [EXPLAIN_CURE_SMALLER_STATE] = "smaller_state",
    [EXPLAIN_CURE_PLAN] = "plan",
    [EXPLAIN_CURE_EVALUATION] = "evaluation_settings",
    [EXPLAIN_CURE_SAVING] = "saving_settings",
    [EXPLAIN_CURE_RESUMING] = "resuming",
    [EXPLAIN_CURE_HOST_MEMORY] = "host_memory",
    [EXPLAIN_CURE_SHARED_MEMORY] = "shared_memory",
    [EXPLAIN_CURE_OTHER_PROCESS] = "other_process",
    [EXPLAIN_CURE_HEADROOM] = "headroom",
    [EXPLAIN_CURE_LIFT_CAP] = "lift_cap",
    [EXPLAIN_CURE_RETRY] = "retry",
    [EXPLAIN_CURE_FIX_CODE] = "fix_code",
    [EXPLAIN_CURE_LOOK] = "look",
};

const char *explain_verdict_name(explain_verdict verdict) { return verdicts[verdict]; }
const char *explain_surety_name(explain_surety surety) { return sureties[surety]; }
const char *explain_cure_name(explain_cure_kind kind) { return cures[kind]; }
