// The text of `plimsoll estimate`.
#ifndef PLIM_CLI_ESTIMATE_SHOW_H
#define PLIM_CLI_ESTIMATE_SHOW_H

#include "estimate_result.h"

void estimate_print_text(const estimate_result *r);

// "activations of the layers, bf16 (2, 2048, 18944)".
void estimate_holding(const plim_holding *h, char *text, size_t size);

#endif
