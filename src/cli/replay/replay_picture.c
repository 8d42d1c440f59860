#include "replay_picture.h"

#include <string.h>

// Long-lived memory is at the bottom, short-lived memory on top, so that the layers move as little as possible.
// Lightness (CIE L*) on a light page, from the bottom: 31, 65, 47, 69, 38, 55, 79, 56.
static const picture_layer layers[] = {
    {PLIM_KIND_PARAMETER, "#264b7a", "#3d6aa3"},  {PLIM_KIND_OPTIMIZER, "#6fa3d8", "#86b4e3"},
    {PLIM_KIND_GRADIENT, "#237c71", "#2f978a"},   {PLIM_KIND_OTHER, "#a8a8a8", "#9a9a9a"},
    {PLIM_KIND_LEAKED, "#b0184f", "#c93a6e"},     {PLIM_KIND_WORKSPACE, "#8b79b8", "#7d6bb0"},
    {PLIM_KIND_ACTIVATION, "#f3bc4e", "#f0b645"}, {PLIM_KIND_TEMPORARY, "#d9603b", "#dd6a47"},
};

static void line_name(const void *context, uint32_t line, char *text, size_t size) {
  plim_line_name(((const replay_scene *)context)->trace, line, text, size);
}

static double seconds_at(const void *context, size_t event) {
  const plim_trace *trace = ((const replay_scene *)context)->trace;
  if (!trace->events.len) return -1;
  uint64_t start = trace->events.at[0].time_us, now = trace->events.at[event].time_us;
  return start && now >= start ? (double)(now - start) / 1e6 : -1;
}

static const picture_source recording = {
    .layers = layers,
    .layer_count = sizeof layers / sizeof *layers,
    .part_names = plim_kind_names,
    .setup = "set-up",
    .entry = "entry",
    .line = "line",
    .line_name = line_name,
    .seconds_at = seconds_at,
};

// Writes the totals: "8.00 GiB allocated and 8.72 GiB reserved at most; 16,930 entries in 5 steps, 12.3 s; out of
// memory when 1.03 GiB more were requested".
static void say_totals(replay_scene *s) {
  char *text = s->subtitle;
  size_t size = sizeof s->subtitle;
  const plim_timeline *t = s->timeline;
  if (!t->columns.len) {
    snprintf(text, size, "nothing was recorded");
    return;
  }
  size_t steps = s->analysis->steps.len;
  double seconds = seconds_at(s, s->trace->events.len - 1);
  size_t used =
      picture_append(text, size, 0, "%s allocated and %s reserved at most; %s entries",
                     units_bytes(t->columns.at[t->peak].allocated_bytes).text,
                     units_bytes(t->peak_reserved_bytes).text, units_count(s->trace->entries).text);
  if (steps)
    used = picture_append(text, size, used, " in %s step%s", units_count(steps).text,
                          steps == 1 ? "" : "s");
  if (seconds >= 0) used = picture_append(text, size, used, ", %s", units_seconds(seconds).text);
  if (t->first_oom_event != PLIM_UNKNOWN)
    picture_append(text, size, used, "; out of memory when %s more were requested",
                   units_bytes(s->trace->events.at[t->first_oom_event].bytes).text);
}

static void say_peak(replay_scene *s) {
  const plim_timeline *t = s->timeline;
  if (!t->columns.len) return;
  const plim_timeline_column *peak = &t->columns.at[t->peak];
  char line[96];
  plim_line_name(s->trace, peak->holders[0].line, line, sizeof line);
  size_t used = picture_append(s->peak, sizeof s->peak, 0, "peak %s",
                               units_bytes(peak->allocated_bytes).text);
  if (peak->holders[0].bytes && peak->holders[0].line != PLIM_NO_LINE)
    picture_append(s->peak, sizeof s->peak, used, ", of which %s held by %s",
                   units_bytes(peak->holders[0].bytes).text, line);
}

static const char *without_folders(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash && slash[1] ? slash + 1 : path;
}

picture replay_picture(replay_scene *s) {
  say_totals(s);
  say_peak(s);
  return (picture){.title = without_folders(s->path),
                   .subtitle = s->subtitle,
                   .note = s->settings,
                   .peak = s->peak,
                   .source = &recording,
                   .context = s,
                   .timeline = s->timeline,
                   .events = s->trace->events.len,
                   .lines = s->trace->frames.len,
                   .steps = s->analysis->steps.at,
                   .step_count = s->analysis->steps.len,
                   .limit_bytes = s->limit_bytes};
}

plim_err replay_draw(const void *context, const picture_request *wanted, plim_error *error) {
  const replay_result *r = context;
  char settings[512];
  const plim_replay_options *options = r->is_what_if ? &r->options : &r->recorded_options;
  plim_alloc_conf_print(&options->conf, settings, sizeof settings);
  plim_timeline timeline;
  if (!plim_timeline_build(&r->trace, &r->analysis, options, r->is_what_if ? &r->guided : NULL,
                           wanted->columns, &timeline))
    return plim_fail(error, PLIM_ERR_NOMEM, "not enough memory to draw %s", wanted->path);
  replay_scene scene = {r->path,      settings,  &r->trace,
                        &r->analysis, &timeline, r->options.limit_bytes};
  picture p = replay_picture(&scene);
  plim_err err = picture_save(&p, wanted->path, wanted->write, error);
  plim_timeline_clear(&timeline);
  return err;
}
