// "Did you mean": the known word that a mistyped word most likely means.
#ifndef PLIM_CORE_SUGGEST_H
#define PLIM_CORE_SUGGEST_H

#include <stddef.h>

// The closest of `count` names to `word`, or NULL if none is close. About one typing error (a letter missing, added,
// wrong, or swapped with its neighbour) is allowed per three letters, and the beginning of a name matches it. Case does
// not matter. Ties go to the earlier name. The result is one of `names`; NULL entries are skipped.
//
//   plim_suggest("repaly", (const char *const[]){"replay", "plan"}, 2)   // "replay"
const char *plim_suggest(const char *word, const char *const *names, size_t count);

// Writes the first names as "a, b or c", or as "a, b, ... and 12 more" if `count` is larger than `shown`; `names` then
// needs only the first `shown` entries.
void plim_suggest_list(const char *const *names, size_t count, size_t shown, char *out,
                       size_t size);

// The number of typing errors between two words (optimal string alignment); SIZE_MAX if one is longer than 63
// characters.
size_t plim_edit_distance(const char *a, const char *b);

#endif
