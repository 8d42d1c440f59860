// Prometheus's text format: a help and a type for each metric, then a line per series. What is unknown has no line.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli_alloc.h"
#include "utf8.h"
#include "watch_show.h"

typedef struct {
  FILE *out;
  const watch *watch;
} writer;

// A label's value: backslash, quote and line break are escaped. What is not UTF-8, such as a name that was cut within a
// character, becomes a question mark: Prometheus would refuse everything.
static void put_label(FILE *out, const char *before, const char *name, const char *value) {
  fprintf(out, "%s%s=\"", before, name);
  for (size_t left = strlen(value), length; left; value += length, left -= length) {
    length = plim_utf8_length(value, left, NULL);
    bool is_text = length > 0;
    if (!is_text) length = 1;
    if (!is_text) fputc('?', out);
    else if (*value == '\n') fputs("\\n", out);
    else if (*value == '\\' || *value == '"') fprintf(out, "\\%c", *value);
    else fwrite(value, 1, length, out);
  }
  fputs("\"", out);
}

static void put_value(FILE *out, double value) {
  char text[32];
  snprintf(text, sizeof text, "%.15g", value);
  fprintf(out, " %s\n", text);
}

static void head(FILE *out, const char *name, const char *help) {
  fprintf(out, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

static double known(uint64_t value) { return value == PLIM_UNKNOWN ? NAN : (double)value; }

// ---- cards ------------------------------------------------------------------------------------------

static double card_total(const watch_card *c) { return known(c->card.total_bytes); }
static double card_used(const watch_card *c) { return known(c->card.used_bytes); }
static double card_free(const watch_card *c) { return known(c->card.free_bytes); }
static double card_busy(const watch_card *c) { return known(c->activity.busy_percent) / 100; }
static double card_heat(const watch_card *c) { return known(c->activity.temperature_celsius); }
static double card_power(const watch_card *c) { return known(c->activity.power_milliwatts) / 1000; }

static const struct {
  const char *name, *help;
  double (*value)(const watch_card *c);
} card_metrics[] = {
    {"plimsoll_gpu_memory_total_bytes", "Memory of the GPU.", card_total},
    {"plimsoll_gpu_memory_used_bytes", "Memory that processes use.", card_used},
    {"plimsoll_gpu_memory_free_bytes", "Memory that is free.", card_free},
    {"plimsoll_gpu_busy_ratio", "Share of the time in which the GPU computed.", card_busy},
    {"plimsoll_gpu_temperature_celsius", "Temperature of the GPU.", card_heat},
    {"plimsoll_gpu_power_watts", "Power that the GPU takes.", card_power},
};

static void put_card_labels(FILE *out, const watch_card *c) {
  char index[16];
  snprintf(index, sizeof index, "%u", c->card.index);
  put_label(out, "{", "gpu", index);
  put_label(out, ",", "uuid", c->card.uuid);
  put_label(out, ",", "name", c->card.name);
}

static void put_cards(const writer *m) {
  const watch_cards *cards = &m->watch->cards;
  for (size_t i = 0; i < sizeof card_metrics / sizeof *card_metrics; i++) {
    head(m->out, card_metrics[i].name, card_metrics[i].help);
    for (size_t k = 0; k < cards->count; k++) {
      double value = card_metrics[i].value(&cards->at[k]);
      if (!isfinite(value)) continue;
      fputs(card_metrics[i].name, m->out);
      put_card_labels(m->out, &cards->at[k]);
      fputs("}", m->out);
      put_value(m->out, value);
    }
  }
}

static void put_process(const writer *m, const char *name, const watch_card *c,
                        const watch_process *p) {
  char pid[16];
  if (p->process.used_bytes == PLIM_UNKNOWN) return;
  snprintf(pid, sizeof pid, "%u", p->process.pid);
  fputs(name, m->out);
  put_card_labels(m->out, c);
  put_label(m->out, ",", "pid", pid);
  put_label(m->out, ",", "process", p->is.name);
  put_label(m->out, ",", "user", p->is.user);
  fputs("}", m->out);
  put_value(m->out, (double)p->process.used_bytes);
}

static void put_processes(const writer *m) {
  static const char name[] = "plimsoll_gpu_process_memory_bytes";
  head(m->out, name, "Memory of the GPU that a process uses.");
  for (size_t i = 0; i < m->watch->cards.count; i++) {
    const watch_card *c = &m->watch->cards.at[i];
    for (size_t k = 0; k < c->process_count; k++) put_process(m, name, c, &c->processes[k]);
  }
}

// ---- the machine ------------------------------------------------------------------------------------

static void put_single(const writer *m, const char *name, const char *help, double value) {
  head(m->out, name, help);
  if (!isfinite(value)) return;
  fputs(name, m->out);
  put_value(m->out, value);
}

static void put_machine(const writer *m) {
  const plim_machine *host = &m->watch->host;
  put_single(m, "plimsoll_driver_up", "1 if the NVIDIA driver answers.",
             m->watch->cards.state == WATCH_DRIVER_HERE);
  put_single(m, "plimsoll_host_memory_total_bytes", "Memory of the host.",
             known(host->total_bytes));
  put_single(m, "plimsoll_host_memory_available_bytes", "Memory that new processes can get.",
             known(plim_machine_room(host)));
}

// ---- runs -------------------------------------------------------------------------------------------

static double rank_step(const live_rank *r) { return known(r->last.step); }
static double rank_pace(const live_rank *r) {
  return r->steps_per_second > 0 ? r->steps_per_second : NAN;
}
static double rank_allocated(const live_rank *r) { return known(r->last.allocated_bytes); }
static double rank_reserved(const live_rank *r) { return known(r->last.reserved_bytes); }
static double rank_peak(const live_rank *r) { return known(r->peak_bytes); }
static double rank_limit(const live_rank *r) { return known(r->limit_bytes); }
static double rank_headroom(const live_rank *r) { return known(r->headroom_bytes); }
static double rank_growth(const live_rank *r) {
  bool is_clear = r->trend.kind != PLIM_TREND_UNCLEAR && !r->trend.is_by_time;
  return is_clear ? r->trend.bytes_per_step : NAN;
}
static double rank_full(const live_rank *r) {
  return r->trend.is_by_time ? NAN : known(r->trend.full_step);
}

static const struct {
  const char *name, *help;
  double (*value)(const live_rank *r);
} rank_metrics[] = {
    {"plimsoll_run_step", "The step that was reported last.", rank_step},
    {"plimsoll_run_steps_per_second", "Pace over the last steps.", rank_pace},
    {"plimsoll_run_allocated_bytes", "Memory of tensors.", rank_allocated},
    {"plimsoll_run_reserved_bytes", "Memory that PyTorch holds.", rank_reserved},
    {"plimsoll_run_peak_bytes", "The most memory that was allocated.", rank_peak},
    {"plimsoll_run_limit_bytes", "Memory that the process can get.", rank_limit},
    {"plimsoll_run_headroom_bytes", "What was left of the limit at the peak.", rank_headroom},
    {"plimsoll_run_growth_bytes_per_step", "Growth of memory; 0 if it does not grow.", rank_growth},
    {"plimsoll_run_full_step", "The step at which memory will be full.", rank_full},
};

static void put_rank(const writer *m, const char *name, const watch_run *run, const live_rank *r,
                     double value) {
  char rank[24], pid[16];
  if (!isfinite(value)) return;
  snprintf(rank, sizeof rank, "%llu", (unsigned long long)r->last.rank);
  snprintf(pid, sizeof pid, "%u", r->pid);
  fputs(name, m->out);
  put_label(m->out, "{", "run", run->run.name);
  put_label(m->out, ",", "rank", r->last.rank == PLIM_UNKNOWN ? "" : rank);
  put_label(m->out, ",", "pid", pid);
  fputs("}", m->out);
  put_value(m->out, value);
}

static void put_runs(const writer *m) {
  for (size_t i = 0; i < sizeof rank_metrics / sizeof *rank_metrics; i++) {
    head(m->out, rank_metrics[i].name, rank_metrics[i].help);
    for (size_t k = 0; k < m->watch->runs.len; k++) {
      const watch_run *run = m->watch->runs.at[k];
      for (size_t n = 0; n < run->ranks.len; n++)
        if (run->ranks.at[n]->has_sample)
          put_rank(m, rank_metrics[i].name, run, run->ranks.at[n],
                   rank_metrics[i].value(run->ranks.at[n]));
    }
  }
}

char *watch_metrics(const watch *w, size_t *size) {
  char *text = NULL;
  writer m = {open_memstream(&text, size), w};
  if (!m.out) cli_out_of_memory();
  put_machine(&m);
  put_cards(&m);
  put_processes(&m);
  put_runs(&m);
  if (fclose(m.out) || !text) cli_out_of_memory();
  return text;
}
