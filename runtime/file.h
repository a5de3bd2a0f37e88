/* Whole files. */
#ifndef CV_RUNTIME_FILE_H
#define CV_RUNTIME_FILE_H

#include <stddef.h>

#include "base/status.h"

/* Reads a file into fresh memory (cv_free), 64-byte aligned, with a NUL behind it. CV_IO, CV_NOMEM
 * with the path. Blocks. */
CV_NODISCARD cv_status cv_file_read(const char *path, void **out_data, size_t *out_bytes);
/* Writes a file whole or not at all: a temporary one beside it, then rename. CV_IO with the path.
 */
CV_NODISCARD cv_status cv_file_write(const char *path, const void *data, size_t bytes);

#endif
