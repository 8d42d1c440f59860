// Any text is either refused with a message, or every edit of it changes what is meant and nothing else.
#include "check_edits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return check_text(PLIM_FORMAT_JSON, data, size);
}
