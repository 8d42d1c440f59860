// A chunked cross entropy for users whose trainer has no option for it: docs/chunked_loss.py.
#include "help_lists.h"

static const char file[] = {
#include "chunked_loss.inc"
};

void help_print_chunked_loss(FILE *out) { fwrite(file, 1, sizeof file, out); }

void help_write_chunked_loss(json_writer *j, const void *nothing) {
  char text[sizeof file + 1];
  (void)nothing;
  snprintf(text, sizeof text, "%.*s", (int)sizeof file, file);
  jsonw_object(j, NULL);
  jsonw_u64(j, "format_version", 1);
  jsonw_array(j, "chunked_loss");
  jsonw_string(j, NULL, text);
  jsonw_end(j);
  jsonw_end(j);
}
