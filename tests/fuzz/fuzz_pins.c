// Requirements of any format, and the option --versions.
#include <stdlib.h>
#include <string.h>

#include "project_pins.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  plim_pins pins = {0};
  plim_versions versions = {0};
  char *text = malloc(size + 1);
  if (!text) return 0;
  memcpy(text, data, size);
  text[size] = '\0';
  plim_pins_read(&pins, text, size, "requirements.txt");
  plim_versions_parse(text, &versions, NULL);
  free(text);
  return 0;
}
