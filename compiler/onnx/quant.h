/* What the quantised ops share. */
#ifndef CV_COMPILER_ONNX_QUANT_H
#define CV_COMPILER_ONNX_QUANT_H

#include "compiler/graph.h"

/* Integer matrix product of (a - za) and (b - zb) in i32; zero points may be CV_ABSENT, a of one
 * per row, b of one per column. */
cv_val cv_matmul_zero(cv_graph *g, cv_val a, cv_val za, cv_val b, cv_val zb);
/* round(x) + zero, ties to even, saturated to the integer dtype `to`; zero may be CV_ABSENT. */
cv_val cv_saturate(cv_graph *g, cv_val x, cv_val zero, cv_dtype to);

#endif
