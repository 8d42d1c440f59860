// A temporary folder for tests that read files.
#ifndef PLIM_TESTS_FOLDER_H
#define PLIM_TESTS_FOLDER_H

#include <stddef.h>

void folder_make(void); // files written into it get their folders too
// For tests with thousands of files: in memory, if the system has such a disk.
void folder_make_in_memory(void);
void folder_remove(void); // with its contents
// The path of a file in the folder; valid until the fourth call after this one.
const char *folder_path(const char *name);
void folder_write(const char *name, const void *data, size_t size);
void folder_write_text(const char *name, const char *text);

#endif
