#include "runtime/half.h"

#include <math.h>
#include <string.h>

static uint32_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float bits_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

float cv_bf16_to_f32(uint16_t bits) { return bits_float((uint32_t)bits << 16); }

float cv_f16_to_f32(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent == 31) {
    /* NaN is made quiet. */
    uint32_t quiet = fraction != 0 ? 0x400000 : 0;
    return bits_float(sign | 0x7f800000 | quiet | fraction << 13);
  }
  if (exponent != 0) return bits_float(sign | (exponent + 112) << 23 | fraction << 13);
  float small = (float)fraction * 0x1p-24f;
  return sign != 0 ? -small : small;
}

/* value as a float of `fraction` explicit bits and `bias`, in the low bits of the result. The sum
 * of a rounded significand that overflows into the exponent is right as it stands. */
static uint16_t narrow(double value, int fraction, int bias) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  int exponent_bits = 15 - fraction;
  uint16_t sign = (uint16_t)(bits >> 63 << 15);
  uint16_t infinite = (uint16_t)(((1 << exponent_bits) - 1) << fraction);
  int exponent = (int)(bits >> 52 & 2047) - 1023;
  uint64_t significand = (bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)1 << 52;
  if (exponent == 1024) {
    bool nan = (bits << 12) != 0;
    uint16_t payload = (uint16_t)(bits >> (52 - fraction) & ((1U << fraction) - 1));
    uint16_t quiet = (uint16_t)(1 << (fraction - 1));
    return (uint16_t)(sign | infinite | (nan ? payload | quiet : 0));
  }
  if (exponent > bias) return sign | infinite;
  int drop = 52 - fraction;
  int biased = exponent + bias;
  if (biased < 1) {
    drop += 1 - biased;
    biased = 0;
  } else {
    biased -= 1; /* the leading one of the significand adds it again */
  }
  if (drop > 60) return sign;
  uint64_t kept = significand >> drop, rest = significand & (((uint64_t)1 << drop) - 1);
  uint64_t half = (uint64_t)1 << (drop - 1);
  if (rest > half || (rest == half && (kept & 1) != 0)) kept++;
  return (uint16_t)(sign | (((uint64_t)biased << fraction) + kept));
}

uint16_t cv_f64_to_f16(double value) { return narrow(value, 10, 15); }
uint16_t cv_f64_to_bf16(double value) { return narrow(value, 7, 127); }
uint16_t cv_f32_to_f16(float value) { return narrow((double)value, 10, 15); }

uint16_t cv_f32_to_bf16(float value) {
  uint32_t bits = float_bits(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* ---- elements ---- */

/* Reads the element into a variable of its C type and evaluates `expression` of it. */
#define READ(type, expression)     \
  {                                \
    type x;                        \
    memcpy(&x, element, sizeof x); \
    return expression;             \
  }

double cv_element_to_double(cv_dtype dtype, const void *element) {
  switch (dtype) {
    case CV_F32: READ(float, (double)x)
    case CV_F64: READ(double, x)
    case CV_F16: READ(uint16_t, (double)cv_f16_to_f32(x))
    case CV_BF16: READ(uint16_t, (double)cv_bf16_to_f32(x))
    case CV_U64: READ(uint64_t, (double)x)
    default: return (double)cv_element_to_int(dtype, element);
  }
}

static int64_t saturate(double value, double lo, double hi, int64_t lo_int, int64_t hi_int) {
  if (isnan(value)) return 0;
  if (value <= lo) return lo_int;
  if (value >= hi) return hi_int;
  return (int64_t)value;
}

int64_t cv_element_to_int(cv_dtype dtype, const void *element) {
  switch (dtype) {
    case CV_I8: READ(int8_t, x)
    case CV_I16: READ(int16_t, x)
    case CV_I32: READ(int32_t, x)
    case CV_I64: READ(int64_t, x)
    case CV_U8: READ(uint8_t, x)
    case CV_U16: READ(uint16_t, x)
    case CV_U32: READ(uint32_t, x)
    case CV_U64: READ(uint64_t, (int64_t)x)
    case CV_BOOL: READ(uint8_t, x != 0)
    default:
      return saturate(cv_element_to_double(dtype, element), -0x1p63, 0x1p63, INT64_MIN, INT64_MAX);
  }
}

static uint64_t saturate_u64(double value) {
  if (!(value > 0)) return 0;
  return value >= 0x1p64 ? UINT64_MAX : (uint64_t)value;
}

void cv_element_from_double(cv_dtype dtype, double value, void *out_element) {
  int bits = 8 * (int)cv_dtype_size(dtype);
  float f = (float)value;
  uint64_t wide = 0;
  uint16_t half = dtype == CV_F16 ? cv_f64_to_f16(value) : cv_f64_to_bf16(value);
  uint8_t truth = value != 0;
  int64_t hi = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
  switch (dtype) {
    case CV_F32: memcpy(out_element, &f, sizeof f); return;
    case CV_F64: memcpy(out_element, &value, sizeof value); return;
    case CV_F16:
    case CV_BF16: memcpy(out_element, &half, sizeof half); return;
    case CV_BOOL: memcpy(out_element, &truth, sizeof truth); return;
    case CV_U64:
      wide = saturate_u64(value);
      memcpy(out_element, &wide, sizeof wide);
      return;
    case CV_U8:
    case CV_U16:
    case CV_U32: hi = ((int64_t)1 << bits) - 1; break;
    default: break;
  }
  bool is_unsigned = cv_dtype_kind(dtype) == 'u';
  int64_t lo = is_unsigned ? 0 : -hi - 1;
  cv_element_from_int(dtype, saturate(value, (double)lo, (double)hi, lo, hi), out_element);
}

void cv_element_from_int(cv_dtype dtype, int64_t value, void *out_element) {
  uint64_t wide = (uint64_t)value;
  uint8_t truth = value != 0;
  switch (dtype) {
    case CV_F32:
    case CV_F16:
    case CV_BF16: {
      /* An int64 has more digits than a double: round once. */
      float f = (float)value;
      uint16_t half = dtype == CV_F16 ? cv_f32_to_f16(f) : cv_f32_to_bf16(f);
      if (dtype == CV_F32) {
        memcpy(out_element, &f, sizeof f);
      } else {
        memcpy(out_element, &half, sizeof half);
      }
      return;
    }
    case CV_F64: {
      double d = (double)value;
      memcpy(out_element, &d, sizeof d);
      return;
    }
    case CV_BOOL: memcpy(out_element, &truth, sizeof truth); return;
    default: memcpy(out_element, &wide, cv_dtype_size(dtype)); return; /* little endian */
  }
}
