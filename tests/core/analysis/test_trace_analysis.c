// The analysis of recordings whose program is known: steps, kinds of memory, leaks and duplicated models. Most are
// analysed twice, with their stacks and without.
#include <math.h>
#include <stdlib.h>

#include "test.h"
#include "trace_analysis.h"
#include "truth.h"

typedef enum { WITHOUT_STACKS = 1, WITHOUT_MARKERS = 2 } reading;

typedef struct {
  plim_trace trace;
  plim_trace_analysis analysis;
  plim_leaks leaks;
  plim_duplicates duplicates;
} told;

static void forget(plim_trace *trace, int less) {
  if (less & WITHOUT_MARKERS) trace->annotations.len = 0;
  if (!(less & WITHOUT_STACKS)) return;
  for (size_t i = 0; i < trace->events.len; i++) trace->events.at[i].stack = 0;
  for (size_t i = 0; i < trace->start_blocks.len; i++) trace->start_blocks.at[i].stack = 0;
}

static bool tell_trace(told *t) {
  return plim_trace_analysis_read(&t->trace, &t->analysis) &&
         plim_find_leaks(&t->trace, &t->analysis, &t->leaks) &&
         plim_find_duplicates(&t->trace, &t->analysis, &t->duplicates);
}

// Analyses a recording such as "families/llama-bf16" without the information in `less` (stacks, markers).
static bool tell(const char *name, int less, told *t) {
  *t = (told){0};
  truth_file file = {0};
  snprintf(file.path, sizeof file.path, TEST_ROOT "/truth/%s.pickle.xz", name);
  if (!truth_load(&file, &t->trace)) return false;
  forget(&t->trace, less);
  return tell_trace(t);
}

static void end(told *t) {
  plim_trace_analysis_clear(&t->analysis);
  vec_free(&t->leaks);
  plim_duplicates_clear(&t->duplicates);
  plim_trace_clear(&t->trace);
}

static double json_number(const char *name, const char *key) {
  char path[512], text[4096] = "";
  snprintf(path, sizeof path, TEST_ROOT "/truth/%s.json", name);
  FILE *file = fopen(path, "r");
  if (!file) return NAN;
  size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[length] = '\0';
  return truth_number(text, key);
}

typedef struct {
  uint64_t most[PLIM_KIND_COUNT];    // the most bytes of each kind at once
  uint64_t at_peak[PLIM_KIND_COUNT]; // when most bytes of all kinds were alive
  uint64_t peak;
} account;

static account count_kinds(const told *t) {
  account a = {0};
  uint64_t live[PLIM_KIND_COUNT] = {0}, total = 0;
  uint32_t *dying = calloc(t->trace.events.len + 1, sizeof *dying); // event + 1 that ends here
  for (size_t i = 0; i < t->trace.events.len; i++)
    if (t->analysis.freed_at.at[i] != PLIM_NEVER)
      dying[t->analysis.freed_at.at[i]] = (uint32_t)i + 1;
  for (size_t i = 0; i < t->trace.events.len; i++) {
    const plim_event *e = &t->trace.events.at[i];
    if (dying[i]) {
      live[t->analysis.kind.at[dying[i] - 1]] -= t->trace.events.at[dying[i] - 1].bytes;
      total -= t->trace.events.at[dying[i] - 1].bytes;
    }
    if (e->action != PLIM_EV_ALLOC) continue;
    uint8_t kind = t->analysis.kind.at[i];
    live[kind] += e->bytes;
    total += e->bytes;
    if (live[kind] > a.most[kind]) a.most[kind] = live[kind];
    if (total > a.peak) {
      a.peak = total;
      memcpy(a.at_peak, live, sizeof live);
    }
  }
  free(dying);
  return a;
}

static bool near(uint64_t got, double want, double share) {
  return fabs((double)got - want) <= share * want;
}

// ---- kinds ----------------------------------------------------------------------------------------

// Bytes per element of frozen and trained weights, and of the optimizer's state per trained element.
typedef struct {
  const char *name;
  double frozen, trained, state;
} kinds_case;

static const kinds_case kinds_cases[] = {
    {"families/llama-bf16", 2, 2, 4},
    {"families/llama-bf16-eager", 2, 2, 4},
    {"families/llama-bf16-ckpt", 2, 2, 4},
    {"families/llama-bf16-ckpt-reentrant", 2, 2, 4},
    {"families/llama-fp32-ampbf16", 4, 4, 8},
    {"families/llama-foreach", 2, 2, 4},
    {"families/llama-adafactor", 2, 2, 0},
    {"families/llama-trainer-fp32", 4, 4, 8},
    {"families/llama-lora", 2, 4, 8},
    {"families/llama-lora-drop-amp", 2, 4, 8},
    {"families/llama-trainer-lora-ckpt", 2, 4, 8},
    {"families/bert-fp32-ampfp16", 4, 4, 8},
    {"families/minilm-encoder", 4, 4, 8},
    {"families/gpt2-bf16", 2, 2, 4},
    {"families/mixtral-bf16", 2, 2, 4},
    {"families/t5-bf16", 2, 2, 4},
    {"families/qwen2-bf16", 2, 2, 4},
    {"kernels/adamw-loop-llama", 2, 2, 4},
    {"kernels/sgd-llama", 2, 2, 0},
    {"kernels/sgdm-llama", 2, 2, 2},
    {"kernels/t5-ckpt-b4s512", 2, 2, 4},
};

// The tolerance is one percent: besides weights there are buffers (rotary frequencies, position ids) and one counter
// per tensor in the optimizer. Adafactor keeps a row and a column per matrix. MiniLM's pooler, 1 % of its weights, is
// never used and has no gradient.
static void check_kinds(const kinds_case *c, int less) {
  told t;
  CHECK(tell(c->name, less, &t), "%s cannot be read", c->name);
  double params = json_number(c->name, "params"), trained = json_number(c->name, "trainable");
  account a = count_kinds(&t);
  end(&t);
  double weights = (params - trained) * c->frozen + trained * c->trained;
  printf("  %-36s%s parameters %.1f of %.1f MiB, gradients %.1f, optimizer %.1f\n", c->name,
         less ? " (no stacks)" : "", (double)a.most[PLIM_KIND_PARAMETER] / PLIM_MIB,
         weights / PLIM_MIB, (double)a.most[PLIM_KIND_GRADIENT] / PLIM_MIB,
         (double)a.most[PLIM_KIND_OPTIMIZER] / PLIM_MIB);
  CHECK(near(a.most[PLIM_KIND_PARAMETER], weights, 0.01), "%s: parameters %" PRIu64 ", want %.0f",
        c->name, a.most[PLIM_KIND_PARAMETER], weights);
  CHECK(near(a.most[PLIM_KIND_GRADIENT], trained * c->trained, 0.011),
        "%s: gradients %" PRIu64 ", want %.0f", c->name, a.most[PLIM_KIND_GRADIENT],
        trained * c->trained);
  double state = trained * c->state, slack = c->state > 0 ? 0.011 * state : 0.01 * weights;
  CHECK(fabs((double)a.most[PLIM_KIND_OPTIMIZER] - state) <= slack,
        "%s: optimizer state %" PRIu64 ", want %.0f", c->name, a.most[PLIM_KIND_OPTIMIZER], state);
  CHECK(a.most[PLIM_KIND_OTHER] == 0, "%s: %" PRIu64 " bytes of other kind", c->name,
        a.most[PLIM_KIND_OTHER]);
}

TEST(kinds_match_the_model_with_stacks) {
  for (size_t i = 0; i < sizeof kinds_cases / sizeof *kinds_cases; i++) {
    check_kinds(&kinds_cases[i], 0);
    if (test_failed) return;
  }
}

TEST(kinds_match_the_model_without_stacks) {
  for (size_t i = 0; i < sizeof kinds_cases / sizeof *kinds_cases; i++) {
    check_kinds(&kinds_cases[i], WITHOUT_STACKS);
    if (test_failed) return;
  }
}

// Lifetimes alone must lead to the same result as stacks. Recomputed activations cannot be recognised without stacks,
// so checkpointed cases are skipped.
TEST(kinds_at_the_peak_are_the_same_without_stacks) {
  static const char *const names[] = {"families/llama-bf16",     "families/llama-lora",
                                      "families/gpt2-fp32-amp",  "families/bert-fp32-ampfp16",
                                      "families/mistral-bf16",   "families/llama-trainer-fp32",
                                      "kernels/math-llama-bf16", "snapshots/stacks-tiny"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    told with, without;
    CHECK(tell(names[i], 0, &with) && tell(names[i], WITHOUT_STACKS, &without), "%s", names[i]);
    account a = count_kinds(&with), b = count_kinds(&without);
    end(&with);
    end(&without);
    for (int k = 0; k < PLIM_KIND_COUNT; k++)
      CHECK(fabs((double)a.at_peak[k] - (double)b.at_peak[k]) <= 0.01 * (double)a.peak,
            "%s: %s %" PRIu64 " with stacks, %" PRIu64 " without", names[i], plim_kind_names[k],
            a.at_peak[k], b.at_peak[k]);
  }
}

// cuBLAS takes 32 MiB per thread that multiplies (Hopper), one for forward and one for backward;
// cuBLASLt may take another 1 MiB.
TEST(workspaces_are_not_taken_for_weights) {
  static const char *const names[] = {"families/llama-bf16", "families/gpt2-bf16",
                                      "kernels/sgd-llama", "snapshots/tiny-default"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    for (int less = 0; less <= WITHOUT_STACKS; less++) {
      told t;
      CHECK(tell(names[i], less, &t), "%s", names[i]);
      account a = count_kinds(&t);
      end(&t);
      CHECK(a.most[PLIM_KIND_WORKSPACE] >= 64 * PLIM_MIB &&
                a.most[PLIM_KIND_WORKSPACE] < 66 * PLIM_MIB,
            "%s: workspaces of %" PRIu64, names[i], a.most[PLIM_KIND_WORKSPACE]);
    }
}

// The weights of the little model in scripts/stories.py, float32: embedding, six blocks, head.
#define NET_BYTES (4ull * (8000 * 512 + 6 * (2 * 512 * 2048 + 2048 + 3 * 512) + 8000 * 512 + 8000))

TEST(gradients_zeroed_in_place_and_accumulated_ones_are_gradients) {
  static const char *const names[] = {"stories/keep-grads", "stories/accumulate",
                                      "stories/cpp-stacks"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    told t;
    CHECK(tell(names[i], 0, &t), "%s", names[i]);
    account a = count_kinds(&t);
    CHECK_U64(t.analysis.steps.len, (size_t)5);
    end(&t);
    CHECK_U64(a.most[PLIM_KIND_PARAMETER], NET_BYTES);
    CHECK_U64(a.most[PLIM_KIND_GRADIENT], NET_BYTES);
    CHECK(near(a.most[PLIM_KIND_OPTIMIZER], 2.0 * NET_BYTES, 0.001), "%s: state of %" PRIu64,
          names[i], a.most[PLIM_KIND_OPTIMIZER]);
  }
}

TEST(kept_results_are_of_other_kind) {
  told t;
  CHECK(tell("snapshots/stacks-leak-logits", 0, &t), "read");
  account a = count_kinds(&t);
  end(&t);
  // 25 steps; the results of the last two may still be in variables.
  CHECK(a.most[PLIM_KIND_OTHER] >= 23 * 32768000ull && a.most[PLIM_KIND_OTHER] <= 25 * 32768000ull,
        "other %" PRIu64, a.most[PLIM_KIND_OTHER]);
}

// ---- steps ----------------------------------------------------------------------------------------

typedef struct {
  const char *name;
  int less;
  plim_steps_source source;
  size_t steps;
} steps_case;

static const steps_case steps_cases[] = {
    {"snapshots/varlen-default", 0, PLIM_STEPS_ANNOTATED, 10},
    {"snapshots/varlen-cap-oom", 0, PLIM_STEPS_ANNOTATED, 3}, // two steps, and one that failed
    {"snapshots/stacks-leak-logits", 0, PLIM_STEPS_ANNOTATED, 25},
    {"snapshots/stacks-leak-logits", WITHOUT_MARKERS, PLIM_STEPS_STACKS, 25},
    {"snapshots/stacks-leak-logits", WITHOUT_MARKERS | WITHOUT_STACKS, PLIM_STEPS_PERIODIC, 25},
    {"snapshots/tiny-default", WITHOUT_MARKERS, PLIM_STEPS_PERIODIC, 4},
    {"snapshots/lora-ckpt-stream", 0, PLIM_STEPS_ANNOTATED, 4},
    {"foreign/resnet50-b4", 0, PLIM_STEPS_ANNOTATED, 3},
    {"foreign/contrastive-b2-n24", 0, PLIM_STEPS_ANNOTATED, 3}, // the scaler skipped the first one
    {"families/llama-trainer-lora-ckpt", 0, PLIM_STEPS_ANNOTATED, 2}, // with two micro batches each
    {"families/llama-trainer-lora-ckpt", WITHOUT_MARKERS, PLIM_STEPS_STACKS, 2},
    {"stories/evaluate", 0, PLIM_STEPS_ANNOTATED, 6}, // the evaluation at the end is not a step
    {"stories/own-loop", 0, PLIM_STEPS_PERIODIC, 6},
    {"stories/own-loop", WITHOUT_STACKS, PLIM_STEPS_PERIODIC, 6},
    {"stories/cpp-stacks", WITHOUT_MARKERS, PLIM_STEPS_STACKS, 5},
    {"recorded/late-train", 0, PLIM_STEPS_ANNOTATED, 4},
};

TEST(steps_are_counted) {
  for (size_t i = 0; i < sizeof steps_cases / sizeof *steps_cases; i++) {
    const steps_case *c = &steps_cases[i];
    told t;
    CHECK(tell(c->name, c->less, &t), "%s", c->name);
    size_t steps = t.analysis.steps.len;
    plim_steps_source source = t.analysis.steps_source;
    end(&t);
    CHECK(steps == c->steps && source == c->source, "%s (less %d): %zu steps by %d, want %zu by %d",
          c->name, c->less, steps, source, c->steps, c->source);
  }
}

// Steps that allocate and free ten tensors, each followed by the markers in `names`.
static bool make_marked_trace(plim_trace *t, size_t steps, const char *const *names, size_t count) {
  if (!plim_trace_init(t)) return false;
  uint64_t time = 1;
  bool ok = true;
  for (size_t step = 0; ok && step < steps; step++)
    for (size_t n = 0; ok && n < count; n++) {
      for (uint64_t i = 0; ok && i < 10; i++) {
        plim_event e = {.addr = (i + 1) << 30, .bytes = 1000 + i, .time_us = time++};
        ok = plim_trace_push(t, &e);
        e.action = PLIM_EV_FREE;
        ok = ok && plim_trace_push(t, &e);
      }
      uint32_t name = (uint32_t)t->text.len;
      if (step) name = t->annotations.at[2 * n].name;
      for (size_t k = 0; ok && !step && k <= strlen(names[n]); k++)
        ok = vec_push(&t->text, names[n][k]);
      ok = ok && vec_push(&t->annotations, (plim_annotation){time++, name, false}) &&
           vec_push(&t->annotations, (plim_annotation){time++, name, true});
    }
  return ok && plim_trace_link(t);
}

// A GAN runs its two optimizers in turn; both belong to one step of the loop.
TEST(two_optimizers_make_one_step) {
  static const char *const names[] = {"Optimizer.step#Adam.step", "Optimizer.step#RMSprop.step"};
  for (size_t count = 1; count <= 2; count++) {
    told t = {0};
    CHECK(make_marked_trace(&t.trace, 5, names, count) && tell_trace(&t), "memory");
    size_t steps = t.analysis.steps.len;
    size_t events = steps > 1 ? t.analysis.steps.at[1].end - t.analysis.steps.at[1].first : 0;
    end(&t);
    CHECK_U64(steps, (size_t)5);
    CHECK_U64(events, 20 * count);
  }
}

TEST(random_allocation_programs_have_no_steps) {
  static const char *const folders[] = {"allocator"};
  truth_files files = truth_list(folders, 1);
  for (size_t i = 0; i < files.len; i++) {
    told t;
    CHECK(tell(files.at[i].name, 0, &t), "%s", files.at[i].name);
    size_t steps = t.analysis.steps.len;
    end(&t);
    CHECK(steps == 0, "%s: %zu steps", files.at[i].name, steps);
  }
  vec_free(&files);
}

// Stacks show where the first forward pass is: the first step must not begin after it, and must not contain
// allocations of __init__ or of the loop before it.
TEST(set_up_ends_where_the_first_batch_is_made) {
  static const struct {
    const char *name;
    uint32_t line; // the line that creates the first batch
    const char *function;
  } cases[] = {{"snapshots/stacks-tiny", 31, "loop"},
               {"families/llama-bf16", 44, "batch"},
               {"families/llama-lora-drop-amp-ckpt", 44, "batch"},
               {"kernels/sgd-llama", 44, "batch"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int less = 0; less <= WITHOUT_MARKERS; less += WITHOUT_MARKERS) {
      told t;
      CHECK(tell(cases[i].name, less, &t), "%s", cases[i].name);
      const plim_event *first = &t.trace.events.at[t.analysis.steps.at[0].first];
      const plim_frame *frame = &t.trace.frames.at[t.analysis.line.at[first->stack]];
      const char *function = plim_trace_text(&t.trace, frame->name);
      bool is_right = frame->line == cases[i].line && strcmp(function, cases[i].function) == 0;
      printf("  %s: the first step begins at line %u (%s)\n", cases[i].name, frame->line, function);
      end(&t);
      CHECK(is_right, "%s", cases[i].name);
    }
}

TEST(an_event_is_in_its_step) {
  told t;
  CHECK(tell("snapshots/varlen-cap-oom", 0, &t), "read");
  size_t oom = t.trace.events.len;
  for (size_t i = 0; i < t.trace.events.len; i++)
    if (t.trace.events.at[i].action == PLIM_EV_OOM) oom = i;
  size_t of_oom = plim_trace_analysis_step_of(&t.analysis, oom),
         of_first = plim_trace_analysis_step_of(&t.analysis, 0);
  size_t at_seam = plim_trace_analysis_step_of(&t.analysis, t.analysis.steps.at[0].end);
  end(&t);
  CHECK_U64(of_oom, (size_t)3);
  CHECK_U64(of_first, (size_t)0);
  CHECK_U64(at_seam, (size_t)2);
}

// The most common failure: memory runs out in the first backward, before any optimizer step.
TEST(a_run_that_fails_in_its_first_step_has_one_step) {
  told whole, t = {0};
  CHECK(tell("snapshots/stacks-tiny", 0, &whole), "read");
  account want = count_kinds(&whole);
  size_t length = whole.analysis.steps.at[0].end / 2, first = whole.analysis.steps.at[0].first;
  end(&whole);
  CHECK(!plim_snapshot_read(TEST_ROOT "/truth/snapshots/stacks-tiny.pickle.xz", -1, &t.trace, NULL,
                            NULL),
        "read");
  t.trace.events.len = length;
  t.trace.annotations.len = t.trace.layout.len = 0;
  plim_event oom = {.bytes = PLIM_GIB, .action = PLIM_EV_OOM};
  CHECK(plim_trace_push(&t.trace, &oom) && plim_trace_link(&t.trace) && tell_trace(&t), "memory");
  account got = count_kinds(&t);
  size_t steps = t.analysis.steps.len, begins = steps ? t.analysis.steps.at[0].first : 0;
  end(&t);
  CHECK_U64(steps, (size_t)1);
  CHECK(begins >= first && begins < first + 10, "begins at %zu, the whole at %zu", begins, first);
  // The batch was created before the forward pass and is still alive, so it is taken for a parameter.
  CHECK_U64(got.most[PLIM_KIND_PARAMETER], want.most[PLIM_KIND_PARAMETER] + 2 * 256 * 8);
  CHECK(got.most[PLIM_KIND_GRADIENT] > 0, "no gradients");
  CHECK(near(got.most[PLIM_KIND_ACTIVATION], (double)want.most[PLIM_KIND_ACTIVATION], 0.2),
        "activations %" PRIu64 ", in the whole run %" PRIu64, got.most[PLIM_KIND_ACTIVATION],
        want.most[PLIM_KIND_ACTIVATION]);
}

// Loading a model layer by layer is periodic, too; stacks show that no layer is a step.
TEST(layers_that_are_loaded_are_no_steps) {
  told t = {0};
  const char *path = TEST_ROOT "/truth/snapshots/stacks-tiny.pickle.xz";
  CHECK(!plim_snapshot_read(path, -1, &t.trace, NULL, NULL), "read");
  uint32_t stack = 0;
  for (size_t i = 0; i < t.trace.events.len && !stack; i++) stack = t.trace.events.at[i].stack;
  t.trace.events.len = t.trace.annotations.len = t.trace.layout.len = 0;
  bool ok = stack > 0;
  for (uint64_t i = 0; i < (uint64_t)13 * 12 && ok; i++) {
    plim_event e = {.bytes = 512 * (1 + i % 12),
                    .addr = (1ull << 32) + 8192 * i,
                    .stack = stack,
                    .action = PLIM_EV_ALLOC};
    ok = plim_trace_push(&t.trace, &e);
  }
  plim_event oom = {.bytes = PLIM_GIB, .stack = stack, .action = PLIM_EV_OOM};
  CHECK(ok && plim_trace_push(&t.trace, &oom) && plim_trace_link(&t.trace) && tell_trace(&t),
        "memory");
  size_t steps = t.analysis.steps.len, leaks = t.leaks.len;
  forget(&t.trace, WITHOUT_STACKS);
  plim_trace_analysis_clear(&t.analysis);
  CHECK(plim_trace_analysis_read(&t.trace, &t.analysis), "memory");
  size_t guessed = t.analysis.steps.len;
  end(&t);
  CHECK(steps <= 1 && !leaks, "%zu steps, %zu leaks", steps, leaks);
  CHECK(guessed > 8, "%zu steps without stacks", guessed); // the periods are there
}

// ---- lines ----------------------------------------------------------------------------------------

static uint32_t frame_at(const plim_trace *t, const char *file_end, uint32_t line) {
  for (uint32_t i = 0; i < t->frames.len; i++) {
    const char *file = plim_trace_text(t, t->frames.at[i].file);
    size_t n = strlen(file), m = strlen(file_end);
    if (t->frames.at[i].line == line && n >= m && strcmp(file + n - m, file_end) == 0) return i;
  }
  return PLIM_NO_LINE;
}

TEST(lines_have_names) {
  told t;
  CHECK(tell("snapshots/stacks-leak-logits", 0, &t), "read");
  char text[64], tight[16], module[96], own[96], nothing[32];
  uint32_t frame = t.leaks.at[0].line;
  plim_line_name(&t.trace, frame, text, sizeof text);
  plim_line_name(&t.trace, frame, tight, sizeof tight);
  plim_module_name(&t.trace, frame, module, sizeof module);
  plim_module_name(&t.trace, frame_at(&t.trace, "snapshots.py", 31), own, sizeof own);
  plim_line_name(&t.trace, PLIM_NO_LINE, nothing, sizeof nothing);
  end(&t);
  CHECK_STR(text, "modeling_llama.py:480 (forward)");
  CHECK_STR(tight, "...80 (forward)");
  CHECK_STR(module, "transformers.models.llama.modeling_llama");
  CHECK_STR(own, "snapshots");
  CHECK_STR(nothing, "(no stack)");
}

static bool owns(const plim_trace *t, uint32_t frame, const char *part) {
  return frame != PLIM_NO_LINE && strstr(plim_trace_text(t, t->frames.at[frame].file), part);
}

// With C++ frames, stacks begin in the unwinder and the allocator. Some frames are in a folder called torch that is
// not PyTorch.
TEST(responsible_lines_are_neither_pytorch_nor_c_plus_plus) {
  static const char *const names[] = {"stories/cpp-stacks", "recorded/late-train",
                                      "families/llama-trainer-lora-ckpt",
                                      "snapshots/stacks-duplicate-model"};
  for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
    told t;
    CHECK(tell(names[n], 0, &t), "%s", names[n]);
    size_t wrong = 0, users = 0;
    for (size_t i = 0; i < t.analysis.line.len; i++) {
      const plim_stack *s = &t.trace.stacks.at[i];
      bool has_other = false, has_user = false, has_python = false;
      for (uint32_t k = 0; k < s->count; k++) {
        const plim_frame *f = &t.trace.frames.at[t.trace.stack_frames.at[s->first + k]];
        const char *file = plim_trace_text(&t.trace, f->file);
        bool is_python = strstr(file, ".py") || file[0] == '<';
        bool is_user = is_python && !strstr(file, "packages/") && !strstr(file, "python3.");
        has_user |= is_user;
        has_python |= is_python;
        has_other |= is_user || (strstr(file, "-packages/") && !strstr(file, "-packages/torch/"));
      }
      uint32_t line = t.analysis.line.at[i], user = t.analysis.user_line.at[i];
      wrong += has_other &&
               (owns(&t.trace, line, "-packages/torch/") || !owns(&t.trace, line, ".py")) &&
               !owns(&t.trace, line, "<string>");
      wrong += has_user && owns(&t.trace, user, "-packages/");
      wrong += (line == PLIM_NO_LINE) == has_python; // C++ frames alone have no line
      users += has_user;
    }
    end(&t);
    CHECK(wrong == 0 && users > 5, "%s: %zu wrong, %zu stacks of the user's", names[n], wrong,
          users);
  }
}

// ---- leaks ----------------------------------------------------------------------------------------

// 2 sequences of 256 tokens, a vocabulary of 32,000, two bytes each.
TEST(kept_logits_are_one_leak) {
  static const int readings[] = {0, WITHOUT_MARKERS, WITHOUT_STACKS};
  for (size_t i = 0; i < 3; i++) {
    told t;
    CHECK(tell("snapshots/stacks-leak-logits", readings[i], &t), "read");
    size_t count = t.leaks.len;
    plim_leak leak = count ? t.leaks.at[0] : (plim_leak){0};
    char name[64];
    plim_line_name(&t.trace, leak.line, name, sizeof name);
    end(&t);
    CHECK_U64(count, (size_t)1);
    CHECK_U64(leak.bytes_per_step, 2 * 256 * 32000 * 2ull);
    CHECK_U64(leak.bytes, 25 * 2 * 256 * 32000 * 2ull);
    CHECK_U64(leak.count, 25ull);
    CHECK(leak.first_step == 1 && leak.last_step == 25 && leak.steps == 25,
          "steps %zu to %zu (%zu)", leak.first_step, leak.last_step, leak.steps);
    CHECK_STR(name,
              readings[i] == WITHOUT_STACKS ? "(no stack)" : "modeling_llama.py:480 (forward)");
  }
}

TEST(kept_embeddings_are_a_leak_of_the_users_line) {
  told t;
  CHECK(tell("stories/leak-list", 0, &t), "read");
  size_t count = t.leaks.len;
  plim_leak leak = count ? t.leaks.at[0] : (plim_leak){0};
  char module[64];
  plim_module_name(&t.trace, leak.line, module, sizeof module);
  end(&t);
  CHECK_U64(count, (size_t)1);
  CHECK_U64(leak.bytes_per_step, 4 * 128 * 512 * 4ull);
  CHECK_STR(module, "stories");
}

// Leaked tensors of varying size, as batches of varying length leave them, without stacks.
static bool make_leaking_trace(plim_trace *t, size_t steps, size_t kept) {
  if (!plim_trace_init(t)) return false;
  static const char marker[] = "Optimizer.step#SGD.step";
  uint32_t name = (uint32_t)t->text.len;
  for (size_t i = 0; i < sizeof marker; i++)
    if (!vec_push(&t->text, marker[i])) return false;
  uint64_t time = 1;
  bool ok = true;
  for (size_t step = 0; ok && step < steps; step++) {
    for (uint64_t i = 0; ok && i < 20; i++) {
      plim_event e = {.addr = (i + 1) << 40, .bytes = (step + 7) * 1000 + i, .time_us = time++};
      ok = plim_trace_push(t, &e);
      e.action = PLIM_EV_FREE;
      if (i) ok = ok && plim_trace_push(t, &e);
    }
    plim_event keep = {
        .addr = (1ull << 50) + (step << 30), .bytes = 1000000 + step * 512, .time_us = time++};
    ok = ok && plim_trace_push(t, &keep);
    if (step >= kept) {
      plim_event old = {
          .addr = (1ull << 50) + ((step - kept) << 30), .action = PLIM_EV_FREE, .time_us = time++};
      ok = ok && plim_trace_push(t, &old);
    }
    plim_event last = {.addr = 1ull << 40, .action = PLIM_EV_FREE, .time_us = time++};
    ok = ok && plim_trace_push(t, &last);
    ok = ok && vec_push(&t->annotations, (plim_annotation){time++, name, false}) &&
         vec_push(&t->annotations, (plim_annotation){time++, name, true});
  }
  return ok && plim_trace_link(t);
}

TEST(leaks_of_varying_size_are_found_and_queues_are_not) {
  static const struct {
    size_t steps, kept, leaks;
  } cases[] = {{12, 100, 1}, {40, 100, 1}, {12, 8, 0}, {12, 3, 0}, {40, 20, 0}, {4, 100, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    told t = {0};
    CHECK(make_leaking_trace(&t.trace, cases[i].steps, cases[i].kept) && tell_trace(&t), "memory");
    size_t leaks = t.leaks.len, steps = t.analysis.steps.len;
    end(&t);
    CHECK(leaks == cases[i].leaks && steps == cases[i].steps,
          "%zu steps that keep the last %zu: %zu leaks in %zu steps, want %zu", cases[i].steps,
          cases[i].kept, leaks, steps, cases[i].leaks);
  }
}

// ---- duplicates -----------------------------------------------------------------------------------

// Qwen2.5-0.5B has 290 tensors and 494,032,768 weights. The first is built in bfloat16, the second
// is float32, the third bfloat16 again. Beside the weights, each has a few small buffers.
static void check_duplicate(int less) {
  static const struct {
    const char *line;
    double bytes, ratio;
  } copies[] = {{"snapshots.py:18 (model)", 2 * 494032768.0, 1},
                {"snapshots.py:42 (dup_seed4)", 4 * 494032768.0, 2},
                {"snapshots.py:43 (dup_seed4)", 2 * 494032768.0, 1}};
  told t;
  CHECK(tell("snapshots/stacks-duplicate-model", less, &t), "read");
  CHECK(t.duplicates.len == 1, "%zu duplicates", t.duplicates.len);
  plim_duplicate *d = &t.duplicates.at[0];
  CHECK(d->copies.len == 3, "%zu copies", d->copies.len);
  CHECK(d->tensors == 290, "%" PRIu64 " tensors in common", d->tensors);
  CHECK(near(d->wasted_bytes, 6 * 494032768.0, 1e-5), "%" PRIu64 " wasted", d->wasted_bytes);
  for (size_t i = 0; i < 3; i++) {
    const plim_copy *c = &d->copies.at[i];
    char name[64];
    plim_line_name(&t.trace, c->line, name, sizeof name);
    CHECK(near(c->bytes, copies[i].bytes, 1e-5), "copy %zu: %" PRIu64 " bytes", i, c->bytes);
    CHECK(fabs(c->bytes_per_element_ratio - copies[i].ratio) < 1e-9, "copy %zu", i);
    if (!(less & WITHOUT_STACKS)) CHECK_STR(name, copies[i].line);
  }
  end(&t);
}

TEST(three_copies_of_a_model_are_found_by_their_lines) { check_duplicate(0); }
TEST(three_copies_of_a_model_are_found_without_stacks) { check_duplicate(WITHOUT_STACKS); }

TEST(a_frozen_reference_model_is_a_duplicate) {
  for (int less = 0; less <= WITHOUT_STACKS; less++) {
    told t;
    CHECK(tell("stories/reference-model", less, &t), "read");
    size_t count = t.duplicates.len;
    uint64_t wasted = count ? t.duplicates.at[0].wasted_bytes : 0;
    end(&t);
    CHECK_U64(count, (size_t)1);
    CHECK_U64(wasted, NET_BYTES / 2); // bfloat16
  }
}

// ---- lines of our own modules ---------------------------------------------------------------------

static uint32_t add_text(plim_trace *t, const char *text) {
  uint32_t at = (uint32_t)t->text.len;
  for (size_t i = 0; i <= strlen(text); i++)
    if (!vec_push(&t->text, text[i])) return 0;
  return at;
}

// The line that is said to allocate, if `file` calls torch's linear layer on behalf of a model.
static void line_under(const char *file, char *name, size_t size) {
  told t = {0};
  const char *const files[] = {"/p/site-packages/torch/nn/functional.py", file,
                               "/p/site-packages/transformers/model.py"};
  bool ok = plim_trace_init(&t.trace);
  for (uint32_t i = 0; ok && i < 3; i++) {
    plim_frame frame = {
        .file = add_text(&t.trace, files[i]), .name = add_text(&t.trace, "f"), .line = i + 1};
    ok = vec_push(&t.trace.frames, frame) && vec_push(&t.trace.stack_frames, i);
  }
  ok = ok && vec_push(&t.trace.stacks, (plim_stack){.first = 0, .count = 3});
  plim_event e = {.addr = 1ull << 40, .bytes = 512, .time_us = 1, .stack = 1};
  ok = ok && plim_trace_push(&t.trace, &e) && plim_trace_link(&t.trace) && tell_trace(&t);
  snprintf(name, size, "?");
  if (ok) plim_line_name(&t.trace, t.analysis.line.at[1], name, size);
  end(&t);
}

TEST(the_chunked_loss_allocates_on_its_own_and_the_modules_of_the_card_do_not) {
  char name[64];
  line_under("/b/card/python/plimsoll_chunked.py", name, sizeof name);
  CHECK_STR(name, "plimsoll_chunked.py:2 (f)");
  line_under("/b/card/python/plimsoll_values.py", name, sizeof name);
  CHECK_STR(name, "model.py:3 (f)");
}

// ---- every recording ------------------------------------------------------------------------------

static const char *find_flaw(const told *t) {
  const plim_trace_analysis *s = &t->analysis;
  if (s->kind.len != t->trace.events.len || s->freed_at.len != t->trace.events.len) return "length";
  for (size_t i = 0; i < s->steps.len; i++) {
    if (s->steps.at[i].first >= s->steps.at[i].end) return "an empty step";
    if (s->steps.at[i].end > t->trace.events.len) return "a step beyond the end";
    if (i && s->steps.at[i].first < s->steps.at[i - 1].end) return "steps that overlap";
  }
  for (size_t i = 0; i < t->trace.events.len; i++) {
    if (s->kind.at[i] >= PLIM_KIND_COUNT) return "no kind";
    if (s->freed_at.at[i] != PLIM_NEVER && s->freed_at.at[i] <= i)
      return "freed before it was made";
  }
  return NULL;
}

// The leaks and duplicates in the recordings, and whether they are still found without stacks, markers or both.
// Recordings that are not listed must have none in any reading.
enum { FULL = 1, NO_STACKS = 2, NO_MARKERS = 4, ALWAYS = 15 };

static const struct {
  const char *name;
  int leaks, duplicates; // readings in which one is found
} known[] = {
    {"snapshots/stacks-leak-logits", ALWAYS, 0},
    {"snapshots/stacks-duplicate-model", 0, FULL | NO_STACKS | NO_MARKERS},
    {"stories/leak-list", ALWAYS, 0},
    {"stories/grad-leak-retain", ALWAYS, 0},
    {"stories/hidden-leak-varlen", FULL | NO_STACKS | NO_MARKERS, 0},
    {"stories/loss-plus-zero", ALWAYS, 0},
    {"stories/reference-model", 0, FULL | NO_STACKS | NO_MARKERS},
    {"stories/ema", 0, FULL | NO_STACKS | NO_MARKERS},
    {"stories/load-twice", 0, FULL | NO_STACKS | NO_MARKERS},
    {"stories/state-dict-copy", 0, FULL | NO_MARKERS},
};

TEST(only_the_known_recordings_leak_or_duplicate) {
  static const char *const folders[] = {"snapshots", "families", "kernels", "foreign",
                                        "allocator", "recorded", "stories"};
  truth_files files = truth_list(folders, sizeof folders / sizeof *folders);
  bool all = true;
  for (size_t i = 0; i < files.len; i++)
    for (int less = 0; less <= (WITHOUT_STACKS | WITHOUT_MARKERS); less++) {
      told t;
      const char *name = files.at[i].name;
      CHECK(tell(name, less, &t), "%s", name);
      size_t leaks = t.leaks.len, duplicates = t.duplicates.len, k = 0;
      const char *flaw = find_flaw(&t);
      end(&t);
      CHECK(!flaw, "%s (less %d): %s", name, less, flaw);
      while (k < sizeof known / sizeof *known && strcmp(known[k].name, name) != 0) k++;
      bool is_known = k < sizeof known / sizeof *known;
      bool leaks_here = is_known && (known[k].leaks & 1 << less);
      bool doubles_here = is_known && (known[k].duplicates & 1 << less);
      if ((leaks > 0) == leaks_here && (duplicates > 0) == doubles_here) continue;
      printf("  %s (less %d): %zu leaks, %zu duplicates\n", name, less, leaks, duplicates);
      all = false;
    }
  printf("  %zu recordings, each in four readings\n", files.len);
  vec_free(&files);
  CHECK(all, "see above");
}

// ---- hostile traces -------------------------------------------------------------------------------

TEST(an_empty_trace_has_an_empty_analysis) {
  told t = {0};
  CHECK(plim_trace_init(&t.trace) && plim_trace_link(&t.trace) && tell_trace(&t), "memory");
  size_t steps = t.analysis.steps.len, leaks = t.leaks.len, duplicates = t.duplicates.len;
  end(&t);
  CHECK(!steps && !leaks && !duplicates, "%zu steps, %zu leaks, %zu duplicates", steps, leaks,
        duplicates);
}

static uint64_t random_next(uint64_t *state) { // xorshift64
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}

// Times that jump, absurd sizes, frees of nothing, markers without a partner.
static bool make_hostile_trace(plim_trace *t, uint64_t seed) {
  static const char *const names[] = {"Optimizer.step#A.step", "Optimizer.step#B.step",
                                      "Optimizer.zero_grad#A.zero_grad", "ProfilerStep#1", ""};
  uint32_t name[5];
  if (!plim_trace_init(t)) return false;
  for (size_t i = 0; i < 5; i++) {
    name[i] = (uint32_t)t->text.len;
    for (size_t k = 0; k <= strlen(names[i]); k++)
      if (!vec_push(&t->text, names[i][k])) return false;
  }
  for (uint32_t i = 0; i < 8; i++) {
    plim_frame frame = {name[random_next(&seed) % 5], name[random_next(&seed) % 5], i};
    plim_stack stack = {(uint32_t)t->stack_frames.len, i % 3};
    if (!vec_push(&t->frames, frame) || !vec_push(&t->stacks, stack)) return false;
    for (uint32_t k = 0; k < stack.count; k++)
      if (!vec_push(&t->stack_frames, (uint32_t)(random_next(&seed) % (i + 1)))) return false;
  }
  size_t events = random_next(&seed) % 400;
  for (size_t i = 0; i < events; i++) {
    plim_event e = {.addr = (random_next(&seed) % 20) << 20,
                    .bytes = random_next(&seed) >> random_next(&seed) % 64,
                    .time_us = random_next(&seed) % 500,
                    .stack = (uint32_t)(random_next(&seed) % t->stacks.len),
                    .action = (uint8_t)(random_next(&seed) % PLIM_EV_COUNT)};
    if (random_next(&seed) % 3) e.action = (uint8_t)(random_next(&seed) % 2);
    if (!plim_trace_push(t, &e)) return false;
    plim_annotation a = {random_next(&seed) % 500, name[random_next(&seed) % 5],
                         random_next(&seed) % 2};
    if (random_next(&seed) % 9 == 0 && !vec_push(&t->annotations, a)) return false;
  }
  return plim_trace_link(t);
}

TEST(hostile_traces_are_analysed_without_harm) {
  size_t with_steps = 0;
  for (uint64_t seed = 1; seed <= 3000; seed++) {
    told t = {0};
    CHECK(make_hostile_trace(&t.trace, seed * 0x9e3779b97f4a7c15ull) && tell_trace(&t), "memory");
    const char *flaw = find_flaw(&t);
    with_steps += t.analysis.steps.len > 0;
    end(&t);
    CHECK(!flaw, "seed %" PRIu64 ": %s", seed, flaw);
  }
  CHECK(with_steps > 100, "only %zu of them had steps", with_steps);
}

TEST_MAIN
