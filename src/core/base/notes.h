// Notes to the user: what was assumed, is not modelled, or was read in a way worth knowing. A growing list, so that none
// is lost; text and JSON show the same ones.
//
//   plim_note_add(&notes, "assumed.gpus", "world", "the files do not say how many GPUs there are: 1 assumed");
//   plim_note_at(&notes, "train.py", 12);       // of the last one
#ifndef PLIM_CORE_NOTES_H
#define PLIM_CORE_NOTES_H

#include "plimsoll.h"
#include "vec.h"

typedef struct {
  const char *code; // "assumed.gpus": stays the same, for programs; a literal
  const char *knob; // the name of the knob it is about; NULL: none; a literal
  char *message;    // one sentence for people; owned
  char *file;       // where; NULL: nowhere; owned
  int line;         // in it; 0: none
} plim_note;

typedef struct {
  vec(plim_note) list;
  bool has_no_memory; // one is lost
} plim_notes;

void plim_note_add(plim_notes *notes, const char *code, const char *knob, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Says where the last one added is about. `file` may be NULL.
void plim_note_at(plim_notes *notes, const char *file, int line);
// Adds copies of all of `more`.
void plim_notes_append(plim_notes *notes, const plim_notes *more);
void plim_notes_clear(plim_notes *notes);

#endif
