// Whatever processes and cards are called, the metrics are a document that Prometheus accepts.
#include <stdlib.h>

#include "test.h"
#include "utf8.h"
#include "watch_show.h"

TEST(a_name_that_is_not_utf_8_does_not_spoil_the_document) {
  watch *w = calloc(1, sizeof *w);
  watch_card *c = &w->cards.at[0];
  w->cards.count = c->process_count = 1;
  strcpy(c->card.name, "a \"card\"");
  c->processes[0].process = (plim_card_process){4100, 1024, true};
  strcpy(c->processes[0].is.name, "python3 tr\xc3\xa4ne\xff\xe2\x82"); // its last character is cut
  size_t size = 0;
  char *text = watch_metrics(w, &size);
  free(w);
  bool is_utf8 = plim_utf8_check(text, size) == size;
  bool is_right = strstr(text, "process=\"python3 tr\xc3\xa4ne???\"") &&
                  strstr(text, "name=\"a \\\"card\\\"\"");
  if (!is_right) printf("%s\n", text);
  free(text);
  CHECK(is_utf8 && is_right, "UTF-8: %d", is_utf8);
}

TEST_MAIN
