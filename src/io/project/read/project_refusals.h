// Settings that a framework refuses as soon as it reads its files: keys that it no longer has, and combinations.
#ifndef PLIM_IO_PROJECT_REFUSALS_H
#define PLIM_IO_PROJECT_REFUSALS_H

#include "project.h"

// Adds a note "stops.setting" for each refusal, at the line of the setting. The run does not start with it.
void plim_project_note_refusals(const plim_project *p, plim_notes *notes);

#endif
