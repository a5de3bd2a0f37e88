/* The counter-based generator of the op `random`: Philox 4x32 with 10 rounds (Salmon et al., SC
 * 2011). Element i of a tensor depends only on (seed, request, i). Self-contained: kernels hold the
 * same text. */
#ifndef CV_RUNTIME_RANDOM_H
#define CV_RUNTIME_RANDOM_H

#include <stdint.h>

/* Four words for one counter. */
static inline void cv_philox(uint64_t seed, uint64_t request, uint64_t counter,
                             uint32_t out_words[4]) {
  uint32_t x0 = (uint32_t)counter, x1 = (uint32_t)(counter >> 32);
  uint32_t x2 = (uint32_t)request, x3 = (uint32_t)(request >> 32);
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)x0 * 0xD2511F53U, p1 = (uint64_t)x2 * 0xCD9E8D57U;
    uint32_t y0 = (uint32_t)(p1 >> 32) ^ x1 ^ k0, y2 = (uint32_t)(p0 >> 32) ^ x3 ^ k1;
    x1 = (uint32_t)p1;
    x3 = (uint32_t)p0;
    x0 = y0;
    x2 = y2;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  out_words[0] = x0;
  out_words[1] = x1;
  out_words[2] = x2;
  out_words[3] = x3;
}

/* The words of element i: counter i, words 0 and 1. In [0, 1), 24 bits. */
static inline float cv_random_uniform(const uint32_t words[4]) {
  return (float)(words[0] >> 8) * 0x1p-24f;
}
/* The two uniforms of the Box-Muller transform: u in (0, 1], v in [0, 1); the normal is
 * sqrt(-2 log u) cos(2 pi v). */
static inline void cv_random_pair(const uint32_t words[4], float *out_u, float *out_v) {
  *out_u = (float)((words[0] >> 8) + 1) * 0x1p-24f;
  *out_v = (float)(words[1] >> 8) * 0x1p-24f;
}

#endif
