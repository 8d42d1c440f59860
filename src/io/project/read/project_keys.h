// Accounts for every key of the files: what is known and not modelled is refused or noted, and so is what is unknown.
#ifndef PLIM_IO_PROJECT_KEYS_H
#define PLIM_IO_PROJECT_KEYS_H

#include "key_names.h"
#include "other_keys.h"
#include "project.h"

// The kind of a setting of the file, as plim_key_kind_of. Flags of the user's own parser and settings that another file or a
// condition rules out are not asked about.
plim_key_kind plim_project_key_kind(const plim_project_file *f, const plim_setting *setting,
                                    const plim_other_key **row);

// The known key that an unknown one is probably a misspelling of; NULL: none (project_typos.c).
const char *plim_project_meant_key(const plim_project_file *f, const plim_setting *setting,
                                   char out[PLIM_KEY_BYTES]);

// Refuses a run with a key that makes it another training than the one that would be predicted.
plim_err plim_project_refuse_keys(const plim_project *p, plim_error *error);

// Adds a note for each thing that is not modelled, the run that needs more memory first, and one note that lists the
// unknown keys, except those that plim_project_note_typos notes. With one GPU (is_alone), some keys do nothing.
void plim_project_note_keys(const plim_project *p, bool is_alone, plim_notes *notes);

#endif
