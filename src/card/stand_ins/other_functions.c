// Every function of CUDA's libraries that has no stand-in of its own.
#include "card.h"

#define ACCEPTED(name)                                                                             \
  STAND_IN int name(void) { return CARD_OK; }
#define UNMODELLED(name)                                                                           \
  STAND_IN int name(void) {                                                                        \
    card_unmodelled_call(#name);                                                                   \
    return CARD_OK;                                                                                \
  }
#define REFUSED(name)                                                                              \
  STAND_IN int name(void) {                                                                        \
    card_unmodelled_call(#name);                                                                   \
    return card_result(CARD_NOT_SUPPORTED);                                                        \
  }
#include "other_functions.h"
