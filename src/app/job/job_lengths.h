// --lengths FILE: the numbers of tokens of the samples, for the batches that really occur.
#ifndef PLIM_APP_JOB_LENGTHS_H
#define PLIM_APP_JOB_LENGTHS_H

#include "lengths.h"
#include "notes.h"

// Reads a file with a number of tokens for each sample, one a line; commas and brackets between them are fine, and so is a
// first line with the name of the column. The caller frees out->at.
plim_err job_read_lengths(const char *path, plim_lengths *out, plim_error *error);

// Says which samples there are; those longer than `most` tokens are cut.
void job_note_lengths(const char *path, const plim_lengths *l, int64_t most, plim_notes *notes);

#endif
