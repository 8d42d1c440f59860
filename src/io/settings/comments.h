// The comments of a text, and the comment that belongs to a setting.
#ifndef PLIM_IO_COMMENTS_H
#define PLIM_IO_COMMENTS_H

#include "settings.h"

typedef struct {
  uint32_t begin, end, line; // from its #, without the line end
  bool is_alone;             // nothing else is on its line
  const char *behind,
      *above; // kept texts: the comment alone, and together with the comment lines above
} plim_comment;

typedef vec(plim_comment) plim_comments; // in the order of the text, one per line at most

// The comment of a setting that occupies these lines: the comment after it, or the comment lines directly above it. ""
// if there is none, NULL when out of memory. Each text is stored once.
const char *plim_comment_of(plim_comments *c, plim_settings *s, uint32_t first_line,
                            uint32_t last_line);

#endif
