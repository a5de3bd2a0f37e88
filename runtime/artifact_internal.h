/* The header of a .cuv, shared by reader and writer. docs/artifact.md describes it. */
#ifndef CV_RUNTIME_ARTIFACT_INTERNAL_H
#define CV_RUNTIME_ARTIFACT_INTERNAL_H

#include <stdint.h>

#define CV_ARTIFACT_MAGIC \
  "\x93"                  \
  "CUVIL\r\n"
enum { CV_ARTIFACT_ALIGN = 64 };

/* The first 64 bytes; numbers little end first. The manifest follows, then the blob area. */
typedef struct {
  char magic[8];
  uint32_t version;
  uint32_t reserved;      /* 0 */
  uint64_t manifest;      /* bytes of the manifest, which begins at 64 */
  uint64_t blobs_offset;  /* of the blob area: the manifest's end, rounded up to 64 */
  uint64_t blobs;         /* bytes of the blob area, which ends the file */
  uint64_t manifest_hash; /* XXH3 of the manifest */
  uint64_t reserved2;     /* 0 */
  uint64_t header_hash;   /* XXH3 of the 56 bytes before */
} cv_artifact_header;
_Static_assert(sizeof(cv_artifact_header) == 64, "the header is 64 bytes");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "blobs are used in place");

static inline uint64_t cv_artifact_round(uint64_t bytes) {
  return (bytes + CV_ARTIFACT_ALIGN - 1) & ~(uint64_t)(CV_ARTIFACT_ALIGN - 1);
}

#endif
