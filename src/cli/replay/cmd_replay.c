// plimsoll replay: reads a snapshot, analyses it and shows the result.
#include "command.h"
#include "replay_picture.h"
#include "replay_result.h"
#include "units.h"

typedef struct {
  const char *alloc_conf, *torch;
  picture_args pictures;
  uint64_t limit_bytes, device, top;
  bool tune;
} replay_args;

static const replay_args defaults = {
    .limit_bytes = PLIM_UNKNOWN,
    .device = PLIM_UNKNOWN,
    .top = 10,
};

#define MAX_LIMIT (1ull << 50) // a pebibyte

// ---- arguments ----------------------------------------------------------------------------------------------

static plim_err check_limit(uint64_t limit, plim_error *error) {
  if (limit == PLIM_UNKNOWN) return PLIM_OK;
  if (limit > MAX_LIMIT) {
    plim_fail(error, PLIM_ERR_ARGUMENT, "--limit %s is more than any GPU has",
              units_bytes(limit).text);
    return PLIM_ERR_ARGUMENT;
  }
  if (limit >= 2 * PLIM_MIB) return PLIM_OK; // the smallest segment
  plim_fail(error, PLIM_ERR_ARGUMENT,
            "--limit %s is smaller than a single segment of the allocator (2 MiB)",
            units_bytes(limit).text);
  bool lacks_unit = limit && limit < 1024; // --limit 24
  plim_error_hint(error, "--limit %lluGiB", (unsigned long long)(lacks_unit ? limit : 24));
  return PLIM_ERR_ARGUMENT;
}

static plim_err check_device(uint64_t device, plim_error *error) {
  if (device == PLIM_UNKNOWN || device < PLIM_SNAPSHOT_MAX_DEVICES) return PLIM_OK;
  return plim_fail(error, PLIM_ERR_ARGUMENT, "device %llu is not in this snapshot",
                   (unsigned long long)device);
}

// Applies memory_fraction, which is relative to the card; --limit then is the size of the card.
static plim_err apply_fraction(plim_alloc_conf *conf, replay_request *request, plim_error *error) {
  if (conf->memory_fraction >= 1) return PLIM_OK;
  if (request->limit_bytes == PLIM_UNKNOWN) {
    plim_fail(error, PLIM_ERR_ARGUMENT,
              "per_process_memory_fraction is a fraction of the GPU's memory, which the snapshot "
              "does not record");
    plim_error_hint(error, "give the GPU's memory with --limit SIZE");
    return PLIM_ERR_ARGUMENT;
  }
  // PyTorch truncates (recorded: truth trunc).
  request->limit_bytes = (uint64_t)(conf->memory_fraction * (double)request->limit_bytes);
  conf->memory_fraction = 1;
  return PLIM_OK;
}

static plim_err check_version(const char *torch, plim_error *error) {
  plim_block_order order;
  if (!torch || plim_block_order_of(torch, &order)) return PLIM_OK;
  plim_fail(error, PLIM_ERR_ARGUMENT, "'%s' is not a PyTorch version", torch);
  plim_error_hint(error, "--torch 2.11");
  return PLIM_ERR_ARGUMENT;
}

static plim_err check_arguments(const replay_args *args, const char *snapshot, plim_error *error) {
  plim_err err = check_version(args->torch, error);
  if (!err) err = check_device(args->device, error);
  if (!err) err = check_limit(args->limit_bytes, error);
  if (!err) err = picture_check(&args->pictures, snapshot, "the snapshot itself", error);
  return err;
}

// ---- the command --------------------------------------------------------------------------------------------

static int show(const replay_result *r, const cli_call *call) {
  if (call->common.json) replay_print_json(r);
  else replay_print_text(r);
  return r->leaks.len || r->duplicates.len || r->simulated.ooms ? CLI_FINDING : CLI_OK;
}

static int run(const cli_call *call) {
  const replay_args *args = call->args;
  replay_result result = {.path = call->words.at[0], .top = args->top}, *r = &result;
  replay_request request = {NULL, args->limit_bytes, args->torch, args->tune};
  plim_alloc_conf conf;
  plim_error error = {0};
  if (args->alloc_conf) {
    if (plim_alloc_conf_parse(args->alloc_conf, &conf, &error))
      return cli_report(&error, args->alloc_conf);
    request.conf = &conf;
  }
  int device = args->device == PLIM_UNKNOWN ? -1 : (int)args->device;
  plim_err err = check_arguments(args, r->path, &error);
  if (!err && request.conf) err = apply_fraction(&conf, &request, &error);
  if (!err) err = plim_snapshot_read(r->path, device, &r->trace, &r->info, &error);
  if (err) return cli_report(&error, NULL);
  err = replay_investigate(r, &request, &error);
  if (!err) err = picture_draw(&args->pictures, replay_draw, r, &error);
  int status = err ? cli_report(&error, NULL) : show(r, call);
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

#define AT(field) offsetof(replay_args, field)
#define PICTURES_AT(field) offsetof(replay_args, pictures.field)
static const cli_option options[] = {
    {"alloc-conf", 0, "STR", CLI_STRING, AT(alloc_conf),
     "replay with these allocator settings instead of the recorded ones", NULL},
    {"limit", 0, "SIZE", CLI_BYTES, AT(limit_bytes),
     "memory PyTorch may use: what set_per_process_memory_fraction allows, or the GPU's memory "
     "minus the CUDA context (about 0.5 GiB)",
     NULL},
    {"torch", 0, "VERSION", CLI_STRING, AT(torch),
     "PyTorch version that recorded the snapshot (default: detected); since 2.13 free blocks of "
     "equal size are used in a different order",
     NULL},
    {"device", 0, "N", CLI_UINT, AT(device),
     "which device's trace to replay (default: the one with the most events)", NULL},
    {"tune", 0, NULL, CLI_FLAG, AT(tune),
     "try commonly used allocator settings on this trace and rank them", NULL},
    PICTURE_OPTIONS(PICTURES_AT),
    {"top", 0, "N", CLI_UINT, AT(top), "how many rows to list in each table (default: 10)", NULL},
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
    .args_size = sizeof(replay_args),
    .defaults = &defaults,
    .run = run,
    .description = description,
    .examples = examples,
    .finding = "a leak or a duplicated model was found, or memory runs out",
};
