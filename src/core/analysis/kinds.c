// Determines what each allocation probably is, from when it was allocated, when it was freed, and (with stacks) what
// the program was doing.
//
//   in set-up          alive at the last optimizer step: parameter (optimizer state if an optimizer loaded it);
//                      freed before the first step: temporary; else other
//   in an optimizer    alive after it: optimizer state; else temporary
//   step
//   in a step, before  alive when the optimizer begins, and freed before it begins again: gradient, if it was allocated
//   the optimizer      in a backward pass (stacks), or else if zero_grad freed it, or (if zero_grad is not seen) if it
//                      has the size of a parameter. Gradients that are zeroed in place live forever; they have sizes
//                      of parameters.
//                      outlives the next step: workspace if allocated in the first two steps, never freed, and nothing
//                      like it comes later; else other
//                      allocated before the backward pass starts, and alive then: activation; else temporary
//
// With stacks, a backward pass starts at its first allocation after one of another phase, so what a checkpoint
// recomputes counts as activation, too. Without stacks, scalars mark the start: the loss, its scaled copies and the
// gradient that backward starts from have one element and follow each other, so the last scalar in a row is taken as
// the start. What a checkpoint recomputes then shows no start and counts as temporary.
#include "hash.h"
#include "trace_analysis_impl.h"

enum { SCALAR_BYTES = 4 }; // one float32

typedef struct {
  analysis_reader *r;
  plim_hash parameter_sizes; // size -> number of parameters with that size
  plim_hash late_keys;       // stack and size of what steps after the second leave behind
  bool grads_stay;           // gradients are zeroed in place
  bool zero_grad_tells;      // zero_grad is seen to free gradients: what it keeps is no gradient
  // The position of the sweep, which goes from the last event to the first:
  size_t step;           // the step of the event, from 1; 0 in set-up
  size_t span;           // number of optimizer spans that begin at or before it
  size_t turn;           // the next start of a backward pass; SIZE_MAX: none
  bool is_scalar_behind; // the next allocation is a scalar
} sweep;

// ---- questions about one allocation ---------------------------------------------------------------

static size_t span_first(const sweep *s, size_t span) {
  return span < s->r->spans.len ? s->r->spans.at[span].first : SIZE_MAX;
}

static bool in_span(const sweep *s, size_t i) {
  return s->span > 0 && i < s->r->spans.at[s->span - 1].end;
}

static bool in_zero_grad(const analysis_reader *r, size_t event) {
  size_t low = 0, high = r->zero_grads.len;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (r->zero_grads.at[middle].first <= event) low = middle + 1;
    else high = middle;
  }
  if (low && event < r->zero_grads.at[low - 1].end) return true;
  return event < r->trace->events.len && r->frees_have_stacks &&
         analysis_facts(r, event).in_zero_grad;
}

static bool zero_grad_follows(const analysis_reader *r, size_t event) {
  return r->zero_grads.len && r->zero_grads.at[r->zero_grads.len - 1].first >= event;
}

static bool has_parameter_size(const sweep *s, uint64_t bytes) {
  return plim_hash_find(&s->parameter_sizes, bytes) != NULL;
}

static uint64_t key_of(const plim_event *e) {
  return e->bytes * 0x9e3779b97f4a7c15ull + e->stack; // Fibonacci hashing separates the two
}

static size_t step_end(const sweep *s, size_t step) { // counted from 1
  const plim_trace_analysis *analysis = s->r->analysis;
  return step && step <= analysis->steps.len ? analysis->steps.at[step - 1].end : SIZE_MAX;
}

// Whether the allocation outlives the step after its own.
static bool stays(const sweep *s, size_t i) {
  return s->step < s->r->analysis->steps.len &&
         analysis_death(s->r->analysis, i) >= step_end(s, s->step + 1);
}

static bool may_be_gradient(const sweep *s, size_t i) {
  if (!s->step || in_span(s, i)) return false;
  bool is_backward = !s->r->has_stacks || analysis_facts(s->r, i).phase == PHASE_BACKWARD;
  size_t optimizer = span_first(s, s->span);
  if (optimizer == SIZE_MAX && s->r->is_unfinished) optimizer = s->r->cut;
  return is_backward && analysis_death(s->r->analysis, i) >= optimizer;
}

static bool is_gradient(const sweep *s, size_t i) {
  if (!may_be_gradient(s, i)) return false;
  size_t death = analysis_death(s->r->analysis, i);
  bool fits = has_parameter_size(s, s->r->trace->events.at[i].bytes);
  size_t again = span_first(s, s->span + 1);
  if (again != SIZE_MAX && death >= again) return fits && (s->grads_stay || !stays(s, i));
  if (death == SIZE_MAX) // a zero_grad that came and went freed all gradients
    return fits && !(s->zero_grad_tells && zero_grad_follows(s->r, span_first(s, s->span)));
  return s->r->has_stacks || (s->zero_grad_tells ? in_zero_grad(s->r, death) : fits);
}

static plim_kind kind_of_staying(const sweep *s, size_t i) {
  const plim_event *e = &s->r->trace->events.at[i];
  bool is_lasting = analysis_death(s->r->analysis, i) >= s->r->horizon;
  if (!is_lasting || s->step > 2 || plim_hash_find(&s->late_keys, key_of(e)))
    return PLIM_KIND_OTHER;
  if (s->r->spans_are_guessed && has_parameter_size(s, e->bytes)) return PLIM_KIND_OPTIMIZER;
  return PLIM_KIND_WORKSPACE;
}

static plim_kind kind_in_set_up(const sweep *s, size_t i) {
  const plim_trace_analysis *analysis = s->r->analysis;
  size_t death = analysis_death(analysis, i);
  if (death < analysis->steps.at[0].first) return PLIM_KIND_TEMPORARY;
  if (death < s->r->horizon) return PLIM_KIND_OTHER;
  stack_facts f = analysis_facts(s->r, i);
  bool is_state = f.phase == PHASE_OPTIMIZER || f.phase == PHASE_STATE;
  return is_state ? PLIM_KIND_OPTIMIZER : PLIM_KIND_PARAMETER;
}

static plim_kind kind_in_step(const sweep *s, size_t i) {
  size_t death = analysis_death(s->r->analysis, i);
  if (in_span(s, i))
    return death >= s->r->spans.at[s->span - 1].end ? PLIM_KIND_OPTIMIZER : PLIM_KIND_TEMPORARY;
  if (is_gradient(s, i)) return PLIM_KIND_GRADIENT;
  if (stays(s, i)) return kind_of_staying(s, i);
  bool is_backward = s->r->has_stacks && analysis_facts(s->r, i).phase == PHASE_BACKWARD;
  if (is_backward) return death == SIZE_MAX ? PLIM_KIND_WORKSPACE : PLIM_KIND_TEMPORARY;
  return s->turn != SIZE_MAX && s->turn < death ? PLIM_KIND_ACTIVATION : PLIM_KIND_TEMPORARY;
}

static plim_kind kind_of(const sweep *s, size_t i) {
  if (!s->r->analysis->steps.len)
    return s->r->analysis->freed_at.at[i] == PLIM_NEVER ? PLIM_KIND_OTHER : PLIM_KIND_TEMPORARY;
  return s->step ? kind_in_step(s, i) : kind_in_set_up(s, i);
}

// ---- the sweep ------------------------------------------------------------------------------------

static void start_sweep(sweep *s) {
  s->step = s->r->analysis->steps.len;
  s->span = s->r->spans.len;
  // In a step that was cut short no backward pass was seen: its end counts as the start of one.
  s->turn = s->r->is_unfinished ? s->r->cut : SIZE_MAX;
  s->is_scalar_behind = false;
}

// Moves the sweep back to event i, an allocation.
static void step_back(sweep *s, size_t i) {
  const plim_trace_analysis *analysis = s->r->analysis;
  while (s->step && analysis->steps.at[s->step - 1].first > i) s->step--;
  while (s->span && s->r->spans.at[s->span - 1].first > i) s->span--;
}

static void note_turn(sweep *s, size_t i) {
  if (in_span(s, i)) return;
  if (s->r->has_stacks) {
    if (analysis_facts(s->r, i).phase == PHASE_BACKWARD) s->turn = i;
    return;
  }
  bool is_scalar = s->r->trace->events.at[i].bytes <= SCALAR_BYTES;
  if (is_scalar && !s->is_scalar_behind) s->turn = i;
  s->is_scalar_behind = is_scalar;
}

typedef bool (*visit)(sweep *s, size_t event);

// Visits every allocation, the last first, so that what follows it is already known.
static bool sweep_back(sweep *s, visit f) {
  start_sweep(s);
  for (size_t i = s->r->trace->events.len; i-- > 0;) {
    if (!analysis_is_alloc(s->r->trace, i)) continue;
    step_back(s, i);
    if (!f(s, i)) return false;
    note_turn(s, i);
  }
  return true;
}

static bool count_up(plim_hash *hash, uint64_t key) {
  uint32_t *found = plim_hash_find(hash, key);
  if (found) ++*found;
  return found || plim_hash_put(hash, key, 1);
}

static bool note_parameter(sweep *s, size_t i) {
  if (s->step || !s->r->analysis->steps.len) return true;
  if (kind_in_set_up(s, i) != PLIM_KIND_PARAMETER) return true;
  return count_up(&s->parameter_sizes, s->r->trace->events.at[i].bytes);
}

static bool note_late(sweep *s, size_t i) {
  if (s->step <= 2 || in_span(s, i) || !stays(s, i)) return true;
  return count_up(&s->late_keys, key_of(&s->r->trace->events.at[i]));
}

static bool set_kind(sweep *s, size_t i) {
  s->r->analysis->kind.at[i] = (uint8_t)kind_of(s, i);
  return true;
}

// If gradients of the first step still exist in the second, they are zeroed in place. If zero_grad frees them, that
// distinguishes them from results that a variable holds until the next step.
static void find_grads_mode(sweep *s) {
  size_t gone = 0, kept = 0;
  start_sweep(s);
  for (size_t i = s->r->trace->events.len; i-- > 0;) {
    if (!analysis_is_alloc(s->r->trace, i)) continue;
    step_back(s, i);
    if (s->step != 1 || !may_be_gradient(s, i)) continue;
    if (!has_parameter_size(s, s->r->trace->events.at[i].bytes)) continue;
    size_t death = analysis_death(s->r->analysis, i);
    if (death >= span_first(s, s->span + 1)) kept++;
    else gone++;
    s->zero_grad_tells |= death != SIZE_MAX && in_zero_grad(s->r, death);
  }
  s->grads_stay = kept > gone && !s->r->spans_are_guessed; // there, state would look like gradients
}

// ---- blocks from before the recording -------------------------------------------------------------

static plim_kind start_kind(const analysis_reader *r, size_t i) {
  const plim_start_block *b = &r->trace->start_blocks.at[i];
  size_t freed = r->analysis->start_freed_at.at[i];
  if (freed != PLIM_NEVER && in_zero_grad(r, freed)) return PLIM_KIND_GRADIENT;
  if (!b->stack || b->stack >= r->facts.len) return PLIM_KIND_OTHER;
  stack_facts f = r->facts.at[b->stack]; // known only for blocks alive at the end
  if (f.in_optimizer || f.phase == PHASE_STATE) return PLIM_KIND_OPTIMIZER;
  return f.phase == PHASE_UNKNOWN ? PLIM_KIND_PARAMETER : PLIM_KIND_OTHER;
}

static bool note_start_blocks(sweep *s) {
  const analysis_reader *r = s->r;
  for (size_t i = 0; i < r->trace->start_blocks.len; i++) {
    size_t freed = r->analysis->start_freed_at.at[i];
    if (freed != PLIM_NEVER && freed < r->horizon) continue;
    if (!count_up(&s->parameter_sizes, r->trace->start_blocks.at[i].requested_bytes)) return false;
  }
  return true;
}

bool analysis_read_kinds(analysis_reader *r) {
  plim_trace_analysis *analysis = r->analysis;
  sweep s = {.r = r};
  bool ok = vec_reserve(&analysis->kind, r->trace->events.len) &&
            vec_reserve(&analysis->start_kind, r->trace->start_blocks.len);
  if (ok) {
    analysis->kind.len = r->trace->events.len;
    analysis->start_kind.len = r->trace->start_blocks.len;
    for (size_t i = 0; i < analysis->kind.len; i++) analysis->kind.at[i] = PLIM_KIND_OTHER;
    for (size_t i = 0; i < analysis->start_kind.len; i++)
      analysis->start_kind.at[i] = (uint8_t)start_kind(r, i);
    ok = note_start_blocks(&s) && sweep_back(&s, note_parameter) && sweep_back(&s, note_late);
  }
  if (ok) {
    find_grads_mode(&s);
    ok = sweep_back(&s, set_kind);
  }
  plim_hash_free(&s.parameter_sizes);
  plim_hash_free(&s.late_keys);
  return ok;
}
