// Keys that nobody reads and that are nearly one that counts.
#include "check.h"

void check_typos(check *c) {
  plim_project *p = &c->files.project;
  size_t had = p->notes.len;
  plim_project_note_typos(p);
  for (size_t i = had; i < p->notes.len; i++)
    check_add(c, "keys.unknown", CHECK_NOTE, "%s", p->notes.at[i]);
}
