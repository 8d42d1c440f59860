// Helpers for building timelines, shared by timeline.c (recordings) and core/estimate/predicted_timeline.c
// (predictions).
#ifndef PLIM_CORE_TIMELINE_COLUMNS_H
#define PLIM_CORE_TIMELINE_COLUMNS_H

#include "timeline.h"

// Makes `count` columns over the events, or one per event if there are fewer. Returns false when out of memory.
bool timeline_make_columns(plim_timeline *t, size_t events, size_t count);

// The column that represents an event.
size_t timeline_column_of(const plim_timeline *t, size_t events, size_t event);

// Makes the column show this instant if it is the highest so far; returns whether it did.
bool timeline_offer(plim_timeline_column *c, size_t instant, const plim_usage *now);

// Updates the column's highest reserved bytes from the allocator's statistics before and after an event.
void timeline_raise_reserved(plim_timeline_column *c, const plim_allocator_stats_t *last,
                             const plim_allocator_stats_t *now);

// Inserts the line if it is among the largest; keeps them sorted, largest first.
void timeline_offer_holder(plim_holder top[PLIM_TIMELINE_HOLDERS], plim_holder line);

void timeline_find_peaks(plim_timeline *t);

#endif
