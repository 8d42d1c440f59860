#include <math.h>
#include <string.h>

#include "escape.h"
#include "svg_impl.h"

// ---- scales -----------------------------------------------------------------------------------------

double svg_x_of_event(const canvas *c, size_t event) {
  return LEFT + (double)event * (RIGHT - LEFT) / (double)c->p->events;
}

double svg_y_of(const canvas *c, uint64_t bytes) {
  return BOTTOM - (double)bytes * (BOTTOM - TOP) / (double)c->top_bytes;
}

// The smallest round step that fits into `top` at most `most` times: powers of two below 1 GiB, then 1, 2, 5, 10, 20,
// 50 ... GiB.
static uint64_t round_step(uint64_t top, uint64_t most) {
  uint64_t step = 1, decade = PLIM_GIB;
  while (step < PLIM_GIB && top / step > most) step *= 2;
  while (top / step > most) {
    if (step == 5 * decade) step = decade *= 10;
    else step = step == decade ? 2 * decade : 5 * decade;
  }
  return step;
}

// Formats a round size without trailing zeros: 512 MiB, 1 GiB, 2.5 GiB.
static units_text round_bytes(uint64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = (double)bytes;
  size_t unit = 0;
  for (; value >= 1024 && unit < 6; unit++) value /= 1024;
  units_text text;
  snprintf(text.text, sizeof text.text, "%.4g %s", value, units[unit]);
  return text;
}

// ---- pieces -----------------------------------------------------------------------------------------

void svg_text(const canvas *c, double x, double y, const char *class, const char *anchor,
              const char *text) {
  fprintf(c->out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\" text-anchor=\"%s\">", x, y, class,
          anchor);
  escape_xml(c->out, text);
  fputs("</text>\n", c->out);
}

// Writes a text centred on x, but always inside the plot.
void svg_centred(const canvas *c, double x, double y, const char *class, const char *text) {
  double half = (double)strlen(text) * LETTER / 2;
  if (x - half < LEFT) svg_text(c, LEFT, y, class, "start", text);
  else if (x + half > RIGHT) svg_text(c, RIGHT, y, class, "end", text);
  else svg_text(c, x, y, class, "middle", text);
}

void svg_line(const canvas *c, const char *class, double x1, double y1, double x2, double y2) {
  fprintf(c->out, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", class, x1, y1, x2, y2);
}

// ---- axes -------------------------------------------------------------------------------------------

void svg_y_axis(const canvas *c) {
  uint64_t step = round_step(c->top_bytes, 7);
  for (uint64_t bytes = 0; bytes <= c->top_bytes; bytes += step) {
    double y = svg_y_of(c, bytes);
    svg_line(c, bytes ? "grid" : "axis", LEFT, y, RIGHT, y);
    svg_text(c, LEFT - 8, y + 4, "quiet", "end", bytes ? round_bytes(bytes).text : "0");
  }
}

enum { TICKS = 8 };

static double tick_seconds(const canvas *c, size_t tick) {
  return picture_seconds_at(c->p, (c->p->events - 1) * tick / TICKS);
}

// The number of decimals with which neighbouring ticks differ, at most three.
static int tick_digits(const canvas *c) {
  int digits = 0;
  double unit = 1;
  for (size_t i = 1; i <= TICKS; i++) {
    double gap = tick_seconds(c, i) - tick_seconds(c, i - 1);
    for (; digits < 3 && gap > 0 && gap < unit; unit /= 10) digits++;
  }
  return digits;
}

static units_text tick_text(const canvas *c, size_t tick, int digits) {
  double seconds = tick_seconds(c, tick);
  units_text text;
  if (seconds < 0) return units_count((c->p->events - 1) * tick / TICKS);
  if (seconds == 0 || seconds >= 600) return units_seconds(seconds);
  snprintf(text.text, sizeof text.text, "%.*f s", digits, seconds);
  return text;
}

// Ticks are at equal numbers of events, between which different times may pass; the labels show the time.
static void put_times(const canvas *c) {
  if (!c->times_y) return;
  int digits = tick_digits(c);
  for (size_t i = 0; i <= TICKS; i++) {
    double x = LEFT + (double)i * (RIGHT - LEFT) / TICKS;
    svg_line(c, "axis", x, BOTTOM, x, BOTTOM + 4);
    svg_centred(c, x, c->times_y, "quiet", tick_text(c, i, digits).text);
  }
}

// Every n-th step gets a line and a number; n is 1, 2, 5, 10 ..., so that the numbers do not overlap.
static size_t step_stride(const canvas *c) {
  size_t count = c->p->step_count, stride = 1;
  double mean = (RIGHT - svg_x_of_event(c, c->p->steps[0].first)) / (double)count;
  static const size_t round[] = {2, 5, 10};
  for (size_t decade = 1, i = 0; (double)stride * mean < 40; i = (i + 1) % 3) {
    stride = round[i] * decade;
    if (i == 2) decade *= 10;
  }
  return stride;
}

static void put_steps(const canvas *c) {
  const plim_trace_step *steps = c->p->steps;
  if (!c->p->step_count) return;
  double first = svg_x_of_event(c, steps[0].first), free_from = LEFT;
  if (first - LEFT > 7 * LETTER)
    svg_text(c, (LEFT + first) / 2, c->steps_y, "quiet", "middle", c->p->source->setup);
  size_t stride = step_stride(c);
  for (size_t i = 0; i < c->p->step_count; i++) {
    if (i && (i + 1) % stride) continue;
    double from = svg_x_of_event(c, steps[i].first), to = svg_x_of_event(c, steps[i].end);
    char text[40];
    snprintf(text, sizeof text, stride == 1 && to - from > 60 ? "step %zu" : "%zu", i + 1);
    double half = (double)strlen(text) * LETTER / 2.0;
    double x = fmin(fmax((from + to) / 2, LEFT + half), RIGHT - half);
    svg_line(c, "step", from, TOP, from, c->steps_y);
    if (x - half < free_from) continue;
    svg_text(c, x, c->steps_y, "quiet", "middle", text);
    free_from = x + half + LETTER;
  }
}

// ---- phases of the steps ----------------------------------------------------------------------------------

static bool has_room(const canvas *c, const picture_span *s) {
  return svg_x_of_event(c, s->end) - svg_x_of_event(c, s->first) >
         (double)(strlen(s->name) + 1) * LETTER;
}

static bool any_has_room(const canvas *c) {
  for (size_t i = 0; i < c->p->phase_count; i++)
    if (has_room(c, &c->p->phases[i])) return true;
  return false;
}

static void put_phases(const canvas *c) {
  if (!c->phases_y) return;
  for (size_t i = 0; i < c->p->phase_count; i++) {
    const picture_span *s = &c->p->phases[i];
    double from = svg_x_of_event(c, s->first), to = svg_x_of_event(c, s->end);
    if (from > LEFT) svg_line(c, "step", from, BOTTOM, from, c->phases_y + 4);
    if (has_room(c, s)) svg_text(c, (from + to) / 2, c->phases_y, "quiet", "middle", s->name);
  }
}

// If phases are named, the row of times is omitted when no times are known: numbers of events would add nothing.
void svg_choose_rows(canvas *c) {
  int y = ROWS_Y;
  bool has_phases = any_has_room(c);
  if (has_phases) c->phases_y = y, y += ROW;
  if (!has_phases || picture_seconds_at(c->p, 0) >= 0) c->times_y = y, y += ROW;
  c->steps_y = y;
  c->legend_y = y + LEGEND_GAP;
}

void svg_x_axis(const canvas *c) {
  put_steps(c);
  put_phases(c);
  put_times(c);
}
