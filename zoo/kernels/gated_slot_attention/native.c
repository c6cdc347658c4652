/* The logits of gated slot attention and their gradients in float32, one head of one sequence after the other,
   step by step: gated linear attention's state, where a row is a slot's key, and a query reads every row.

   B rows, H heads, T time, M slots, Q steps between two kept states, n = ceil(T / Q) of those, V key channels.
   strides: of q, write, k, log_decay (and dy) along B, H and T, in scalars; their last dimension is contiguous.
   y and the gradients have the strides of [B T H x], as contiguous memory.  Key channels are the inner loops. */

#include "../common/native.h"

/* state: [B H M V], the first one, then the last.  starts: [B H n M V].  scratch: M. */
BODY forward_of(long B, long H, long T, long M, long Q, const long *strides, in q, in write, in k, in log_decay,
                out state, out starts, out y, float *scratch, long V) {
    for (long b = 0; b < B; b++)
        for (long h = 0; h < H; h++, state += M * V)
            for (long t = 0; t < T; t++) {
                in q_ = q + place(strides, 0, b, h, t), k_ = k + place(strides, 2, b, h, t);
                const float *write_ = write + place(strides, 1, b, h, t);
                out y_ = y + ((b * T + t) * H + h) * M;
                if (t % Q == 0) {
                    memcpy(starts, state, sizeof(float) * M * V);
                    starts += M * V;
                }
                exponentials(M, log_decay + place(strides, 3, b, h, t), scratch);
                for (long m = 0; m < M; m++) {
                    out s = state + m * V;
                    const float decay = scratch[m], share = write_[m];
                    float sum = 0;
                    _Pragma("omp simd reduction(+ : sum)")
                    for (long d = 0; d < V; d++) {
                        s[d] = decay * s[d] + share * k_[d];
                        sum += q_[d] * s[d];
                    }
                    y_[m] = sum;
                }
            }
}

/* owed: dLoss/d(last state), then of the first.  scratch: Q (M V + M). */
BODY backward_of(long B, long H, long T, long M, long Q, const long *strides, in q, in write, in k, in log_decay,
                 in dy, in starts, out owed, out dq, out dwrite, out dk, out dlog_decay, float *scratch, long V) {
    const long size = M * V, blocks = (T + Q - 1) / Q;
    float *states = scratch, *decays = states + Q * size;
    for (long b = 0; b < B; b++)
        for (long h = 0; h < H; h++, owed += size, starts += blocks * size)
            for (long block = blocks - 1; block >= 0; block--) {
                const long first = block * Q, steps = first + Q < T ? Q : T - first;
                const float *start = starts + block * size;
                decayed_sums(b, h, first, steps, M, M, strides, write, k, log_decay, start, states, decays, V);
                for (long i = steps - 1; i >= 0; i--) {
                    const long t = first + i, at = (b * T + t) * H + h;
                    const float *write_ = write + place(strides, 1, b, h, t), *dy_ = dy + place(strides, 4, b, h, t);
                    const float *before = i ? states + (i - 1) * size : start;
                    in q_ = q + place(strides, 0, b, h, t), k_ = k + place(strides, 2, b, h, t);
                    out dq_ = dq + at * V, dk_ = dk + at * V;
                    memset(dq_, 0, sizeof(float) * V);
                    memset(dk_, 0, sizeof(float) * V);
                    for (long m = 0; m < M; m++) {
                        out g = owed + m * V;
                        in s = states + i * size + m * V, past = before + m * V;
                        const float decay = decays[i * M + m], share = write_[m], logit = dy_[m];
                        float to_write = 0, to_decay = 0;
                        _Pragma("omp simd reduction(+ : to_write, to_decay)")
                        for (long d = 0; d < V; d++) {
                            const float here = g[d] + logit * q_[d], left = here * decay;
                            to_write += here * k_[d];
                            to_decay += left * past[d];
                            dq_[d] += logit * s[d];
                            dk_[d] += here * share;
                            g[d] = left;
                        }
                        dwrite[at * M + m] = to_write;
                        dlog_decay[at * M + m] = to_decay;
                    }
                }
            }
}

void forward(long B, long H, long T, long M, long V, long one, long Q, const long *strides, in q, in write, in k,
             in log_decay, out state, out starts, out y, float *scratch) {
    OF_WIDTH(forward_of, V, B, H, T, M, Q, strides, q, write, k, log_decay, state, starts, y, scratch);
}

void backward(long B, long H, long T, long M, long V, long one, long Q, const long *strides, in q, in write, in k,
              in log_decay, in dy, in starts, out owed, out dq, out dwrite, out dk, out dlog_decay, float *scratch) {
    OF_WIDTH(backward_of, V, B, H, T, M, Q, strides, q, write, k, log_decay, dy, starts, owed, dq, dwrite, dk,
             dlog_decay, scratch);
}
