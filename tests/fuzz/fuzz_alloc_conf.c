// Any settings string is refused with an offset inside it, or it is read, printed and read back to the same settings.
#include <stdlib.h>
#include <string.h>

#include "alloc_conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  if (!text) return 0;
  memcpy(text, data, size);
  text[size] = '\0';
  plim_alloc_conf conf, again;
  plim_error error;
  if (plim_alloc_conf_parse(text, &conf, &error)) {
    if (error.byte > strlen(text)) abort();
  } else {
    char printed[1024];
    plim_alloc_conf_print(&conf, printed, sizeof printed);
    if (plim_alloc_conf_parse(printed, &again, NULL)) abort();
    char reprinted[1024];
    plim_alloc_conf_print(&again, reprinted, sizeof reprinted);
    if (strcmp(printed, reprinted) != 0) abort();
  }
  free(text);
  return 0;
}
