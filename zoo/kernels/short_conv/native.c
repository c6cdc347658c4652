/* The short convolution and its gradients in float32: each input is read from memory once.

   T outputs, S = lead + T inputs, C channels, K taps; output t sees the inputs t + lead - r >= 0 of taps r.
   All is contiguous: past [rows S C], weight [K C], bias [C], y [rows T C].  Channels are the inner loops. */

#include "../common/native.h"

static inline long at_most(long a, long b) { return a < b ? a : b; }

static inline void add_product(long C, out sum, in a, in b) {
    SIDE_BY_SIDE
    for (long c = 0; c < C; c++) sum[c] += a[c] * b[c];
}

void conv_forward(long rows, long T, long C, long K, long lead, in past, in weight, in bias, out y) {
    for (long row = 0; row < rows; row++, past += (lead + T) * C)
        for (long t = 0; t < T; t++, y += C) {
            memcpy(y, bias, sizeof(float) * C);
            for (long r = at_most(K - 1, t + lead); r >= 0; r--) add_product(C, y, past + (t + lead - r) * C, weight + r * C);
        }
}

/* dweight and dbias are added to.  scratch: (K + 1) C, a row's share of the two: a sum of all in one loses digits. */
void conv_backward(long rows, long T, long C, long K, long lead, in past, in weight, in dy, out dpast, out dweight,
                   out dbias, float *scratch) {
    const long S = lead + T;
    float *own = scratch, *own_bias = own + K * C;
    for (long row = 0; row < rows; row++, past += S * C, dy += T * C, dpast += S * C) {
        memset(own, 0, sizeof(float) * (K + 1) * C);
        memset(dpast, 0, sizeof(float) * S * C);
        for (long t = 0; t < T; t++) {
            in here = dy + t * C;
            SIDE_BY_SIDE
            for (long c = 0; c < C; c++) own_bias[c] += here[c];
            for (long r = at_most(K - 1, t + lead); r >= 0; r--) {
                const long s = (t + lead - r) * C;
                add_product(C, dpast + s, here, weight + r * C);
                add_product(C, own + r * C, here, past + s);
            }
        }
        for (long i = 0; i < K * C; i++) dweight[i] += own[i];
        for (long c = 0; c < C; c++) dbias[c] += own_bias[c];
    }
}
