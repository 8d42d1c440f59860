// Between the files of this folder.
#ifndef PLIM_APP_RECOVER_IMPL_H
#define PLIM_APP_RECOVER_IMPL_H

#include "recover.h"

// Writes the edited copies of v->with into the user's files, and takes that back (recover_files.c).
plim_err recovery_put_files(recovery *v, plim_error *error);
plim_err recovery_restore_files(recovery *v, plim_error *error);

#endif
