#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json_writer.h"
#include "term.h"
#include "text.h"
#include "text_file.h"

static bool as_json;

void cli_report_as_json(bool json) { as_json = json; }

// ---- text -------------------------------------------------------------------------------------

// The line of a text that contains an offset.
typedef struct {
  const char *start;
  size_t bytes, column; // column: bytes before the offset
  size_t number;        // line number, from 1
  bool is_only;         // the text is one line
} line;

static line find_line(const char *source, uint64_t byte) {
  size_t total = strlen(source);
  size_t at = byte < total ? (size_t)byte : total;
  line found = {.start = source, .number = 1};
  for (size_t i = 0; i < at; i++)
    if (source[i] == '\n') found.start = source + i + 1, found.number++;
  found.bytes = strcspn(found.start, "\n");
  found.column = (size_t)(source + at - found.start);
  found.is_only = found.number == 1 && found.bytes == total;
  return found;
}

static void print_place(FILE *out, const plim_error *error, const line *where) {
  bool is_named = !where && error->byte == PLIM_UNKNOWN && strstr(error->message, error->file);
  if (!*error->file || is_named) return;
  fprintf(out, "  --> %s", error->file);
  if (where && !where->is_only) fprintf(out, ":%zu", where->number);
  else if (error->byte != PLIM_UNKNOWN) fprintf(out, ", byte %" PRIu64, error->byte);
  fputc('\n', out);
}

static bool is_inside(char c) { return ((unsigned char)c & 0xC0) == 0x80; } // of a UTF-8 character

// Shows the line with a caret. Of long lines, the part around the error is shown; tabs become blanks, so that the caret
// is in the right column. The bytes need not be UTF-8.
static void print_line(FILE *out, const line *where) {
  enum {
    BEFORE = 50,
    SHOWN = 70,
    INSIDE = 3
  }; // INSIDE: bytes of a UTF-8 character after its first
  size_t from = where->column > BEFORE ? where->column - BEFORE : 0;
  for (int i = 0; i < INSIDE && from > 0 && is_inside(where->start[from]); i++) from--;
  size_t until = where->bytes - from > SHOWN ? from + SHOWN : where->bytes;
  for (int i = 0; i < INSIDE && until < where->bytes && is_inside(where->start[until]); i++)
    until++;
  char shown[BEFORE + SHOWN + 16], before[BEFORE + 8];
  snprintf(shown, sizeof shown, "%.*s", (int)(until - from), where->start + from);
  for (char *at = shown; *at; at++)
    if (*at == '\t') *at = ' ';
  plim_text_disarm(shown);
  fprintf(out, "   |  %s", shown);
  snprintf(before, sizeof before, "%.*s", (int)(where->column - from), where->start + from);
  plim_text_disarm(before);
  fprintf(out, "\n   |  %*s", (int)term_text_width(before), "");
  term_print(out, TERM_RED, "^");
  fputc('\n', out);
}

// The readers begin a message with the line, which the place shows too.
static const char *message_of(const plim_error *error, const line *where) {
  int number = 0, length = 0;
  bool has_line = sscanf(error->message, "line %d: %n", &number, &length) == 1 && length;
  bool is_shown = has_line && where && !where->is_only && (size_t)number == where->number;
  return error->message + (is_shown ? length : 0);
}

static plim_error disarmed(const plim_error *error) {
  plim_error copy = *error;
  plim_text_disarm(copy.message);
  plim_text_disarm(copy.hint);
  plim_text_disarm(copy.file);
  return copy;
}

// The text of the file that the error is about, to show the line; NULL: there is no byte to show, or it is not text. The
// caller frees it.
static char *text_of(const plim_error *error) {
  enum { MOST_BYTES = 16 << 20 };
  char *text = NULL;
  size_t size = 0;
  const char *dot = strrchr(error->file, '.');
  if (dot && strcmp(dot, ".ipynb") == 0) return NULL; // the byte counts in the code of its cells
  if (!*error->file || error->byte == PLIM_UNKNOWN) return NULL;
  if (plim_text_file_read(error->file, MOST_BYTES, &text, &size, NULL)) return NULL;
  bool is_text = error->byte <= size;
  for (size_t i = 0; is_text && i < size; i++)
    is_text = (unsigned char)text[i] >= ' ' || strchr("\t\n\r\f", text[i] ? text[i] : 1);
  if (is_text) return text;
  free(text);
  return NULL;
}

void cli_report_text(FILE *out, const plim_error *armed, const char *source) {
  const plim_error copy = disarmed(armed), *error = &copy;
  line where;
  char *text = source ? NULL : text_of(armed);
  if (!source) source = text;
  bool has_line = source && error->byte != PLIM_UNKNOWN;
  if (has_line) where = find_line(source, error->byte);
  term_print(out, TERM_RED, "error:");
  fputc(' ', out);
  term_say(out, message_of(error, has_line ? &where : NULL), 7, 2);
  print_place(out, error, has_line ? &where : NULL);
  if (has_line && where.bytes) print_line(out, &where);
  free(text);
  if (!*error->hint) return;
  term_print(out, TERM_CYAN, "help:");
  fputc(' ', out);
  term_say(out, error->hint, 6, 6);
}

// ---- JSON -------------------------------------------------------------------------------------

static void report_json(FILE *out, const plim_error *error) {
  json_writer j = jsonw_begin(out);
  jsonw_object(&j, NULL);
  jsonw_u64(&j, "format_version", 1);
  jsonw_object(&j, "error");
  jsonw_string(&j, "message", error->message);
  jsonw_string_or_null(&j, "file", error->file);
  jsonw_bytes(&j, "byte", error->byte);
  jsonw_string_or_null(&j, "hint", error->hint);
  jsonw_end(&j);
  jsonw_end(&j);
  jsonw_finish(&j);
}

int cli_report(const plim_error *error, const char *source) {
  fflush(stdout); // keeps the order of stdout and stderr
  if (as_json) report_json(stdout, error);
  cli_report_text(stderr, error, source);
  return CLI_ERROR;
}

int cli_fail(const char *format, ...) {
  char message[sizeof((plim_error *)0)->message];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  plim_error error;
  plim_fail(&error, PLIM_ERR_ARGUMENT, "%s", message);
  return cli_report(&error, NULL);
}

// ---- the end ----------------------------------------------------------------------------------

// Whether stdout is a pipe whose reader has closed it. Asks the pipe itself, because the errno of the failed write may
// have been overwritten.
static bool reader_left(void) {
  struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
}

int cli_finish_output(int status) {
  errno = 0;
  bool failed = fflush(stdout) != 0 || ferror(stdout);
  if (!failed || reader_left()) return status;
  fprintf(stderr, "error: cannot write the output%s%s\n", errno ? ": " : "",
          errno ? strerror(errno) : "");
  return CLI_ERROR;
}
