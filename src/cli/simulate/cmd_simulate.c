// plimsoll simulate: runs the user's program on a simulated GPU, and says what it needs.
#include <signal.h>
#include <stdlib.h>
#include <string.h>

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
  uint64_t gpus, world, steps, limit_bytes, top;
  cli_strings writable, with, set, fault;
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
  FILE *log; // with --verbose: the log, read up to where it was shown
} progress;

// Shows what the program has printed since the last time.
static void show_output(progress *p, const char *path) {
  char line[4096];
  if (!p->log) p->log = fopen(path, "r");
  if (!p->log) return;
  clearerr(p->log);
  while (fgets(line, sizeof line, p->log)) disarmed_output(line, stderr);
}

static void show_progress(void *context, const simulate_moment *now) {
  progress *p = context;
  units_text seconds = units_seconds(now->seconds);
  char of[32] = "";
  if (p->is_verbose) show_output(p, now->log);
  else if (!now->used_bytes) term_progress("%s, starting", seconds.text);
  else if (!now->steps)
    term_progress("%s, loading, or in the first step: %s in use", seconds.text,
                  units_bytes(now->used_bytes).text);
  else {
    if (p->steps) snprintf(of, sizeof of, " of %llu", (unsigned long long)p->steps);
    term_progress("%s, %llu%s steps done: %s in use, %s allocated after the last step",
                  seconds.text, (unsigned long long)now->steps, of,
                  units_bytes(now->used_bytes).text, units_bytes(now->allocated_bytes).text);
  }
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
  part->replay.is_of_run = true;
  return replay_investigate(&part->replay, &request, error);
}

plim_err simulate_run_part(const simulate_request *request, bool is_verbose, uint64_t top,
                           simulate_part *part, plim_error *error) {
  progress p = {.steps = request->steps, .is_verbose = is_verbose};
  plim_err err = simulate_run(request, show_progress, &p, &part->run, error);
  term_progress_clear();
  if (p.log) fclose(p.log);
  return err ? err : simulate_read_snapshot(part, top, error);
}

// What PyTorch could reserve of the card, beside what CUDA and its libraries used there.
static uint64_t room_of(const simulate_report *r) {
  const simulate_process *p = simulate_fullest(&r->capped.run);
  uint64_t needs = simulate_needs(&r->capped), reserved = p ? p->peak_reserved_bytes : 0;
  uint64_t beside = needs > reserved ? needs - reserved : 0;
  return r->has_limit && r->budget_bytes > beside ? r->budget_bytes - beside : 0;
}

// If memory runs out, the program runs once more on a card that is large enough and has no faults, to see what it needs.
static plim_err run_both(simulate_report *r, const simulate_args *args, plim_error *error) {
  plim_err err = simulate_run_part(r->request, args->is_verbose, args->top, &r->capped, error);
  r->capped.replay.card_bytes = room_of(r);
  bool may_differ = r->has_limit || r->request->fault_count;
  if (err || r->capped.run.end != SIMULATE_OUT_OF_MEMORY || !may_differ) return err;
  simulate_request large = *r->request;
  large.fault_count = 0;
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
  if (args->gpus < 1 || args->gpus > MOST_GPUS) {
    plim_fail(error, PLIM_ERR_ARGUMENT, "--gpus %llu is not between 1 and %d",
              (unsigned long long)args->gpus, MOST_GPUS);
    plim_error_hint(error, "--gpus is the number of cards; --gpu names the card: --gpu 4090");
    return PLIM_ERR_ARGUMENT;
  }
  if (args->world == 1 || args->world > MOST_RANKS)
    return plim_fail(error, PLIM_ERR_ARGUMENT, "--world %llu is not between 2 and %d",
                     (unsigned long long)args->world, MOST_RANKS);
  if (!args->world || args->world >= args->gpus) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           "--world %llu is less than --gpus %llu: each simulated GPU has a rank",
                           (unsigned long long)args->world, (unsigned long long)args->gpus);
  plim_error_hint(error, "leave out --world to run the ranks of all simulated GPUs together");
  return err;
}

static plim_err read_faults(const simulate_args *args, card_fault faults[CARD_MAX_FAULTS],
                            plim_error *error) {
  if (args->fault.len > CARD_MAX_FAULTS)
    return plim_fail(error, PLIM_ERR_ARGUMENT,
                     "--fault is given %zu times, at most %d are possible", args->fault.len,
                     CARD_MAX_FAULTS);
  plim_err err = PLIM_OK;
  for (size_t i = 0; !err && i < args->fault.len; i++)
    err = card_fault_parse(args->fault.at[i], &faults[i], error);
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
  if (!err) err = simulate_check_out(args->out, error);
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
  const char *hidden = simulate_other_cards(out);
  if (hidden)
    plim_note_add(&card->notes, "environment.cards", NULL,
                  "CUDA_VISIBLE_DEVICES=%.80s in your environment is about the cards of this "
                  "machine; the program does not get it and sees every simulated card",
                  hidden);
  return PLIM_OK;
}

// ---- the snapshot, kept -----------------------------------------------------------------------------

static bool is_pickle(const char *text, size_t size) {
  return size && (unsigned char)*text == 0x80; // the opcode PROTO, with which protocol 2 begins
}

plim_err simulate_check_out(const char *path, plim_error *error) {
  output_file file = {"--out", path, "snapshot.pickle", "a memory snapshot", is_pickle};
  return path ? output_check(&file, error) : PLIM_OK;
}

plim_err simulate_keep_snapshot(const simulate_part *part, const char *path, plim_error *error) {
  const simulate_process *p = simulate_fullest(&part->run);
  char block[1 << 16];
  size_t got;
  plim_atomic_file file;
  if (!path) return PLIM_OK;
  if (!p || !p->snapshot)
    return plim_fail(error, PLIM_ERR_UNSUPPORTED,
                     "there is no snapshot to save: the program did not use the GPU");
  FILE *in = fopen(p->snapshot, "rb");
  if (!in) return plim_fail(error, PLIM_ERR_IO, "cannot read %.200s", p->snapshot);
  plim_err err = plim_atomic_open(&file, path, error);
  while (!err && (got = fread(block, 1, sizeof block, in)) > 0) fwrite(block, 1, got, file.out);
  fclose(in);
  return err ? err : plim_atomic_commit(&file, error);
}

// ---- the command ------------------------------------------------------------------------------------

static bool log_has(const char *path, const char *text) {
  char line[4096];
  bool is_found = false;
  FILE *log = fopen(path, "r");
  while (log && !is_found && fgets(line, sizeof line, log)) is_found = strstr(line, text);
  if (log) fclose(log);
  return is_found;
}

// Which process failed first, why, and what to do about it.
static void explain(const simulate_report *r, plim_error *error) {
  const simulate_result *run = &r->capped.run;
  const simulate_process *p = simulate_first_failed(run);
  char who[64] = "the program", where[200] = "";
  if (!p) {
    plim_fail(error, PLIM_ERR_UNSUPPORTED,
              "the program failed, but not because of memory; the last lines of its output are "
              "above");
    if (log_has(run->log, "No module named 'torch'"))
      plim_error_hint(error, "its Python has no PyTorch: activate the environment that has it, or "
                             "name that environment's python in the command");
    else plim_error_hint(error, "its whole output is in %.280s", run->log);
    return;
  }
  if (p->world > 1)
    snprintf(who, sizeof who, "rank %lld of %lld", (long long)p->rank, (long long)p->world);
  if (p->failure.file)
    snprintf(where, sizeof where, " (%.160s:%d)", p->failure.file, p->failure.line);
  plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s failed, but not because of memory: %.240s%s", who,
            p->failure.text, where);
  bool is_beyond = p->local_rank >= (int64_t)r->request->gpus;
  if (is_beyond && r->request->world)
    plim_error_hint(error,
                    "with --world, the launcher must start as many processes as --gpus says: "
                    "torchrun --nproc-per-node %u, deepspeed --num_gpus %u",
                    r->request->gpus, r->request->gpus);
  else if (is_beyond)
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
  bool is_used = simulate_fullest(&whole->run);
  return r->capped.run.end != SIMULATE_RAN || has_finding || !is_used ? CLI_FINDING : CLI_OK;
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

// If there is only a limit, it stands for the card.
static void describe_card(const simulate_args *args, job_request *card, simulate_report *r) {
  r->has_limit = card->target.budget_bytes != PLIM_UNKNOWN;
  r->is_whole_card = r->has_limit && card->target.limit_is_card;
  r->has_name = *card->card && !card->is_known_by_size;
  r->budget_bytes = card->target.budget_bytes;
  if (!*card->card && r->has_limit)
    snprintf(card->card, sizeof card->card, "limited to %s", units_bytes(args->limit_bytes).text);
  r->card = card->card;
}

static int run(const cli_call *call) {
  const simulate_args *args = call->args;
  simulate_request request;
  card_fault faults[CARD_MAX_FAULTS];
  trial_with with = {0};
  job_request *card = calloc(1, sizeof *card);
  plim_error error = {0};
  if (!card) cli_out_of_memory();
  const char **words = cli_program_words(call);
  plim_err err = read_faults(args, faults, &error);
  if (!err) err = understand(args, words, card, &request, &error);
  if (!err) request.faults = faults, request.fault_count = args->fault.len;
  simulate_report report = {.request = &request, .notes = &card->notes};
  if (!err) err = change_program(args, &with, &report, &request, &error);
  if (!err) {
    describe_card(args, card, &report);
    err = run_both(&report, args, &error);
  }
  if (!err) simulate_add_notes(&report);
  const simulate_part *whole = simulate_whole(&report);
  if (!err) err = simulate_keep_snapshot(whole, args->out, &error);
  if (!err && whole->has_replay)
    err = picture_draw(&args->pictures, replay_draw, &whole->replay, &error);
  int status = err ? cli_report(&error, NULL) : show(&report, call);
  simulate_part_clear(&report.capped);
  if (report.has_large) simulate_part_clear(&report.large);
  plim_notes_clear(&report.found);
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
    {"gpu", 'g', "GPU", CLI_CARD, AT(gpu),
     "the GPU to simulate, by name or by size: RTX 4090, 24GiB (default: the one in this machine, "
     "or one with as much memory as the program needs)",
     NULL},
    {"gpus", 0, "N", CLI_UINT, AT(gpus), "number of GPUs to simulate (default: 1)", NULL},
    {"world", 0, "N", CLI_UINT, AT(world),
     "tell the program that it is one of N ranks; the others do not run, and are assumed to send "
     "what this one sends",
     NULL},
    {"steps", 0, "N", CLI_UINT, AT(steps),
     "end the program after N optimizer steps (default: 3; 0: let it run to its own end)", NULL},
    {"limit", 0, "SIZE", CLI_BYTES, AT(limit_bytes),
     "memory PyTorch may use, if less than the GPU has", NULL},
    {"with", 0, "KNOB=V", CLI_SETTINGS, AT(with),
     "run the program with another value of a setting, such as micro_batch=2 or checkpoint=on; "
     "your files stay as they are, and the program sees edited copies of them",
     NULL},
    {"set", 0, "KNOB=FILE:KEY", CLI_STRINGS, AT(set),
     "for --with: where the program has the setting, if plimsoll did not find it", NULL},
    SAVER_OPTIONS(SAVERS_AT),
    {"fault", 0, "FAULT", CLI_STRINGS, AT(fault),
     "let the simulated GPU fail: refuse=all@step=3, other-process=4GiB@step=3, leak=20MiB, "
     "driver-hangs, driver-fails (plimsoll simulate --help explains them); may be given several "
     "times",
     NULL},
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
     "save PyTorch's memory snapshot of the process that needs the most memory", NULL},
    PICTURE_OPTIONS(PICTURES_AT),
    {"top", 0, "N", CLI_UINT, AT(top), "how many rows to list in each table (default: 10)", NULL},
    {0},
};

static const char *const description[] = {
    "Runs a training command on a simulated GPU. The machine needs PyTorch's CUDA build, but no "
    "GPU. Python, PyTorch, its memory allocator and your trainer are the real ones; only the "
    "functions of CUDA are replaced, so every allocation is made as on a real GPU. The report says "
    "whether the program fits, which line and what kind of tensor holds the peak, and where memory "
    "would run out. What CUDA and its libraries use is not simulated; the report adds a typical "
    "value for the GPU.",
    "The program can read everything and change nothing: what it writes goes to a scratch folder "
    "and is removed at the end, and it has no network. Its output is kept in a log; the logs of "
    "the last 20 runs are kept in ~/.local/state/plimsoll/simulate.",
    "The simulated GPU computes no floating-point numbers. Integers and booleans (token ids, "
    "masks, lengths) are computed on the host, so that padding, packing and evaluation work. If "
    "the program reads a value that depends on a floating-point number, it gets 0 (or True), and "
    "the report lists the line.",
    "cuDNN chooses the sizes of the workspaces that convolutions need. Those of common models were "
    "recorded on an H200. For other convolutions the cuDNN library is asked: the one that is "
    "installed with PyTorch, or the file that $PLIMSOLL_CUDNN names. Without that library a rule "
    "is used that is less exact, and the report says so.",
    "--world N shows what one of many GPUs needs without starting a process for each: the program "
    "gets the environment of a launcher (WORLD_SIZE=N, RANK=0), and nothing waits for the other "
    "ranks. The figures assume that the others send what this rank would send, and that none of "
    "them needs more memory than rank 0. The stages of a pipeline hold different layers, so they "
    "cannot be shown this way.",
    "--with changes one of plan's settings (plimsoll help knobs) where the program has it: in a "
    "copy of a file, in a flag of the command or in the environment; a new file, such as "
    "DeepSpeed's, is seen by the program alone. The report says where. A "
    "setting that plimsoll does not find is an error. --with micro_batch=N alone leaves the "
    "accumulation as it is, so the effective batch changes; the report names the value of --with "
    "accumulate=N that keeps it, if the program has such a setting.",
    "--fault makes the simulated GPU fail, so that you can test what a program, or the tool that "
    "watches it, does then. With refuse, one request for memory fails although there is enough; "
    "with refuse=N, N requests fail, and with refuse=all, all of them. (PyTorch releases its cache "
    "and asks once more, so it survives a single refusal.) other-process=SIZE takes memory for "
    "another process, which the driver then lists. leak=SIZE takes SIZE more with every optimizer "
    "step, outside PyTorch's allocator. With driver-hangs, the functions of NVML do not return; "
    "with driver-fails, they and cudaMemGetInfo return an error. A fault begins when the program "
    "starts. To let it begin later, add @step=N (in optimizer step N), @allocation=N (at the Nth "
    "request of a process to the driver) or @used=SIZE (when a process would use SIZE): "
    "refuse=all@step=3. From then on it affects every process. The report says which faults took "
    "effect.",
    "--chunked-loss works for the causal and encoder-decoder models of transformers that are given "
    "labels. The output head is called for a few tokens at a time, and once more in the backward "
    "pass, so a step takes longer by about one product with the head. A program that reads "
    "outputs.logits still gets them: all logits are then computed at that line, and the report "
    "names it. Where a loss cannot be computed in chunks (torch.compile of the whole model, a head "
    "that ZeRO-3 shards, a loss that the program computes itself), it is computed as usual, and "
    "the "
    "report says why.",
    NULL,
};

static const cli_example examples[] = {
    {"plimsoll simulate --gpu 4090 -- python train.py", "does this script fit on an RTX 4090?"},
    {"plimsoll simulate --gpu 4090 --with micro_batch=2 -- python train.py",
     "and with a smaller micro batch?"},
    {"plimsoll simulate --gpu 4090 --chunked-loss -- python train.py",
     "and if full logits never exist?"},
    {"plimsoll simulate --gpu h100 --gpus 2 -- torchrun --nproc-per-node 2 train.py",
     "what does each of two ranks need?"},
    {"plimsoll simulate --gpu h100 --world 64 -- python train.py", "and one of 64 ranks?"},
    {"plimsoll simulate --gpu 4090 --fault refuse=all@step=3 -- python train.py",
     "what does the program do when memory runs out in step 3?"},
    {0},
};

const cli_command cmd_simulate = {
    .name = "simulate",
    .summary = "run your own training program on a simulated GPU",
    .positionals = simulate_positionals,
    .options = options,
    .args_size = sizeof(simulate_args),
    .defaults = &defaults,
    .run = run,
    .description = description,
    .examples = examples,
    .finding = "it does not fit, a leak or a duplicated model was found, or the program was not "
               "seen to use the GPU",
};
