#include "text_result.h"

#include <stdlib.h>

#include "cli_alloc.h"

static void write_text(json_writer *j, const void *text) {
  jsonw_object(j, NULL);
  jsonw_u64(j, "format_version", 1);
  jsonw_string(j, "text", text);
  jsonw_end(j);
}

void cli_print_json(void (*write)(json_writer *j, const void *context), const void *context) {
  json_writer j = jsonw_begin(stdout);
  write(&j, context);
  jsonw_finish(&j);
  if (j.has_no_memory) cli_out_of_memory();
}

int text_result_print(const cli_call *call, void (*write)(FILE *out, const void *context),
                      const void *context) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *memory = open_memstream(&text, &bytes);
  if (!memory) cli_out_of_memory();
  write(memory, context);
  bool is_whole = !ferror(memory);
  if (fclose(memory) != 0 || !is_whole || !text) cli_out_of_memory();
  if (call->common.json) cli_print_json(write_text, text);
  else fputs(text, stdout);
  free(text);
  return CLI_OK;
}
