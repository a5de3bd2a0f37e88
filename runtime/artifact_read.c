#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "runtime/artifact.h"
#include "runtime/artifact_internal.h"
#include "runtime/manifest_internal.h"

struct cv_artifact {
  char *path;
  const unsigned char *data;
  uint64_t bytes;
  bool mapped; /* `data` is a mapping of ours */
  cv_program *program;
};

static cv_status check_header(const unsigned char *data, uint64_t bytes,
                              cv_artifact_header *header) {
  if (bytes < sizeof *header || memcmp(data, CV_ARTIFACT_MAGIC, sizeof header->magic) != 0)
    return cv_error(CV_CORRUPT, "this is no .cuv artifact (or less than its first 64 bytes)");
  memcpy(header, data, sizeof *header);
  if (header->version != CV_ARTIFACT_VERSION)
    return cv_error(CV_VERSION,
                    "the file has format version %" PRIu32
                    ", this program reads version %d: build the artifact again, or use the other "
                    "program",
                    header->version, CV_ARTIFACT_VERSION);
  if (header->header_hash != XXH3_64bits(data, offsetof(cv_artifact_header, header_hash)) ||
      header->reserved || header->reserved2)
    return cv_error(CV_CORRUPT, "the header is damaged: build or copy the artifact again");
  uint64_t room = bytes - sizeof *header;
  if (header->manifest > room ||
      header->blobs_offset != cv_artifact_round(sizeof *header + header->manifest) ||
      header->blobs_offset > bytes || header->blobs != bytes - header->blobs_offset)
    return cv_error(CV_CORRUPT,
                    "the file has %" PRIu64 " bytes where its header says %" PRIu64
                    ": it is truncated or damaged, copy it again",
                    bytes, header->blobs_offset + header->blobs);
  if (header->manifest_hash != XXH3_64bits(data + sizeof *header, header->manifest))
    return cv_error(CV_CORRUPT, "the manifest is damaged: build or copy the artifact again");
  return CV_OK;
}

/* True if the blob lies in the blob area. */
static bool inside(uint64_t offset, uint64_t bytes, uint64_t area) {
  return offset % CV_ARTIFACT_ALIGN == 0 && offset <= area && bytes <= area - offset;
}

/* Sets the data pointers of consts and code; of the bodies of loops too (their consts are the same
 * array). */
static cv_status place_blobs(cv_program *program, const unsigned char *blobs, uint64_t area) {
  for (uint32_t i = 0; i < program->n_consts; i++) {
    cv_const *constant = &program->consts[i];
    if (!inside(constant->offset, constant->bytes, area))
      return cv_error(CV_CORRUPT, "constant %" PRIu32 " lies outside of the file", i);
    constant->data = blobs + constant->offset;
  }
  for (uint32_t t = 0; t < program->n_targets; t++) {
    cv_target_code *target = &program->targets[t];
    if (!inside(target->code_offset, target->code_bytes, area))
      return cv_error(CV_CORRUPT, "the code of target %s lies outside of the file", target->name);
    target->code = blobs + target->code_offset;
  }
  return CV_OK;
}

static cv_status read_program(cv_artifact *artifact) {
  cv_artifact_header header;
  cv_status status = check_header(artifact->data, artifact->bytes, &header);
  if (status == CV_OK)
    status = cv_manifest_read(artifact->data + sizeof header, header.manifest, &artifact->program);
  if (status == CV_OK)
    status = place_blobs(artifact->program, artifact->data + header.blobs_offset, header.blobs);
  return status == CV_OK ? cv_program_verify(artifact->program) : status;
}

static cv_status map_file(cv_artifact *artifact) {
  cv_status status = CV_OK;
  struct stat about;
  int fd = cv_fault() ? (errno = EACCES, -1) : open(artifact->path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return cv_error(CV_IO, "cannot open it: %s", strerror(errno));
  if ((cv_fault() ? (errno = EIO, -1) : fstat(fd, &about)) < 0)
    CV_TRY(cv_error(CV_IO, "cannot look at it: %s", strerror(errno)));
  if (!S_ISREG(about.st_mode)) CV_TRY(cv_error(CV_IO, "this is no file"));
  if (about.st_size <= 0) CV_TRY(cv_error(CV_CORRUPT, "the file is empty"));
  void *data = cv_fault() ? (errno = ENOMEM, MAP_FAILED)
                          : mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) CV_TRY(cv_error(CV_IO, "cannot map it: %s", strerror(errno)));
  artifact->data = data;
  artifact->bytes = (uint64_t)about.st_size;
  artifact->mapped = true;
out:
  close(fd);
  return status;
}

static cv_status create(const char *name, cv_artifact **out_artifact) {
  *out_artifact = NULL;
  cv_artifact *artifact = cv_alloc(1, sizeof *artifact);
  if (!artifact) return cv_error_nomem(sizeof *artifact);
  artifact->path = cv_strdup(name);
  if (!artifact->path) {
    cv_free(artifact);
    return cv_error_nomem(strlen(name));
  }
  *out_artifact = artifact;
  return CV_OK;
}

cv_status cv_artifact_open(const char *path, cv_artifact **out_artifact) {
  cv_artifact *artifact;
  cv_status status = create(path, &artifact);
  *out_artifact = NULL;
  if (status != CV_OK) return status;
  status = map_file(artifact);
  if (status == CV_OK) status = read_program(artifact);
  if (status == CV_OK)
    *out_artifact = artifact;
  else
    cv_artifact_close(artifact);
  return cv_error_context(status, "%s", path);
}

cv_status cv_artifact_open_memory(const char *name, const void *data, size_t bytes,
                                  cv_artifact **out_artifact) {
  cv_artifact *artifact;
  cv_status status = create(name, &artifact);
  *out_artifact = NULL;
  if (status != CV_OK) return status;
  artifact->data = data;
  artifact->bytes = bytes;
  status = read_program(artifact);
  if (status == CV_OK)
    *out_artifact = artifact;
  else
    cv_artifact_close(artifact);
  return cv_error_context(status, "%s", name);
}

void cv_artifact_close(cv_artifact *artifact) {
  if (!artifact) return;
  cv_program_destroy(artifact->program);
  if (artifact->mapped) munmap((void *)(uintptr_t)artifact->data, artifact->bytes);
  cv_free(artifact->path);
  cv_free(artifact);
}

const cv_program *cv_artifact_program(const cv_artifact *artifact) { return artifact->program; }

cv_program *cv_artifact_program_edit(cv_artifact *artifact) { return artifact->program; }

const char *cv_artifact_path(const cv_artifact *artifact) { return artifact->path; }

cv_status cv_artifact_check_const(const cv_artifact *artifact, uint32_t i) {
  const cv_const *constant = &artifact->program->consts[i];
  if (XXH3_64bits(constant->data, constant->bytes) == constant->hash) return CV_OK;
  return cv_error(CV_CORRUPT,
                  "%s: the bytes of constant %" PRIu32
                  " do not have their checksum: build or copy the artifact again",
                  artifact->path, i);
}

cv_status cv_artifact_check_code(const cv_artifact *artifact, uint32_t t) {
  const cv_target_code *target = &artifact->program->targets[t];
  if (XXH3_64bits(target->code, target->code_bytes) == target->code_hash) return CV_OK;
  return cv_error(CV_CORRUPT,
                  "%s: the code of target %s does not have its checksum: build or copy the "
                  "artifact again",
                  artifact->path, target->name);
}

void cv_artifact_release_const(const cv_artifact *artifact, uint32_t i) {
  if (!artifact->mapped) return;
  const cv_const *constant = &artifact->program->consts[i];
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t begin = ((uintptr_t)constant->data + page - 1) & ~(page - 1);
  uintptr_t end = ((uintptr_t)constant->data + constant->bytes) & ~(page - 1);
  if (begin < end) (void)madvise((void *)begin, end - begin, MADV_DONTNEED); /* only a hint */
}
