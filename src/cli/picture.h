// The memory timeline as a picture: an SVG to put into a report, or an HTML page to look around in.
//
//   picture p = {"snapshot.pickle", "as recorded", &trace, &story, &timeline, PLIM_UNKNOWN};
//   err = picture_save(&p, "timeline.svg", svg_write, &error);
#ifndef PLIM_CLI_PICTURE_H
#define PLIM_CLI_PICTURE_H

#include <stdio.h>

#include "timeline.h"
#include "units.h"

// Columns that make good use of each format.
#define SVG_COLUMNS PLIM_TIMELINE_COLUMNS
#define HTML_COLUMNS 4000 // more than a screen has pixels: zooming in shows more

// All borrowed.
typedef struct {
  const char *name;     // of the snapshot, for the title; any bytes
  const char *settings; // that were simulated, for the subtitle; NULL or "" for none
  const plim_trace *trace;
  const plim_story *story;
  const plim_timeline *timeline;
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

// How a kind is painted. Colours are told apart with any colour vision, and neighbours in the
// stack differ in lightness, so that a grey print reads as well.
typedef struct {
  plim_kind kind;
  const char *light, *dark; // colours on a light and on a dark page
} picture_layer;

extern const picture_layer picture_layers[PLIM_KIND_COUNT]; // bottom of the stack first

// The column with the highest allocated bytes; NULL if the timeline is empty.
const plim_column *picture_peak(const picture *p);

// Text of at most `max` bytes, with an ellipsis in the middle if it was longer.
void picture_shorten(const char *from, char *text, size_t size, size_t max);

// The snapshot's file name without folders, shortened.
void picture_title(const picture *p, char *text, size_t size, size_t max);

// "8.00 GiB allocated and 8.72 GiB reserved at most; 16,930 entries in 5 steps, 12.3 s; out of
// memory when asked for 1.03 GiB".
void picture_subtitle(const picture *p, char *text, size_t size);

// Seconds since the first event; negative where the recording has no times.
double picture_elapsed_seconds(const picture *p, uint64_t time_us);

#endif
