/* From a model file to an artifact on disk, for `build` and for commands that are given an .onnx.
 */
#ifndef CV_CLI_COMPILE_H
#define CV_CLI_COMPILE_H

#include "base/options.h"
#include "compiler/onnx/onnx.h"
#include "compiler/passes.h"
#include "runtime/artifact.h"
#include "runtime/request_set.h"

/* What the user may say about compiling; the option rows below fill it. */
typedef struct {
  int64_t batch, jobs, max_fusion;
  cv_texts dims, binds, states, targets;
  bool exact, fast_math, no_cache;
  const char *dump_after, *keep;
} cv_compile_options;

/* The rows of the table, for a command's own: CV_COMPILE_OPTIONS(options) with a
 * `cv_compile_options options`. */
#define CV_COMPILE_OPTIONS(o)                                                                   \
  {"--batch", CV_OPTION_INT, &(o).batch, "N", "fix the batch dimension", 1, 1 << 20},           \
      {"--dim", CV_OPTION_LIST, &(o).dims, "NAME=N", "fix a symbolic dimension", 0, 0},         \
      {"--bind",                                                                                \
       CV_OPTION_LIST,                                                                          \
       &(o).binds,                                                                              \
       "INPUT=VALUE",                                                                           \
       "make an input a constant (number, list, .npy, .pb)",                                    \
       0,                                                                                       \
       0},                                                                                      \
      {"--state",                                                                               \
       CV_OPTION_LIST,                                                                          \
       &(o).states,                                                                             \
       "IN=OUT",                                                                                \
       "carry an output into an input of the next request",                                     \
       0,                                                                                       \
       0},                                                                                      \
      {"--target",                                                                              \
       CV_OPTION_LIST,                                                                          \
       &(o).targets,                                                                            \
       "NAME",                                                                                  \
       "target to compile for (native, x86-64-v3, ...)",                                        \
       0,                                                                                       \
       0},                                                                                      \
      {"--exact", CV_OPTION_FLAG, &(o).exact, NULL, "only rewrites that keep every bit", 0, 0}, \
      {"--fast-math",                                                                           \
       CV_OPTION_FLAG,                                                                          \
       &(o).fast_math,                                                                          \
       NULL,                                                                                    \
       "also rewrites that may lose accuracy",                                                  \
       0,                                                                                       \
       0},                                                                                      \
      {"--max-fusion-group-size",                                                               \
       CV_OPTION_INT,                                                                           \
       &(o).max_fusion,                                                                         \
       "N",                                                                                     \
       "most core ops of one step",                                                             \
       1,                                                                                       \
       4096},                                                                                   \
      {"--dump-after",                                                                          \
       CV_OPTION_TEXT,                                                                          \
       &(o).dump_after,                                                                         \
       "PASS",                                                                                  \
       "print the graph after a pass ('all': each)",                                            \
       0,                                                                                       \
       0},                                                                                      \
      {"--keep-c", CV_OPTION_TEXT, &(o).keep, "DIR", "keep the generated C there", 0, 0},       \
      {"--jobs", CV_OPTION_INT, &(o).jobs, "N", "compilers at a time (default 2)", 1, 256}, {   \
    "--no-cache", CV_OPTION_FLAG, &(o).no_cache, NULL, "neither read nor write the cache", 0, 0 \
  }

/* Compiles a model to `artifact_path`, with a progress bar on a terminal. */
CV_NODISCARD cv_status cv_compile_model(const char *model_path, const cv_compile_options *options,
                                        const char *artifact_path);
/* Adds (or renews) targets in an artifact. */
CV_NODISCARD cv_status cv_compile_add_targets(const char *artifact_path, const cv_texts *targets,
                                              const cv_compile_options *options,
                                              const char *out_path);
/* Opens a .cuv as it is, or the cached compilation of an .onnx (made when there is none). `request`
 * (or NULL): what the artifact is opened for. Where the structure of the graph hangs on an input,
 * it is compiled for the request's value, and not kept in the cache. */
CV_NODISCARD cv_status cv_compile_open(const char *path, const cv_compile_options *options,
                                       const cv_request_options *request,
                                       cv_artifact **out_artifact);
/* The cache folder with this subfolder, made when missing; NULL when there can be none. In fresh
 * memory. */
char *cv_cache_folder(const char *subfolder);

#endif
