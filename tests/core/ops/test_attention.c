// Which kernel scaled_dot_product_attention runs, according to sdp_utils.cpp and the recordings.
#include "attention.h"
#include "test.h"

#include "tape_names.h"

static plim_tensor mask_with(int64_t last_stride, bool requires_grad) {
  return (plim_tensor){.shape = dims(1, 1, 8, 8),
                       .stride = dims(64, 64, 8, last_stride),
                       .requires_grad = requires_grad};
}

typedef struct {
  const char *card;
  plim_dtype dtype;
  int64_t head_dim;
  const plim_tensor *mask;
  bool heads_are_equal, has_dropout;
  plim_sdpa_kernel expected;
} choice;

static void check(const choice *c, size_t i) {
  const plim_gpu *gpu = plim_gpu_named(c->card);
  plim_sdpa_call call = {c->dtype, c->head_dim,        c->head_dim,
                         c->mask,  c->heads_are_equal, c->has_dropout};
  plim_sdpa_kernel chosen = plim_sdpa_choose(plim_sdpa_preferred(gpu), gpu, &call);
  CHECK(chosen == c->expected, "case %zu: %d, expected %d", i, (int)chosen, (int)c->expected);
}

TEST(the_kernel_is_the_first_that_the_card_supports) {
  plim_tensor plain = mask_with(1, false), strided = mask_with(8, false), bias = mask_with(1, true);
  const choice cases[] = {
      {"H200", PLIM_BF16, 64, NULL, false, false, PLIM_SDPA_CUDNN},
      {"H200", PLIM_FP16, 128, &plain, true, false, PLIM_SDPA_CUDNN},
      {"H200", PLIM_BF16, 256, NULL, false, false, PLIM_SDPA_CUDNN},
      {"B200", PLIM_BF16, 256, NULL, false, false, PLIM_SDPA_FLASH},
      {"H200", PLIM_BF16, 64, &bias, true, false, PLIM_SDPA_EFFICIENT},
      {"H200", PLIM_BF16, 64, &strided, true, false, PLIM_SDPA_MATH},
      {"H200", PLIM_FP32, 64, NULL, true, false, PLIM_SDPA_EFFICIENT},
      {"H200", PLIM_FP32, 64, NULL, false, false, PLIM_SDPA_MATH},
      {"RTX 4090", PLIM_BF16, 64, NULL, false, false, PLIM_SDPA_FLASH},
      {"RTX 5090", PLIM_BF16, 128, NULL, false, false, PLIM_SDPA_FLASH},
      {"RTX 4090", PLIM_BF16, 64, &plain, true, false, PLIM_SDPA_EFFICIENT},
      {"RTX 4090", PLIM_BF16, 256, NULL, true, false, PLIM_SDPA_FLASH},
      {"RTX 4090", PLIM_BF16, 256, NULL, true, true, PLIM_SDPA_EFFICIENT},
      {"RTX 4090", PLIM_BF16, 200, NULL, true, false, PLIM_SDPA_EFFICIENT},
      {"A100 80GB SXM", PLIM_BF16, 200, NULL, true, true, PLIM_SDPA_FLASH},
      {"T4", PLIM_FP16, 64, NULL, true, false, PLIM_SDPA_EFFICIENT},
      {"T4", PLIM_FP16, 64, NULL, false, false, PLIM_SDPA_MATH},
      {"T4", PLIM_BF16, 64, NULL, true, false, PLIM_SDPA_MATH},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(&cases[i], i);
}

TEST_MAIN
