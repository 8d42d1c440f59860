// plimsoll profile: runs the user's program on the GPU of this machine, measures what it needs, and explains the difference
// from a prediction.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli_alloc.h"
#include "command.h"
#include "profile_report.h"
#include "replay_picture.h"
#include "term.h"
#include "units.h"
#include "value.h"

typedef struct {
  const char *against, *out;
  uint64_t steps, top;
  bool has_simulation, is_unsandboxed;
  picture_args pictures;
  savers_args savers;
} profile_args;

static const profile_args defaults = {.steps = 10, .top = 10};

// ---- the comparison ---------------------------------------------------------------------------------

static plim_err read_measured(profile_report *r, plim_error *error) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) cli_out_of_memory();
  profile_write_json(out, r);
  if (!plim_stream_end(out, &text)) cli_out_of_memory();
  plim_err err = compare_read_text(text, size, &r->measured, error);
  free(text);
  return err;
}

static plim_err read_simulated(const simulate_report *simulated, profile_report *r,
                               plim_error *error) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) cli_out_of_memory();
  simulate_write_json(out, simulated);
  if (!plim_stream_end(out, &text)) cli_out_of_memory();
  plim_err err = compare_read_text(text, size, &r->predicted, error);
  free(text);
  return err;
}

static const plim_gpu *gpu_of(profile_report *r, const simulate_process *p) {
  const char *name = p->measured.card ? p->measured.card : "";
  const plim_gpu *gpu = plim_gpu_present(name, p->measured.total_bytes / PLIM_MIB);
  if (gpu) return gpu;
  plim_note_add(&r->notes, "assumed.card", NULL,
                "the simulation uses the kernels of an H200, because plimsoll does not know %s "
                "(plimsoll help gpus lists the GPUs that it knows)",
                name);
  return plim_target_any().gpu;
}

// If the user stopped the program, the simulation stops there, too.
static uint64_t steps_to_compare(const profile_report *r) {
  uint64_t made = simulate_steps(&r->part.run);
  return r->card.is_interrupted && made ? made : r->request->steps;
}

// The same command on a simulated card of this kind, with as many steps. A simulation that cannot run, or fails, leaves the
// measurement as it is: there is a note instead of a comparison.
static void simulate_same(profile_report *r, const profile_args *args) {
  const simulate_process *p = simulate_fullest(&r->part.run);
  const plim_gpu *gpu = gpu_of(r, p);
  uint64_t total = p->measured.total_bytes;
  simulate_request request = {.command = r->request->command,
                              .gpu = gpu,
                              .total_bytes = total == PLIM_UNKNOWN ? SIMULATE_LARGE_ENOUGH : total,
                              .context_bytes = (uint64_t)gpu->context_mib * PLIM_MIB,
                              .gpus = r->card.gpus,
                              .steps = steps_to_compare(r),
                              .savers = &args->savers,
                              .is_unsandboxed = args->is_unsandboxed};
  plim_error error = {0};
  plim_notes none = {0};
  simulate_report report = {
      .request = &request, .card = gpu->name, .has_limit = true, .notes = &none};
  report.budget_bytes = request.total_bytes;
  plim_err err = simulate_run_part(&request, false, args->top, &report.capped, &error);
  bool has_failed = !err && report.capped.run.end == SIMULATE_FAILED;
  if (!err && !has_failed) err = read_simulated(&report, r, &error);
  r->has_comparison = !err && !has_failed;
  snprintf(r->against, sizeof r->against, "the same command on a simulated %s", gpu->name);
  if (err)
    plim_note_add(&r->notes, "comparison.failed", NULL, "there is no comparison: %s%s%s",
                  error.message, *error.hint ? ": " : "", error.hint);
  if (has_failed)
    plim_note_add(
        &r->notes, "comparison.failed", NULL,
        "there is no comparison: on the simulated GPU the program failed, but not because "
        "of memory; its output is in %s",
        report.capped.run.log);
  simulate_part_clear(&report.capped);
}

static plim_err add_comparison(profile_report *r, const profile_args *args, plim_error *error) {
  bool has_run = simulate_fullest(&r->part.run) && r->part.run.end != SIMULATE_FAILED;
  if (!has_run) return PLIM_OK;
  if (args->has_simulation) simulate_same(r, args);
  if (args->against) {
    r->has_comparison = true;
    snprintf(r->against, sizeof r->against, "%s", args->against);
  }
  if (!r->has_comparison) return PLIM_OK;
  r->has_comparison = false; // the measurement itself, as JSON
  plim_err err = read_measured(r, error);
  r->has_comparison = true;
  return err ? err : compare(&r->predicted, &r->measured, &r->difference, error);
}

// ---- the command ------------------------------------------------------------------------------------

// A file to compare with is read before the program runs, so that a mistake costs no run.
static plim_err check(const profile_args *args, profile_report *r, plim_error *error) {
  if (args->against && args->has_simulation) {
    plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                             "--compare simulates the command to compare with, and --against "
                             "reads an earlier result: give only one of them");
    return err;
  }
  plim_err err = picture_check(&args->pictures, args->against, "the file to compare with", error);
  if (!err) err = simulate_check_out(args->out, error);
  if (err || !args->against) return err;
  err = compare_read_file(args->against, &r->predicted, error);
  if (!err && strcmp(r->predicted.made, "measured") == 0) r->predicted.made = "earlier";
  return err;
}

static void announce(const profile_args *args) {
  char line[200];
  if (!args->steps) return;
  snprintf(
      line, sizeof line,
      "profile: the program will be ended after %llu optimizer steps (--steps 0 lets it run to its "
      "end)",
      (unsigned long long)args->steps);
  term_say(stderr, line, 0, 2);
}

static int fail(const simulate_result *run) {
  plim_error error = {0};
  if (WIFSIGNALED(run->status)) {
    plim_fail(&error, PLIM_ERR_UNSUPPORTED, "the program was killed by signal %d (%s)",
              WTERMSIG(run->status), strsignal(WTERMSIG(run->status)));
    if (WTERMSIG(run->status) == SIGKILL)
      plim_error_hint(&error, "Linux kills a program like this when the host runs out of memory; "
                              "dmesg shows it");
  } else
    plim_fail(&error, PLIM_ERR_UNSUPPORTED,
              "the program failed with exit status %d, but not because of memory; its output is "
              "above",
              WEXITSTATUS(run->status));
  return cli_report(&error, NULL);
}

static int show(const profile_report *r, const cli_call *call) {
  if (r->part.run.end == SIMULATE_FAILED) return fail(&r->part.run);
  if (call->common.json) profile_write_json(stdout, r);
  else profile_print_text(r);
  bool has_finding =
      r->part.has_replay && (r->part.replay.leaks.len || r->part.replay.duplicates.len);
  return r->part.run.end == SIMULATE_OUT_OF_MEMORY || has_finding ? CLI_FINDING : CLI_OK;
}

static plim_err measure(profile_report *r, const profile_args *args, plim_error *error) {
  plim_err err = profile_run(r->request, &r->part.run, &r->card, error);
  if (!err) profile_add_notes(r);
  if (!err) err = simulate_read_snapshot(&r->part, args->top, error);
  if (!err) err = simulate_keep_snapshot(&r->part, args->out, error);
  if (!err && r->part.has_replay)
    err = picture_draw(&args->pictures, replay_draw, &r->part.replay, error);
  return err ? err : add_comparison(r, args, error);
}

static int run(const cli_call *call) {
  const profile_args *args = call->args;
  plim_error error = {0};
  const char **words = cli_program_words(call);
  profile_request request = {.command = words, .steps = args->steps, .savers = &args->savers};
  profile_report report = {.request = &request, .top = args->top};
  plim_err err = check(args, &report, &error);
  if (!err) err = profile_find_gpu(&error);
  if (!err) announce(args);
  if (!err) err = measure(&report, args, &error);
  int status = err ? cli_report(&error, NULL) : show(&report, call);
  simulate_part_clear(&report.part);
  compare_side_clear(&report.predicted);
  compare_side_clear(&report.measured);
  comparison_clear(&report.difference);
  plim_notes_clear(&report.notes);
  free(words);
  return status;
}

// ---- its row ----------------------------------------------------------------------------------------

#define AT(field) offsetof(profile_args, field)
#define PICTURES_AT(field) offsetof(profile_args, pictures.field)
#define SAVERS_AT(field) offsetof(profile_args, savers.field)
static const cli_option options[] = {
    {"steps", 0, "N", CLI_UINT, AT(steps),
     "end the program after N optimizer steps (default: 10; 0: let it run to its own end)", NULL},
    {"compare", 0, NULL, CLI_FLAG, AT(has_simulation),
     "simulate the same command afterwards, and explain the difference", NULL},
    {"against", 0, "FILE", CLI_FILE, AT(against),
     "explain the difference from an earlier result: the file has what simulate, estimate, replay "
     "or "
     "profile printed with --json",
     NULL},
    {"unsandboxed", 0, NULL, CLI_FLAG, AT(is_unsandboxed),
     "with --compare: run the simulation without a sandbox, so that it may change your files",
     NULL},
    {"out", 'o', "FILE", CLI_FILE, AT(out),
     "save PyTorch's memory snapshot of the process that needs the most memory", NULL},
    SAVER_OPTIONS(SAVERS_AT),
    PICTURE_OPTIONS(PICTURES_AT),
    {"top", 0, "N", CLI_UINT, AT(top), "how many rows to list in each table (default: 10)", NULL},
    {0},
};

static const char *const description[] = {
    "Runs a training command on the GPU of this machine and measures it: the peaks of memory, the "
    "line and the kind of tensor that hold them, what CUDA and its libraries use in addition to "
    "PyTorch, and the time of a step. The report has the same form as that of simulate.",
    "The program really trains and writes its files, without a sandbox. After 10 optimizer steps "
    "it is ended without saving, as if it had been killed; --steps 0 lets it run to its end. Its "
    "output goes to standard error, so that standard output has only the report.",
    "Memory that PyTorch does not count (CUDA's context, kernels, NCCL's buffers) is what the "
    "driver reports as used, less what PyTorch reserved and less what other processes used before "
    "the run. The time of a step is the median of all steps except the first two, measured with "
    "CUDA events. Recording takes about 2 us for each allocation (PyTorch's figure). Steps of "
    "small models, in which the GPU waits for Python, take that much longer than without profile.",
    "With --compare the same command is simulated afterwards in simulate's sandbox; with --against "
    "the result of an earlier simulation or estimate is read. The report then shows the "
    "differences in peaks, kinds of memory and lines, and lists what else differs: versions of "
    "libraries, batch, attention, steps.",
    NULL,
};

static const cli_example examples[] = {
    {"plimsoll profile -- python train.py", "what does this script need, and how fast is a step?"},
    {"plimsoll profile --compare -- python train.py",
     "does the simulation agree with the real GPU, and if not, why?"},
    {"plimsoll profile --against simulated.json -- python train.py",
     "the same, with what simulate --json said on another machine"},
    {0},
};

const cli_command cmd_profile = {
    .name = "profile",
    .summary = "measure your own training program on the GPU of this machine",
    .positionals = simulate_positionals,
    .options = options,
    .args_size = sizeof(profile_args),
    .defaults = &defaults,
    .run = run,
    .description = description,
    .examples = examples,
    .finding = "it ran out of memory, or a leak or a duplicated model was found",
};
