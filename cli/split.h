/* Running splits in one process: --cuts, --cut-sets, --micro-batch, --threads. */
#ifndef CV_CLI_SPLIT_H
#define CV_CLI_SPLIT_H

#include "base/options.h"
#include "runtime/artifact.h"
#include "runtime/request_set.h"

typedef struct {
  const char *cuts;     /* "3,7" */
  const char *cut_sets; /* a file of lines CUTS [MICRO-BATCH [THREADS]] */
  int64_t micro_batch, threads;
} cv_split_options;

#define CV_SPLIT_OPTIONS(o)                                                                        \
  {                                                                                                \
      "--cuts", CV_OPTION_TEXT, &(o).cuts, "A,B,...", "cut before steps A, B, ...: a pipeline", 0, \
      0},                                                                                          \
      {"--cut-sets",                                                                               \
       CV_OPTION_TEXT,                                                                             \
       &(o).cut_sets,                                                                              \
       "FILE",                                                                                     \
       "runs each line CUTS [M [T]] of a file, outputs in DIR/set_K",                              \
       0,                                                                                          \
       0},                                                                                         \
      {"--micro-batch",                                                                            \
       CV_OPTION_INT,                                                                              \
       &(o).micro_batch,                                                                           \
       "M",                                                                                        \
       "items a micro-batch (default: a whole request)",                                           \
       1,                                                                                          \
       1 << 20},                                                                                   \
  {                                                                                                \
    "--threads", CV_OPTION_INT, &(o).threads, "T", "compute threads of a stage (default 1)", 1,    \
        1024                                                                                       \
  }

/* True if the options ask for more than a plain run. */
bool cv_split_wanted(const cv_split_options *options);
/* Runs the requests through the split, or through each of the file's, and writes the answers to
 * `output_dir` (NULL: prints them). CV_INVALID names a cut that is not legal. */
CV_NODISCARD cv_status cv_split_run(cv_artifact *artifact, const cv_requests *requests,
                                    const cv_split_options *options, const char *output_dir);

#endif
