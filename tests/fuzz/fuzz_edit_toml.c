// Any text is refused with a message, or its settings can be changed without touching anything else.
#include "edit_property.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  check_editor(PLIM_FORMAT_TOML, data, size);
  return 0;
}
