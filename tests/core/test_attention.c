// Which kernel scaled_dot_product_attention runs, as sdp_utils.cpp and the recordings have it.
#include "attention.h"
#include "test.h"

static plim_tensor mask_with(int64_t last_stride, bool requires_grad) {
  return (plim_tensor){.shape = dims(1, 1, 8, 8),
                       .stride = dims(64, 64, 8, last_stride),
                       .requires_grad = requires_grad};
}

TEST(the_kernel_is_the_first_that_can) {
  plim_tensor plain = mask_with(1, false), strided = mask_with(8, false), bias = mask_with(1, true);
  const struct {
    plim_sdpa_kernel preferred;
    plim_dtype dtype;
    int64_t head_dim;
    const plim_tensor *mask;
    bool heads_are_equal;
    plim_sdpa_kernel expected;
  } cases[] = {
      {PLIM_SDPA_CUDNN, PLIM_BF16, 64, NULL, false, PLIM_SDPA_CUDNN},
      {PLIM_SDPA_CUDNN, PLIM_FP16, 128, &plain, true, PLIM_SDPA_CUDNN},
      {PLIM_SDPA_CUDNN, PLIM_BF16, 256, NULL, false, PLIM_SDPA_FLASH},
      {PLIM_SDPA_CUDNN, PLIM_BF16, 256, &plain, true, PLIM_SDPA_EFFICIENT},
      {PLIM_SDPA_CUDNN, PLIM_BF16, 64, &bias, true, PLIM_SDPA_EFFICIENT},
      {PLIM_SDPA_CUDNN, PLIM_BF16, 64, &strided, true, PLIM_SDPA_MATH},
      {PLIM_SDPA_CUDNN, PLIM_FP32, 64, NULL, true, PLIM_SDPA_EFFICIENT},
      {PLIM_SDPA_CUDNN, PLIM_FP32, 64, NULL, false, PLIM_SDPA_MATH},
      {PLIM_SDPA_FLASH, PLIM_BF16, 64, NULL, false, PLIM_SDPA_FLASH},
      {PLIM_SDPA_FLASH, PLIM_BF16, 64, &plain, true, PLIM_SDPA_EFFICIENT},
      {PLIM_SDPA_EFFICIENT, PLIM_FP16, 64, NULL, false, PLIM_SDPA_MATH},
      {PLIM_SDPA_MATH, PLIM_BF16, 64, NULL, true, PLIM_SDPA_MATH},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    plim_sdpa_kernel chosen =
        plim_sdpa_choose(cases[i].preferred, cases[i].dtype, cases[i].head_dim, cases[i].mask,
                         cases[i].heads_are_equal);
    CHECK(chosen == cases[i].expected, "case %zu: %d, expected %d", i, (int)chosen,
          (int)cases[i].expected);
  }
}

TEST_MAIN
