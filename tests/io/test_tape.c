// The tape against PyTorch's recordings: every allocation and every free of a real training step, in
// order, by size, each free of the same allocation. The model is built and trained two steps.
#include <stdlib.h>

#include "cases.h"
#include "test.h"
#include "truth.h"

// Recordings that are one program on the tape today.
// clang-format off
static const char *const covered[] = {
    "encoders/bert-fp16-eager-pad",
    "encoders/bert-fp16-efficient-pad",
    "encoders/bert-fp16-math",
    "encoders/bert-fp16-noclip",
    "encoders/bert-fp16-pad",
    "encoders/bert-fp16-trainer",
    "encoders/bert-fp32-pad",
    "encoders/mpnet-fp16",
    "encoders/mpnet-fp16-b1-pad",
    "encoders/mpnet-fp32-pad",
    "encoders/mpnet-mlm-bf16-b1-ones",
    "encoders/roberta-bf16-b1-ones",
    "encoders/roberta-encoder-fp16-pad",
    "encoders/roberta-encoder-fp32-b1-pad",
    "encoders/roberta-fp16",
    "families/bert-fp32-ampfp16",
    "families/gemma2-bf16-eager",
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
    "families/minilm-encoder",
    "families/mistral-bf16",
    "families/mixtral-bf16",
    "families/neox-bf16",
    "families/phi3-bf16",
    "families/qwen2-bf16",
    "families/qwen3-bf16",
    "kernels/adamw-loop-llama",
    "kernels/bert-b16s500",
    "kernels/cudnn-llama-b4s1024",
    "kernels/cudnn-llama-bf16-s500",
    "kernels/efficient-bert-fp16",
    "kernels/efficient-llama-maskpad",
    "kernels/flash-gpt2-bf16",
    "kernels/flash-llama-bf16",
    "kernels/flash-llama-bf16-s500",
    "kernels/flash-llama-lora-ckpt",
    "kernels/flash-mistral-bf16",
    "kernels/math-llama-bf16",
    "kernels/sgd-llama",
    "kernels/sgdm-llama",
    "programs/bert-eager",
    "programs/bert-eager-maskpad",
    "programs/bert-maskones",
    "programs/bert-maskpad",
    "programs/bert-trainer-ampfp16",
    "programs/full-p0-b1",
    "programs/full-p1-b1-ckpt",
    "programs/gemma2-eager-maskpad",
    "programs/gemma2-lora-ckpt",
    "programs/gemma2-sdpa",
    "programs/gemma2-sdpa-maskpad",
    "programs/gpt2-eager",
    "programs/gpt2-eager-maskpad-amp",
    "programs/gpt2-fp32-s1000",
    "programs/gpt2-maskpad",
    "programs/gpt2-trainer-ampbf16",
    "programs/gpt2-trainer-ampfp16",
    "programs/llama-3.1-rope",
    "programs/llama-accum",
    "programs/llama-ampfp16",
    "programs/llama-bias",
    "programs/llama-eager-maskpad",
    "programs/llama-fp32",
    "programs/llama-lora-bf16-adapters",
    "programs/llama-lora-reentrant",
    "programs/llama-mha-fp32",
    "programs/llama-tiny-vocab",
    "programs/llama-trainer-ampfp16",
    "programs/llama-trainer-bf16",
    "programs/load-device_map-gemma2",
    "programs/load-device_map-gpt2-fp32",
    "programs/load-device_map-llama",
    "programs/load-device_map-llama-lora",
    "programs/load-device_map-neox",
    "programs/load-device_map-phi3",
    "programs/load-device_map-qwen2-tied",
    "programs/load-to-bert",
    "programs/load-to-gemma2",
    "programs/load-to-gpt2-fp32",
    "programs/load-to-llama",
    "programs/load-to-llama-lora",
    "programs/load-to-mixtral",
    "programs/load-to-neox",
    "programs/load-to-phi3",
    "programs/load-to-qwen2-tied",
    "programs/load-trainer-gpt2",
    "programs/load-trainer-llama",
    "programs/load-trainer-llama-lora",
    "programs/mistral-window-eager",
    "programs/mistral-window-long",
    "programs/mistral-window-short",
    "programs/mixtral-ckpt",
    "programs/mixtral-fp32-amp",
    "programs/neox-maskpad",
    "programs/phi3-eager-maskpad",
    "programs/phi3-lora-ckpt",
    "programs/roberta-ampbf16",
    "programs/roberta-ampbf16-maskpad",
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
  if (kind == PLIM_STREAM_EMPTY_CACHE) return;
  if (!vec_push(s, (stream_event){kind, id, bytes})) test_failed = true;
}

// The job of a recording. False if it cannot be read.
static bool job_of(const char *name, plim_job *job) {
  const char *text = truth_json(name);
  json_t *json = text ? json_loads(text, 0, NULL) : NULL;
  bool ok = case_job(json_object_get(json, "case"), json_object_get(json, "config"), job);
  json_decref(json);
  return ok;
}

static bool run_tape(const plim_job *job, bool trains, stream *out) {
  plim_tape *t = plim_tape_new((plim_tape_sink){append, out});
  plim_model *m = t ? plim_job_load(t, job) : NULL;
  bool ok = m && (!trains || plim_train(t, m, &job->recipe));
  plim_model_delete(m);
  plim_tape_delete(t);
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

static int by_bytes(const void *x, const void *y) {
  const stream_event *a = x, *b = y;
  return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

// Four threads of transformers race to load a checkpoint to the device, so its tensors, which stay,
// are compared as a set.
static bool sort_loading(plim_job job, stream *a, stream *b) {
  if (job.load != PLIM_LOAD_DEVICE_MAP) return true;
  stream loading = {0};
  job.lora.rank = 0;
  bool ok = run_tape(&job, false, &loading) && loading.len <= a->len && loading.len <= b->len;
  for (stream *s = a; ok && s; s = s == a ? b : NULL) {
    qsort(s->at, loading.len, sizeof *s->at, by_bytes);
    for (size_t i = 0; i < loading.len; i++) s->at[i].id = 0;
  }
  vec_free(&loading);
  return ok;
}

static bool streams_agree(const char *name) {
  stream tape = {0}, truth = {0};
  plim_job job;
  bool ok = job_of(name, &job) && run_tape(&job, true, &tape) && recorded(name, &truth) &&
            sort_loading(job, &tape, &truth);
  size_t i = 0;
  sort_unordered(&tape, &tape, &truth);
  while (ok && i < tape.len && i < truth.len && same_event(&tape.at[i], &truth.at[i])) i++;
  ok = ok && i == tape.len && only_frees_follow(&truth, i);
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
    test_count(covered[i], streams_agree(covered[i]));
}

TEST_MAIN
