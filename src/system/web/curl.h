// Starts the program curl, which sends everything that plimsoll sends over a network. It is a process of its own, so that an
// error in TLS or a proxy does not harm this one. Nothing is linked for it, and plimsoll runs without it.
#ifndef PLIM_SYSTEM_CURL_H
#define PLIM_SYSTEM_CURL_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct {
  const char *name, *value; // as in a configuration file of curl; value NULL: an option without one
} plim_curl_option;

// Starts a request. The options go through a pipe: everybody on the machine can read the arguments of a process, and an
// address or a header may be a secret. The answer goes to `output`, or nowhere if it is -1. Returns an errno; ENOENT: curl
// is not installed. The caller waits for the process.
int plim_curl_start(const plim_curl_option *options, size_t count, int output, pid_t *pid);

// Why a request failed, by the status of the process (waitpid): "its host was not found". `seconds` is its max-time.
void plim_curl_trouble(int status, int seconds, char *text, size_t size);

#endif
