#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "trend.h"
#include "units.h"

const char *const plim_trend_names[PLIM_TREND_KINDS] = {
    "unclear", "steady", "swinging", "staircase", "lengthening", "creeping", "outside"};

static void add(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add(char *text, size_t size, const char *format, ...) {
  size_t used = strlen(text);
  va_list args;
  va_start(args, format);
  vsnprintf(text + used, size - used, format, args);
  va_end(args);
}

// "12.0 MiB per step", "3.00 MiB per minute"
static void add_rate(const plim_trend *t, char *text, size_t size) {
  double bytes = t->is_by_time ? 60 * t->bytes_per_step : t->bytes_per_step;
  const char *unit = t->is_by_time ? "minute" : "step";
  add(text, size, "%s per %s", units_bytes((uint64_t)bytes).text, unit);
}

static void add_range(const plim_trend *t, char *text, size_t size) {
  bool is_known = t->earliest_full_step != PLIM_UNKNOWN && t->latest_full_step != PLIM_UNKNOWN;
  bool is_wide = is_known && t->latest_full_step - t->earliest_full_step > t->full_step / 100;
  if (is_known && !is_wide) return;
  if (t->earliest_full_step == PLIM_UNKNOWN) return;
  if (is_known)
    add(text, size, " (between %s and %s)", units_count(t->earliest_full_step).text,
        units_count(t->latest_full_step).text);
  else add(text, size, " (not before %s)", units_count(t->earliest_full_step).text);
}

static void add_forecast(const plim_trend *t, char *text, size_t size) {
  if (t->full_step == PLIM_UNKNOWN) return;
  if (t->is_by_time)
    add(text, size, "; full in about %s", units_seconds((double)t->full_step).text);
  else if (!t->is_full_before_end)
    add(text, size, ", but the run ends at step %s, before memory is full",
        units_count(t->planned_steps).text);
  else {
    add(text, size, "; full at about step %s", units_count(t->full_step).text);
    add_range(t, text, size);
  }
}

static void say_growth(const plim_trend *t, char *text, size_t size) {
  if (t->kind == PLIM_TREND_CREEPING) add(text, size, "memory grows by ");
  else if (t->kind == PLIM_TREND_LENGTHENING) add(text, size, "the peak grows by ");
  else add(text, size, "GPU memory outside PyTorch's allocator grows by ");
  add_rate(t, text, size);
  add_forecast(t, text, size);
  if (t->kind == PLIM_TREND_OUTSIDE)
    add(text, size, "; a library of this program uses it, or another process on the GPU");
  if (t->kind == PLIM_TREND_LENGTHENING)
    add(text, size,
        "; what stays allocated between steps does not grow, so the batches get larger");
}

static void say_staircase(const plim_trend *t, char *text, size_t size) {
  add(text, size, "memory rose %s times, by %s in all", units_count(t->rises).text,
      units_bytes(t->risen_bytes).text);
  if (!t->is_by_time) add(text, size, ", last at step %s", units_count(t->last_rise_step).text);
  add(text, size, ", and never fell; longer samples have this effect");
  uint64_t room = plim_trend_headroom(t);
  if (room != PLIM_UNKNOWN && t->largest_rise_bytes > room)
    add(text, size, "; another rise like the largest (%s) would not fit",
        units_bytes(t->largest_rise_bytes).text);
}

static void say_swings(const plim_trend *t, char *text, size_t size) {
  uint64_t room = plim_trend_headroom(t);
  add(text, size, "the peak swings between %s and %s from step to step",
      units_bytes(t->low_peak_bytes).text, units_bytes(t->high_peak_bytes).text);
  if (room != PLIM_UNKNOWN) add(text, size, "; the highest so far left %s", units_bytes(room).text);
}

void plim_trend_say(const plim_trend *t, char *text, size_t size) {
  if (!size) return;
  *text = 0;
  switch (t->kind) {
  case PLIM_TREND_CREEPING:
  case PLIM_TREND_LENGTHENING:
  case PLIM_TREND_OUTSIDE: say_growth(t, text, size); break;
  case PLIM_TREND_STAIRCASE: say_staircase(t, text, size); break;
  case PLIM_TREND_SWINGING: say_swings(t, text, size); break;
  case PLIM_TREND_STEADY: add(text, size, "memory is steady"); break;
  default: add(text, size, "too few steps to see a trend");
  }
}
