// Checks for unknown keys that look like misspelled known keys.
#include "check.h"

void check_typos(check *c) {
  plim_project *p = &c->files.project;
  size_t had = p->notes.list.len;
  plim_project_note_typos(p);
  for (size_t i = had; i < p->notes.list.len; i++)
    check_at_note(check_add(c, "keys.unknown", CHECK_NOTE, "%s", p->notes.list.at[i].message),
                  &p->notes.list.at[i]);
}
