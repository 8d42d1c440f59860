// plimsoll simulate: runs the user's program on a card that is not there, and says what it needs.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "atomic_file.h"
#include "cli_alloc.h"
#include "command.h"
#include "output_file.h"
#include "replay_picture.h"
#include "simulate_report.h"
#include "term.h"
#include "units.h"

typedef struct {
  const char *gpu, *out;
  uint64_t gpus, steps, limit_bytes, top;
  cli_strings writable;
  bool has_network, is_unsandboxed, is_verbose;
  picture_args pictures;
} simulate_args;

static const simulate_args defaults = {
    .gpus = 1, .steps = 3, .limit_bytes = PLIM_UNKNOWN, .top = 10};

const simulate_part *simulate_whole(const simulate_report *r) {
  return r->has_large ? &r->large : &r->capped;
}

uint64_t simulate_needs(const simulate_part *part) { return part->run.peak_bytes; }

// ---- progress ---------------------------------------------------------------------------------------

typedef struct {
  const simulate_args *args;
  FILE *log;     // with --verbose: the log, read up to where it was shown
  bool has_line; // a progress line is on the terminal
} progress;

static void clear_line(progress *p) {
  if (p->has_line) fprintf(stderr, "\r%*s\r", term_width(stderr) - 1, "");
  p->has_line = false;
}

// Shows what the program has printed since the last time.
static void show_output(progress *p, const char *path) {
  char line[4096];
  if (!p->log) p->log = fopen(path, "r");
  if (!p->log) return;
  clearerr(p->log);
  while (fgets(line, sizeof line, p->log)) fprintf(stderr, "%s", line);
}

static void show_progress(void *context, const simulate_moment *now) {
  progress *p = context;
  char line[160];
  if (p->args->is_verbose) {
    show_output(p, now->log);
    return;
  }
  if (!isatty(STDERR_FILENO)) return;
  if (!now->used_bytes) snprintf(line, sizeof line, "starting");
  else if (!now->steps)
    snprintf(line, sizeof line, "loading, or in the first step: %s in use",
             units_bytes(now->used_bytes).text);
  else
    snprintf(line, sizeof line, "step %llu of %llu: %s in use, %s allocated after the last step",
             (unsigned long long)now->steps, (unsigned long long)p->args->steps,
             units_bytes(now->used_bytes).text, units_bytes(now->allocated_bytes).text);
  clear_line(p);
  fprintf(stderr, "%.*s, %s", term_width(stderr) - 12, line, units_seconds(now->seconds).text);
  fflush(stderr);
  p->has_line = true;
}

// ---- the runs ---------------------------------------------------------------------------------------

static plim_err read_snapshot(simulate_part *part, uint64_t top, plim_error *error) {
  const simulate_process *p = simulate_fullest(&part->run);
  replay_request request = {NULL, PLIM_UNKNOWN, NULL, false};
  if (!p || !p->snapshot) return PLIM_OK;
  part->replay = (replay_result){.path = p->snapshot, .top = top};
  plim_err err =
      plim_snapshot_read(p->snapshot, -1, &part->replay.trace, &part->replay.info, error);
  if (err) return err;
  part->has_replay = true;
  return replay_investigate(&part->replay, &request, error);
}

static plim_err run_once(const simulate_request *request, const simulate_args *args,
                         simulate_part *part, plim_error *error) {
  progress p = {.args = args};
  plim_err err = simulate_run(request, show_progress, &p, &part->run, error);
  clear_line(&p);
  if (p.log) fclose(p.log);
  return err ? err : read_snapshot(part, args->top, error);
}

// If memory runs out, the program runs once more on a card that is large enough, to see what it needs.
static plim_err run_both(simulate_report *r, const simulate_args *args, plim_error *error) {
  plim_err err = run_once(r->request, args, &r->capped, error);
  if (err || r->capped.run.end != SIMULATE_OUT_OF_MEMORY || !r->has_limit) return err;
  simulate_request large = *r->request;
  large.total_bytes = SIMULATE_LARGE_ENOUGH;
  r->has_large = true;
  return run_once(&large, args, &r->large, error);
}

static void clear_part(simulate_part *part) {
  if (part->has_replay) replay_result_clear(&part->replay);
  simulate_result_clear(&part->run);
}

// ---- arguments --------------------------------------------------------------------------------------

static plim_err check_counts(const simulate_args *args, plim_error *error) {
  enum { MOST_GPUS = 64 };
  if (args->gpus < 1 || args->gpus > MOST_GPUS)
    return plim_fail(error, PLIM_ERR_ARGUMENT, "--gpus %llu is not between 1 and %d",
                     (unsigned long long)args->gpus, MOST_GPUS);
  return PLIM_OK;
}

static plim_err understand(const simulate_args *args, const char *const *words, job_request *card,
                           simulate_request *out, plim_error *error) {
  job_args job = JOB_DEFAULTS;
  const char *source;
  job.gpu = args->gpu;
  job.limit_bytes = args->limit_bytes;
  plim_err err = check_counts(args, error);
  if (!err) err = picture_check(&args->pictures, NULL, NULL, error);
  if (!err) err = job_understand_target(&job, card, &source, error);
  if (err) return err;
  bool has_limit = card->target.budget_bytes != PLIM_UNKNOWN;
  uint64_t context = (uint64_t)card->target.gpu->context_mib * PLIM_MIB;
  *out = (simulate_request){.command = words,
                            .gpu = card->target.gpu,
                            .total_bytes =
                                has_limit ? card->target.budget_bytes : SIMULATE_LARGE_ENOUGH,
                            .context_bytes = context,
                            .gpus = (uint32_t)args->gpus,
                            .steps = args->steps,
                            .writable = args->writable.at,
                            .writable_count = args->writable.len,
                            .has_network = args->has_network,
                            .is_unsandboxed = args->is_unsandboxed};
  return PLIM_OK;
}

// ---- the snapshot, kept -----------------------------------------------------------------------------

static plim_err keep_snapshot(const simulate_part *part, const char *path, plim_error *error) {
  const simulate_process *p = simulate_fullest(&part->run);
  char block[1 << 16];
  size_t got;
  plim_atomic_file file;
  if (!path) return PLIM_OK;
  if (!p || !p->snapshot)
    return plim_fail(error, PLIM_ERR_UNSUPPORTED,
                     "there is no snapshot to keep: the program did not use the card");
  FILE *in = fopen(p->snapshot, "rb");
  if (!in) return plim_fail(error, PLIM_ERR_IO, "cannot read %.200s", p->snapshot);
  plim_err err = plim_atomic_open(&file, path, error);
  while (!err && (got = fread(block, 1, sizeof block, in)) > 0) fwrite(block, 1, got, file.out);
  fclose(in);
  return err ? err : plim_atomic_commit(&file, error);
}

// ---- the command ------------------------------------------------------------------------------------

static int show(const simulate_report *r, const cli_call *call) {
  const simulate_part *whole = simulate_whole(r);
  if (call->common.json) simulate_print_json(r);
  else if (r->capped.run.end != SIMULATE_FAILED) simulate_print_text(r);
  if (r->capped.run.end == SIMULATE_FAILED) {
    plim_error error = {0};
    simulate_print_log(r->capped.run.log);
    plim_fail(&error, PLIM_ERR_UNSUPPORTED,
              "the program failed for another reason than memory; the last lines of its output are "
              "above");
    plim_error_hint(&error, "all of it is in %.280s", r->capped.run.log);
    return cli_report(&error, NULL);
  }
  bool has_finding = whole->has_replay && (whole->replay.leaks.len || whole->replay.duplicates.len);
  return r->capped.run.end == SIMULATE_OUT_OF_MEMORY || has_finding ? CLI_FINDING : CLI_OK;
}

static int run(const cli_call *call) {
  const simulate_args *args = call->args;
  simulate_request request;
  job_request *card = calloc(1, sizeof *card);
  plim_error error = {0};
  const char **words = calloc(call->program.len + 1, sizeof *words); // ends with NULL
  if (!card || !words) cli_out_of_memory();
  memcpy(words, call->program.at, call->program.len * sizeof *words);
  plim_err err = understand(args, words, card, &request, &error);
  simulate_report report = {.request = &request, .notes = &card->notes};
  if (!err) {
    report.has_limit = card->target.budget_bytes != PLIM_UNKNOWN;
    report.card = *card->card ? card->card : "large enough, with the kernels of an H200";
    report.budget_bytes = card->target.budget_bytes;
    err = run_both(&report, args, &error);
  }
  const simulate_part *whole = simulate_whole(&report);
  if (!err) err = keep_snapshot(whole, args->out, &error);
  if (!err && whole->has_replay)
    err = picture_draw(&args->pictures, replay_draw, &whole->replay, &error);
  int status = err ? cli_report(&error, NULL) : show(&report, call);
  clear_part(&report.capped);
  if (report.has_large) clear_part(&report.large);
  job_request_clear(card);
  free(card);
  free(words);
  return status;
}

// ---- its row ----------------------------------------------------------------------------------------

static const cli_positional positionals[] = {
    {"COMMAND", "the training command, as you would type it: python train.py --lr 1e-4",
     CLI_PROGRAM, 1, SIZE_MAX, NULL},
    {0},
};

#define AT(field) offsetof(simulate_args, field)
#define PICTURES_AT(field) offsetof(simulate_args, pictures.field)
static const cli_option options[] = {
    {"gpu", 'g', "CARD", CLI_CARD, AT(gpu),
     "the card to simulate: a name such as 4090, or a size such as 24GiB", NULL},
    {"gpus", 0, "N", CLI_UINT, AT(gpus), "how many of them (default: 1)", NULL},
    {"steps", 0, "N", CLI_UINT, AT(steps),
     "end the program after so many optimizer steps (default: 3; 0: when it ends by itself)", NULL},
    {"limit", 0, "SIZE", CLI_BYTES, AT(limit_bytes),
     "memory PyTorch may use, if less than the card has", NULL},
    {"writable", 0, "DIR", CLI_STRINGS, AT(writable),
     "keep what the program writes in this folder; everything else that it writes is thrown away",
     NULL},
    {"network", 0, NULL, CLI_FLAG, AT(has_network),
     "let the program use the network: it may then upload and send messages", NULL},
    {"unsandboxed", 0, NULL, CLI_FLAG, AT(is_unsandboxed),
     "run the program without a sandbox: it may then change your files", NULL},
    {"verbose", 'v', NULL, CLI_FLAG, AT(is_verbose),
     "show what the program prints, instead of a line of progress", NULL},
    {"out", 'o', "FILE", CLI_FILE, AT(out),
     "keep PyTorch's memory snapshot of the process that needs the most", NULL},
    PICTURE_OPTIONS(PICTURES_AT),
    {"top", 0, "N", CLI_UINT, AT(top), "how many rows to list in each table (default: 10)", NULL},
    {0},
};

static const char *const description[] = {
    "Runs a training command on a simulated card, on any machine with PyTorch's CUDA build and "
    "without a GPU. Python, PyTorch, its memory allocator and your trainer are the real ones; only "
    "the functions of CUDA are replaced, so every allocation is made as on the real card. The "
    "report says whether the program fits, which line and what kind of tensor holds the peak, and "
    "where memory would run out.",
    "The program can read everything and change nothing: what it writes goes to a scratch folder "
    "and is removed at the end, and it has no network. Its output is kept in a log; the logs of "
    "the "
    "last 20 runs are kept in ~/.local/state/plimsoll/simulate.",
    "Kernels compute nothing. Integers and booleans (token ids, masks, lengths, routes) are "
    "computed on the host, so that padding, packing and evaluation work; floating-point numbers "
    "are not. The report lists the lines of the program that looked at such a number, and what "
    "they were told.",
    "Workspaces of convolutions are those that NVIDIA's cuDNN plans: the library that is installed "
    "with PyTorch, or the file that $PLIMSOLL_CUDNN names. Without one they follow a rule that is "
    "less exact.",
    NULL,
};

static const cli_example examples[] = {
    {"plimsoll simulate --gpu 4090 -- python train.py", "does this script fit on an RTX 4090?"},
    {"plimsoll simulate --gpu a100 --gpus 2 -- torchrun --nproc-per-node 2 train.py",
     "what does each of two ranks need?"},
    {0},
};

const cli_command cmd_simulate = {
    .name = "simulate",
    .summary = "run your own training program on a simulated card",
    .positionals = positionals,
    .options = options,
    .args_size = sizeof(simulate_args),
    .defaults = &defaults,
    .run = run,
    .description = description,
    .examples = examples,
    .finding = "it does not fit, or a leak or a duplicated model was found",
};
