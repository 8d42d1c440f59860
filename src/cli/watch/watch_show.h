// The ways to show what is watched.
#ifndef PLIM_CLI_WATCH_SHOW_H
#define PLIM_CLI_WATCH_SHOW_H

#include "report.h"
#include "term.h"
#include "watch.h"

// ---- as lines of text, for the terminal view and --once ---------------------------------------------

typedef struct {
  term_style style;
  char *text; // owned
} page_span;

typedef struct {
  vec(page_span) spans;
  size_t columns;
} page_line;

// Lines that are at most `width` columns wide. It starts as {.width = 80, .is_utf8 = true}.
typedef struct {
  size_t width;
  bool is_utf8;     // otherwise bars and history are drawn with ASCII
  bool has_history; // draw the history too
  vec(page_line) lines;
} page;

void page_fill(page *p, const watch *w);
void page_clear(page *p); // the lines; what is set stays

// Adds a piece of text to the last line; page_line_begin starts a new one. What does not fit is cut.
void page_line_begin(page *p);
void page_put(page *p, term_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// A sentence that goes on below itself, indented.
void page_say(page *p, size_t indent, const char *text);
// A bar of that many columns that is full to this share, and the history of shares; a share of -1 is unknown.
void page_bar(page *p, size_t columns, double share);
void page_history(page *p, size_t columns, const watch_ring *ring);

// watch_take, where running out of memory ends the program with a message.
void watch_take_all(watch *w, double wait_seconds);

void watch_print_text(const watch *w, bool is_utf8);
void watch_print_json(const watch *w); // one line
// "the driver has not answered for 5 s", or NULL if it answers.
const char *watch_driver_says(const watch_cards *cards, char *text, size_t size);

// ---- as a terminal view -----------------------------------------------------------------------------

// Shows the view until the user ends it, and returns the exit code.
int watch_screen(watch *w, double interval_seconds, bool is_utf8);

// ---- for Prometheus ---------------------------------------------------------------------------------

// The sample in Prometheus's text format, version 0.0.4. The caller frees it.
char *watch_metrics(const watch *w, size_t *size);

#endif
