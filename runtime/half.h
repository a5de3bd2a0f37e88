/* f16 and bf16, bit exact with round to nearest even; single elements of any dtype. Any thread. */
#ifndef CV_RUNTIME_HALF_H
#define CV_RUNTIME_HALF_H

#include <stdint.h>

#include "runtime/dtype.h"

/* NaN stays NaN (quiet); too large becomes infinity; subnormals are exact. */
float cv_f16_to_f32(uint16_t bits);
float cv_bf16_to_f32(uint16_t bits);
uint16_t cv_f32_to_f16(float value);
uint16_t cv_f32_to_bf16(float value);
/* One rounding, also from double. */
uint16_t cv_f64_to_f16(double value);
uint16_t cv_f64_to_bf16(double value);

/* One element of `dtype` at any address. Integers of 64 bits lose digits as double; a float as
 * int64 is truncated, saturates, and NaN gives 0; u64 beyond int64 wraps. */
double cv_element_to_double(cv_dtype dtype, const void *element);
int64_t cv_element_to_int(cv_dtype dtype, const void *element);
/* Rounds to the dtype; to an integer truncates, saturates at the dtype's ends, and NaN gives 0; to
 * bool: non-zero. */
void cv_element_from_double(cv_dtype dtype, double value, void *out_element);
/* Integers wrap (two's complement); bool: non-zero. */
void cv_element_from_int(cv_dtype dtype, int64_t value, void *out_element);

#endif
