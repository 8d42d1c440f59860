// plimsoll replay: reads a snapshot, analyses it and shows the result.
#include "command.h"
#include "replay_options.h"
#include "replay_picture.h"
#include "replay_show.h"
#include "text_result.h"

typedef struct {
  replay_args replay;
  picture_args pictures;
  uint64_t top;
} command_args;

static const command_args defaults = {.replay = REPLAY_DEFAULTS, .top = 10};

// ---- the command --------------------------------------------------------------------------------------------

static int show(const replay_result *r, const cli_call *call) {
  if (call->common.json) cli_print_json(replay_write, r);
  else replay_print_text(r);
  return r->leaks.len || r->duplicates.len || r->simulated.ooms ? CLI_FINDING : CLI_OK;
}

static int run(const cli_call *call) {
  const command_args *args = call->args;
  const char *path = call->words.at[0], *source = NULL;
  replay_result result = {.top = args->top}, *r = &result;
  plim_error error = {0};
  plim_err err = picture_check(&args->pictures, path, "the snapshot itself", &error);
  if (!err) err = replay_make(path, &args->replay, r, &source, &error);
  if (!err) err = picture_draw(&args->pictures, replay_draw, r, &error);
  int status = err ? cli_report(&error, source) : show(r, call);
  replay_result_clear(r);
  return status;
}

// ---- its row ------------------------------------------------------------------------------------------------

static const cli_positional positionals[] = {
    {"SNAPSHOT",
     "file written by torch.cuda.memory._dump_snapshot: plain, .gz or .xz; - reads standard input",
     CLI_FILE, 1, 1, NULL},
    {0},
};

#define REPLAY_AT(field) offsetof(command_args, replay.field)
#define PICTURES_AT(field) offsetof(command_args, pictures.field)
static const cli_option options[] = {
    REPLAY_OPTIONS(REPLAY_AT),
    PICTURE_OPTIONS(PICTURES_AT),
    {"top", 0, "N", CLI_UINT, offsetof(command_args, top),
     "how many rows to list in each table (default: 10)", NULL},
    {0},
};

static const char *const description[] = {
    "Reads a memory snapshot and replays its allocations in a simulation of PyTorch's caching "
    "allocator, with the recorded settings or with others. It shows what held the memory at the "
    "peak, what leaks, which model is in memory twice, how much is lost to fragmentation, and "
    "which allocator settings would do better.",
    "Terms: PyTorch reserves memory from the driver in segments (reserved) and hands out blocks of "
    "them (allocated). A free block in a segment that is partly in use is stranded: only requests "
    "that fit into it can use it. A segment with no block in use is cached. When a request would "
    "otherwise fail, PyTorch returns cached segments to the driver and tries again; that is a "
    "retry. Entries are numbered as in the snapshot's device_traces.",
    "Exact means that the simulation, run with the recorded settings, made every decision that "
    "PyTorch made, down to the addresses. If the snapshot does not record enough for that, the "
    "report says what is missing.",
    "The kind of each allocation is derived from its stack, the optimizer's markers and its "
    "lifetime. Temporaries are allocated and freed within one phase; workspaces are scratch space "
    "of libraries that is never freed; other is long-lived memory whose purpose is not recorded.",
    NULL,
};

static const cli_example examples[] = {
    {"plimsoll replay snapshot.pickle", "what held the memory at the peak?"},
    {"plimsoll replay snapshot.pickle --limit 24GiB --tune",
     "which allocator settings fit in 24 GiB?"},
    {0},
};

const cli_command cmd_replay = {
    .name = "replay",
    .summary = "explain a memory snapshot that PyTorch recorded",
    .positionals = positionals,
    .options = options,
    .args_size = sizeof(command_args),
    .defaults = &defaults,
    .run = run,
    .description = description,
    .examples = examples,
    .finding = "a leak or a duplicated model was found, or memory runs out",
};
