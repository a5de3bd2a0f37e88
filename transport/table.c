#include <string.h>

#include "transport/transport_internal.h"

/* Every transport there is, in order of preference on one host. */
static const cv_transport_row *const rows[] = {
    &cv_row_inproc,
    &cv_row_shm,
#ifdef CUVIL_UCX
    &cv_row_ucx,
#endif
};

const cv_transport_row *cv_transport_at(size_t index) {
  return index < sizeof rows / sizeof *rows ? rows[index] : NULL;
}

const cv_transport_row *cv_transport_find(const char *name) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i]->name, name) == 0) return rows[i];
  return NULL;
}

const char *cv_transport_row_name(const cv_transport_row *row) { return row->name; }
