// The tape against PyTorch's recordings: every allocation and every free of a real training step, in
// order, by size, each free of the same allocation. The model is built and trained two steps.
#include <stdlib.h>

#include "cases.h"
#include "test.h"
#include "truth.h"

// Recordings that are one program on the tape today.
// clang-format off
static const char *const covered[] = {
    "families/gpt2-bf16",
    "families/gpt2-fp32-amp",
    "families/llama-adafactor",
    "families/llama-bf16",
    "families/llama-bf16-ckpt",
    "families/llama-bf16-ckpt-reentrant",
    "families/llama-bf16-eager",
    "families/llama-foreach",
    "families/llama-fp32-ampbf16",
    "families/llama-lora",
    "families/llama-lora-drop-amp",
    "families/llama-lora-drop-amp-ckpt",
    "families/llama-maskpad",
    "families/llama-trainer-fp32",
    "families/llama-trainer-lora-ckpt",
    "families/mistral-bf16",
    "families/neox-bf16",
    "families/phi3-bf16",
    "families/qwen2-bf16",
    "families/qwen3-bf16",
    "kernels/adamw-loop-llama",
    "kernels/cudnn-llama-b4s1024",
    "kernels/cudnn-llama-bf16-s500",
    "kernels/efficient-llama-maskpad",
    "kernels/flash-gpt2-bf16",
    "kernels/flash-llama-bf16",
    "kernels/flash-llama-bf16-s500",
    "kernels/flash-llama-lora-ckpt",
    "kernels/flash-mistral-bf16",
    "kernels/math-llama-bf16",
    "kernels/sgd-llama",
    "kernels/sgdm-llama",
    "sharded/fsdp-gpt2-mp",
    "sharded/fsdp-llama-bf16-ckpt",
    "sharded/fsdp-llama-bf16-offload",
    "sharded/fsdp-llama-bf16",
    "sharded/fsdp-llama-mp-accum",
    "sharded/fsdp-llama-mp-ckpt-noreshard",
    "sharded/fsdp-llama-mp-ckpt-w2",
    "sharded/fsdp-llama-mp-ckpt-w8",
    "sharded/fsdp-llama-mp-ckpt",
    "sharded/fsdp-llama-mp-noreshard",
    "sharded/fsdp-llama-mp-offload-ckpt",
    "sharded/fsdp-llama-mp-offload",
    "sharded/fsdp-llama-mp-reduce16",
    "sharded/fsdp-llama-mp",
    "sharded/fsdp-mistral-mp-ckpt",
    "sharded/fsdp-qwen2-bf16-w3",
    "sharded/fsdp-qwen2-mp-ckpt-w8",
    "sharded/fsdp-qwen2-mp-w3",
    "sharded/fsdp-qwen2-mp",
    "sharded/fsdp-tiny-mp-ckpt",
    "sharded/fsdp-tiny-mp",
};

// DistributedDataParallel behind a fake process group: the program fails at the end of the first
// backward, when it looks for what was reduced. Up to there all is recorded.
static const char *const cut_short[] = {
    "sharded/ddp-llama-ckpt-accum",
    "sharded/ddp-llama-view0",
    "sharded/ddp-llama-view1-accum",
    "sharded/ddp-llama-view1",
    "sharded/ddp-qwen2-fp32amp-view0",
    "sharded/ddp-qwen2-fp32amp-view1",
    "sharded/ddp-tiny-view0",
    "sharded/ddp-tiny-view1",
};
// clang-format on

typedef struct {
  plim_stream_kind kind;
  uint32_t id; // allocations are numbered
  uint64_t bytes;
} stream_event;

typedef vec(stream_event) stream;

static void append(void *context, plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  stream *s = context;
  if (!vec_push(s, (stream_event){kind, id, bytes})) test_failed = true;
}

static bool run_tape(const char *name, stream *out) {
  const char *text = truth_json(name);
  json_t *json = text ? json_loads(text, 0, NULL) : NULL;
  plim_job job;
  bool ok = case_job(json_object_get(json, "case"), json_object_get(json, "config"), &job);
  plim_tape *t = ok ? plim_tape_new((plim_tape_sink){append, out}) : NULL;
  if (t) case_begin(json_object_get(json, "case"), t);
  plim_model *m = t ? plim_job_load(t, &job) : NULL;
  ok = m && plim_train(t, m, &job.recipe);
  plim_model_delete(m);
  plim_tape_delete(t);
  json_decref(json);
  return ok;
}

static bool recorded(const char *name, stream *out) {
  truth_file file = {0};
  snprintf(file.path, sizeof file.path, TEST_ROOT "/truth/%s.pickle.xz", name);
  plim_trace trace;
  if (!truth_load(&file, &trace)) return false;
  vec(uint32_t) id_of = {0};
  bool ok = vec_reserve(&id_of, trace.block_slots + 1);
  for (size_t i = 0, next = 0; ok && i < trace.events.len; i++) {
    const plim_event *e = &trace.events.at[i];
    bool is_alloc = e->action == PLIM_EV_ALLOC;
    if (!is_alloc && e->action != PLIM_EV_FREE && e->action != PLIM_EV_FREE_REQUESTED) continue;
    if (is_alloc) id_of.at[e->block] = (uint32_t)next++;
    append(out, is_alloc ? PLIM_STREAM_ALLOC : PLIM_STREAM_FREE, id_of.at[e->block], e->bytes);
  }
  vec_free(&id_of);
  plim_trace_clear(&trace);
  return ok;
}

// What follows in the recording is the end of the program: frees alone.
static bool only_frees_follow(const stream *s, size_t from) {
  for (size_t i = from; i < s->len; i++)
    if (s->at[i].kind == PLIM_STREAM_ALLOC) return false;
  return true;
}

static int by_id(const void *x, const void *y) {
  const stream_event *a = x, *b = y;
  return (a->id > b->id) - (a->id < b->id);
}

// Where the tape says that PyTorch's order is a hash table's, both are put into one order.
static void sort_unordered(const stream *tape, stream *a, stream *b) {
  for (size_t i = 0, end; i < tape->len; i = end) {
    for (end = i; end < tape->len && tape->at[end].kind == PLIM_STREAM_FREE_UNORDERED; end++) {}
    if (end > i && end <= b->len) {
      qsort(a->at + i, end - i, sizeof *a->at, by_id);
      qsort(b->at + i, end - i, sizeof *b->at, by_id);
    }
    end += end == i;
  }
}

static bool same_event(const stream_event *a, const stream_event *b) {
  bool is_alloc = a->kind == PLIM_STREAM_ALLOC;
  return is_alloc == (b->kind == PLIM_STREAM_ALLOC) && a->id == b->id && a->bytes == b->bytes;
}

static void print_event(const char *who, const stream *s, size_t i) {
  if (i >= s->len) printf(" %s ends", who);
  else
    printf(" %s %s %u of %" PRIu64 " bytes", who,
           s->at[i].kind == PLIM_STREAM_ALLOC ? "alloc" : "free", s->at[i].id, s->at[i].bytes);
}

static bool streams_agree(const char *name, bool is_cut_short) {
  stream tape = {0}, truth = {0};
  bool ok = run_tape(name, &tape) && recorded(name, &truth);
  size_t i = 0;
  sort_unordered(&tape, &tape, &truth);
  while (ok && i < tape.len && i < truth.len && same_event(&tape.at[i], &truth.at[i])) i++;
  ok = ok && (i == tape.len || (is_cut_short && i > truth.len / 2)) && only_frees_follow(&truth, i);
  if (!ok) {
    printf("  %s: %zu of %zu events agree; then", name, i, truth.len);
    print_event("recorded", &truth, i);
    print_event("tape", &tape, i);
    printf("\n");
  }
  vec_free(&tape);
  vec_free(&truth);
  return ok;
}

TEST(streams_are_those_that_pytorch_recorded) {
  for (size_t i = 0; i < sizeof covered / sizeof *covered; i++)
    test_count(covered[i], streams_agree(covered[i], false));
}

TEST(streams_agree_as_far_as_they_were_recorded) {
  for (size_t i = 0; i < sizeof cut_short / sizeof *cut_short; i++)
    test_count(cut_short[i], streams_agree(cut_short[i], true));
}

TEST_MAIN
