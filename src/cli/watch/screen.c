// The terminal view. It leaves the terminal as it was, however the program ends.
#include <math.h>
#include <ncurses.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <term.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "watch_show.h"

typedef struct {
  watch *watch;
  page page;
  double interval_seconds, next_seconds; // next: when a sample is due, by the steady clock
  size_t top;                            // the first line that is shown
  bool is_paused, shows_help, is_over;
} view;

// ---- leaving the terminal as it was -----------------------------------------------------------------

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
static const int crashing[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static volatile sig_atomic_t end_signal;
static struct termios before; // the terminal's mode
static char undo_codes[128];  // what ends the view, prepared because a crash must not call ncurses
static volatile sig_atomic_t is_shown;

static void note_signal(int number) { end_signal = number; }

static void leave_at_once(void) {
  if (!is_shown) return;
  is_shown = 0;
  size_t size = strlen(undo_codes);
  if (write(STDOUT_FILENO, undo_codes, size) == (ssize_t)size)
    tcsetattr(STDOUT_FILENO, TCSANOW, &before);
}

static void crash(int number) {
  leave_at_once();
  raise(number); // the default action, which SA_RESETHAND has restored
}

// Adds a code of the terminal's description, without its delays.
static void add_code(const char *name) {
  const char *code = tigetstr(name);
  if (!code || code == (char *)-1) return;
  size_t size = strcspn(code, "$"), used = strlen(undo_codes);
  if (used + size < sizeof undo_codes) strncat(undo_codes, code, size);
}

static void catch_signals(void) {
  struct sigaction note = {.sa_handler = note_signal};
  struct sigaction fatal = {.sa_handler = crash, .sa_flags = SA_RESETHAND | SA_NODEFER};
  for (size_t i = 0; i < COUNT(ending); i++) {
    struct sigaction old;
    bool is_ignored = sigaction(ending[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN;
    if (!is_ignored) sigaction(ending[i], &note, NULL);
  }
  for (size_t i = 0; i < COUNT(crashing); i++) sigaction(crashing[i], &fatal, NULL);
}

static void leave(void) {
  if (!is_shown) return;
  is_shown = 0;
  endwin();
}

// False if this terminal cannot be controlled.
static bool enter(void) {
  static const char *const codes[] = {"sgr0", "cnorm", "rmkx", "rmcup"};
  tcgetattr(STDOUT_FILENO, &before);
  // newterm, not initscr, which ends the program if the terminal is unknown.
  if (!newterm(NULL, stdout, stdin)) return false;
  for (size_t i = 0; i < COUNT(codes); i++) add_code(codes[i]);
  is_shown = 1;
  atexit(leave); // out of memory ends the program
  catch_signals();
  cbreak();
  noecho();
  nodelay(stdscr, true);
  keypad(stdscr, true);
  curs_set(0);
  return true;
}

// ---- drawing ----------------------------------------------------------------------------------------

static const short colors[TERM_STYLE_COUNT] = {[TERM_RED] = COLOR_RED,
                                               [TERM_GREEN] = COLOR_GREEN,
                                               [TERM_YELLOW] = COLOR_YELLOW,
                                               [TERM_CYAN] = COLOR_CYAN};

static void prepare_colors(void) {
  if (!term_has_color(stdout) || !has_colors()) return;
  start_color();
  use_default_colors();
  for (short i = 0; i < TERM_STYLE_COUNT; i++)
    if (colors[i]) init_pair(i, colors[i], -1);
}

static attr_t attribute_of(term_style style) {
  if (style == TERM_BOLD) return A_BOLD;
  if (style == TERM_DIM) return A_DIM;
  bool has_pairs = term_has_color(stdout) && has_colors();
  return has_pairs && colors[style] ? (attr_t)COLOR_PAIR(style) : A_NORMAL;
}

static size_t body_rows(void) { return LINES > 2 ? (size_t)LINES - 2 : 0; }

static void draw_line(int row, const page_line *line) {
  move(row, 0);
  for (size_t i = 0; i < line->spans.len; i++) {
    attrset(attribute_of(line->spans.at[i].style));
    addstr(line->spans.at[i].text);
  }
  attrset(A_NORMAL);
}

// A row over the whole width: a text at its beginning, and the first of two at its end that has room.
static void draw_bar(int row, const char *left, const char *right, const char *shorter) {
  size_t width = (size_t)COLS, used = term_text_width(left) + 1;
  const char *end = used + strlen(right) <= width     ? right
                    : used + strlen(shorter) <= width ? shorter
                                                      : "";
  attrset(A_REVERSE);
  mvhline(row, 0, ' ', COLS);
  mvaddnstr(row, 0, left, (int)term_text_fit(left, width));
  mvaddstr(row, (int)(width - strlen(end)), end);
  attrset(A_NORMAL);
}

static const char *plural(size_t count) { return count == 1 ? "" : "s"; }

static void draw_head(const view *v) {
  char left[64];
  time_t seconds = (time_t)v->watch->unix_seconds;
  struct tm now;
  localtime_r(&seconds, &now);
  snprintf(left, sizeof left, " plimsoll watch  %02d:%02d:%02d%s", now.tm_hour, now.tm_min,
           now.tm_sec, v->is_paused ? "  PAUSED" : "");
  draw_bar(0, left, "p pause  h help  q quit ", "h help ");
}

static void draw_foot(const view *v) {
  char left[96], right[80] = "", shorter[80] = "";
  const watch *w = v->watch;
  size_t rows = body_rows(), lines = v->page.lines.len, last = v->top + rows, warnings = 0;
  if (lines > rows) {
    snprintf(right, sizeof right, "lines %zu-%zu of %zu ", v->top + 1, last, lines);
    snprintf(shorter, sizeof shorter, "%zu-%zu/%zu ", v->top + 1, last, lines);
  }
  for (size_t i = 0; i < w->signs.len; i++) warnings += w->signs.at[i].is_warning;
  bool is_known = w->cards.state == WATCH_DRIVER_HERE;
  if (is_known) snprintf(left, sizeof left, " %zu GPU%s", w->cards.count, plural(w->cards.count));
  else snprintf(left, sizeof left, " GPUs unknown");
  size_t size = strlen(left);
  snprintf(left + size, sizeof left - size, ", %zu run%s, %zu warning%s", w->runs.len,
           plural(w->runs.len), warnings, plural(warnings));
  draw_bar(LINES - 1, left, right, shorter);
}

static void fill_help(page *p) {
  static const char *const keys[][2] = {
      {"q", "quit"},
      {"up, down", "scroll by a line"},
      {"page up, page down", "scroll by a page"},
      {"home, end", "first and last line"},
      {"p", "pause, and go on"},
      {"h", "this help, and back"},
      {"Ctrl-Z", "back to the shell; fg returns here"},
  };
  static const char *const notes[] = {
      "memory: used now, and below it the last samples, the newest on the right",
      "busy: share of the time in which the GPU computed",
      "peak: the most a run has allocated, of what it can get on its GPU",
      "headroom: what was left at that peak",
  };
  page_clear(p);
  for (size_t i = 0; i < COUNT(keys); i++) {
    page_line_begin(p);
    page_put(p, TERM_BOLD, "  %-20s", keys[i][0]);
    page_say(p, 22, keys[i][1]);
  }
  page_line_begin(p);
  for (size_t i = 0; i < COUNT(notes); i++) {
    page_line_begin(p);
    page_put(p, TERM_PLAIN, "  ");
    page_say(p, 4, notes[i]);
  }
}

static void draw(view *v) {
  size_t rows = body_rows();
  v->page.width = COLS > 0 ? (size_t)COLS : 1;
  if (v->shows_help) fill_help(&v->page);
  else page_fill(&v->page, v->watch);
  size_t lines = v->page.lines.len, most = lines > rows ? lines - rows : 0;
  if (v->top > most) v->top = most;
  erase();
  for (size_t i = 0; i < rows && v->top + i < lines; i++)
    draw_line((int)i + 1, &v->page.lines.at[v->top + i]);
  draw_head(v);
  if (LINES > 1) draw_foot(v);
  refresh();
}

// ---- keys and time ----------------------------------------------------------------------------------

static void scroll_up(view *v, size_t by) { v->top -= by < v->top ? by : v->top; }

static void take_key(view *v, int key) {
  size_t rows = body_rows() ? body_rows() : 1;
  switch (key) {
  case 'q':
  case 'Q': v->is_over = true; break;
  case 'p': v->is_paused = !v->is_paused; break;
  case 'h':
  case '?': v->shows_help = !v->shows_help, v->top = 0; break;
  case KEY_UP:
  case 'k': scroll_up(v, 1); break;
  case KEY_DOWN:
  case 'j': v->top++; break;
  case KEY_PPAGE: scroll_up(v, rows); break;
  case KEY_NPAGE:
  case ' ': v->top += rows; break;
  case KEY_HOME: v->top = 0; break;
  case KEY_END: v->top = SIZE_MAX / 2; break;
  default: break; // KEY_RESIZE: drawn anew
  }
}

static double now_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// Waits for keys until the next sample is due. False if the terminal is gone.
static bool wait_for_keys(view *v) {
  struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
  double left = v->is_paused ? 1 : fmax(0, v->next_seconds - now_seconds());
  int ready = poll(&keys, 1, (int)ceil(left * 1000));
  for (int key; (key = getch()) != ERR;) take_key(v, key);
  return ready <= 0 || !(keys.revents & (POLLHUP | POLLERR | POLLNVAL));
}

static void take_sample(view *v) {
  double now = now_seconds();
  if (v->is_paused || now < v->next_seconds) return;
  watch_take_all(v->watch, 0.1); // keys wait meanwhile
  v->next_seconds = now + v->interval_seconds;
}

static int fail_terminal(void) {
  plim_error error;
  const char *name = getenv("TERM");
  plim_fail(&error, PLIM_ERR_UNSUPPORTED, "this terminal cannot be controlled (TERM is %s)",
            name && *name ? name : "not set");
  plim_error_hint(&error, "plimsoll watch --once");
  return cli_report(&error, NULL);
}

int watch_screen(watch *w, double interval_seconds, bool is_utf8) {
  view v = {.watch = w, .interval_seconds = interval_seconds};
  v.page.is_utf8 = is_utf8;
  v.page.has_history = true;
  if (!enter()) return fail_terminal();
  prepare_colors();
  while (!v.is_over && !end_signal) {
    take_sample(&v);
    draw(&v);
    if (!wait_for_keys(&v)) v.is_over = true;
  }
  page_clear(&v.page);
  leave();
  if (!end_signal) return CLI_OK;
  signal(end_signal, SIG_DFL);
  raise(end_signal); // so that a shell sees what ended it
  return CLI_OK;
}
