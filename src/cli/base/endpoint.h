// A small HTTP server on the loopback interface, for one document.
#ifndef PLIM_CLI_ENDPOINT_H
#define PLIM_CLI_ENDPOINT_H

#include "plimsoll.h"

typedef struct endpoint endpoint;

// All borrowed.
typedef struct {
  const char *path; // "/metrics"; everything else is not found
  const char *type; // "text/html"
  const char *hint; // what other requests are told
  const char *body;
  size_t size;
} endpoint_document;

// Listens on 127.0.0.1, on any free port if it is 0.
plim_err endpoint_open(uint16_t port, endpoint **out, plim_error *error);
uint16_t endpoint_port(const endpoint *e);
// Answers clients for this long. A slow client holds up no other.
void endpoint_serve(endpoint *e, double seconds, const endpoint_document *document);
void endpoint_close(endpoint *e); // NULL is fine

#endif
