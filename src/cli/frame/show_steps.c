#include "show_steps.h"

#include <string.h>

#include "term.h"
#include "text.h"

static void put(FILE *out, const char *line, size_t size) {
  char text[2048];
  snprintf(text, sizeof text, "%.*s", (int)(size < sizeof text ? size : sizeof text - 1), line);
  plim_text_disarm(text);
  fprintf(out, "     %s\n", text);
}

void steps_print(FILE *out, size_t number, const char *text, const char *lines, const char *why) {
  char line[2048];
  snprintf(line, sizeof line, "%zu. %s%s", number, text, lines ? ":" : "");
  plim_text_disarm(line);
  term_wrap(out, line, 0, 3, (size_t)term_width(out));
  while (lines && *lines) {
    size_t size = strcspn(lines, "\n");
    put(out, lines, size);
    lines += size + (lines[size] == '\n');
  }
  if (!why) return;
  snprintf(line, sizeof line, "%s", why);
  plim_text_disarm(line);
  fputs("   ", out);
  term_wrap(out, line, 3, 3, (size_t)term_width(out));
}
