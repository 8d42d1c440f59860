// Checks that files to which other files refer exist and can be read.
#include "check.h"

static void report_missing(check *c, const plim_unread *u) {
  bool is_elsewhere =
      *u->name == '/'; // an absolute path, valid on the machine or in the container of the run
  bool is_needed = u->part == PLIM_UNREAD_DECIDES && !is_elsewhere;
  check_finding *f =
      check_add(c, "files.missing", is_needed ? CHECK_FAILS : CHECK_WARNING,
                "%.80s:%d refers to %.160s, which does not exist", u->from, u->line, u->name);
  check_at_line(f, u->from, u->line);
  check_why(f, "the run needs it, and its settings could not be checked");
  check_fix(f, "create it, or correct the path (relative to where the run starts)");
}

static void report_unreadable(check *c, const plim_unread *u) {
  bool is_needed = u->part == PLIM_UNREAD_DECIDES;
  check_finding *f = check_add(c, "files.unreadable", is_needed ? CHECK_FAILS : CHECK_WARNING,
                               "%.120s cannot be read: %.160s", u->name, u->why.message);
  check_at_line(f, u->from, u->line);
  check_why(f, "%s",
            is_needed ? "the run takes its settings from this file"
                      : "its settings could not be checked");
  check_fix(f, "fix %.200s", u->name);
}

void check_files(check *c) {
  const plim_project *p = &c->files.project;
  for (size_t i = 0; c->trains && i < p->unread.len; i++)
    if (p->unread.at[i]->is_missing) report_missing(c, p->unread.at[i]);
    else report_unreadable(c, p->unread.at[i]);
}
