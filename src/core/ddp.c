#include "sharding.h"
plim_shards *plim_ddp_new(plim_tape *t, plim_model *m, const plim_sharding *how) {
  (void)t, (void)m, (void)how;
  return NULL;
}
