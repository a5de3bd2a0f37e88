/* The artifact `.cuv`: header, msgpack manifest, 64-byte aligned blobs (weights, code per target),
 * a checksum a blob. docs/artifact.md describes the bytes. */
#ifndef CV_RUNTIME_ARTIFACT_H
#define CV_RUNTIME_ARTIFACT_H

#include <stddef.h>

#include "base/status.h"
#include "runtime/program.h"

enum { CV_ARTIFACT_VERSION = 2 };

typedef struct cv_artifact cv_artifact;

/* Maps and checks a file: magic, version (CV_VERSION names both), every offset and count, the
 * program's own consistency (ids in range, steps in SSA order, expressions valid), the manifest's
 * checksum; blob checksums are checked when a slice loads them. CV_CORRUPT / CV_VERSION / CV_IO
 * with the file's name. The program's data pointers lead into the mapping. */
CV_NODISCARD cv_status cv_artifact_open(const char *path, cv_artifact **out_artifact);
/* The same over bytes in memory (borrowed, 64-byte aligned); `name` stands for the path in
 * sentences. */
CV_NODISCARD cv_status cv_artifact_open_memory(const char *name, const void *data, size_t bytes,
                                               cv_artifact **out_artifact);
/* Unmaps; slices must be unloaded before. Accepts NULL. */
void cv_artifact_close(cv_artifact *artifact);
const cv_program *cv_artifact_program(const cv_artifact *artifact);
/* The same to add targets to, before any slice of it is loaded. What is added must live in the
 * program's arena or outlive the artifact. */
cv_program *cv_artifact_program_edit(cv_artifact *artifact);
const char *cv_artifact_path(const cv_artifact *artifact);

/* Checks the bytes of const number `i`, or of target number `t`'s code, against their checksum.
 * CV_CORRUPT. */
CV_NODISCARD cv_status cv_artifact_check_const(const cv_artifact *artifact, uint32_t i);
CV_NODISCARD cv_status cv_artifact_check_code(const cv_artifact *artifact, uint32_t t);
/* A hint that const `i` is read no more for now: its pages of the mapping may go. Any thread. */
void cv_artifact_release_const(const cv_artifact *artifact, uint32_t i);

/* The target of the artifact that this CPU should run: the one that needs most among those whose
 * features the CPU has, or the named one. CV_CPU with a sentence that says what the file holds and
 * what the CPU lacks. */
CV_NODISCARD cv_status cv_artifact_pick_target(const cv_artifact *artifact, const char *name,
                                               uint32_t *out_target);

/* Writes program (with its consts' and targets' data pointers) to path: temp file + rename, so that
 * a reader never sees a half. Sets the program's hash, blob offsets and checksums in what is
 * written. The same program gives the same bytes. */
CV_NODISCARD cv_status cv_artifact_write(const cv_program *program, const char *path);

#endif
