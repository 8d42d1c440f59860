// Finds the place for a key that has to be inserted.
#ifndef PLIM_IO_PROJECT_PLACES_H
#define PLIM_IO_PROJECT_PLACES_H

#include "key_names.h"
#include "project.h"

// The priority of a file for new keys, from 0: the file that trains, the one that starts it, then the parts.
int plim_project_rank(const plim_project *p, size_t file);
// The full key under which a new key would be inserted in the file (is_nested: the dialect nests its keys);
// false if it is not clear where.
bool plim_project_place(const plim_project_file *f, const char *key, bool is_nested,
                        char out[PLIM_KEY_BYTES]);
// The same for an argument of the model in a command: next to the Hydra override that names the model.
bool plim_project_place_of_model(const plim_project_file *f, const char *key,
                                 char out[PLIM_KEY_BYTES]);
// The reason why there is no place: several are possible, or the call does not accept the key. `why` stays unchanged if
// there is no candidate at all.
void plim_project_why_no_place(const plim_project_file *f, const char *key, char *why, size_t size);
// Whether the Python call that has the argument `beside` also accepts this key; true if it is not a call
// (project_calls.c). plim_call_refuses writes the reason if it does not.
bool plim_call_takes(const plim_project_file *f, const char *beside, const char *key);
void plim_call_refuses(const char *beside, const char *key, char *why, size_t size);
bool plim_is_listed(const char *list,
                    const char *word); // whether `word` is in a list such as "a,b,c"

#endif
