// The terminal: whether to colour, how wide it is, and tables that line up.
#ifndef PLIM_CLI_TERM_H
#define PLIM_CLI_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef enum { TERM_AUTO, TERM_ALWAYS, TERM_NEVER } term_when; // as --color names them

typedef enum {
  TERM_PLAIN,
  TERM_BOLD,
  TERM_DIM,
  TERM_RED,
  TERM_GREEN,
  TERM_YELLOW,
  TERM_CYAN,
  TERM_STYLE_COUNT
} term_style;

// Sets the value of --color; before, it is TERM_AUTO.
void term_set_color(term_when when);

// Whether to colour `out`: --color, then NO_COLOR, then CLICOLOR_FORCE, then whether it is a
// terminal (and TERM is not "dumb").
bool term_has_color(FILE *out);

// Columns of `out`: COLUMNS if set, else what the terminal says, else 80.
int term_width(FILE *out);
// Whether TERM is "dumb": such a terminal cannot move the cursor.
bool term_is_dumb(void);

// printf in a style; plain where `out` is not coloured. Colour never carries meaning alone.
void term_print(FILE *out, term_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// A line of progress on stderr, which the next one is written over; it is cut at the width of the terminal. Nothing is
// printed if stderr is not a terminal, or a dumb one.
void term_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Removes the line; call it before anything else is printed.
void term_progress_clear(void);

// Columns that UTF-8 text takes: wide characters two, combining marks none.
size_t term_text_width(const char *text);

// The number of bytes of `text` that fit in `width` columns.
size_t term_text_fit(const char *text, size_t width);

// Writes text word-wrapped to `width` columns, later lines indented by `indent` blanks; the first
// line starts at column `column`. Ends with a newline. Line breaks in the text stay. A command of
// plimsoll's stays in one piece, to be pasted.
void term_wrap(FILE *out, const char *text, size_t column, size_t indent, size_t width);
// Each line as "note: ...", wrapped to the stream's width.
void term_notes(FILE *out, const char *lines);

// Likewise to the width of the terminal. If the stream is not a terminal, it stays one line, so that it can be searched.
void term_say(FILE *out, const char *text, size_t column, size_t indent);

// A table. Cells are added row by row; nothing is printed until all widths are known.
//
//   static const term_column columns[] = {{"settings"}, {"reserved", .right = true}};
//   term_table *t = term_table_new(columns, 2);
//   term_table_cell(t, TERM_PLAIN, "default");
//   term_table_cell(t, TERM_BOLD, "%s", units_bytes(n).text);
//   term_table_print(t, stdout);
//   term_table_free(t);
typedef struct {
  const char *title; // "" for none; a table whose titles are all empty has no header
  bool right;        // align to the right, as numbers are
  bool shrinks;      // on a terminal too narrow for the table, this column is cut, with "..."
  bool wraps;        // the last column may: its text goes on below itself
} term_column;

typedef struct term_table term_table;

// A new table; `columns` must outlive it. Out of memory ends the program.
term_table *term_table_new(const term_column *columns, size_t count);
void term_table_cell(term_table *table, term_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void term_table_print(const term_table *table, FILE *out); // an unfinished last row is filled up
void term_table_free(term_table *table);                   // NULL is fine

// Whether the table is wider than the terminal, even with its columns cut. A file has room for all.
bool term_table_is_too_wide(const term_table *table, FILE *out);

#endif
