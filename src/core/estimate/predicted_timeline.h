// The predicted course of memory through a job: a timeline like that of a recording.
//
//   plim_predicted_timeline f;
//   if (!plim_predicted_timeline_make(&request, &prediction, PLIM_TIMELINE_COLUMNS, &f)) ...
//   f.timeline.columns.at[f.timeline.peak].part_bytes[PLIM_FOR_LOGITS];
//   plim_predicted_timeline_clear(&f);
#ifndef PLIM_CORE_PREDICTED_TIMELINE_H
#define PLIM_CORE_PREDICTED_TIMELINE_H

#include "holdings.h"
#include "timeline.h"

// Events [first, end) of one phase.
typedef struct {
  size_t first, end;
  plim_phase phase;
} plim_stretch;

// Like the timeline of a recording, with these differences: parts are indexed by plim_purpose, the line of a holder is
// an index into `lines`, an entry is the index of an event, and the peak is that of training, so loading the model may
// be higher.
typedef struct {
  plim_timeline timeline;
  size_t events;                  // number of events that the columns represent
  vec(plim_trace_step) steps;     // by event; events before the first step are loading
  vec(plim_stretch) phases;       // by event, without gaps
  vec(plim_program_point) places; // by column: the program's position at that moment
  plim_holdings lines; // descriptions of the holders; their bytes and counts are not used
} plim_predicted_timeline;

// Runs the job again and fills *out with `columns` columns, or with one per event if there are fewer events. The
// prediction must belong to the request. Returns false when out of memory; *out is then empty. Free it with
// plim_predicted_timeline_clear.
bool plim_predicted_timeline_make(const plim_predict_request *request, const plim_prediction *p,
                                  size_t columns, plim_predicted_timeline *out);
void plim_predicted_timeline_clear(plim_predicted_timeline *f); // f may be NULL

#endif
