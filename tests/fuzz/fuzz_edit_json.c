// Any text is refused with a message, or every edit changes what is intended and nothing else.
#include "check_edits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return check_text(PLIM_FORMAT_JSON, data, size);
}
