// Pictures are well-formed documents whatever names they contain, and stay small.
#include <ctype.h>
#include <stdlib.h>

#include "estimate_picture.h"
#include "replay_picture.h"
#include "snapshot.h"
#include "test.h"

#ifndef TEST_ROOT
#define TEST_ROOT "tests"
#endif

typedef struct {
  plim_trace trace;
  plim_trace_analysis analysis;
  plim_timeline timeline;
  replay_scene replay;
  picture p;
} scene;

static void scene_clear(scene *s) {
  plim_timeline_clear(&s->timeline);
  plim_trace_analysis_clear(&s->analysis);
  plim_trace_clear(&s->trace);
}

static bool scene_finish(scene *s, const char *name, size_t columns) {
  plim_replay_options options = {.limit_bytes = PLIM_UNKNOWN};
  bool ok = plim_trace_link(&s->trace) && plim_trace_analysis_read(&s->trace, &s->analysis) &&
            plim_replay_recorded_conf(&s->trace, &options.conf) &&
            plim_timeline_build(&s->trace, &s->analysis, &options, NULL, columns, &s->timeline);
  s->replay =
      (replay_scene){name, "as recorded", &s->trace, &s->analysis, &s->timeline, PLIM_UNKNOWN};
  if (ok) s->p = replay_picture(&s->replay);
  return ok;
}

static bool scene_of_snapshot(scene *s, const char *name, size_t columns) {
  char path[512];
  snprintf(path, sizeof path, TEST_ROOT "/truth/%s.pickle.xz", name);
  *s = (scene){0};
  return !plim_snapshot_read(path, -1, &s->trace, NULL, NULL) && scene_finish(s, name, columns);
}

// The document as text, freed by the caller.
static char *drawn(const picture *p, void (*write)(FILE *, const picture *)) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) abort();
  write(out, p);
  fclose(out);
  return text;
}

static size_t occurrences(const char *text, const char *what) {
  size_t count = 0;
  for (; (text = strstr(text, what)); text += strlen(what)) count++;
  return count;
}

// ---- is it well-formed? ------------------------------------------------------------------------------

// Reads the tag at *text ("<name a=\"b\">"): returns its name and moves *text after it. NULL if it is malformed.
static const char *tag_at(const char **text, size_t *length, bool *closes, bool *is_empty) {
  const char *s = *text + 1, *name;
  *closes = *s == '/';
  name = s += *closes;
  while (isalnum((unsigned char)*s)) s++;
  *length = (size_t)(s - name);
  for (bool quoted = false; *s && (quoted || *s != '>'); s++) {
    if (*s == '<') return NULL;
    if (*s == '"') quoted = !quoted;
  }
  *is_empty = s[-1] == '/';
  *text = *s ? s + 1 : s;
  return *s && *length ? name : NULL;
}

static bool is_entity(const char *s) {
  static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;", "&#215;"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strncmp(s, known[i], strlen(known[i])) == 0) return true;
  return false;
}

// NULL if the tags are balanced and nothing needs escaping, else the position of the error.
static const char *fault_in_xml(const char *text) {
  struct {
    const char *name;
    size_t length;
  } open[32];
  size_t depth = 0;
  while (*text) {
    const char *at = text;
    if ((unsigned char)*text < 0x20 && *text != '\n') return at;
    if (*text == '&' && !is_entity(text)) return at;
    if (*text != '<') {
      text++;
      continue;
    }
    size_t length;
    bool closes, is_empty;
    const char *name = tag_at(&text, &length, &closes, &is_empty);
    if (!name || depth == 32) return at;
    if (closes &&
        (!depth-- || open[depth].length != length || strncmp(open[depth].name, name, length) != 0))
      return at;
    if (!closes && !is_empty) open[depth].name = name, open[depth++].length = length;
  }
  return depth ? text : NULL;
}

TEST(the_xml_check_finds_faults) {
  CHECK(!fault_in_xml("<a b=\">\"><c/>&lt;</a>"), "sound text is refused");
  CHECK(fault_in_xml("<a><b></a></b>") && fault_in_xml("<a>") && fault_in_xml("<a>&b</a>") &&
            fault_in_xml("<a b=\"<\"/>") && fault_in_xml("</a>") && fault_in_xml("\x01"),
        "broken text is accepted");
}

// ---- real recordings ---------------------------------------------------------------------------------

static bool svg_is_sound(const char *name) {
  scene s;
  if (!scene_of_snapshot(&s, name, SVG_COLUMNS)) return false;
  s.p.limit_bytes = s.timeline.peak_reserved_bytes + PLIM_GIB;
  char *svg = drawn(&s.p, svg_write), *html = drawn(&s.p, html_write);
  const char *fault = fault_in_xml(svg);
  if (fault) printf("at: %.60s\n", fault);
  bool small = strlen(svg) < 300 * 1024 && strlen(html) < 2 * PLIM_MIB;
  char peak[64];
  snprintf(peak, sizeof peak, "peak %s", units_bytes(picture_peak(&s.p)->allocated_bytes).text);
  bool named = strstr(svg, peak) && strstr(svg, "aria-label");
  free(svg), free(html);
  scene_clear(&s);
  return !fault && small && named;
}

TEST(pictures_of_recordings_are_well_formed) {
  static const char *const names[] = {
      "snapshots/stacks-leak-logits", "snapshots/stacks-duplicate-model",
      "snapshots/varlen-default",     "snapshots/varlen-cap-oom",
      "snapshots/tiny-default",       "allocator/cap2",
      "families/llama-bf16",
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    test_count(names[i], svg_is_sound(names[i]));
}

// ---- hostile names -----------------------------------------------------------------------------------

#define NASTY "</script><script>alert(1)</script>]]>\"'&\x01\x7f\xff\xc3<b onload=x>"

static uint32_t add_text(plim_trace *t, const char *text) {
  uint32_t offset = (uint32_t)t->text.len;
  for (;; text++) {
    if (!vec_push(&t->text, *text)) abort();
    if (!*text) return offset;
  }
}

// A trace with one allocation, from a line whose file and function have malicious names.
static bool scene_of_nasty_names(scene *s) {
  *s = (scene){0};
  plim_trace *t = &s->trace;
  if (!plim_trace_init(t)) return false;
  plim_frame frame = {.line = 7};
  frame.file = add_text(t, NASTY ".py");
  frame.name = add_text(t, NASTY);
  plim_event event = {.addr = 0x7f0000000000, .bytes = 4096, .stack = 1};
  return vec_push(&t->frames, frame) && vec_push(&t->stack_frames, 0) &&
         vec_push(&t->stacks, (plim_stack){0, 1}) && plim_trace_stream(t, 0) == 0 &&
         plim_trace_push(t, &event) && scene_finish(s, NASTY, 10);
}

TEST(names_cannot_break_out) {
  scene s;
  CHECK(scene_of_nasty_names(&s), "cannot be made");
  s.p.note = NASTY;
  char *svg = drawn(&s.p, svg_write), *html = drawn(&s.p, html_write);
  const char *fault = fault_in_xml(svg);
  CHECK(!fault, "svg at: %.80s", fault);
  CHECK(!strstr(svg, "<script") && !strstr(svg, "<b "), "a name is markup in the svg");
  CHECK_U64(occurrences(html, "<script"), 2u);
  CHECK_U64(occurrences(html, "</script"), 2u);
  CHECK(!strstr(html, "<b ") && !strstr(html, "]]>") && !strchr(html, 0x01),
        "a name is markup in the page");
  CHECK(strstr(html, "alert(1)"), "the name is gone");
  free(svg), free(html);
  scene_clear(&s);
}

// ---- extremes ----------------------------------------------------------------------------------------

static uint64_t noise(uint64_t *state) { // xorshift
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}

// Fills the timeline so that neighbouring columns have nothing in common.
static void make_noisy(plim_timeline *t) {
  uint64_t state = 88172645463325252u;
  for (size_t i = 0; i < t->columns.len; i++) {
    plim_timeline_column *c = &t->columns.at[i];
    c->allocated_bytes = 0;
    for (size_t k = 0; k < PLIM_KIND_COUNT; k++)
      c->allocated_bytes += c->part_bytes[k] = noise(&state) % (12 * PLIM_GIB);
    for (size_t k = 0; k < PLIM_TIMELINE_HOLDERS; k++)
      c->holders[k] = (plim_holder){PLIM_NO_LINE, c->part_bytes[k]};
    c->peak_reserved_bytes = c->reserved_bytes = c->allocated_bytes + noise(&state) % PLIM_GIB;
    c->ooms = c->retries = c->empty_caches = 1;
  }
  t->peak_reserved_bytes = 85 * PLIM_GIB;
}

TEST(the_noisiest_picture_is_small) {
  scene s;
  CHECK(scene_of_snapshot(&s, "snapshots/varlen-default", SVG_COLUMNS), "cannot be read");
  make_noisy(&s.timeline);
  char *svg = drawn(&s.p, svg_write);
  CHECK(strlen(svg) < 300 * 1024, "the svg has %zu bytes", strlen(svg));
  CHECK(!fault_in_xml(svg), "not well-formed");
  free(svg);
  scene_clear(&s);
  CHECK(scene_of_snapshot(&s, "snapshots/varlen-default", HTML_COLUMNS), "cannot be read");
  make_noisy(&s.timeline);
  char *html = drawn(&s.p, html_write);
  CHECK(strlen(html) < 2 * PLIM_MIB, "the page has %zu bytes", strlen(html));
  free(html);
  scene_clear(&s);
}

TEST(a_picture_of_nothing_says_so) {
  scene s = {0};
  CHECK(plim_trace_init(&s.trace) && scene_finish(&s, "empty.pickle", 10), "no memory");
  char *svg = drawn(&s.p, svg_write), *html = drawn(&s.p, html_write);
  CHECK(!fault_in_xml(svg) && strstr(svg, "nothing was recorded"), "%s", svg);
  CHECK(strstr(html, "nothing was recorded"), "the page does not say so");
  free(svg), free(html);
  scene_clear(&s);
}

// ---- predictions -------------------------------------------------------------------------------------

static char *captured; // the last picture of a prediction

static void capture_svg(FILE *out, const picture *p) {
  (void)out;
  captured = drawn(p, svg_write);
}

static void capture_html(FILE *out, const picture *p) {
  (void)out;
  captured = drawn(p, html_write);
}

static bool predict(const job_args *args, estimate_result *r) {
  const char *source;
  *r = (estimate_result){.args = args};
  plim_err err = job_understand(args, args, &r->request, &source, NULL);
  job_request_clear(&r->request); // a picture shows no notes
  return !err && !plim_estimate_make(&r->request.job, &r->request.target, &r->e, NULL);
}

// The picture of a prediction, freed by the caller.
static char *forecast(const estimate_result *r, void (*write)(FILE *, const picture *)) {
  picture_request wanted = {"/dev/null", SVG_COLUMNS, write};
  captured = NULL;
  return estimate_draw(r, &wanted, NULL) ? NULL : captured;
}

static job_args small_job(void) {
  job_args args = JOB_DEFAULTS;
  args.model = "gpt2";
  args.dtype = 1; // bf16
  args.gpu = "24GiB";
  args.seq = 64;
  return args;
}

TEST(the_picture_of_a_prediction_says_what_it_is_of) {
  job_args args = small_job();
  estimate_result r;
  CHECK(predict(&args, &r), "no prediction");
  char *svg = forecast(&r, capture_svg), peak[64];
  CHECK(svg && !fault_in_xml(svg), "not well-formed");
  snprintf(peak, sizeof peak, ">peak %s: step ", units_bytes(r.e.p.peak_allocated_bytes).text);
  CHECK(strstr(svg, peak), "no %s", peak);
  CHECK(strstr(svg, ">gpt2, bf16<") && strstr(svg, ">batch 1, 64 tokens per sequence, adamw, "),
        "no title");
  CHECK(strstr(svg, "reserved at most; fits on a GPU with 24.0 GiB<"), "no verdict");
  CHECK_U64(occurrences(svg, ">forward<"), 3u);
  CHECK_U64(occurrences(svg, ">backward<"), 3u);
  CHECK(strstr(svg, ">gradients <") && strstr(svg, ">logits <"), "no purposes");
  CHECK(!strstr(svg, ">adapters <"), "what never occurs is in the legend");
  free(svg);
}

TEST(a_run_that_does_not_fit_is_drawn_without_its_limit) {
  job_args args = small_job();
  args.gpu = NULL;
  args.limit_bytes = 600 * PLIM_MIB;
  estimate_result r;
  CHECK(predict(&args, &r) && !r.e.fits, "it fits");
  char *svg = forecast(&r, capture_svg), peak[64];
  snprintf(peak, sizeof peak, ">peak %s", units_bytes(r.e.p.peak_allocated_bytes).text);
  CHECK(svg && strstr(svg, peak), "no %s", peak);
  CHECK(strstr(svg, "; runs out under the limit: step 1, ") && strstr(svg, ">limit <"), "no limit");
  free(svg);
}

TEST(many_steps_have_no_room_for_phases) {
  job_args args = small_job();
  args.steps = 60;
  estimate_result r;
  CHECK(predict(&args, &r), "no prediction");
  char *svg = forecast(&r, capture_svg);
  CHECK(svg && !fault_in_xml(svg) && !strstr(svg, ">forward<"), "phases are named");
  CHECK(strstr(svg, ">60<"), "steps are not counted");
  free(svg);
}

TEST(the_page_of_a_prediction_knows_places_and_tensors) {
  job_args args = small_job();
  args.checkpoint = true;
  estimate_result r;
  CHECK(predict(&args, &r), "no prediction");
  char *html = forecast(&r, capture_html);
  CHECK(html && strlen(html) < 2 * PLIM_MIB, "no page, or a large one");
  CHECK(strstr(html, "\"step 2, backward, recomputing layer 3 ("), "no places");
  CHECK(strstr(html, "\"lm_head, bf16 (64, 50257)\"") && strstr(html, "\"weights\""), "no tensors");
  CHECK(strstr(html, ",\"backward\"]") && strstr(html, "\"setup\":\"loading\""), "no phases");
  free(html);
}

TEST(settings_of_a_prediction_cannot_break_out) {
  job_args args = small_job();
  estimate_result r;
  CHECK(predict(&args, &r), "no prediction");
  args.model = args.alloc_conf = NASTY;
  char *svg = forecast(&r, capture_svg), *html = forecast(&r, capture_html);
  CHECK(svg && !fault_in_xml(svg) && !strstr(svg, "<script"), "a name is markup in the svg");
  CHECK_U64(occurrences(html, "<script"), 2u);
  free(svg), free(html);
}

TEST(a_picture_that_cannot_be_saved_is_an_error) {
  scene s;
  plim_error error;
  CHECK(scene_of_snapshot(&s, "snapshots/tiny-default", 100), "cannot be read");
  CHECK(picture_save(&s.p, "/no/such/folder/a.svg", svg_write, &error) == PLIM_ERR_IO, "saved");
  CHECK(error.hint[0], "no hint");
  CHECK(picture_save(&s.p, "/dev/null", svg_write, &error) == PLIM_OK, "%s", error.message);
  scene_clear(&s);
}

TEST_MAIN
