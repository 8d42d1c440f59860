#include "notes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

static char *copy_of(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = malloc(size);
  return copy ? memcpy(copy, text, size) : NULL;
}

void plim_note_add(plim_notes *notes, const char *code, const char *knob, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  plim_text_disarm(text); // it may quote somebody's file
  plim_note note = {.code = code, .knob = knob, .message = copy_of(text)};
  if (note.message && vec_push(&notes->list, note)) return;
  free(note.message);
  notes->has_no_memory = true;
}

void plim_note_reword(plim_notes *notes, const char *code, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  plim_text_disarm(text);
  for (size_t i = 0; i < notes->list.len; i++) {
    plim_note *note = &notes->list.at[i];
    if (strcmp(note->code, code) != 0) continue;
    free(note->message);
    note->message = copy_of(text);
    if (note->message) return;
    *note = notes->list.at[--notes->list.len];
    notes->has_no_memory = true;
    return;
  }
}

void plim_note_at(plim_notes *notes, const char *file, int line) {
  if (!file || !notes->list.len || notes->has_no_memory) return;
  plim_note *last = &notes->list.at[notes->list.len - 1];
  free(last->file);
  last->file = copy_of(file);
  last->line = line;
  if (!last->file) notes->has_no_memory = true;
}

void plim_note_errs_low(plim_notes *notes) {
  if (notes->list.len && !notes->has_no_memory) notes->list.at[notes->list.len - 1].errs_low = true;
}

bool plim_notes_err_low(const plim_notes *notes) {
  for (size_t i = 0; i < notes->list.len; i++)
    if (notes->list.at[i].errs_low) return true;
  return false;
}

void plim_note_errs_high_by(plim_notes *notes, uint64_t bytes) {
  if (notes->list.len && !notes->has_no_memory)
    notes->list.at[notes->list.len - 1].saved_bytes = bytes;
}

void plim_note_errs_high(plim_notes *notes) { plim_note_errs_high_by(notes, PLIM_UNKNOWN); }

uint64_t plim_saved_sum(uint64_t a, uint64_t b) {
  return a == PLIM_UNKNOWN || b == PLIM_UNKNOWN ? PLIM_UNKNOWN : a + b;
}

uint64_t plim_notes_saved(const plim_notes *notes) {
  uint64_t saved = plim_notes_err_either(notes) ? PLIM_UNKNOWN : 0;
  for (size_t i = 0; i < notes->list.len; i++)
    saved = plim_saved_sum(saved, notes->list.at[i].saved_bytes);
  return saved;
}

void plim_note_errs_either(plim_notes *notes) {
  if (notes->list.len && !notes->has_no_memory)
    notes->list.at[notes->list.len - 1].errs_either = true;
}

bool plim_notes_err_either(const plim_notes *notes) {
  for (size_t i = 0; i < notes->list.len; i++)
    if (notes->list.at[i].errs_either) return true;
  return false;
}

bool plim_note_stops(const plim_note *note) { return strncmp(note->code, "stops.", 6) == 0; }

bool plim_note_is_assumption(const plim_note *note) {
  static const char prefix[] = "assumes.";
  return strncmp(note->code, prefix, sizeof prefix - 1) == 0;
}

void plim_notes_assumptions(const plim_notes *notes, char *text, size_t size) {
  size_t used = 0;
  *text = 0;
  for (size_t i = 0; i < notes->list.len && used < size; i++)
    if (plim_note_is_assumption(&notes->list.at[i]))
      used += (size_t)snprintf(text + used, size - used, "%s%s", used ? "; " : "",
                               notes->list.at[i].message);
  plim_text_disarm(text);
}

void plim_notes_append(plim_notes *notes, const plim_notes *more) {
  notes->has_no_memory = notes->has_no_memory || more->has_no_memory;
  for (size_t i = 0; i < more->list.len; i++) {
    const plim_note *note = &more->list.at[i];
    plim_note_add(notes, note->code, note->knob, "%s", note->message);
    plim_note_at(notes, note->file, note->line);
    if (note->errs_low) plim_note_errs_low(notes);
    if (note->saved_bytes) plim_note_errs_high_by(notes, note->saved_bytes);
    if (note->errs_either) plim_note_errs_either(notes);
  }
}

void plim_notes_clear(plim_notes *notes) {
  for (size_t i = 0; i < notes->list.len; i++) {
    free(notes->list.at[i].message);
    free(notes->list.at[i].file);
  }
  vec_free(&notes->list);
  notes->has_no_memory = false;
}
