/* Activations by ONNX's names, shared by their own ops and the recurrent ones. */
#ifndef CV_COMPILER_ONNX_ACTIVATION_H
#define CV_COMPILER_ONNX_ACTIVATION_H

#include "compiler/graph.h"

/* NaN for alpha or beta: the activation's default. Names as in ONNX's RNN ops, case as there. */
cv_val cv_activation(cv_graph *g, const char *name, cv_val x, double alpha, double beta);
cv_val cv_gelu(cv_graph *g, cv_val x, bool by_tanh);

#endif
