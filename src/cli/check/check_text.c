#include <stdarg.h>
#include <string.h>

#include "check_show.h"
#include "term.h"

enum { INDENT = 12 };

static const struct {
  const char *word;
  term_style style;
} severities[CHECK_SEVERITIES] = {
    [CHECK_OK] = {"ok", TERM_GREEN},
    [CHECK_NOTE] = {"note", TERM_CYAN},
    [CHECK_WARNING] = {"warning", TERM_YELLOW},
    [CHECK_FAILS] = {"WOULD FAIL", TERM_RED},
};

static size_t width(void) { return (size_t)term_width(stdout); }

// ---- one finding ------------------------------------------------------------------------------------

// Some findings name the place in their sentence.
static bool names_place(const check_finding *f) {
  size_t length = strlen(f->file), digits = 0;
  char line[16] = "";
  if (f->line) digits = (size_t)snprintf(line, sizeof line, ":%d", f->line);
  for (const char *at = f->what; (at = strstr(at, f->file)); at++)
    if (strncmp(at + length, line, digits) == 0) return true;
  return false;
}

static void print_place(const check_finding *f) {
  if (!*f->file || names_place(f)) return;
  printf("%*s--> %s", INDENT, "", f->file);
  if (f->line) printf(":%d", f->line);
  printf("\n");
}

static void print_excerpt(const check_finding *f) {
  if (f->caret < 0) return;
  char before[sizeof f->excerpt];
  snprintf(before, sizeof before, "%.*s", f->caret, f->excerpt);
  printf("   |  %s\n", f->excerpt);
  printf("   |  %*s", (int)term_text_width(before), "");
  term_print(stdout, TERM_RED, "^");
  printf("\n");
}

static void print_part(const char *label, const char *text) {
  if (!*text) return;
  printf("%*s", INDENT, "");
  term_print(stdout, TERM_DIM, "%s ", label);
  size_t column = INDENT + strlen(label) + 1;
  term_wrap(stdout, text, column, column, width());
}

static void print_finding(const check_finding *f) {
  bool is_weighty = f->severity > CHECK_NOTE;
  term_print(stdout, severities[f->severity].style, "%s", severities[f->severity].word);
  printf("%*s", INDENT - (int)strlen(severities[f->severity].word), "");
  term_wrap(stdout, f->what, INDENT, INDENT, width());
  if (is_weighty) print_place(f);
  print_excerpt(f);
  print_part("why:", f->why);
  print_part(is_weighty ? "fix:" : "hint:", f->fix);
}

// ---- all --------------------------------------------------------------------------------------------

static void print_files(const check *c) {
  const plim_project *p = &c->files.project;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    bool is_known = f->is.dialect != PLIM_DIALECTS;
    const char *unknown = plim_is_names(f->path) ? "maps settings to keys" : "not recognised";
    term_print(stdout, TERM_BOLD, "%s%s%s", f->path, f->target ? ":" : "",
               f->target ? f->target : "");
    printf("  %s\n", is_known ? plim_dialect_table[f->is.dialect].name : unknown);
  }
  if (p->files.len) printf("\n");
}

static const struct {
  const char *word;
  term_style style;
} verdicts[CHECK_VERDICTS] = {
    [CHECK_READY] = {"READY", TERM_GREEN},
    [CHECK_NOT_READY] = {"NOT READY", TERM_RED},
    [CHECK_MAY_NOT_FIT] = {"MAY NOT FIT", TERM_YELLOW},
    [CHECK_NOT_CHECKED] = {"NOT CHECKED", TERM_YELLOW},
};

// Adds "; 2 warnings"; the first part is not preceded by a mark.
static void add_part(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add_part(char *text, size_t size, const char *format, ...) {
  size_t used = strlen(text);
  va_list args;
  used += (size_t)snprintf(text + used, size - used, "%s ", used ? ";" : "");
  va_start(args, format);
  vsnprintf(text + used, size - used, format, args);
  va_end(args);
}

// " does not fit (27.6 GiB of 23.5 GiB); 1 warning": the fit that is shown is not counted again.
static void describe_verdict(const check *c, const char *why_not, char *text, size_t size) {
  size_t fails = check_count(c, CHECK_FAILS), warnings = check_count(c, CHECK_WARNING);
  bool fails_to_fit = check_has(c, "fit", CHECK_FAILS);
  bool shows_fit = !why_not && *c->fit && (fails_to_fit || !fails);
  if (shows_fit) fails -= fails_to_fit, warnings -= check_has(c, "fit", CHECK_WARNING);
  if (why_not) add_part(text, size, "%s%s", c->trains ? "whether it fits, because " : "", why_not);
  if (shows_fit) add_part(text, size, "%s", c->fit);
  if (fails)
    add_part(text, size, "%zu %sproblem%s", fails, fails_to_fit ? "other " : "",
             fails == 1 ? "" : "s");
  if (warnings) add_part(text, size, "%zu warning%s", warnings, warnings == 1 ? "" : "s");
}

static void print_verdict(const check *c) {
  const char *why_not;
  char text[512] = "";
  check_verdict verdict = check_decide(c, &why_not);
  const char *word = verdicts[verdict].word;
  describe_verdict(c, why_not, text, sizeof text);
  printf("\n");
  term_print(stdout, verdicts[verdict].style, "%s", word);
  if (*text) printf(":");
  term_wrap(stdout, text, strlen(word) + (*text != 0), strlen(word) + 2, width());
}

void check_print_text(const check *c) {
  print_files(c);
  for (size_t i = 0; i < c->findings.len; i++) print_finding(&c->findings.at[i]);
  print_verdict(c);
}

const char *checked_why(const checked *x) {
  return *x->error.message ? x->error.message : "not a training configuration";
}

void check_print_each_text(const checked *all, size_t count) {
  const checked *before = NULL;
  for (size_t i = 0; i < count; i++) {
    const checked *x = &all[i];
    if (x->has_failed) continue;
    if (before && !(before->is_passed_over && x->is_passed_over)) printf("\n");
    if (x->is_passed_over) printf("%s: %s\n", x->named, checked_why(x));
    else check_print_text(&x->of);
    before = x;
  }
}
