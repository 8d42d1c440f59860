// The timeline as an HTML page: the data as JSON, and the script of web/ that draws it.
#include <inttypes.h>
#include <stdlib.h>

#include "cli_alloc.h"
#include "escape.h"
#include "picture.h"

// Files of web/, which the build turns into bytes.
static const unsigned char page_style[] = {
#include "picture_style.inc"
};
static const unsigned char page_script[] = {
#include "picture_script.inc"
};

// ---- the data ---------------------------------------------------------------------------------------

typedef struct {
  FILE *out;
  const picture *p;
  const plim_timeline_column *columns;
  size_t count;
} sheet;

// Writes "key":[one number per column],
static void put_numbers(const sheet *s, const char *key,
                        uint64_t (*number)(const sheet *, const plim_timeline_column *)) {
  fprintf(s->out, "\"%s\":[", key);
  for (size_t i = 0; i < s->count; i++)
    fprintf(s->out, "%s%" PRIu64, i ? "," : "", number(s, &s->columns[i]));
  fputs("],\n", s->out);
}

static uint64_t entry_of(const sheet *s, const plim_timeline_column *c) {
  (void)s;
  return c->entry;
}

static uint64_t step_of(const sheet *s, const plim_timeline_column *c) {
  (void)s;
  return c->step;
}

static uint64_t reserved_of(const sheet *s, const plim_timeline_column *c) {
  (void)s;
  return c->reserved_bytes;
}

static uint64_t highest_of(const sheet *s, const plim_timeline_column *c) {
  (void)s;
  return c->peak_reserved_bytes;
}

static uint64_t elapsed_us_of(const sheet *s, const plim_timeline_column *c) {
  double seconds = picture_seconds_at(s->p, c->instant ? c->instant - 1 : 0);
  return seconds > 0 ? (uint64_t)(seconds * 1e6 + 0.5) : 0;
}

static void put_times(const sheet *s) {
  bool known = s->count && picture_seconds_at(s->p, 0) >= 0;
  if (known) put_numbers(s, "time", elapsed_us_of);
  else fputs("\"time\":null,\n", s->out);
}

static void put_layers(const sheet *s) {
  const picture_source *source = s->p->source;
  fputs("\"kinds\":[", s->out);
  for (size_t i = 0; i < source->layer_count; i++)
    fprintf(s->out, "%s[\"%s\",\"%s\",\"%s\"]", i ? "," : "", picture_layer_name(s->p, i),
            source->layers[i].light, source->layers[i].dark);
  fputs("],\n\"stack\":[", s->out);
  for (size_t i = 0; i < source->layer_count; i++) {
    fputs(i ? ",\n[" : "[", s->out);
    for (size_t k = 0; k < s->count; k++)
      fprintf(s->out, "%s%" PRIu64, k ? "," : "", s->columns[k].part_bytes[source->layers[i].part]);
    fputc(']', s->out);
  }
  fputs("],\n", s->out);
}

// Writes the phases: the columns in which they begin and end, with fractions, and their names.
static void put_phases(const sheet *s) {
  double scale = (double)s->count / (double)s->p->events;
  fputs("\"phases\":[", s->out);
  for (size_t i = 0; i < s->p->phase_count; i++) {
    const picture_span *span = &s->p->phases[i];
    fprintf(s->out, "%s[%.3f,%.3f,\"%s\"]", i ? "," : "", (double)span->first * scale,
            (double)span->end * scale, span->name);
  }
  fputs("],\n", s->out);
}

static void put_places(const sheet *s) {
  char text[160];
  fputs("\"place\":[", s->out);
  for (size_t i = 0; i < s->count; i++) {
    s->p->source->place(s->p->context, i, text, sizeof text);
    if (i) fputc(',', s->out);
    escape_script(s->out, text);
  }
  fputs("],\n", s->out);
}

static void put_marks(const sheet *s) {
  const char *comma = "";
  fputs("\"marks\":[", s->out);
  for (size_t i = 0; i < s->count; i++) {
    const plim_timeline_column *c = &s->columns[i];
    if (!c->ooms && !c->retries && !c->empty_caches) continue;
    fprintf(s->out, "%s{\"column\":%zu,\"ooms\":%u,\"retries\":%u,\"empties\":%u}", comma, i,
            c->ooms, c->retries, c->empty_caches);
    comma = ",";
  }
  fputs("],\n", s->out);
}

// Writes the holders of memory. Each code line is named once, in the order of first use, and referred to by number.
static void put_holders(const sheet *s) {
  size_t known = s->p->lines, named = 0;
  uint32_t *number_of = cli_alloc((known + 1) * sizeof *number_of); // 0: not named yet
  uint32_t *lines = cli_alloc((s->count * PLIM_TIMELINE_HOLDERS + 1) * sizeof *lines);
  fputs("\"held\":[", s->out);
  for (size_t i = 0; i < s->count; i++) {
    fputs(i ? ",[" : "[", s->out);
    for (size_t k = 0; k < PLIM_TIMELINE_HOLDERS && s->columns[i].holders[k].bytes; k++) {
      plim_holder h = s->columns[i].holders[k];
      uint32_t *number = &number_of[h.line < known ? h.line : known];
      if (!*number) lines[named++] = h.line, *number = (uint32_t)named;
      fprintf(s->out, "%s%u,%" PRIu64, k ? "," : "", *number - 1, h.bytes);
    }
    fputc(']', s->out);
  }
  fputs("],\n\"lines\":[", s->out);
  for (size_t i = 0; i < named; i++) {
    char name[160];
    s->p->source->line_name(s->p->context, lines[i], name, sizeof name);
    if (i) fputs(",\n", s->out);
    escape_script(s->out, name);
  }
  fputs("],\n", s->out);
  free(number_of);
  free(lines);
}

static void put_data(FILE *out, const picture *p) {
  sheet s = {out, p, p->timeline->columns.at, p->timeline->columns.len};
  fputs("<script type=\"application/json\" id=\"data\">\n{", out);
  put_numbers(&s, "entry", entry_of);
  put_numbers(&s, "step", step_of);
  put_times(&s);
  if (p->source->place) put_places(&s);
  if (p->phase_count) put_phases(&s);
  put_layers(&s);
  put_numbers(&s, "reserved", reserved_of);
  put_numbers(&s, "highest", highest_of);
  put_marks(&s);
  put_holders(&s);
  if (p->limit_bytes == PLIM_UNKNOWN) fputs("\"limit\":null,", out);
  else fprintf(out, "\"limit\":%" PRIu64 ",", p->limit_bytes);
  fprintf(out, "\"stacks\":%s,", p->lines ? "true" : "false");
  fprintf(out, "\"setup\":\"%s\",\"unit\":\"%s\",", p->source->setup, p->source->entry);
  fprintf(out, "\"peak\":%zu}\n</script>\n", p->timeline->peak);
}

// ---- the page ---------------------------------------------------------------------------------------

static void put_head(FILE *out, const char *title) {
  fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>",
        out);
  escape_xml(out, title);
  fputs(" - GPU memory</title>\n<style>\n", out);
  fwrite(page_style, 1, sizeof page_style, out);
  fputs("</style>\n</head>\n", out);
}

static void put_heading(FILE *out, const picture *p, const char *title) {
  fputs("<body>\n<main>\n<header><h1>", out);
  escape_xml(out, title);
  fputs("</h1><p>", out);
  escape_xml(out, p->subtitle);
  fputs("</p>", out);
  if (p->note && *p->note) {
    fputs("<p>", out);
    escape_xml(out, p->note);
    fputs("</p>", out);
  }
  fputs("</header>\n", out);
}

// Writes the body. Without JavaScript, it shows the static picture.
static void put_body(FILE *out, const picture *p) {
  fputs("<noscript>\n<style>header,#chart,.help,#held{display:none}</style>\n", out);
  svg_write(out, p);
  fputs(
      "</noscript>\n"
      "<div id=\"chart\" class=\"chart\"><canvas class=\"base\"></canvas>"
      "<canvas class=\"over\" tabindex=\"0\" role=\"application\" aria-label=\"GPU memory over "
      "time; "
      "arrow keys move the cursor\" aria-describedby=\"when\"></canvas>"
      "<div class=\"tip\" hidden></div></div>\n"
      "<ul id=\"legend\" class=\"legend\"></ul>\n"
      "<p class=\"help\">Drag to zoom in, double-click or Esc to zoom out. Arrow keys move (Shift: "
      "faster), + and - zoom, P shows the peak. Columns follow the order of events, not "
      "time.</p>\n",
      out);
}

static void put_table(FILE *out, const picture *p) {
  fputs("<section id=\"held\"><h2 id=\"when\" role=\"status\"></h2>\n", out);
  if (!p->lines)
    fputs("<p>The recording has no stacks, so the lines of code are not known. To record them: "
          "<code>torch.cuda.memory._record_memory_history(context='all', "
          "stacks='python')</code>.</p>\n",
          out);
  fprintf(out,
          "<table%s><thead><tr><th>%s</th><th class=\"number\">bytes</th>"
          "<th class=\"number\">share</th><th class=\"bar\"></th></tr></thead>"
          "<tbody id=\"rows\"></tbody></table></section>\n</main>\n",
          p->lines ? "" : " hidden", p->source->line);
}

void html_write(FILE *out, const picture *p) {
  char title[512];
  picture_shorten(p->title, title, sizeof title, 200);
  put_head(out, title);
  put_heading(out, p, title);
  put_body(out, p);
  put_table(out, p);
  put_data(out, p);
  fputs("<script>\n", out);
  fwrite(page_script, 1, sizeof page_script, out);
  fputs("</script>\n</body>\n</html>\n", out);
}
