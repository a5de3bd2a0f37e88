/* The system's C compiler: generated sources in, a shared object out. Private to the compiler. */
#ifndef CV_COMPILER_TOOLCHAIN_H
#define CV_COMPILER_TOOLCHAIN_H

#include "base/arena.h"
#include "compiler/render.h"

typedef struct {
  const void *code; /* the shared object, in the arena */
  size_t bytes;
  const char *toolchain; /* "gcc (Debian 12.2.0-14) 12.2.0, -O2 ...", in the arena */
} cv_toolchain_result;

/* Compiles the sources (options->jobs at a time) and links them into one shared object without
 * libraries. The compiler is $CC, else gcc, else clang; for another CPU's target its GNU cross
 * compiler. Results are kept under options->cache_dir by the hash of sources, flags and compiler.
 * Temporary files go. Blocks. CV_UNSUPPORTED: there is no compiler; CV_FAILED with the first line
 * of what the compiler says; CV_IO. */
CV_NODISCARD cv_status cv_toolchain_compile(const cv_target *target, const char *const *sources,
                                            uint32_t n, const cv_render_options *options,
                                            cv_arena *arena, cv_toolchain_result *out_result);

#endif
