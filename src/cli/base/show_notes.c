#include "show_notes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_alloc.h"
#include "term.h"
#include "text.h"

static void print_note(FILE *out, const plim_note *note) {
  bool has_place = note->file && !strstr(note->message, note->file);
  size_t size = strlen(note->message) + (has_place ? strlen(note->file) : 0) + 24;
  char *line = cli_alloc(size);
  if (has_place && note->line)
    snprintf(line, size, "%s:%d: %s", note->file, note->line, note->message);
  else if (has_place) snprintf(line, size, "%s: %s", note->file, note->message);
  else snprintf(line, size, "%s", note->message);
  plim_text_disarm(line);
  fprintf(out, "note: ");
  term_wrap(out, line, 6, 6, (size_t)term_width(out));
  free(line);
}

void notes_print(FILE *out, const plim_notes *notes) {
  for (size_t i = 0; i < notes->list.len; i++)
    if (!plim_note_is_assumption(&notes->list.at[i])) print_note(out, &notes->list.at[i]);
}

void notes_print_assumptions(FILE *out, const plim_notes *notes) {
  char text[1024], line[sizeof text + 9];
  plim_notes_assumptions(notes, text, sizeof text);
  snprintf(line, sizeof line, "assumes: %s", text);
  if (*text) term_wrap(out, line, 0, 2, (size_t)term_width(out));
}
