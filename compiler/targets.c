/* The CPU targets of the C dialect. */
#include <string.h>

#include "base/str.h"
#include "compiler/render.h"
#include "runtime/cpu_features.h"

#define X86_V3 "sse3,ssse3,cx16,sse4.1,sse4.2,popcnt,movbe,avx,avx2,f16c,fma,bmi1,bmi2,lzcnt"

/* Tiles: rows * vectors + vectors + 1 <= registers; 8 rows at most, since more live rows at strides
 * near 4 KiB fall on the same cache sets. */
static const cv_target x86_64_v4 = {
    .name = "x86-64-v4",
    .arch = "x86-64",
    .features = X86_V3 ",avx512f,avx512bw,avx512cd,avx512dq,avx512vl",
    .march = "-march=x86-64-v4 -mprefer-vector-width=512",
    .vector_bytes = 64,
    .registers = 32,
    .tile_rows = 8,
    .tile_vectors = 3,
};

static const cv_target x86_64_v3 = {
    .name = "x86-64-v3",
    .arch = "x86-64",
    .features = X86_V3,
    .march = "-march=x86-64-v3",
    .vector_bytes = 32,
    .registers = 16,
    .tile_rows = 6,
    .tile_vectors = 2,
};

static const cv_target aarch64 = {
    .name = "aarch64",
    .arch = "aarch64",
    .features = "fp,asimd",
    .march = "-march=armv8-a",
    .vector_bytes = 16,
    .registers = 32,
    .tile_rows = 8,
    .tile_vectors = 3,
};

/* The best of an arch first. */
static const cv_target *const table[] = {&x86_64_v4, &x86_64_v3, &aarch64, NULL};

const cv_target *const *cv_target_table(void) { return table; }

static cv_status unknown(const char *name) {
  cv_str names = {.may_die = true};
  for (size_t i = 0; table[i] != NULL; i++) cv_str_add(&names, ", %s", table[i]->name);
  cv_status status = cv_error(CV_INVALID, "there is no target '%s': choose one of native%s", name,
                              cv_str_text(&names));
  cv_str_deinit(&names);
  return status;
}

cv_status cv_target_find(const char *name, const cv_target **out_target) {
  bool native = strcmp(name, "native") == 0;
  *out_target = NULL;
  for (size_t i = 0; table[i] != NULL; i++) {
    if (native ? cv_cpu_check(table[i]->name, table[i]->arch, table[i]->features) == CV_OK
               : strcmp(table[i]->name, name) == 0) {
      *out_target = table[i];
      return CV_OK;
    }
  }
  if (!native) return unknown(name);
  return cv_error(CV_CPU, "no target fits this CPU (%s): it lacks AVX2, FMA or Advanced SIMD",
                  cv_cpu_arch());
}
