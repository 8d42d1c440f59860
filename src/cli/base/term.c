#include "term.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli_alloc.h"
#include "vec.h"

static term_when color_when = TERM_AUTO;

static const char *const style_codes[TERM_STYLE_COUNT] = {
    [TERM_BOLD] = "1",   [TERM_DIM] = "2",     [TERM_RED] = "31",
    [TERM_GREEN] = "32", [TERM_YELLOW] = "33", [TERM_CYAN] = "36",
};

// ---- colour and width -------------------------------------------------------------------------

void term_set_color(term_when when) { color_when = when; }

static bool is_set(const char *variable) {
  const char *value = getenv(variable);
  return value && *value;
}

bool term_is_dumb(void) {
  const char *term = getenv("TERM");
  return term && strcmp(term, "dumb") == 0;
}

bool term_has_color(FILE *out) {
  if (color_when != TERM_AUTO) return color_when == TERM_ALWAYS;
  if (is_set("NO_COLOR")) return false;
  if (is_set("CLICOLOR_FORCE") && strcmp(getenv("CLICOLOR_FORCE"), "0") != 0) return true;
  return isatty(fileno(out)) && !term_is_dumb();
}

int term_width(FILE *out) {
  const char *columns = getenv("COLUMNS");
  int width = columns ? atoi(columns) : 0;
  if (width > 0 && width < 10000) return width;
  struct winsize size;
  if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

static void style_on(FILE *out, term_style style) {
  if (style_codes[style] && term_has_color(out)) (fprintf)(out, "\033[%sm", style_codes[style]);
}

static void style_off(FILE *out, term_style style) {
  if (style_codes[style] && term_has_color(out)) (fputs)("\033[0m", out);
}

void term_print(FILE *out, term_style style, const char *format, ...) {
  va_list args;
  va_start(args, format);
  style_on(out, style);
  vfprintf(out, format, args);
  style_off(out, style);
  va_end(args);
}

// ---- progress ---------------------------------------------------------------------------------

static bool has_progress; // on the terminal

// The last column stays free: some terminals go on to the next line when it is written.
static void overwrite(const char *line) {
  int columns = term_width(stderr) - 1;
  (fputs)("\r", stderr);
  fprintf(stderr, "%-*.*s", columns, columns, line);
  (fputs)("\r", stderr);
  fflush(stderr);
}

void term_progress(const char *format, ...) {
  char line[256];
  va_list args;
  if (!isatty(STDERR_FILENO) || term_is_dumb()) return;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  overwrite(line);
  has_progress = true;
}

void term_progress_clear(void) {
  if (has_progress) overwrite("");
  has_progress = false;
}

// ---- text -------------------------------------------------------------------------------------

typedef struct {
  uint32_t first, last;
} range;

// The blocks of East Asian wide characters, emoji and combining marks that occur in names and paths (Unicode
// EastAsianWidth.txt, whole blocks).
static const range wide[] = {
    {0x1100, 0x115F}, {0x2E80, 0xA4CF}, {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},
    {0xFF00, 0xFF60}, {0xFFE0, 0xFFE6}, {0x1F300, 0x1F64F}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};
static const range combining[] = {
    {0x0300, 0x036F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}};

static bool in_ranges(uint32_t c, const range *ranges, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (c >= ranges[i].first && c <= ranges[i].last) return true;
  return false;
}

static bool is_continuation(char c) { return ((unsigned char)c & 0xC0) == 0x80; }

// Reads one character and moves *text past it. Invalid UTF-8 gives some character, and always moves on.
static uint32_t next_char(const char **text) {
  unsigned char lead = (unsigned char)*(*text)++;
  uint32_t c = lead < 0xC0   ? lead
               : lead < 0xE0 ? lead & 0x1Fu
               : lead < 0xF0 ? lead & 0xFu
                             : lead & 7u;
  for (; is_continuation(**text); (*text)++) c = c << 6 | ((unsigned char)**text & 0x3Fu);
  return c;
}

static size_t char_width(uint32_t c) {
  if (in_ranges(c, combining, sizeof combining / sizeof *combining)) return 0;
  return in_ranges(c, wide, sizeof wide / sizeof *wide) ? 2 : 1;
}

size_t term_text_width(const char *text) {
  size_t width = 0;
  while (*text) width += char_width(next_char(&text));
  return width;
}

size_t term_text_fit(const char *text, size_t width) {
  const char *end = text;
  for (const char *p = text; *p; end = p) {
    size_t need = char_width(next_char(&p));
    if (need > width) break;
    width -= need;
  }
  return (size_t)(end - text);
}

// The position in a text that is being wrapped.
typedef struct {
  FILE *out;
  size_t column, indent, width;
  bool is_line_empty;
} wrapping;

static void wrap_line(wrapping *w) {
  fprintf(w->out, "\n%*s", (int)w->indent, "");
  w->column = w->indent;
  w->is_line_empty = true;
}

static void wrap_word(wrapping *w, const char *word) {
  size_t need = term_text_width(word);
  if (!w->is_line_empty && w->column + 1 + need > w->width) wrap_line(w);
  if (!w->is_line_empty) fputc(' ', w->out), w->column++;
  fputs(word, w->out);
  w->column += need;
  w->is_line_empty = false;
}

// Whether the word is an option or its value, not a word of a sentence.
static bool is_argument(const char *word, size_t bytes) {
  static const char signs[] = "-=./_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  size_t at = strcspn(word, signs);
  return at + 1 < bytes; // a full stop at the end does not count
}

static bool ends_clause(const char *word, size_t bytes) {
  return bytes && strchr(",;:).", word[bytes - 1]);
}

// The length of a command such as "plimsoll undo --outside"; 0 if no command begins here.
static size_t command_bytes(const char *text) {
  static const char name[] = "plimsoll ";
  size_t bytes = sizeof name - 1, word;
  if (strncmp(text, name, bytes) != 0) return 0;
  bytes += strcspn(text + bytes, " \n");
  while (text[bytes] == ' ' && !ends_clause(text, bytes)) {
    word = strcspn(text + bytes + 1, " \n");
    if (!is_argument(text + bytes + 1, word)) break;
    bytes += 1 + word;
  }
  return bytes;
}

// The length of a number with its unit, such as "1.28 GiB" or "19 %,"; 0 if none begins here.
static size_t quantity_bytes(const char *text) {
  static const char *const units[] = {"%", "GiB", "MiB", "KiB", "GB", "s", "ms"};
  size_t digits = strspn(text, "0123456789.,");
  if (!digits || text[digits] != ' ') return 0;
  size_t word = strcspn(text + digits + 1, " \n"), bytes = strcspn(text + digits + 1, " \n,;:).");
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (strlen(units[i]) == bytes && memcmp(text + digits + 1, units[i], bytes) == 0)
      return digits + 1 + word;
  return 0;
}

// The length of text that must not be wrapped inside: a command, a quantity or a word.
static size_t unit_bytes(const char *text) {
  size_t bytes = command_bytes(text);
  if (!bytes) bytes = quantity_bytes(text);
  return bytes ? bytes : strcspn(text, " \n");
}

void term_wrap(FILE *out, const char *text, size_t column, size_t indent, size_t width) {
  wrapping w = {out, column, indent, width, true};
  while (*text) {
    size_t bytes = unit_bytes(text);
    char *word = cli_strndup(text, bytes);
    wrap_word(&w, word);
    free(word);
    text += bytes;
    if (*text == '\n') wrap_line(&w);
    if (*text) text++;
  }
  fputc('\n', out);
}

void term_say(FILE *out, const char *text, size_t column, size_t indent) {
  if (isatty(fileno(out))) term_wrap(out, text, column, indent, (size_t)term_width(out));
  else fprintf(out, "%s\n", text);
}

// ---- tables -----------------------------------------------------------------------------------

typedef struct {
  char *text;
  term_style style;
} cell;

struct term_table {
  const term_column *columns;
  size_t column_count;
  vec(cell) cells;
};

enum { GAP = 2, NARROWEST = 8 };

term_table *term_table_new(const term_column *columns, size_t count) {
  assert(count > 0);
  term_table *table = cli_alloc(sizeof *table);
  table->columns = columns;
  table->column_count = count;
  return table;
}

void term_table_cell(term_table *table, term_style style, const char *format, ...) {
  va_list args;
  va_start(args, format);
  cell added = {cli_vformat(format, args), style};
  va_end(args);
  if (!vec_push(&table->cells, added)) cli_out_of_memory();
}

void term_table_free(term_table *table) {
  if (!table) return;
  for (size_t i = 0; i < table->cells.len; i++) free(table->cells.at[i].text);
  vec_free(&table->cells);
  free(table);
}

static size_t max2(size_t a, size_t b) { return a > b ? a : b; }

static size_t longest_word(const char *text) {
  size_t longest = 0;
  while (*text) {
    size_t bytes = strcspn(text, " ");
    longest = max2(longest, bytes);
    text += bytes + (text[bytes] == ' ');
  }
  return longest;
}

static void measure(const term_table *table, size_t *widths) {
  for (size_t i = 0; i < table->column_count; i++)
    widths[i] = term_text_width(table->columns[i].title);
  for (size_t i = 0; i < table->cells.len; i++) {
    size_t *width = &widths[i % table->column_count];
    bool wraps = table->columns[i % table->column_count].wraps;
    const char *text = table->cells.at[i].text;
    *width = max2(*width, wraps ? longest_word(text) : term_text_width(text));
  }
}

static size_t total_of(const term_table *table, const size_t *widths) {
  size_t total = GAP * (table->column_count - 1);
  for (size_t i = 0; i < table->column_count; i++) total += widths[i];
  return total;
}

// The widest column that may be cut further; NULL if there is none.
static size_t *widest_to_cut(const term_table *table, size_t *widths) {
  size_t *found = NULL;
  for (size_t i = 0; i < table->column_count; i++)
    if (table->columns[i].shrinks && widths[i] > NARROWEST && (!found || widths[i] > *found))
      found = &widths[i];
  return found;
}

// Shrinks columns until the table is as wide as the terminal. Without a terminal, nothing is cut.
static void shrink(const term_table *table, FILE *out, size_t *widths) {
  size_t limit = (size_t)term_width(out), *cut;
  if (!isatty(fileno(out))) return;
  while (total_of(table, widths) > limit && (cut = widest_to_cut(table, widths))) --*cut;
}

bool term_table_is_too_wide(const term_table *table, FILE *out) {
  size_t *widths = cli_alloc(table->column_count * sizeof *widths);
  measure(table, widths);
  shrink(table, out, widths);
  bool is_too_wide = isatty(fileno(out)) && total_of(table, widths) > (size_t)term_width(out);
  free(widths);
  return is_too_wide;
}

static void print_text(FILE *out, const char *text, size_t width) {
  if (term_text_width(text) <= width) fputs(text, out);
  else fprintf(out, "%.*s...", (int)term_text_fit(text, width - 3), text);
}

static void print_cell(FILE *out, const term_column *column, const char *text, term_style style,
                       size_t width, bool is_last) {
  size_t used = term_text_width(text);
  int blanks = used < width ? (int)(width - used) : 0;
  if (column->right) fprintf(out, "%*s", blanks, "");
  style_on(out, style);
  print_text(out, text, width);
  style_off(out, style);
  if (is_last) fputc('\n', out);
  else fprintf(out, "%*s", (column->right ? 0 : blanks) + GAP, "");
}

static void print_wrapped(FILE *out, const char *text, term_style style, size_t column) {
  style_on(out, style);
  if (isatty(fileno(out))) term_wrap(out, text, column, column, (size_t)term_width(out));
  else fputs(text, out);
  style_off(out, style);
  if (!isatty(fileno(out))) fputc('\n', out);
}

static bool has_titles(const term_table *table) {
  for (size_t i = 0; i < table->column_count; i++)
    if (*table->columns[i].title) return true;
  return false;
}

static void print_header(const term_table *table, FILE *out, const size_t *widths) {
  size_t last = table->column_count - 1;
  for (size_t i = 0; i <= last; i++)
    print_cell(out, &table->columns[i], table->columns[i].title, TERM_DIM, widths[i], i == last);
}

void term_table_print(const term_table *table, FILE *out) {
  size_t columns = table->column_count, rows = (table->cells.len + columns - 1) / columns;
  size_t *widths = cli_alloc(columns * sizeof *widths);
  measure(table, widths);
  shrink(table, out, widths);
  size_t last_at = total_of(table, widths) - widths[columns - 1];
  if (has_titles(table)) print_header(table, out, widths);
  for (size_t i = 0; i < rows * columns; i++) {
    cell here = i < table->cells.len ? table->cells.at[i] : (cell){"", TERM_PLAIN};
    size_t column = i % columns;
    if (table->columns[column].wraps) print_wrapped(out, here.text, here.style, last_at);
    else
      print_cell(out, &table->columns[column], here.text, here.style, widths[column],
                 column == columns - 1);
  }
  free(widths);
}

void term_notes(FILE *out, const char *lines) {
  char line[4096 + 320];
  size_t width = (size_t)term_width(out);
  for (; *lines; lines += strspn(lines, "\n")) {
    size_t size = strcspn(lines, "\n");
    snprintf(line, sizeof line, "%.*s", (int)size, lines);
    fprintf(out, "note: ");
    term_wrap(out, line, 6, 6, width);
    lines += size;
  }
}
