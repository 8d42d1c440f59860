// Reads a small file completely, and works with paths.
#ifndef PLIM_IO_TEXT_FILE_H
#define PLIM_IO_TEXT_FILE_H

#include "plimsoll.h"

#define PLIM_PATH_BYTES 4096

// Reads the content of a file, followed by a 0 byte; the caller frees it. Only a regular file of at most `limit` bytes is
// read. Errors name the file.
plim_err plim_text_file_read(const char *path, size_t limit, char **text, size_t *size,
                             plim_error *error);

// Writes "folder/name" into `path`. Returns false if it does not fit.
bool plim_path_join(char path[PLIM_PATH_BYTES], const char *folder, const char *name);

// Removes "./", "a/../" and doubled slashes from a path if the result still names the same file. Returns false if the
// path does not fit.
bool plim_path_tidy(const char *named, char path[PLIM_PATH_BYTES]);

bool plim_is_file(const char *path);
bool plim_is_folder(const char *path);

// Sets the file that an error is about, and returns `code`.
plim_err plim_error_file(plim_error *error, plim_err code, const char *path);

#endif
