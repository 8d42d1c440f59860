// Finds the training steps.
//
// A step ends with its optimizer step, so the spans of the optimizer are found first: by PyTorch's own markers
// ("Optimizer.step#AdamW.step"), or else by the stacks. Several optimizers may belong to one step (the two of a GAN,
// Muon with AdamW): a step ends with each span of the optimizer that is seen first, and the spans of others belong to
// the step before them.
#include <string.h>

#include "trace_analysis_impl.h"

#include "sort.h"

// A few small allocations (a gradient scaler's update) may lie between an optimizer step and the zero_grad that belongs
// to it.
enum { MAX_ALLOCS_BEFORE_ZERO_GRAD = 8 };

typedef struct {
  size_t first, end;
  uint32_t name; // text offset of the marker; 0 if found by stacks
} marker;

typedef vec(marker) markers;

static bool is_request(const plim_event *e) {
  return e->action == PLIM_EV_ALLOC || e->action == PLIM_EV_OOM || plim_event_is_map(e);
}

static size_t count_allocs(const plim_trace *t, size_t from, size_t to) {
  size_t count = 0;
  for (size_t i = from; i < to; i++) count += analysis_is_alloc(t, i);
  return count;
}

// The last failed request at or after event `from`; SIZE_MAX if there is none.
static size_t last_oom(const plim_trace *t, size_t from) {
  for (size_t i = t->events.len; i > from; i--)
    if (t->events.at[i - 1].action == PLIM_EV_OOM) return i - 1;
  return SIZE_MAX;
}

// ---- annotations ----------------------------------------------------------------------------------

typedef struct {
  uint64_t time_us;
  uint32_t name;
  uint32_t order; // position in the recording, for ties
  bool is_end;
} moment;

static int moment_order(const void *x, const void *y) {
  const moment *a = x, *b = y;
  if (a->time_us != b->time_us) return a->time_us < b->time_us ? -1 : 1;
  return a->order < b->order ? -1 : a->order > b->order;
}

static bool has_prefix(const plim_trace *t, uint32_t name, const char *prefix) {
  return strncmp(plim_trace_text(t, name), prefix, strlen(prefix)) == 0;
}

// The annotations with a prefix, sorted by time; only those inside the recording.
static bool collect_moments(const plim_trace *t, const char *prefix, moment **out, size_t *count) {
  vec(moment) found = {0};
  for (size_t i = 0; i < t->annotations.len; i++) {
    const plim_annotation *a = &t->annotations.at[i];
    if (!has_prefix(t, a->name, prefix)) continue;
    if (!vec_push(&found, (moment){a->time_us, a->name, (uint32_t)i, a->is_end})) {
      vec_free(&found);
      return false;
    }
  }
  if (found.len) plim_sort(found.at, found.len, sizeof *found.at, moment_order);
  *out = found.at;
  *count = found.len;
  return true;
}

// The first event at or after a time (after it, for an end), starting at `from`. Times of events may run backwards
// between threads: the first later event decides.
static size_t event_at(const plim_trace *t, size_t from, const moment *m) {
  while (from < t->events.len && (t->events.at[from].time_us < m->time_us ||
                                  (m->is_end && t->events.at[from].time_us == m->time_us)))
    from++;
  return from;
}

// Spans of the annotations with a prefix, only the outermost ones. A start without an end (the run died there) lasts to
// the failure, or to the end of the recording.
static bool collect_spans(const plim_trace *t, const char *prefix, markers *out) {
  moment *m = NULL;
  size_t count = 0;
  if (!collect_moments(t, prefix, &m, &count)) return false;
  bool ok = true;
  size_t event = 0, depth = 0;
  marker open = {0};
  for (size_t i = 0; ok && i < count; i++) {
    event = event_at(t, event, &m[i]);
    if (!m[i].is_end && depth++ == 0) open = (marker){.first = event, .name = m[i].name};
    if (!m[i].is_end || !depth || --depth) continue;
    open.end = event;
    if (open.end > 0) ok = vec_push(out, open); // otherwise it ended before the recording began
  }
  if (ok && depth && open.first < t->events.len) {
    size_t oom = last_oom(t, open.first);
    open.end = oom == SIZE_MAX ? t->events.len : oom + 1;
    ok = vec_push(out, open);
  }
  free(m);
  return ok;
}

static bool has_times(const plim_trace *t) {
  return t->events.len && t->events.at[t->events.len - 1].time_us != 0;
}

// ---- stacks ---------------------------------------------------------------------------------------

// Fused optimizers allocate nothing after their first step, but zero_grad frees the gradients in every step. Frees
// count only if they were recorded with stacks of their own.
static bool tells_optimizer(const analysis_reader *r, size_t i) {
  stack_facts f = analysis_facts(r, i);
  if (r->trace->events.at[i].action == PLIM_EV_ALLOC) return f.in_optimizer;
  bool is_free = r->trace->events.at[i].action == PLIM_EV_FREE ||
                 r->trace->events.at[i].action == PLIM_EV_FREE_REQUESTED;
  return is_free && r->frees_have_stacks && (f.in_optimizer || f.in_zero_grad);
}

// Consecutive optimizer events without forward or backward work in between are one span.
static bool collect_stack_spans(const analysis_reader *r, markers *out) {
  bool is_open = false;
  for (size_t i = 0; i < r->trace->events.len; i++) {
    if (tells_optimizer(r, i)) {
      if (!is_open && !vec_push(out, (marker){.first = i})) return false;
      is_open = true;
      out->at[out->len - 1].end = i + 1;
    } else if (analysis_is_alloc(r->trace, i)) {
      analysis_phase phase = analysis_facts(r, i).phase;
      if (phase == PHASE_FORWARD || phase == PHASE_BACKWARD) is_open = false;
    }
  }
  return true;
}

// ---- from spans to steps --------------------------------------------------------------------------

static const plim_trace_step *zero_grad_behind(const analysis_reader *r, size_t event,
                                               size_t *cursor) {
  while (*cursor < r->zero_grads.len && r->zero_grads.at[*cursor].first < event) ++*cursor;
  return *cursor < r->zero_grads.len ? &r->zero_grads.at[*cursor] : NULL;
}

static bool few_requests(const plim_trace *t, size_t from, size_t to) {
  size_t count = 0;
  for (size_t i = from; i < to && count <= MAX_ALLOCS_BEFORE_ZERO_GRAD; i++)
    count += t->events.at[i].action == PLIM_EV_ALLOC;
  return count <= MAX_ALLOCS_BEFORE_ZERO_GRAD;
}

// Where the frees after a step no longer concern what the step allocated before its optimizer ran (gradients and
// activations). A model that is freed right after training is not part of the step.
static size_t behind_own_frees(const analysis_reader *r, const uint32_t *born, size_t first,
                               size_t optimizer, size_t end) {
  const plim_trace *t = r->trace;
  for (; end < t->events.len; end++) {
    if (is_request(&t->events.at[end])) break;
    if (born[end] == PLIM_NEVER) continue; // not a free of a known allocation
    if (born[end] < first || born[end] >= optimizer) break;
  }
  return end;
}

// Indexed by event: the ALLOC that a free belongs to; PLIM_NEVER for all other events.
static uint32_t *births(const analysis_reader *r) {
  size_t n = r->trace->events.len;
  uint32_t *born = malloc((n + 1) * sizeof *born);
  for (size_t i = 0; born && i < n; i++) born[i] = PLIM_NEVER;
  for (size_t i = 0; born && i < n; i++)
    if (r->analysis->freed_at.at[i] != PLIM_NEVER) born[r->analysis->freed_at.at[i]] = (uint32_t)i;
  return born;
}

static size_t step_end(const analysis_reader *r, const uint32_t *born, size_t first,
                       const marker *last, size_t limit, size_t *cursor) {
  size_t end = last->end;
  const plim_trace_step *zero = zero_grad_behind(r, last->end, cursor);
  if (zero && zero->end <= limit && few_requests(r->trace, end, zero->first)) end = zero->end;
  end = behind_own_frees(r, born, first, last->first, end);
  return end < limit ? end : limit;
}

static bool steps_from_markers(analysis_reader *r, const markers *m) {
  const plim_trace *t = r->trace;
  uint32_t *born = births(r);
  if (!born) return false;
  bool ok = true;
  size_t first = 0, cursor = 0;
  for (size_t i = 0; ok && i < m->len;) {
    size_t next = i + 1;
    while (next < m->len && m->at[next].name != m->at[0].name) next++;
    size_t limit = next < m->len ? m->at[next].first : t->events.len;
    size_t end = step_end(r, born, first, &m->at[next - 1], limit, &cursor);
    if (end > first) ok = vec_push(&r->analysis->steps, (plim_trace_step){first, end});
    first = end;
    i = next;
  }
  free(born);
  return ok;
}

// A gradient scaler skips the optimizer if a gradient overflowed; zero_grad still ends that step. So a zero_grad after
// work other than an optimizer step stands for a skipped one.
static bool add_skipped(const analysis_reader *r, markers *m) {
  markers all = {0};
  bool ok = true;
  size_t next = 0, from = m->len ? 0 : r->trace->events.len;
  for (size_t z = 0; ok && z < r->zero_grads.len; z++) {
    const plim_trace_step *zero = &r->zero_grads.at[z];
    bool has_step = false;
    for (; ok && next < m->len && m->at[next].first <= zero->first; next++, has_step = true)
      ok = vec_push(&all, m->at[next]);
    bool is_nested = next && zero->first < m->at[next - 1].end; // in a closure, as LBFGS calls it
    bool frees = zero->end > zero->first;
    if (ok && !has_step && !is_nested && frees && !few_requests(r->trace, from, zero->first))
      ok = vec_push(&all, (marker){zero->first, zero->first, m->at[0].name});
    from = zero->end;
  }
  for (; ok && next < m->len; next++) ok = vec_push(&all, m->at[next]);
  markers old = *m;
  *m = all;
  vec_free(&old);
  return ok;
}

static bool keep_spans(analysis_reader *r, const markers *m) {
  for (size_t i = 0; i < m->len; i++)
    if (!vec_push(&r->spans, (plim_trace_step){m->at[i].first, m->at[i].end})) return false;
  return true;
}

// ---- the end of set-up ----------------------------------------------------------------------------

// Number of allocations of the second step before its optimizer runs.
static size_t second_step_work(const analysis_reader *r) {
  if (r->analysis->steps.len < 2) return 0;
  size_t first = r->analysis->steps.at[1].first;
  for (size_t i = 0; i < r->spans.len; i++)
    if (r->spans.at[i].first > first) return count_allocs(r->trace, first, r->spans.at[i].first);
  return 0;
}

// Set-up allocates what lives on, and short-lived scratch memory; from the first tensor of the first forward to the
// optimizer, something of the step is always alive. So the first step begins at the start of the last unbroken chain of
// overlapping short lives before the first optimizer step. Gradients that are zeroed in place are not short-lived, so
// the chain may break after backward: the first step must also be about as long as the second.
static size_t find_set_up_end(const analysis_reader *r) {
  const plim_trace *t = r->trace;
  size_t optimizer = r->spans.at[0].first;
  size_t bound = r->spans.len > 1 ? r->spans.at[1].first : r->analysis->steps.at[0].end;
  size_t left = count_allocs(t, 0, optimizer), needed = second_step_work(r) / 4 * 3;
  size_t chain = 0, reach = 0;
  bool is_known = false;
  for (size_t i = 0; i < optimizer; i++) {
    if (!analysis_is_alloc(t, i)) continue;
    left--;
    size_t death = analysis_death(r->analysis, i);
    if (death >= bound) continue;
    if (!is_known || (reach < i && left >= needed)) chain = i, is_known = true;
    if (death > reach) reach = death;
  }
  return is_known ? chain : r->analysis->steps.at[0].first;
}

// A recording that starts inside a step frees blocks from before the recording.
static bool starts_inside_step(const analysis_reader *r) {
  size_t end = r->analysis->steps.at[0].end;
  for (size_t i = 0; i < r->analysis->start_freed_at.len; i++)
    if (r->analysis->start_freed_at.at[i] < end) return true;
  return false;
}

// ---- the unfinished last step ---------------------------------------------------------------------

static bool push_cut_step(analysis_reader *r, size_t first) {
  size_t oom = last_oom(r->trace, first);
  r->is_unfinished = true;
  r->cut = oom == SIZE_MAX ? r->trace->events.len : oom;
  return vec_push(&r->analysis->steps, (plim_trace_step){first, r->trace->events.len});
}

static bool has_backward(const analysis_reader *r, size_t from) {
  for (size_t i = from; i < r->trace->events.len; i++)
    if (analysis_is_alloc(r->trace, i) && analysis_facts(r, i).phase == PHASE_BACKWARD) return true;
  return false;
}

// What follows the last complete step is another step if a request failed in it or it has a backward pass; without
// stacks, if it allocated half as much as a step. Otherwise it is an evaluation.
static bool add_unfinished(analysis_reader *r) {
  const plim_trace_step last = r->analysis->steps.at[r->analysis->steps.len - 1];
  bool is_step = last_oom(r->trace, last.end) != SIZE_MAX;
  if (!is_step && r->has_stacks) is_step = has_backward(r, last.end);
  else if (!is_step)
    is_step = count_allocs(r->trace, last.end, r->trace->events.len) >
              count_allocs(r->trace, last.first, last.end) / 2;
  return !is_step || push_cut_step(r, last.end);
}

// A run that died in its first step has no optimizer step, but stacks show where forward began. Without a backward pass
// or a failure it is not training.
static bool add_only_step(analysis_reader *r) {
  const plim_trace *t = r->trace;
  size_t first = 0;
  while (first < t->events.len &&
         !(analysis_is_alloc(t, first) && analysis_facts(r, first).phase == PHASE_FORWARD))
    first++;
  if (!r->has_stacks || first == t->events.len) return true;
  if (!has_backward(r, first) && last_oom(t, first) == SIZE_MAX) return true;
  r->analysis->steps_source = PLIM_STEPS_STACKS;
  return push_cut_step(r, first);
}

// ---- reading the steps ----------------------------------------------------------------------------

// The end of the allocations of a step that may belong to its backward pass.
static size_t backward_end(const analysis_reader *r, const plim_trace_step *step) {
  size_t end = step->end;
  while (end > step->first &&
         !(analysis_is_alloc(r->trace, end - 1) &&
           (!r->has_stacks || analysis_facts(r, end - 1).phase == PHASE_BACKWARD)))
    end--;
  return end;
}

// If no optimizer is seen, everything after the backward pass counts as the optimizer; without stacks, nothing does.
static bool guess_spans(analysis_reader *r) {
  r->spans_are_guessed = true;
  for (size_t i = 0; i < r->analysis->steps.len; i++) {
    plim_trace_step *step = &r->analysis->steps.at[i];
    size_t first = backward_end(r, step);
    size_t end = r->has_stacks ? step->end : first;
    if (!vec_push(&r->spans, (plim_trace_step){first, end})) return false;
  }
  return true;
}

// "ProfilerStep#7" marks the step itself. Used if no optimizer of PyTorch's kind is seen.
static bool steps_from_profiler(analysis_reader *r) {
  markers m = {0};
  bool ok = collect_spans(r->trace, "ProfilerStep#", &m);
  for (size_t i = 0; ok && i < m.len; i++)
    if (m.at[i].end > m.at[i].first)
      ok = vec_push(&r->analysis->steps, (plim_trace_step){m.at[i].first, m.at[i].end});
  if (r->analysis->steps.len) r->analysis->steps_source = PLIM_STEPS_ANNOTATED;
  vec_free(&m);
  return ok;
}

static bool steps_from_optimizer(analysis_reader *r) {
  markers m = {0}, zero = {0};
  bool ok = true;
  if (has_times(r->trace))
    ok = collect_spans(r->trace, "Optimizer.step#", &m) &&
         collect_spans(r->trace, "Optimizer.zero_grad#", &zero);
  for (size_t i = 0; ok && i < zero.len; i++)
    ok = vec_push(&r->zero_grads, (plim_trace_step){zero.at[i].first, zero.at[i].end});
  plim_steps_source source = PLIM_STEPS_ANNOTATED;
  if (ok && !m.len && r->has_stacks) {
    source = PLIM_STEPS_STACKS;
    ok = collect_stack_spans(r, &m);
  }
  if (ok && m.len) ok = add_skipped(r, &m) && keep_spans(r, &m) && steps_from_markers(r, &m);
  if (ok && r->analysis->steps.len) r->analysis->steps_source = source;
  vec_free(&m);
  vec_free(&zero);
  return ok;
}

static void find_horizon(analysis_reader *r) {
  size_t oom = last_oom(r->trace, 0);
  if (r->spans.len) r->horizon = r->spans.at[r->spans.len - 1].first;
  else if (oom != SIZE_MAX) r->horizon = oom;
  else r->horizon = r->trace->events.len;
}

bool analysis_read_steps(analysis_reader *r) {
  plim_trace_analysis *s = r->analysis;
  bool ok = steps_from_optimizer(r), is_profiled = false;
  if (ok && !s->steps.len && has_times(r->trace)) {
    ok = steps_from_profiler(r);
    is_profiled = s->steps.len > 0;
  }
  if (ok && !s->steps.len) ok = analysis_read_periods(r);
  if (ok && s->steps.len && !r->spans.len) ok = guess_spans(r);
  if (ok && s->steps.len && !is_profiled && !starts_inside_step(r))
    s->steps.at[0].first = find_set_up_end(r);
  if (ok) ok = s->steps.len ? add_unfinished(r) : add_only_step(r);
  if (ok) find_horizon(r);
  return ok;
}
