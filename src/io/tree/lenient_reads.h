// Finds text that plimsoll accepts but that the format's usual readers refuse or read differently.
#ifndef PLIM_IO_LENIENT_READS_H
#define PLIM_IO_LENIENT_READS_H

#include "settings.h"

typedef enum {
  PLIM_LOOSE_COMMA,     // JSON: a comma after the last value
  PLIM_LOOSE_COMMENT,   // JSON: a comment
  PLIM_LOOSE_TWICE,     // JSON, YAML: the same key twice; the last one is used
  PLIM_LOOSE_DOCUMENTS, // YAML: several documents in one file
  PLIM_LOOSE_TAB,       // YAML: a tab outside quotes, comments and blocks of text
  PLIM_LOOSE_KINDS
} plim_lenient_kind;

typedef struct {
  bool is_there;
  size_t byte;  // of the first one
  char key[96]; // the key that occurs twice
} plim_lenient_read;

// Searches a text that plim_settings_read has accepted; only JSON and YAML have such cases.
plim_err plim_lenient_reads_find(plim_format format, const char *text, size_t size,
                                 plim_lenient_read out[PLIM_LOOSE_KINDS], plim_error *error);

#endif
