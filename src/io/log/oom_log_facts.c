// What a log shows beside the message: progress, batch sizes, settings, and how it ended.
#include <ctype.h>
#include <string.h>

#include "oom_log_impl.h"

// ---- progress ---------------------------------------------------------------------------------------

// Bars that are not the training's.
static bool is_other_bar(log_text line) {
  static const char *const words[] = {
      "Loading", "Map",    "Filter",  "Tokeniz", "Download",   "Fetch",     "Generat", "Sav",
      "Eval",    "Valid",  "Writing", "Packing", "Convert",    "Sanity",    "Testing", "Predict",
      "Running", "Adding", "Extract", "Process", "Truncating", "Materializ"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (log_starts(line, words[i])) return true;
  return false;
}

// tqdm's " 3%|... | 30/1000 [00:12<06:40,  2.43it/s]"
static bool read_bar(log_text line, uint64_t *step, uint64_t *total) {
  log_text rest = log_after(line, "%|");
  if (!rest.at || is_other_bar(line)) return false;
  const char *bar = memrchr(rest.at, '|', rest.size);
  if (!bar) return false;
  log_text count = log_trim((log_text){bar + 1, rest.size - (size_t)(bar + 1 - rest.at)});
  log_text limit = log_after(count, "/");
  return limit.at && log_count(count, step) && log_count(limit, total) && log_has(limit, "[");
}

static bool is_loss(log_text line) {
  return line.size < 2000 &&
         (log_has(line, "loss") || log_has(line, "Loss") || log_has(line, "/step"));
}

// "step 500 | loss 2.12", "iter 12: loss", "[500/1000] loss", "global_step=500": a number after a word, and a loss.
static bool read_step(log_text line, uint64_t *step) {
  static const char *const words[] = {"global_step", "num_updates", "Step", "step",
                                      "iteration",   "Iteration",   "iter", "Iter"};
  if (!is_loss(line)) return false;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    log_text rest = log_after(line, words[i]);
    if (!rest.at) continue;
    while (rest.size && memchr(" =:['\"", *rest.at, 6)) rest.at++, rest.size--;
    if (log_count(rest, step)) return true;
  }
  return false;
}

// tqdm without a total: "8613it [27:42,  5.34it/s]"
static bool read_open_bar(log_text line, uint64_t *step) {
  log_text rest = log_after(line, "it [");
  const char *begin = rest.at ? rest.at - strlen("it [") : NULL;
  if (!begin || is_other_bar(line)) return false;
  const char *digits = begin;
  while (digits > line.at && isdigit((unsigned char)digits[-1])) digits--;
  return log_count((log_text){digits, (size_t)(begin - digits)}, step);
}

// "Epoch: [0][415/1736]  Loss 0.58"
static bool read_fraction(log_text line, uint64_t *step, uint64_t *total) {
  for (log_text rest = line; (rest = log_after(rest, "[")).at;) {
    size_t digits = 0;
    while (digits < rest.size && isdigit((unsigned char)rest.at[digits])) digits++;
    bool is_number = digits && digits < rest.size && rest.at[digits] == '/';
    log_text limit = {rest.at + digits + 1, is_number ? rest.size - digits - 1 : 0};
    if (is_number && log_count(rest, step) && log_count(limit, total)) return true;
  }
  return false;
}

static void note_step(log_watch *w, uint64_t step, uint64_t total) {
  bool is_same = total == w->bar_total && w->bar_step != PLIM_UNKNOWN;
  bool is_inner = total != w->bar_total && total != PLIM_UNKNOWN && total != w->outer_total;
  if (is_same && step > w->bar_step) w->advances++;
  if (total == w->outer_total) w->outer_step = w->outer_total = PLIM_UNKNOWN; // it goes on
  else if (is_inner && w->bar_total != PLIM_UNKNOWN && w->bar_step < w->bar_total)
    w->outer_step = w->bar_step, w->outer_total = w->bar_total;
  w->bar_step = step;
  w->bar_total = total;
}

// The bar of an evaluation: "Validating:  15%|", "0/10 * Epoch (valid):   3% 1/32 ["
static bool is_evaluation_bar(log_text line) {
  static const char *const words[] = {"Evaluat", "Validat", "eval", "valid"};
  log_text percent = log_after(line, "%");
  log_text head = {line.at, percent.at ? (size_t)(percent.at - line.at) : 0};
  if (!percent.at || !log_has(percent, "[") || head.size > 200) return false;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (log_starts(head, words[i])) return true;
  return log_has(head, "(valid)") || log_has(head, "(val)");
}

void log_watch_progress(log_watch *w, log_text line) {
  uint64_t step, total;
  bool is_evaluation = is_evaluation_bar(line);
  if (is_evaluation) w->is_evaluating = true;
  if (is_evaluation || (log_has(line, "%|") && is_other_bar(line))) return;
  if (read_bar(line, &step, &total)) note_step(w, step, total);
  else if (read_step(line, &step) || read_open_bar(line, &step)) note_step(w, step, PLIM_UNKNOWN);
  else if (is_loss(line) && read_fraction(line, &step, &total)) note_step(w, step, total);
  else return;
  w->is_evaluating = false;
}

// ---- settings ---------------------------------------------------------------------------------------

static void watch_number(log_text line, const char *words, uint64_t *value) {
  log_text rest = log_after(line, words);
  if (!rest.at) return;
  while (rest.size && memchr(" =:", *rest.at, 3)) rest.at++, rest.size--;
  log_count(rest, value);
}

// A value up to a blank or a quote.
static void copy_word(char *out, size_t size, log_text rest) {
  size_t length = 0;
  while (rest.size && (*rest.at == '\'' || *rest.at == '"')) rest.at++, rest.size--;
  while (length < rest.size && !memchr(" '\";)", rest.at[length], 5)) length++;
  log_copy(out, size, (log_text){rest.at, length});
}

// PyTorch's own advice names the variable too: "try setting PYTORCH_ALLOC_CONF=..."
static void watch_alloc_conf(plim_oom_facts *f, log_text line) {
  static const char *const names[] = {"PYTORCH_CUDA_ALLOC_CONF=", "PYTORCH_ALLOC_CONF="};
  for (size_t i = 0; i < 2; i++) {
    log_text rest = log_after(line, names[i]);
    size_t before = rest.at ? (size_t)(rest.at - line.at) - strlen(names[i]) : 0;
    log_text head = {line.at, before};
    bool is_run = log_has(head, "set for this run: "); // a line of plimsoll run
    if (!rest.at || log_has(head, "setting") || (log_has(head, "set ") && !is_run)) continue;
    copy_word(f->alloc_conf, sizeof f->alloc_conf, rest);
    size_t length = strlen(f->alloc_conf);
    if (length && f->alloc_conf[length - 1] == ',') f->alloc_conf[length - 1] = 0;
  }
}

static void watch_snapshot(plim_oom_facts *f, log_text line) {
  log_text rest = log_after(line, ".pickle");
  if (!rest.at || !(log_has(line, "napshot"))) return;
  size_t end = (size_t)(rest.at - line.at), begin = end;
  while (begin && !memchr(" '\"=(", line.at[begin - 1], 5)) begin--;
  log_copy(f->snapshot, sizeof f->snapshot, (log_text){line.at + begin, end - begin});
}

// A training command that the shell echoed (set -x, a prompt) or that a launcher printed.
static void watch_command(plim_oom_facts *f, log_text line) {
  static const char *const marks[] = {"+ ", "$ "};
  static const char *const launchers[] = {"python", "torchrun ", "accelerate launch", "deepspeed "};
  if (*f->command || line.size > sizeof f->command) return;
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
    log_text rest =
        log_starts(line, marks[i]) || i >= 2 ? log_after(line, marks[i]) : (log_text){0};
    if (!rest.at || (!log_has(rest, ".py") && !log_has(rest, " -m "))) continue;
    for (size_t j = 0; j < sizeof launchers / sizeof *launchers; j++)
      if (log_starts(rest, launchers[j])) log_copy(f->command, sizeof f->command, log_trim(rest));
    if (*f->command) return;
  }
}

// "[2026-..] [utils.py:782:see_memory_usage] MA 11.76 GB   Max_MA 11.76 GB   CA 11.77 GB   Max_CA 12 GB"
static void watch_deepspeed(plim_oom_facts *f, log_text line) {
  char text[64];
  log_text used = log_after(line, "MA "), reserved = log_after(line, " CA ");
  if (!log_has(line, "Max_MA") || !used.at || !reserved.at) return;
  log_copy(text, sizeof text, log_trim(used));
  log_read_size(text, &f->deepspeed_allocated_bytes);
  log_copy(text, sizeof text, log_trim(reserved));
  log_read_size(text, &f->deepspeed_reserved_bytes);
}

// "Token indices sequence length is longer than the specified maximum ... (5000 > 2048)": the longest is kept.
static void watch_samples(plim_oom_facts *f, log_text line) {
  log_text rest = log_after(line, "equence length is longer than the specified maximum");
  log_text count = rest.at ? log_after(rest, "(") : rest;
  log_text limit = count.at ? log_after(count, "> ") : count;
  uint64_t tokens, most;
  if (!limit.at || !log_count(count, &tokens) || !log_count(limit, &most)) return;
  if (f->sample_tokens != PLIM_UNKNOWN && tokens <= f->sample_tokens) return;
  f->sample_tokens = tokens;
  f->sample_limit = most;
}

// The warnings of plimsoll run: "memory grows by 2.00 MiB per step; full at about step 510", "train.py:6 (main) leaves 2.00 MiB
// in memory after each step".
static void watch_growth(plim_oom_facts *f, log_text line) {
  static const char mark[] = "plimsoll: ";
  char text[64];
  log_text growth = log_after(line, "memory grows by "), leak = log_after(line, mark);
  if (growth.at && log_has(growth, " per step")) {
    log_copy(text, sizeof text, growth);
    log_read_size(text, &f->growth_bytes);
  }
  if (!*f->leak && log_has(line, " in memory after each step"))
    log_copy(f->leak, sizeof f->leak, leak.at ? leak : line);
}

void log_watch_settings(log_watch *w, log_text line) {
  plim_oom_facts *f = &w->facts;
  if (line.size > 4000) return;                                // no program prints its settings so
  watch_number(line, "atch size per device", &f->micro_batch); // Unsloth prints it too
  watch_number(line, "Gradient Accumulation steps", &f->accumulation);
  watch_number(line, "Gradient accumulation steps", &f->accumulation);
  watch_number(line, "distributed & accumulation)", &f->effective_batch);
  watch_alloc_conf(f, line);
  watch_snapshot(f, line);
  watch_command(f, line);
  watch_deepspeed(f, line);
  watch_samples(f, line);
  watch_growth(f, line);
  f->has_memcg |= log_has(line, "CONSTRAINT_MEMCG") ||
                  log_has(line, "Memory cgroup out of memory") ||
                  log_has(line, "cgroup out-of-memory");
  f->has_vllm |= log_has(line, "vllm") || log_has(line, "vLLM");
  f->has_wsl |= log_has(line, "microsoft-standard") || log_has(line, "/mnt/c/");
  f->has_idle_checkpointing |= log_has(line, "None of the inputs have requires_grad=True");
}

// ---- errors -----------------------------------------------------------------------------------------

// The line begins with a name such as torch.cuda.OutOfMemoryError, followed by a colon or nothing.
log_text log_error_of(log_text line) {
  static const char *const ends[] = {"Error", "Exception", "Interrupt", "Exit", "Timeout"};
  static const char *const others[] = {
      "Segmentation fault",     "Fatal Python error",    "Bus error",
      "terminate called after", "Aborted (core dumped)", "Floating point exception",
      "Illegal instruction"};
  const log_text none = {NULL, 0};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (log_starts(line, others[i])) return line;
  size_t length = 0;
  while (
      length < line.size && length < 120 &&
      (isalnum((unsigned char)line.at[length]) || line.at[length] == '.' || line.at[length] == '_'))
    length++;
  if (!length || (length < line.size && line.at[length] != ':')) return none;
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    size_t end = strlen(ends[i]);
    if (length >= end && memcmp(line.at + length - end, ends[i], end) == 0) return line;
  }
  return none;
}

bool log_is_cancelled(log_text line) {
  static const char *const words[] = {"DUE TO TIME LIMIT",   "DUE TO PREEMPTION",
                                      "DUE TO NODE FAILURE", "DUE TO JOB REQUEUE",
                                      "TERM_RUNLIMIT",       "exceeded limit walltime"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (log_has(line, words[i])) return true;
  return log_has(line, "CANCELLED AT") && log_has(line, "slurmstepd");
}

bool log_is_consequence(log_text error) {
  static const char *const words[] = {
      "ChildFailedError", "NCCL",        "Watchdog caught",  "CalledProcessError",
      "ConnectionReset",  "BrokenPipe",  "Connection reset", "SIGTERM",
      "DistBackendError", "DistNetwork", "ProcessExited",    "ProcessRaised"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (log_has(error, words[i])) return true;
  return false;
}
