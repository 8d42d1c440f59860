// Any config.json is refused with a message, or read to a configuration whose sizes can be multiplied without overflow.
#include <stdlib.h>

#include "model_config.h"

static void expect(bool condition) {
  if (!condition) abort();
}

static void check_config(const plim_config *c) {
  expect(c->family && c->hidden > 0 && c->layers > 0 && c->heads > 0 && c->head_dim > 0);
  expect(c->kv_heads > 0 && c->heads % c->kv_heads == 0 && c->vocabulary > 0);
  expect(c->rotary_share >= 0 && c->rotary_share <= 1 && c->dropout >= 0 && c->dropout <= 1);
  int64_t weights;
  expect(!__builtin_mul_overflow(c->hidden * c->intermediate, c->layers, &weights));
  expect(!__builtin_mul_overflow(c->heads * c->head_dim, c->hidden, &weights));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  plim_model_source source;
  plim_error error = {0};
  plim_err failed = plim_model_config_parse((const char *)data, size, &source, &error);
  if (failed) {
    expect(failed == error.code && error.message[0]);
    expect(error.byte == PLIM_UNKNOWN || error.byte <= size);
    return 0;
  }
  check_config(&source.config);
  expect(source.quantized_bits >= 0 && source.quantized_bits <= 16);
  expect(source.dtype <= PLIM_DTYPE_COUNT);
  return 0;
}
