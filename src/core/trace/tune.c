#include "tune.h"

#include <string.h>

const plim_tune_setting plim_tune_settings[] = {
    {"", false},
    {"expandable_segments:True", false},
    {"max_split_size_mb:32", false},
    {"max_split_size_mb:64", false},
    {"max_split_size_mb:128", false},
    {"max_split_size_mb:256", false},
    {"max_split_size_mb:512", false},
    {"max_split_size_mb:1024", false},
    {"roundup_power2_divisions:4", false},
    {"roundup_power2_divisions:8", false},
    {"roundup_power2_divisions:16", false},
    {"roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", false},
    {"max_split_size_mb:128,roundup_power2_divisions:8", false},
    {"max_split_size_mb:512,roundup_power2_divisions:8", false},
    {"expandable_segments:True,roundup_power2_divisions:8", false},
    {"expandable_segments:True,max_split_size_mb:512", false},
    {"garbage_collection_threshold:0.6", true},
    {"garbage_collection_threshold:0.8", true},
    {"max_split_size_mb:128,garbage_collection_threshold:0.6", true},
    {"max_split_size_mb:128,garbage_collection_threshold:0.8", true},
    {"max_split_size_mb:512,garbage_collection_threshold:0.8", true},
    {"expandable_segments:True,garbage_collection_threshold:0.8", true},
};
const size_t plim_tune_setting_count = sizeof plim_tune_settings / sizeof *plim_tune_settings;

plim_tune_row plim_tune_try(const plim_trace *trace, const plim_guided *guided,
                            const plim_replay_options *base, const char *conf) {
  plim_tune_row row = {.conf = conf, .first_oom_event = PLIM_UNKNOWN};
  plim_replay_options options = *base;
  plim_what_if got;
  row.failed =
      plim_alloc_conf_parse(conf, &options.conf, NULL) != PLIM_OK ||
      !plim_replay_what_if(trace, guided, &options, PLIM_ADDRESSES_MODEL, NULL, NULL, NULL, &got);
  if (row.failed) return row;
  row.totals = got.totals;
  row.first_oom_event = got.first_oom_event;
  return row;
}

static int compare(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

int plim_tune_order(const void *x, const void *y) {
  const plim_tune_row *a = x, *b = y;
  const plim_replay_totals *s = &a->totals, *t = &b->totals;
  int order = compare(a->failed, b->failed);
  if (!order) order = compare(s->ooms, t->ooms);
  if (!order) order = compare(s->peak_reserved_bytes, t->peak_reserved_bytes);
  if (!order) order = compare(s->retries, t->retries);
  if (!order) order = compare(s->segment_allocs, t->segment_allocs);
  if (!order) order = compare(strlen(a->conf), strlen(b->conf)); // the shortest of equals
  return order ? order : strcmp(a->conf, b->conf);
}
