/* The selective scan and its gradients in float32, one sequence after the other, one step at a time.

   T time, N state, D channels, Q steps between two kept states, K = ceil(T / Q) kept states of a sequence.
   All is contiguous: x, dt, y [rows T D], A [N D], B, C [rows T N], h [rows N D], starts [rows K N D].
   Channels are the inner loops, side by side; a sequence's state stays in the nearest cache. */

#include "../common/native.h"

/* What a step adds to the state, u = dt x, and the exponent that its decay is a power of two of, over A. */
static inline void begin(long D, in x, in dt, out u, out rate) {
    SIDE_BY_SIDE
    for (long d = 0; d < D; d++) {
        u[d] = dt[d] * x[d];
        rate[d] = dt[d] * LOG2_E;
    }
}

/* h: the first state, then the last one.  scratch: 2 D. */
void scan_forward(long rows, long T, long N, long D, long Q, in x, in dt, in A, in B, in C, out h, out starts, out y,
                  float *scratch) {
    float *u = scratch, *rate = u + D;
    for (long row = 0; row < rows; row++, h += N * D)
        for (long t = 0; t < T; t++, x += D, dt += D, B += N, C += N, y += D) {
            if (t % Q == 0) {
                memcpy(starts, h, sizeof(float) * N * D);
                starts += N * D;
            }
            begin(D, x, dt, u, rate);
            memset(y, 0, sizeof(float) * D);
            for (long n = 0; n < N; n++) {
                float *state = h + n * D;
                in a = A + n * D;
                const float b = B[n], c = C[n];
                SIDE_BY_SIDE
                for (long d = 0; d < D; d++) {
                    state[d] = power_of_two(rate[d] * a[d]) * state[d] + u[d] * b;
                    y[d] += c * state[d];
                }
            }
        }
}

/* owed: dLoss/d(last state), then of the first.  dA is added to.  scratch: (2 Q + 1) N D + 4 D. */
void scan_backward(long rows, long T, long N, long D, long Q, in x, in dt, in A, in B, in C, in starts, in dy, out owed,
                   out dx, out ddt, out dA, out dB, out dC, float *scratch) {
    const long size = N * D, K = (T + Q - 1) / Q;
    float *own = scratch, *decays = own + size, *states = decays + Q * size, *u = states + Q * size, *rate = u + D;
    float *du = rate + D, *dexponent = du + D; /* own: the row's part of dA, as a sum of all in one would lose digits */
    for (long row = 0; row < rows; row++, owed += size) {
        memset(own, 0, sizeof(float) * size);
        for (long k = K - 1; k >= 0; k--) {
            const float *start = starts + (row * K + k) * size;
            const long first = k * Q, steps = first + Q < T ? Q : T - first;
            for (long q = 0; q < steps; q++) { /* the block once more, as forward */
                const long at = row * T + first + q;
                const float *before = q ? states + (q - 1) * size : start;
                begin(D, x + at * D, dt + at * D, u, rate);
                for (long n = 0; n < N; n++) {
                    float *decay = decays + q * size + n * D, *state = states + q * size + n * D;
                    const float *a = A + n * D, *past = before + n * D, b = B[at * N + n];
                    SIDE_BY_SIDE
                    for (long d = 0; d < D; d++) {
                        decay[d] = power_of_two(rate[d] * a[d]);
                        state[d] = decay[d] * past[d] + u[d] * b;
                    }
                }
            }
            for (long q = steps - 1; q >= 0; q--) {
                const long at = row * T + first + q;
                const float *before = q ? states + (q - 1) * size : start;
                const float *x_ = x + at * D, *dt_ = dt + at * D, *dy_ = dy + at * D;
                begin(D, x_, dt_, u, rate);
                memset(du, 0, sizeof(float) * 2 * D);
                for (long n = 0; n < N; n++) {
                    const float *decay = decays + q * size + n * D, *state = states + q * size + n * D;
                    const float *a = A + n * D, *past = before + n * D, b = B[at * N + n], c = C[at * N + n];
                    float *g = owed + n * D, *dA_ = own + n * D, db = 0, dc = 0;
                    _Pragma("omp simd reduction(+ : db, dc)")
                    for (long d = 0; d < D; d++) {
                        const float here = g[d] + c * dy_[d], left = here * decay[d], exponent = left * past[d];
                        dc += state[d] * dy_[d];
                        db += here * u[d];
                        du[d] += here * b;
                        g[d] = left;
                        dexponent[d] += exponent * a[d];
                        dA_[d] += exponent * dt_[d];
                    }
                    dB[at * N + n] = db;
                    dC[at * N + n] = dc;
                }
                SIDE_BY_SIDE
                for (long d = 0; d < D; d++) {
                    dx[at * D + d] = du[d] * dt_[d];
                    ddt[at * D + d] = dexponent[d] + du[d] * x_[d];
                }
            }
        }
        for (long i = 0; i < size; i++) dA[i] += own[i];
    }
}
