/* cuvil-worker: what mpirun starts. Without --control it is the rank's supervisor, with it a
 * worker. */
#include <stdio.h>

#include "base/log.h"
#include "workers/child.h"
#include "workers/supervisor.h"

int main(int argc, char **argv) {
  cv_worker_options options;
  cv_log_init("worker");
  cv_status status = cv_worker_options_parse(argc, argv, &options);
  if (status != CV_OK) {
    fprintf(stderr, "cuvil-worker: %s\n", cv_error_text());
    return cv_status_exit_code(status);
  }
  return options.control ? cv_child_run(&options) : cv_supervisor_run(&options);
}
