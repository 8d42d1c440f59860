#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli_alloc.h"
#include "text.h"
#include "watch_show.h"

void page_line_begin(page *p) {
  if (!vec_push(&p->lines, (page_line){0})) cli_out_of_memory();
}

void page_clear(page *p) {
  for (size_t i = 0; i < p->lines.len; i++) {
    for (size_t k = 0; k < p->lines.at[i].spans.len; k++) free(p->lines.at[i].spans.at[k].text);
    vec_free(&p->lines.at[i].spans);
  }
  vec_free(&p->lines);
}

// Names of others may be in any script; a terminal without UTF-8 cannot show them.
static void make_ascii(char *text) {
  char *to = text;
  for (const char *from = text; *from; from++)
    if (((unsigned char)*from & 0xC0) != 0x80) *to++ = (unsigned char)*from < 0x80 ? *from : '?';
  *to = 0;
}

// Takes the text over.
static void put_owned(page *p, term_style style, char *text) {
  page_line *line = &p->lines.at[p->lines.len - 1];
  plim_text_disarm(text);
  if (!p->is_utf8) make_ascii(text);
  text[term_text_fit(text, p->width - line->columns)] = 0;
  line->columns += term_text_width(text);
  if (!vec_push(&line->spans, (page_span){style, text})) cli_out_of_memory();
}

void page_put(page *p, term_style style, const char *format, ...) {
  va_list args;
  va_start(args, format);
  put_owned(p, style, cli_vformat(format, args));
  va_end(args);
}

void page_say(page *p, size_t indent, const char *text) {
  while (*text) {
    size_t bytes = strcspn(text, " ");
    page_line *line = &p->lines.at[p->lines.len - 1];
    char *word = cli_strndup(text, bytes);
    size_t need = term_text_width(word);
    if (line->columns > indent && line->columns + 1 + need > p->width) {
      page_line_begin(p);
      page_put(p, TERM_PLAIN, "%*s", (int)indent, "");
    } else if (line->columns > indent) page_put(p, TERM_PLAIN, " ");
    put_owned(p, TERM_PLAIN, word);
    text += bytes + (text[bytes] == ' ');
  }
}

// ---- pictures ---------------------------------------------------------------------------------------

static term_style style_of(double share) {
  return share >= 0.95 ? TERM_RED : share >= 0.85 ? TERM_YELLOW : TERM_GREEN;
}

static void put_many(page *p, term_style style, const char *mark, size_t count) {
  size_t bytes = strlen(mark);
  char *text = cli_alloc(count * bytes + 1);
  for (size_t i = 0; i < count; i++) memcpy(text + i * bytes, mark, bytes);
  put_owned(p, style, text);
}

void page_bar(page *p, size_t columns, double share) {
  size_t full = share < 0 ? 0 : (size_t)lround(fmin(1, share) * (double)columns);
  const char *rest = share < 0 ? "?" : p->is_utf8 ? "\u2591" : ".";
  put_many(p, style_of(share), p->is_utf8 ? "\u2588" : "#", full);
  put_many(p, TERM_DIM, rest, columns - full);
}

void page_history(page *p, size_t columns, const watch_ring *ring) {
  static const char *const blocks[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                       "\u2585", "\u2586", "\u2587", "\u2588"};
  static const char *const marks[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
  size_t count = ring->count < columns ? ring->count : columns;
  char *text = cli_alloc(3 * count + 1);
  for (size_t i = ring->count - count; i < ring->count; i++) {
    double share = ring->at[i];
    size_t level = share < 0 ? 0 : (size_t)fmin(7, share * 8);
    strcat(text, share < 0 ? " " : (p->is_utf8 ? blocks : marks)[level]);
  }
  put_owned(p, TERM_CYAN, text);
}
