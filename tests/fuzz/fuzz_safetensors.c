// Any header is refused with a message, or counted without reading past the end of its file.
#include <stdlib.h>

#include "safetensors.h"

static void expect(bool condition) {
  if (!condition) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  plim_safetensors found = {0};
  plim_error error = {0};
  uint64_t data_bytes = size ? (uint64_t)data[size - 1] << (size % 48) : 0;
  plim_err failed =
      plim_safetensors_add_header((const char *)data, size, data_bytes, &found, &error);
  if (failed) {
    expect(failed == error.code && error.message[0]);
    return 0;
  }
  uint64_t sum = 0;
  for (int i = 0; i < PLIM_SAFE_KINDS; i++) sum += found.elements_of[i];
  expect(sum == found.elements && found.elements <= found.bytes && found.bytes <= data_bytes);
  expect(found.head_elements <= found.elements && found.buffer_elements <= found.elements);
  return 0;
}
