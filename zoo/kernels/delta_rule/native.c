/* The gated delta rule and its gradients in float32, one head of one sequence after the other, step by step.

   B rows, H heads, T writes, K key channels, V value channels, n writes before each read (T = n reads), Q steps
   between two kept states, ceil(T / Q) of those.  strides: of q, k, v, beta, log_decay (and dy) along B, H and T, in
   scalars; their last dimension is contiguous.  y and the gradients have the strides of [B T H x], contiguous.
   Value channels are the inner loops, side by side; a head's state stays in the nearest cache.

   A step: P = decay S;  error = v - P^T k;  S = P + k (beta error)^T;  y = S^T q. */

#include "../common/native.h"

/* One write, from `past` into `state`, which may be the same; error: [V]. */
BODY write_one(long K, long V, float decay, float beta, in k, in v, const float *past, float *state, out error) {
    SIDE_BY_SIDE
    for (long d = 0; d < V; d++) error[d] = v[d];
    for (long i = 0; i < K; i++) add_scaled(V, error, -decay * k[i], past + i * V);
    for (long i = 0; i < K; i++) {
        const float *p = past + i * V, step = beta * k[i];
        float *s = state + i * V;
        SIDE_BY_SIDE
        for (long d = 0; d < V; d++) s[d] = decay * p[d] + step * error[d];
    }
}

/* state: [B H K V], the first one, then the last.  starts: [B H ceil(T/Q) K V].  scratch: V. */
BODY forward_of(long B, long H, long T, long K, long n, long Q, const long *strides, in q, in k, in v, in beta, in
                log_decay, out state, out starts, out y, float *scratch, long V) {
    for (long b = 0; b < B; b++)
        for (long h = 0; h < H; h++, state += K * V)
            for (long t = 0; t < T; t++) {
                if (t % Q == 0) {
                    memcpy(starts, state, sizeof(float) * K * V);
                    starts += K * V;
                }
                const float decay = power_of_two(log_decay[place(strides, 4, b, h, t)] * LOG2_E);
                write_one(K, V, decay, beta[place(strides, 3, b, h, t)], k + place(strides, 1, b, h, t),
                          v + place(strides, 2, b, h, t), state, state, scratch);
                if ((t + 1) % n) continue;
                const float *q_ = q + place(strides, 0, b, h, t / n);
                out y_ = y + ((b * (T / n) + t / n) * H + h) * V;
                memset(y_, 0, sizeof(float) * V);
                for (long i = 0; i < K; i++) add_scaled(V, y_, q_[i], state + i * V);
            }
}

/* owed: dLoss/d(last state), then of the first.  scratch: Q (K V + V + 1) + 5 V. */
BODY backward_of(long B, long H, long T, long K, long n, long Q, const long *strides, in q, in k, in v, in beta, in
                 log_decay, in dy, in starts, out owed, out dq, out dk, out dv, out dbeta, out dlog_decay, float
                 *scratch, long V) {
    const long size = K * V, blocks = (T + Q - 1) / Q;
    float *states = scratch, *errors = states + Q * size, *decays = errors + Q * V;
    out to_write = decays + Q, to_error = to_write + V, written = to_error + V, read = written + V, to_decay = read + V;
    for (long b = 0; b < B; b++)
        for (long h = 0; h < H; h++, owed += size, starts += blocks * size)
            for (long block = blocks - 1; block >= 0; block--) {
                const long first = block * Q, steps = first + Q < T ? Q : T - first;
                const float *start = starts + block * size;
                for (long i = 0; i < steps; i++) { /* the block once more, as forward */
                    const long t = first + i;
                    decays[i] = power_of_two(log_decay[place(strides, 4, b, h, t)] * LOG2_E);
                    write_one(K, V, decays[i], beta[place(strides, 3, b, h, t)], k + place(strides, 1, b, h, t),
                              v + place(strides, 2, b, h, t), i ? states + (i - 1) * size : start, states + i * size,
                              errors + i * V);
                }
                for (long i = steps - 1; i >= 0; i--) {
                    const long t = first + i, at = (b * T + t) * H + h;
                    const float *past = i ? states + (i - 1) * size : start, *state = states + i * size;
                    const float *k_ = k + place(strides, 1, b, h, t);
                    const float decay = decays[i], rate = beta[place(strides, 3, b, h, t)];
                    in error = errors + i * V;
                    if ((t + 1) % n == 0) { /* the read */
                        const float *q_ = q + place(strides, 0, b, h, t / n);
                        in dy_ = dy + place(strides, 5, b, h, t / n);
                        out dq_ = dq + ((b * (T / n) + t / n) * H + h) * K;
                        for (long c = 0; c < K; c++) {
                            dq_[c] = product(V, state + c * V, dy_);
                            add_scaled(V, owed + c * V, q_[c], dy_);
                        }
                    }
                    memset(to_write, 0, sizeof(float) * V); /* of beta error, the value that is written */
                    for (long c = 0; c < K; c++) add_scaled(V, to_write, k_[c], owed + c * V);
                    dbeta[at] = product(V, to_write, error);
                    SIDE_BY_SIDE
                    for (long d = 0; d < V; d++) {
                        dv[at * V + d] = to_error[d] = rate * to_write[d];
                        written[d] = rate * error[d];
                        read[d] = decay * to_error[d];
                        to_decay[d] = 0;
                    }
                    for (long c = 0; c < K; c++) { /* of S, then of P, then of the state before */
                        out g = owed + c * V;
                        const float *p = past + c * V, key = k_[c];
                        float to_key = 0; /* one sum a row, for what lies side by side is dear to add up */
                        _Pragma("omp simd reduction(+ : to_key)")
                        for (long d = 0; d < V; d++) {
                            const float left = decay * (g[d] - key * to_error[d]);
                            to_key += g[d] * written[d] - p[d] * read[d];
                            to_decay[d] += left * p[d];
                            g[d] = left;
                        }
                        dk[at * K + c] = to_key;
                    }
                    dlog_decay[at] = 0;
                    for (long d = 0; d < V; d++) dlog_decay[at] += to_decay[d];
                }
            }
}

void forward(long B, long H, long T, long K, long V, long n, long Q, const long *strides, in q, in k, in v, in beta,
             in log_decay, out state, out starts, out y, float *scratch) {
    OF_WIDTH(forward_of, V, B, H, T, K, n, Q, strides, q, k, v, beta, log_decay, state, starts, y, scratch);
}

void backward(long B, long H, long T, long K, long V, long n, long Q, const long *strides, in q, in k, in v, in beta,
              in log_decay, in dy, in starts, out owed, out dq, out dk, out dv, out dbeta, out dlog_decay,
              float *scratch) {
    OF_WIDTH(backward_of, V, B, H, T, K, n, Q, strides, q, k, v, beta, log_decay, dy, starts, owed, dq, dk, dv,
             dbeta, dlog_decay, scratch);
}
