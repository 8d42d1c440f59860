#include "driver.h"

#include <string.h>

#define RANGE_STEP (32 * PLIM_MIB) // recorded: segments of 2 MiB come 16 to a 32 MiB range
#define TOP_ADDRESS (1ull << 60)   // arbitrary: room for a million expandable segments

void plim_address_model_init(plim_address_model *model) {
  *model = (plim_address_model){.lowest = TOP_ADDRESS};
}

void plim_address_model_clear(plim_address_model *model) {
  vec_free(&model->ranges);
  vec_free(&model->holes);
}

static size_t range_index(const plim_address_model *model, uint64_t addr) {
  size_t low = 0, high = model->ranges.len; // the last range that starts at or below addr
  while (high - low > 1) {
    size_t middle = (low + high) / 2;
    if (model->ranges.at[middle].start <= addr) low = middle;
    else high = middle;
  }
  return low;
}

static bool is_empty_range(const plim_address_model *model, const plim_address_hole *hole) {
  return model->ranges.at[range_index(model, hole->addr)].used_bytes == 0;
}

static size_t choose_hole(const plim_address_model *model, uint64_t bytes) {
  size_t empty = SIZE_MAX;
  for (size_t i = 0; i < model->holes.len; i++) {
    const plim_address_hole *hole = &model->holes.at[i];
    if (hole->bytes < bytes) continue;
    if (!is_empty_range(model, hole)) return i;
    empty = i; // the highest wins
  }
  return empty;
}

static uint64_t take_hole(plim_address_model *model, size_t index, uint64_t bytes) {
  plim_address_hole *hole = &model->holes.at[index];
  uint64_t addr = hole->addr;
  hole->addr += bytes;
  hole->bytes -= bytes;
  if (!hole->bytes) {
    model->holes.len--;
    memmove(hole, hole + 1, (model->holes.len - index) * sizeof *hole);
  }
  model->ranges.at[range_index(model, addr)].used_bytes += bytes;
  return addr;
}

// New ranges lie below all others, so both lists grow at the front.
static bool add_range(plim_address_model *model, uint64_t bytes) {
  bytes = (bytes + RANGE_STEP - 1) / RANGE_STEP * RANGE_STEP;
  if (bytes >= model->lowest) return false;
  if (!vec_reserve(&model->ranges, 1) || !vec_reserve(&model->holes, 1)) return false;
  model->lowest -= bytes;
  memmove(model->ranges.at + 1, model->ranges.at, model->ranges.len++ * sizeof *model->ranges.at);
  model->ranges.at[0] = (plim_address_range){model->lowest, bytes, 0};
  memmove(model->holes.at + 1, model->holes.at, model->holes.len++ * sizeof *model->holes.at);
  model->holes.at[0] = (plim_address_hole){model->lowest, bytes};
  return true;
}

static uint64_t reserve(void *self, uint64_t bytes) {
  plim_address_model *model = self;
  size_t hole = choose_hole(model, bytes);
  if (hole == SIZE_MAX) {
    if (!add_range(model, bytes)) return PLIM_UNKNOWN;
    hole = 0;
  }
  return take_hole(model, hole, bytes);
}

static size_t hole_index(const plim_address_model *model, uint64_t addr) {
  size_t low = 0, high = model->holes.len; // the first hole above addr
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (model->holes.at[middle].addr > addr) high = middle;
    else low = middle + 1;
  }
  return low;
}

// Holes join within a range, never across two.
static bool join(plim_address_model *model, size_t index) {
  if (index + 1 >= model->holes.len) return false;
  plim_address_hole *a = &model->holes.at[index], *b = a + 1;
  if (a->addr + a->bytes != b->addr) return false;
  if (range_index(model, a->addr) != range_index(model, b->addr)) return false;
  a->bytes += b->bytes;
  model->holes.len--;
  memmove(b, b + 1, (model->holes.len - index - 1) * sizeof *b);
  return true;
}

static void release(void *self, uint64_t addr, uint64_t bytes) {
  plim_address_model *model = self;
  // Segments that were there before the model (a recording's start) are not its to reuse.
  if (!model->ranges.len || addr < model->lowest || addr >= TOP_ADDRESS) return;
  if (!vec_reserve(&model->holes, 1)) return; // the hole is lost: addresses just go on downwards
  model->ranges.at[range_index(model, addr)].used_bytes -= bytes;
  size_t at = hole_index(model, addr);
  plim_address_hole *hole = &model->holes.at[at];
  memmove(hole + 1, hole, (model->holes.len++ - at) * sizeof *hole);
  *hole = (plim_address_hole){addr, bytes};
  join(model, at);
  if (at) join(model, at - 1);
}

plim_driver plim_address_model_driver(plim_address_model *model) {
  return (plim_driver){model, reserve, release};
}
