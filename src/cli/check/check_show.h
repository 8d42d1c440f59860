// The ways to show the pre-flight list.
#ifndef PLIM_CLI_CHECK_SHOW_H
#define PLIM_CLI_CHECK_SHOW_H

#include "check.h"

void check_print_text(const check *c);
void check_print_json(const check *c);

#endif
