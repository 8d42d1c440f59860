// Settings that a framework refuses as soon as it reads its files: keys that it no longer has, and combinations.
#ifndef PLIM_IO_PROJECT_REFUSALS_H
#define PLIM_IO_PROJECT_REFUSALS_H

#include "project.h"

#define PLIM_NOTE_REFUSED "stops.setting" // the code of such a note

// Adds a note for each refusal, at the line of the setting. The run does not start with it.
void plim_project_note_refusals(const plim_project *p, plim_notes *notes);

#endif
