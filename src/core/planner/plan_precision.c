// Dtypes as knobs: `precision` is the dtype of products (autocast, or FSDP2's policy), `dtype` that of the parameters.
//
// Autocast keeps parameters, gradients and the optimizer's state in float32, so it is a free knob. So is the dtype of a
// frozen base under float32 adapters: autocast rounds its weights in every product anyway, and most checkpoints are
// published in 16 bits. The dtype of trained parameters is not free: with 8 bits of mantissa, updates below 1/256 of a
// weight are lost.
#include "plan_impl.h"

static const plim_dtype precisions[] = {PLIM_BOOL, PLIM_BF16, PLIM_FP16};
static const plim_dtype dtypes[] = {PLIM_FP32, PLIM_BF16, PLIM_FP16};
enum { NONE, FULL = 0, BF16, FP16, TYPES }; // values of both knobs

static int64_t place_of(plim_dtype dtype, const plim_dtype *list) {
  int64_t i = 0;
  while (i < TYPES && list[i] != dtype) i++;
  return i < TYPES ? i : 0;
}

// The 16-bit dtype that is fast on the card. Cards before Ampere have no bf16, cards before Volta have neither. An
// unknown card is assumed to have bf16.
static int64_t half_of(const plim_plan_request *r) {
  const plim_gpu *gpu = r->target.gpu;
  if (!gpu || gpu->bf16_tflops > 0) return BF16;
  return gpu->fp16_tflops > 0 ? FP16 : NONE;
}

bool plim_plan_lacks_bf16(const plim_plan_request *r) { return half_of(r) != BF16; }

void plim_precision_of(const plim_job *job, plim_choice *choice) {
  bool is_fsdp = job->sharding.strategy == PLIM_SHARD_FSDP2;
  plim_dtype computes = is_fsdp ? job->sharding.compute_dtype : job->recipe.autocast;
  choice->at[PLIM_KNOB_PRECISION] = place_of(computes, precisions);
  choice->at[PLIM_KNOB_DTYPE] = place_of(job->dtype, dtypes);
}

// FSDP2 uses its own policy instead of autocast.
void plim_precision_set(const plim_choice *choice, plim_job *job) {
  plim_dtype computes = precisions[choice->at[PLIM_KNOB_PRECISION]];
  plim_sharding *how = &job->sharding;
  bool is_fsdp = how->strategy == PLIM_SHARD_FSDP2;
  bool had_policy = is_fsdp && how->compute_dtype != PLIM_BOOL;
  job->dtype = dtypes[choice->at[PLIM_KNOB_DTYPE]];
  job->recipe.autocast = is_fsdp ? PLIM_BOOL : computes;
  how->compute_dtype = is_fsdp ? computes : PLIM_BOOL;
  if (computes == PLIM_BOOL || !is_fsdp) how->reduce_dtype = PLIM_BOOL;
  else if (how->is_by_accelerate) how->reduce_dtype = computes; // set_mixed_precision
  else if (!had_policy) how->reduce_dtype = PLIM_FP32;
}

// ---- values that may be tried -----------------------------------------------------------------------

bool plim_base_is_frozen(const plim_plan_request *r) {
  return r->job.lora.rank && !r->job.lora.keeps_dtype;
}

static bool is_emulated(const plim_plan_request *r, const plim_choice *own) {
  bool has_bf16 = own->at[PLIM_KNOB_PRECISION] == BF16 || own->at[PLIM_KNOB_DTYPE] == BF16;
  return half_of(r) != BF16 && has_bf16;
}

int64_t plim_precision_offered(const plim_plan_request *r) {
  plim_choice own;
  plim_precision_of(&r->job, &own);
  int64_t is = own.at[PLIM_KNOB_PRECISION];
  bool is_wide = is == NONE && own.at[PLIM_KNOB_DTYPE] == FULL;
  return is_wide || is_emulated(r, &own) ? half_of(r) : is;
}

// float16 cannot represent small gradients without a scaler, and a scaler requires float32 parameters.
int64_t plim_dtype_offered(const plim_plan_request *r) {
  plim_choice own;
  plim_precision_of(&r->job, &own);
  int64_t computes = plim_precision_offered(r), is = own.at[PLIM_KNOB_DTYPE];
  bool is_plain = r->job.weights == PLIM_WEIGHTS_PLAIN;
  bool can_be_half = computes == BF16 || (computes == FP16 && plim_base_is_frozen(r));
  if (is == FULL) return is_plain && can_be_half ? computes : is;
  return is == BF16 && is_emulated(r, &own) && can_be_half ? computes : is;
}

plim_choice plim_plan_best_types(const plim_plan_request *r) {
  plim_choice choice = plim_plan_own_choice(r);
  choice.at[PLIM_KNOB_PRECISION] = plim_precision_offered(r);
  choice.at[PLIM_KNOB_DTYPE] = plim_dtype_offered(r);
  return choice;
}

// 16-bit parameters require products in the same dtype. DeepSpeed has one dtype for both.
bool plim_precision_is_sound(const plim_plan_request *r, const plim_choice *choice) {
  plim_choice own;
  plim_precision_of(&r->job, &own);
  int64_t computes = choice->at[PLIM_KNOB_PRECISION], kept = choice->at[PLIM_KNOB_DTYPE];
  bool is_own = computes == own.at[PLIM_KNOB_PRECISION] && kept == own.at[PLIM_KNOB_DTYPE];
  bool is_asked = r->domains[PLIM_KNOB_PRECISION].count,
       is_held = r->domains[PLIM_KNOB_DTYPE].count;
  if (choice->at[PLIM_KNOB_STRATEGY] >= PLIM_SHARD_ZERO1 && !is_asked)
    return computes == own.at[PLIM_KNOB_PRECISION] && (is_own || is_held);
  if (is_asked || is_held) return true;
  int64_t best = plim_dtype_offered(r);
  bool is_bettered = plim_base_is_frozen(r) && best != own.at[PLIM_KNOB_DTYPE];
  if (is_bettered) return kept == best && computes == best; // faster and smaller than all others
  bool is_new = kept != own.at[PLIM_KNOB_DTYPE];
  if (is_new) return computes == kept || computes == own.at[PLIM_KNOB_PRECISION];
  return is_own || kept == FULL || kept == computes;
}
