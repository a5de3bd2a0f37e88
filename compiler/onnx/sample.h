/* What the request at hand makes of a graph's values, where the graph's structure hangs on them:
 * see cv_import_options.value_of. */
#ifndef CV_COMPILER_ONNX_SAMPLE_H
#define CV_COMPILER_ONNX_SAMPLE_H

#include "compiler/onnx/node.h"

/* The value as a constant of the graph: CV_ABSENT if it is not known (it hangs on an input that the
 * caller does not know, on control flow or on many elements), CV_POISON and the graph's error where
 * the caller failed or the input does not fit. */
cv_val cv_sample_const(cv_on *n, cv_val v);

#endif
