// Logs: whatever a terminal, a launcher or a logger does to a message, the same numbers come out.
#include <sys/resource.h>
#include <unistd.h>

#include "folder.h"
#include "oom_log.h"
#include "test.h"
#include "vec.h"

#define MIB(n) ((uint64_t)((n)*1048576.0 + 0.5))
#define GIB(n) ((uint64_t)((n)*1073741824.0 + 0.5))

typedef vec(char) chars;

static void add(chars *out, const char *text, size_t size) {
  if (!vec_reserve(out, size + 1)) abort();
  memcpy(out->at + out->len, text, size);
  out->len += size;
  out->at[out->len] = 0;
}

static void add_text(chars *out, const char *text) { add(out, text, strlen(text)); }

static plim_oom_log read_log(const char *text, size_t size) {
  plim_oom_log log;
  plim_error error = {0};
  if (plim_oom_log_read_memory(text, size, &log, &error)) printf("%s\n", error.message), abort();
  return log;
}

static plim_oom_log read_text(const char *text) { return read_log(text, strlen(text)); }

// ---- one message in every disguise ------------------------------------------------------------------

static const char MESSAGE[] =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.31 GiB. GPU 5 has a total "
    "capacity of 79.11 GiB of "
    "which 177.38 MiB is free. Process 3894014 has 5.37 GiB memory in use. Including non-PyTorch "
    "memory, this process "
    "has 73.50 GiB memory in use. Of the allocated memory 43.07 GiB is allocated by PyTorch, with "
    "46.00 MiB allocated in "
    "private pools (e.g., CUDA Graphs), and 26.44 GiB is reserved by PyTorch but unallocated. If "
    "reserved but "
    "unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid "
    "fragmentation.  See "
    "documentation for Memory Management  "
    "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";

static bool has_numbers(const plim_oom_log *log) {
  const plim_oom_message *m = &log->message;
  return m->kind == PLIM_OOM_ALLOCATOR && m->device == PLIM_OOM_CUDA && m->index == 5 &&
         m->bytes[PLIM_OOM_WANTED] == GIB(1.31) && m->bytes[PLIM_OOM_TOTAL] == GIB(79.11) &&
         m->bytes[PLIM_OOM_FREE] == MIB(177.38) && m->bytes[PLIM_OOM_PROCESS] == GIB(73.50) &&
         m->bytes[PLIM_OOM_ALLOCATED] == GIB(43.07) && m->bytes[PLIM_OOM_STRANDED] == GIB(26.44) &&
         m->bytes[PLIM_OOM_POOLS] == MIB(46) && m->bytes[PLIM_OOM_ALLOWED] == PLIM_UNKNOWN &&
         m->process_count == 1 && m->processes[0].pid == 3894014 &&
         m->processes[0].bytes == GIB(5.37);
}

static const struct {
  const char *text;
  uint64_t rank;
} prefixes[] = {
    {"", PLIM_UNKNOWN},
    {"[rank3]: ", 3},
    {"[rank17]:", 17},
    {"rank4]: ", 4},
    {"[default2]:", 2},
    {"[1,6]<stderr>:", 6},
    {"12: ", 12},
    {"gpu-q-13: ", PLIM_UNKNOWN},
    {"deep-seek-1  | ", PLIM_UNKNOWN},
    {"ERROR 04-01 23:46:56 [engine.py:160] ", PLIM_UNKNOWN},
    {"> ", PLIM_UNKNOWN},
    {"2026-04-01 23:46:56,789 - ERROR - ", PLIM_UNKNOWN},
    {"[2026-04-01 23:46:56,789] [ERROR] [launch.py:318:sigkill_handler] ", PLIM_UNKNOWN},
    {"2026-04-01T23:46:56.123Z [rank0]: ", 0},
    {"(RayTrainWorker pid=1234, ip=10.0.0.1) ", PLIM_UNKNOWN},
    {"1.06.520.077 E ", PLIM_UNKNOWN},
    {"│ ", PLIM_UNKNOWN},
    {"\x1b[36m(WorkerDict pid=77)\x1b[0m ", PLIM_UNKNOWN},
    {"[36m(WorkerDict pid=77)[0m ", PLIM_UNKNOWN},
};

// Breaks the message every `width` bytes, at blanks if `at_blanks`, and puts the prefix before each piece.
static void wrap(chars *out, const char *prefix, size_t width, bool at_blanks, const char *end) {
  const char *at = MESSAGE;
  while (*at) {
    size_t length = strlen(at) < width ? strlen(at) : width;
    size_t blank = length;
    while (at_blanks && at[length] && blank > 1 && at[blank] != ' ') blank--;
    if (blank > 1) length = blank;
    add_text(out, prefix);
    add(out, at, length);
    add_text(out, end);
    at += length;
  }
}

TEST(any_prefix_and_any_wrapping_give_the_same_numbers) {
  static const size_t widths[] = {17, 40, 41, 79, 80, 100, 120, 5000};
  static const char *const ends[] = {"\n", "\r\n", "  \n", " │\n"};
  for (size_t p = 0; p < sizeof prefixes / sizeof *prefixes; p++)
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
      for (size_t e = 0; e < 8; e++) {
        chars text = {0};
        add_text(&text, "epoch 1 begins\n");
        wrap(&text, prefixes[p].text, widths[w], e & 1, ends[e / 2]);
        plim_oom_log log = read_log(text.at, text.len);
        uint64_t line = 2 + (widths[w] < 24); // "torch.OutOfMemoryError: " has 24 bytes
        bool is_right = has_numbers(&log) && log.message.rank == prefixes[p].rank &&
                        log.message.line <= line + 1 && log.message.line >= 2;
        if (!is_right) printf("%s\n%s\n", text.at, log.message.text);
        vec_free(&text);
        CHECK(is_right, "prefix \"%s\", width %zu, end %zu: rank %" PRIu64 ", line %" PRIu64,
              prefixes[p].text, widths[w], e, log.message.rank, log.message.line);
      }
}

// A colour may begin anywhere, even within a number.
TEST(colours_and_control_characters_do_not_matter) {
  static const char *const marks[] = {"\x1b[31m", "\x1b[0;1;31m", "\x1b]8;;http://x\a",
                                      "\\x1b[0m", "\\u001b[1m",   "^[[31m",
                                      "\b",       "\a",           "\0"};
  for (size_t m = 0; m < sizeof marks / sizeof *marks; m++)
    for (size_t at = 0; at < sizeof MESSAGE - 1; at += 3) {
      chars text = {0};
      add(&text, MESSAGE, at);
      add(&text, marks[m], *marks[m] ? strlen(marks[m]) : 1);
      add_text(&text, MESSAGE + at);
      plim_oom_log log = read_log(text.at, text.len);
      bool is_right = has_numbers(&log);
      vec_free(&text);
      CHECK(is_right, "mark %zu at byte %zu", m, at);
    }
}

TEST(utf_16_of_a_windows_shell_is_read) {
  chars text = {0};
  for (const char *c = MESSAGE; *c; c++) add(&text, (char[]){*c, 0}, 2);
  plim_oom_log log = read_log(text.at, text.len);
  vec_free(&text);
  CHECK(has_numbers(&log), "%s", log.message.text);
}

TEST(a_message_at_the_end_of_a_huge_line_is_found) {
  for (size_t before = 65000; before < 66100; before += 37) {
    chars text = {0};
    for (size_t i = 0; i < before; i++) add(&text, "x", 1);
    add_text(&text, " ");
    add_text(&text, MESSAGE);
    plim_oom_log log = read_log(text.at, text.len);
    vec_free(&text);
    CHECK(has_numbers(&log) && log.message.line == 1, "%zu bytes before", before);
  }
}

TEST(progress_bars_between_carriage_returns_are_lines) {
  chars text = {0};
  for (int i = 0; i <= 40; i++) {
    char bar[96];
    snprintf(bar, sizeof bar, "\r  4%%|▍         | %d/1000 [00:12<06:40,  2.43it/s]", i);
    add_text(&text, bar);
  }
  add_text(&text, MESSAGE);
  add_text(
      &text,
      "\n  4%|▍         | 41/1000 [00:13<06:40,  2.43it/s]\n"); // tqdm draws once more when it is closed
  plim_oom_log log = read_log(text.at, text.len);
  vec_free(&text);
  CHECK(has_numbers(&log), "%s", log.message.text);
  CHECK_U64(log.facts.step, 40u);
  CHECK_U64(log.facts.total_steps, 1000u);
  CHECK_U64(log.facts.later_step, PLIM_UNKNOWN);
}

TEST(steps_are_read_as_programs_print_them) {
  static const struct {
    const char *line;
    uint64_t step, total;
  } cases[] = {
      {" 41%|████      | 412/1000 [01:02<01:30,  6.5it/s]", 412, 1000},
      {"Epoch 3:  41%|████ | 17/40 [00:02<00:03, loss=1.2]", 17, 40},
      {"loss: 5.09 ||: : 8613it [27:42,  5.34it/s]", 8613, PLIM_UNKNOWN},
      {"Epoch: [0][415/1736]  Loss 0.5844 MAE 0.65", 415, 1736},
      {"[Epoch 10/250][Iter 2060/2068][lr 0.001][Loss: obj 19.60]", 2060, PLIM_UNKNOWN},
      {"step 77 | loss 2.31 | lr 1e-4", 77, PLIM_UNKNOWN},
      {"{'loss': 1.2, 'global_step': 90}", 90, PLIM_UNKNOWN},
      {"ep 13 train, step 95, ctc 4.29, 0.750 sec/step", 95, PLIM_UNKNOWN},
      {"Loading checkpoint shards:  33%|███  | 1/3 [00:02<00:04,  2.1s/it]", PLIM_UNKNOWN,
       PLIM_UNKNOWN},
      {"Map:  50%|█████ | 500/1000 [00:02<00:04, 2.1 examples/s]", PLIM_UNKNOWN, PLIM_UNKNOWN},
      {"a step 12 that says nothing of the training", PLIM_UNKNOWN, PLIM_UNKNOWN},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[512];
    snprintf(text, sizeof text,
             "%s\nRuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB\n", cases[i].line);
    plim_oom_log log = read_text(text);
    CHECK(log.facts.step == cases[i].step && log.facts.total_steps == cases[i].total,
          "%s: %" PRIu64 " of %" PRIu64, cases[i].line, log.facts.step, log.facts.total_steps);
  }
}

TEST(the_bar_of_an_evaluation_tells_the_phase) {
  static const char tail[] = "\nRuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB\n";
  static const struct {
    const char *bars;
    bool is_evaluating;
  } cases[] = {
      {"Validating:  15%|████ | 513/3434 [2:04:33<16:18:51, 20.11s/it]", true},
      {"0/10 * Epoch (valid):   3% 1/32 [00:01<00:46,  1.50s/it, loss=1.656]", true},
      {"Evaluating:  15%|████ | 5/34 [00:33<18:51, 2.1s/it]\nstep 3 loss 2.0", false},
      {"Epoch 1:  15%|████ | 5/34 [00:33<18:51, 2.1s/it]", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[512];
    snprintf(text, sizeof text, "%s%s", cases[i].bars, tail);
    plim_oom_log log = read_text(text);
    CHECK(log.facts.is_evaluating == cases[i].is_evaluating, "%s", cases[i].bars);
  }
}

TEST(a_message_before_its_traceback_gets_it) {
  plim_oom_log log = read_text(
      "2026-01-01 00:00:00 ERROR: CUDA out of memory. Tried to allocate 1.00 GiB\n"
      "Traceback (most recent call last):\n  File \"run.py\", line 9, in evaluate\n    x()\n"
      "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB\n");
  CHECK_U64(log.message.line, 1u);
  CHECK_STR(log.message.stack.own.file, "run.py");
}

TEST(an_old_traceback_does_not_belong_to_a_message) {
  chars text = {0};
  add_text(&text, "Traceback (most recent call last):\n  File \"setup.py\", line 9, in evaluate\n  "
                  "  x()\nImportError: no\n");
  for (int i = 0; i < 30; i++) add_text(&text, "going on\n");
  add_text(&text, "CUDA out of memory. Tried to allocate 1.00 GiB\n");
  plim_oom_log log = read_log(text.at, text.len);
  vec_free(&text);
  CHECK_STR(log.message.stack.own.file, "");
}

// ---- which message counts ---------------------------------------------------------------------------

TEST(ranks_that_are_interleaved_are_kept_apart) {
  plim_oom_log log = read_text(
      "[rank1]: Traceback (most recent call last):\n"
      "[rank0]: Traceback (most recent call last):\n"
      "[rank1]:   File \"/home/me/one.py\", line 11, in train\n"
      "[rank0]:   File \"/home/me/zero.py\", line 10, in train\n"
      "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU\n"
      "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 7.50 GiB. GPU\n"
      "[rank0]: 0 has a total capacity of 40.00 GiB of which 0 bytes is free.\n"
      "[rank1]: 1 has a total capacity of 24.00 GiB of which 1.00 MiB is free.\n"
      "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n");
  CHECK_U64(log.message.rank, 1u);
  CHECK_U64(log.message.line, 5u);
  CHECK_U64(log.message.bytes[PLIM_OOM_WANTED], GIB(1.5));
  CHECK_U64(log.message.bytes[PLIM_OOM_TOTAL], GIB(24));
  CHECK_U64(log.message.bytes[PLIM_OOM_FREE], MIB(1));
  CHECK_STR(log.message.stack.own.file, "/home/me/one.py");
  CHECK_U64(log.message.stack.own.line, 11u);
  CHECK_U64(log.facts.failed_ranks, 2u);
  CHECK_U64(log.consequence_line, 9u);
}

TEST(numbers_of_a_second_message_are_not_mixed_in) {
  plim_oom_log log = read_text(
      "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 6.00 GiB total "
      "capacity; 5.00 GiB already allocated)\n"
      "During handling of the above exception, another exception occurred:\n"
      "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 6.00 GiB total "
      "capacity; 4.00 GiB already allocated; 7.00 MiB free; 5.50 GiB reserved in total)\n");
  CHECK_U64(log.message.bytes[PLIM_OOM_WANTED], GIB(2));
  CHECK_U64(log.message.bytes[PLIM_OOM_FREE], PLIM_UNKNOWN);
}

TEST(an_error_that_was_survived_gives_way_to_the_one_that_ended_the_run) {
  plim_oom_log log = read_text("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
                               "step 1 loss 3.1\nstep 2 loss 3.0\nstep 3 loss 2.9\n"
                               "RuntimeError: CUDA out of memory. Tried to allocate 3.00 GiB\n");
  CHECK_U64(log.message.line, 5u);
  CHECK_U64(log.facts.survived, 1u);
  CHECK_U64(log.facts.step, 3u);
  log = read_text("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
                  "step 1 loss 3.1\nstep 2 loss 3.0\nstep 3 loss 2.9\n");
  CHECK_U64(log.message.line, 1u);
  CHECK_U64(log.facts.later_step, 3u);
}

TEST(a_killed_process_after_a_gpu_error_is_a_consequence) {
  plim_oom_log log =
      read_text("[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB.\n"
                "failed (exitcode: -9) local_rank: 0 (pid: 27657) of binary: python\nKilled\n");
  CHECK(log.message.kind == PLIM_OOM_ALLOCATOR, "%s", plim_oom_kind_name(log.message.kind));
  log = read_text(
      "failed (exitcode: -9) local_rank: 0 (pid: 27657) of binary: python\n"
      "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=14604003.batch cgroup.\n");
  CHECK(log.message.kind == PLIM_OOM_HOST_KILLER, "%s", plim_oom_kind_name(log.message.kind));
}

// ---- what is no message -----------------------------------------------------------------------------

TEST(ordinary_text_is_no_message) {
  static const char *const logs[] = {
      "",
      "\n\n\n",
      "If you run out of memory, use a smaller batch.\n",
      "exitcode: -90\n",
      "the process was Killed by a joke\n",
      "Cuda failure 1 'invalid argument'\n",
      "CUDA error: device-side assert triggered\n",
      "NCCL WARN Cuda failure 999 'unknown error'\n",
      "python: line 3: not Killed\n",
      "            \"OOMKilled\": false,\n",
  };
  for (size_t i = 0; i < sizeof logs / sizeof *logs; i++) {
    plim_oom_log log = read_text(logs[i]);
    CHECK(log.message.kind == PLIM_OOM_NONE, "%s: %s", logs[i],
          plim_oom_kind_name(log.message.kind));
  }
}

TEST(the_last_error_of_another_kind_is_told) {
  plim_oom_log log = read_text(
      "step 1 loss 2\nTraceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n"
      "ValueError: Expected input batch_size (3) to match target batch_size (4).\n");
  CHECK_U64(log.last_error_line, 4u);
  CHECK_STR(log.last_error,
            "ValueError: Expected input batch_size (3) to match target batch_size (4).");
  CHECK_U64(log.lines, 4u);
}

// ---- sizes ------------------------------------------------------------------------------------------

TEST(sizes_are_read_as_programs_write_them) {
  static const struct {
    const char *text;
    uint64_t bytes;
  } cases[] = {
      {"12.50 MiB", MIB(12.5)}, {"0 bytes", 0},
      {"256 bytes", 256},       {"1.00 KiB", 1024},
      {"1024.00 MB", GIB(1)},   {"1900,00 MiB", MIB(1900)},
      {"3G", GIB(3)},           {"1.5 TiB", GIB(1536)},
      {"926. GiB", GIB(926)},   {"17179869184.00 GiB", PLIM_UNKNOWN},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[160];
    snprintf(text, sizeof text, "CUDA out of memory. Tried to allocate %s. GPU 0 has",
             cases[i].text);
    plim_oom_log log = read_text(text);
    CHECK(log.message.bytes[PLIM_OOM_WANTED] == cases[i].bytes, "%s: %" PRIu64, cases[i].text,
          log.message.bytes[PLIM_OOM_WANTED]);
    CHECK(log.message.is_impossible[PLIM_OOM_WANTED] == (cases[i].bytes == PLIM_UNKNOWN), "%s",
          cases[i].text);
  }
}

// ---- tracebacks -------------------------------------------------------------------------------------

typedef struct {
  const char *frames;
  plim_run_phase phase;
  plim_run_moment moment;
} stack_case;

#define LIB "/opt/conda/lib/python3.11/site-packages/"
#define FRAME(file, function) "  File \"" file "\", line 7, in " function "\n    x()\n"

static const stack_case stacks[] = {
    {FRAME("train.py", "<module>") FRAME(LIB "transformers/trainer.py", "_inner_training_loop")
         FRAME(LIB "transformers/trainer.py", "evaluation_loop")
             FRAME(LIB "transformers/trainer_pt_utils.py", "nested_concat"),
     PLIM_RUN_EVALUATION, PLIM_RUN_IN_UNKNOWN},
    {FRAME("train.py", "<module>") FRAME(LIB "transformers/modeling_utils.py", "from_pretrained")
         FRAME(LIB "transformers/modeling_utils.py", "load_state_dict"),
     PLIM_RUN_LOADING, PLIM_RUN_IN_UNKNOWN},
    {FRAME("train.py", "main") FRAME(LIB "transformers/trainer.py", "_save_checkpoint")
         FRAME(LIB "torch/x.py", "state_dict"),
     PLIM_RUN_SAVING, PLIM_RUN_IN_UNKNOWN},
    {FRAME("train.py", "main") FRAME(LIB "transformers/trainer.py", "_load_from_checkpoint")
         FRAME(LIB "torch/nn/modules/module.py", "load_state_dict"),
     PLIM_RUN_RESUMING, PLIM_RUN_IN_UNKNOWN},
    {FRAME("train.py", "main") FRAME(LIB "transformers/trainer.py", "training_step")
         FRAME(LIB "torch/_tensor.py", "backward"),
     PLIM_RUN_TRAINING, PLIM_RUN_IN_BACKWARD},
    {FRAME("train.py", "main") FRAME(LIB "torch/optim/adamw.py", "step")
         FRAME(LIB "torch/optim/adamw.py", "_init_group"),
     PLIM_RUN_UNKNOWN, PLIM_RUN_IN_OPTIMIZER},
    // Lightning runs the forward pass within the optimizer's step.
    {FRAME("train.py", "main") FRAME(LIB "torch/optim/adamw.py", "step")
         FRAME(LIB "lightning/x.py", "closure") FRAME(LIB "lightning/x.py", "training_step")
             FRAME("model.py", "forward"),
     PLIM_RUN_TRAINING, PLIM_RUN_IN_FORWARD},
    {FRAME("train.py", "main") FRAME(LIB "transformers/x.py", "ForCausalLMLoss")
         FRAME(LIB "torch/nn/functional.py", "cross_entropy"),
     PLIM_RUN_UNKNOWN, PLIM_RUN_IN_LOSS},
    {FRAME("train.py", "main") FRAME(LIB "torch/utils/data/_utils/pin_memory.py", "do_one_step"),
     PLIM_RUN_UNKNOWN, PLIM_RUN_IN_PINNING},
    {"  ╭─ frame ─╮\n│ /home/me/train.py:7 in <module>   │\n│ /home/me/train.py:9 in validate │\n",
     PLIM_RUN_EVALUATION, PLIM_RUN_IN_UNKNOWN},
    {"File /usr/lib/python3/dist-packages/transformers/trainer.py:2113, in Trainer.evaluate(self, "
     "x)\n",
     PLIM_RUN_EVALUATION, PLIM_RUN_IN_UNKNOWN},
    {"/usr/lib/python3/dist-packages/transformers/trainer.py in evaluate(self, x)\n",
     PLIM_RUN_EVALUATION, PLIM_RUN_IN_UNKNOWN},
};

TEST(the_traceback_tells_the_phase) {
  for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++) {
    chars text = {0};
    add_text(&text, "Traceback (most recent call last):\n  File \"old.py\", line 1, in "
                    "evaluate\nValueError: x\n");
    add_text(&text, "Traceback (most recent call last):\n");
    add_text(&text, stacks[i].frames);
    add_text(&text, "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB\n");
    plim_oom_log log = read_log(text.at, text.len);
    vec_free(&text);
    const plim_oom_stack *s = &log.message.stack;
    CHECK(s->phase == stacks[i].phase && s->moment == stacks[i].moment,
          "case %zu: phase %s, moment %s", i, plim_run_phase_name(s->phase),
          plim_run_moment_name(s->moment));
  }
}

TEST(the_users_own_line_is_told) {
  plim_oom_log log = read_text(
      "Traceback (most recent call last):\n" FRAME("/home/me/train.py", "<module>")
          FRAME("/home/me/loop.py", "fit") FRAME(LIB "torch/_tensor.py", "backward")
              FRAME("<frozen runpy>",
                    "_run") "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB\n");
  CHECK_STR(log.message.stack.script.file, "/home/me/train.py");
  CHECK_STR(log.message.stack.own.file, "/home/me/loop.py");
  CHECK_STR(log.message.stack.own.function, "fit");
  CHECK_STR(log.message.stack.own.code, "x()");
}

// The function resumed of plimsoll_resume.py is on the stack during all of a training that was resumed.
TEST(the_functions_of_plimsoll_tell_nothing) {
  plim_oom_log log =
      read_text("Traceback (most recent call last):\n"
                "  File \"/home/me/train.py\", line 24, in <module>\n"
                "    trainer.train()\n"
                "  File \"/usr/lib/plimsoll/python/plimsoll_resume.py\", line 47, in resumed\n"
                "    return train(self, resume_from_checkpoint, *args, **kwargs)\n"
                "  File \"/v/site-packages/transformers/trainer.py\", line 9, in training_step\n"
                "    loss.backward()\n"
                "  File \"/usr/lib/plimsoll/python/plimsoll_hook.py\", line 109, in backward\n"
                "    return function(*args, **kwargs)\n"
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n");
  const plim_oom_stack *s = &log.message.stack;
  CHECK(s->phase == PLIM_RUN_TRAINING, "phase %d", s->phase);
  CHECK_STR(s->own.file, "/home/me/train.py");
  CHECK_STR(s->own.code, "trainer.train()");
}

TEST(a_traceback_within_a_json_string_is_read) {
  plim_oom_log log = read_text(
      "{\"log\":\"Traceback (most recent call last):\\n  File \\\"/home/me/train.py\\\", line 12, "
      "in "
      "evaluate\\n    x()\\nRuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB\\n\"}\n");
  CHECK_STR(log.message.stack.own.file, "/home/me/train.py");
  CHECK_U64(log.message.stack.own.line, 12u);
  CHECK(log.message.stack.phase == PLIM_RUN_EVALUATION, "%s",
        plim_run_phase_name(log.message.stack.phase));
}

// ---- the rest ---------------------------------------------------------------------------------------

TEST(settings_that_the_log_shows_are_kept) {
  plim_oom_log log = read_text(
      "+ export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"
      "+ python train.py --lr 1e-4\n"
      "  Instantaneous batch size per device = 8\n"
      "  Gradient Accumulation steps = 4\n"
      "  Total train batch size (w. parallel, distributed & accumulation) = 64\n"
      "Token indices sequence length is longer than the specified maximum sequence length for this "
      "model (5000 > 2048). Running\n"
      "MA 11.76 GB         Max_MA 11.76 GB         CA 11.77 GB         Max_CA 12 GB \n"
      "Saved snapshot to /tmp/oom_snapshot.pickle\n"
      "CUDA out of memory. Tried to allocate 1.00 GiB. try setting "
      "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:1\n");
  const plim_oom_facts *f = &log.facts;
  CHECK_STR(f->alloc_conf, "expandable_segments:True");
  CHECK_STR(f->command, "python train.py --lr 1e-4");
  CHECK_STR(f->snapshot, "/tmp/oom_snapshot.pickle");
  CHECK_U64(f->micro_batch, 8u);
  CHECK_U64(f->accumulation, 4u);
  CHECK_U64(f->effective_batch, 64u);
  CHECK_U64(f->sample_tokens, 5000u);
  CHECK_U64(f->sample_limit, 2048u);
  CHECK_U64(f->deepspeed_allocated_bytes, GIB(11.76));
  CHECK_U64(f->deepspeed_reserved_bytes, GIB(11.77));
}

TEST(junk_is_no_message_and_no_crash) {
  chars text = {0};
  uint64_t random = 88172645463325252ull;
  for (int i = 0; i < 1 << 20; i++) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    add(&text, (const char *)&random, 1);
  }
  add_text(&text, "\n");
  add_text(&text, MESSAGE);
  text.at[0] = 'x'; // no magic number of a compressed file
  plim_oom_log log = read_log(text.at, text.len);
  vec_free(&text);
  CHECK(has_numbers(&log), "%s", log.message.text);
}

static uint64_t most_memory_bytes(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (uint64_t)usage.ru_maxrss * 1024;
}

// One line of 256 MiB (of NULs, in a sparse file), then the message.
TEST(memory_does_not_grow_with_the_log) {
  const off_t huge = 256 << 20;
  plim_oom_log log;
  plim_error error = {0};
  folder_make();
  folder_write_text("huge.log", "");
  bool is_made = truncate(folder_path("huge.log"), huge) == 0;
  FILE *file = fopen(folder_path("huge.log"), "a");
  is_made = is_made && file && fputs(MESSAGE, file) >= 0;
  if (file) fclose(file);
  uint64_t before = most_memory_bytes();
  plim_err err = plim_oom_log_read(folder_path("huge.log"), &log, &error);
  uint64_t grown = most_memory_bytes() - before;
  folder_remove();
  CHECK(is_made && !err, "%s", error.message);
  CHECK(has_numbers(&log) && log.lines == 1, "%s", log.message.text);
  CHECK(grown < 32 * PLIM_MIB, "%" PRIu64 " bytes more", grown);
}

TEST_MAIN
