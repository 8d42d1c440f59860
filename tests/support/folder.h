// A temporary folder for tests that read files.
#ifndef PLIM_TESTS_FOLDER_H
#define PLIM_TESTS_FOLDER_H

#include <stddef.h>

void folder_make(void);           // and every folder above the files written into it
void folder_make_in_memory(void); // for tests that make thousands, where the system has such a disk
void folder_remove(void);         // with all that is in it
// The path of something in the folder; valid until the fourth call after this one.
const char *folder_path(const char *name);
void folder_write(const char *name, const void *data, size_t size);
void folder_write_text(const char *name, const char *text);

#endif
