// Where a key belongs that is not there yet.
#ifndef PLIM_IO_PROJECT_PLACES_H
#define PLIM_IO_PROJECT_PLACES_H

#include "key_names.h"
#include "project.h"

// Files in the order in which a new key belongs to them, from 0: what trains, what starts it, the parts.
int plim_project_rank(const plim_project *p, size_t file);
// Where a key would stand in the file, of a dialect whose keys are nested or not; false if it has no
// sure place.
bool plim_project_place(const plim_project_file *f, const char *key, bool is_nested,
                        char out[PLIM_KEY_BYTES]);
// The same for an argument of the model, in a command: beside where Hydra is told its name.
bool plim_project_place_of_model(const plim_project_file *f, const char *key,
                                 char out[PLIM_KEY_BYTES]);
// Why it has none: there are several, or a call that does not take it. Nothing is written where there is none at all.
void plim_project_why_no_place(const plim_project_file *f, const char *key, char *why, size_t size);
// Whether the call in Python that a setting is an argument of takes this key as well; what is no call does
// (project_calls.c). And a text that says that it does not.
bool plim_call_takes(const plim_project_file *f, const char *beside, const char *key);
void plim_call_refuses(const char *beside, const char *key, char *why, size_t size);
bool plim_is_listed(const char *list, const char *word); // in "a,b,c"

#endif
