// The parts of the log reader, private to this folder.
#ifndef PLIM_IO_OOM_LOG_IMPL_H
#define PLIM_IO_OOM_LOG_IMPL_H

#include "input.h"
#include "oom_log.h"

typedef struct {
  const char *at; // not terminated
  size_t size;
} log_text;

// ---- lines (oom_log_lines.c) ------------------------------------------------------------------------

enum { LOG_LINE_BYTES = 64 * 1024 }; // longer lines come in pieces of this size

typedef struct {
  plim_input *input;
  uint64_t number;   // of the current line, from 1; lines end with \n
  bool has_new_line; // the next byte begins a line
  char raw[LOG_LINE_BYTES], clean[LOG_LINE_BYTES];
} log_reader;

// The next piece of the log: up to \n or \r, without colours and control characters. Returns false at the end of the
// log and on failure, when *err is set.
bool log_next(log_reader *reader, log_text *line, plim_err *err, plim_error *error);

// Removes what loggers and launchers put before a line: time, level, host, rank. Sets *rank if it names one.
log_text log_strip(log_text line, uint64_t *rank);

// ---- small helpers (oom_log_words.c) ----------------------------------------------------------------

bool log_starts(log_text text, const char *word);
bool log_has(log_text text, const char *word);
// The text after the first `word`; at is NULL if there is none.
log_text log_after(log_text text, const char *word);
// Reads digits at the start of the text; false if there are none or they do not fit.
bool log_count(log_text text, uint64_t *value);
// Copies and terminates, cutting what does not fit.
void log_copy(char *out, size_t size, log_text text);
log_text log_trim(log_text text);

// ---- phrases (oom_log_phrases.c) --------------------------------------------------------------------

// How much a phrase proves. A clearer message replaces one that is less clear.
typedef enum {
  LOG_NO_MESSAGE, // not a message: it marks a line that is read more closely
  LOG_HINT,       // some error that mentions a lack of memory
  LOG_WEAK,       // may be a consequence of something else, or harmless
  LOG_STRONG
} log_strength;

// Why a line is read more closely. LOG_MENTION: people also write the phrase when nothing has failed.
enum { LOG_FRAME = 1, LOG_PROGRESS = 2, LOG_SETTING = 4, LOG_KILLED = 8, LOG_MENTION = 16 };

typedef struct {
  const char *words; // lower case, without blanks
  plim_oom_kind kind;
  log_strength strength;
  unsigned marks;
} log_phrase;

typedef struct log_finder log_finder;

// Finds all phrases in one pass, whatever blanks and line ends are in between. NULL when out of memory.
log_finder *log_finder_new(void);
void log_finder_free(log_finder *finder);
// Takes one more character; returns the longest phrase that ends with it, or NULL. *state is 0 at first.
const log_phrase *log_finder_step(const log_finder *finder, uint16_t *state, char c);

// ---- numbers (oom_log_numbers.c) --------------------------------------------------------------------

enum { LOG_MESSAGE_BYTES = 8 * 1024 }; // what is read of a message

// Fills the numbers, the device and the processes of a message from its text; `phrase_at` is where in the text the
// phrase begins.
void log_take_apart(plim_oom_message *message, const char *text, size_t phrase_at);
// Reads "12.34 GiB", "1900,00 MiB", "2359296 bytes". Returns the length, 0 if there is none. *bytes is PLIM_UNKNOWN
// if it is more than any machine has.
size_t log_read_size(const char *text, uint64_t *bytes);

// ---- tracebacks (oom_log_stack.c) -------------------------------------------------------------------

// Follows the tracebacks of one rank, line by line.
void log_follow_stack(plim_oom_stack *stack, log_text line);

// ---- the rest (oom_log_facts.c) ---------------------------------------------------------------------

typedef struct {
  plim_oom_facts facts;
  uint64_t bar_step, bar_total;     // the last progress seen
  uint64_t outer_step, outer_total; // that of a bar that had not ended when the last one began
  int advances;                     // how often the step went up since the last message
  bool is_evaluating;               // the last bar was that of an evaluation
} log_watch;

void log_watch_progress(log_watch *watch, log_text line);
void log_watch_settings(log_watch *watch, log_text line);
// The error that the line is, such as "ValueError: ..."; at is NULL if it is none.
log_text log_error_of(log_text line);
// Whether an error follows from that of another rank.
bool log_is_consequence(log_text error);
// Whether a scheduler says that it ended the job for another reason than memory.
bool log_is_cancelled(log_text line);

#endif
