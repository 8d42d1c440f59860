// Finds the line responsible for each stack, and what the stack says about the program. Strings are examined once per
// frame; everything after that uses indices.
#include <stdio.h>
#include <string.h>

#include "text.h"
#include "trace_analysis_impl.h"

// Who owns the code of a frame.
typedef enum {
  CODE_USER,
  CODE_PACKAGE, // installed, but not PyTorch
  CODE_STDLIB,  // of Python itself
  CODE_TORCH,   // of PyTorch
  CODE_NATIVE,  // not Python: C++ frames
  CODE_CARD, // computes values for a simulated card (src/card/python); called from autograd's threads, too
} code_owner;

typedef struct {
  uint8_t owner; // a code_owner
  uint8_t phase; // an analysis_phase
  bool is_zero_grad;
} frame_facts;

static bool starts_with(const char *text, const char *start) {
  return strncmp(text, start, strlen(start)) == 0;
}

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

// The path after the last folder of installed packages, or NULL.
static const char *in_packages(const char *file) {
  static const char *const folders[] = {"site-packages/", "dist-packages/"};
  const char *found = NULL;
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
    for (const char *at = file; (at = strstr(at, folders[i])); at += strlen(folders[i]))
      if (at + strlen(folders[i]) > found) found = at + strlen(folders[i]);
  return found;
}

// The path after "python3.12/", or NULL.
static const char *in_stdlib(const char *file) {
  for (const char *at = file; (at = strstr(at, "python3")); at++) {
    if (at != file && at[-1] != '/') continue;
    const char *end = at + strlen("python3");
    while ((*end >= '0' && *end <= '9') || *end == '.') end++;
    if (*end == '/') return end + 1;
  }
  return NULL;
}

// Source trees are recognised by their usual name, because "/torch/" may be anyone's folder.
static const char *in_torch(const char *file) {
  const char *package = in_packages(file);
  if (!package && starts_with(file, "torch/")) package = file;
  if (!package && strstr(file, "pytorch/torch/"))
    package = strstr(file, "pytorch/torch/") + strlen("pytorch/");
  return package && starts_with(package, "torch/") ? package : NULL;
}

// Python frames name a .py file, or something in angle brackets that has no file: <stdin>, <string>, a notebook cell.
// Frozen modules belong to Python itself; all other names come from C++ unwinding.
static code_owner owner_of(const char *file) {
  if (starts_with(file, "<frozen")) return CODE_STDLIB;
  if (starts_with(file, "<eval_with_key>")) return CODE_TORCH; // torch.fx
  if (file[0] == '<') return CODE_USER;
  if (!ends_with(file, ".py")) return CODE_NATIVE;
  if (ends_with(file, "/python/plimsoll_chunked.py")) return CODE_PACKAGE; // allocates on its own
  if (strstr(file, "/python/plimsoll_")) return CODE_CARD;
  if (in_torch(file)) return CODE_TORCH;
  if (in_packages(file)) return CODE_PACKAGE;
  return in_stdlib(file) ? CODE_STDLIB : CODE_USER;
}

// torch/optim/optimizer.py wraps every optimizer's step as `wrapper`, so optimizers of other packages are seen, too.
// lr_scheduler.py has its own step functions, which allocate nothing.
static analysis_phase optimizer_phase(const char *torch_path, const char *name) {
  if (!torch_path || !starts_with(torch_path, "torch/optim/")) return PHASE_UNKNOWN;
  if (ends_with(torch_path, "lr_scheduler.py")) return PHASE_UNKNOWN;
  if (strcmp(name, "load_state_dict") == 0) return PHASE_STATE;
  bool wraps = strcmp(name, "wrapper") == 0 && ends_with(torch_path, "/optimizer.py");
  return wraps || strcmp(name, "step") == 0 ? PHASE_OPTIMIZER : PHASE_UNKNOWN;
}

static analysis_phase phase_of(const char *file, const char *name) {
  if (strstr(name, "torch::autograd::Engine") || strcmp(name, "THPEngine_run_backward") == 0)
    return PHASE_BACKWARD;
  if (strcmp(name, "forward") == 0 || strcmp(name, "_call_impl") == 0) return PHASE_FORWARD;
  // unpack_hook is where a checkpoint recomputes when autograd needs a saved tensor.
  if (strcmp(name, "backward") == 0 || strcmp(name, "_engine_run_backward") == 0 ||
      strcmp(name, "unpack_hook") == 0)
    return PHASE_BACKWARD;
  return optimizer_phase(in_torch(file), name);
}

static frame_facts frame_facts_of(const plim_trace *trace, const plim_frame *frame) {
  const char *file = plim_trace_text(trace, frame->file);
  const char *name = plim_trace_text(trace, frame->name);
  return (frame_facts){.owner = (uint8_t)owner_of(file),
                       .phase = (uint8_t)phase_of(file, name),
                       .is_zero_grad = strcmp(name, "zero_grad") == 0};
}

// Whether a frame can be responsible: it is the user's or a package's.
static bool is_responsible(const frame_facts *f) {
  return f->owner == CODE_USER || f->owner == CODE_PACKAGE;
}

static stack_facts read_stack(analysis_reader *r, const frame_facts *frames, size_t stack) {
  const plim_stack *s = &r->trace->stacks.at[stack];
  const uint32_t *at = s->count ? r->trace->stack_frames.at + s->first : NULL;
  stack_facts facts = {0};
  uint32_t line = PLIM_NO_LINE, user = PLIM_NO_LINE, inner = PLIM_NO_LINE, outer = PLIM_NO_LINE;
  for (uint32_t i = 0; i < s->count; i++) {
    const frame_facts *f = &frames[at[i]];
    if (line == PLIM_NO_LINE && is_responsible(f)) line = at[i];
    if (user == PLIM_NO_LINE && f->owner == CODE_USER) user = at[i];
    bool is_code = f->owner != CODE_NATIVE && f->owner != CODE_CARD;
    if (inner == PLIM_NO_LINE && is_code) inner = at[i];
    if (is_code) outer = at[i];
    if (facts.phase == PHASE_UNKNOWN) facts.phase = f->phase;
    facts.in_optimizer |= f->phase == PHASE_OPTIMIZER;
    facts.in_zero_grad |= f->is_zero_grad;
  }
  facts.is_of_card = s->count && frames[at[s->count - 1]].owner == CODE_CARD;
  if (facts.is_of_card) inner = outer = PLIM_NO_LINE;
  // A stack with only C++ frames (autograd's threads) has no line.
  r->analysis->line.at[stack] = line == PLIM_NO_LINE ? inner : line;
  r->analysis->user_line.at[stack] = user == PLIM_NO_LINE ? outer : user;
  return facts;
}

// Autograd's device threads have no Python frames: if other events have stacks, a missing stack means backward.
static bool has_stacks(const plim_trace *trace) {
  size_t allocs = 0, with = 0;
  for (size_t i = 0; i < trace->events.len; i++)
    if (analysis_is_alloc(trace, i)) {
      allocs++;
      with += trace->events.at[i].stack != 0;
    }
  return with && with >= allocs / 10;
}

bool analysis_read_lines(analysis_reader *r) {
  const plim_trace *t = r->trace;
  frame_facts *frames = malloc((t->frames.len + 1) * sizeof *frames);
  bool ok = frames && vec_reserve(&r->facts, t->stacks.len) &&
            vec_reserve(&r->analysis->line, t->stacks.len) &&
            vec_reserve(&r->analysis->user_line, t->stacks.len);
  if (ok) {
    for (size_t i = 0; i < t->frames.len; i++) frames[i] = frame_facts_of(t, &t->frames.at[i]);
    r->facts.len = r->analysis->line.len = r->analysis->user_line.len = t->stacks.len;
    for (size_t i = 0; i < t->stacks.len; i++) r->facts.at[i] = read_stack(r, frames, i);
    r->has_stacks = has_stacks(t);
    for (size_t i = 0; r->has_stacks && i < r->facts.len; i++)
      if (i == 0 || r->facts.at[i].is_of_card) r->facts.at[i].phase = PHASE_BACKWARD;
  }
  free(frames);
  return ok;
}

// ---- names ----------------------------------------------------------------------------------------

static const char *base_name(const char *file) {
  const char *slash = strrchr(file, '/');
  return slash ? slash + 1 : file;
}

// Copies the end of `from` if not all of it fits, with dots where it was cut.
static void copy_end(char *text, size_t size, const char *from) {
  size_t length = strlen(from);
  if (!size) return;
  if (length < size) {
    memcpy(text, from, length + 1);
    return;
  }
  from += length + 1 - size;
  memcpy(text, from, size);
  if (size > 3) memcpy(text, "...", 3);
}

void plim_line_name(const plim_trace *trace, uint32_t frame, char *text, size_t size) {
  if (frame == PLIM_NO_LINE || frame >= trace->frames.len) {
    copy_end(text, size, "(no stack)");
    return;
  }
  const plim_frame *f = &trace->frames.at[frame];
  char whole[1024];
  snprintf(whole, sizeof whole, "%.400s:%u (%.400s)", base_name(plim_trace_text(trace, f->file)),
           (unsigned)f->line, plim_trace_text(trace, f->name));
  plim_text_disarm(whole);
  copy_end(text, size, whole);
}

// Installed files start at their package; for the user's own files only the file name is certain.
static const char *module_path(const char *file) {
  const char *path = in_packages(file);
  if (!path && starts_with(file, "torch/")) path = file;
  if (!path) path = in_stdlib(file);
  return path ? path : base_name(file);
}

void plim_module_name(const plim_trace *trace, uint32_t frame, char *text, size_t size) {
  if (frame == PLIM_NO_LINE || frame >= trace->frames.len) {
    copy_end(text, size, "(no stack)");
    return;
  }
  const char *file = plim_trace_text(trace, trace->frames.at[frame].file);
  char whole[1024];
  snprintf(whole, sizeof whole, "%.1000s", module_path(file));
  if (ends_with(whole, ".py")) {
    whole[strlen(whole) - 3] = '\0';
    if (ends_with(whole, "/__init__")) whole[strlen(whole) - strlen("/__init__")] = '\0';
    for (char *at = whole; *at; at++)
      if (*at == '/') *at = '.';
  }
  plim_text_disarm(whole);
  copy_end(text, size, whole);
}
