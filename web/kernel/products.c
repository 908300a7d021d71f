/* The products of the page, in WebAssembly SIMD. All arrays lie in the memory that the page gives. */

#include <wasm_simd128.h>

#define KERNEL(name) __attribute__((export_name(#name))) void name
#define LOAD(from) wasm_v128_load(from)
#define ADD(sum, a, b) sum = wasm_f32x4_add(sum, wasm_f32x4_mul(a, b))

static float sum_of(v128_t v) {
  return wasm_f32x4_extract_lane(v, 0) + wasm_f32x4_extract_lane(v, 1) + wasm_f32x4_extract_lane(v, 2) +
         wasm_f32x4_extract_lane(v, 3);
}

static float dot(const float *a, const float *b, int count) {
  v128_t sum = wasm_f32x4_splat(0);
  int i = 0;
  for (; i + 4 <= count; i += 4) ADD(sum, LOAD(a + i), LOAD(b + i));
  float total = sum_of(sum);
  for (; i < count; i++) total += a[i] * b[i];
  return total;
}

/* y (rows, out) = x (rows, in) · w (out, in)ᵀ + bias (out); bias may be null. Blocks of four rows and two outputs, or of
   one row and four outputs, so that what is loaded is used several times. */
KERNEL(linear)(const float *x, const float *w, const float *bias, float *y, int rows, int in, int out) {
  const int even = in & ~3;
  int row = 0;
  for (; row + 4 <= rows; row += 4) {
    const float *a = x + row * in, *b = a + in, *c = b + in, *d = c + in;
    float *to = y + row * out;
    int o = 0;
    for (; o + 2 <= out; o += 2) {
      const float *p = w + o * in, *q = p + in;
      v128_t ap = wasm_f32x4_splat(0), bp = ap, cp = ap, dp = ap, aq = ap, bq = ap, cq = ap, dq = ap;
      for (int i = 0; i < even; i += 4) {
        const v128_t wp = LOAD(p + i), wq = LOAD(q + i), xa = LOAD(a + i), xb = LOAD(b + i), xc = LOAD(c + i),
                     xd = LOAD(d + i);
        ADD(ap, wp, xa), ADD(bp, wp, xb), ADD(cp, wp, xc), ADD(dp, wp, xd);
        ADD(aq, wq, xa), ADD(bq, wq, xb), ADD(cq, wq, xc), ADD(dq, wq, xd);
      }
      float sums[8] = {sum_of(ap), sum_of(bp), sum_of(cp), sum_of(dp), sum_of(aq), sum_of(bq), sum_of(cq), sum_of(dq)};
      for (int r = 0; r < 4; r++) {
        const float *own = a + r * in;
        for (int i = even; i < in; i++) sums[r] += p[i] * own[i], sums[4 + r] += q[i] * own[i];
        to[r * out + o] = sums[r] + (bias ? bias[o] : 0);
        to[r * out + o + 1] = sums[4 + r] + (bias ? bias[o + 1] : 0);
      }
    }
    for (; o < out; o++) {
      for (int r = 0; r < 4; r++) to[r * out + o] = dot(a + r * in, w + o * in, in) + (bias ? bias[o] : 0);
    }
  }
  for (; row < rows; row++) {
    const float *a = x + row * in;
    float *to = y + row * out;
    int o = 0;
    for (; o + 4 <= out; o += 4) {
      const float *p = w + o * in, *q = p + in, *r = q + in, *s = r + in;
      v128_t sp = wasm_f32x4_splat(0), sq = sp, sr = sp, ss = sp;
      for (int i = 0; i < even; i += 4) {
        const v128_t own = LOAD(a + i);
        ADD(sp, own, LOAD(p + i)), ADD(sq, own, LOAD(q + i)), ADD(sr, own, LOAD(r + i)), ADD(ss, own, LOAD(s + i));
      }
      float sums[4] = {sum_of(sp), sum_of(sq), sum_of(sr), sum_of(ss)};
      for (int k = 0; k < 4; k++) {
        for (int i = even; i < in; i++) sums[k] += a[i] * p[k * in + i];
        to[o + k] = sums[k] + (bias ? bias[o + k] : 0);
      }
    }
    for (; o < out; o++) to[o] = dot(a, w + o * in, in) + (bias ? bias[o] : 0);
  }
}

/* scores (count) = scale · (keys · q), where the keys (size) of the positions stand `stride` numbers apart. */
KERNEL(dots)(const float *q, const float *keys, float *scores, float scale, int count, int stride, int size) {
  for (int s = 0; s < count; s++) scores[s] = scale * dot(q, keys + s * stride, size);
}

/* y (size) = Σ weights (count) · values, which stand `stride` numbers apart. */
KERNEL(weighted)(const float *weights, const float *values, float *y, int count, int stride, int size) {
  int d = 0;
  for (; d + 4 <= size; d += 4) {
    v128_t sum = wasm_f32x4_splat(0);
    for (int s = 0; s < count; s++) ADD(sum, wasm_f32x4_splat(weights[s]), LOAD(values + s * stride + d));
    wasm_v128_store(y + d, sum);
  }
  for (; d < size; d++) {
    float sum = 0;
    for (int s = 0; s < count; s++) sum += weights[s] * values[s * stride + d];
    y[d] = sum;
  }
}
