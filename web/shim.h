// What the WebAssembly module exports, besides its memory and _initialize: the functions of plimsoll.h in a form that a
// page can call. Each takes a request and returns {"ok": answer}, or
// {"error": {"code", "message", "hint", "file", "byte"}}. Texts are in the module's memory: the page takes room for a
// request with plim_web_alloc, and gives requests and answers back with plim_web_free.
#ifndef PLIM_WEB_SHIM_H
#define PLIM_WEB_SHIM_H

#include "plimsoll.h"

#ifdef __wasm__
#define EXPORT(name) __attribute__((export_name(#name))) name
#else
#define EXPORT(name) name
#endif

void *EXPORT(plim_web_alloc)(size_t size); // NULL: there is none left
void EXPORT(plim_web_free)(char *text);

char *EXPORT(plim_web_estimate)(const char *request);
char *EXPORT(plim_web_plan)(const char *request);
char *EXPORT(plim_web_replay)(const char *request);
char *EXPORT(plim_web_settings)(const char *request);
char *EXPORT(plim_web_list)(const char *what);

// The answer of `open` is the snapshot for the others, as a number; that of `replay` is null.
char *EXPORT(plim_web_snapshot_open)(const char *request);
char *EXPORT(plim_web_snapshot_report)(plimsoll_snapshot *snapshot);
char *EXPORT(plim_web_snapshot_replay)(plimsoll_snapshot *snapshot, const char *request);
char *EXPORT(plim_web_snapshot_timeline)(plimsoll_snapshot *snapshot, const char *request);
char *EXPORT(plim_web_snapshot_moment)(plimsoll_snapshot *snapshot, const char *request);
void EXPORT(plim_web_snapshot_close)(plimsoll_snapshot *snapshot);

const char *EXPORT(plim_web_version)(void);

#endif
