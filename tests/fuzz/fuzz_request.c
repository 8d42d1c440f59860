// Requests of the library: none stops the program, and one that is refused has a message.
#include "library.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "plan_options.h"

static const cli_command command = {.name = "plan",
                                    .options = plan_options,
                                    .args_size = sizeof(plan_args),
                                    .defaults = &plan_defaults};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const library_words files = {"files", false};
  char *text = calloc(1, size + 1);
  library_request r;
  plim_error error;
  if (!text) return 0;
  memcpy(text, data, size);
  plim_err err = library_read(text, &command, "out prove", &files, &r, &error);
  assert(!err || *error.message);
  assert(!err || error.byte == PLIM_UNKNOWN || error.byte <= strlen(text));
  library_clear(&r);
  free(text);
  return 0;
}
