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
#include "typed_line.h"
#include "units.h"

typedef struct {
  const char *gpu, *out;
  uint64_t gpus, world, steps, limit_bytes, top;
  cli_strings writable, with, set;
  bool has_network, is_unsandboxed, is_verbose;
  picture_args pictures;
  savers_args savers;
} simulate_args;

static const simulate_args defaults = {
    .gpus = 1, .steps = 3, .limit_bytes = PLIM_UNKNOWN, .top = 10};

const simulate_part *simulate_whole(const simulate_report *r) {
  return r->has_large ? &r->large : &r->capped;
}

uint64_t simulate_needs(const simulate_part *part) { return part->run.peak_bytes; }

// ---- progress ---------------------------------------------------------------------------------------

typedef struct {
  uint64_t steps; // that were asked for
  bool is_verbose;
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
  if (p->is_verbose) {
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
             (unsigned long long)now->steps, (unsigned long long)p->steps,
             units_bytes(now->used_bytes).text, units_bytes(now->allocated_bytes).text);
  clear_line(p);
  fprintf(stderr, "%.*s, %s", term_width(stderr) - 12, line, units_seconds(now->seconds).text);
  fflush(stderr);
  p->has_line = true;
}

// ---- the runs ---------------------------------------------------------------------------------------

plim_err simulate_read_snapshot(simulate_part *part, uint64_t top, plim_error *error) {
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

plim_err simulate_run_part(const simulate_request *request, bool is_verbose, uint64_t top,
                           simulate_part *part, plim_error *error) {
  progress p = {.steps = request->steps, .is_verbose = is_verbose};
  plim_err err = simulate_run(request, show_progress, &p, &part->run, error);
  clear_line(&p);
  if (p.log) fclose(p.log);
  return err ? err : simulate_read_snapshot(part, top, error);
}

// If memory runs out, the program runs once more on a card that is large enough, to see what it needs.
static plim_err run_both(simulate_report *r, const simulate_args *args, plim_error *error) {
  plim_err err = simulate_run_part(r->request, args->is_verbose, args->top, &r->capped, error);
  if (err || r->capped.run.end != SIMULATE_OUT_OF_MEMORY || !r->has_limit) return err;
  simulate_request large = *r->request;
  large.total_bytes = SIMULATE_LARGE_ENOUGH;
  r->has_large = true;
  return simulate_run_part(&large, args->is_verbose, args->top, &r->large, error);
}

void simulate_part_clear(simulate_part *part) {
  if (part->has_replay) replay_result_clear(&part->replay);
  simulate_result_clear(&part->run);
}

// ---- arguments --------------------------------------------------------------------------------------

static plim_err check_counts(const simulate_args *args, plim_error *error) {
  enum { MOST_GPUS = 64, MOST_RANKS = 1 << 16 };
  if (args->gpus < 1 || args->gpus > MOST_GPUS)
    return plim_fail(error, PLIM_ERR_ARGUMENT, "--gpus %llu is not between 1 and %d",
                     (unsigned long long)args->gpus, MOST_GPUS);
  if (args->world == 1 || args->world > MOST_RANKS)
    return plim_fail(error, PLIM_ERR_ARGUMENT, "--world %llu is not between 2 and %d",
                     (unsigned long long)args->world, MOST_RANKS);
  if (!args->world || args->world >= args->gpus) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           "--world %llu is less than --gpus %llu, which all have a rank",
                           (unsigned long long)args->world, (unsigned long long)args->gpus);
  plim_error_hint(error, "leave out --world: the ranks of --gpus then run together");
  return err;
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
                            .world = (uint32_t)args->world,
                            .steps = args->steps,
                            .writable = args->writable.at,
                            .writable_count = args->writable.len,
                            .savers = &args->savers,
                            .has_network = args->has_network,
                            .is_unsandboxed = args->is_unsandboxed};
  return PLIM_OK;
}

// ---- the snapshot, kept -----------------------------------------------------------------------------

plim_err simulate_keep_snapshot(const simulate_part *part, const char *path, plim_error *error) {
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

// Which process failed first, why, and what to do about it.
static void explain(const simulate_report *r, plim_error *error) {
  const simulate_result *run = &r->capped.run;
  const simulate_process *p = simulate_first_failed(run);
  char who[64] = "the program", where[200] = "";
  if (!p) {
    plim_fail(error, PLIM_ERR_UNSUPPORTED,
              "the program failed, but not because of memory; the last lines of its output are "
              "above");
    plim_error_hint(error, "its whole output is in %.280s", run->log);
    return;
  }
  if (p->world > 1)
    snprintf(who, sizeof who, "rank %lld of %lld", (long long)p->rank, (long long)p->world);
  if (p->failure.file)
    snprintf(where, sizeof where, " (%.160s:%d)", p->failure.file, p->failure.line);
  plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s failed, but not because of memory: %.240s%s", who,
            p->failure.text, where);
  if (p->local_rank >= (int64_t)r->request->gpus)
    plim_error_hint(error, "the program starts %lld processes, one for each GPU: --gpus %lld",
                    (long long)p->world, (long long)p->world);
  else plim_error_hint(error, "its whole output is in %.280s", run->log);
}

static int show(const simulate_report *r, const cli_call *call) {
  const simulate_part *whole = simulate_whole(r);
  if (call->common.json) simulate_write_json(stdout, r);
  else if (r->capped.run.end != SIMULATE_FAILED) simulate_print_text(r);
  if (r->capped.run.end == SIMULATE_FAILED) {
    plim_error error = {0};
    simulate_print_log(r->capped.run.log);
    explain(r, &error);
    if (!call->common.json) return cli_report(&error, NULL);
    cli_report_text(stderr, &error, NULL); // the document that was written says it too
    return CLI_ERROR;
  }
  bool has_finding = whole->has_replay && (whole->replay.leaks.len || whole->replay.duplicates.len);
  return r->capped.run.end == SIMULATE_OUT_OF_MEMORY || has_finding ? CLI_FINDING : CLI_OK;
}

// The program with the settings of --with.
static plim_err change_program(const simulate_args *args, trial_with *with, simulate_report *r,
                               simulate_request *request, plim_error *error) {
  trial_options options = {.words = request->command,
                           .sets = &args->set,
                           .world = request->world ? request->world : request->gpus};
  if (!args->with.len) return PLIM_OK;
  plim_err err = trial_with_make(with, &options, &args->with, error);
  if (!err) err = trial_version_check(&with->version, request->is_unsandboxed, error);
  if (err) return err;
  r->with = with;
  request->command = (const char *const *)with->version.words.at;
  request->replaced = with->version.replaced.at;
  request->replaced_count = with->version.replaced.len;
  request->variables = (const char *const *)with->variables;
  return PLIM_OK;
}

static int run(const cli_call *call) {
  const simulate_args *args = call->args;
  simulate_request request;
  trial_with with = {0};
  job_request *card = calloc(1, sizeof *card);
  plim_error error = {0};
  if (!card) cli_out_of_memory();
  const char **words = typed_words(call);
  plim_err err = understand(args, words, card, &request, &error);
  simulate_report report = {.request = &request, .notes = &card->notes};
  if (!err) err = change_program(args, &with, &report, &request, &error);
  if (!err) {
    report.has_limit = card->target.budget_bytes != PLIM_UNKNOWN;
    report.card = *card->card ? card->card : "large enough, with the kernels of an H200";
    report.budget_bytes = card->target.budget_bytes;
    err = run_both(&report, args, &error);
  }
  const simulate_part *whole = simulate_whole(&report);
  if (!err) err = simulate_keep_snapshot(whole, args->out, &error);
  if (!err && whole->has_replay)
    err = picture_draw(&args->pictures, replay_draw, &whole->replay, &error);
  int status = err ? cli_report(&error, NULL) : show(&report, call);
  simulate_part_clear(&report.capped);
  if (report.has_large) simulate_part_clear(&report.large);
  trial_with_clear(&with);
  job_request_clear(card);
  free(card);
  free(words);
  return status;
}

// ---- its row ----------------------------------------------------------------------------------------

const cli_positional simulate_positionals[] = {
    {"COMMAND", "the training command, as you would type it: python train.py --lr 1e-4",
     CLI_PROGRAM, 1, SIZE_MAX, NULL},
    {0},
};

#define AT(field) offsetof(simulate_args, field)
#define PICTURES_AT(field) offsetof(simulate_args, pictures.field)
#define SAVERS_AT(field) offsetof(simulate_args, savers.field)
static const cli_option options[] = {
    {"gpu", 'g', "CARD", CLI_CARD, AT(gpu),
     "the card to simulate: a name such as 4090, or a size such as 24GiB", NULL},
    {"gpus", 0, "N", CLI_UINT, AT(gpus), "number of cards to simulate (default: 1)", NULL},
    {"world", 0, "N", CLI_UINT, AT(world),
     "tell the program that it is one of N ranks; the others do not run, and what they would send "
     "is taken to be what this one has",
     NULL},
    {"steps", 0, "N", CLI_UINT, AT(steps),
     "end the program after N optimizer steps (default: 3; 0: let it run to its own end)", NULL},
    {"limit", 0, "SIZE", CLI_BYTES, AT(limit_bytes),
     "memory PyTorch may use, if less than the card has", NULL},
    {"with", 0, "KNOB=V", CLI_SETTINGS, AT(with),
     "run the program with another value of a setting, such as micro_batch=2 or checkpoint=on; "
     "your files stay as they are, and the program sees edited copies of them",
     NULL},
    {"set", 0, "KNOB=FILE:KEY", CLI_STRINGS, AT(set),
     "where the program sets it, for --with: a key that plimsoll does not know by its name", NULL},
    SAVER_OPTIONS(SAVERS_AT),
    {"writable", 0, "DIR", CLI_STRINGS, AT(writable),
     "keep what the program writes in this folder; everything else that it writes is thrown away",
     NULL},
    {"online", 0, NULL, CLI_FLAG, AT(has_network),
     "let the program use the network: it may then upload and send messages", NULL},
    {"unsandboxed", 0, NULL, CLI_FLAG, AT(is_unsandboxed),
     "run the program without a sandbox: it may then change your files", NULL},
    {"verbose", 'v', NULL, CLI_FLAG, AT(is_verbose),
     "show the program's output instead of a progress line", NULL},
    {"out", 'o', "FILE", CLI_FILE, AT(out),
     "save PyTorch's memory snapshot of the process that needs most memory", NULL},
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
    "the last 20 runs are kept in ~/.local/state/plimsoll/simulate.",
    "The simulated card computes no floating-point numbers. Integers and booleans (token ids, "
    "masks, lengths) are computed on the host, so that padding, packing and evaluation work. If "
    "the program reads a value that depends on a floating-point number, it gets 0 (or True), and "
    "the report lists the line.",
    "The workspaces of convolutions were recorded for common models on an H200. All others are "
    "planned by NVIDIA's cuDNN: the library that is installed with PyTorch, or the file that "
    "$PLIMSOLL_CUDNN names. Without that library they follow a rule that is less exact.",
    "--world N shows what one of many GPUs needs without starting a process for each: the program "
    "gets the environment of a launcher (WORLD_SIZE=N, RANK=0) and nothing waits for the other "
    "ranks. It assumes that every rank holds what this one holds, that rank 0 needs the most, and "
    "that all ranks have data of equal length. Pipeline stages, which differ, cannot be shown this "
    "way.",
    "--with changes one of plan's settings (plimsoll help knobs) where the program has it: in a "
    "copy of a file, in a flag of the command or in the environment. The report says where. A "
    "setting that plimsoll does not find is an error. --with micro_batch=N alone leaves the "
    "accumulation as it is, so the effective batch changes; add --with accumulate=N to keep it.",
    "--chunked-loss works for the causal and encoder-decoder models of transformers that are given "
    "labels. The output head is called for a few tokens at a time, and once more in the backward "
    "pass, so a step takes longer by about one product with the head. A program that reads "
    "outputs.logits still gets them: all logits are then computed at that line, and the report "
    "names it. Where a loss cannot be computed in chunks (torch.compile of the whole model, a head "
    "that ZeRO-3 shards, a loss that the program computes itself), it is computed as ever, and the "
    "report says why.",
    NULL,
};

static const cli_example examples[] = {
    {"plimsoll simulate --gpu 4090 -- python train.py", "does this script fit on an RTX 4090?"},
    {"plimsoll simulate --gpu 4090 --with micro_batch=2 -- python train.py",
     "and with a smaller micro batch?"},
    {"plimsoll simulate --gpu 4090 --chunked-loss -- python train.py",
     "and if full logits never exist?"},
    {"plimsoll simulate --gpu a100 --gpus 2 -- torchrun --nproc-per-node 2 train.py",
     "what does each of two ranks need?"},
    {"plimsoll simulate --gpu h100 --world 64 -- python train.py", "and one of 64 ranks?"},
    {0},
};

const cli_command cmd_simulate = {
    .name = "simulate",
    .summary = "run your own training program on a simulated card",
    .positionals = simulate_positionals,
    .options = options,
    .args_size = sizeof(simulate_args),
    .defaults = &defaults,
    .run = run,
    .description = description,
    .examples = examples,
    .finding = "it does not fit, or a leak or a duplicated model was found",
};
