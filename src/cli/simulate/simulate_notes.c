// What the user must know about a simulated run beside its figures: where it differs from a run on a real GPU, and in which
// direction.
#include <fnmatch.h>
#include <string.h>

#include "card_record.h"
#include "cli_alloc.h"
#include "simulate_report.h"
#include "units.h"

static const char *plural(uint64_t count) { return count == 1 ? "" : "s"; }

// ---- settings -----------------------------------------------------------------------------------------

static void note_batch(simulate_report *r) {
  const trial_with *w = r->with;
  char how[120] = "";
  if (!w || !w->effective_before || !w->effective_after) return;
  if (w->effective_before == w->effective_after) return;
  if (w->keeping_accumulation)
    snprintf(how, sizeof how, "; to keep it, add --with accumulate=%lld",
             (long long)w->keeping_accumulation);
  plim_note_add(&r->found, "changed.effective_batch", "micro_batch",
                "the effective batch changes from %lld to %lld%s", (long long)w->effective_before,
                (long long)w->effective_after, how);
}

// ---- memory -------------------------------------------------------------------------------------------

// What CUDA uses is known from a table, and CUDA may offer up to 5 % less than the driver says (core/estimate/estimate.c).
static void note_tight(simulate_report *r, const simulate_process *p) {
  const double little = 0.05;
  uint64_t needs = simulate_needs(&r->capped), reserved = p->peak_reserved_bytes;
  bool fits = r->is_whole_card && r->capped.run.end == SIMULATE_RAN;
  uint64_t spare = r->budget_bytes > needs ? r->budget_bytes - needs : 0;
  if (!fits || r->capped.run.sharing > 1) return;
  if ((double)spare >= little * (double)r->budget_bytes) return;
  plim_note_add(&r->found, "tight", NULL,
                "only %s are to spare, and a real run may need more: the %s for CUDA and its "
                "libraries are typical values, which differ between drivers",
                units_bytes(spare).text, units_bytes(needs > reserved ? needs - reserved : 0).text);
}

// src/card/stand_ins/nccl_watchdog.h
static void note_bucket(simulate_report *r, const simulate_process *p) {
  if (!p->observed.strategy || strcmp(p->observed.strategy, "ddp") != 0) return;
  plim_note_add(&r->found, "ddp.first_bucket", NULL,
                "DistributedDataParallel's first bucket, which is as large as all gradients, is "
                "freed in the second backward pass here. On real GPUs the moment depends on "
                "timing: usually it is the same or an earlier one, and the peak is the same or "
                "lower. In steps of a few milliseconds it can be later, and the peak higher");
}

static void note_routes(simulate_report *r, const simulate_process *p) {
  for (size_t i = 0; i < p->routes.len; i++) {
    const simulate_route *route = &p->routes.at[i];
    plim_note_add(&r->found, "router.scores", NULL,
                  "tokens are routed to %s of %s experts by floating-point scores, which are not "
                  "computed; the simulated choices are as uneven as those of an untrained router, "
                  "and memory may differ with a trained one",
                  units_count(route->chosen).text, units_count(route->choices).text);
    plim_note_at(&r->found, simulate_short_path(route->file), route->line);
  }
}

// ---- ranks --------------------------------------------------------------------------------------------

static void note_world(simulate_report *r, const simulate_process *p) {
  if (!r->request->world || p->is_grouped) return;
  plim_note_add(&r->found, "world.unused", NULL,
                "the program created no process group (it never called "
                "torch.distributed.init_process_group), so it trained as a single process "
                "although --world %u was given",
                r->request->world);
}

// Ranks wait for each other, so they make as many steps. Those of another kind make none.
static void note_steps(simulate_report *r, const simulate_part *part) {
  uint64_t most = simulate_steps(&part->run);
  for (size_t i = 0; i < part->run.processes.len; i++) {
    const simulate_process *p = &part->run.processes.at[i];
    if (!p->uses_card || !p->steps || p->steps >= most) continue;
    plim_note_add(&r->found, "rank.ended_early", NULL,
                  "rank %lld ended after %s of %s steps; on real GPUs the ranks that communicate "
                  "with it would wait for it until a timeout",
                  (long long)p->rank, units_count(p->steps).text, units_count(most).text);
  }
}

// ---- the environment ----------------------------------------------------------------------------------

static void note_versions(simulate_report *r, const simulate_process *p) {
  if (!p->has_values)
    plim_note_add(&r->found, "values.none", NULL,
                  "integers could not be computed with this version of PyTorch, so every value "
                  "that the program read from the GPU was 0");
  if (p->is_without_triton)
    plim_note_add(&r->found, "triton.missing", NULL,
                  "Triton is not installed here; with Triton, libraries such as TRL run different "
                  "code, which needs a different amount of memory: pip install triton");
}

static void note_scaler(simulate_report *r, const simulate_process *p) {
  if (p->observed.scales)
    plim_note_add(&r->found, "assumed.no_overflow", NULL,
                  "the simulated gradients never overflow, so GradScaler skips no step. On a real "
                  "GPU it often skips the first steps, and the optimizer allocates its state "
                  "later: until then the real peak may be lower than the one shown here, and "
                  "reserved memory may differ in either direction");
}

static void note_read_only(simulate_report *r, const simulate_part *part) {
  if (*part->run.read_only)
    plim_note_add(&r->found, "sandbox.read_only", NULL,
                  "in the sandbox the program could not write to %s; --writable DIR lets it write "
                  "there, and keeps what it writes",
                  part->run.read_only);
}

// Sizes that only NVIDIA's libraries know, and that the simulated card answers with 0 (src/card/stand_ins/cudnn_recurrent.c
// and cusolver_functions.c): patterns of names, and what the sizes are of.
static const char *const zeros[][2] = {
    {"cusolver*_bufferSize", "cuSOLVER's workspaces (decompositions and inverses of matrices)"},
    {"cudnnGetRNNTempSpaceSizes", "cuDNN's buffers for recurrent layers, one of which is kept from "
                                  "the forward to the backward pass,"},
    {"cudnnDropoutGetStatesSize", "the states of cuDNN's dropout"},
    {"cudnnGetCTCLossWorkspaceSize", "cuDNN's workspaces for the CTC loss"},
    {"cudnnGetCTCLossWorkspaceSize_v8", "cuDNN's workspaces for the CTC loss"}};

const char *simulate_taken_as_zero(const char *function) {
  for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++)
    if (fnmatch(zeros[i][0], function, 0) == 0) return zeros[i][1];
  return NULL;
}

static void note_functions(simulate_report *r, const simulate_part *part) {
  for (size_t i = 0; i < part->run.unmodelled.len; i++) {
    const simulate_unmodelled *u = &part->run.unmodelled.at[i];
    const char *unanswered = strstr(u->name, CARD_UNANSWERED);
    const char *zero = simulate_taken_as_zero(u->name);
    if (unanswered)
      plim_note_add(&r->found, "rank.no_answer", NULL,
                    "in %s call%s of %.*s another rank did not answer; on real GPUs the program "
                    "would wait there until a timeout",
                    units_count(u->calls).text, plural(u->calls), (int)(unanswered - u->name),
                    u->name);
    else if (zero)
      plim_note_add(
          &r->found, "taken_as_zero", NULL,
          "%s are taken as 0 bytes (%s, %s call%s), so the program needs more memory on a "
          "real GPU than shown here",
          zero, u->name, units_count(u->calls).text, plural(u->calls));
    else
      plim_note_add(&r->found, "not_modelled", NULL,
                    "not modelled exactly: %s (%s call%s); memory that depends on it may differ",
                    u->name, units_count(u->calls).text, plural(u->calls));
  }
}

// ---- faults on demand ---------------------------------------------------------------------------------

bool simulate_is_by_fault(const simulate_report *r) {
  bool has_begun = false;
  for (size_t i = 0; i < r->capped.run.fault_count; i++)
    has_begun |= r->capped.run.faults[i].has_begun != 0;
  bool is_enough = !r->has_limit || simulate_needs(&r->large) <= r->budget_bytes;
  return has_begun && r->has_large && r->large.run.end == SIMULATE_RAN && is_enough;
}

static void describe_fault(const card_fault *f, char *text, size_t size) {
  units_text times = units_count(f->times);
  const char *s = plural(f->times);
  switch (f->kind) {
  case CARD_FAULT_REFUSE:
    snprintf(text, size, "%s request%s for memory %s refused, although there may have been enough",
             times.text, s, f->times == 1 ? "was" : "were");
    break;
  case CARD_FAULT_OTHER_PROCESS:
    snprintf(text, size, "another process used %s of each GPU", units_bytes(f->amount).text);
    break;
  case CARD_FAULT_LEAK:
    snprintf(text, size,
             "memory outside PyTorch's allocator grew by %s with every step, by %s in all",
             units_bytes(f->amount).text, units_bytes(f->times).text);
    break;
  default:
    snprintf(text, size, "%s call%s to the driver %s", times.text, s,
             f->kind == CARD_FAULT_DRIVER_HANGS ? "did not return" : "returned an error");
  }
}

static void note_faults(simulate_report *r) {
  char text[200];
  for (size_t i = 0; i < r->capped.run.fault_count; i++) {
    const card_fault *f = &r->capped.run.faults[i];
    describe_fault(f, text, sizeof text);
    if (f->has_begun) plim_note_add(&r->found, "fault", NULL, "--fault %s: %s", f->text, text);
    else
      plim_note_add(&r->found, "fault.none", NULL,
                    "--fault %s did not happen: no process of the program reached that moment",
                    f->text);
  }
}

void simulate_add_notes(simulate_report *r) {
  const simulate_part *whole = simulate_whole(r);
  const simulate_process *p = simulate_fullest(&whole->run);
  note_batch(r);
  if (p) {
    note_world(r, p);
    note_tight(r, p);
    note_bucket(r, p);
    note_routes(r, p);
    note_scaler(r, p);
    note_versions(r, p);
  }
  note_faults(r);
  note_steps(r, whole);
  note_read_only(r, whole);
  note_functions(r, whole);
  if (r->found.has_no_memory) cli_out_of_memory();
}
