#include "picture.h"

#include <stdarg.h>
#include <string.h>

#include "atomic_file.h"

// What lasts lies at the bottom, what comes and goes on top: the picture then moves only where
// memory does. Lightness (CIE L*) on a light page, bottom up: 31, 65, 47, 69, 38, 55, 79, 56.
const picture_layer picture_layers[PLIM_KIND_COUNT] = {
    {PLIM_KIND_PARAMETER, "#264b7a", "#3d6aa3"},  {PLIM_KIND_OPTIMIZER, "#6fa3d8", "#86b4e3"},
    {PLIM_KIND_GRADIENT, "#237c71", "#2f978a"},   {PLIM_KIND_OTHER, "#a8a8a8", "#9a9a9a"},
    {PLIM_KIND_LEAKED, "#b0184f", "#c93a6e"},     {PLIM_KIND_WORKSPACE, "#8b79b8", "#7d6bb0"},
    {PLIM_KIND_ACTIVATION, "#f3bc4e", "#f0b645"}, {PLIM_KIND_TEMPORARY, "#d9603b", "#dd6a47"},
};

plim_err picture_save(const picture *p, const char *path,
                      void (*write)(FILE *out, const picture *p), plim_error *error) {
  plim_atomic_file file;
  plim_err err = plim_atomic_open(&file, path, error);
  if (err) return err;
  write(file.out, p);
  return plim_atomic_commit(&file, error);
}

const plim_column *picture_peak(const picture *p) {
  const plim_timeline *t = p->timeline;
  return t->columns.len ? &t->columns.at[t->peak] : NULL;
}

static bool is_inside_character(char c) { return ((unsigned char)c & 0xC0) == 0x80; }

void picture_shorten(const char *from, char *text, size_t size, size_t max) {
  size_t length = strlen(from), half = max / 2;
  if (length <= max) {
    snprintf(text, size, "%s", from);
    return;
  }
  const char *end = from + length - half;
  while (half && is_inside_character(from[half])) half--;
  while (is_inside_character(*end)) end++;
  snprintf(text, size, "%.*s…%s", (int)half, from, end);
}

void picture_title(const picture *p, char *text, size_t size, size_t max) {
  const char *slash = strrchr(p->name, '/');
  picture_shorten(slash && slash[1] ? slash + 1 : p->name, text, size, max);
}

double picture_elapsed_seconds(const picture *p, uint64_t time_us) {
  if (!p->trace->events.len) return -1;
  uint64_t start = p->trace->events.at[0].time_us;
  return start && time_us >= start ? (double)(time_us - start) / 1e6 : -1;
}

// Appends to text, which holds `used` bytes of `size`; returns the new `used`.
__attribute__((format(printf, 4, 5))) static size_t append(char *text, size_t size, size_t used,
                                                           const char *format, ...) {
  va_list args;
  va_start(args, format);
  int added = vsnprintf(text + used, size - used, format, args);
  va_end(args);
  if (added < 0) return used;
  return used + (size_t)added < size ? used + (size_t)added : size - 1;
}

void picture_subtitle(const picture *p, char *text, size_t size) {
  const plim_column *peak = picture_peak(p);
  const plim_timeline *t = p->timeline;
  if (!peak) {
    snprintf(text, size, "nothing was recorded");
    return;
  }
  size_t events = p->trace->events.len, steps = p->story->steps.len;
  double seconds = picture_elapsed_seconds(p, p->trace->events.at[events - 1].time_us);
  size_t used =
      append(text, size, 0, "%s allocated and %s reserved at most; %s entries",
             units_bytes(peak->allocated_bytes).text, units_bytes(t->peak_reserved_bytes).text,
             units_count(p->trace->entries).text);
  if (steps)
    used =
        append(text, size, used, " in %s step%s", units_count(steps).text, steps == 1 ? "" : "s");
  if (seconds >= 0) used = append(text, size, used, ", %s", units_seconds(seconds).text);
  if (t->first_oom_event != PLIM_UNKNOWN)
    append(text, size, used, "; out of memory when asked for %s",
           units_bytes(p->trace->events.at[t->first_oom_event].bytes).text);
}
