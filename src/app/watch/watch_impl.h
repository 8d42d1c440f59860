// The thread that asks the driver, and the warning signs.
#ifndef PLIM_APP_WATCH_IMPL_H
#define PLIM_APP_WATCH_IMPL_H

#include "watch.h"

double watch_now(void); // a clock that only runs forward

typedef struct watch_driver watch_driver;

// Starts the thread. NULL if that is not possible.
watch_driver *watch_driver_new(const char *root, double silent_seconds);
// Asks for a sample, unless an earlier question is not answered yet.
void watch_driver_ask(watch_driver *d);
// Waits until the question is answered, or the time is over.
void watch_driver_wait(watch_driver *d, double seconds);
// The newest answer. While the driver is silent, the cards that it named before have unknown values.
void watch_driver_look(watch_driver *d, watch_cards *out);
// Ends the thread. One that hangs in the driver is left alone, with the memory that it uses.
void watch_driver_free(watch_driver *d);

void watch_runs_read(watch *w);
void watch_runs_free(watch *w);
void watch_find_signs(watch *w);

#endif
