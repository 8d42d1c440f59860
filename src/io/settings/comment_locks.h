// Finds comments that forbid changing a setting: "must be 1", "DO NOT TOUCH", "keep at 8", "fixed by the paper".
#ifndef PLIM_IO_COMMENT_LOCKS_H
#define PLIM_IO_COMMENT_LOCKS_H

#include "settings.h"

// The setting's own comment if it forbids a change; NULL otherwise.
const char *plim_lock_beside(const plim_setting *setting);

// The same, or a comment elsewhere that names the key and forbids a change: "micro_batch_size must be 1".
const char *plim_lock_of(const plim_settings *s, const plim_setting *setting);

#endif
