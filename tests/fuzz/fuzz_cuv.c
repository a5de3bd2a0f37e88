/* The reader of artifacts takes any bytes. The input is a file; so that the fuzzer gets behind the
 * checksums, those of header and manifest are made good first (the first byte of the input says
 * whether). What is accepted is walked as its users do. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "runtime/artifact.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Offsets in the header: docs/artifact.md. */
enum {
  HEADER = 64,
  MANIFEST = 16,
  BLOBS_AT = 24,
  BLOBS = 32,
  MANIFEST_HASH = 40,
  HEADER_HASH = 56
};

static void put(unsigned char *at, uint64_t value) { memcpy(at, &value, sizeof value); }

static void seal(unsigned char *file, size_t bytes) {
  uint64_t manifest;
  if (bytes < HEADER) return;
  memcpy(&manifest, file + MANIFEST, sizeof manifest);
  if (manifest > bytes - HEADER) manifest = bytes - HEADER;
  uint64_t blobs_at = (HEADER + manifest + 63) & ~(uint64_t)63;
  put(file + MANIFEST, manifest);
  put(file + BLOBS_AT, blobs_at);
  put(file + BLOBS, blobs_at <= bytes ? bytes - blobs_at : 0);
  put(file + MANIFEST_HASH, XXH3_64bits(file + HEADER, manifest));
  put(file + HEADER_HASH, XXH3_64bits(file, HEADER_HASH));
}

static void walk(const cv_artifact *artifact) {
  const cv_program *program = cv_artifact_program(artifact);
  size_t n = program->n_values + 1u;
  uint32_t *ins = cv_alloc(n, sizeof *ins), *outs = cv_alloc(n, sizeof *outs), n_ins, n_outs;
  int64_t *symbols = cv_alloc(cv_exprs_symbols(program->exprs) + 1u, sizeof *symbols), value;
  if (!ins || !outs || !symbols) abort();
  for (uint32_t s = 0; s <= program->n_steps; s++) {
    (void)cv_program_live(program, s, ins);
    (void)cv_program_cut_legal(program, s);
    if (s < program->n_steps) cv_program_slice_ports(program, s / 2, s, ins, &n_ins, outs, &n_outs);
  }
  for (uint32_t v = 0; v < program->n_values; v++)
    for (int d = 0; d < program->values[v].rank; d++)
      (void)!cv_expr_eval(program->exprs, program->values[v].dims[d], symbols, &value);
  for (uint32_t i = 0; i < program->n_checks; i++) {
    (void)!cv_expr_eval(program->exprs, program->checks[i].a, symbols, &value);
    (void)!cv_expr_eval(program->exprs, program->checks[i].b, symbols, &value);
  }
  for (uint32_t i = 0; i < program->n_consts; i++) (void)!cv_artifact_check_const(artifact, i);
  for (uint32_t t = 0; t < program->n_targets; t++) (void)!cv_artifact_check_code(artifact, t);
  uint32_t target;
  (void)!cv_artifact_pick_target(artifact, NULL, &target);
  cv_free(ins);
  cv_free(outs);
  cv_free(symbols);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  unsigned char *file = cv_alloc_aligned(64, size);
  cv_artifact *artifact;
  if (!file) return 0;
  memcpy(file, data + 1, size - 1);
  if (data[0] & 1) seal(file, size - 1);
  if (cv_artifact_open_memory("fuzz", file, size - 1, &artifact) == CV_OK) {
    walk(artifact);
    cv_artifact_close(artifact);
  } else if (!*cv_error_text()) {
    abort(); /* a refusal has a sentence */
  }
  cv_free(file);
  return 0;
}
