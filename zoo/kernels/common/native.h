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

static inline void exponentials(long n, in x, out y) {
    SIDE_BY_SIDE
    for (long i = 0; i < n; i++) y[i] = power_of_two(x[i] * LOG2_E);
}

/* Where the scalars of tensor `which` for row b, head h and step t begin; strides: three a tensor. */
static inline long place(const long *strides, long which, long b, long h, long t) {
    const long *s = strides + 3 * which;
    return b * s[0] + h * s[1] + t * s[2];
}

/* The states after each of `steps` tokens from `first` on: row n of a state is decay_n times itself before, plus
   key_n times the values.  Tensors 1, 2 and 3 of `strides` are keys [K], values [V] and log decays [G, 1 or K].
   start: [K V], the state before.  states: [steps K V].  decays: [steps G]. */
static inline __attribute__((always_inline)) void decayed_sums(
    long b, long h, long first, long steps, long K, long G, const long *strides, const float *k, const float *v,
    const float *log_decay, const float *start, float *states, float *decays, long V) {
    for (long i = 0; i < steps; i++) {
        const long t = first + i;
        const float *k_ = k + place(strides, 1, b, h, t), *before = i ? states + (i - 1) * K * V : start;
        in v_ = v + place(strides, 2, b, h, t);
        exponentials(G, log_decay + place(strides, 3, b, h, t), decays + i * G);
        for (long n = 0; n < K; n++) {
            out s = states + (i * K + n) * V;
            in past = before + n * V;
            const float decay = decays[i * G + (G > 1 ? n : 0)], key = k_[n];
            SIDE_BY_SIDE
            for (long d = 0; d < V; d++) s[d] = decay * past[d] + key * v_[d];
        }
    }
}

static inline void add_scaled(long n, out sum, float factor, const float *x) {
    SIDE_BY_SIDE
    for (long i = 0; i < n; i++) sum[i] += factor * x[i];
}

static inline float product(long n, const float *a, const float *b) {
    float sum = 0;
    _Pragma("omp simd reduction(+ : sum)")
    for (long i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* A body that takes V, compiled once more for each usual width: its loops over V then have no ends to look for. */
#define BODY static inline __attribute__((always_inline)) void
#define OF_WIDTH(body, V, ...)                                 \
    do {                                                       \
        if (V == 8) body(__VA_ARGS__, 8);                      \
        else if (V == 16) body(__VA_ARGS__, 16);               \
        else if (V == 32) body(__VA_ARGS__, 32);               \
        else if (V == 64) body(__VA_ARGS__, 64);               \
        else body(__VA_ARGS__, V);                             \
    } while (0)
