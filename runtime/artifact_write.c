#include "runtime/artifact.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/str.h"
#include "runtime/artifact_internal.h"
#include "runtime/manifest_internal.h"

/* Blobs in file order. Equal bytes are written once. */
typedef struct {
  cv_map by_hash; /* hash and size -> index of the first such const + 1 */
  cv_blob *consts, *code;
  uint64_t end;
} layout;

static void place(layout *l, cv_blob *blob) {
  blob->offset = l->end;
  l->end += cv_artifact_round(blob->bytes);
}

/* Finds an earlier const with the same bytes and shares its place, else makes a place. */
static cv_status place_const(layout *l, const cv_program *program, uint32_t i) {
  cv_blob *blob = &l->consts[i];
  const void *data = program->consts[i].data;
  uint64_t key[2] = {blob->hash, blob->bytes}, found;
  if (cv_map_get(&l->by_hash, key, sizeof key, &found) &&
      memcmp(program->consts[found].data, data, blob->bytes) == 0) {
    blob->offset = l->consts[found].offset;
    return CV_OK;
  }
  place(l, blob);
  return cv_map_put(&l->by_hash, key, sizeof key, i) ? CV_OK : cv_error_nomem(sizeof key);
}

static cv_status plan_blobs(const cv_program *program, layout *l) {
  l->consts = cv_alloc(program->n_consts + 1u, sizeof *l->consts);
  l->code = cv_alloc(program->n_targets + 1u, sizeof *l->code);
  if (!l->consts || !l->code) return cv_error_nomem(program->n_consts * sizeof *l->consts);
  for (uint32_t i = 0; i < program->n_consts; i++) {
    const cv_const *constant = &program->consts[i];
    if (!constant->data && constant->bytes)
      return cv_error(CV_INVALID, "constant %" PRIu32 " has no data to write", i);
    l->consts[i].bytes = constant->bytes;
    l->consts[i].hash = XXH3_64bits(constant->data, constant->bytes);
    if (!constant->bytes) continue;
    cv_status status = place_const(l, program, i);
    if (status != CV_OK) return status;
  }
  for (uint32_t t = 0; t < program->n_targets; t++) {
    const cv_target_code *target = &program->targets[t];
    if (!target->code && target->code_bytes)
      return cv_error(CV_INVALID, "target %s has no code to write", target->name);
    l->code[t].bytes = target->code_bytes;
    l->code[t].hash = XXH3_64bits(target->code, target->code_bytes);
    place(l, &l->code[t]);
  }
  return CV_OK;
}

static cv_status write_all(int fd, const void *data, uint64_t bytes) {
  const char *at = data;
  while (bytes) {
    size_t piece = bytes > 1u << 30 ? 1u << 30 : (size_t)bytes;
    ssize_t done = cv_fault() ? (errno = ENOSPC, -1) : write(fd, at, piece);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return cv_error(CV_IO, "cannot write: %s", strerror(errno));
    at += done;
    bytes -= (uint64_t)done;
  }
  return CV_OK;
}

/* The bytes, then zeros up to the next blob. */
static cv_status write_padded(int fd, const void *data, uint64_t bytes) {
  static const char zeros[CV_ARTIFACT_ALIGN];
  cv_status status = write_all(fd, data, bytes);
  return status != CV_OK ? status : write_all(fd, zeros, cv_artifact_round(bytes) - bytes);
}

static cv_status write_parts(const cv_program *program, const layout *l, const cv_str *manifest,
                             int fd) {
  cv_artifact_header header = {.version = CV_ARTIFACT_VERSION,
                               .manifest = manifest->len,
                               .blobs_offset = cv_artifact_round(sizeof header + manifest->len),
                               .blobs = l->end,
                               .manifest_hash = XXH3_64bits(manifest->data, manifest->len)};
  memcpy(header.magic, CV_ARTIFACT_MAGIC, sizeof header.magic);
  header.header_hash = XXH3_64bits(&header, offsetof(cv_artifact_header, header_hash));
  cv_status status = write_all(fd, &header, sizeof header);
  if (status == CV_OK) status = write_padded(fd, manifest->data, manifest->len);
  uint64_t end = 0;
  for (uint32_t i = 0; i < program->n_consts && status == CV_OK; i++) {
    if (l->consts[i].offset < end || !l->consts[i].bytes) continue; /* shared: written already */
    status = write_padded(fd, program->consts[i].data, l->consts[i].bytes);
    end = l->consts[i].offset + cv_artifact_round(l->consts[i].bytes);
  }
  for (uint32_t t = 0; t < program->n_targets && status == CV_OK; t++)
    status = write_padded(fd, program->targets[t].code, l->code[t].bytes);
  if (status == CV_OK && (cv_fault() ? (errno = EIO, -1) : fsync(fd)) < 0)
    status = cv_error(CV_IO, "cannot write: %s", strerror(errno));
  return status;
}

static cv_status write_file(const cv_program *program, const layout *l, const cv_str *manifest,
                            const char *path) {
  cv_status status = CV_OK;
  int fd = -1;
  char *temporary = cv_format("%s.%ld.tmp", path, (long)getpid());
  if (!temporary) return cv_error_nomem(strlen(path));
  fd = cv_fault() ? (errno = EACCES, -1)
                  : open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) CV_TRY(cv_error(CV_IO, "cannot create it: %s", strerror(errno)));
  CV_TRY(write_parts(program, l, manifest, fd));
  if ((cv_fault() ? (errno = EACCES, -1) : rename(temporary, path)) < 0)
    CV_TRY(cv_error(CV_IO, "cannot put it in place: %s", strerror(errno)));
out:
  if (fd >= 0) close(fd);
  if (fd >= 0 && status != CV_OK) unlink(temporary);
  cv_free(temporary);
  return status;
}

cv_status cv_artifact_write(const cv_program *program, const char *path) {
  cv_status status = CV_OK;
  layout l = {0};
  cv_str manifest = {0};
  char hash[33];
  CV_TRY(cv_program_verify(program));
  CV_TRY(plan_blobs(program, &l));
  CV_TRY(cv_manifest_write(program, l.consts, l.code, &manifest, hash));
  CV_TRY(write_file(program, &l, &manifest, path));
out:
  cv_map_deinit(&l.by_hash);
  cv_free(l.consts);
  cv_free(l.code);
  cv_str_deinit(&manifest);
  return cv_error_context(status, "%s", path);
}
