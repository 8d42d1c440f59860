// Notes as JSON.
#ifndef PLIM_APP_NOTES_JSON_H
#define PLIM_APP_NOTES_JSON_H

#include "json_writer.h"
#include "notes.h"

// Members of an open array: objects with code, message, file, line and knob.
void notes_write(json_writer *j, const plim_notes *notes);

#endif
