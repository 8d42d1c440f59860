// Any Dockerfile is refused with a place, or read; changes keep what they do not change.
#include "shell_property.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return check_all(PLIM_FORMAT_DOCKERFILE, data, size);
}
