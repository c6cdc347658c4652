/* What the C of this package shares. */

#include <stdint.h>
#include <string.h>

#define SIDE_BY_SIDE _Pragma("omp simd") /* a loop whose turns do not need each other */
typedef const float *restrict in;
typedef float *restrict out;

#define LOG2_E 1.44269504f

/* 2^x, as loops can do it side by side: the fraction by a polynomial, the rest by the exponent's bits.
   0 below -127, infinite above 128; NaN stays. */
static inline float power_of_two(float x) {
    x = x < -127.0f ? -127.0f : x;
    x = x > 128.0f ? 128.0f : x;
    float whole = __builtin_rintf(x), f = x - whole;
    union { int32_t bits; float value; } scale = {((int32_t)whole + 127) << 23};
    float p = 1.5461444e-4f; /* interpolates 2^f at the Chebyshev nodes of [-1/2, 1/2]: 2e-8 relative */
    p = p * f + 1.3400428e-3f;
    p = p * f + 9.618057e-3f;
    p = p * f + 5.5503272e-2f;
    p = p * f + 2.4022651e-1f;
    p = p * f + 6.9314718e-1f;
    p = p * f + 1.0f;
    return p * scale.value;
}
