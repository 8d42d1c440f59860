// Comments of a text, and which of them belong to a setting.
#ifndef PLIM_IO_COMMENTS_H
#define PLIM_IO_COMMENTS_H

#include "settings.h"

typedef struct {
  uint32_t begin, end, line;  // from its # on, without the line end
  bool is_alone;              // nothing else on its line
  const char *behind, *above; // what was kept of it: alone, and with the lines above
} plim_comment;

typedef vec(plim_comment) plim_comments; // in the order of the text, one per line at most

// The comment of a setting that stands on these lines: the one after it, or those on lines of their own
// right above. "" if there is none, NULL when out of memory. Each text is kept once.
const char *plim_comment_of(plim_comments *c, plim_settings *s, uint32_t first_line,
                            uint32_t last_line);

#endif
