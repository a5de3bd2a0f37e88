/* The attributes that convolutions and pools share: auto_pad, strides, dilations, pads, ceil_mode.
 */
#ifndef CV_COMPILER_ONNX_WINDOW_H
#define CV_COMPILER_ONNX_WINDOW_H

#include "compiler/onnx/node.h"

typedef struct {
  cv_window_attrs attrs;      /* lo and hi complete, the ceil_mode's extra included */
  cv_expr extra[CV_MAX_RANK]; /* the part of hi that only ceil_mode adds */
  bool padded, ceiled;        /* any lo or hi (without extra) not 0; any extra not 0 */
} cv_on_window;

/* Reads them for x[n, c, s...]; `kernel` NULL: from kernel_shape. False if the import failed. */
bool cv_on_read_window(cv_on *n, cv_val x, const int64_t *kernel, cv_on_window *out_window);

#endif
