// The timeline as an SVG. All sizes are in units of the viewBox. Text has its own rows (title, peak, marks, times,
// phases, steps, legend), so that nothing can overlap, whatever the data is.
#include <math.h>

#include "svg_impl.h"
#include "svg_style.h"

// ---- scales -----------------------------------------------------------------------------------------

static double x_of_column(const canvas *c, size_t i) {
  return LEFT + (double)i * (RIGHT - LEFT) / (double)c->count;
}

// Chooses the top of the scale: the highest reserved bytes, and the limit unless that would flatten the picture.
static void choose_top(canvas *c) {
  uint64_t highest = c->p->timeline->peak_reserved_bytes, limit = c->p->limit_bytes;
  c->has_limit = limit != PLIM_UNKNOWN && limit / 3 < highest;
  if (c->has_limit && limit > highest) highest = limit;
  c->top_bytes = highest + highest / 20 + 1;
}

// ---- pieces of SVG ------------------------------------------------------------------------------------

// A coordinate to a tenth of a unit, without a useless ".0".
static void put(FILE *out, char command, double value) {
  long tenths = lround(value * 10);
  fprintf(out, "%c%ld", command, tenths / 10);
  if (tenths % 10) fprintf(out, ".%ld", tenths % 10);
}

// The bytes of a column that a curve or the upper edge of a layer shows.
typedef uint64_t bytes_of(const canvas *c, const plim_timeline_column *column, size_t layer);

// Writes a stepped line over the columns; equal neighbours become one step.
static void put_stairs(const canvas *c, bytes_of *bytes, size_t layer) {
  double last = svg_y_of(c, bytes(c, &c->columns[0], layer));
  put(c->out, 'V', last);
  for (size_t i = 1; i < c->count; i++) {
    double y = svg_y_of(c, bytes(c, &c->columns[i], layer));
    if (fabs(y - last) < 0.05) continue;
    put(c->out, 'H', x_of_column(c, i));
    put(c->out, 'V', y);
    last = y;
  }
  put(c->out, 'H', RIGHT);
}

static void put_area(const canvas *c, const char *class, bytes_of *bytes, size_t layer,
                     const char *title) {
  fprintf(c->out, "<path class=\"%s\" d=\"M%d %d", class, LEFT, BOTTOM);
  put_stairs(c, bytes, layer);
  fprintf(c->out, "V%dZ\"><title>%s</title></path>\n", BOTTOM, title);
}

static void put_stairs_line(const canvas *c, const char *class, bytes_of *bytes) {
  fprintf(c->out, "<path class=\"%s\" d=\"M%d ", class, LEFT);
  put(c->out, ' ', svg_y_of(c, bytes(c, &c->columns[0], 0)));
  put_stairs(c, bytes, 0);
  fputs("\"/>\n", c->out);
}

// ---- frame and axes -------------------------------------------------------------------------------------

static void put_colors(FILE *out, const picture_source *source, bool is_dark) {
  for (size_t i = 0; i < source->layer_count; i++)
    fprintf(out, ".k%zu{fill:%s}", i, is_dark ? source->layers[i].dark : source->layers[i].light);
}

static void put_styles(FILE *out, const picture *p) {
  fputs(svg_style_light, out);
  put_colors(out, p->source, false);
  fputs(svg_style_dark, out);
  put_colors(out, p->source, true);
  fputs("\n}\n</style>\n", out);
}

static void put_heading(const canvas *c) {
  char text[512];
  picture_shorten(c->p->title, text, sizeof text, 80);
  svg_text(c, 24, TITLE_Y, "title", "start", text);
  svg_text(c, 24, SUBTITLE_Y, "quiet", "start", c->p->subtitle);
  if (!c->p->note || !*c->p->note) return;
  picture_shorten(c->p->note, text, sizeof text, 120);
  svg_text(c, 24, NOTE_Y, "quiet", "start", text);
}

// ---- the data ---------------------------------------------------------------------------------------------

static uint64_t reserved_of(const canvas *c, const plim_timeline_column *column, size_t layer) {
  (void)c, (void)layer;
  return column->peak_reserved_bytes;
}

static uint64_t allocated_of(const canvas *c, const plim_timeline_column *column, size_t layer) {
  (void)c, (void)layer;
  return column->allocated_bytes;
}

static uint64_t stacked_up_to(const canvas *c, const plim_timeline_column *column, size_t layer) {
  uint64_t sum = 0;
  for (size_t i = 0; i <= layer; i++) sum += column->part_bytes[c->p->source->layers[i].part];
  return sum;
}

static bool occurs(const canvas *c, size_t layer) {
  size_t part = c->p->source->layers[layer].part;
  for (size_t i = 0; i < c->count; i++)
    if (c->columns[i].part_bytes[part]) return true;
  return false;
}

// Each area extends to the axis and is painted over by the areas below it in the stack. That needs half the points of
// separate bands, and leaves no seams.
static void put_layers(const canvas *c) {
  put_area(c, "cached", reserved_of, 0, "reserved, but not in use");
  // Under the areas, so that thin peaks keep their colour.
  put_stairs_line(c, "allocated", allocated_of);
  for (size_t layer = c->p->source->layer_count; layer-- > 0;) {
    char class[24];
    snprintf(class, sizeof class, "k%zu", layer);
    if (occurs(c, layer)) put_area(c, class, stacked_up_to, layer, picture_layer_name(c->p, layer));
  }
  put_stairs_line(c, "reserved", reserved_of);
}

static void put_limit(const canvas *c) {
  if (!c->has_limit) return;
  double y = svg_y_of(c, c->p->limit_bytes);
  svg_line(c, "limit", LEFT, y, RIGHT, y);
}

static void put_peak(const canvas *c) {
  const plim_timeline_column *peak = picture_peak(c->p);
  double x = x_of_column(c, c->p->timeline->peak) + (RIGHT - LEFT) / 2.0 / (double)c->count;
  double y = svg_y_of(c, peak->allocated_bytes);
  svg_line(c, "pin", x, PEAK_Y + 5, x, y);
  fprintf(c->out, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n", x, y);
  svg_centred(c, x, PEAK_Y, "strong", c->p->peak);
}

// ---- marks --------------------------------------------------------------------------------------------------

typedef struct {
  const char *class, *shape; // a path around 0,0
  const char *what;
  size_t field;
  double y;
} mark_kind;

static const mark_kind mark_kinds[] = {
    {"empties", "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0Z", "empty_cache()",
     offsetof(plim_timeline_column, empty_caches), MARKS_Y},
    {"retries", "M0-4L4 0L0 4L-4 0Z", "cache freed to retry",
     offsetof(plim_timeline_column, retries), MARKS_Y},
    {"ooms", "M-6-5H6L0 6Z", "out of memory", offsetof(plim_timeline_column, ooms), OOMS_Y},
};

static uint32_t marks_in(const plim_timeline_column *column, const mark_kind *kind) {
  return *(const uint32_t *)((const char *)column + kind->field);
}

static void put_mark(const canvas *c, const mark_kind *kind, double x, double y) {
  fprintf(c->out, "<path class=\"%s\" transform=\"translate(%.1f %.1f)\" d=\"%s\"/>\n", kind->class,
          x, y, kind->shape);
}

// Writes the marks of one kind; marks that would overlap become one. Returns the total number.
static uint64_t put_marks(const canvas *c, const mark_kind *kind) {
  double last = -WIDTH;
  uint64_t total = 0;
  for (size_t i = 0; i < c->count; i++) {
    uint32_t here = marks_in(&c->columns[i], kind);
    double x = x_of_column(c, i);
    total += here;
    if (!here || x - last < 9) continue;
    if (kind->field == offsetof(plim_timeline_column, ooms))
      svg_line(c, "oom", x, OOMS_Y, x, BOTTOM);
    put_mark(c, kind, x, kind->y);
    last = x;
  }
  return total;
}

// ---- legend -------------------------------------------------------------------------------------------------

// The left edge and base line of the next item of the legend.
static void next_item(canvas *c, double *x, double *y) {
  *x = 24 + (double)(c->legend_items % LEGEND_COLUMNS) * (RIGHT - 24) / LEGEND_COLUMNS;
  *y = c->legend_y + (double)(c->legend_items / LEGEND_COLUMNS) * LEGEND_ROW;
  c->legend_items++;
}

static void put_label(const canvas *c, double x, double y, const char *what, const char *amount) {
  fprintf(c->out, "<text x=\"%.1f\" y=\"%.1f\">%s <tspan class=\"strong\">%s</tspan></text>\n",
          x + 20, y, what, amount);
}

static void put_layer_item(canvas *c, size_t layer) {
  uint64_t bytes = picture_peak(c->p)->part_bytes[c->p->source->layers[layer].part];
  double x, y;
  next_item(c, &x, &y);
  fprintf(c->out,
          "<rect class=\"k%zu\" x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" rx=\"2\"/>\n",
          layer, x, y - 10);
  put_label(c, x, y, picture_layer_name(c->p, layer), units_bytes(bytes).text);
}

static void put_line_item(canvas *c, const char *class, const char *what, uint64_t bytes) {
  double x, y;
  next_item(c, &x, &y);
  svg_line(c, class, x - 1, y - 4, x + 13, y - 4);
  put_label(c, x, y, what, units_bytes(bytes).text);
}

static void put_mark_item(canvas *c, const mark_kind *kind, uint64_t total) {
  double x, y;
  char amount[64];
  next_item(c, &x, &y);
  put_mark(c, kind, x + 6, y - 4);
  snprintf(amount, sizeof amount, "%s&#215;", units_count(total).text);
  put_label(c, x, y, kind->what, amount);
}

static void put_legend(canvas *c) {
  svg_text(c, 24, c->legend_y - LEGEND_ROW, "quiet", "start", "at the peak");
  for (size_t i = 0; i < c->p->source->layer_count; i++)
    if (occurs(c, i)) put_layer_item(c, i);
  put_line_item(c, "reserved", "reserved", picture_peak(c->p)->reserved_bytes);
  if (c->p->limit_bytes != PLIM_UNKNOWN)
    put_line_item(c, "limit", c->has_limit ? "limit" : "limit, above the chart", c->p->limit_bytes);
}

// ---- the picture ----------------------------------------------------------------------------------------------

static int count_legend_items(const canvas *c) {
  int items = 1 + (c->p->limit_bytes != PLIM_UNKNOWN);
  for (size_t i = 0; i < c->p->source->layer_count; i++) items += occurs(c, i);
  for (size_t k = 0; k < sizeof mark_kinds / sizeof *mark_kinds; k++)
    for (size_t i = 0; i < c->count; i++)
      if (marks_in(&c->columns[i], &mark_kinds[k])) {
        items++;
        break;
      }
  return items;
}

static int height_of(const canvas *c) {
  if (!c->count) return NOTE_Y + 24;
  int rows = (count_legend_items(c) + LEGEND_COLUMNS - 1) / LEGEND_COLUMNS;
  return c->legend_y + (rows - 1) * LEGEND_ROW + 22;
}

static void put_chart(canvas *c) {
  choose_top(c);
  svg_y_axis(c);
  put_layers(c);
  svg_x_axis(c);
  put_limit(c);
  put_peak(c);
  put_legend(c);
  for (size_t i = 0; i < sizeof mark_kinds / sizeof *mark_kinds; i++) {
    uint64_t total = put_marks(c, &mark_kinds[i]);
    if (total) put_mark_item(c, &mark_kinds[i], total);
  }
}

void svg_write(FILE *out, const picture *p) {
  canvas c = {out, p, p->timeline->columns.at, p->timeline->columns.len};
  if (c.count) svg_choose_rows(&c);
  int height = height_of(&c);
  fprintf(out,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" "
          "aria-label=\"GPU memory over time\">\n",
          WIDTH, height);
  put_styles(out, p);
  fprintf(out, "<rect class=\"page\" width=\"%d\" height=\"%d\"/>\n", WIDTH, height);
  put_heading(&c);
  if (c.count) put_chart(&c);
  fputs("</svg>\n", out);
}
