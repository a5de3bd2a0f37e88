/* The manifest: the program as msgpack. docs/artifact.md describes it. */
#ifndef CV_RUNTIME_MANIFEST_INTERNAL_H
#define CV_RUNTIME_MANIFEST_INTERNAL_H

#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "runtime/program.h"

/* Where a blob lies, from the start of the blob area, and its XXH3. */
typedef struct {
  uint64_t offset, bytes, hash;
} cv_blob;

enum { CV_MANIFEST_MAX_DEPTH = 16 }; /* loops inside loops */

/* Appends the manifest of `program` to `out`, with blobs for its consts and for its targets' code.
 * Sets out_hash (32 hex digits and NUL) to the hash of the part that no target changes. CV_NOMEM.
 */
CV_NODISCARD cv_status cv_manifest_write(const cv_program *program, const cv_blob *consts,
                                         const cv_blob *code, cv_str *out, char out_hash[33]);

/* Reads a manifest from outside into a fresh program: total and bounded; offsets and sizes of blobs
 * are not yet checked, nor what cv_program_verify checks. CV_CORRUPT, CV_NOMEM. */
CV_NODISCARD cv_status cv_manifest_read(const void *data, uint64_t bytes, cv_program **out_program);

#endif
