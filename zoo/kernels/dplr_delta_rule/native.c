/* The diagonal-plus-low-rank delta rule and its gradients in float32, one head of one sequence after the other, step
   by step.

   B rows, H heads, T time, K key channels, V value channels, Q steps between two kept states, ceil(T / Q) of those
   (n is not used).  strides: of q, k, v, a, b, log_decay (and dy) along B, H and T, in scalars; their last dimension is
   contiguous.  y and the gradients have the strides of [B T H x], contiguous.
   Value channels are the inner loops, side by side; a head's state stays in the nearest cache.

   A step: u = S^T a;  S = diag(decay) S + b u^T + k v^T;  y = S^T q. */

#include "../common/native.h"

/* One step, from `past` into `state`, which may be the same; decay: [K], u: [V], y: [V] or none. */
BODY step_once(long K, long V, in log_decay, in q, in k, in v, in a, in b, const float *past, float *state,
                             out decay, out u, out y) {
    exponentials(K, log_decay, decay);
    memset(u, 0, sizeof(float) * V);
    for (long i = 0; i < K; i++) add_scaled(V, u, a[i], past + i * V);
    for (long i = 0; i < K; i++) {
        const float *p = past + i * V, kept = decay[i], erased = b[i], key = k[i];
        float *s = state + i * V;
        SIDE_BY_SIDE
        for (long d = 0; d < V; d++) s[d] = kept * p[d] + erased * u[d] + key * v[d];
    }
    if (!y) return;
    memset(y, 0, sizeof(float) * V);
    for (long i = 0; i < K; i++) add_scaled(V, y, q[i], state + i * V);
}

/* state: [B H K V], the first one, then the last.  starts: [B H ceil(T/Q) K V].  scratch: K + V. */
BODY forward_of(long B, long H, long T, long K, long n, long Q, const long *strides, in q, in k, in v, in a, in b, in
                log_decay, out state, out starts, out y, float *scratch, long V) {
    for (long row = 0; row < B; row++)
        for (long h = 0; h < H; h++, state += K * V)
            for (long t = 0; t < T; t++) {
                if (t % Q == 0) {
                    memcpy(starts, state, sizeof(float) * K * V);
                    starts += K * V;
                }
                step_once(K, V, log_decay + place(strides, 5, row, h, t), q + place(strides, 0, row, h, t),
                          k + place(strides, 1, row, h, t), v + place(strides, 2, row, h, t),
                          a + place(strides, 3, row, h, t), b + place(strides, 4, row, h, t), state, state, scratch,
                          scratch + K, y + ((row * T + t) * H + h) * V);
            }
}

/* owed: dLoss/d(last state), then of the first.  scratch: Q (K V + K + V) + V. */
BODY backward_of(long B, long H, long T, long K, long n, long Q, const long *strides, in q, in k, in v, in a, in b, in
                 log_decay, in dy, in starts, out owed, out dq, out dk, out dv, out da, out db, out dlog_decay, float
                 *scratch, long V) {
    const long size = K * V, blocks = (T + Q - 1) / Q;
    float *states = scratch, *decays = states + Q * size, *us = decays + Q * K, *du = us + Q * V;
    for (long row = 0; row < B; row++)
        for (long h = 0; h < H; h++, owed += size, starts += blocks * size)
            for (long block = blocks - 1; block >= 0; block--) {
                const long first = block * Q, steps = first + Q < T ? Q : T - first;
                const float *start = starts + block * size;
                for (long i = 0; i < steps; i++) { /* the block once more, as forward */
                    const long t = first + i;
                    step_once(K, V, log_decay + place(strides, 5, row, h, t), 0, k + place(strides, 1, row, h, t),
                              v + place(strides, 2, row, h, t), a + place(strides, 3, row, h, t),
                              b + place(strides, 4, row, h, t), i ? states + (i - 1) * size : start, states + i * size,
                              decays + i * K, us + i * V, 0);
                }
                for (long i = steps - 1; i >= 0; i--) {
                    const long t = first + i, at = (row * T + t) * H + h;
                    const float *past = i ? states + (i - 1) * size : start, *state = states + i * size;
                    const float *q_ = q + place(strides, 0, row, h, t), *k_ = k + place(strides, 1, row, h, t);
                    const float *a_ = a + place(strides, 3, row, h, t), *b_ = b + place(strides, 4, row, h, t);
                    in v_ = v + place(strides, 2, row, h, t), dy_ = dy + place(strides, 6, row, h, t), u = us + i * V;
                    out dv_ = dv + at * V;
                    memset(dv_, 0, sizeof(float) * V);
                    memset(du, 0, sizeof(float) * V);
                    for (long c = 0; c < K; c++) { /* of S */
                        out g = owed + c * V;
                        in s = state + c * V;
                        const float query = q_[c], key = k_[c], erased = b_[c];
                        float read = 0, written = 0, taken = 0;
                        _Pragma("omp simd reduction(+ : read, written, taken)")
                        for (long d = 0; d < V; d++) {
                            const float here = g[d] + query * dy_[d];
                            read += s[d] * dy_[d];
                            written += here * v_[d];
                            taken += here * u[d];
                            dv_[d] += key * here;
                            du[d] += erased * here;
                            g[d] = here;
                        }
                        dq[at * K + c] = read;
                        dk[at * K + c] = written;
                        db[at * K + c] = taken;
                    }
                    for (long c = 0; c < K; c++) { /* of the state before */
                        out g = owed + c * V;
                        in p = past + c * V;
                        const float kept = decays[i * K + c], asked = a_[c];
                        float to_decay = 0, to_a = 0;
                        _Pragma("omp simd reduction(+ : to_decay, to_a)")
                        for (long d = 0; d < V; d++) {
                            to_decay += g[d] * p[d];
                            to_a += p[d] * du[d];
                            g[d] = kept * g[d] + asked * du[d];
                        }
                        da[at * K + c] = to_a;
                        dlog_decay[at * K + c] = kept * to_decay;
                    }
                }
            }
}

void forward(long B, long H, long T, long K, long V, long n, long Q, const long *strides, in q, in k, in v, in a, in b,
             in log_decay, out state, out starts, out y, float *scratch) {
    OF_WIDTH(forward_of, V, B, H, T, K, n, Q, strides, q, k, v, a, b, log_decay, state, starts, y, scratch);
}

void backward(long B, long H, long T, long K, long V, long n, long Q, const long *strides, in q, in k, in v, in a, in b,
              in log_decay, in dy, in starts, out owed, out dq, out dk, out dv, out da, out db, out dlog_decay,
              float *scratch) {
    OF_WIDTH(backward_of, V, B, H, T, K, n, Q, strides, q, k, v, a, b, log_decay, dy, starts, owed, dq, dk, dv,
             da, db, dlog_decay, scratch);
}
