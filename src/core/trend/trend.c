#include "trend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sort.h"

enum {
  FEWEST = 8,   // samples for a forecast: eight in a row rise by chance once in 40320
  SETTLED = 24, // samples to call a run steady
  LAST = 24,    // samples that show a leak that has just begun
  BLOCKS = 12,  // groups of neighbouring samples, each represented by its median
};

#define GROWTH_BYTES (2 * PLIM_MIB) // PyTorch's kSmallBuffer: less does not change what is reserved
#define SURE 3.29 // standard deviations of Kendall's S: chance in one of 2000 cases
#define SWING_SHARE                                                                                \
  0.1 // of the median; "varies significantly between steps" of seed 003, by judgement
#define RISE_SHARE 0.005 // of the level; smaller rises are noise, by judgement

typedef struct {
  double at, bytes; // the step or the time, and the memory
} point;

typedef struct {
  point at[PLIM_OLDER];
  size_t count;
} series;

typedef enum { LIVE, PEAK, RESERVED, OUTSIDE } quantity;

// ---- values -----------------------------------------------------------------------------------------

static uint64_t value_of(const plim_step_memory *m, quantity q) {
  switch (q) {
  case LIVE: return m->live_bytes;
  case PEAK: return m->peak_bytes;
  case RESERVED: return m->reserved_bytes;
  default: return m->outside_bytes;
  }
}

static void collect(const plim_step_memory *samples, size_t count, quantity q, series *out) {
  out->count = 0;
  for (size_t i = 0; i < count; i++) {
    const plim_step_memory *m = &samples[i];
    double at = m->step == PLIM_UNKNOWN ? m->seconds : (double)m->step;
    uint64_t bytes = value_of(m, q);
    if (bytes != PLIM_UNKNOWN) out->at[out->count++] = (point){at, (double)bytes};
  }
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// The value below which the share of the values lies; sorts them.
static double quantile(double *values, size_t count, double share) {
  plim_sort(values, count, sizeof *values, by_size);
  return values[(size_t)lround(share * (double)(count - 1))];
}

static double median(double *values, size_t count) {
  plim_sort(values, count, sizeof *values, by_size);
  return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

// ---- steady growth ----------------------------------------------------------------------------------

typedef struct {
  double slope, low, high; // bytes per step
} rate;

// The medians of groups of neighbouring samples: one huge step does not move them.
static size_t make_blocks(const series *s, point blocks[BLOCKS]) {
  double at[PLIM_OLDER], bytes[PLIM_OLDER];
  size_t count = s->count < BLOCKS ? s->count : BLOCKS;
  for (size_t b = 0; b < count; b++) {
    size_t first = b * s->count / count, end = (b + 1) * s->count / count;
    for (size_t i = first; i < end; i++)
      at[i - first] = s->at[i].at, bytes[i - first] = s->at[i].bytes;
    blocks[b] = (point){median(at, end - first), median(bytes, end - first)};
  }
  return count;
}

// Kendall's test: of all pairs of blocks, far more rise than fall.
static bool is_ordered(const point *blocks, size_t count) {
  int sum = 0;
  double n = (double)count;
  for (size_t i = 0; i < count; i++)
    for (size_t k = i + 1; k < count; k++)
      sum += (blocks[k].bytes > blocks[i].bytes) - (blocks[k].bytes < blocks[i].bytes);
  return sum >= SURE * sqrt(n * (n - 1) * (2 * n + 5) / 18);
}

// Whether growth goes on, and does not fade like that of a cache that fills up: the later rates are at least half of the
// earlier ones.
static bool goes_on(const double *slopes, size_t count) {
  double earlier[BLOCKS], later[BLOCKS];
  size_t half = count / 2;
  memcpy(earlier, slopes, half * sizeof *slopes);
  memcpy(later, slopes + count - half, half * sizeof *slopes);
  return 2 * median(later, half) >= median(earlier, half);
}

// Whether memory grows all the time: three of four blocks are above the one before, so that one jump or a few rises are
// no growth; where a block is a single sample, all must be. The rate is the median of the rates from block to block, which
// a jump does not change; its range is between order statistics (the second of 7, the third of 11 from either end).
static bool find_growth(const series *s, bool is_strict, rate *out) {
  point blocks[BLOCKS];
  double slopes[BLOCKS];
  size_t rising = 0, count = s->count < FEWEST ? 0 : make_blocks(s, blocks);
  if (count < FEWEST) return false;
  for (size_t i = 0; i + 1 < count; i++) {
    double span = blocks[i + 1].at - blocks[i].at;
    slopes[i] = span > 0 ? (blocks[i + 1].bytes - blocks[i].bytes) / span : 0;
    rising += slopes[i] > 0;
  }
  bool wants_all = is_strict || s->count < 2 * BLOCKS;
  if (4 * rising < (wants_all ? 4 : 3) * (count - 1)) return false;
  if (!is_ordered(blocks, count) || !goes_on(slopes, count - 1)) return false;
  size_t edge = count >= 11 ? 2 : 1;
  *out = (rate){.slope = median(slopes, count - 1)}; // sorts them
  out->low = slopes[edge], out->high = slopes[count - 2 - edge];
  return out->slope * (blocks[count - 1].at - blocks[0].at) >= (double)GROWTH_BYTES;
}

static uint64_t as_step(double at) {
  return at >= 0 && at < 9e18 ? (uint64_t)at : at < 0 ? 0 : PLIM_UNKNOWN;
}

// The step at which a level that grows at this rate reaches the limit.
static uint64_t full_at(double now, double room, double slope) {
  if (slope <= 0) return PLIM_UNKNOWN;
  return as_step(now + (room > 0 ? room / slope : 0));
}

// The level is the highest of the last quarter: that is the step that will fail first.
static void forecast(const series *s, const rate *r, plim_trend *t) {
  double level = 0, now = t->is_by_time ? 0 : s->at[s->count - 1].at;
  for (size_t i = s->count - (s->count + 3) / 4; i < s->count; i++)
    level = fmax(level, s->at[i].bytes);
  t->bytes_per_step = r->slope, t->low_bytes_per_step = r->low, t->high_bytes_per_step = r->high;
  if (t->limit_bytes == PLIM_UNKNOWN) return;
  double room = (double)t->limit_bytes - level;
  t->full_step = full_at(now, room, r->slope);
  t->earliest_full_step = full_at(now, room, r->high);
  t->latest_full_step = full_at(now, room, r->low);
  bool has_end = t->planned_steps != PLIM_UNKNOWN && !t->is_by_time;
  t->is_full_before_end =
      t->full_step != PLIM_UNKNOWN && (!has_end || t->full_step <= t->planned_steps);
}

// Growth in one stretch of the history.
static bool look_for_growth(const plim_step_memory *samples, size_t count, bool is_strict,
                            plim_trend *t) {
  series live, peak, outside;
  rate r;
  collect(samples, count, LIVE, &live);
  collect(samples, count, PEAK, &peak);
  collect(samples, count, OUTSIDE, &outside);
  if (find_growth(&live, is_strict, &r)) t->kind = PLIM_TREND_CREEPING;
  else if (find_growth(&peak, is_strict, &r))
    t->kind = live.count < FEWEST ? PLIM_TREND_CREEPING : PLIM_TREND_LENGTHENING;
  else if ((live.count || peak.count) && find_growth(&outside, is_strict, &r))
    t->kind = PLIM_TREND_OUTSIDE;
  else return false;
  forecast(peak.count ? &peak : &live, &r, t);
  return true;
}

static double highest(const plim_step_memory *samples, size_t count, quantity q) {
  series s;
  double most = -1;
  collect(samples, count, q, &s);
  for (size_t i = 0; i < s.count; i++) most = fmax(most, s.at[i].bytes);
  return most;
}

// Growth from one sample to another; negative if it is not known.
static double growth_between(const plim_step_memory *from, const plim_step_memory *to, quantity q) {
  uint64_t before = value_of(from, q), after = value_of(to, q);
  return before == PLIM_UNKNOWN || after == PLIM_UNKNOWN ? -1 : (double)after - (double)before;
}

// A leak that has just begun: all of the last blocks rise, faster than before, and to more than there ever was; garbage
// that is collected now and then rises to the same height each time.
static bool has_just_begun(const plim_history *h, quantity q, plim_trend *t) {
  if (h->recent_count < 2 * LAST) return false;
  size_t before = h->recent_count - LAST;
  const plim_step_memory *last = h->recent + before;
  if (q == LIVE && highest(last, LAST, LIVE) < 0) q = PEAK;
  double now = highest(last, LAST, q);
  bool is_new = now > highest(h->recent, before, q);
  if (h->older_count > LAST) is_new &= now > highest(h->older, h->older_count - LAST, q);
  bool is_faster =
      growth_between(last, last + LAST - 1, q) > growth_between(last - LAST, last - 1, q);
  return is_new && is_faster && look_for_growth(last, LAST, true, t);
}

// ---- rises and swings -------------------------------------------------------------------------------

static const plim_step_memory *all_of(const plim_history *h, size_t *count) {
  bool is_short = h->seen <= PLIM_RECENT;
  *count = is_short ? h->recent_count : h->older_count;
  return is_short ? h->recent : h->older;
}

// Values that rise at least twice, the last time in the newer half, and never fall.
static bool find_staircase(const series *s, plim_trend *t) {
  double level = s->count ? s->at[0].bytes : 0, largest = 0, sum = 0;
  size_t rises = 0, last = 0;
  for (size_t i = 1; i < s->count; i++) {
    double rise = s->at[i].bytes - level, least = fmax((double)GROWTH_BYTES, RISE_SHARE * level);
    if (rise < -least) return false;
    if (rise < least) continue;
    rises++, last = i, sum += rise;
    largest = fmax(largest, rise);
    level = s->at[i].bytes;
  }
  if (rises < 2 || 2 * last < s->count) return false;
  t->rises = rises;
  t->risen_bytes = (uint64_t)sum;
  t->largest_rise_bytes = (uint64_t)largest;
  t->last_rise_step = as_step(s->at[last].at);
  return true;
}

static bool find_swings(const series *s, plim_trend *t) {
  double values[PLIM_OLDER];
  if (s->count < FEWEST) return false;
  for (size_t i = 0; i < s->count; i++) values[i] = s->at[i].bytes;
  double low = quantile(values, s->count, 0.05), high = quantile(values, s->count, 0.95);
  t->low_peak_bytes = (uint64_t)low;
  t->high_peak_bytes = (uint64_t)high;
  return s->count >= SETTLED && high - low > SWING_SHARE * quantile(values, s->count, 0.5);
}

static void look_for_patterns(const plim_step_memory *samples, size_t count, plim_trend *t) {
  series live, peak, reserved;
  collect(samples, count, LIVE, &live);
  collect(samples, count, PEAK, &peak);
  collect(samples, count, RESERVED, &reserved);
  const series *use = peak.count >= FEWEST ? &peak : &live;
  for (size_t i = 0; i < use->count; i++) {
    uint64_t bytes = (uint64_t)use->at[i].bytes;
    if (t->highest_bytes == PLIM_UNKNOWN || bytes > t->highest_bytes) t->highest_bytes = bytes;
  }
  bool swings = find_swings(use, t);
  if (t->kind != PLIM_TREND_UNCLEAR || use->count < FEWEST) return;
  if (find_staircase(reserved.count >= FEWEST ? &reserved : use, t)) t->kind = PLIM_TREND_STAIRCASE;
  else if (swings) t->kind = PLIM_TREND_SWINGING;
  else if (use->count >= SETTLED) t->kind = PLIM_TREND_STEADY;
}

// ---- the answer -------------------------------------------------------------------------------------

plim_trend plim_history_trend(const plim_history *h, uint64_t limit_bytes, uint64_t planned_steps) {
  plim_trend t = {.full_step = PLIM_UNKNOWN,
                  .earliest_full_step = PLIM_UNKNOWN,
                  .latest_full_step = PLIM_UNKNOWN,
                  .low_peak_bytes = PLIM_UNKNOWN,
                  .high_peak_bytes = PLIM_UNKNOWN,
                  .highest_bytes = PLIM_UNKNOWN,
                  .limit_bytes = limit_bytes,
                  .planned_steps = planned_steps};
  size_t count;
  const plim_step_memory *all = all_of(h, &count);
  if (!h->recent_count || !h->older_count) return t; // warming up
  t.is_by_time = h->recent[h->recent_count - 1].step == PLIM_UNKNOWN;
  // A fast leak shows in the last steps, a slow one only in a longer stretch; growth that has ended is in neither.
  bool is_long = h->seen >= 4 * PLIM_RECENT;
  if (!look_for_growth(h->recent, h->recent_count, false, &t) && !has_just_begun(h, LIVE, &t) &&
      !has_just_begun(h, OUTSIDE, &t) && is_long)
    look_for_growth(all + count / 2, count - count / 2, false, &t);
  look_for_patterns(all, count, &t);
  return t;
}

uint64_t plim_trend_headroom(const plim_trend *t) {
  if (t->limit_bytes == PLIM_UNKNOWN || t->highest_bytes == PLIM_UNKNOWN) return PLIM_UNKNOWN;
  return t->limit_bytes > t->highest_bytes ? t->limit_bytes - t->highest_bytes : 0;
}

bool plim_trend_is_warning(const plim_trend *t) {
  uint64_t room = plim_trend_headroom(t);
  bool has_room = room != PLIM_UNKNOWN;
  switch (t->kind) {
  case PLIM_TREND_CREEPING:
  case PLIM_TREND_LENGTHENING:
  case PLIM_TREND_OUTSIDE: return t->is_full_before_end;
  case PLIM_TREND_STAIRCASE: return has_room && t->largest_rise_bytes > room;
  case PLIM_TREND_SWINGING: return has_room && t->high_peak_bytes - t->low_peak_bytes > room;
  default: return false;
  }
}

bool plim_trend_is_growth(const plim_trend *t) {
  return t->kind == PLIM_TREND_CREEPING || t->kind == PLIM_TREND_LENGTHENING ||
         t->kind == PLIM_TREND_OUTSIDE;
}

bool plim_trend_is_low(const plim_trend *t) {
  bool is_settled = t->kind == PLIM_TREND_STEADY || t->kind == PLIM_TREND_SWINGING;
  bool is_known = t->limit_bytes != PLIM_UNKNOWN && t->highest_bytes != PLIM_UNKNOWN;
  return is_settled && is_known && (double)t->highest_bytes < PLIM_LOW_USE * (double)t->limit_bytes;
}

bool plim_shares_are_low(const double *shares, size_t count, double *middle) {
  enum { ENOUGH = 30, MOST = 512 };
  double known[MOST];
  size_t n = 0;
  for (size_t i = count > MOST ? count - MOST : 0; i < count; i++)
    if (shares[i] >= 0) known[n++] = shares[i];
  if (n < ENOUGH) return false;
  *middle = median(known, n);
  return *middle < PLIM_LOW_USE;
}
