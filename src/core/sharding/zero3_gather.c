// DeepSpeed ZeRO, stage 3: partitioned parameters are gathered when a module needs them, or prefetched, and released if
// they are not needed again soon. Follows DeepSpeed 0.19 (partitioned_param_coordinator.py, partition_parameters.py).
#include "traffic.h"
#include "zero3_impl.h"
#include "zero_work.h"

#include "tape_names.h"

typedef zero3_parameter parameter;
typedef zero3_group group;

// ---- gathering ------------------------------------------------------------------------------------

static uint64_t whole_bytes(const parameter *p) {
  return (uint64_t)(p->part * p->all->how.world) * plim_dtype_bytes[p->tensor->dtype];
}

static bool is_here(const parameter *p) { return p->is_whole || p->flat; }

// Trained ones are always pinned (stage3.py, _create_param_groups_fp16_flat_cpu_memory).
static bool is_pageable(const parameter *p) {
  return p->all->how.pages_parameters && !p->is_trained;
}

// Parameters requested together are gathered together. Offloaded partitions are first copied from the host, and Python
// waits for them: with several ranks `tensor.to(device)` returns when it is done; with one rank the next parameter
// that is used waits for all requests so far.
static double send_parts(plim_tape *t, const zero3 *z, double whole, double pageable) {
  double after = 0, world = (double)z->how.world;
  if (!(whole > 0)) return 0;
  if (z->how.sends_in_turn) after = plim_traffic_now(t);
  if (z->how.offloads_parameters && whole > pageable)
    after = plim_copy_from_host(t, (whole - pageable) / world, after);
  if (z->how.offloads_parameters && pageable > 0)
    after = plim_copy_pageable(t, pageable / world, after);
  if (z->how.offloads_parameters) plim_await_on_host(t, after);
  double ready = plim_send_gather(t, whole, after);
  if (z->how.sends_in_turn) plim_await(t, ready);
  return ready;
}

// A single rank has nothing to gather: partitions on the card are used directly.
static bool uses_parts(const zero3 *z) { return z->how.world == 1 && !z->how.offloads_parameters; }

static void copy_out(plim_tape *t, parameter *p) {
  plim_resize_storage(t, p->tensor, uses_parts(p->all) ? 0 : whole_bytes(p));
  p->is_whole = true;
}

static plim_tensor *part_on_card(plim_tape *t, const parameter *p) {
  if (!p->all->how.offloads_parameters || p->all->how.world == 1) return NULL;
  return empty_for(t, PLIM_FOR_WORKSPACE, dims(p->part), (plim_dtype)p->tensor->dtype);
}

static void gather(plim_tape *t, parameter *p) {
  if (is_here(p)) return;
  copy_out(t, p);
  plim_consume(t, part_on_card(t, p));
  p->all->live += p->elements;
}

enum { MOST_TOGETHER = 256 };

// Parameters of one dtype are gathered into one buffer.
static void gather_type(plim_tape *t, parameter **members, size_t count, plim_dtype dtype) {
  plim_tensor *flat = NULL, *parts[MOST_TOGETHER];
  size_t part_count = 0;
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; i++)
    if (members[i]->tensor->dtype == dtype) bytes += whole_bytes(members[i]);
  if (bytes) set(t, &flat, scratch(t, bytes));
  for (size_t i = 0; i < count; i++) {
    if (members[i]->tensor->dtype != dtype) continue;
    set(t, &members[i]->flat, flat);
    members[i]->all->live += members[i]->elements;
    parts[part_count++] = part_on_card(t, members[i]);
  }
  for (size_t i = 0; i < part_count; i++) plim_consume(t, parts[i]);
  drop(t, &flat);
}

static void gather_together(plim_tape *t, parameter **members, size_t count) {
  if (count > 1 && members[0]->all->how.world > 1) {
    gather_type(t, members, count, members[0]->all->dtype);
    if (members[0]->all->dtype != PLIM_FP32) gather_type(t, members, count, PLIM_FP32);
    return;
  }
  for (size_t i = 0; i < count; i++) gather(t, members[i]);
}

// All parameters gathered together are copied out when the first of them is needed; the buffer is freed when all have
// been copied.
static void wait_for(plim_tape *t, parameter *p) {
  zero3 *z = p->all;
  bool is_first = p->flat && !p->is_whole;
  for (size_t i = 0; is_first && i < z->count; i++)
    if (z->parameters[i].flat == p->flat) copy_out(t, &z->parameters[i]);
  drop(t, &p->flat);
}

static void send_together(plim_tape *t, parameter **members, size_t count) {
  double whole = 0, pageable = 0;
  size_t missing = 0;
  for (size_t i = 0; i < count; i++) {
    if (is_here(members[i])) continue;
    missing++;
    whole += (double)whole_bytes(members[i]);
    if (is_pageable(members[i])) pageable += (double)whole_bytes(members[i]);
  }
  zero_work_gather(t, missing);
  double ready = count ? send_parts(t, members[0]->all, whole, pageable) : 0;
  for (size_t i = 0; i < count; i++)
    if (!is_here(members[i])) members[i]->ready = ready;
}

// ---- prefetching ----------------------------------------------------------------------------------

// Takes the next parameter of the queue, NULL at its end; sets *at to the trace position where it is used.
static parameter *take_queued(zero3 *z, size_t *at) {
  while (z->queued < z->trace.len && z->queued_member >= z->trace.at[z->queued]->members.len)
    z->queued++, z->queued_member = 0;
  if (z->queued == z->trace.len) return NULL;
  *at = z->queued;
  return z->trace.at[z->queued]->members.at[z->queued_member++];
}

// Removes parameters that are used now from the prefetch queue.
static void pass_by(zero3 *z, const group *g) {
  size_t left = 0, at;
  for (size_t i = 0; i < g->members.len; i++) left += g->members.at[i]->claimed <= z->position;
  while (left) {
    parameter *p = take_queued(z, &at);
    if (!p) return;
    p->claimed = at + 1;
    left--;
  }
}

static bool is_one_of(parameter *const *some, size_t count, const parameter *p) {
  for (size_t i = 0; i < count; i++)
    if (some[i] == p) return true;
  return false;
}

// Prefetches what the trace names next, as far as the limit on live parameters allows.
static void prefetch_some(plim_tape *t, zero3 *z) {
  parameter *chosen[MOST_TOGETHER], *p = NULL;
  size_t count = 0, at = 0;
  int64_t room = z->sizes.live - z->live, elements = 0;
  if (room > z->sizes.prefetch) room = z->sizes.prefetch;
  while (elements < room && count < MOST_TOGETHER && (p = take_queued(z, &at))) {
    p->claimed = at + 1;
    if (is_here(p) || is_one_of(chosen, count, p)) continue;
    chosen[count++] = p;
    elements += p->elements;
  }
  send_together(t, chosen, count);
  gather_together(t, chosen, count);
}

// ---- using ----------------------------------------------------------------------------------------

void zero3_use(plim_tape *t, group *g) {
  zero3 *z = g->all;
  plim_stream was = plim_state(t)->stream;
  plim_state(t)->stream = PLIM_GATHER_STREAM;
  if (!z->is_traced && !vec_push(&z->trace, g)) plim_state(t)->failed = true;
  send_together(t, g->members.at, g->members.len);
  for (size_t i = 0; i < g->members.len; i++) {
    parameter *p = g->members.at[i];
    plim_await(t, p->ready);
    gather(t, p);
    wait_for(t, p);
  }
  if (z->is_traced) pass_by(z, g);
  if (z->is_traced) prefetch_some(t, z);
  z->position++;
  plim_state(t)->stream = was;
}

// Persistent parameters are kept only after the first pass, which records the trace.
void zero3_release(plim_tape *t, parameter *p) {
  if (!p->is_whole || (p->is_persistent && p->all->is_traced)) return;
  plim_resize_storage(t, p->tensor, 0);
  p->is_whole = false;
  p->all->live -= p->elements;
}

// Also true if prefetching skipped the parameter because it was already there.
bool zero3_is_used_soon(const zero3 *z, const parameter *p) {
  int64_t distance = 0;
  if (z->is_traced && p->claimed > z->position + 1) return true;
  for (size_t i = z->position; z->is_traced && i < z->trace.len; i++) {
    const group *g = z->trace.at[i];
    if (distance >= z->sizes.reuse) return false;
    for (size_t k = 0; k < g->members.len; k++) {
      if (g->members.at[k] == p) return true;
      distance += g->members.at[k]->elements;
    }
  }
  return false;
}

void zero3_done_with(plim_tape *t, group *g) {
  for (size_t i = 0; i < g->members.len; i++)
    if (!zero3_is_used_soon(g->all, g->members.at[i])) zero3_release(t, g->members.at[i]);
}
