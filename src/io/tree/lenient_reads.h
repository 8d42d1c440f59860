// What was read here although other readers refuse it, or take something else for it.
#ifndef PLIM_IO_LENIENT_READS_H
#define PLIM_IO_LENIENT_READS_H

#include "settings.h"

typedef enum {
  PLIM_LOOSE_COMMA,     // JSON: after the last value
  PLIM_LOOSE_COMMENT,   // JSON
  PLIM_LOOSE_TWICE,     // JSON, YAML: a key is there twice; the last was read
  PLIM_LOOSE_DOCUMENTS, // YAML: there are several
  PLIM_LOOSE_TAB,       // YAML: outside quotes, comments and blocks of text
  PLIM_LOOSE_KINDS
} plim_lenient_kind;

typedef struct {
  bool is_there;
  size_t byte;  // of the first
  char key[96]; // that is there twice
} plim_lenient_read;

// Of a text that plim_settings_read has read; formats other than JSON and YAML have none of these.
plim_err plim_lenient_reads_find(plim_format format, const char *text, size_t size,
                                 plim_lenient_read out[PLIM_LOOSE_KINDS], plim_error *error);

#endif
