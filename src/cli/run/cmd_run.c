// plimsoll run: starts a training program, follows it, explains why it ran out of memory, and goes on with other settings.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli_alloc.h"
#include "command.h"
#include "command_words.h"
#include "launch.h"
#include "quoting.h"
#include "recover.h"
#include "run.h"
#include "run_plan.h"
#include "run_show.h"
#include "sandbox.h"
#include "simulate_report.h"
#include "units.h"

typedef struct {
  const char *notify, *resume;
  uint64_t retries;
  uint64_t cap_bytes, spill_mib;
  bool is_kept, has_no_check, has_hook;
  savers_args savers;
  cli_strings set;
} run_args;

static const run_args defaults = {.retries = 3};

#define OUT_OF_MEMORY "out of memory"

typedef struct {
  const run_args *args;
  run r;
  recovery recovery;
  run_planned planned;
  run_variables helpful;
  vec(const char *) variables; // of the program's environment; ends with NULL
  vec(char *) resume;          // the words of --resume; owned
  vec(const char *) words;     // of the command, with those
  char began[64];              // "PLIMSOLL_RESUME=..."
  int status, not_started;     // of the last start
  const char *how;             // it ended
  char changed[512];           // with what it was started again; empty: as the user typed it
} work;

// ---- the environment --------------------------------------------------------------------------------

static void add_variable(work *w, const char *setting) {
  if (w->variables.len) w->variables.len--; // the NULL
  if (!vec_push(&w->variables, setting) || !vec_push(&w->variables, NULL)) cli_out_of_memory();
}

// In force for the program.
static const char *allocator_settings(const work *w) {
  static const char name[] = "PYTORCH_CUDA_ALLOC_CONF=";
  const char *users = getenv("PYTORCH_CUDA_ALLOC_CONF");
  for (size_t i = w->variables.len; i-- > 0;) // the last one counts
    if (w->variables.at[i] && strncmp(w->variables.at[i], name, sizeof name - 1) == 0)
      return w->variables.at[i] + sizeof name - 1;
  return users ? users : "";
}

static plim_err set_environment(work *w, plim_error *error) {
  plim_err err = run_helpful(&w->r.options, &w->helpful, error);
  if (err) return err;
  if (!vec_push(&w->variables, NULL)) cli_out_of_memory();
  add_variable(w,
               "PLIMSOLL_FIRST=1"); // a model that is in memory twice is found after the first step
  for (char **at = w->r.hook_variables; *at; at++) add_variable(w, *at);
  for (size_t i = 0; i < w->helpful.len; i++) add_variable(w, w->helpful.at[i].setting);
  w->recovery.has_expandable = strstr(allocator_settings(w), "expandable_segments:True");
  return PLIM_OK;
}

// ---- one start --------------------------------------------------------------------------------------

typedef struct {
  work *w;
  bool is_odd; // a word is not a literal
} reading;

static void take_word(void *to, size_t command, const char *word, size_t size) {
  reading *r = to;
  plim_bytes text = {0};
  bool is_out = false;
  if (plim_word_read(PLIM_WORD_WORD, word, (plim_span){0, size}, &text, &is_out) && !command) {
    if (!vec_push(&r->w->resume, text.at)) cli_out_of_memory();
  } else r->is_odd = true, vec_free(&text);
  if (is_out) cli_out_of_memory();
}

// Reads --resume as a shell would, before the program runs.
static plim_err read_resume(work *w, plim_error *error) {
  reading r = {.w = w};
  const char *text = w->args->resume;
  if (!text) return PLIM_OK;
  plim_err err = plim_command_words(PLIM_FORMAT_SHELL, text, strlen(text), take_word, &r);
  if (!err && !r.is_odd) return PLIM_OK;
  plim_fail(
      error, PLIM_ERR_ARGUMENT,
      "--resume: \"%.120s\" is not a list of plain words; variables, redirections and several "
      "commands are not possible here",
      text);
  plim_error_hint(error, "--resume=\"--resume-from last.pt\"");
  return PLIM_ERR_ARGUMENT;
}

static void set_command(work *w, bool is_again) {
  w->words.len = 0;
  for (const char *const *at = recovery_command(&w->recovery); *at; at++)
    if (!vec_push(&w->words, *at)) cli_out_of_memory();
  for (size_t i = 0; is_again && i < w->resume.len; i++)
    if (!vec_push(&w->words, w->resume.at[i])) cli_out_of_memory();
  if (!vec_push(&w->words, NULL)) cli_out_of_memory();
}

static plim_err start(work *w, bool is_again, run_end *end, plim_error *error) {
  set_command(w, is_again);
  if (is_again) {
    snprintf(w->began, sizeof w->began, "PLIMSOLL_RESUME=%.3f", w->r.began);
    add_variable(w, w->began);
    for (const char *const *at = recovery_variables(&w->recovery); *at; at++) add_variable(w, *at);
  }
  run_settings settings = {.command = w->words.at,
                           .variables = w->variables.at,
                           .savers = &w->args->savers,
                           .before = recovery_put,
                           .after = recovery_restore,
                           .context = &w->recovery};
  plim_err err = run_once(&w->r, &settings, end, error);
  if (!err) w->status = end->status;
  w->not_started = end->not_started;
  return err;
}

// ---- its end ----------------------------------------------------------------------------------------

// A script may lose the exit status of its program, as in `python train.py | tee log`: then the program itself says how it
// ended.
static bool is_well(const run_end *end) {
  const simulate_process *failed = simulate_first_failed(&end->observed);
  uint64_t last = simulate_steps(&end->observed); // other ranks may be one step ahead
  if (failed && failed->steps + (failed->world > 1) >= last) return false;
  return WIFEXITED(end->status) && WEXITSTATUS(end->status) == 0;
}

// Killed by somebody, and nothing says that it was for memory.
static bool is_killed(const run_end *end, const explanation *e) {
  bool is_by_signal = WIFSIGNALED(end->status) ? WTERMSIG(end->status) == SIGKILL
                                               : WEXITSTATUS(end->status) == 128 + SIGKILL;
  return is_by_signal && e->verdict == EXPLAIN_UNCLEAR;
}

// Whether the program is started again.
static plim_err recover(work *w, const run_end *end, uint64_t attempt, bool *is_again,
                        plim_error *error) {
  run_explained x;
  recovery_step step = {0};
  plim_err err = run_explain(&w->r, end, allocator_settings(w), &x, error);
  if (err) return err;
  const explanation *e = &x.cause;
  bool was_killed = is_killed(end, e), is_explained = e->verdict != EXPLAIN_NO_OOM;
  w->how = was_killed ? "killed" : is_explained ? OUT_OF_MEMORY : "failed";
  if (!is_explained) run_show_failure(&w->r, end, w->changed);
  else {
    run_show_cause(&w->r, &x, !was_killed);
    w->planned.total_bytes = w->r.total_bytes;
    bool may_try = attempt < w->args->retries;
    if (w->r.has_nodes)
      snprintf(step.text, sizeof step.text,
               "it also runs on other machines, where plimsoll cannot start it");
    else if (may_try) err = recovery_next(&w->recovery, e, x.seen, &step, error);
    *is_again = !err && step.is_found;
    if (!err && !step.is_found) {
      const char *why = may_try && *step.text ? step.text
                        : may_try             ? "plimsoll has no setting that cures this"
                        : attempt             ? "it was started again as often as --retries allows"
                                              : "";
      run_show_cures(&w->r, e, w->recovery.has_retried, was_killed ? "" : why, end);
    }
  }
  if (*is_again) {
    run_show_recovery(&w->r, step.text, attempt + 1, w->args->retries);
    snprintf(w->changed, sizeof w->changed, "%s", step.text);
    for (const char *const *at = step.variables; *at; at++) add_variable(w, *at);
  }
  explanation_clear(&x.cause);
  return err;
}

static plim_err run_all(work *w, plim_error *error) {
  bool is_again = false;
  plim_err err = PLIM_OK;
  for (uint64_t attempt = 0; !err; attempt++) {
    run_end end;
    err = start(w, is_again, &end, error);
    is_again = false;
    if (!err && is_well(&end)) w->how = "finished";
    else if (!err && end.asked) w->how = "stopped";
    else if (!err) err = recover(w, &end, attempt, &is_again, error);
    run_end_clear(&end);
    if (!is_again) break;
  }
  return err;
}

// A run that was killed together with everything that could clean up has left its settings in the user's files.
static void clean_up(work *w) {
  char files[400];
  plim_error error = {0};
  if (recovery_clean_up(files, sizeof files, &error))
    run_tell(&w->r, RUN_WARNING,
             "files in this folder that an earlier run may have changed are not restored: %s",
             error.message);
  else if (*files)
    run_tell(
        &w->r, RUN_WARNING,
        "an earlier run was killed before it could restore these files; they are restored now: %s",
        files);
}

// Every start takes its settings back. Those of the last one are written for good, unless it failed with them.
static plim_err keep(work *w, plim_error *error) {
  if (!w->args->is_kept || !recovery_has_files(&w->recovery) || strcmp(w->how, OUT_OF_MEMORY) == 0)
    return PLIM_OK;
  plim_err err = recovery_keep(&w->recovery, error);
  if (!err)
    run_tell(&w->r, RUN_DETAIL, "the changed files are kept; to restore them: plimsoll undo");
  return err;
}

// As a shell's.
static int exit_code(const work *w, plim_err err, const plim_error *error) {
  int failed = err ? cli_report(error, NULL) : 0;
  if (err) return w->not_started ? w->not_started : failed;
  return WIFEXITED(w->status) ? WEXITSTATUS(w->status) : 128 + WTERMSIG(w->status);
}

static uint64_t spill_bytes(uint64_t mib) {
  if (mib == CLI_LEFT_OUT) return RUN_SPILL_DEFAULT;
  return mib <= UINT64_MAX / PLIM_MIB ? mib * PLIM_MIB : RUN_SPILL_DEFAULT - 1;
}

// What the options say that cannot be meant.
static plim_err check_options(const cli_call *call, plim_error *error) {
  enum { LEAST_CAP = 2 << 20 }; // the smallest segment of PyTorch's allocator
  const run_args *args = call->args;
  const char *url = args->notify;
  if (url && strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0) {
    plim_fail(error, PLIM_ERR_ARGUMENT, "--notify: \"%.120s\" is not a web address", url);
    plim_error_hint(error, "--notify https://example.com/hook");
    return PLIM_ERR_ARGUMENT;
  }
  if (cli_was_given(call, offsetof(run_args, cap_bytes)) && args->cap_bytes < LEAST_CAP) {
    plim_fail(error, PLIM_ERR_ARGUMENT, "--cap: no program can run in %s of GPU memory",
              units_bytes(args->cap_bytes).text);
    bool has_no_unit = args->cap_bytes && args->cap_bytes <= 1024;
    plim_error_hint(error, "--cap %lluGiB",
                    has_no_unit ? (unsigned long long)args->cap_bytes : 24ull);
    return PLIM_ERR_ARGUMENT;
  }
  if (!cli_was_given(call, offsetof(run_args, spill_mib)) || args->spill_mib) return PLIM_OK;
  plim_fail(error, PLIM_ERR_ARGUMENT, "--spill 0 would spill nothing");
  plim_error_hint(error, "--spill, for the default limit, or --spill 4096 for 4 GiB");
  return PLIM_ERR_ARGUMENT;
}

// A word before -- was taken for the command: it is the value of an option that takes none, or only a number.
static plim_err find_program(work *w, const char *const *words, plim_error *error) {
  plim_err err = plim_sandbox_find_program(words[0], error);
  if (err == PLIM_ERR_IO) w->not_started = launch_exit_status(errno);
  for (const char *const *at = words; err == PLIM_ERR_IO && *at; at++)
    if (strcmp(*at, "--") == 0)
      plim_error_hint(error,
                      "the command begins at the first word that is not an option, here \"%.60s\"; "
                      "if it belongs to the option before it, write --option=\"value\"",
                      words[0]);
  return err;
}

static int run_it(const cli_call *call) {
  const run_args *args = call->args;
  const char **words = cli_program_words(call);
  plim_error error = {0};
  work *w = cli_alloc(sizeof *w);
  *w = (work){.args = args, .how = "not started", .status = -1, .r.log = -1};
  run_options options = {.command = words, .notify = args->notify, .cap_bytes = args->cap_bytes};
  options.is_json = call->common.json;
  options.fold = run_show_folded;
  options.has_hook = args->has_hook || args->cap_bytes || args->spill_mib;
  options.spill_bytes = spill_bytes(args->spill_mib);
  recovery_begin(&w->recovery, words, &args->set);
  w->planned = (run_planned){words, &args->set, PLIM_UNKNOWN};
  w->recovery.plan = run_plan, w->recovery.plan_context = &w->planned;
  w->recovery.has_chunked_loss = args->savers.chunked_loss;
  plim_err err = check_options(call, &error);
  if (!err) err = find_program(w, words, &error);
  if (!err) err = read_resume(w, &error);
  if (!err) err = run_open(&w->r, &options, &error);
  w->recovery.scratch = w->r.folder.scratch;
  if (!err) run_show_start(&w->r);
  if (!err) clean_up(w);
  if (!err && !args->has_no_check)
    err = run_show_check(&w->r, words, &args->set, &w->r.options.cards, &error);
  if (!err) err = set_environment(w, &error);
  if (!err) run_show_variables(&w->r, &w->helpful);
  if (!err && args->cap_bytes)
    run_tell(&w->r, RUN_DETAIL, "the program may use at most %s of each GPU",
             units_bytes(args->cap_bytes).text);
  if (!err) err = run_all(w, &error);
  if (!err) err = keep(w, &error);
  recovery_end(&w->recovery);
  if (w->status >= 0) run_show_end(&w->r, w->how);
  run_close(&w->r, w->status, w->how);
  int status = exit_code(w, err, &error);
  run_variables_clear(&w->helpful);
  vec_free(&w->variables);
  vec_free(&w->words);
  for (size_t i = 0; i < w->resume.len; i++) free(w->resume.at[i]);
  vec_free(&w->resume);
  free(words);
  free(w);
  return status;
}

// ---- its row ----------------------------------------------------------------------------------------

#define AT(field) offsetof(run_args, field)
#define SAVERS_AT(field) offsetof(run_args, savers.field)
static const cli_option options[] = {
    {"retries", 0, "N", CLI_UINT, AT(retries),
     "start the program again at most N times after it ran out of memory (default: 3; 0: never)",
     NULL},
    {"resume", 0, "WORDS", CLI_STRING, AT(resume),
     "words to add to the command when the program is started again: --resume=\"--resume-from "
     "last.pt\"; not needed for the trainers of transformers and Lightning",
     NULL},
    {"keep", 0, NULL, CLI_FLAG, AT(is_kept),
     "keep the settings that plimsoll changed in your files; plimsoll undo restores them", NULL},
    {"notify", 0, "URL", CLI_STRING, AT(notify),
     "post JSON to this webhook (Discord, Slack or any other) at start, warning, failure, recovery "
     "and end",
     NULL},
    SAVER_OPTIONS(SAVERS_AT),
    {"hook", 0, NULL, CLI_FLAG, AT(has_hook),
     "load a library into the program that records every allocation of GPU memory, and report the "
     "peak at the end",
     NULL},
    {"cap", 0, "SIZE", CLI_BYTES, AT(cap_bytes),
     "let the program use at most this much memory of each GPU, as if the GPU were smaller; "
     "implies "
     "--hook",
     NULL},
    {"spill", 0, "[MIB]", CLI_UINT, AT(spill_mib),
     "when the GPU is full, use pinned host memory instead of failing, at most MIB MiB for each "
     "process (default: half of the free host memory); this is slow, and a warning says so; "
     "implies "
     "--hook",
     NULL},
    {"no-check", 0, NULL, CLI_FLAG, AT(has_no_check),
     "do not check the command and this machine before the start, as plimsoll check does", NULL},
    {"set", 0, "KNOB=FILE:KEY", CLI_STRINGS, AT(set),
     "where a setting is in your files, if plimsoll did not find it", NULL},
    {0},
};

static const char *const description[] = {
    "Starts a training command and watches its memory. The program runs unchanged, with your "
    "terminal, signals and exit status; a copy of its output is kept in a log. When it ends, "
    "all processes that it started are ended too.",
    "If the program runs out of memory, plimsoll explains why. If the cause can be cured without "
    "changing what the model learns (expandable segments, a chunked loss, the settings that "
    "plimsoll plan would choose, a smaller micro batch with more accumulation steps, gradient "
    "checkpointing), plimsoll changes that in your command or files "
    "and starts the program again. Trainers of transformers and Lightning resume from the last "
    "checkpoint of this run; other programs start from the beginning unless --resume says how. "
    "Afterwards your files are as before, unless you give --keep. If no setting can cure the cause "
    "(another process on the GPU, too little host memory), plimsoll says what it is and stops.",
    "A warning is printed when memory grows from step to step, with the step at which the GPU will "
    "be full. Peaks that swing between steps are reported too. With several ranks (torchrun, "
    "accelerate, deepspeed and others) each rank reports, and the one with the least room decides.",
    "If a training runs on several machines, start `plimsoll run` on each of them. Each one sees "
    "only the ranks of its own machine: it warns and explains, but does not start the program "
    "again.",
    "After the first step it reports a model that is in memory twice, with the lines that made the "
    "copies. If memory leaks, it records a few steps and names the lines.",
    "--chunked-loss, --empty-cache-every and --gc-every save memory without a change to your code; "
    "loss and gradients stay the same. --spill lets a program that does not fit run, but "
    "slowly: what the GPU has no room for stays in host memory, and every use of it goes over the "
    "bus. The optimizer's state is moved there first, because it is used only once in a step.",
    "Before the start it sets environment variables that help any training, if you have not set "
    "them: "
    "PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF (expandable segments), "
    "TOKENIZERS_PARALLELISM and, for several GPUs, OMP_NUM_THREADS. `plimsoll runs` lists "
    "earlier runs.",
    "The exit status is that of your program; 128 plus the signal's number if a signal ended it; "
    "127 if there is no such program, 126 if it cannot be run.",
    "Standard output is your program's. Plimsoll writes its own messages to standard error; with "
    "--json, each of them is a JSON object on one line.",
    NULL,
};

static const cli_example examples[] = {
    {"plimsoll run -- python train.py --lr 1e-4", "train, and go on after running out of memory"},
    {"plimsoll run --retries 0 -- torchrun --nproc-per-node 4 train.py",
     "only watch and explain, on four GPUs"},
    {"plimsoll run --notify https://example.com/hook -- python train.py",
     "tell a webhook what happens"},
    {0},
};

const cli_command cmd_run = {
    .name = "run",
    .summary = "run a training, warn before it fails, explain and recover when it does",
    .positionals = simulate_positionals,
    .options = options,
    .args_size = sizeof(run_args),
    .defaults = &defaults,
    .run = run_it,
    .description = description,
    .examples = examples,
    .ok = "your program succeeded; otherwise the status is that of your program, or 128 + N if "
          "signal "
          "N ended it",
};
