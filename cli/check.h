/* Every step's kernel against the interpreter, the oracle. */
#ifndef CV_CLI_CHECK_H
#define CV_CLI_CHECK_H

#include "runtime/artifact.h"
#include "runtime/tensor.h"

/* Runs the program step by step on one request; each kernel's outputs are compared with those of
 * the interpreter on the step's body and the same inputs. Prints the steps that differ by more than
 * `tolerance` times the largest element, then a summary. CV_FAILED if any did. Slow: for finding
 * faults. */
CV_NODISCARD cv_status cv_check_steps(cv_artifact *artifact, const cv_tensor *inputs,
                                      double tolerance);

#endif
