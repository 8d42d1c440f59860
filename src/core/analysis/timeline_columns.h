// What timelines are made with, whatever they are of: recordings (timeline.c) and forecasts
// (predicted_timeline.c). Nobody else includes this.
#ifndef PLIM_CORE_TIMELINE_COLUMNS_H
#define PLIM_CORE_TIMELINE_COLUMNS_H

#include "timeline.h"

// `count` columns over the events, or one per event if those are fewer. False when memory is out.
bool timeline_make_columns(plim_timeline *t, size_t events, size_t count);

// The column that stands for an event.
size_t timeline_column_of(const plim_timeline *t, size_t events, size_t event);

// The column shows this instant if it is the highest so far; true if it does.
bool timeline_offer(plim_timeline_column *c, size_t instant, const plim_usage *now);

// The column's highest reserved bytes, given the allocator before and after an event.
void timeline_raise_reserved(plim_timeline_column *c, const plim_allocator_stats_t *last,
                             const plim_allocator_stats_t *now);

// Keeps the largest, largest first.
void timeline_offer_holder(plim_holder top[PLIM_TIMELINE_HOLDERS], plim_holder line);

void timeline_find_peaks(plim_timeline *t);

#endif
