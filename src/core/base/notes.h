// Notes for the user: assumptions, what is not modelled, and how something was interpreted. A growing list, so that none
// is lost; text and JSON output show the same notes.
//
//   plim_note_add(&notes, "assumed.gpus", "world", "the files do not say how many GPUs there are: 1 assumed");
//   plim_note_at(&notes, "train.py", 12);       // the location of the last note
#ifndef PLIM_CORE_NOTES_H
#define PLIM_CORE_NOTES_H

#include "plimsoll.h"
#include "vec.h"

typedef struct {
  const char *code; // "assumed.gpus": stable, for programs; a string literal
  const char *knob; // name of the knob it concerns, or NULL; a string literal
  char *message;    // one sentence for people; owned
  char *file;       // the file it refers to, or NULL; owned
  int line;         // line in that file; 0: none
  bool errs_low;    // the run needs more memory than predicted, and it is not known how much more
  uint64_t
      saved_bytes; // the run needs less memory, by this much at most; PLIM_UNKNOWN: it may be much less
  bool errs_either; // it may need more or less, and which is not known
} plim_note;

typedef struct {
  vec(plim_note) list;
  bool has_no_memory; // out of memory: a note was lost
} plim_notes;

void plim_note_add(plim_notes *notes, const char *code, const char *knob, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Replaces the message of the note with this code, if there is one.
void plim_note_reword(plim_notes *notes, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Sets the location of the note added last. `file` may be NULL.
void plim_note_at(plim_notes *notes, const char *file, int line);
// Marks the note added last: the run needs more memory than predicted, and it is not known how much more.
void plim_note_errs_low(plim_notes *notes);
bool plim_notes_err_low(const plim_notes *notes); // whether any is marked
// Marks the note added last: the run needs less memory than predicted, and it may be much less.
void plim_note_errs_high(plim_notes *notes);
// The same, where it is known how much less the run needs at most.
void plim_note_errs_high_by(plim_notes *notes, uint64_t bytes);
// Marks the note added last: the run may need more or less memory than predicted.
void plim_note_errs_either(plim_notes *notes);
bool plim_notes_err_either(const plim_notes *notes);
// How much less than predicted the run may need at most, by all notes; PLIM_UNKNOWN: that is not known; 0: not less.
uint64_t plim_notes_saved(const plim_notes *notes);
uint64_t plim_saved_sum(uint64_t a, uint64_t b); // of two such
// Whether it says that the run stops with an error in its first step or before ("stops.setting").
bool plim_note_stops(const plim_note *note);
// Whether it is part of what every prediction assumes ("every sample has 2048 tokens").
bool plim_note_is_assumption(const plim_note *note);
// Lists those in one line, separated by semicolons; empty if there are none.
void plim_notes_assumptions(const plim_notes *notes, char *text, size_t size);
// Appends copies of all notes in `more`.
void plim_notes_append(plim_notes *notes, const plim_notes *more);
void plim_notes_clear(plim_notes *notes);

#endif
