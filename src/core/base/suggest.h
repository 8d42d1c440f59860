// Did-you-mean: the known word that a mistyped one most likely stands for.
#ifndef PLIM_CORE_SUGGEST_H
#define PLIM_CORE_SUGGEST_H

#include <stddef.h>

// The closest of `count` names to `word`, or NULL if none is close: about one slip (a letter
// missing, added, wrong, or swapped with its neighbour) is forgiven per three letters, and the
// beginning of a name stands for it. Letters compare without case. Ties go to the earlier name.
// The result is one of `names`; NULL entries are passed over.
//
//   plim_suggest("repaly", (const char *const[]){"replay", "plan"}, 2)   // "replay"
const char *plim_suggest(const char *word, const char *const *names, size_t count);

// The first names, "a, b or c", or "a, b, ... and 12 more" where there are more than `shown` (of which
// `names` need hold no more than those).
void plim_suggest_list(const char *const *names, size_t count, size_t shown, char *out,
                       size_t size);

// The number of slips between two words (optimal string alignment); SIZE_MAX if one is longer
// than 63 characters.
size_t plim_edit_distance(const char *a, const char *b);

#endif
