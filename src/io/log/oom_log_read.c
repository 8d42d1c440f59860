// Reads a log as a stream: looks for phrases, follows each rank's traceback, and collects the text of the message.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "oom_log_impl.h"
#include "text_file.h"
#include "vec.h"

enum {
  RANKS = 256,        // ranks with a state of their own; further ones share them
  KEPT_LINES = 8,     // a phrase may begin this many lines earlier
  KEPT_BYTES = 1024,  // of each
  BEFORE_BYTES = 240, // of the line, shown before the phrase
  MESSAGE_LINES = 60, // a message ends after so many lines
  ERROR_LINES = 20,   // a traceback belongs to messages within so many lines after its error
  KILL_LINES = 200,   // a process that is killed so soon after an error was killed because of it
};

typedef struct {
  char text[KEPT_BYTES]; // the end of the line
  size_t size;
  uint64_t number, rank;
} kept_line;

typedef struct {
  uint16_t state; // of the search for phrases
  bool has_failed, is_after_frame;
  plim_oom_stack stack;
  uint64_t error_line; // where the traceback ended in an error; 0: it goes on
} rank_state;

typedef struct {
  log_finder *finder;
  plim_oom_log *log;
  log_watch watch;
  rank_state ranks[RANKS];
  kept_line kept[KEPT_LINES];
  size_t next_kept;
  char other_error[320]; // the last error that follows from no other; empty: none
  uint64_t other_error_line, other_error_step;
  bool is_cancelled;     // a scheduler has ended the job, and not for memory
  log_strength strength; // of the message found so far
  bool is_collecting;    // the message's text is still going on
  bool has_begun;        // the message begins in the current line, which it has already
  int lines_left;
  size_t phrase_at;
  size_t size;
  char text[LOG_MESSAGE_BYTES];
} reading;

static rank_state *state_of(reading *r, uint64_t rank) {
  return &r->ranks[rank == PLIM_UNKNOWN ? 0 : 1 + rank % (RANKS - 1)];
}

// ---- the text of the message ------------------------------------------------------------------------

// Adds text, runs of blanks made one.
static void add_part(reading *r, log_text text) {
  for (size_t i = 0; i < text.size && r->size + 2 < sizeof r->text; i++) {
    bool is_blank = text.at[i] == ' ';
    if (is_blank && r->size && r->text[r->size - 1] == ' ') continue;
    r->text[r->size++] = text.at[i];
  }
  r->text[r->size] = 0;
}

// The same for a whole line, with a blank after it.
static void add_text(reading *r, log_text text) {
  add_part(r, text);
  if (r->size && r->text[r->size - 1] != ' ' && r->size + 1 < sizeof r->text)
    r->text[r->size++] = ' ';
  r->text[r->size] = 0;
}

static void finish_message(reading *r) {
  plim_oom_message *m = &r->log->message;
  if (!r->is_collecting) return;
  r->is_collecting = false;
  log_take_apart(m, r->text, r->phrase_at);
  log_text shown = log_trim((log_text){r->text, r->size});
  log_copy(m->text, sizeof m->text, shown);
}

// The line where the phrase begins: it ends at `end` of `line`, and `length` characters of it are not blanks.
typedef struct {
  log_text rest; // of that line, from BEFORE_BYTES before the phrase
  size_t before; // how many bytes of it come before the phrase
  uint64_t number;
  size_t back; // how many kept lines ago; 0: the line itself
} beginning;

// Goes back from `end` over up to *left characters that are not blanks.
static size_t go_back(const char *text, size_t end, size_t *left) {
  while (end && *left)
    if (text[--end] != ' ') --*left;
  return end;
}

static const kept_line *kept_back(const reading *r, size_t back) {
  return &r->kept[(r->next_kept + KEPT_LINES - back) % KEPT_LINES];
}

static beginning find_beginning(const reading *r, log_text line, size_t end, size_t length,
                                uint64_t number, uint64_t rank) {
  size_t at = go_back(line.at, end, &length);
  size_t from = at > BEFORE_BYTES ? at - BEFORE_BYTES : 0;
  beginning b = {{line.at + from, line.size - from}, at - from, number, 0};
  for (size_t back = 1; length && back <= KEPT_LINES; back++) {
    const kept_line *kept = kept_back(r, back);
    if (kept->rank != rank || !kept->number) continue;
    at = go_back(kept->text, kept->size, &length);
    from = at > BEFORE_BYTES ? at - BEFORE_BYTES : 0;
    b = (beginning){{kept->text + from, kept->size - from}, at - from, kept->number, back};
  }
  return b;
}

// ---- messages ---------------------------------------------------------------------------------------

static void clear_message(plim_oom_message *m) {
  *m = (plim_oom_message){.line = PLIM_UNKNOWN, .rank = PLIM_UNKNOWN, .index = PLIM_UNKNOWN};
  for (int i = 0; i < PLIM_OOM_FIELDS; i++) m->bytes[i] = PLIM_UNKNOWN;
}

static bool is_same_step(const reading *r) { return r->watch.advances < 2; }

// A clearer message replaces a weak one; one after which the training went on gives way to a later one. tqdm draws its
// bar once more when it is closed, so one more step proves nothing.
static bool is_better(const reading *r, const log_phrase *phrase) {
  if (r->log->message.kind == PLIM_OOM_NONE || !is_same_step(r)) return true;
  return phrase->strength > r->strength;
}

// The traceback that belongs to a message in this line.
static plim_oom_stack stack_at(reading *r, uint64_t rank, uint64_t number) {
  const rank_state *state = state_of(r, rank);
  bool is_old = state->error_line && number > state->error_line + ERROR_LINES;
  return is_old ? (plim_oom_stack){0} : state->stack;
}

// Some programs print the message first and the traceback, with the message again, later.
static void adopt_stack(reading *r, const log_phrase *phrase, uint64_t number, uint64_t rank) {
  plim_oom_message *m = &r->log->message;
  bool has_stack = *m->stack.own.file || *m->stack.sign.file || *m->stack.part.file;
  if (has_stack || phrase->kind != m->kind || rank != m->rank || !is_same_step(r)) return;
  m->stack = stack_at(r, rank, number);
}

// A process that is killed soon after another error was killed because of it, as launchers do with the other ranks.
static void note_earlier_error(reading *r, const log_phrase *phrase, uint64_t number) {
  plim_oom_log *log = r->log;
  bool is_near = *r->other_error && r->other_error_step == r->watch.bar_step &&
                 number - r->other_error_line <= KILL_LINES;
  *log->earlier_error = 0;
  if (phrase->kind != PLIM_OOM_SIGKILL || !is_near) return;
  memcpy(log->earlier_error, r->other_error, sizeof log->earlier_error);
  log->earlier_error_line = r->other_error_line;
}

// Evaluation draws a bar of its own below that of the training.
static void note_progress(reading *r) {
  const log_watch *w = &r->watch;
  plim_oom_facts *f = &r->watch.facts;
  bool is_inner =
      r->log->message.stack.phase == PLIM_RUN_EVALUATION && w->outer_total != PLIM_UNKNOWN;
  f->step = is_inner ? w->outer_step : w->bar_step;
  f->total_steps = is_inner ? w->outer_total : w->bar_total;
}

static void start_message(reading *r, const log_phrase *phrase, const beginning *b, log_text line,
                          uint64_t number, uint64_t rank) {
  plim_oom_message *m = &r->log->message;
  plim_oom_facts *f = &r->watch.facts;
  if (m->kind != PLIM_OOM_NONE && r->strength == LOG_STRONG && !is_same_step(r)) f->survived++;
  clear_message(m);
  m->kind = phrase->kind;
  m->rank = rank;
  m->line = b->number;
  m->stack = stack_at(r, rank, number);
  f->is_evaluating = r->watch.is_evaluating;
  note_progress(r);
  note_earlier_error(r, phrase, number);
  r->watch.advances = 0;
  r->strength = phrase->strength;
  r->is_collecting = r->has_begun = true;
  r->lines_left = MESSAGE_LINES;
  r->size = 0;
  add_part(r, (log_text){b->rest.at, b->before});
  r->phrase_at = r->size;
  add_text(r, (log_text){b->rest.at + b->before, b->rest.size - b->before});
  for (size_t back = b->back; back-- > 1;)
    if (kept_back(r, back)->rank == rank)
      add_text(r, (log_text){kept_back(r, back)->text, kept_back(r, back)->size});
  if (b->back) add_text(r, line);
}

static void note_rank(reading *r, const log_phrase *phrase, uint64_t rank) {
  rank_state *state = state_of(r, rank);
  if (rank == PLIM_UNKNOWN || phrase->strength < LOG_STRONG || state->has_failed) return;
  state->has_failed = true;
  r->watch.facts.failed_ranks++;
}

static void found(reading *r, const log_phrase *phrase, log_text line, size_t end, uint64_t number,
                  uint64_t rank) {
  if (r->is_cancelled && phrase->kind == PLIM_OOM_SIGKILL) return;
  if (phrase->kind == PLIM_OOM_BATCH_ZERO) r->watch.facts.has_batch_zero = true;
  note_rank(r, phrase, rank);
  log_watch_progress(&r->watch, line); // a bar has no line end: the message comes right after it
  if (!is_better(r, phrase)) {
    adopt_stack(r, phrase, number, rank);
    return;
  }
  finish_message(r);
  beginning b = find_beginning(r, line, end, strlen(phrase->words), number, rank);
  start_message(r, phrase, &b, line, number, rank);
}

// ---- lines ------------------------------------------------------------------------------------------

// Text that speaks of a lack of memory in general: "If you get CUDA out of memory errors, ..."
static bool is_mention(log_text line, size_t end) {
  static const char *const before[] = {"f you", "hen you", "avoid",  "prevent", "n case",
                                       "may ",  "might ",  "cause ", "lead to"};
  size_t from = end > BEFORE_BYTES / 2 ? end - BEFORE_BYTES / 2 : 0;
  log_text head = {line.at + from, end - from}, rest = {line.at + end, line.size - end};
  for (size_t i = 0; i < sizeof before / sizeof *before; i++)
    if (log_has(head, before[i])) return true;
  return log_starts(rest, " errors") || log_starts(rest, " issues");
}

// "-9" is no "-90", docker's "OOMKilled": false denies it, and so does TensorFlow.
static bool is_denied(const log_phrase *phrase, log_text line, size_t end) {
  char last = phrase->words[strlen(phrase->words) - 1];
  log_text rest = {line.at + end, line.size - end};
  if (rest.size && isdigit((unsigned char)last) && isdigit((unsigned char)*rest.at)) return true;
  while (rest.size && memchr("\":= ", *rest.at, 4)) rest.at++, rest.size--;
  if ((phrase->marks & LOG_MENTION) && is_mention(line, end)) return true;
  return log_starts(rest, "false") || log_starts(rest, "False") ||
         log_has(rest, "indicates that this is not a failure");
}

// A line that only mentions a lack of memory counts if it says that something failed.
static bool is_failure(log_text line) {
  return log_has(line, "rror") || log_has(line, "xception") || log_has(line, "ailed") ||
         log_has(line, "FAIL");
}

// Returns the marks of the line.
static unsigned search(reading *r, log_text line, uint64_t number, uint64_t rank) {
  uint16_t state = state_of(r, rank)->state;
  unsigned marks = 0;
  for (size_t i = 0; i < line.size; i++) {
    const log_phrase *phrase = log_finder_step(r->finder, &state, line.at[i]);
    if (!phrase) continue;
    marks |= phrase->marks;
    if (phrase->strength == LOG_NO_MESSAGE || is_denied(phrase, line, i + 1)) continue;
    if (phrase->strength > LOG_HINT || is_failure(line))
      found(r, phrase, line, i + 1, number, rank);
  }
  state_of(r, rank)->state = state;
  return marks;
}

// "line 3: 12345 Killed  python train.py": bash names the process.
static bool is_after_digit(log_text line, log_text after) {
  const char *word = after.at - strlen(" Killed");
  return word > line.at && isdigit((unsigned char)word[-1]) && (!after.size || *after.at == ' ');
}

static bool ends(log_text line, const char *word) {
  size_t length = strlen(word);
  return line.size >= length && memcmp(line.at + line.size - length, word, length) == 0;
}

// What the shell prints when a process was killed: "Killed", "run.sh: line 3: 123 Killed  python", "zsh: killed"; srun's
// "srun: error: gpu1: task 3: Killed"; Python's bare MemoryError and Rust's abort. They are whole lines, so no phrase would
// do.
static void search_whole_line(reading *r, log_text line, uint64_t number, uint64_t rank) {
  static const log_phrase killed = {"", PLIM_OOM_SIGKILL, LOG_WEAK, 0};
  static const log_phrase killer = {"", PLIM_OOM_HOST_KILLER, LOG_STRONG, 0};
  static const log_phrase memory_error = {"", PLIM_OOM_HOST_REQUEST, LOG_STRONG, 0};
  while (line.size && *line.at == '*') line.at++, line.size--; // **Killed**, as people quote it
  while (line.size && line.at[line.size - 1] == '*') line.size--;
  log_text after = log_after(line, " Killed");
  bool is_killed = (line.size == 6 && log_starts(line, "Killed")) ||
                   log_starts(line, "zsh: killed") ||
                   (after.at && log_has(line, ": line ") && is_after_digit(line, after));
  bool is_task = log_starts(line, "srun: error: ") && log_has(line, ": task");
  bool is_memory_error = (line.size == 11 && log_starts(line, "MemoryError")) ||
                         (log_starts(line, "memory allocation of ") && ends(line, " bytes failed"));
  if (is_task && ends(line, ": Out Of Memory")) found(r, &killer, line, line.size, number, rank);
  else if (is_killed || (is_task && ends(line, ": Killed")))
    found(r, &killed, line, line.size, number, rank);
  else if (is_memory_error) found(r, &memory_error, line, line.size, number, rank);
}

static void keep_line(reading *r, log_text line, uint64_t number, uint64_t rank) {
  kept_line *kept = &r->kept[r->next_kept++ % KEPT_LINES];
  size_t from = line.size > KEPT_BYTES ? line.size - KEPT_BYTES : 0;
  kept->size = line.size - from;
  kept->number = number;
  kept->rank = rank;
  if (kept->size) memcpy(kept->text, line.at + from, kept->size);
}

static void note_error(reading *r, log_text line, uint64_t number, uint64_t rank) {
  plim_oom_log *log = r->log;
  log_text error = r->is_cancelled && log_is_cancelled(line) ? line : log_error_of(line);
  if (!error.at) return;
  state_of(r, rank)->error_line = number;
  if (!log_is_consequence(error)) {
    log_copy(r->other_error, sizeof r->other_error, error);
    r->other_error_line = number;
    r->other_error_step = r->watch.bar_step;
  }
  bool is_after = log->message.kind != PLIM_OOM_NONE && number > log->message.line;
  if (is_after && !*log->consequence && log_is_consequence(error)) {
    log_copy(log->consequence, sizeof log->consequence, error);
    log->consequence_line = number;
  }
  log_copy(log->last_error, sizeof log->last_error, error);
  log->last_error_line = number;
}

// After a frame comes its source line.
static void follow_stack(rank_state *state, log_text line, bool is_frame) {
  if (is_frame || state->is_after_frame) log_follow_stack(&state->stack, line);
  if (is_frame) state->error_line = 0;
  state->is_after_frame = is_frame;
}

// A line of `plimsoll run` tells what it has seen; the words for the cause in it are not the program's.
static void read_own_line(reading *r, log_text line) {
  if (r->is_collecting) finish_message(r);
  log_watch_settings(&r->watch, line);
}

static void read_line(reading *r, log_text line, uint64_t number) {
  uint64_t rank = PLIM_UNKNOWN;
  line = log_strip(line, &rank);
  r->has_begun = false;
  if (log_starts(line, "plimsoll: ")) {
    read_own_line(r, line);
    return;
  }
  unsigned marks = search(r, line, number, rank);
  if (marks & LOG_KILLED) {
    r->is_cancelled |= log_is_cancelled(line);
    search_whole_line(r, line, number, rank);
  }
  if (marks & LOG_PROGRESS) log_watch_progress(&r->watch, line);
  if (marks & LOG_SETTING) log_watch_settings(&r->watch, line);
  follow_stack(state_of(r, rank), line, marks & LOG_FRAME);
  if (r->is_collecting && !r->has_begun && r->log->message.rank == rank) {
    bool is_end =
        --r->lines_left <= 0 || log_has(line, "%|") || log_starts(line, "Traceback (most");
    if (!is_end) add_text(r, line);
    else finish_message(r);
  }
  note_error(r, line, number, rank);
  keep_line(r, line, number, rank);
}

// A traceback within one string, as loggers that write JSON print it: its line ends are \n.
static void read_lines(reading *r, log_text line, uint64_t number) {
  if (!memchr(line.at, '\\', line.size) || !log_has(line, "(most recent call last):\\n")) {
    read_line(r, line, number);
    return;
  }
  for (log_text rest; (rest = log_after(line, "\\n")).at; line = rest)
    read_line(r, (log_text){line.at, (size_t)(rest.at - line.at) - 2}, number);
  read_line(r, line, number);
}

// ---- the whole log ----------------------------------------------------------------------------------

static void begin(reading *r, plim_oom_log *log) {
  *log = (plim_oom_log){0};
  clear_message(&log->message);
  r->log = log;
  r->watch.bar_step = r->watch.bar_total = PLIM_UNKNOWN;
  r->watch.outer_step = r->watch.outer_total = PLIM_UNKNOWN;
  r->watch.facts = (plim_oom_facts){
      .step = PLIM_UNKNOWN,
      .total_steps = PLIM_UNKNOWN,
      .later_step = PLIM_UNKNOWN,
      .micro_batch = PLIM_UNKNOWN,
      .accumulation = PLIM_UNKNOWN,
      .effective_batch = PLIM_UNKNOWN,
      .sample_tokens = PLIM_UNKNOWN,
      .growth_bytes = PLIM_UNKNOWN,
      .sample_limit = PLIM_UNKNOWN,
      .deepspeed_allocated_bytes = PLIM_UNKNOWN,
      .deepspeed_reserved_bytes = PLIM_UNKNOWN,
  };
}

static void end(reading *r) {
  finish_message(r);
  if (r->log->message.kind != PLIM_OOM_NONE && !is_same_step(r))
    r->watch.facts.later_step = r->watch.bar_step;
  r->log->facts = r->watch.facts;
}

static plim_err read_input(plim_input *input, plim_oom_log *log, plim_error *error) {
  plim_err err = PLIM_OK;
  reading *r = calloc(1, sizeof *r);
  log_reader *reader = calloc(1, sizeof *reader);
  if (r) r->finder = log_finder_new();
  if (!r || !reader || !r->finder) err = plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  if (!err) {
    log_text line;
    begin(r, log);
    reader->input = input;
    reader->has_new_line = true;
    while (log_next(reader, &line, &err, error)) read_lines(r, line, reader->number);
    log->lines = reader->number;
    if (!err) end(r);
  }
  if (r) log_finder_free(r->finder);
  free(reader);
  free(r);
  return err;
}

plim_err plim_oom_log_read(const char *path, plim_oom_log *log, plim_error *error) {
  plim_input input;
  plim_err err = plim_input_open(&input, path, error);
  if (!err) err = read_input(&input, log, error);
  plim_input_close(&input);
  return err ? plim_error_file(error, err, strcmp(path, "-") ? path : "standard input") : PLIM_OK;
}

plim_err plim_oom_log_read_memory(const void *data, size_t size, plim_oom_log *log,
                                  plim_error *error) {
  plim_input input;
  plim_err err = plim_input_open_memory(&input, data, size, error);
  if (!err) err = read_input(&input, log, error);
  plim_input_close(&input);
  return err;
}
