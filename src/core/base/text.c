#include "text.h"

#include <stdbool.h>

void plim_text_disarm(char *text) {
  for (unsigned char *at = (unsigned char *)text; *at; at++) {
    bool is_c1 = at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0; // control characters in UTF-8
    if (is_c1) at[1] = '?';
    if (*at < 0x20 || *at == 0x7f || is_c1) *at = '?';
  }
}
