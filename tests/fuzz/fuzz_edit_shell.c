// Any script is refused with a position, or read; changes affect nothing else.
#include "shell_property.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return check_all(PLIM_FORMAT_SHELL, data, size);
}
