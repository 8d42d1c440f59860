// What the parts of the SVG share: svg.c (the whole, data, marks, legend), svg_axes.c (scales and the
// rows of text below the plot). Nobody else includes this.
#ifndef PLIM_CLI_SVG_IMPL_H
#define PLIM_CLI_SVG_IMPL_H

#include "picture.h"

enum {
  WIDTH = 960,
  LEFT = 76, // room for "1.25 GiB"
  RIGHT = 936,
  TITLE_Y = 32,
  SUBTITLE_Y = 53,
  NOTE_Y = 71,
  PEAK_Y = 98,
  MARKS_Y = 111,
  OOMS_Y = 125,
  TOP = 132,
  BOTTOM = 432,
  ROWS_Y = 450, // the rows below the axis, first base line
  ROW = 19,
  LEGEND_GAP = 53,
  LEGEND_ROW = 24,
  LEGEND_COLUMNS = 4,
  LETTER = 7, // width of an average letter of the 12 unit font, on the safe side
};

typedef struct {
  FILE *out;
  const picture *p;
  const plim_timeline_column *columns;
  size_t count;
  uint64_t top_bytes;                       // at the upper edge
  bool has_limit;                           // its line is inside the picture
  int times_y, phases_y, steps_y, legend_y; // 0: there is no such row
  int legend_items;
} canvas;

double svg_x_of_event(const canvas *c, size_t event);
double svg_y_of(const canvas *c, uint64_t bytes);

// Pieces, in the class of the style sheet.
void svg_text(const canvas *c, double x, double y, const char *class, const char *anchor,
              const char *text);
void svg_centred(const canvas *c, double x, double y, const char *class, const char *text);
void svg_line(const canvas *c, const char *class, double x1, double y1, double x2, double y2);

// Decides which rows there are below the plot, and where.
void svg_choose_rows(canvas *c);
void svg_y_axis(const canvas *c);
void svg_x_axis(const canvas *c); // steps, phases, times

#endif
