// The memory timeline as a picture: an SVG to put into a report, or an HTML page to look around in.
// Whoever has a timeline says what is in it, and both formats draw that: replay_picture.c for a
// recording, estimate_picture.c for a prediction.
//
//   picture p = {.title = "snapshot.pickle", .source = &recording, .timeline = &timeline, ...};
//   err = picture_save(&p, "timeline.svg", svg_write, &error);
#ifndef PLIM_CLI_PICTURE_H
#define PLIM_CLI_PICTURE_H

#include <stdio.h>

#include "timeline.h"
#include "units.h"

// Columns that make good use of each format.
#define SVG_COLUMNS PLIM_TIMELINE_COLUMNS
#define HTML_COLUMNS 4000 // more than a screen has pixels: zooming in shows more

// One layer of the stack. Colours are told apart with any colour vision, and neighbours in the
// stack differ in lightness, so that a grey print reads as well.
typedef struct {
  size_t part;              // index into plim_timeline_column.part_bytes
  const char *light, *dark; // colours on a light and on a dark page
} picture_layer;

// Events [first, end) that are called something: the phases of a step.
typedef struct {
  size_t first, end;
  const char *name;
} picture_span;

// What all pictures of one kind have in common. Functions get the picture's context.
typedef struct {
  const picture_layer *layers; // bottom of the stack first
  size_t layer_count;
  const char *const *part_names;
  const char *setup; // what comes before the first step: "set-up"
  const char *entry; // what the axis counts where there is no clock: "entry"
  const char *line;  // what holders are: "line"
  void (*line_name)(const void *context, uint32_t line, char *text, size_t size);
  // Seconds since the first event; negative: not known. NULL: there is no clock.
  double (*seconds_at)(const void *context, size_t event);
  // Where the program is at a column's instant: "step 2, backward". NULL: just the step.
  void (*place)(const void *context, size_t column, char *text, size_t size);
} picture_source;

// All borrowed. Texts may have any bytes.
typedef struct {
  const char *title;    // shortened if need be
  const char *subtitle; // a line of its own below it
  const char *note;     // another one, shortened if need be; NULL or "" for none
  const char *peak;     // what is said at the peak; not read if the timeline is empty
  const picture_source *source;
  const void *context;
  const plim_timeline *timeline;
  size_t events; // that the columns stand for
  size_t lines;  // that holders may have; 0: the holders are not known
  const plim_trace_step *steps;
  size_t step_count;
  const picture_span *phases;
  size_t phase_count;
  uint64_t limit_bytes; // PLIM_UNKNOWN: none
} picture;

// Each writes one self-contained document: no scripts from elsewhere, no network. Write errors
// stay with the stream.
void svg_write(FILE *out, const picture *p);
void html_write(FILE *out, const picture *p);

// Writes the picture to a file, which appears whole or not at all.
plim_err picture_save(const picture *p, const char *path,
                      void (*write)(FILE *out, const picture *p), plim_error *error);

// ---- what both formats share ----------------------------------------------------------------------

// The column with the highest allocated bytes; NULL if the timeline is empty.
const plim_timeline_column *picture_peak(const picture *p);

// Text of at most `max` bytes, with an ellipsis in the middle if it was longer.
void picture_shorten(const char *from, char *text, size_t size, size_t max);

const char *picture_layer_name(const picture *p, size_t layer);

// Seconds since the first event; negative where they are not known.
double picture_seconds_at(const picture *p, size_t event);

// Appends to text, which holds `used` bytes of `size`; returns the new `used`.
__attribute__((format(printf, 4, 5))) size_t picture_append(char *text, size_t size, size_t used,
                                                            const char *format, ...);

#endif
