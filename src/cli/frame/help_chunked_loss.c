// A chunked cross entropy for users whose trainer has no option for it: docs/chunked_loss.py.
#include "help_lists.h"

static const char file[] = {
#include "chunked_loss.inc"
};

void help_print_chunked_loss(FILE *out) { fwrite(file, 1, sizeof file, out); }

void help_write_chunked_loss(json_writer *j) {
  char text[sizeof file + 1];
  snprintf(text, sizeof text, "%.*s", (int)sizeof file, file);
  jsonw_string(j, NULL, text);
}
