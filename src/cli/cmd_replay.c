#include <stdlib.h>
#include <string.h>

#include "cli_alloc.h"
#include "command.h"
#include "driver.h"
#include "parallel.h"
#include "picture.h"
#include "replay_result.h"
#include "units.h"

typedef struct {
  const char *alloc_conf, *torch, *svg, *html;
  uint64_t limit_bytes, device, top;
  bool tune;
} replay_args;

static const replay_args defaults = {
    .limit_bytes = PLIM_UNKNOWN,
    .device = PLIM_UNKNOWN,
    .top = 10,
};

// ---- notes ------------------------------------------------------------------------------------------------

static void note(replay_result *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void note(replay_result *r, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *text = cli_vformat(format, args);
  va_end(args);
  if (!vec_push(&r->notes, text)) free(text);
}

static void note_reading(replay_result *r) {
  const plim_trace *t = &r->trace;
  if (!t->entries)
    note(r,
         "the snapshot has no trace entries: history was not being recorded. This is the state at "
         "its end; call torch.cuda.memory._record_memory_history() before the run to see more");
  else if (t->start_blocks.len || t->start_segments.len)
    note(r,
         "the recording began when %zu blocks were in use already (or lost its beginning to its "
         "ring buffer); peaks count from there",
         t->start_blocks.len);
  if (t->lost_frees)
    note(r, "%s frees are missing from the recording", units_count(t->lost_frees).text);
  if (!t->has_layout)
    note(r, "the snapshot has no list of segments: what existed before is unknown");
  if (r->info.unknown_entries)
    note(r, "%s entries of kinds this version does not know (%s) were left out",
         units_count(r->info.unknown_entries).text, r->info.unknown_action);
}

static void note_replay(replay_result *r) {
  const plim_guided *g = &r->guided;
  bool gc = r->recorded_options.conf.gc_threshold > 0;
  if (gc && r->recorded_options.limit_bytes == PLIM_UNKNOWN)
    note(r,
         "garbage_collection_threshold depends on the memory limit, which snapshots do not record: "
         "give it with --limit");
  if (g->suspects_pools || r->trace.pools.len > 1)
    note(
        r,
        "private pools (CUDA graphs, torch.cuda.MemPool) are in use; up to torch 2.11 snapshots do "
        "not record which request went to which pool, nor when a pool ends");
  if (g->unclear_releases)
    note(r,
         "%s releases of all cached memory may be empty_cache calls or retries at a limit: they "
         "look alike, and were taken for empty_cache; --limit SIZE settles it",
         units_count(g->unclear_releases).text);
  if (g->lost)
    note(r,
         "from the first difference on the recorded state could not be followed, so what is said "
         "about holders and fragmentation is the simulation's");
  if (r->is_what_if)
    note(r,
         "the simulation chooses the addresses of new segments by a model of the driver, which on "
         "recorded training runs moved peak reserved by %g %% on average and %g %% at most",
         PLIM_ADDRESS_MODEL_MEAN_PERCENT, PLIM_ADDRESS_MODEL_WORST_PERCENT);
}

// ---- the recording ------------------------------------------------------------------------------------------

// Replays as recorded. A limit that contradicts the recording is a what-if; torch's version is
// found out, where it is not given, by what reproduces the recording.
static bool follow_recording(replay_result *r, const replay_args *args) {
  uint64_t limits[] = {args->limit_bytes, PLIM_UNKNOWN};
  size_t limit_count = args->limit_bytes == PLIM_UNKNOWN ? 1 : 2;
  plim_block_order orders[] = {PLIM_ORDER_ADDRESS, PLIM_ORDER_REGISTRATION};
  size_t order_count = 2;
  if (args->torch && plim_block_order_of(args->torch, &orders[0])) order_count = 1;
  bool have = false;
  for (size_t i = 0; i < limit_count * order_count; i++) {
    plim_replay_options options = r->recorded_options;
    options.limit_bytes = limits[i % limit_count];
    options.order = orders[i / limit_count];
    plim_guided tried;
    if (!plim_replay_guided(&r->trace, &options, NULL, &tried)) return false;
    if (have && tried.divergences >= r->guided.divergences) {
      plim_guided_clear(&tried);
      continue;
    }
    if (have) plim_guided_clear(&r->guided);
    r->guided = tried;
    r->recorded_options = options;
    have = true;
    if (tried.exact) break;
  }
  return true;
}

static bool same_conf(const plim_alloc_conf *a, const plim_alloc_conf *b) {
  char x[512], y[512];
  plim_alloc_conf_print(a, x, sizeof x);
  plim_alloc_conf_print(b, y, sizeof y);
  return strcmp(x, y) == 0;
}

static bool simulate(replay_result *r, const replay_args *args) {
  bool other_limit = args->limit_bytes != r->recorded_options.limit_bytes;
  bool other_conf = !same_conf(&r->options.conf, &r->recorded_options.conf);
  r->is_what_if = other_conf || (other_limit && args->limit_bytes != PLIM_UNKNOWN);
  r->options.order = r->recorded_options.order;
  r->options.limit_bytes = args->limit_bytes;
  r->first_oom_event = PLIM_UNKNOWN;
  if (args->limit_bytes == PLIM_UNKNOWN) {
    plim_guided_set_limit(&r->guided, &r->options);
    r->limit_is_guessed = r->options.limit_bytes != PLIM_UNKNOWN;
  }
  if (!r->is_what_if && r->guided.exact) {
    r->simulated = r->guided.recorded;
    for (size_t i = 0; r->simulated.ooms && r->first_oom_event == PLIM_UNKNOWN; i++)
      if (r->trace.events.at[i].action == PLIM_EV_OOM) r->first_oom_event = i;
    return true;
  }
  plim_addresses addresses = other_conf ? PLIM_ADDRESSES_MODEL : PLIM_ADDRESSES_RECORDED;
  plim_what_if got;
  if (!plim_replay_what_if(&r->trace, &r->guided, &r->options, addresses, NULL, NULL, NULL, &got))
    return false;
  r->simulated = got.totals;
  r->first_oom_event = got.first_oom_event;
  return true;
}

// ---- moments ------------------------------------------------------------------------------------------------

// What would be free if all blocks in use lay side by side.
static uint64_t compacted_free(const replay_result *r, const plim_moment *m) {
  plim_replay_options recorded = r->recorded_options;
  plim_guided_set_limit(&r->guided, &recorded);
  uint64_t limit = recorded.limit_bytes, used = m->fragmentation.usage.active_bytes;
  if (limit == PLIM_UNKNOWN) return PLIM_UNKNOWN;
  return limit > used ? limit - used : 0;
}

static bool inspect(replay_result *r) {
  size_t events[REPLAY_MAX_OOMS + 2], count = 2;
  plim_moment moments[REPLAY_MAX_OOMS + 2];
  events[0] = r->guided.peak_event;
  events[1] = r->guided.peak_reserved_event;
  for (size_t i = 0; i < r->trace.events.len && count < REPLAY_MAX_OOMS + 2; i++)
    if (r->trace.events.at[i].action == PLIM_EV_OOM) events[count++] = i;
  if (!plim_inspect(&r->trace, &r->story, &r->recorded_options, events, count, moments))
    return false;
  r->peak = moments[0];
  r->peak_reserved = moments[1];
  for (size_t i = 2; i < count; i++)
    r->ooms[r->oom_count++] = (replay_oom){.event = events[i],
                                           .request_bytes = r->trace.events.at[events[i]].bytes,
                                           .compacted_free_bytes = compacted_free(r, &moments[i]),
                                           .moment = moments[i]};
  return true;
}

// ---- tuning -------------------------------------------------------------------------------------------------

typedef struct {
  replay_result *r;
  plim_replay_options base;
} tuner;

static void try_setting(void *context, size_t i) {
  tuner *t = context;
  plim_tune_row *row = &t->r->tune.at[i];
  *row = plim_tune_try(&t->r->trace, &t->r->guided, &t->base, row->conf);
}

static bool tune(replay_result *r) {
  tuner t = {r, r->options};
  for (size_t i = 0; i < plim_tune_setting_count; i++) {
    const plim_tune_setting *setting = &plim_tune_settings[i];
    bool has_limit = r->options.limit_bytes != PLIM_UNKNOWN && !r->options.limit_is_card;
    if (setting->needs_limit && !has_limit) continue;
    plim_alloc_conf conf;
    if (plim_alloc_conf_parse(setting->conf, &conf, NULL) != PLIM_OK) continue;
    if (!r->is_what_if && same_conf(&conf, &r->recorded_options.conf)) continue; // measured below
    if (!vec_push(&r->tune, (plim_tune_row){.conf = setting->conf})) return false;
  }
  plim_parallel(r->tune.len, try_setting, &t);
  if (!r->is_what_if) {
    char text[512];
    plim_alloc_conf_print(&r->recorded_options.conf, text, sizeof text);
    r->recorded_conf_text = cli_format("%s", text);
    plim_tune_row recorded = {.conf = r->recorded_conf_text,
                              .is_recorded = true,
                              .totals = r->guided.recorded,
                              .first_oom_event = PLIM_UNKNOWN};
    if (!vec_push(&r->tune, recorded)) return false;
  }
  qsort(r->tune.at, r->tune.len, sizeof *r->tune.at, plim_tune_order);
  return true;
}

// ---- pictures -----------------------------------------------------------------------------------------------

typedef struct {
  const char *path;
  size_t columns;
  void (*write)(FILE *out, const picture *p);
} picture_request;

static plim_err draw(const replay_result *r, const picture_request *wanted, plim_error *error) {
  char settings[512];
  const plim_replay_options *options = r->is_what_if ? &r->options : &r->recorded_options;
  plim_alloc_conf_print(&options->conf, settings, sizeof settings);
  plim_timeline timeline;
  if (!plim_timeline_build(&r->trace, &r->story, options, r->is_what_if ? &r->guided : NULL,
                           wanted->columns, &timeline))
    return plim_fail(error, PLIM_ERR_NOMEM, "not enough memory to draw %s", wanted->path);
  picture p = {.name = r->path,
               .settings = settings,
               .trace = &r->trace,
               .story = &r->story,
               .timeline = &timeline,
               .limit_bytes = r->options.limit_bytes};
  plim_err err = picture_save(&p, wanted->path, wanted->write, error);
  plim_timeline_clear(&timeline);
  return err;
}

static plim_err draw_all(const replay_result *r, const replay_args *args, plim_error *error) {
  picture_request wanted[] = {{args->svg, SVG_COLUMNS, svg_write},
                              {args->html, HTML_COLUMNS, html_write}};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    plim_err err = wanted[i].path ? draw(r, &wanted[i], error) : PLIM_OK;
    if (err) return err;
  }
  return PLIM_OK;
}

// ---- the command --------------------------------------------------------------------------------------------

double replay_seconds_at(const replay_result *r, size_t event) {
  if (event >= r->trace.events.len) return 0;
  uint64_t start = r->trace.events.at[0].time_us, now = r->trace.events.at[event].time_us;
  return now > start ? (double)(now - start) / 1e6 : 0;
}

uint64_t replay_full_at_step(const replay_result *r, uint64_t bytes_per_step) {
  uint64_t limit = r->options.limit_bytes, peak = r->guided.recorded.peak_reserved_bytes;
  if (limit == PLIM_UNKNOWN || !bytes_per_step) return 0;
  uint64_t room = limit > peak ? limit - peak : 0;
  return r->story.steps.len + room / bytes_per_step + 1;
}

static void clear(replay_result *r) {
  for (size_t i = 0; i < r->oom_count; i++) plim_moment_clear(&r->ooms[i].moment);
  for (size_t i = 0; i < r->notes.len; i++) free(r->notes.at[i]);
  vec_free(&r->notes);
  vec_free(&r->tune);
  free(r->recorded_conf_text);
  vec_free(&r->leaks);
  plim_duplicates_clear(&r->duplicates);
  plim_moment_clear(&r->peak);
  plim_moment_clear(&r->peak_reserved);
  plim_guided_clear(&r->guided);
  plim_story_clear(&r->story);
  plim_trace_clear(&r->trace);
  plim_snapshot_info_clear(&r->info);
}

static plim_err no_memory(plim_error *error) {
  return plim_fail(error, PLIM_ERR_NOMEM, "this machine has not enough memory for the snapshot");
}

static plim_err check_arguments(const replay_args *args, plim_error *error) {
  plim_block_order order;
  if (args->torch && !plim_block_order_of(args->torch, &order)) {
    plim_fail(error, PLIM_ERR_ARGUMENT, "'%s' is not a PyTorch version", args->torch);
    plim_error_hint(error, "--torch 2.11");
    return PLIM_ERR_ARGUMENT;
  }
  return PLIM_OK;
}

// A recorded settings string that does not parse comes from another torch than we know.
static plim_err read_settings(replay_result *r, plim_error *error) {
  plim_err err = plim_replay_recorded_conf(&r->trace, &r->recorded_options.conf, error);
  if (!err) return PLIM_OK;
  char problem[sizeof error->message];
  snprintf(problem, sizeof problem, "%s", error->message);
  plim_fail(error, err, "the snapshot's own allocator settings cannot be read: %s", problem);
  snprintf(error->file, sizeof error->file, "%s", r->path);
  return err;
}

static plim_err investigate(replay_result *r, const replay_args *args, plim_error *error) {
  r->recorded_options = (plim_replay_options){.limit_bytes = PLIM_UNKNOWN};
  plim_err err = read_settings(r, error);
  if (err) return err;
  if (!args->alloc_conf) r->options = r->recorded_options;
  bool ok = plim_trace_link(&r->trace) && plim_story_read(&r->trace, &r->story) &&
            follow_recording(r, args) && simulate(r, args) && inspect(r) &&
            plim_find_leaks(&r->trace, &r->story, &r->leaks) &&
            plim_find_duplicates(&r->trace, &r->story, &r->duplicates) && (!args->tune || tune(r));
  if (!ok) return no_memory(error);
  note_reading(r);
  note_replay(r);
  return draw_all(r, args, error);
}

static bool has_finding(const replay_result *r) {
  return r->leaks.len || r->duplicates.len || r->simulated.ooms;
}

static int run(const cli_call *call) {
  const replay_args *args = call->args;
  replay_result result = {.path = call->words.at[0], .top = args->top}, *r = &result;
  plim_error error = {0};
  if (args->alloc_conf && plim_alloc_conf_parse(args->alloc_conf, &r->options.conf, &error))
    return cli_report(&error, args->alloc_conf);
  int device = args->device == PLIM_UNKNOWN ? -1 : (int)args->device;
  plim_err err = check_arguments(args, &error);
  if (!err) err = plim_snapshot_read(r->path, device, &r->trace, &r->info, &error);
  if (err) return cli_report(&error, NULL);
  int status = CLI_ERROR;
  if (investigate(r, args, &error)) cli_report(&error, NULL);
  else {
    if (call->common.json) replay_print_json(r);
    else replay_print_text(r);
    status = has_finding(r) ? CLI_FINDING : CLI_OK;
  }
  clear(r);
  return status;
}

static const cli_positional positionals[] = {
    {"SNAPSHOT", "what torch.cuda.memory._dump_snapshot wrote; plain, .gz or .xz", CLI_FILE, 1, 1,
     NULL},
    {0},
};

#define AT(field) offsetof(replay_args, field)
static const cli_option options[] = {
    {"alloc-conf", 0, "STR", CLI_STRING, AT(alloc_conf),
     "replay under these allocator settings instead of the recorded ones", NULL},
    {"limit", 0, "SIZE", CLI_BYTES, AT(limit_bytes),
     "memory limit, as set_per_process_memory_fraction or the card sets it", NULL},
    {"torch", 0, "VERSION", CLI_STRING, AT(torch), "PyTorch version whose free-block order to use",
     NULL},
    {"device", 0, "N", CLI_UINT, AT(device),
     "which device's trace to replay (default: the one with most events)", NULL},
    {"tune", 0, NULL, CLI_FLAG, AT(tune), "try the settings people use on this trace, best first",
     NULL},
    {"svg", 0, "FILE", CLI_FILE, AT(svg), "write the memory timeline to FILE", NULL},
    {"html", 0, "FILE", CLI_FILE, AT(html), "write the memory timeline to FILE", NULL},
    {"top", 0, "N", CLI_UINT, AT(top), "how many holders of memory to list (default: 10)", NULL},
    {0},
};

static const char *const description[] = {
    "Reads a memory snapshot and runs its allocations through PyTorch's caching allocator, "
    "simulated: under the settings it was recorded with, or under others.",
    NULL,
};

static const cli_example examples[] = {
    {"plimsoll replay snapshot.pickle", "what held the memory at the peak"},
    {"plimsoll replay snapshot.pickle --limit 24GiB --tune",
     "which allocator settings would fit in 24 GiB"},
    {0},
};

const cli_command cmd_replay = {
    .name = "replay",
    .summary = "replay what PyTorch recorded through its allocator",
    .positionals = positionals,
    .options = options,
    .args_size = sizeof(replay_args),
    .defaults = &defaults,
    .run = run,
    .description = description,
    .examples = examples,
    .finding = "a leak or a duplicated model was found, or memory runs out",
};
