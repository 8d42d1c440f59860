// Gets a small document from a web server, with bounds on its size, on the time and on the number of redirects.
#ifndef PLIM_SYSTEM_WEB_H
#define PLIM_SYSTEM_WEB_H

#include "plimsoll.h"

typedef struct {
  const char *url;
  const char *token;  // sent as a bearer token, only to the scheme, host and port of `url`; or NULL
  const char *agent;  // User-Agent
  size_t limit_bytes; // of the document
  int seconds;        // for everything
} plim_web_request;

typedef struct {
  int status; // of the last answer: 200, 404
  char *body; // followed by a 0 byte; the caller frees it
  size_t size;
  char code[64]; // its header X-Error-Code, by which Hugging Face says what is missing; or empty
} plim_web_answer;

// An answer with any status counts as success; a failure is that there is none. Redirects go to https, or among addresses of
// this machine also to http.
plim_err plim_web_get(const plim_web_request *request, plim_web_answer *out, plim_error *error);

// Part of plim_web_get: reads what curl prints: headers, the document, a line break and the address of a redirect or
// nothing. There is room for a 0 behind the `size` bytes. The text then has the document, at out->body, and behind it the
// address. Returns false if it is not an answer of HTTP.
bool plim_web_answer_read(char *text, size_t size, plim_web_answer *out, const char **redirect);

// Whether it may be asked: "https://HOST...", or "http://HOST..." for a HOST that is this machine, without a user's name or
// characters that no address has.
bool plim_web_is_safe(const char *url);
// Whether both have the same scheme, host and port.
bool plim_web_is_same_place(const char *a, const char *b);
// Its scheme, host and port: "https://huggingface.co".
size_t plim_web_place_length(const char *url);

#endif
