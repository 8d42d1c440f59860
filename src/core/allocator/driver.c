#include "driver.h"

#include <string.h>

#define TOP_ADDRESS (1ull << 60) // arbitrary: room for a million expandable segments

void plim_address_model_init(plim_address_model *model) { *model = (plim_address_model){0}; }

bool plim_address_model_copy(plim_address_model *to, const plim_address_model *from) {
  plim_address_model_init(to);
  to->ranges_made = from->ranges_made;
  return vec_copy(&to->ranges, &from->ranges) && vec_copy(&to->holes, &from->holes);
}

void plim_address_model_clear(plim_address_model *model) {
  vec_free(&model->ranges);
  vec_free(&model->holes);
}

// ---- ranges ---------------------------------------------------------------------------------------

// The last range that starts at or below an address; SIZE_MAX if there is none.
static size_t range_at(const plim_address_model *model, uint64_t addr) {
  size_t low = 0, high = model->ranges.len;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (model->ranges.at[middle].start <= addr) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

static uint64_t end_of(const plim_address_range *range) { return range->start + range->bytes; }

bool plim_address_model_contains(const plim_address_model *model, uint64_t addr) {
  size_t at = range_at(model, addr);
  return at != SIZE_MAX && addr < end_of(&model->ranges.at[at]);
}

// The start of a new range: right below another one, in the highest gap that is larger; 0 if there is none. A gap of
// exactly its size is skipped: if it were used, 11 instead of 13 of the 14 random programs would have the recorded peak.
static uint64_t find_gap(const plim_address_model *model, uint64_t bytes) {
  uint64_t ceiling = TOP_ADDRESS;
  for (size_t i = model->ranges.len + 1; i-- > 0;) {
    uint64_t floor = i ? end_of(&model->ranges.at[i - 1]) : 0;
    if (ceiling - floor > bytes) return ceiling - bytes;
    if (i) ceiling = model->ranges.at[i - 1].start;
  }
  return 0;
}

static bool add_hole(plim_address_model *model, uint64_t addr, uint64_t bytes);

static bool add_range(plim_address_model *model, uint64_t bytes, uint64_t *start) {
  bytes = (bytes + PLIM_ADDRESS_STEP - 1) / PLIM_ADDRESS_STEP * PLIM_ADDRESS_STEP;
  if (bytes >= TOP_ADDRESS) return false;
  if (!vec_reserve(&model->ranges, 1) || !vec_reserve(&model->holes, 1)) {
    model->has_failed = true;
    return false;
  }
  *start = model->space.take ? model->space.take(bytes) : find_gap(model, bytes);
  if (!*start) return false;
  size_t at = range_at(model, *start) + 1;
  plim_address_range *range = &model->ranges.at[at];
  memmove(range + 1, range, (model->ranges.len++ - at) * sizeof *range);
  *range = (plim_address_range){*start, bytes, 0, ++model->ranges_made};
  return add_hole(model, *start, bytes);
}

static void remove_range(plim_address_model *model, size_t at) {
  plim_address_range *range = &model->ranges.at[at];
  if (model->space.give_back) model->space.give_back(range->start, range->bytes);
  model->ranges.len--;
  memmove(range, range + 1, (model->ranges.len - at) * sizeof *range);
}

// ---- holes ----------------------------------------------------------------------------------------

static size_t first_hole_from(const plim_address_model *model, uint64_t addr) {
  size_t low = 0, high = model->holes.len;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (model->holes.at[middle].addr < addr) low = middle + 1;
    else high = middle;
  }
  return low;
}

static void remove_hole(plim_address_model *model, size_t at) {
  plim_address_hole *hole = &model->holes.at[at];
  model->holes.len--;
  memmove(hole, hole + 1, (model->holes.len - at) * sizeof *hole);
}

static bool add_hole(plim_address_model *model, uint64_t addr, uint64_t bytes) {
  if (!vec_reserve(&model->holes, 1)) return false;
  size_t at = first_hole_from(model, addr);
  plim_address_hole *hole = &model->holes.at[at];
  memmove(hole + 1, hole, (model->holes.len++ - at) * sizeof *hole);
  *hole = (plim_address_hole){addr, bytes};
  return true;
}

// Merges the hole with the next one if they touch within a range.
static void join(plim_address_model *model, size_t at, uint64_t range_end) {
  if (at + 1 >= model->holes.len) return;
  plim_address_hole *hole = &model->holes.at[at], *behind = hole + 1;
  if (hole->addr + hole->bytes != behind->addr || behind->addr >= range_end) return;
  hole->bytes += behind->bytes;
  remove_hole(model, at + 1);
}

// ---- the driver -----------------------------------------------------------------------------------

// The lowest hole that is large enough in the newest range that has one; the count of holes if there is none.
static size_t find_hole(const plim_address_model *model, uint64_t bytes) {
  const plim_address_range *range = model->ranges.at, *newest = NULL;
  size_t found = model->holes.len;
  for (size_t i = 0; i < model->holes.len; i++) {
    while (model->holes.at[i].addr >= end_of(range)) range++;
    bool is_newer = !newest || range->number > newest->number;
    if (model->holes.at[i].bytes < bytes || !is_newer) continue;
    newest = range;
    found = i;
  }
  return found;
}

static uint64_t take_hole(plim_address_model *model, size_t at, uint64_t bytes) {
  plim_address_hole *hole = &model->holes.at[at];
  uint64_t addr = hole->addr;
  hole->addr += bytes;
  hole->bytes -= bytes;
  if (!hole->bytes) remove_hole(model, at);
  model->ranges.at[range_at(model, addr)].used_bytes += bytes;
  return addr;
}

static uint64_t reserve(void *self, uint64_t bytes) {
  plim_address_model *model = self;
  if (model->has_failed) return PLIM_DRIVER_FAILED;
  size_t at = find_hole(model, bytes);
  uint64_t start;
  if (at == model->holes.len) {
    if (!add_range(model, bytes, &start))
      return model->has_failed ? PLIM_DRIVER_FAILED : PLIM_UNKNOWN;
    at = first_hole_from(model, start);
  }
  return take_hole(model, at, bytes);
}

static void release(void *self, uint64_t addr, uint64_t bytes) {
  plim_address_model *model = self;
  size_t at = range_at(model, addr);
  // Segments that existed before the model (at a recording's start) are not reused.
  if (at == SIZE_MAX || addr >= end_of(&model->ranges.at[at])) return;
  if (!add_hole(model, addr, bytes)) {
    model->has_failed = true; // the hole is lost: later addresses could not be trusted
    return;
  }
  plim_address_range *range = &model->ranges.at[at];
  range->used_bytes -= bytes;
  size_t hole = first_hole_from(model, addr);
  join(model, hole, end_of(range));
  if (hole && model->holes.at[hole - 1].addr >= range->start) join(model, --hole, end_of(range));
  if (range->used_bytes) return;
  remove_hole(model, hole);
  remove_range(model, at);
}

plim_driver plim_address_model_driver(plim_address_model *model) {
  return (plim_driver){model, reserve, release};
}
