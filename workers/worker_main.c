/* cuvil-worker: what mpirun starts. Without --control it is the rank's supervisor, with it a
 * worker. */
#include <stdio.h>

#include "base/log.h"
#include "workers/child.h"
#include "workers/supervisor.h"

#ifdef __SANITIZE_ADDRESS__
/* The leak checker's question: PMIx keeps some bytes. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libpmix\n"; }
#endif

int main(int argc, char **argv) {
  static cv_worker_options options; /* its lists stay as long as the process */
  cv_log_init("worker");
  cv_status status = cv_worker_options_parse(argc, argv, &options);
  if (status != CV_OK) {
    fprintf(stderr, "cuvil-worker: %s\n", cv_error_text());
    return cv_status_exit_code(status);
  }
  return options.control ? cv_child_run(&options) : cv_supervisor_run(&options);
}
