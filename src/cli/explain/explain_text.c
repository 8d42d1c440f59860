#include <string.h>

#include "explain_show.h"
#include "term.h"

static const struct {
  const char *word;
  term_style style;
} verdicts[EXPLAIN_VERDICTS] = {
    [EXPLAIN_NO_OOM] = {"NO OUT-OF-MEMORY ERROR", TERM_GREEN},
    [EXPLAIN_SHORTAGE] = {"REAL SHORTAGE", TERM_RED},
    [EXPLAIN_FRAGMENTATION] = {"FRAGMENTATION", TERM_RED},
    [EXPLAIN_OTHER_PROCESS] = {"ANOTHER PROCESS", TERM_RED},
    [EXPLAIN_LIBRARIES] = {"LIBRARIES", TERM_RED},
    [EXPLAIN_HOST_MEMORY] = {"HOST MEMORY", TERM_RED},
    [EXPLAIN_IMPOSSIBLE_TENSOR] = {"IMPOSSIBLE TENSOR", TERM_RED},
    [EXPLAIN_LEAK] = {"LEAK", TERM_RED},
    [EXPLAIN_LONG_SAMPLE] = {"LATE LONG SAMPLE", TERM_RED},
    [EXPLAIN_EVALUATION] = {"EVALUATION", TERM_RED},
    [EXPLAIN_SAVING] = {"SAVING", TERM_RED},
    [EXPLAIN_RESUMING] = {"RESUMING", TERM_RED},
    [EXPLAIN_CAP] = {"MEMORY CAP", TERM_RED},
    [EXPLAIN_TRANSIENT] = {"SHORT PEAK", TERM_YELLOW},
    [EXPLAIN_ON_CHIP] = {"ON-CHIP MEMORY", TERM_RED},
    [EXPLAIN_UNCLEAR] = {"UNCLEAR", TERM_YELLOW},
};

enum { SHOWN_BYTES = 600 }; // of a message; --json has more

static size_t width(void) { return (size_t)term_width(stdout); }

static void print_message(const char *name, const plim_oom_message *m) {
  char shown[SHOWN_BYTES];
  if (m->kind == PLIM_OOM_NONE) return;
  term_print(stdout, TERM_BOLD, "%s:%llu", name, (unsigned long long)m->line);
  if (m->rank != PLIM_UNKNOWN) printf("  rank %llu", (unsigned long long)m->rank);
  printf("\n  ");
  bool is_cut = (size_t)snprintf(shown, sizeof shown - 4, "%s", m->text) >= sizeof shown - 4;
  if (is_cut) strcat(shown, "...");
  term_wrap(stdout, shown, 2, 2, width());
  printf("\n");
}

static void print_verdict(const explanation *e) {
  const char *word = verdicts[e->verdict].word, *sure = explain_surety_name(e->surety);
  bool is_found = e->verdict != EXPLAIN_NO_OOM,
       says_sure = is_found && e->verdict != EXPLAIN_UNCLEAR;
  char text[512];
  term_print(stdout, verdicts[e->verdict].style, "%s", word);
  snprintf(text, sizeof text, "%s%s%s: %s", says_sure ? " (" : "", says_sure ? sure : "",
           says_sure ? ")" : "", e->summary);
  term_wrap(stdout, text, strlen(word), 2, width());
  if (!e->why_not_sure) return;
  printf("  ");
  snprintf(text, sizeof text, "not certain, because %s", e->why_not_sure);
  term_wrap(stdout, text, 2, 2, width());
}

static void print_evidence(const explanation *e) {
  if (!e->evidence.list.len) return;
  printf("\nEvidence\n");
  for (size_t i = 0; i < e->evidence.list.len; i++) {
    printf("- ");
    term_wrap(stdout, e->evidence.list.at[i].message, 2, 2, width());
  }
}

static void print_cures(const explanation *e) {
  if (!e->cures.len) return;
  printf("\nWhat to do\n");
  for (size_t i = 0; i < e->cures.len; i++) {
    printf("%zu. ", i + 1);
    term_wrap(stdout, e->cures.at[i].text, 3, 3, width());
    if (e->cures.at[i].command) printf("     %s\n", e->cures.at[i].command);
  }
}

void explain_print_text(const char *name, const plim_oom_log *log, const explanation *e) {
  print_message(name, &log->message);
  print_verdict(e);
  print_evidence(e);
  print_cures(e);
}
