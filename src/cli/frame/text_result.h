// For commands whose result is a generated text: printed as it is, or as {"text": ...} in JSON.
#ifndef PLIM_CLI_TEXT_RESULT_H
#define PLIM_CLI_TEXT_RESULT_H

#include <stdio.h>

#include "command.h"
#include "json_writer.h"

// Calls write(stream, context) and prints what it wrote to stdout as the call wants it.
int text_result_print(const cli_call *call, void (*write)(FILE *out, const void *context),
                      const void *context);

// Prints the document that `write` fills in.
void cli_print_json(void (*write)(json_writer *j, const void *context), const void *context);

#endif
