// The text of `plimsoll replay`.
#ifndef PLIM_CLI_REPLAY_SHOW_H
#define PLIM_CLI_REPLAY_SHOW_H

#include "replay_result.h"

void replay_print_text(const replay_result *r);
// A part of it, for `simulate`: what held the peak, fragmentation, failures, leaks, duplicates.
void replay_print_findings(const replay_result *r);

#endif
