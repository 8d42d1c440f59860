// How memory is predicted to move through a job: the timeline of a run that was never recorded.
//
//   plim_predicted_timeline f;
//   if (!plim_predicted_timeline_make(&request, &prediction, PLIM_TIMELINE_COLUMNS, &f)) ...
//   f.timeline.columns.at[f.timeline.peak].part_bytes[PLIM_FOR_LOGITS];
//   plim_predicted_timeline_clear(&f);
#ifndef PLIM_CORE_PREDICTED_TIMELINE_H
#define PLIM_CORE_PREDICTED_TIMELINE_H

#include "holders.h"
#include "timeline.h"

// Events [first, end) of one phase.
typedef struct {
  size_t first, end;
  plim_phase phase;
} plim_stretch;

// As the timeline of a recording, with these differences: parts are by plim_purpose, the line of a
// holder is an index into `lines`, an entry is the index of an event, and the peak is that of
// training: loading the model may come higher.
typedef struct {
  plim_timeline timeline;
  size_t events;                  // that the columns stand for
  vec(plim_trace_step) steps;     // by event; what comes before the first is loading
  vec(plim_stretch) phases;       // by event, one behind the other
  vec(plim_program_point) places; // by column: where the program is at its instant
  plim_holders lines;             // what holders are; their bytes and counts say nothing
} plim_predicted_timeline;

// Runs the job again and fills *out, with `columns` columns or one per event if those are fewer. The
// prediction must be that of the request. False when memory is out; *out is then empty. Free it with
// plim_predicted_timeline_clear.
bool plim_predicted_timeline_make(const plim_predict_request *request, const plim_prediction *p,
                                  size_t columns, plim_predicted_timeline *out);
void plim_predicted_timeline_clear(plim_predicted_timeline *f); // NULL is fine

#endif
