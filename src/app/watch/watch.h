// What `plimsoll watch` shows: cards, their processes, host memory and runs under plimsoll, sampled again and again.
//
//   watch *w;
//   if (watch_new(&(watch_options){.root = "", .silent_seconds = 5}, &w, &error)) ...
//   watch_take(w, 1);   // once per interval
//   ... w->cards, w->host, w->runs, w->signs ...
//   watch_free(w);
//
// The driver is asked on a thread of its own. While it does not answer, everything it would say is unknown, and nothing
// here waits for it longer than allowed.
#ifndef PLIM_APP_WATCH_H
#define PLIM_APP_WATCH_H

#include "live_rank.h"
#include "machine.h"
#include "nvml.h"
#include "process.h"
#include "vec.h"

enum { WATCH_KEPT = 512, WATCH_RUNS = 32, WATCH_RANKS = 64 };

// ---- cards ------------------------------------------------------------------------------------------

typedef enum {
  WATCH_DRIVER_ASKED,  // the first answer is not there yet
  WATCH_DRIVER_HERE,   // it answers
  WATCH_DRIVER_ABSENT, // no driver is installed
  WATCH_DRIVER_FAILED, // it is installed, and answers with an error
  WATCH_DRIVER_SILENT, // it does not answer
  WATCH_DRIVER_STATES
} watch_driver_state;

extern const char *const watch_driver_names[WATCH_DRIVER_STATES]; // "answers", for JSON

typedef struct {
  plim_card_process process;
  plim_process is; // both texts are empty for a process that is not visible from here
} watch_process;

typedef struct {
  plim_card card;
  plim_card_activity activity;
  bool lists_processes; // false: the driver does not say which there are
  size_t process_count;
  watch_process processes[PLIM_MAX_PROCESSES];
} watch_card;

typedef struct {
  watch_driver_state state;
  double silent_seconds; // how long the driver has not answered; 0 unless it is silent
  size_t count;
  watch_card at[PLIM_MAX_CARDS];
} watch_cards;

// Shares between 0 and 1, the newest last; -1 is unknown.
typedef struct {
  double at[WATCH_KEPT];
  size_t count;
} watch_ring;

typedef struct {
  watch_ring memory, busy;
  plim_history history; // by time, a sample each 10 s
} watch_card_history;

// ---- runs -------------------------------------------------------------------------------------------

typedef struct {
  live_run run;
  bool is_there;
  vec(live_rank *) ranks;
  const live_rank *worst; // the one that runs out of memory first; NULL: none has reported
} watch_run;

// ---- warning signs ----------------------------------------------------------------------------------

typedef enum {
  WATCH_CREEPING,
  WATCH_LENGTHENING,
  WATCH_OUTSIDE,
  WATCH_STAIRCASE,
  WATCH_SWINGS,
  WATCH_LOW_MEMORY,
  WATCH_LOW_BUSY,
  WATCH_SIGN_KINDS
} watch_sign_kind;

extern const char *const watch_sign_names[WATCH_SIGN_KINDS]; // "creeping", for JSON

typedef struct {
  watch_sign_kind kind;
  bool is_warning;      // memory will run out, or may; otherwise only worth knowing
  const watch_run *run; // NULL: it is about a card
  size_t card;          // index into cards, if run is NULL
  plim_trend trend;     // of what it is about
  char text[PLIM_TREND_TEXT];
} watch_sign;

// ---- all of it --------------------------------------------------------------------------------------

typedef struct {
  const char *root;      // that of machine.h
  double silent_seconds; // after which the driver counts as silent
} watch_options;

typedef struct {
  watch_options options;
  char folder[PATH_MAX]; // of the runs; empty: unknown
  double unix_seconds;   // when the last sample was taken
  uint64_t samples;      // taken so far
  bool has_no_memory;    // out of memory: something is missing from the last sample

  watch_cards cards;
  watch_card_history histories[PLIM_MAX_CARDS]; // of the cards at the same index
  plim_machine host;
  vec(watch_run *) runs; // those under way, by name
  vec(watch_sign) signs; // warnings first

  struct watch_driver *driver;
  double last_trend_seconds; // by the steady clock
} watch;

plim_err watch_new(const watch_options *options, watch **out, plim_error *error);
void watch_free(watch *w); // NULL is fine

// Takes a sample. Waits for the driver at most `wait_seconds`, and not at all while it is silent.
void watch_take(watch *w, double wait_seconds);

// The run that a process belongs to; NULL if none.
const watch_run *watch_run_of(const watch *w, unsigned pid);

// Whether some run will, or may, run out of memory.
bool watch_has_warning(const watch *w);

#endif
