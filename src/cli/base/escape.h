// Text of unknown origin inside a document. Bytes that are not UTF-8, and control characters that
// the document may not contain, become U+FFFD.
#ifndef PLIM_CLI_ESCAPE_H
#define PLIM_CLI_ESCAPE_H

#include <stdio.h>

// As content or a quoted attribute of XML and HTML.
void escape_xml(FILE *out, const char *text);

// As a quoted JSON string that may stand in a <script>: no '<', '>' or '&' is left in it.
void escape_script(FILE *out, const char *text);

#endif
