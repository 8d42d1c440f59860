// Analyses a snapshot for the report.
#include "replay_result.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "parallel.h"
#include "text.h"
#include "units.h"

// ---- notes ------------------------------------------------------------------------------------------------

#define note(r, ...) plim_note_add(&(r)->notes, __VA_ARGS__)

static void note_reading(replay_result *r) {
  const plim_trace *t = &r->trace;
  if (!t->entries)
    note(r, "recording.no_history", NULL,
         "the snapshot has no trace entries because history was not recorded, so this report shows "
         "only the state at its end. To see more, call " REPLAY_HOW_TO_RECORD " before the run");
  else if (t->start_blocks.len || t->start_segments.len)
    note(r, "recording.began_late", NULL,
         "%zu blocks were allocated before the first recorded entry (the recording started late, "
         "or its "
         "ring buffer overflowed); an earlier peak would not be seen",
         t->start_blocks.len);
  if (t->lost_frees)
    note(r, "recording.lost_frees", NULL, "%s frees are missing from the recording",
         units_count(t->lost_frees).text);
  if (!t->has_layout)
    note(r, "recording.no_segments", NULL,
         "the snapshot has no list of segments, so memory allocated before the recording is "
         "unknown");
  if (r->info.unknown_entries)
    note(r, "recording.unknown_entries", NULL,
         "%s entries were skipped because this version does not know their kind (%s)",
         units_count(r->info.unknown_entries).text, r->info.unknown_action);
}

static void note_replay(replay_result *r) {
  const plim_guided *g = &r->guided;
  bool gc = r->recorded_options.conf.gc_threshold > 0;
  if (gc && r->recorded_options.limit_bytes == PLIM_UNKNOWN)
    note(r, "assumed.limit", NULL,
         "garbage_collection_threshold depends on the memory limit, which snapshots do not record: "
         "give it with --limit SIZE");
  if (g->suspects_pools || r->trace.pools.len > 1)
    note(r, "recording.private_pools", NULL,
         "private pools (CUDA graphs, torch.cuda.MemPool) are in use; up to torch 2.11, snapshots "
         "do not record which request went to which pool or when a pool ends");
  if (g->unclear_releases)
    note(
        r, "assumed.limit", NULL,
        "%s releases of cached memory may be retries or empty_cache calls; --limit SIZE tells them "
        "apart",
        units_count(g->unclear_releases).text);
  if (g->lost)
    note(r, "simulation.differs", NULL,
         "\"Held at the peak\" and \"Fragmentation\" below are from the simulation, because the "
         "recorded state could not be followed after the first difference");
  if (r->is_what_if)
    note(r, "simulation.addresses", NULL,
         "simulated peak reserved can be off by up to %g %% (%g %% on average), because the "
         "driver's "
         "addresses are modelled",
         PLIM_ADDRESS_MODEL_WORST_PERCENT, PLIM_ADDRESS_MODEL_MEAN_PERCENT);
  if (g->recorded.ooms && (r->is_what_if || r->tune.len))
    note(r, "recording.out_of_memory", NULL,
         "the recorded run ran out of memory, so what it would have done next is unknown: a "
         "simulation that gets further does not prove that the whole run fits");
}

// ---- the recording ------------------------------------------------------------------------------------------

// Replays the snapshot as recorded. A limit that contradicts the recording makes it a what-if. If torch's version is
// not given, it is the one that reproduces the recording.
static bool follow_recording(replay_result *r, const replay_request *args) {
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

static bool simulate(replay_result *r, const replay_request *args) {
  bool other_limit = args->limit_bytes != r->recorded_options.limit_bytes;
  bool other_conf = !plim_alloc_conf_equal(&r->options.conf, &r->recorded_options.conf);
  r->is_what_if = other_conf || (other_limit && args->limit_bytes != PLIM_UNKNOWN);
  r->options.order = r->recorded_options.order;
  r->options.limit_bytes = args->limit_bytes;
  r->first_oom_event = PLIM_UNKNOWN;
  if (args->limit_bytes == PLIM_UNKNOWN) {
    plim_guided_set_limit(&r->guided, &r->options);
    r->limit_is_guessed = r->options.limit_bytes != PLIM_UNKNOWN;
  }
  r->peak.event = r->guided.peak_event;
  r->peak_reserved.event = r->guided.peak_reserved_event;
  if (!r->is_what_if && r->guided.exact) {
    r->simulated = r->guided.recorded;
    for (size_t i = 0; r->simulated.ooms && r->first_oom_event == PLIM_UNKNOWN; i++)
      if (r->trace.events.at[i].action == PLIM_EV_OOM) r->first_oom_event = i;
    return true;
  }
  plim_addresses addresses = r->is_what_if ? PLIM_ADDRESSES_MODEL : PLIM_ADDRESSES_RECORDED;
  plim_what_if got;
  if (!plim_replay_what_if(&r->trace, &r->guided, &r->options, addresses, NULL, NULL, NULL, &got))
    return false;
  r->simulated = got.totals;
  r->first_oom_event = got.first_oom_event;
  if (!r->is_what_if) return true; // the recording itself is analysed
  r->peak.event = got.peak_event;
  r->peak_reserved.event = got.peak_reserved_event;
  return true;
}

// ---- moments ------------------------------------------------------------------------------------------------

static uint64_t compacted_free(uint64_t limit, const plim_moment *m) {
  uint64_t used = m->fragmentation.usage.active_bytes;
  if (limit == PLIM_UNKNOWN) return PLIM_UNKNOWN;
  return limit > used ? limit - used : 0;
}

replay_verdict replay_compacted_verdict(const replay_oom *oom) {
  if (oom->compacted_high_bytes == PLIM_UNKNOWN) return REPLAY_NOT_KNOWN;
  if (oom->compacted_low_bytes >= oom->request_bytes) return REPLAY_WOULD_FIT;
  return oom->compacted_high_bytes < oom->request_bytes ? REPLAY_WOULD_NOT_FIT : REPLAY_NOT_KNOWN;
}

static void add_oom(replay_result *r, size_t event, const plim_moment *m) {
  uint64_t high = r->options.limit_bytes, low = high;
  if (r->limit_is_guessed && !r->options.limit_is_card) low = r->guided.limit_low;
  r->ooms[r->oom_count++] = (replay_oom){.event = event,
                                         .request_bytes = r->trace.events.at[event].bytes,
                                         .compacted_low_bytes = compacted_free(low, m),
                                         .compacted_high_bytes = compacted_free(high, m),
                                         .moment = *m};
}

// The failures to report: those of the recording, or the first of a simulation, where the program would end.
static size_t find_ooms(const replay_result *r, size_t *events, size_t most) {
  size_t count = 0;
  if (r->is_what_if) {
    if (r->first_oom_event != PLIM_UNKNOWN) events[count++] = (size_t)r->first_oom_event;
    return count;
  }
  for (size_t i = 0; i < r->trace.events.len && count < most; i++)
    if (r->trace.events.at[i].action == PLIM_EV_OOM) events[count++] = i;
  return count;
}

static bool inspect(replay_result *r) {
  size_t events[REPLAY_MAX_OOMS + 2] = {r->peak.event, r->peak_reserved.event};
  size_t count = 2 + find_ooms(r, events + 2, REPLAY_MAX_OOMS);
  plim_moment moments[REPLAY_MAX_OOMS + 2];
  bool ok =
      plim_inspect(&r->trace, &r->analysis, r->is_what_if ? &r->guided : NULL,
                   r->is_what_if ? &r->options : &r->recorded_options, events, count, moments);
  r->peak = moments[0];
  r->peak_reserved = moments[1];
  for (size_t i = 2; i < count; i++) add_oom(r, events[i], &moments[i]);
  return ok;
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
    if (!r->is_what_if && plim_alloc_conf_equal(&conf, &r->recorded_options.conf))
      continue; // measured below
    if (!vec_push(&r->tune, (plim_tune_row){.conf = setting->conf})) return false;
  }
  plim_parallel(r->tune.len, try_setting, &t);
  for (size_t i = 0; i < r->tune.len; i++) { // retries failed ones one at a time, with more memory
    if (r->tune.at[i].failed) try_setting(&t, i);
    if (r->tune.at[i].failed) return false;
  }
  if (!r->is_what_if) {
    char text[512];
    plim_alloc_conf_print(&r->recorded_options.conf, text, sizeof text);
    r->recorded_conf_text = strdup(text);
    if (!r->recorded_conf_text) return false;
    plim_tune_row recorded = {.conf = r->recorded_conf_text,
                              .is_recorded = true,
                              .totals = r->guided.recorded,
                              .first_oom_event = PLIM_UNKNOWN};
    if (!vec_push(&r->tune, recorded)) return false;
  }
  qsort(r->tune.at, r->tune.len, sizeof *r->tune.at, plim_tune_order);
  return true;
}

static bool asks_less(const plim_tune_row *a, const plim_tune_row *b) {
  bool x = strstr(a->conf, "garbage_collection") != NULL; // needs a change of the program
  bool y = strstr(b->conf, "garbage_collection") != NULL;
  if (x != y) return y;
  if (a->is_recorded != b->is_recorded) return a->is_recorded;
  if (a->totals.retries != b->totals.retries) return a->totals.retries < b->totals.retries;
  return a->totals.segment_allocs < b->totals.segment_allocs;
}

static bool is_good_enough(const plim_tune_row *row, const plim_tune_row *best) {
  double most = 1 + PLIM_ADDRESS_MODEL_WORST_PERCENT / 100;
  return !row->failed && !row->totals.ooms &&
         (double)row->totals.peak_reserved_bytes <= (double)best->totals.peak_reserved_bytes * most;
}

const plim_tune_row *replay_recommended(const replay_result *r) {
  if (!r->tune.len || r->tune.at[0].failed || r->tune.at[0].totals.ooms) return NULL;
  const plim_tune_row *best = r->tune.at, *chosen = best;
  for (size_t i = 1; i < r->tune.len; i++)
    if (is_good_enough(&r->tune.at[i], best) && asks_less(&r->tune.at[i], chosen))
      chosen = &r->tune.at[i];
  return chosen;
}

// ---- all of it ----------------------------------------------------------------------------------------------

double replay_seconds_at(const replay_result *r, size_t event) {
  if (event >= r->trace.events.len || !r->trace.events.at[event].time_us) return NAN;
  uint64_t start = r->trace.events.at[0].time_us, now = r->trace.events.at[event].time_us;
  return now > start ? (double)(now - start) / 1e6 : 0;
}

size_t replay_ran_out_at_step(const replay_result *r) {
  if (!r->simulated.ooms || r->first_oom_event == PLIM_UNKNOWN) return 0;
  return plim_trace_analysis_step_of(&r->analysis, (size_t)r->first_oom_event);
}

uint64_t replay_full_at_step(const replay_result *r, uint64_t bytes_per_step) {
  if (r->simulated.ooms) return 0;
  uint64_t limit = r->options.limit_bytes, peak = r->guided.recorded.peak_reserved_bytes;
  if (limit == PLIM_UNKNOWN && r->card_bytes) limit = r->card_bytes;
  if (limit == PLIM_UNKNOWN || !bytes_per_step) return 0;
  uint64_t room = limit > peak ? limit - peak : 0;
  return r->analysis.steps.len + room / bytes_per_step + 1;
}

static void follow_clear(replay_result *r) {
  for (size_t i = 0; i < r->oom_count; i++) plim_moment_clear(&r->ooms[i].moment);
  r->oom_count = 0;
  plim_notes_clear(&r->notes);
  vec_free(&r->tune);
  free(r->recorded_conf_text);
  r->recorded_conf_text = NULL;
  plim_moment_clear(&r->peak);
  plim_moment_clear(&r->peak_reserved);
  plim_guided_clear(&r->guided);
  r->guided = (plim_guided){0};
  r->limit_is_guessed = false;
}

void replay_result_clear(replay_result *r) {
  follow_clear(r);
  vec_free(&r->leaks);
  plim_duplicates_clear(&r->duplicates);
  plim_trace_analysis_clear(&r->analysis);
  plim_trace_clear(&r->trace);
  plim_snapshot_info_clear(&r->info);
}

static plim_err lacks_memory(plim_error *error) {
  return plim_fail(error, PLIM_ERR_NOMEM,
                   "this machine does not have enough memory for the snapshot");
}

// What depends on the request.
static plim_err follow(replay_result *r, const replay_request *args, plim_error *error) {
  r->recorded_options = (plim_replay_options){.limit_bytes = PLIM_UNKNOWN};
  if (!plim_replay_recorded_conf(&r->trace, &r->recorded_options.conf))
    note(r, "recording.unknown_settings", NULL,
         "some of the recorded allocator settings are not known to this version and were ignored: "
         "%s",
         plim_trace_text(&r->trace, r->trace.settings.conf));
  r->options = r->recorded_options;
  if (args->conf) r->options.conf = *args->conf;
  bool ok =
      follow_recording(r, args) && simulate(r, args) && inspect(r) && (!args->tune || tune(r));
  if (!ok) return lacks_memory(error);
  note_reading(r);
  note_replay(r);
  return r->notes.has_no_memory ? lacks_memory(error) : PLIM_OK;
}

plim_err replay_investigate(replay_result *r, const replay_request *args, plim_error *error) {
  bool ok = plim_trace_link(&r->trace) && plim_trace_analysis_read(&r->trace, &r->analysis) &&
            plim_find_leaks(&r->trace, &r->analysis, &r->leaks) &&
            plim_find_duplicates(&r->trace, &r->analysis, &r->duplicates);
  if (!ok) return lacks_memory(error);
  plim_mark_leaks(&r->trace, &r->leaks, &r->analysis);
  return follow(r, args, error);
}

plim_err replay_again(replay_result *r, const replay_request *args, plim_error *error) {
  follow_clear(r);
  return follow(r, args, error);
}
