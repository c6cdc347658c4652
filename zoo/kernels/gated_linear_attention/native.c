/* Gated linear attention and its gradients in float32, one head of one sequence after the other, step by step.

   B rows, H heads, T time, K key channels, V value channels, G decays of a head and step (1 or K), Q steps between
   two kept states, n = ceil(T / Q) of those.  strides: of q, k, v, log_decay (and dy) along B, H and T, in scalars;
   their last dimension is contiguous.  y and the gradients have the strides of [B T H x], as contiguous memory.
   Value channels are the inner loops, side by side; a head's state stays in the nearest cache. */

#include "../common/native.h"

/* state: [B H K V], the first one, then the last.  starts: [B H n K V].  scratch: G. */
BODY forward_of(long B, long H, long T, long K, long G, long Q, const long *strides, in q, in k, in v, in log_decay,
                out state, out starts, out y, float *scratch, long V) {
    for (long b = 0; b < B; b++)
        for (long h = 0; h < H; h++, state += K * V)
            for (long t = 0; t < T; t++) {
                const float *q_ = q + place(strides, 0, b, h, t), *k_ = k + place(strides, 1, b, h, t);
                in v_ = v + place(strides, 2, b, h, t);
                out y_ = y + ((b * T + t) * H + h) * V;
                if (t % Q == 0) {
                    memcpy(starts, state, sizeof(float) * K * V);
                    starts += K * V;
                }
                exponentials(G, log_decay + place(strides, 3, b, h, t), scratch);
                memset(y_, 0, sizeof(float) * V);
                for (long n = 0; n < K; n++) {
                    out s = state + n * V;
                    const float decay = scratch[G > 1 ? n : 0], key = k_[n], query = q_[n];
                    SIDE_BY_SIDE
                    for (long d = 0; d < V; d++) {
                        s[d] = decay * s[d] + key * v_[d];
                        y_[d] += query * s[d];
                    }
                }
            }
}

/* owed: dLoss/d(last state), then of the first.  scratch: Q (K V + G). */
BODY backward_of(long B, long H, long T, long K, long G, long Q, const long *strides, in q, in k, in v, in log_decay,
                 in dy, in starts, out owed, out dq, out dk, out dv, out dlog_decay, float *scratch, long V) {
    const long size = K * V, blocks = (T + Q - 1) / Q;
    float *states = scratch, *decays = states + Q * size;
    for (long b = 0; b < B; b++)
        for (long h = 0; h < H; h++, owed += size, starts += blocks * size)
            for (long block = blocks - 1; block >= 0; block--) {
                const long first = block * Q, steps = first + Q < T ? Q : T - first;
                const float *start = starts + block * size;
                decayed_sums(b, h, first, steps, K, G, strides, k, v, log_decay, start, states, decays, V);
                for (long i = steps - 1; i >= 0; i--) {
                    const long t = first + i, at = (b * T + t) * H + h;
                    const float *q_ = q + place(strides, 0, b, h, t), *k_ = k + place(strides, 1, b, h, t);
                    const float *before = i ? states + (i - 1) * size : start;
                    in v_ = v + place(strides, 2, b, h, t), dy_ = dy + place(strides, 4, b, h, t);
                    out dv_ = dv + at * V, dlog_ = dlog_decay + at * G;
                    memset(dv_, 0, sizeof(float) * V);
                    memset(dlog_, 0, sizeof(float) * G);
                    for (long n = 0; n < K; n++) {
                        out g = owed + n * V;
                        in s = states + i * size + n * V, past = before + n * V;
                        const float decay = decays[i * G + (G > 1 ? n : 0)], key = k_[n], query = q_[n];
                        float to_query = 0, to_key = 0, to_decay = 0;
                        _Pragma("omp simd reduction(+ : to_query, to_key, to_decay)")
                        for (long d = 0; d < V; d++) {
                            const float here = g[d] + query * dy_[d], left = here * decay;
                            to_query += s[d] * dy_[d];
                            to_key += here * v_[d];
                            to_decay += left * past[d];
                            dv_[d] += here * key;
                            g[d] = left;
                        }
                        dq[at * K + n] = to_query;
                        dk[at * K + n] = to_key;
                        dlog_[G > 1 ? n : 0] += to_decay;
                    }
                }
            }
}

void forward(long B, long H, long T, long K, long V, long G, long Q, const long *strides, in q, in k, in v,
             in log_decay, out state, out starts, out y, float *scratch) {
    OF_WIDTH(forward_of, V, B, H, T, K, G, Q, strides, q, k, v, log_decay, state, starts, y, scratch);
}

void backward(long B, long H, long T, long K, long V, long G, long Q, const long *strides, in q, in k, in v,
              in log_decay, in dy, in starts, out owed, out dq, out dk, out dv, out dlog_decay, float *scratch) {
    OF_WIDTH(backward_of, V, B, H, T, K, G, Q, strides, q, k, v, log_decay, dy, starts, owed, dq, dk, dv,
             dlog_decay, scratch);
}
