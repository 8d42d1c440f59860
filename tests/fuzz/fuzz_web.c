// Any bytes of a server are refused, or are an answer whose parts lie within them; any address is judged without reading
// past its end.
#include <stdlib.h>
#include <string.h>

#include "web.h"

static void expect(bool condition) {
  if (!condition) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  plim_web_answer answer;
  const char *redirect = NULL;
  char *text = malloc(size + 1);
  if (!text) return 0;
  memcpy(text, data, size);
  if (plim_web_answer_read(text, size, &answer, &redirect)) {
    expect(answer.body == text && answer.size < size && !text[answer.size]);
    expect(answer.status >= 200 && strlen(answer.code) < sizeof answer.code);
    expect(redirect > text + answer.size && redirect <= text + size);
    expect(strlen(redirect) <= size);
    if (plim_web_is_safe(redirect)) {
      expect(plim_web_is_same_place(redirect, redirect));
      expect(plim_web_place_length(redirect) <= strlen(redirect));
    }
  }
  free(text);
  return 0;
}
