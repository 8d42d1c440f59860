// Takes memory as a training does, on a card of its own making, and ends as PyTorch's programs end: for the tests of
// `plimsoll run`, which need neither PyTorch nor a card. Flags are those of transformers' Trainer where it has them.
//
//   fake_trainer --per_device_train_batch_size 8 --gradient_accumulation_steps 2 --max_steps 10
//                [--card-mib 1000] [--weights-mib 100] [--sample-mib 50] [--long-step N] [--long-every N] [--leak-mib N]
//                [--checkpoint FILE [--resume]] [--note TEXT] [--step-ms N] [--end oom|error|kill|host|wait] [--stranded-mib N]
//
// Each step needs weights + samples of the micro batch; in step --long-step, and in each --long-every-th, the samples are
// twice as large. Without expandable segments, --stranded-mib are lost to fragmentation.
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  long batch, accumulation, steps, card, weights, sample, long_step, long_every, leak, step_ms,
      stranded;
  const char *checkpoint, *end;
  bool resumes;
} flags;

static flags read_flags(int argc, char **argv) {
  flags f = {.batch = 8, .accumulation = 1, .steps = 5, .card = 1000, .weights = 100, .sample = 50};
  f.step_ms = 1;
  const struct {
    const char *name;
    long *value;
  } numbers[] = {{"--per_device_train_batch_size", &f.batch},
                 {"--gradient_accumulation_steps", &f.accumulation},
                 {"--max_steps", &f.steps},
                 {"--card-mib", &f.card},
                 {"--weights-mib", &f.weights},
                 {"--sample-mib", &f.sample},
                 {"--long-step", &f.long_step},
                 {"--long-every", &f.long_every},
                 {"--leak-mib", &f.leak},
                 {"--step-ms", &f.step_ms},
                 {"--stranded-mib", &f.stranded}};
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--resume") == 0) f.resumes = true;
    if (i + 1 == argc) break;
    if (strcmp(argv[i], "--note") == 0) fprintf(stderr, "note: %s.\n", argv[i + 1]);
    if (strcmp(argv[i], "--checkpoint") == 0) f.checkpoint = argv[i + 1];
    if (strcmp(argv[i], "--end") == 0) f.end = argv[i + 1];
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
      if (strcmp(argv[i], numbers[k].name) == 0) *numbers[k].value = atol(argv[i + 1]);
  }
  return f;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static const char *number_in(const char *variable, const char *otherwise) {
  return getenv(variable) ? getenv(variable) : otherwise;
}

// As the module in a real program does (src/card/python/plimsoll_live.py). `more` are further members.
static void tell(const flags *f, long step, long allocated, long peak, const char *more) {
  char path[4096];
  const char *folder = getenv("PLIMSOLL_LIVE");
  const long mib = 1 << 20;
  if (!folder) return;
  snprintf(path, sizeof path, "%s/%d.live", folder, getpid());
  FILE *out = fopen(path, "a");
  if (!out) return;
  fprintf(
      out,
      "{\"t\": %.3f, \"step\": %ld, \"rank\": %s, \"world\": %s, \"local_world\": %s, \"phase\": "
      "\"training\", "
      "\"allocated\": %ld, \"reserved\": %ld, \"peak_allocated\": %ld, \"peak_reserved\": %ld, "
      "\"free\": %ld, \"total\": %ld%s}\n",
      seconds(), step, number_in("RANK", "0"), number_in("WORLD_SIZE", "1"),
      number_in("LOCAL_WORLD_SIZE", "null"), allocated * mib, peak * mib, peak * mib, peak * mib,
      (f->card - peak) * mib, f->card * mib, more);
  fclose(out);
}

// The card is full to the last 10 MiB when the next tensor, of 20, is asked for.
static int out_of_memory(const flags *f, long stranded) {
  const long free_mib = 10, allocated = f->card - free_mib - stranded;
  fprintf(
      stderr,
      "Traceback (most recent call last):\n"
      "  File \"/home/user/train.py\", line 31, in <module>\n"
      "    loss = model(**batch).loss\n"
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %ld.00 MiB. GPU 0 has a "
      "total capacity of %.2f GiB of which %ld.00 MiB is free. Including non-PyTorch memory, "
      "this process has %.2f GiB memory in use. Of the allocated memory %.2f GiB is allocated "
      "by PyTorch, and %ld.00 MiB is reserved by PyTorch but unallocated. If reserved but "
      "unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "
      "to avoid fragmentation.\n",
      20L, (double)f->card / 1024, free_mib, (double)(allocated + stranded) / 1024,
      (double)allocated / 1024, stranded);
  return 1;
}

static int end_as_asked(const char *how) {
  if (strcmp(how, "error") == 0) {
    fprintf(stderr,
            "Traceback (most recent call last):\n  File \"/home/user/train.py\", line 7, in "
            "<module>\nValueError: the data has no column text\n");
    return 1;
  }
  if (strcmp(how, "kill") == 0) raise(SIGKILL);
  if (strcmp(how, "host") == 0) {
    fprintf(stderr, "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. "
                    "DefaultCPUAllocator: can't allocate memory: you tried to allocate 99999999999 "
                    "bytes. Error code 12 (Cannot allocate memory)\n");
    return 1;
  }
  if (strcmp(how, "wait") == 0)
    for (;;) pause();
  return 0;
}

static long read_checkpoint(const flags *f) {
  long step = 0;
  FILE *in = f->checkpoint && f->resumes ? fopen(f->checkpoint, "r") : NULL;
  if (in && fscanf(in, "%ld", &step) != 1) step = 0;
  if (in) fclose(in);
  return step;
}

static void write_checkpoint(const flags *f, long step) {
  FILE *out = f->checkpoint ? fopen(f->checkpoint, "w") : NULL;
  if (!out) return;
  fprintf(out, "%ld\n", step);
  fclose(out);
}

static bool is_long(const flags *f, long step) {
  return step == f->long_step || (f->long_every && step % f->long_every == 0);
}

// The failing batch, with those before it: ordinary samples have 512 tokens.
static void tell_failure(const flags *f, long step, long held) {
  char more[128];
  snprintf(more, sizeof more, ", \"oom_bytes\": %d, \"sample_tokens\": %d, \"longest_tokens\": %s",
           20 << 20, is_long(f, step) ? 1024 : 512, step > 1 ? "512" : "null");
  tell(f, step - 1, held, f->card - 10, more);
}

int main(int argc, char **argv) {
  flags f = read_flags(argc, argv);
  for (long step = read_checkpoint(&f) + 1; step <= f.steps; step++) {
    long sample = is_long(&f, step) ? 2 * f.sample : f.sample;
    long held = f.weights + f.leak * step, need = held + f.batch * sample;
    const char *conf = getenv("PYTORCH_CUDA_ALLOC_CONF");
    long stranded = conf && strstr(conf, "expandable_segments:True") ? 0 : f.stranded;
    if (need + stranded > f.card) {
      tell_failure(&f, step, held);
      return out_of_memory(&f, stranded);
    }
    printf("step %ld: %ld samples of %ld at a time\n", step, f.batch * f.accumulation, f.batch);
    fflush(stdout);
    tell(&f, step, held, need, "");
    write_checkpoint(&f, step);
    nanosleep(&(struct timespec){f.step_ms / 1000, f.step_ms % 1000 * 1000000}, NULL);
  }
  return f.end ? end_as_asked(f.end) : 0;
}
