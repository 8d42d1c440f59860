// Finds models that are in memory twice: sets of tensors with the same shapes, in the same or another dtype, alive at
// the same time.
//
// A recording has sizes but no shapes, so two sets match if nine tenths of their sizes agree after scaling by 1, 2, 4,
// 1/2 or 1/4. With stacks, a set is what one line of the user's code allocated in a row. Without stacks (or if one
// line allocated everything), the sequence of sizes itself must repeat as a whole model: its largest tensors, the
// embeddings, occur only once or twice in it, so that layers, which repeat anyway, do not count. If every copy has
// gradients, all are trained: they are encoders of one model and not copies.
#include "hash.h"
#include "sort.h"
#include "trace_analysis.h"

enum {
  MIN_TENSORS = 8,           // in a set allocated by one line
  MIN_SEQUENCE_TENSORS = 24, // in a repeated sequence; a transformer layer has 9 to 16
  MAX_LARGEST = 2,           // tensors of the largest size in a sequence: embedding and head
  MAX_SETS = 32,             // only the largest sets are compared
  MAX_ANCHORS = 16,
  MAX_ANCHOR_SIZES = 4,
  SHARE = 10 // at most one in ten tensors may differ
};

#define MIN_BYTES PLIM_MIB

typedef struct {
  uint64_t bytes;
  uint32_t stack, line; // line: of the user's code
  size_t event;         // where it was allocated; 0: before the recording
} tensor;

typedef vec(tensor) tensors;

// A range of `tensors`. The same range of `sizes` has their sizes, sorted.
typedef struct {
  size_t first, count;
  uint64_t bytes;
  bool is_taken;
} set;

// Bytes of the second set divided by those of the first, as a fraction.
typedef struct {
  uint64_t up, down;
} ratio;

static const ratio ratios[] = {{1, 1}, {2, 1}, {1, 2}, {4, 1}, {1, 4}};
enum { RATIOS = sizeof ratios / sizeof *ratios };

typedef struct {
  const plim_trace *trace;
  const plim_trace_analysis *analysis;
  size_t moment; // everything that is compared is alive here
  tensors all;   // in the order of allocation, after those from before the recording
  size_t old;    // number of tensors from before the recording
  size_t set_up; // number of tensors allocated before the first step
  uint64_t *sizes;
  vec(set) sets;
  plim_hash gradients; // size -> number of gradients of one step with that size
  plim_duplicates *out;
} search;

// ---- tensors to compare ---------------------------------------------------------------------------

static bool is_lasting(uint8_t kind) {
  return kind == PLIM_KIND_PARAMETER || kind == PLIM_KIND_OTHER || kind == PLIM_KIND_WORKSPACE;
}

// The start of the last step, so that copies made late exist. Without steps, the failure or the end.
static size_t find_moment(const plim_trace *t, const plim_trace_analysis *s) {
  if (s->steps.len) return s->steps.at[s->steps.len - 1].first;
  for (size_t i = t->events.len; i-- > 0;)
    if (t->events.at[i].action == PLIM_EV_OOM) return i;
  return t->events.len;
}

static uint32_t user_line(const plim_trace_analysis *s, uint32_t stack) {
  return stack < s->user_line.len ? s->user_line.at[stack] : PLIM_NO_LINE;
}

static int line_order(const void *x, const void *y) {
  const tensor *a = x, *b = y;
  return a->line < b->line ? -1 : a->line > b->line;
}

static bool collect_old(search *s) {
  for (size_t i = 0; i < s->trace->start_blocks.len; i++) {
    const plim_start_block *b = &s->trace->start_blocks.at[i];
    uint32_t line = user_line(s->analysis, b->stack);
    bool is_alive = s->analysis->start_freed_at.at[i] >= s->moment;
    if (!is_alive || line == PLIM_NO_LINE || !is_lasting(s->analysis->start_kind.at[i])) continue;
    if (!vec_push(&s->all, (tensor){b->requested_bytes, b->stack, line, 0})) return false;
  }
  s->old = s->all.len; // these are sorted by address, so their order means nothing
  if (s->old) plim_sort(s->all.at, s->old, sizeof *s->all.at, line_order);
  return true;
}

static bool collect_made(search *s) {
  for (size_t i = 0; i < s->moment && i < s->trace->events.len; i++) {
    const plim_event *e = &s->trace->events.at[i];
    if (e->action != PLIM_EV_ALLOC || !is_lasting(s->analysis->kind.at[i])) continue;
    if (s->analysis->freed_at.at[i] < s->moment) continue;
    tensor made = {e->bytes, e->stack, user_line(s->analysis, e->stack), i};
    if (!vec_push(&s->all, made)) return false;
  }
  return true;
}

// Sequences are searched only in what set-up allocated, because a leak repeats a sequence in every step.
static size_t count_set_up(const search *s) {
  size_t first = s->analysis->steps.len ? s->analysis->steps.at[0].first : SIZE_MAX, count = s->old;
  while (count < s->all.len && s->all.at[count].event < first) count++;
  return count;
}

// Counts gradients by size, of the step that has the most.
static bool collect_gradients(search *s) {
  const plim_trace_analysis *analysis = s->analysis;
  size_t best = 0, best_count = 0;
  for (size_t k = 0; k < analysis->steps.len; k++) {
    size_t count = 0;
    for (size_t i = analysis->steps.at[k].first; i < analysis->steps.at[k].end; i++)
      count += s->trace->events.at[i].action == PLIM_EV_ALLOC &&
               analysis->kind.at[i] == PLIM_KIND_GRADIENT;
    if (count > best_count) best = k, best_count = count;
  }
  for (size_t i = best_count ? analysis->steps.at[best].first : 0;
       best_count && i < analysis->steps.at[best].end; i++) {
    const plim_event *e = &s->trace->events.at[i];
    if (e->action != PLIM_EV_ALLOC || analysis->kind.at[i] != PLIM_KIND_GRADIENT) continue;
    uint32_t *known = plim_hash_find(&s->gradients, e->bytes);
    if (known) ++*known;
    else if (!plim_hash_put(&s->gradients, e->bytes, 1)) return false;
  }
  return true;
}

// ---- sets -----------------------------------------------------------------------------------------

static int size_order(const void *x, const void *y) {
  const uint64_t *a = x, *b = y;
  return *a < *b ? -1 : *a > *b;
}

static set make_set(search *s, size_t first, size_t count) {
  set made = {.first = first, .count = count};
  for (size_t i = first; i < first + count; i++) {
    s->sizes[i] = s->all.at[i].bytes;
    if (made.bytes + s->sizes[i] >= made.bytes) made.bytes += s->sizes[i];
  }
  if (count) plim_sort(s->sizes + first, count, sizeof *s->sizes, size_order);
  return made;
}

static int bytes_order(const void *x, const void *y) {
  const set *a = x, *b = y;
  if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
  return a->first < b->first ? -1 : a->first > b->first;
}

static int first_order(const void *x, const void *y) {
  const set *a = x, *b = y;
  return a->first < b->first ? -1 : a->first > b->first;
}

static bool collect_sets(search *s) {
  for (size_t i = 0, end; i < s->all.len; i = end) {
    for (end = i + 1; end < s->all.len && end != s->old; end++)
      if (s->all.at[end].line != s->all.at[i].line) break;
    if (s->all.at[i].line == PLIM_NO_LINE || end - i < MIN_TENSORS) continue;
    set made = make_set(s, i, end - i);
    if (made.bytes >= MIN_BYTES && !vec_push(&s->sets, made)) return false;
  }
  if (!s->sets.len) return true;
  plim_sort(s->sets.at, s->sets.len, sizeof *s->sets.at, bytes_order);
  if (s->sets.len > MAX_SETS) s->sets.len = MAX_SETS;
  plim_sort(s->sets.at, s->sets.len, sizeof *s->sets.at, first_order);
  return true;
}

static bool scales(uint64_t a, uint64_t b, ratio r) {
  return a <= UINT64_MAX / 4 && b <= UINT64_MAX / 4 && a * r.up == b * r.down;
}

// How many tensors of two sets agree at a ratio, and their bytes in the second set.
static size_t common(const search *s, const set *a, const set *b, ratio r, uint64_t *bytes) {
  size_t i = 0, k = 0, count = 0;
  *bytes = 0;
  while (i < a->count && k < b->count) {
    uint64_t x = s->sizes[a->first + i], y = s->sizes[b->first + k];
    if (scales(x, y, r)) {
      count++;
      *bytes += y;
      i++;
      k++;
    } else if (x > UINT64_MAX / 4 || y > UINT64_MAX / 4) break;
    else if (x * r.up < y * r.down) i++;
    else k++;
  }
  return count;
}

static bool is_most(uint64_t part, uint64_t whole) { return part >= whole - whole / SHARE; }

// Whether b is a copy of a. Sets *r to the ratio and *count to the number of tensors that agree.
static bool is_copy(const search *s, const set *a, const set *b, ratio *r, size_t *count) {
  size_t fewer = a->count < b->count ? a->count : b->count;
  size_t more = a->count < b->count ? b->count : a->count;
  if (fewer < more / 2) return false;
  for (int i = 0; i < RATIOS; i++) {
    uint64_t bytes = 0, of_a = a->bytes / ratios[i].down * ratios[i].up;
    *r = ratios[i];
    *count = common(s, a, b, *r, &bytes);
    if (is_most(*count, fewer) && is_most(bytes, of_a < b->bytes ? of_a : b->bytes)) return true;
  }
  return false;
}

// ---- results --------------------------------------------------------------------------------------

static plim_copy copy_of(const search *s, const set *a, ratio r) {
  const tensor *t = &s->all.at[a->first];
  return (plim_copy){.stack = t->stack,
                     .line = t->line,
                     .bytes = a->bytes,
                     .count = a->count,
                     .first_event = t->event,
                     .bytes_per_element_ratio = (double)r.up / (double)r.down};
}

// Whether nine tenths of the tensors of all the copies have a gradient.
static bool all_trained(const search *s, const set *sets, size_t count) {
  plim_hash left = {0};
  size_t tensors_count = 0, trained = 0;
  bool ok = true;
  for (size_t k = 0; ok && k < count; k++)
    for (size_t i = 0; ok && i < sets[k].count; i++) {
      uint64_t bytes = s->sizes[sets[k].first + i];
      const uint32_t *gradients = plim_hash_find(&s->gradients, bytes);
      uint32_t *used = plim_hash_find(&left, bytes);
      tensors_count++;
      if (!gradients || (used && *used >= *gradients)) continue;
      trained++;
      if (used) ++*used;
      else ok = plim_hash_put(&left, bytes, 1);
    }
  plim_hash_free(&left);
  return ok && is_most(trained, tensors_count);
}

// Adds the copies to the result unless all are trained. Returns false when out of memory.
static bool report(search *s, const set *sets, const ratio *r, size_t count, size_t agree) {
  if (count < 2 || all_trained(s, sets, count)) return true;
  plim_duplicate found = {.tensors = agree, .event = s->moment};
  if (found.event == s->trace->events.len && found.event) found.event--;
  uint64_t total = 0, smallest = UINT64_MAX;
  bool ok = true;
  for (size_t i = 0; ok && i < count; i++) {
    ok = vec_push(&found.copies, copy_of(s, &sets[i], r[i]));
    total += sets[i].bytes;
    if (sets[i].bytes < smallest) smallest = sets[i].bytes;
  }
  found.wasted_bytes = total - smallest;
  ok = ok && vec_push(s->out, found);
  if (!ok) vec_free(&found.copies);
  return ok;
}

static bool compare_sets(search *s) {
  for (size_t i = 0; i < s->sets.len; i++) {
    if (s->sets.at[i].is_taken) continue;
    set copies[MAX_SETS] = {s->sets.at[i]};
    ratio r[MAX_SETS] = {{1, 1}}, at;
    size_t count = 1, agree = SIZE_MAX, tensors_count;
    for (size_t k = i + 1; k < s->sets.len; k++) {
      set *b = &s->sets.at[k];
      if (b->is_taken || !is_copy(s, &s->sets.at[i], b, &at, &tensors_count)) continue;
      b->is_taken = true;
      if (tensors_count < agree) agree = tensors_count;
      copies[count] = *b;
      r[count++] = at;
    }
    if (!report(s, copies, r, count, agree)) return false;
  }
  return true;
}

// ---- sequences ------------------------------------------------------------------------------------

// The run of tensors around `at` that repeats `lag` tensors later at a ratio.
static set find_run(const search *s, size_t at, size_t lag, ratio r) {
  size_t first = at, end = at;
  const tensor *all = s->all.at;
  while (first > s->old && scales(all[first - 1].bytes, all[first - 1 + lag].bytes, r)) first--;
  while (end + lag < s->set_up && scales(all[end].bytes, all[end + lag].bytes, r)) end++;
  return (set){.first = first, .count = end - first};
}

static bool is_whole_model(const search *s, const set *a) {
  size_t largest = 0;
  for (size_t i = a->count; i-- > 0 && s->sizes[a->first + i] == s->sizes[a->first + a->count - 1];)
    largest++;
  return a->count >= MIN_SEQUENCE_TENSORS && a->bytes >= MIN_BYTES && largest <= MAX_LARGEST;
}

// The largest size below the limit.
static uint64_t largest_below(const search *s, uint64_t limit) {
  uint64_t largest = 0;
  for (size_t i = s->old; i < s->set_up; i++)
    if (s->all.at[i].bytes > largest && s->all.at[i].bytes < limit) largest = s->all.at[i].bytes;
  return largest;
}

// Positions of the tensors of that size and of their possible copies.
static size_t find_anchors(const search *s, uint64_t largest, size_t anchor[MAX_ANCHORS]) {
  size_t count = 0;
  for (size_t i = s->old; i < s->set_up && count < MAX_ANCHORS; i++)
    for (int k = 0; k < RATIOS; k++)
      if (scales(largest, s->all.at[i].bytes, ratios[k])) {
        anchor[count++] = i;
        break;
      }
  return count;
}

static bool find_ratio(uint64_t a, uint64_t b, ratio *r) {
  for (int i = 0; i < RATIOS; i++)
    if (scales(a, b, ratios[i])) {
      *r = ratios[i];
      return true;
    }
  return false;
}

// A copy may be allocated in a slightly different order, with buffers first or last, which makes the run shorter than
// the whole model. The copies are the two adjacent windows around the runs in which the most tensors agree.
static size_t widen(search *s, set copies[2], size_t lag, ratio r) {
  enum { MAX_MORE = 8 }; // tensors out of place
  const set run = copies[0];
  size_t agree = run.count;
  for (size_t length = lag; length <= lag + MAX_MORE; length++)
    for (size_t k = 0; k <= MAX_MORE && s->old + k <= run.first; k++) {
      size_t first = run.first - k, second = first + length;
      bool covers = second >= run.first + run.count && second <= run.first + lag;
      if (!covers || second + length > s->set_up) continue;
      set a = make_set(s, first, length), b = make_set(s, second, length);
      uint64_t bytes;
      size_t count = common(s, &a, &b, r, &bytes);
      if (count > agree) copies[0] = a, copies[1] = b, agree = count;
    }
  copies[0] = make_set(s, copies[0].first, copies[0].count);
  copies[1] = make_set(s, copies[1].first, copies[1].count);
  return agree;
}

// Compares the sequence around the first anchor with every later place where it repeats.
static bool compare_sequence(search *s, const size_t *anchor, size_t anchors, size_t lag) {
  set copies[MAX_ANCHORS];
  ratio r[MAX_ANCHORS] = {{1, 1}}, at;
  size_t count = 1;
  set run = {0};
  for (size_t k = 1; k < anchors; k++) {
    size_t distance = anchor[k] - anchor[0];
    if (distance < lag || (count == 1 && distance != lag)) continue;
    if (!find_ratio(s->all.at[anchor[0]].bytes, s->all.at[anchor[k]].bytes, &at)) continue;
    set next = find_run(s, anchor[0], distance, at);
    if (next.count > lag) next.count = lag; // with more, the copies would overlap
    if (count == 1) run = next;
    if (!is_most(next.count, lag) || next.count < run.count) continue;
    copies[count] = make_set(s, run.first + distance, run.count);
    r[count++] = at;
  }
  if (count < 2) return true;
  copies[0] = make_set(s, run.first, run.count);
  size_t agree = count == 2 ? widen(s, copies, lag, r[1]) : run.count;
  if (!is_whole_model(s, &copies[0])) return true;
  return report(s, copies, r, count, agree);
}

// Without gradients, copies cannot be told from parts of one model. The largest tensors may not belong to the model
// (data, library workspaces), so the next smaller sizes are tried as well.
static bool compare_sequences(search *s) {
  uint64_t size = UINT64_MAX / 4;
  for (int try = 0; try < MAX_ANCHOR_SIZES && s->gradients.len && !s->out->len; try++) {
    size_t anchor[MAX_ANCHORS], anchors;
    size = largest_below(s, size);
    anchors = find_anchors(s, size, anchor);
    for (size_t k = 1; k < anchors && !s->out->len; k++)
      if (!compare_sequence(s, anchor, anchors, anchor[k] - anchor[0])) return false;
  }
  return true;
}

// ---- the search -----------------------------------------------------------------------------------

bool plim_find_duplicates(const plim_trace *trace, const plim_trace_analysis *analysis,
                          plim_duplicates *duplicates) {
  *duplicates = (plim_duplicates){0};
  search s = {.trace = trace, .analysis = analysis, .out = duplicates};
  s.moment = find_moment(trace, analysis);
  bool ok = collect_old(&s) && collect_made(&s) && collect_gradients(&s);
  s.set_up = count_set_up(&s);
  s.sizes = ok ? malloc((s.all.len + 1) * sizeof *s.sizes) : NULL;
  ok = s.sizes && collect_sets(&s) && compare_sets(&s);
  if (ok && !duplicates->len) ok = compare_sequences(&s);
  if (!ok) plim_duplicates_clear(duplicates);
  free(s.sizes);
  vec_free(&s.all);
  vec_free(&s.sets);
  plim_hash_free(&s.gradients);
  return ok;
}

void plim_duplicates_clear(plim_duplicates *duplicates) {
  if (!duplicates) return;
  for (size_t i = 0; i < duplicates->len; i++) vec_free(&duplicates->at[i].copies);
  vec_free(duplicates);
}
